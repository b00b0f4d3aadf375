"""A vector's elements for the columns of a warpgroup's sums, spread over the lanes of each warp: a lane loads
a few of them, all at once, and gets those of its columns from other lanes.

With loads of all columns of a lane, it waits for some at a time, and each wait has code of its own.
"""

from typing import Any

from weft.isa.chips import LANES
from weft.isa.mma.fragments import REGISTER_BITS
from weft.mlir import ir, llvm
from weft.passes.builders import emit, fragment_coordinates, fragment_moves, late_ids
from weft.passes.builders.addresses import Vector
from weft.passes.builders.fragment_coordinates import LaneDigit
from weft.passes.kernels.fragments import PAIR, QUAD

_COLUMNS = (
    LaneDigit(1, QUAD, PAIR),
)  # of a lane of `wgmma`: pairs, beside those of the other lanes of a quad


class SpreadRow:
    """As many elements of a vector, from a column on, as a fragment of type `kind` has columns."""

    def __init__(self, vector: ir.Value, column: ir.Value, kind: ir.Type) -> None:
        """Loads them, at the insertion point. What is beyond the vector's end is zero."""
        source = Vector(vector)
        self.element, self.packed = source.element, source.element.width < REGISTER_BITS
        _, lane = late_ids.warp_and_lane()
        self.quad, own = emit.rem(lane, QUAD), emit.add(column, emit.mul(lane, PAIR))
        self.registers = list[list[Any]]()
        for first in range(0, kind.shape[1], PAIR * LANES):
            pair = []
            for at in (emit.add(own, first + number) for number in range(PAIR)):
                address, inside = source.element_of(at), source.has(at)
                pair.append(fragment_moves.guarded(source, address, inside, source.element))
            self.registers.append([llvm.bitcast(emit.i32(), emit.vector_of(pair))] if self.packed else pair)

    @staticmethod
    def serves(kind: ir.Type) -> bool:
        """Whether lanes have many columns of a fragment, as `wgmma` has those of its sums."""
        digits = fragment_coordinates.lane_digits(kind.layout, kind.shape)
        return kind.warps > 1 and digits is not None and digits[1] == _COLUMNS and kind.shape[1] >= LANES

    def of(self, piece: ir.Type, first: int) -> ir.Value:
        """A lane's elements for a fragment whose first column is this one, as a vector."""
        columns = [column for _, column in fragment_coordinates.lane_elements(piece.layout, piece.shape)[0]]
        pairs = {c: self._pair((first + c) // PAIR) for c in sorted(set(columns)) if c % PAIR == 0}
        return emit.vector_of([pairs[c - c % PAIR][c % PAIR] for c in columns])

    def _pair(self, number: int) -> list[ir.Value]:
        """The elements of the lane in a pair of columns: this pair for the first lane of a quad."""
        register, lane = divmod(number, LANES)
        shuffled = [emit.of_lane(each, emit.add(self.quad, lane)) for each in self.registers[register]]
        if not self.packed:
            return shuffled
        return emit.elements(llvm.bitcast(ir.VectorType.get([PAIR], self.element), shuffled[0]))
