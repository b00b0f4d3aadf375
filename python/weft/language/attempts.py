"""Operations that are built to see what a value is, and built again where they run."""

from typing import Any

from weft.language import trace, traced_now
from weft.language.regions import Region
from weft.mlir import ir
from weft.passes.builders import emit


class Attempt:
    """What is built from now on, and what changes in place, until it is kept or discarded. Outside of kernels
    nothing is.
    """

    def __init__(self, scope: dict[str, Any]) -> None:
        self._first = None
        if traced_now.is_tracing():
            current = trace.current()
            self._first = emit.constant(emit.i32(), 0).owner
            self._noted = [(each, len(each)) for each in current.operations()]
            self._state = current.state()
            self._region = Region(scope)

    def keep(self) -> None:
        """Leaves the operations where they are."""
        if self._first is not None:
            self._first.erase()

    def discard(self) -> None:
        """Erases the operations: those with effects would run once more. Raises WeftError if objects have
        changed that aren't made in the kernel.
        """
        self._region.changes()
        self._region.restore()
        point = ir.InsertionPoint.current
        built = list(point.block.operations)
        end = len(built) if point.ref_operation is None else built.index(point.ref_operation)
        for operations, count in self._noted:
            del operations[count:]
        for each in reversed(built[built.index(self._first) : end]):
            each.operation.erase()
        trace.current().restore(self._state)
