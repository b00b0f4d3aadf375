"""Products of fp8 whose sums leave the tensor cores after every block of K, for `--expand-matmul`.

A tensor core adds up products of fp8 with 13 bits of fraction. Here it adds up those of one block, and the
blocks are added up in f32, each multiplied by scales of A and B on the way where they have such.
"""

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Any

from weft.dialects import tile
from weft.dialects.schedule import PROMOTED
from weft.dialects.tile import BufferType, FragmentType
from weft.isa import wgmma
from weft.isa.chips import WARPGROUP
from weft.layout import Layout
from weft.mlir import arith, ir, llvm, memref, nvvm, vector
from weft.passes import emit, places
from weft.passes.product import map_of_member, member, size
from weft.passes.tile_order import Place

if TYPE_CHECKING:
    from weft.passes.wgmma_kernel import WgmmaKernel


_TURNS = 4  # the first of the barriers that give turns; those before meet the CTA or a warpgroup


def multiply(kernel: "WgmmaKernel", place: Place, start: Any, position: list[Any]) -> list[Any]:
    """All blocks of K of a warpgroup's rows from `start` on: the sums, and where the ring stands.

    A block's products go 64 rows at a time. What another warpgroup has under way keeps the tensor cores busy
    while this one adds up; with scales they must take turns for that.
    """
    whole = kernel.sums_type
    parts = kernel.schedule.rows // wgmma.M
    kind = _rows(whole)
    zero = tile.from_lane(emit.constant(kind.lane_type, 0.0), kind)
    rows = [emit.add(start, part * wgmma.M) for part in range(parts)]
    turns = kernel.turns
    scales = kernel.scales and kernel.scales.of_tile(place, rows, kind)

    def block(number: Any, carried: list[Any]) -> list[Any]:
        sums, (stage, phase), of_b = carried[:parts], carried[parts : parts + 2], carried[parts + 2 :]
        tile.await_(kernel.ring, stage, phase)
        right = kernel.right.part(stage, 0, kernel.right.extent)
        # Read a block ahead: a product's multiplication would wait for memory between the instructions.
        next_of_b = scales.of_b(emit.add(number, 1)) if scales else []
        # What one product takes the place of is the last one: its registers are free when that is added up.
        products = tile.from_lane(llvm.mlir_undef(kind.lane_type), kind)
        for part, row in enumerate(rows):
            turns.wait()
            products = tile.gemm_async(
                kernel.left.part(stage, row, wgmma.M),
                right,
                products,
                arith.constant(ir.IntegerType.get_signless(1), 0),
                transpose_b=kernel.right.k_inside,
            )
            turns.pass_on()
            factors = scales and scales.factors(part, stage, of_b)
            (products,) = tile.wait_gemm(products)
            lane, total = tile.to_lane(products), tile.to_lane(sums[part])
            total = arith.addf(total, lane) if factors is None else vector.fma(lane, factors, total)
            # Nothing is under way; but LLVM would add up later, with the products of all parts in registers.
            (sums[part],) = tile.wait_gemm(tile.from_lane(total, kind))
        kernel.release(stage)
        return [*sums, *tile.advance(kernel.ring, stage, phase), *next_of_b]

    first_of_b = scales.of_b(kernel.k_first) if scales else []
    left = kernel.each_block([*[zero] * parts, *position, *first_of_b], block)
    return [_together(left[:parts], whole), *left[parts : parts + 2]]


@dataclass(frozen=True)
class Turns:
    """Turns of the `count` warpgroups that multiply, as number `number` of them takes them: all instructions
    of one, then all of the next. Started together they would be done together, and the tensor cores idle
    while all add up.
    """

    number: Any
    count: int

    def begin(self) -> None:
        """Gives the first one its turn."""
        if self.count > 1:
            with emit.when(emit.equal(self.number, self.count - 1)):
                self._give(0)

    def wait(self) -> None:
        """Waits until the warpgroup before has started its products."""
        if self.count > 1:
            self._take(self.number)

    def pass_on(self) -> None:
        """Lets the next warpgroup start its products."""
        if self.count > 1:
            self._give(emit.rem(emit.add(self.number, 1), self.count))

    def end(self) -> None:
        """Takes the turn that the last one has given."""
        if self.count > 1:
            with emit.when(emit.equal(self.number, 0)):
                self._take(0)

    def _take(self, number: Any) -> None:
        identity = emit.value(emit.add(number, _TURNS))
        nvvm.BarrierOp(barrierId=identity, numberOfThreads=emit.value(2 * WARPGROUP))

    def _give(self, number: Any) -> None:
        identity = emit.value(emit.add(number, _TURNS))
        nvvm.BarrierArriveOp(emit.value(2 * WARPGROUP), barrierId=identity)


@dataclass
class BlockScales:
    """The scales of A, a row of which comes with each stage, and of B, which are read where they lie."""

    kernel: "WgmmaKernel"

    def place(self) -> None:
        """Writes the buffer and the map of the scales of A at the insertion point."""
        schedule, self.of_a = self.kernel.schedule, self.kernel.op.role("scale_a")
        self.of_b = self.kernel.op.role("scale_b")
        self.extent = schedule.block[1 if schedule.swap else 0]
        f32 = ir.F32Type.get()
        layout = f"S[({schedule.stages},1,{self.extent}):({schedule.scale_stride},{self.extent},1)]"
        self.buffer = tile.alloc(BufferType.of((schedule.stages, 1, self.extent), f32, layout))
        self.map = tile.tensor_map(self.of_a, tile.stage_type(self.buffer.type))

    def copy(self, place: Place, block: Any, stage: Any, barrier: Any) -> None:
        """Starts to copy the scales of a tile's rows of A for a block of K."""
        number = place.column if self.kernel.schedule.swap else place.row
        source = map_of_member(self.of_a, self.map, place.member)
        column = emit.value(emit.mul(number, self.extent))
        tile.copy_async(source, emit.value(block), column, tile.stage(self.buffer, stage), barrier=barrier)

    def of_tile(self, place: Place, rows: list[Any], kind: Any) -> "TileScales":
        """Those of a tile whose parts of 64 rows, of type `kind`, begin at `rows`."""
        m, n, _ = self.kernel.schedule.block
        if self.kernel.schedule.swap:
            starts = [emit.add(emit.mul(place.row, m), row) for row in rows]
            blocks = [emit.div(start, PROMOTED) for start in starts]
            return TileScales(self, place, rows, kind, blocks, 0)
        first, unit = emit.mul(place.column, n), gcd(n, PROMOTED)
        # Where `n` divides 128 or the other way round, a tile is within a block of B, or begins with one.
        inside = 0 if unit in (n, PROMOTED) else emit.rem(first, PROMOTED)
        most = (0 if isinstance(inside, int) else PROMOTED - unit) + n - 1
        block = emit.div(first, PROMOTED)
        return TileScales(
            self, place, rows, kind, [emit.add(block, i) for i in range(most // PROMOTED + 1)], inside
        )


@dataclass
class TileScales:
    """The scales of one tile: `blocks` are the rows of the scales of B that it needs, `inside` is how far in
    the first of them it begins.
    """

    all: BlockScales
    place: Place
    rows: list[Any]
    kind: Any
    blocks: list[Any]
    inside: Any

    def of_b(self, number: Any) -> list[Any]:
        """The scales of B for a block of K. Beyond the last block of columns or of K, where nothing is kept,
        the last one's.
        """
        matrix = member(self.all.of_b, self.place.member)
        deep = emit.minimum(number, emit.sub(size(matrix, 1), 1))
        found = []
        for block in self.blocks:
            row = emit.minimum(block, emit.sub(size(matrix, 0), 1))
            at = [arith.index_cast(ir.IndexType.get(), emit.value(each)) for each in (row, deep)]
            found.append(memref.load(matrix, at))
        return found

    def factors(self, part: int, stage: Any, of_b: list[Any]) -> Any:
        """What a lane's products of a part, and a block of K in a stage, are multiplied by."""
        kind, row_of_stage = self.kind, tile.stage(self.all.buffer, stage)
        columns = [column for _, column in places.lane_elements(kind.layout, kind.shape)[0]]
        if self.all.kernel.schedule.swap:
            of_a = tile.load_row(row_of_stage, emit.value(0), kind)
            of_columns = [of_b[part]] * len(columns)
        else:
            of_a = tile.load_row(row_of_stage, emit.value(self.rows[part]), turned(kind))
            of_columns = self._of_columns(of_b, columns)
        return arith.mulf(tile.to_lane(of_a), vector.from_elements(kind.lane_type, of_columns))

    def _of_columns(self, of_b: list[Any], columns: list[int]) -> list[Any]:
        """The scale of B of each of a tile's columns: blocks of B begin at multiples of `unit` in a tile."""
        n = self.kind.shape[1]
        unit, of_units = gcd(n, PROMOTED), []
        for start in range(0, n, unit):
            block, beyond = divmod(start, PROMOTED)
            found = of_b[block]
            if beyond and not isinstance(self.inside, int):
                follows = emit.less(PROMOTED - 1, emit.add(self.inside, beyond))
                found = arith.select(follows, of_b[block + 1], found)
            of_units.append(found)
        return [of_units[column // unit] for column in columns]


def turned(kind: Any) -> Any:
    """The type of a fragment with rows for columns, in the same registers."""
    rows, columns = kind.layout.group(kind.shape)
    return FragmentType.of(kind.shape[::-1], kind.element_type, Layout((*columns, *rows)))


def _rows(whole: Any) -> Any:
    """The type of the first 64 rows of a warpgroup's sums."""
    rows, columns = whole.shape
    layout = whole.layout.slice(whole.shape, (0, 0), (wgmma.M, columns)) if rows > wgmma.M else whole.layout
    return FragmentType.of((wgmma.M, columns), whole.element_type, layout)


def _together(parts: list[Any], whole: Any) -> Any:
    """Fragments of 64 rows each as one: its registers are theirs in turn."""
    if len(parts) == 1:
        return parts[0]
    elements = [element for part in parts for element in emit.elements(tile.to_lane(part))]
    return tile.from_lane(vector.from_elements(whole.lane_type, elements), whole)
