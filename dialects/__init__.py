"""Weft's dialects. `context()` gives an MLIR context that knows them all."""

from typing import Any

from weft.dialects.mma import Mma
from weft.dialects.tile import Tile
from weft.mlir import find_dialects_in, ir

find_dialects_in(__name__)

DIALECTS = (Tile, Mma)


def context() -> Any:
    """A new MLIR context with upstream's dialects and Weft's."""
    made = ir.Context()
    with made:
        for dialect in DIALECTS:
            dialect.load()
    return made
