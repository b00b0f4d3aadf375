"""Further results of an epilogue that combine the elements of each row or column of D: in the registers of a
lane, then of a warp, and then by atomic operations in global memory.
"""

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from weft.dialects.tile import StoreElementOp
from weft.isa.chips import LANES
from weft.layout import Layout
from weft.mlir import arith, ir
from weft.passes.builders import atomics, emit, fragment_registers, thread_ids
from weft.passes.builders.addresses import Vector
from weft.passes.builders.fragment_registers import LaneDigit

_Binary = Callable[[ir.Value, ir.Value], ir.Value]
_COMBINED: dict[str, tuple[_Binary, float, _Binary]] = {
    "#vector.kind<add>": (arith.addf, 0.0, partial(atomics.update, "fadd")),
    "#vector.kind<maximumf>": (arith.maximumf, float("-inf"), partial(atomics.extreme_of_floats, "max")),
}
"""By the kind of a reduction, its operation, the value that changes nothing, and the operation in memory."""


class ReducedOutput:
    """A vector of one product. `extent` is the size of D along the dimension that is reduced."""

    def __init__(self, op: StoreElementOp, vector: ir.Value, extent: ir.Value) -> None:
        assert op.reduced is not None, op
        self.reduced, self.kept, self.kind = op.reduced, 1 - op.reduced, str(op.attribute("kind"))
        self.vector, self.extent = Vector(vector), extent
        self.totals = dict[int, ir.Value]()

    def combine(
        self, lane: ir.Value, kind: ir.Type, digits: tuple[tuple[LaneDigit, ...], ...], first: ir.Value
    ) -> None:
        """Combines a lane's values of a fragment of type `kind`, which begins at `first` along the dimension
        that is reduced, with those of the same rows or columns. `digits` are those of its layout.
        """
        own = fragment_registers.coordinates(kind)
        operation, neutral, _ = _COMBINED[self.kind]
        start = emit.add(first, fragment_registers.lane_coordinate(digits[self.reduced]))
        left = emit.sub(self.extent, start)
        inside = {at: emit.less(at, left) for at in sorted({each[self.reduced] for each in own})}
        nothing = emit.constant(emit.element_of(lane.type), neutral)
        for each, element in zip(own, emit.elements(lane), strict=True):
            value, at = arith.select(inside[each[self.reduced]], element, nothing), each[self.kept]
            self.totals[at] = operation(self.totals[at], value) if at in self.totals else value

    def flush(self, kind: ir.Type, digits: tuple[tuple[LaneDigit, ...], ...], first: ir.Value) -> None:
        """Combines what a warp has of the last fragments with memory: those begin at `first` along the
        dimension that is kept.
        """
        operation, _, update = _COMBINED[self.kind]
        bits = _shared_bits(kind.layout, tuple(kind.shape), self.kept)
        start = emit.add(first, fragment_registers.lane_coordinate(digits[self.kept]))
        own = emit.equal(emit.bit_and(thread_ids.lane(), sum(bits)), 0)
        for at, total in self.totals.items():
            total = emit.across_lanes(total, bits, operation)
            position = emit.value(emit.add(start, at))
            with emit.when(arith.andi(own, self.vector.has(position))):
                update(self.vector.element_of(position), total)
        self.totals = {}


@lru_cache(maxsize=256)
def _shared_bits(layout: Layout, shape: tuple[int, ...], dimension: int) -> list[int]:
    """The bits of a lane's number on which the coordinates of its elements along a dimension don't depend."""
    lanes = np.array(fragment_registers.lane_elements(layout, shape))[..., dimension]
    bits = (1 << number for number in range(LANES.bit_length() - 1))
    return [bit for bit in bits if (lanes[np.arange(LANES) ^ bit] == lanes).all()]
