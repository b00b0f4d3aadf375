"""The scales and zeros of the groups of a stage."""

from typing import Any

import weft.language as w
from weft.int4.kernels.layout import ROWS


def loaded(slot: Any, name: str, groups: list[Any]) -> list[Any]:
    """The scales or zeros of groups, vectors of 64 rows."""
    if name not in slot.ring.kinds:
        return [8] * len(groups)
    like, buffer = w.zeros(ROWS, slot.x.dtype), getattr(slot, name)
    return [w.load_column(buffer.columns(ROWS * each, ROWS), like=like) for each in groups]
