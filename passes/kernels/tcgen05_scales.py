"""The block scales of a `tcgen05` kernel, which the thread that issues the products copies to tensor memory
before those of a stage. Copies and products of one thread are in order, so tensor memory has one K block's
scales.

Scales lie in tiles of 128 rows and 4 groups, of 512 bytes (`weft.isa.block_scales`), in shared memory, and
in global memory unless they come as words.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from math import gcd

from weft.dialects import tile
from weft.dialects.schedule import TensorMemorySchedule
from weft.dialects.tile import BufferType, MatmulOp
from weft.isa import block_scales
from weft.isa.tcgen05 import tensor_layouts
from weft.mlir import arith, ir, llvm, memref
from weft.passes.builders import addresses, emit, thread_ids
from weft.passes.kernels.matrices import member, size
from weft.passes.kernels.scale_tiles import ScaleTiles
from weft.passes.kernels.tile_order import Tile

_ROWS, _GROUPS, _BYTES = block_scales.ROWS, block_scales.GROUPS, block_scales.TILE_BYTES


@dataclass
class TensorTiles:
    """Scales of one operand in tensor memory, of `blocks` tiles of 128 rows and `deep` along K, and the
    stages of shared memory from where they come, as rows x groups.
    """

    stages: ir.Value
    blocks: int
    deep: int
    cta_group: int
    _buffer: ir.Value = field(init=False)

    @property
    def _shape(self) -> tuple[int, int]:
        """Rows and groups."""
        return self.blocks * _ROWS, self.deep * _GROUPS

    def allocate(self) -> None:
        """Builds their columns of tensor memory at the insertion point."""
        layout = tensor_layouts.scales(*self._shape)
        element = self.stages.type.element_type
        self._buffer = tile.alloc(BufferType.of(self._shape, element, layout, "tmem"))

    def load(self, stage: ir.Value) -> None:
        """Copies a stage's scales to tensor memory, of both CTAs of a pair."""
        tile.copy_tmem(tile.stage(self.stages, stage), self._buffer, cta_group=self.cta_group)

    def rows(self, first: int, count: int) -> ir.Value:
        """The scales of at least `count` rows in tensor memory, from row `first` on."""
        if (
            count >= self._shape[0] or count % block_scales.LANES
        ):  # in columns that aren't full, rows are the first ones
            return self._buffer
        shape = count, self._shape[1]
        step = gcd(count, _ROWS)
        return tile.slice_(self._buffer, emit.value(first), emit.value(0), shape, row_step=step)


class _OperandScales:
    """The scales of the left and the right operand."""

    left: TensorTiles
    right: TensorTiles

    def __init__(self, op: MatmulOp, schedule: TensorMemorySchedule) -> None:
        tiles = schedule.scales(op.types)
        assert tiles is not None
        self.schedule, self.half, self._tiles = schedule, 0, tiles
        self._matrices = schedule.swapped(op.role("scale_a"), op.role("scale_b"))

    def allocate(self) -> None:
        """Builds the columns of tensor memory at the insertion point."""
        self.left.allocate()
        self.right.allocate()

    def _load(self, stage: ir.Value) -> None:
        """Copies a stage's scales to tensor memory; for the thread that issues the products."""
        self.left.load(stage)
        self.right.load(stage)

    def _start(self, at: Tile) -> Iterator[ir.Value]:
        """The first row and the first column of a tile in this CTA, computed on demand."""
        m, n, _ = self.schedule.block
        yield emit.add(at.first_row(m), emit.mul(self.half, self.schedule.cta_rows))
        yield at.first_column(n)


class TensorScales(_OperandScales):
    """Those that TMA copies into each stage."""

    def __init__(self, op: MatmulOp, schedule: TensorMemorySchedule) -> None:
        """Builds the stages and the tensor maps at the insertion point."""
        super().__init__(op, schedule)
        deep, blocks = self._tiles.deep, (self._tiles.left, self._tiles.right)
        width = {"width": deep * _BYTES, "chunk": _BYTES, "cta_group": schedule.cta_group}
        self._staged = [
            ScaleTiles.of(matrix, schedule.stages, count, deep, **width)
            for matrix, count in zip(self._matrices, blocks, strict=True)
        ]
        self.left, self.right = (
            TensorTiles(each.rows, count, deep, schedule.cta_group)
            for each, count in zip(self._staged, blocks, strict=True)
        )

    def copy(self, at: Tile, block: ir.Value | int, stage: ir.Value, barrier: ir.Value) -> None:
        """Starts to copy the scales of a K block of this CTA's rows, and of all columns, into a stage."""
        for side, start in zip(self._staged, self._start(at), strict=True):
            side.copy(at.member, start, block, stage, barrier)

    def load(self, at: Tile, number: ir.Value, stage: ir.Value, position: list[ir.Value]) -> list[ir.Value]:
        """Copies a stage's scales to tensor memory; for the thread that issues the products."""
        self._load(stage)
        return position

    def of_part(self, part: int, at: Tile, number: ir.Value) -> dict[str, ir.Value]:
        """The scales of a part of a tile, of its rows and of its columns, as `tile.gemm_async` takes them."""
        n, rows = self.schedule.block[1], block_scales.ROWS
        first = emit.rem(emit.mul(at.column, n), rows) if n % rows else 0
        return {"scale_a": self.left.rows(part * rows, rows), "scale_b": self.right.rows(first, n)}


_LANES, _QUARTERS = block_scales.LANES, block_scales.QUARTERS


@dataclass
class _Words:
    """The words of one operand: `blocks` tiles of 128 rows, and `deep` along K, in each of `stages`."""

    matrix: ir.Value
    blocks: int
    deep: int
    stages: int
    cta_group: int
    tensor: TensorTiles = field(init=False)

    def __post_init__(self) -> None:
        """Builds the stages at the insertion point."""
        geometry = block_scales.Stages(self.stages, self.blocks, self.deep, block_scales.TILE_BYTES)
        rows, groups = self.blocks * block_scales.ROWS, self.deep * block_scales.GROUPS
        kind = ir.Type.parse("f8E8M0FNU")
        tiles = tile.alloc(BufferType.of((self.stages, rows, groups), kind, geometry.rows_layout))
        self.tensor = TensorTiles(tiles, self.blocks, self.deep, self.cta_group)
        self._start = tile.address(tiles)

    def read(
        self, index: ir.Value | None, first: ir.Value, deep: ir.Value | int, groups: ir.Value
    ) -> list[ir.Value]:
        """A lane's words of the tiles from row `first` of the operand on, and from row `deep` of its words.
        Of its `groups` scales along K, words have four each; bytes after the last one are 0.
        """
        words = member(self.matrix, index)
        # Rows of D beyond the last aren't written: any scale will do.
        last_row, last_deep = emit.sub(size(words, 1), 1), emit.sub(size(words, 0), 1)
        found = []
        for down in range(self.blocks * _QUARTERS):
            row = emit.add(first, thread_ids.lane(), down * _LANES)
            column = emit.as_index(emit.minimum(row, last_row))
            for across in range(self.deep):
                number = emit.add(deep, across)
                word = memref.load(words, [emit.as_index(emit.minimum(number, last_deep)), column])
                found.append(arith.andi(word, _mask(emit.sub(groups, emit.mul(number, block_scales.GROUPS)))))
        return found

    def write(self, stage: ir.Value, words: list[ir.Value]) -> None:
        """Writes what `read` has read into a stage."""
        bytes_ = self.blocks * self.deep * block_scales.TILE_BYTES
        lane = emit.mul(thread_ids.lane(), block_scales.LANE_BYTES)
        start = addresses.offset(self._start, emit.add(emit.mul(stage, bytes_), lane))
        for block in range(self.blocks):
            for across in range(self.deep):
                first = block * _QUARTERS * self.deep + across
                quarters = words[first : first + _QUARTERS * self.deep : self.deep]
                number = across * self.blocks + block  # panels are tiles
                at = addresses.offset(start, number * block_scales.TILE_BYTES)
                llvm.store(emit.vector_of(quarters), at)

    @property
    def count(self) -> int:
        """The words of a lane."""
        return self.blocks * self.deep * _QUARTERS


def _mask(left: ir.Value) -> ir.Value:
    """The bytes of a word that have scales, if so many are left."""
    some = emit.sub(arith.shli(emit.value(1), emit.value(emit.mul(emit.maximum(left, 0), 8))), 1)
    return emit.select(emit.less(left, block_scales.GROUPS), some, -1)


class WordScales(_OperandScales):
    """Those that a warp writes to stages of a ring of their own, each of which has the scales of `period` K
    blocks.
    """

    def __init__(self, op: MatmulOp, schedule: TensorMemorySchedule) -> None:
        """Builds the buffers at the insertion point."""
        super().__init__(op, schedule)
        self._block, self._period = op.types.words, schedule.word_period(op.types)
        self._depth, tiles = size(op.a, -2 if op.attribute("transpose_a") else -1), self._tiles
        self._words = [
            _Words(matrix, count, tiles.deep, tiles.stages, schedule.cta_group)
            for matrix, count in zip(self._matrices, (tiles.left, tiles.right), strict=True)
        ]
        self.left, self.right = (each.tensor for each in self._words)

    def make_ring(self) -> None:
        """Builds the ring at the insertion point, after all buffers."""
        stages, group = self._tiles.stages, self.schedule.cta_group
        self._ring = tile.make_ring(stages, consumers=1, filled_by="warps", emptied_by="mma", cta_group=group)

    # The warp that fills the ring

    def drain(self, position: list[ir.Value]) -> None:
        """Waits until all that `fill` has written is used."""
        tile.drain(self._ring, *position)

    def fill(self, at: Tile, position: list[ir.Value]) -> list[ir.Value]:
        """Fills the ring with the scales of a tile; for one warp. Returns the ring's next position."""
        assert at.k_span is not None
        begin, end = at.k_span
        count = emit.ceil_div(emit.sub(end, begin), self._period)
        read = partial(self._read, at, begin)

        def each(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            (stage, phase), words = carried[:2], carried[2:]
            # Global memory is slow: the next words are on their way while these are written.
            following = read(emit.minimum(emit.add(number, 1), emit.sub(count, 1)))
            tile.acquire(self._ring, stage, phase)
            left, right = self._words
            left.write(stage, words[: left.count])
            right.write(stage, words[left.count :])
            tile.commit(self._ring, stage)
            return [*tile.advance(self._ring, stage, phase), *following]

        return emit.loop(0, count, 1, [*position, *read(0)], each)[:2]

    def _read(self, at: Tile, begin: int | ir.Value, number: ir.Value | int) -> list[ir.Value]:
        """A lane's words of both operands, for the K blocks of stage `number` of a tile."""
        block = at.k_block(emit.add(begin, emit.mul(number, self._period)))
        deep = emit.div(emit.mul(block, self.schedule.block[2]), block_scales.GROUPS * self._block)
        groups = emit.ceil_div(self._depth, self._block)
        sides = zip(self._words, self._start(at), strict=True)
        return [word for side, start in sides for word in side.read(at.member, start, deep, groups)]

    # The thread that issues the products

    def load(self, at: Tile, number: ir.Value, stage: ir.Value, position: list[ir.Value]) -> list[ir.Value]:
        """Copies the scales of K block `number` of a tile to tensor memory, where it is the first of a stage.
        Returns the ring's next position.
        """
        assert at.k_span is not None

        def copy() -> list[ir.Value]:
            tile.await_(self._ring, *position)
            self._load(position[0])
            tile.release(self._ring, position[0])
            return list(tile.advance(self._ring, *position))

        if self._period == 1:
            return copy()
        inside = emit.rem(emit.sub(number, at.k_span[0]), self._period)
        return emit.either(emit.equal(inside, 0), [emit.i32()] * 2, copy, lambda: position)

    def of_part(self, part: int, at: Tile, number: ir.Value) -> dict[str, ir.Value | int]:
        """The scales of a part of a tile for K block `number`, as `tile.gemm_async` takes them."""
        rows = block_scales.ROWS
        scales: dict[str, ir.Value | int] = {
            "scale_a": self.left.rows(part * rows, rows),
            "scale_b": self.right.rows(0, self.schedule.block[1]),
        }
        if self._block == block_scales.GROUP_OF_WORDS:
            return scales
        of_k = emit.div(emit.mul(at.k_block(number), self.schedule.block[2]), self._block)
        return {**scales, "number": emit.rem(of_k, block_scales.GROUPS), "scale_block": self._block}
