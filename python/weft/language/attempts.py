"""Operations that are built to see what a value is, and built again where they run."""

from weft.language import trace
from weft.mlir import ir
from weft.passes.builders import emit


class Attempt:
    """What is built from now on, until it is kept or discarded. Outside of kernels nothing is."""

    def __init__(self) -> None:
        self._first = emit.constant(emit.i32(), 0).owner if trace.is_tracing() else None
        self._loads = len(trace.current().loads) if trace.is_tracing() else 0

    def keep(self) -> None:
        """Leaves the operations where they are."""
        if self._first is not None:
            self._first.erase()

    def discard(self) -> None:
        """Erases the operations: those with effects would run once more."""
        point = ir.InsertionPoint.current
        built = list(point.block.operations)
        end = len(built) if point.ref_operation is None else built.index(point.ref_operation)
        del trace.current().loads[self._loads :]
        for each in reversed(built[built.index(self._first) : end]):
            each.operation.erase()
