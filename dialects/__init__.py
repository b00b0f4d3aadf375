"""Weft's dialects. `context()` gives an MLIR context that knows them all."""

from typing import Any

from weft.dialects.instruction import InstructionOp
from weft.dialects.mma import Mma
from weft.dialects.tcgen05 import Tcgen05
from weft.dialects.tile import Tile
from weft.dialects.wgmma import Wgmma
from weft.dialects.wmma import Wmma
from weft.mlir import find_dialects_in, hand_out_all_attributes, ir

find_dialects_in(__name__)

DIALECTS = (Tile, Wmma, Mma, Wgmma, Tcgen05)
INSTRUCTION_OPS = tuple(
    op for dialect in DIALECTS for op in dialect.operations if issubclass(op, InstructionOp)
)
"""The operations that spell one instruction."""


def context() -> Any:
    """A new MLIR context with upstream's dialects and Weft's."""
    made = ir.Context()
    with made:
        hand_out_all_attributes()
        for dialect in DIALECTS:
            dialect.load()
    return made
