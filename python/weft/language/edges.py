"""Tiles and vectors that may begin before the first row or column of an array, as x[row - 1, column - 1]."""

from typing import Any

from weft.dialects import tile
from weft.language import gathers, registers
from weft.language.buffers import Buffer
from weft.language.coordinates import column, row
from weft.language.fragments import Fragment
from weft.language.gathers import Gathered
from weft.language.maths import where
from weft.language.matrices import Place
from weft.language.neighbors import existing, may_begin_before
from weft.language.scalars import Scalar
from weft.layout import Layout
from weft.mlir import ir
from weft.passes.builders import emit
from weft.passes.kernels import matrices


def tile_may_begin_before(place: Place) -> bool:
    """Whether the first row or column of a tile may be less than 0."""
    return any(may_begin_before(each) for each in place.corner)


def load_tile(place: Place, shape: tuple[int, int], layout: Layout, outside: Any) -> Fragment:
    """Loads a tile, of which elements on all sides may be outside of the array."""
    first_row, first_column = map(Scalar, place.corner)
    loaded = gathers.load(_rows(place, shape, layout), shape, Fragment(None, shape, layout))
    if isinstance(outside, (int, float)) and outside == 0:
        return loaded
    down, across = row(loaded) + first_row, column(loaded) + first_column
    has_row = (down >= 0) & (down < place.matrix.rows)
    inside = has_row & (across >= 0) & (across < place.matrix.columns)
    has_matrix, _ = existing(place.matrix.value, place.member)
    inside = inside if has_matrix is None else inside & Scalar(has_matrix)
    return where(inside, loaded, outside)


def store_tile(fragment: Fragment, to: Place, rows: ir.Value | None) -> None:
    """Stores a tile, but not its elements on all sides that are outside of the array, or not in the first
    `rows` rows, an SSA value or None for all.
    """
    gathers.store(fragment, _rows(to, fragment.shape, fragment.layout, rows))


def copy_out(fragment: Fragment, via: Buffer, to: Place, rows: Any) -> None:
    """Stores a tile by the lanes from a buffer that has it, in whole rows. A tile that may begin before the
    array is stored from registers.
    """
    if tile_may_begin_before(to):
        store_tile(fragment, to, rows)
        return
    first_row, first_column = to.corner
    tile.copy_out(via.value, limited(to.memref(), first_row, rows), first_row, first_column)


def limited(matrix: ir.Value, first_row: ir.Value, rows: ir.Value | None) -> ir.Value:
    """A matrix without what follows `rows` rows from one on; all of it if they are None."""
    return matrix if rows is None else matrices.with_rows(matrix, emit.add(first_row, rows))


def _rows(place: Place, shape: tuple[int, ...], layout: Layout, rows: ir.Value | None = None) -> Gathered:
    """The rows of a tile as those of a gather or scatter, whose indices may be outside of the array."""
    first_row, first_column = map(Scalar, place.corner)
    local = row(Fragment(None, shape[:1], registers.without_axis(layout, shape, 1)))
    numbers: Any = local + first_row
    if rows is not None:
        numbers = where(local < Scalar(emit.value(rows)), numbers, -1)
    outer = [Scalar(each) for each in place.member]
    return Gathered(place.matrix, (*outer, numbers, first_column))
