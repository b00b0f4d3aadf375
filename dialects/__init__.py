"""Weft's dialects. `context()` gives an MLIR context that knows them all."""

from typing import Any

from weft import locks
from weft.dialects.instruction import InstructionOp
from weft.dialects.mma import Mma
from weft.dialects.tcgen05 import Tcgen05
from weft.dialects.tile import Tile
from weft.dialects.wgmma import Wgmma
from weft.dialects.wmma import Wmma
from weft.mlir import find_dialects_in, hand_out_all_attributes, ir

DIALECTS = (Tile, Wmma, Mma, Wgmma, Tcgen05)
find_dialects_in(__name__, [dialect.DIALECT_NAMESPACE for dialect in DIALECTS])
INSTRUCTION_OPS = tuple(
    op for dialect in DIALECTS for op in dialect.operations if issubclass(op, InstructionOp)
)
"""The operations that spell one instruction."""


def context() -> Any:
    """A new MLIR context with upstream's dialects and Weft's, in any thread. Use it in one thread at a time.

    MLIR starts no threads in it: they would call the Python-defined verifiers without holding the GIL.
    """
    made = ir.Context()
    made.enable_multithreading(False)
    with made, _lock:
        hand_out_all_attributes()
        for dialect in DIALECTS:
            _load(dialect)
    return made


# `load` keeps the module that it works on in the class, where another thread would replace it meanwhile.
_lock = locks.reentrant()


def _load(dialect: Any) -> None:
    """Loads a dialect into the current context. A signal handler may do the same meanwhile."""
    before = dialect.__dict__.get("_mlir_module")
    try:
        dialect.load()
    finally:
        dialect._mlir_module = before  # or the class would keep the context
