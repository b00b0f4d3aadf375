"""The functions that become plain kernels: how they are marked."""

from typing import Any

PLAIN = "weft.plain"


def is_plain(function: Any) -> bool:
    """Whether a function becomes a plain kernel, by `--outline-linalg`."""
    return PLAIN in function.operation.attributes
