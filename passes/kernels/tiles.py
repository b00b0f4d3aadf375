"""The part of a kernel that assigns tiles of D to CTAs, and K blocks to tiles."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from weft.dialects.schedule import Schedule, WarpgroupSchedule
from weft.dialects.tile import MatmulOp
from weft.mlir import gpu
from weft.passes.builders import emit
from weft.passes.kernels.matrices import size
from weft.passes.kernels.stream_order import StreamOrder
from weft.passes.kernels.tile_order import Body, GroupedOrder, MaskedOrder, Order, Tile, grouped, k_span


def grid_tile(schedule: Schedule, member: Any) -> Tile:
    """The one tile of a CTA in a grid of rows x columns of tiles, built at the insertion point."""
    x, y = (emit.as_i32(gpu.block_id(each)) for each in (gpu.Dimension.x, gpu.Dimension.y))
    rows, columns = (emit.as_i32(gpu.grid_dim(each)) for each in (gpu.Dimension.x, gpu.Dimension.y))
    return Tile(*grouped(emit.add(emit.mul(y, rows), x), rows, columns, schedule.group), member)


class Tiles:
    """The tiles of a persistent CTA, alone or in a cluster that shares its copies.

    `rank` is the CTA's in its cluster, `row_in_cluster` and `column_in_cluster` its position among the CTAs
    that share copies. `k_blocks` is the number of K blocks of the product.
    """

    def __init__(self, op: MatmulOp, schedule: WarpgroupSchedule) -> None:
        """Reads the launch's sizes at the insertion point."""
        self.schedule = schedule
        depth = size(op.a, -2 if op.attribute("transpose_a") else -1)
        self.k_blocks = emit.ceil_div(depth, schedule.block[2])
        cta, count = (emit.as_i32(read(gpu.Dimension.x)) for read in (gpu.block_id, gpu.grid_dim))
        self._first, self._step = emit.div(cta, schedule.ctas), emit.div(count, schedule.ctas)
        self.rank = emit.rem(cta, schedule.ctas)
        self.order = self._order(op)
        down, across = schedule.cluster
        sharing = emit.rem(self.rank, down * across)
        self.row_in_cluster, self.column_in_cluster = emit.rem(sharing, down), emit.div(sharing, down)
        self._k_span: tuple[Any, Any] = 0, self.k_blocks
        if schedule.splits > 1:
            self._k_span = k_span(self.k_blocks, self.rank, schedule.splits)

    def _order(self, op: MatmulOp) -> Order | GroupedOrder | MaskedOrder | StreamOrder:
        """The order of the clusters' tiles."""
        schedule = self.schedule
        (m, n, _), (down, across) = schedule.block, schedule.cluster
        rows, columns = schedule.swapped(size(op.d, -2), size(op.d, -1))
        height, width, group = m * down, n * across, schedule.group
        members = size(op.d, 0) if op.d.type.rank == 3 else None
        down, across = emit.ceil_div(rows, height), emit.ceil_div(columns, width)
        whole = Order(down, across, group, members, schedule.global_splits, self.k_blocks)
        if schedule.stream_k:
            return StreamOrder.of(whole, self.k_blocks, self._first, self._step)
        if (groups := op.role("groups")) is None:
            return whole
        tile_rows = width if schedule.swap else height
        if members is None:
            return GroupedOrder(whole, groups, tile_rows, schedule.swap)
        most, columns = size(op.d, -2), down if schedule.swap else across
        return MaskedOrder(groups, most, members, tile_rows, columns, group, schedule.swap)

    def walk(self, carried: list[Any], body: Body) -> None:
        """A loop over this CTA's tiles and slices of tiles."""

        def one(tile: Tile, carried: list[Any]) -> list[Any]:
            return body(self._of_cta(tile), carried)

        self.order.walk(self._first, self._step, carried, one)

    def first(self) -> Tile:
        """This CTA's first tile."""
        assert isinstance(self.order, Order)
        return self.order.at(self._first)

    def _of_cta(self, tile: Tile) -> Tile:
        """This CTA's tile of a cluster's."""
        down, across = self.schedule.cluster
        row = emit.add(emit.mul(tile.row, down), self.row_in_cluster)
        column = emit.add(emit.mul(tile.column, across), self.column_in_cluster)
        return replace(tile, row=row, column=column, k_span=tile.k_span or self._k_span)


def each_k_block(
    tile: Tile, carried: list[Any], body: Callable[[Any, list[Any]], list[Any]], at_once: int = 1
) -> list[Any]:
    """A loop over a tile's K blocks after the first, `at_once` at a time while so many are left; returns
    what the loop carries.
    """
    assert tile.k_span is not None
    begin, end = tile.k_span
    return emit.loop(emit.add(begin, 1), emit.sub(end, at_once - 1), at_once, carried, body)
