"""The parts of a buffer in tensor memory that one instruction uses: whether they are laid out as its operand,
and their addresses.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from weft.isa.tcgen05 import tensor_layouts
from weft.layout import AXES, Iter, Layout
from weft.layout.iterators import point_table
from weft.mlir import ir

Indices = tuple[int, ...]
_AXES = [AXES.index(axis) for axis in ("TLane", "TCol")]
_WORD = tensor_layouts.SCALES_OF_COLUMN
_PAIR_M = 128  # of the pair whose D is divided into two parts


def part(buffer: ir.Type, rows: Indices, columns: Indices, wanted: Layout) -> int | None:
    """The address of a part of a tile from that of the tile; None where the part isn't laid out as `wanted`
    or begins within a column.
    """
    begin = _part(buffer.layout, buffer.shape, rows, columns, wanted)
    if begin is None or begin[1] * buffer.element_bits % tensor_layouts.COLUMN_BITS:
        return None
    lane, column = begin
    return lane << tensor_layouts.LANE_SHIFT | column * int(buffer.element_bits) // tensor_layouts.COLUMN_BITS


@lru_cache(maxsize=4096)
def _part(
    layout: Layout, shape: tuple[int, int], rows: Indices, columns: Indices, wanted: Layout
) -> tuple[int, int] | None:
    """Lane and column, in elements, where a part begins that is laid out as `wanted`."""
    down, across = _positions(layout, shape)
    want_down, want_across = _positions(wanted, (len(rows), len(columns)))
    down, across = down[list(rows)], across[list(columns)]
    same = np.array_equal(down - down[0], want_down) and np.array_equal(across - across[0], want_across)
    if not same or _copies(layout) != _copies(wanted):
        return None
    lane, column = (down[0] + across[0]).tolist()
    return lane, column


def scale_part(buffer: ir.Type, rows: Indices, first: int, count: int, banks: int) -> int | None:
    """The address of the column with scale number `first` of these rows, from that of the buffer; None where
    the `count` scales from there on of each row aren't laid out as those of one instruction, whose D has so
    many `banks` of lanes.
    """
    return _scale_part(buffer.layout, buffer.shape, rows, first, count, banks)


@lru_cache(maxsize=4096)
def _scale_part(
    layout: Layout, shape: tuple[int, int], rows: Indices, first: int, count: int, banks: int
) -> int | None:
    each = len(rows) // banks
    padded = -(-each // tensor_layouts.PART) * tensor_layouts.PART
    wanted, kept = (
        _scales(padded, banks),
        [bank * padded + row for bank in range(banks) for row in range(each)],
    )
    word, inside = first - first % _WORD, first % _WORD
    columns = list(range(word, first + count))
    if rows[-1] >= shape[0] or columns[-1] >= shape[1] or _copies(layout) != _copies(wanted):
        return None
    down, across = _positions(layout, shape)
    want_down, want_across = _positions(wanted, (padded * banks, 2 * _WORD))
    down, across = down[list(rows)], across[columns]
    moved = (across - across[0])[inside:]
    if not np.array_equal(down - down[0], want_down[kept]):
        return None
    if not np.array_equal(moved, want_across[inside : len(columns)]):
        return None
    lane, column = (down[0] + across[0]).tolist()
    return None if lane or column % _WORD else int(column) // _WORD


def layout_of_scales(rows: int, banks: int) -> Layout:
    """The layout of eight scales of each of these rows, for one instruction."""
    each = -(-rows // banks // tensor_layouts.PART) * tensor_layouts.PART
    return _scales(each, banks)


def _scales(padded: int, banks: int) -> Layout:
    groups = 2 * _WORD
    if banks == 1:
        return Layout.parse(tensor_layouts.scales(padded, groups))
    return Layout.parse(tensor_layouts.scales_of_b(padded * banks, groups, _PAIR_M, cta_group=2))


@lru_cache(maxsize=256)
def _positions(layout: Layout, shape: tuple[int, int]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Lane and column, in elements, of each row and of each column of a tile, from its first element."""
    down, across = (point_table(digits)[:, _AXES] for digits in layout.group(shape))
    return down, across


def _copies(layout: Layout) -> tuple[Iter, ...]:
    return layout.canonical().replica
