"""The sums of a `tcgen05` kernel in tensor memory, and the fragments in which the epilogue reads them."""

from dataclasses import dataclass, replace

from weft.dialects import tile
from weft.dialects.product_types import Types
from weft.dialects.schedule import TensorMemorySchedule
from weft.dialects.tile import BufferType, FragmentType
from weft.isa.chips import LANES, WARPS
from weft.isa.tcgen05 import tensor_layouts
from weft.layout import Iter, Layout
from weft.mlir import ir
from weft.passes.builders import emit, thread_ids
from weft.passes.kernels.fragments import widened


@dataclass(frozen=True)
class Slice:
    """Sums that a warpgroup takes at once: the part of the tile that they belong to, and their first column
    of tensor memory in that part.
    """

    part: ir.Value | int
    column: ir.Value


@dataclass(frozen=True)
class SliceOrigin:
    """The row and the column of the left and the right operand at which a slice begins.

    `own_row` and `own_column` are those at which it would begin if it were contiguous, for the warp that
    executes this: warps of the upper lanes of a pair with 64 rows each have other columns.
    """

    row: ir.Value
    column: ir.Value
    own_row: ir.Value
    own_column: ir.Value


class TensorSums:
    """The accumulators of a CTA, each with a buffer for every part of a tile. Two of them may have `shared`
    columns: the last ones of the first and the first ones of the second.
    """

    def __init__(self, schedule: TensorMemorySchedule, types: Types, shared: int) -> None:
        """Builds the buffers at the insertion point, in the region of `tile.tensor_memory`."""
        self.schedule, self.types, self.shared = schedule, types, shared
        element = ir.Type.parse(types.instruction_sums)
        count, rows = schedule.accumulators * schedule.parts, min(schedule.cta_rows, tensor_layouts.LANES)
        m, n, bits = schedule.mma_m, schedule.block[1], element.width
        layout = Layout.parse(tensor_layouts.accumulator(m, n, schedule.cta_group, bits))
        of_column = tensor_layouts.COLUMN_BITS // bits  # elements, of which sums of f16 use every other
        slots = Iter(count, (schedule.part_columns - shared) * of_column, "TCol")
        kind = BufferType.of((count, rows, n), element, replace(layout, shard=(slots, *layout.shard)), "tmem")
        self.products = tile.alloc(kind)
        self.read = self.products
        if schedule.halves:  # warps read whole lanes, as of a matrix of 128 rows and half of the columns
            shape = count, tensor_layouts.LANES, schedule.part_columns
            whole = tensor_layouts.accumulator(tensor_layouts.LANES, schedule.part_columns, element_bits=bits)
            every = replace(Layout.parse(whole), shard=(slots, *Layout.parse(whole).shard))
            self.read = tile.alloc(BufferType.of(shape, element, every, "tmem"), over=self.products)

    def slot(self, stage: ir.Value, phase: ir.Value) -> ir.Value:
        """The accumulator at a position of the ring. Those that share columns alternate with the phase of
        its only stage.
        """
        return phase if self.shared else stage

    def part(self, slot: ir.Value, part: int) -> ir.Value:
        """The buffer of a part of a tile, for products."""
        return tile.stage(self.products, self._index(slot, part))

    def load(self, slot: ir.Value, of: Slice, columns: int) -> ir.Value:
        """A slice's sums of `columns` columns: a fragment of the warpgroup."""
        buffer = tile.stage(self.read, self._index(slot, of.part))
        kind = self.fragment(columns)
        held = FragmentType.of(kind.shape, buffer.type.element_type, kind.layout)
        return widened(tile.load(buffer, emit.value(0), emit.value(of.column), held))

    def fragment(self, columns: int) -> ir.Type:
        """The type of a slice's sums: a row for each lane, or with 64 rows the accumulator of `wgmma`."""
        rows = self.schedule.slice_rows
        if rows == tensor_layouts.LANES:
            layout = f"S[({WARPS},{LANES},{columns}):(1@warpid,1@laneid,1)]"
        else:
            digits = f"({WARPS},2,8,{columns // 8},4,2):(1@warpid,2,4@laneid,4,1@laneid,1)"
            layout = f"S[{digits}]"
        return FragmentType.of((rows, columns), ir.Type.parse(self.types.sums), layout)

    def origin(self, row: ir.Value, column: ir.Value, of: Slice) -> "SliceOrigin":
        """Where a slice of the tile that begins at (`row`, `column`) in this CTA is."""
        row, column = emit.add(row, emit.mul(of.part, tensor_layouts.LANES)), emit.add(column, of.column)
        if not self.schedule.halves:
            return SliceOrigin(row, column, row, column)
        upper = emit.div(thread_ids.warp(), WARPS // 2)
        own_row = emit.sub(row, emit.mul(upper, tensor_layouts.LANES // 2))
        own_column = emit.add(column, emit.mul(upper, self.schedule.part_columns))
        return SliceOrigin(row, column, own_row, own_column)

    def slice(self, warpgroup: ir.Value, number: ir.Value | int, columns: int) -> Slice:
        """Slice `number` of a warpgroup of the epilogue."""
        schedule = self.schedule
        if schedule.epilogues == schedule.parts:
            return Slice(warpgroup if schedule.parts > 1 else 0, emit.mul(number, columns))
        if schedule.epilogues > 1:
            first = emit.mul(warpgroup, schedule.epilogue_columns)
            return Slice(0, emit.add(first, emit.mul(number, columns)))
        each = schedule.part_columns // columns
        return Slice(emit.div(number, each), emit.mul(emit.rem(number, each), columns))

    def _index(self, slot: ir.Value, part: ir.Value | int) -> ir.Value:
        return emit.value(emit.add(emit.mul(slot, self.schedule.parts), part))
