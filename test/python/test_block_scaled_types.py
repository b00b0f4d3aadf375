"""What a kernel asks of a product's types: kind, group and bits of elements with block scales; and which
pairs of operands there are.
"""

from itertools import product

import pytest

from weft.dialects.element_types import FP8_TYPES, NARROW_TYPES, PTX_INPUTS, PTX_SCALES
from weft.dialects.operand_roles import extents, role_of
from weft.dialects.schedule import FAMILIES, Types, ceil_div
from weft.isa import block_scales, mma
from weft.isa.tcgen05.descriptors import KINDS, BlockScaledDescriptor
from weft.isa.tcgen05.tensor_layouts import SCALE_COLUMNS, SCALES_OF_COLUMN, scales
from weft.layout import Layout

PAIRS = list(product(NARROW_TYPES, NARROW_TYPES, PTX_SCALES))


@pytest.mark.parametrize(
    ("a", "b", "scale", "kind", "group", "bits", "of_k"),
    [
        ("f4E2M1FN", "f4E2M1FN", "f8E4M3FN", "mxf4nvf4", 16, 4, 2),
        ("f4E2M1FN", "f4E2M1FN", "f8E8M0FNU", "mxf4", 32, 4, 2),
        ("f4E2M1FN", "f8E4M3FN", "f8E8M0FNU", "mxf8f6f4", 32, 8, 128),
        ("f6E3M2FN", "f6E2M3FN", "f8E8M0FNU", "mxf8f6f4", 32, 8, 128),
        ("f8E5M2", "f8E4M3FN", "f8E8M0FNU", "mxf8f6f4", 32, 8, 1),
    ],
)
def test_types_state_what_multiplies_them(a, b, scale, kind, group, bits, of_k):
    types = Types(a, b, "f32", scale=scale)
    scaling = types.block_scaling
    assert scaling is not None
    assert (scaling.kind, scaling.group, types.input_bits, types.multiple_of_k) == (kind, group, bits, of_k)
    assert scaling.packed == (bits == 4) and types.sums == "f32"


@pytest.mark.parametrize(("a", "b", "scale"), PAIRS)
def test_each_pair_with_scales_is_one_that_the_instructions_have(a, b, scale):
    scaling = Types(a, b, "f32", scale=scale).block_scaling
    ptx_a, ptx_b, ptx_scale = PTX_INPUTS[a], PTX_INPUTS[b], PTX_SCALES[scale]

    def legal(kind, scale_vec):
        descriptor = BlockScaledDescriptor(
            kind, 128, 128, ptx_a, ptx_b, ptx_scale, scale_vec=scale_vec.replace("none", "")
        )
        return descriptor.complaint("sm_100a") is None

    if scaling is None:
        assert not any(legal(kind, vec) for kind in KINDS if KINDS[kind].scales for vec in ("1X", "2X"))
        return
    assert legal(scaling.kind, scaling.scale_vec)
    depth = KINDS[scaling.kind].k
    assert depth // scaling.group == int(scaling.scale_vec[0])
    shape = f"m16n8k{depth}"
    form = mma.Scaled(shape, scaling.kind, scaling.scale_vec, ptx_a, ptx_b, ptx_scale)
    assert mma.SCALED.judge(form, "sm_120a") is None


def test_every_format_is_multiplied_with_itself():
    for each in block_scales.FORMATS.values():
        for a, b in product(each.elements, repeat=2):
            scaling = block_scales.scaling_of(a, b, each.scale)
            assert scaling is not None and scaling.group == each.group


def test_types_without_block_scales_have_none():
    for a in PTX_INPUTS:
        assert Types(a, a, "f32").block_scaling is None
    assert Types("bf16", "bf16", "f32", scale="f8E8M0FNU").block_scaling is None
    assert Types("f4E2M1FN", "f4E2M1FN", "f32").input_bits == 8
    assert [Types(t, t, "f32").input_bytes for t in (*FP8_TYPES, "bf16", "f32")] == [1, 1, 2, 4]


def test_no_schedule_takes_scales_for_ones_of_another_kind():
    scaled = Types("f8E4M3FN", "f8E4M3FN", "f32", scale="f8E8M0FNU")
    for family in FAMILIES:
        if family.instruction in ("mma.sync", "wgmma"):
            assert not family.chips(scaled)


@pytest.mark.parametrize(
    ("scale", "k", "columns"), [("f8E8M0FNU", 129, 1024), ("f8E4M3FN", 129, 1536), ("f8E8M0FNU", 1, 512)]
)
def test_scales_are_whole_tiles(scale, k, columns):
    sizes = extents(300, 20, k, None, ceil_div)
    of_a, of_b = (role_of(name, scale).sizes for name in ("scale_a", "scale_b"))
    assert [sizes[name] for name in of_a] == [3, columns]
    assert [sizes[name] for name in of_b] == [1, columns]
    groups = ceil_div(k, block_scales.group_of(PTX_SCALES[scale]))
    assert block_scales.tiles(300, groups) == (3, columns)


@pytest.mark.parametrize("panel", [128, 256, 512, None], ids=str)
@pytest.mark.parametrize(("down", "deep"), [(1, 1), (2, 1), (1, 2), (3, 2)])
def test_stages_have_scales_where_copies_bring_them(down, deep, panel):
    stages = block_scales.Stages(2, down, deep, panel or deep * block_scales.TILE_BYTES)
    as_bytes, as_rows = (Layout.parse(text) for text in (stages.bytes_layout, stages.rows_layout))
    rows, groups = down * block_scales.ROWS, deep * block_scales.GROUPS
    for row, group in product(range(0, rows, 5), range(groups)):
        of_row, byte = divmod(block_scales.offset(row, group, groups), deep * block_scales.TILE_BYTES)
        found = as_rows.apply((1, row, group), (2, rows, groups))
        assert found == as_bytes.apply((1, of_row, byte), stages.shape)


def test_a_tile_of_scales_takes_four_columns_of_32_lanes():
    assert SCALE_COLUMNS == 4
    tile = Layout.parse(scales(block_scales.ROWS, block_scales.GROUPS))
    assert tile.span("TCol") == SCALE_COLUMNS * SCALES_OF_COLUMN
