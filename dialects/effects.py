"""The effects of operations on memory, for MLIR's passes that delete, merge and move operations.

An operation that waits, signals, fences, or starts work for which another one waits is `ORDERS`: it reads and
writes all memory, so that nothing that accesses memory moves across it. Registers with names, which no SSA
value stands for, are memory too. An operation with a region is `ORDERS` as a whole; the operations in it have
their own effects.

Products of a warp are pure, although its lanes must execute them together: MLIR has no notion of that, and
its own `gpu.shuffle` is pure, too. `control-flow-sink`, which moves pure operations into branches, must not
run on kernels.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from weft.errors import WeftError
from weft.mlir import ext, ir, llvm

Pure = ext.Pure
ALL = "all memory"
_MEMORY = (ir.MemRefType, ir.UnrankedMemRefType, llvm.PointerType, ir.DynamicType)


@dataclass(frozen=True)
class Effects:
    """A trait: the operands in which an operation reads and writes memory, and the results that it allocates.

    Names are those of fields. Operands in registers don't count: numbers and vectors, and values of a type
    of a Python-defined dialect whose class has an attribute `is_memory` that is false.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    allocates: tuple[str, ...] = ()

    def check_names(self, op: str, fields: Sequence[str]) -> None:
        """Raises WeftError for a name that isn't one of the fields of an operation."""
        for name in (*self.reads, *self.writes, *self.allocates):
            if name not in (ALL, *fields):
                legal = ", ".join(fields) or "none"
                raise WeftError(f"'{op}' has no field '{name}' for an effect: it has {legal}")

    def attach(self, op_name: str) -> None:
        """Tells MLIR, in the current context, that operations of this name have these effects. Of bindings of
        LLVM 23, which can't be told, MLIR takes all operations that aren't pure for ones that do anything.
        """
        if not hasattr(ir, "MemoryEffect"):
            return
        interface: Any = type("Interface", (ir.MemoryEffectsOpInterface,), {"get_effects": self._append})
        interface.attach(op_name)

    def _append(self, op: ir.OpView, effects: Any) -> None:
        for effect, names in ((ir.MemoryEffect.Read, self.reads), (ir.MemoryEffect.Write, self.writes)):
            for name in names:
                for target in [None] if name == ALL else _in_memory(op, name):
                    effects.append(effect, target)
        for name in self.allocates:
            effects.append(ir.MemoryEffect.Allocate, getattr(op, name))


def _in_memory(op: ir.OpView, name: str) -> Iterator[ir.Value]:
    """The operands of a field that are in memory."""
    field = getattr(op, name)
    values = [] if field is None else [field] if isinstance(field, ir.Value) else list(field)
    for operand in op.operation.op_operands:
        value = op.operation.operands[operand.operand_number]
        if value in values and getattr(value.type, "is_memory", isinstance(value.type, _MEMORY)):
            yield operand


def reads(*operands: str) -> Effects:
    """Memory is read in these operands."""
    return Effects(reads=operands)


def writes(*operands: str) -> Effects:
    """Memory is written in these operands."""
    return Effects(writes=operands)


def allocates(*results: str) -> Effects:
    """These results are new memory."""
    return Effects(allocates=results)


ORDERS = Effects(reads=(ALL,), writes=(ALL,))
