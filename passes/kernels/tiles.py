"""The part of a kernel that assigns tiles of D to CTAs, and K blocks to tiles."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from typing import Generic, TypeVar

from weft.dialects.schedule import AnySchedule
from weft.dialects.tile import MatmulOp
from weft.isa.chips import LINE_BYTES
from weft.mlir import arith, gpu, ir
from weft.passes.builders import emit, thread_ids
from weft.passes.kernels.matrices import misaligned, size, skew
from weft.passes.kernels.team import Team
from weft.passes.kernels.tile_order import (
    Body,
    DynamicOrder,
    Ends,
    MaskedOrder,
    Order,
    RowEndsOrder,
    StreamOrder,
    Tile,
    k_span,
    of_groups,
    of_k_ends,
)

_S = TypeVar("_S", bound=AnySchedule)
_Order = Order | DynamicOrder | MaskedOrder | RowEndsOrder | StreamOrder


class Tiles(Generic[_S]):
    """The tiles of a persistent CTA, alone or in a cluster that shares its copies.

    `rank` is the CTA's in its cluster, `row_in_cluster` and `column_in_cluster` the position of its tile
    among those that share copies, and `half` the CTA's number in its pair (0 without pairs). `k_blocks` is
    the number of K blocks of the product.
    """

    def __init__(self, op: MatmulOp, schedule: _S, answers: ir.Value | None = None) -> None:
        """Reads the launch's sizes at the insertion point. `answers` is the ring through which cluster launch
        control assigns tiles, where it does.
        """
        self.schedule, self._answers = schedule, answers
        depth = size(op.a, -2 if op.attribute("transpose_a") else -1)
        more = skew(op.a) if schedule.skewed else 0
        self.k_blocks = emit.ceil_div(emit.add(depth, more), schedule.block[2])
        cta, count = (emit.as_i32(read(gpu.Dimension.x)) for read in (gpu.block_id, gpu.grid_dim))
        self._first, self._step = emit.div(cta, schedule.ctas), emit.div(count, schedule.ctas)
        self.rank = emit.rem(cta, schedule.ctas)
        self.team = Team.of(op)
        self.order = self._order(op)
        down, across = schedule.cluster
        self.half = emit.rem(self.rank, schedule.cta_group)
        sharing = emit.rem(emit.div(self.rank, schedule.cta_group), down * across)
        self.row_in_cluster, self.column_in_cluster = emit.rem(sharing, down), emit.div(sharing, down)
        self._k_span: tuple[ir.Value | int, ir.Value] = 0, self.k_blocks
        if schedule.splits > 1:
            self._k_span = k_span(self.k_blocks, self.rank, schedule.splits)

    def _order(self, op: MatmulOp) -> _Order:
        """The order of the clusters' tiles."""
        schedule = self.schedule
        (m, n, _), (down, across) = schedule.block, schedule.cluster
        n //= op.columns_of_b
        rows, columns = schedule.swapped(size(op.d, -2), size(op.d, -1))
        height, width, group = m * down, n * across, schedule.group
        batch = op.a if op.is_scattered else op.d
        members = size(batch, 0) if batch.type.rank == 3 else None
        down, across = emit.ceil_div(rows, height), emit.ceil_div(columns, width)
        first = self.team.first(op) if self.team else 0
        slices = schedule.global_splits > 1 and not schedule.loaders
        inside = _inside_lines(op) if slices else None
        whole = Order(down, across, group, members, schedule.global_splits, self.k_blocks, first, inside)
        if self._answers is not None:
            return DynamicOrder(whole, self._answers, schedule.ctas)
        if schedule.stream_k:
            return StreamOrder.of(whole, self.k_blocks, self._first, self._step)
        if op.grouping is None:
            return whole
        groups = op.role(op.grouping)
        if op.grouping == "k_ends":
            parts = partial(of_k_ends, Ends.of(op), self.k_blocks, schedule.block[2])
            return replace(whole, change=parts)
        tile_rows = width if schedule.swap else height
        if op.grouping == "groups" and members is None:
            return replace(whole, change=partial(of_groups, groups, tile_rows, schedule.swap))
        most, columns = size(op.d, -2), down if schedule.swap else across
        if op.grouping == "row_ends":
            return RowEndsOrder(Ends.of(op), size(op.b, 0), tile_rows, columns, group, schedule.swap)
        return MaskedOrder(groups, most, members, tile_rows, columns, group, schedule.swap)

    def walk(
        self,
        carried: list[ir.Value],
        body: Body,
        late: bool = False,
        turn: tuple[ir.Value | int, int] = (0, 1),
    ) -> list[ir.Value]:
        """A loop over this CTA's tiles and slices of tiles. Returns what it carries. `late`: which is
        the first is found out here, for one thread. `turn`: the number of the first tile to take, and how
        many there are to one that is taken.
        """

        def one(tile: Tile, carried: list[ir.Value]) -> list[ir.Value]:
            down, across = self.schedule.cluster
            row = emit.add(emit.mul(tile.row, down), self.row_in_cluster)
            column = emit.add(emit.mul(tile.column, across), self.column_in_cluster)
            return body(replace(tile, row=row, column=column, k_span=tile.k_span or self._k_span), carried)

        first = emit.div(thread_ids.late_cta(), self.schedule.ctas) if late else self._first
        number, turns = turn
        first = emit.add(first, emit.mul(self._step, number))
        return self.order.walk(first, emit.mul(self._step, turns), carried, one)

    def first(self) -> Tile:
        """This CTA's first tile."""
        assert isinstance(self.order, Order)
        return self.order.at(self._first)

    def reached(self) -> ir.Value:
        """The mask (i16) of the CTAs that copy into this one's pair, or into this CTA without pairs."""
        ctas = self.schedule.cta_group
        masks = [self.sharing(along, half) for along in ("row", "column") for half in range(ctas)]
        return reduce(arith.ori, masks)

    def sharing(self, along: str, half: ir.Value | int) -> ir.Value:
        """The mask (i16) of the CTAs in this one's row or column of the cluster: one `half` of pairs."""
        (down, across), ctas = self.schedule.cluster, self.schedule.cta_group
        row, column = self.row_in_cluster, self.column_in_cluster
        if along == "row":
            ranks, first = range(0, across * down, down), row
        else:
            ranks, first = range(down), emit.mul(column, down)
        mask, shift = sum(1 << rank * ctas for rank in ranks), emit.add(emit.mul(first, ctas), half)
        i16 = ir.IntegerType.get_signless(16)
        if isinstance(shift, int):
            return arith.constant(i16, mask << shift)
        return arith.trunci(i16, arith.shli(emit.value(mask), shift))


def _inside_lines(op: MatmulOp) -> ir.Value | None:
    """Whether rows of a K-major operand begin inside lines of L2, an i1; None where both are MN-major."""
    k_major = [op.b] if op.attribute("transpose_b") else []
    k_major += [] if op.attribute("transpose_a") else [op.a]
    return reduce(arith.ori, (misaligned(each, LINE_BYTES) for each in k_major)) if k_major else None


def every_k_block(
    tile: Tile, carried: list[ir.Value], body: Callable[[ir.Value, ir.Value, list[ir.Value]], list[ir.Value]]
) -> list[ir.Value]:
    """A loop over a tile's K blocks, or one iteration where it has none; returns what the loop carries.
    `body` also takes whether the block isn't the tile's first, an i1.

    One copy of the body: ptxas takes a third longer where the first block's products are a second one.
    """
    assert tile.k_span is not None
    begin, end = tile.k_span
    last = emit.maximum(end, emit.add(begin, 1))
    return emit.loop(begin, last, 1, carried, lambda k, values: body(k, emit.less(begin, k), values))


def each_k_block(
    tile: Tile,
    carried: list[ir.Value],
    body: Callable[[ir.Value, list[ir.Value]], list[ir.Value]],
    at_once: int = 1,
) -> list[ir.Value]:
    """A loop over a tile's K blocks after the first, `at_once` at a time while so many are left; returns
    what the loop carries.
    """
    assert tile.k_span is not None
    begin, end = tile.k_span
    return emit.loop(emit.add(begin, 1), emit.sub(end, at_once - 1), at_once, carried, body)
