"""Weft's dialects. `context()` gives an MLIR context that knows them all."""

import io
from typing import Any

from weft import locks
from weft.dialects.instruction import InstructionOp
from weft.dialects.mma import Mma
from weft.dialects.tcgen05 import Tcgen05
from weft.dialects.tile import Tile
from weft.dialects.wgmma import Wgmma
from weft.dialects.wmma import Wmma
from weft.mlir import find_dialects_in, hand_out_all_attributes, ir, irdl

DIALECTS: tuple[Any, ...] = (Tile, Wmma, Mma, Wgmma, Tcgen05)
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
        _load()
    return made


# `load` keeps the module that it works on in the class, where another thread would replace it meanwhile.
_lock = locks.reentrant()

_as_irdl: list[bytes] = []
"""The definitions of the dialects in MLIR's bytecode, from when the first context was made."""


def _load() -> None:
    """Loads the dialects into the current context. A signal handler may do the same meanwhile."""
    if not _as_irdl:
        _as_irdl[:] = [_load_classes(dialect) for dialect in DIALECTS]
        return
    # Bytecode is read in a fifth of the time that it takes to make a module from the classes.
    for dialect, definitions in zip(DIALECTS, _as_irdl, strict=True):
        irdl.load_dialects(ir.Module.parse(definitions))
        for op in dialect.operations:
            op._attach_traits()
        # Each context has type ids of its own for these.
        for kind in dialect.types:
            ir.register_type_caster(ir.DynamicType.lookup_typeid(kind.type_name), replace=True)(kind)
        for kind in dialect.attributes:
            ir.register_type_caster(ir.DynamicAttr.lookup_typeid(kind.attr_name), replace=True)(kind)


def _load_classes(dialect: Any) -> bytes:
    """Loads a dialect as upstream does, and returns the definitions that were made from its classes."""
    before = dialect.__dict__.get("_mlir_module")
    written = io.BytesIO()
    try:
        dialect.load()
        dialect._mlir_module.operation.write_bytecode(written)
    finally:
        dialect._mlir_module = before  # or the class would keep the context
    return written.getvalue()
