"""The addresses to which TMA copies the boxes of --lower-tma, against the layout of the tile."""

from dataclasses import replace

import numpy as np
import pytest
from layout_places import octets

import weft
from weft.dialects import tile
from weft.dialects.tile import BufferType, MapType
from weft.emulator import TensorMap
from weft.emulator.memory import tensor_map
from weft.mlir import ir
from weft.passes.kernels.matrices import panels
from weft.passes.lower_tma import Pieces, pieces_of

BASE = 5 * 1024  # where a stage may begin
BOX_ALIGNMENT = 128
ELEMENTS = {1: "i8", 2: "f16", 4: "f32"}


def tile_of(rows, columns, size, layout=None):
    """A stage's tile in panels, as a warpgroup schedule's kernel has it, or of another layout."""
    element = ir.Type.parse(ELEMENTS[size])
    if layout is not None:
        return MapType.of(BufferType.of((rows, columns), element, layout))
    stages = BufferType.of((2, rows, columns), element, panels(rows, columns, size, 2))
    return MapType.of(tile.stage_type(stages))


def written(kind, pieces):
    """The address at which TMA writes every byte of every element; each must be written once."""
    (rows, columns), size = kind.shape, kind.element_type.width // 8
    swizzle = kind.layout.swizzle.name if kind.layout.swizzle else "none"
    fields = TensorMap.tiled(
        0,
        dtype=f"UINT{8 * size}",
        dims=(columns, rows),
        strides_bytes=(columns * size,),
        box=pieces.box[::-1],
        swizzle=swizzle,
    ).fields
    found = np.full((rows * columns, size), -1)
    for row, column, offset in pieces.starts:
        assert (BASE + offset) % BOX_ALIGNMENT == 0
        taken = tensor_map.of_box(fields, (column, row), in_chunks=False)
        assert taken.inside.all()
        elements = taken.bytes // size
        assert (found[elements] == -1).all(), "an element in two boxes"
        places = BASE + offset + taken.goes[..., None] + np.arange(size)
        found[elements] = tensor_map.swizzled(fields, places)
    return found.reshape(rows, columns, size)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("size", ELEMENTS)
@pytest.mark.parametrize("row_bytes", [32, 64, 96, 128, 160, 192, 256, 384, 512])
def test_every_byte_is_written_once_where_the_layout_has_it(row_bytes, size):
    with weft.Module():
        for rows in (8, 16, 64, 80, 192, 256, 320, 384, 512):
            kind = tile_of(rows, row_bytes // size, size)
            pieces = pieces_of(kind)
            assert np.array_equal(written(kind, pieces), octets(kind, BASE)), rows


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((64, 64), "S[(64,64):(64,1)]"),
        ((8, 256), "S[(8,256):(256,1)]"),
        ((1, 64), "S[(1,64):(64,1)] xor 128B"),
        ((512, 16), "S[(512,16):(16,1)]"),
        ((64, 128), "S[(64,2,64):(64,8192,1)] xor 128B"),  # panels that lie apart
        ((64, 256), "S[(64,2,2,64):(64,4096,8192,1)] xor 128B"),  # in another order
    ],
)
def test_tiles_without_panels_or_a_swizzle(shape, layout):
    with weft.Module():
        kind = tile_of(*shape, 2, layout)
        assert np.array_equal(written(kind, pieces_of(kind)), octets(kind, BASE))


@pytest.mark.parametrize(
    ("shape", "part"),
    [
        ((256, 64), (128, 64)),
        ((64, 128), (8, 128)),  # some rows of each panel
        ((64, 256), (64, 128)),  # some panels
        ((512, 32), (256, 32)),
        ((96, 128), (48, 64)),
    ],
)
@pytest.mark.parametrize("size", ELEMENTS)
def test_parts_of_a_tile_that_ctas_copy_for_each_other(shape, part, size):
    """A part lies as its type says from the first one on, and the others at a distance from it."""
    shape, part = ((rows, columns * 2 // size) for rows, columns in (shape, part))
    with weft.Module():
        whole = tile_of(*shape, size).buffer_type
        kind = MapType.of(tile.slice_type(whole, part))
        first = written(kind, pieces_of(kind))
        addresses = octets(whole, BASE)
        for row in range(0, shape[0], part[0]):
            for column in range(0, shape[1], part[1]):
                here = addresses[row : row + part[0], column : column + part[1]]
                assert np.array_equal(here - here[0, 0, 0], first - first[0, 0, 0]), (row, column)


def test_boxes_are_as_tall_as_they_may_be():
    with weft.Module():
        assert pieces_of(tile_of(256, 64, 2)) == Pieces((256, 64), [(0, 0, 0)])
        assert pieces_of(tile_of(512, 64, 2)) == Pieces((256, 64), [(0, 0, 0), (256, 0, 32768)])
        assert pieces_of(tile_of(384, 128, 2)).box == (192, 64)


@pytest.mark.parametrize(
    "change",
    [
        lambda at: [(row, column, offset + 1024) for row, column, offset in at],
        lambda at: [(*one[:2], other[2]) for one, other in zip(at, at[::-1], strict=True)],
        lambda at: at[:-1],
    ],
    ids=["all further on", "in another order", "one left out"],
)
def test_a_wrong_piece_is_seen(change):
    with weft.Module():
        kind = tile_of(512, 128, 2)
        right = pieces_of(kind)
        wrong = replace(right, starts=change(list(right.starts)))
        assert not np.array_equal(written(kind, wrong), octets(kind, BASE))


def test_an_element_that_two_pieces_write_is_seen():
    with weft.Module():
        kind = tile_of(64, 64, 2)
        right = pieces_of(kind)
        with pytest.raises(AssertionError, match="two boxes"):
            written(kind, replace(right, starts=[*right.starts, *right.starts]))
