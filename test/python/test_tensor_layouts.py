"""The layouts of operands in tensor memory, against the emulator's own positions."""

import itertools

import numpy as np
import pytest

from weft.emulator.instructions.tcgen05_ld_st import data_path, scale_cells
from weft.isa.tcgen05 import tensor_layouts
from weft.layout import AXES, Layout
from weft.layout.iterators import point_table

LANE, COLUMN = AXES.index("TLane"), AXES.index("TCol")
PARTS = np.arange(4)


def cells(notation, shape):
    """Lanes and columns, in elements, of each element of a layout: `[copies, *shape]`."""
    layout = Layout.parse(notation)
    assert layout.size == np.prod(shape)
    copies = point_table(layout.replica)
    points = copies[:, None] + point_table(layout.shard)
    return tuple(points[..., axis].reshape(len(copies), *shape) for axis in (LANE, COLUMN))


PRODUCTS = [
    *((m, group, sparse, False) for m, group in ((64, 1), (128, 1), (128, 2), (256, 2)) for sparse in (0, 1)),
    *((m, 1, sparse, True) for m in (32, 64, 128) for sparse in (0, 1)),
]


@pytest.mark.parametrize(("m", "group", "sparse", "ws"), PRODUCTS)
def test_accumulators_are_where_the_emulator_has_them(m, group, sparse, ws):
    path = data_path(m, group, sparse=bool(sparse), ws=ws)
    for n, bits in itertools.product((16, 64, 256), (16, 32)):
        text = tensor_layouts.accumulator(m, n, group, bits, sparse=bool(sparse), weight_stationary=ws)
        lane, column = cells(text, (m // group, path.banks, n // path.banks))
        assert lane.shape[0] == 1
        assert (lane[0] == path.bank_lanes().T[:, :, None]).all()
        assert (column[0] * bits == np.arange(n // path.banks) * 32).all()


@pytest.mark.parametrize(("m", "group", "sparse", "ws"), PRODUCTS)
def test_a_is_where_the_emulator_has_it(m, group, sparse, ws):
    path = data_path(m, group, sparse=bool(sparse), ws=ws)
    text = tensor_layouts.operand_a(m, 32, group, sparse=bool(sparse), weight_stationary=ws)
    lane, column = cells(text, (m // group, 32))
    assert (lane == path.bank_lanes()[:, :, None]).all()
    assert (column == np.arange(32)).all()


def test_elements_of_a_may_be_apart():
    _, column = cells(tensor_layouts.operand_a(128, 32, spacing=2), (128, 32))
    assert (column == 2 * np.arange(32)).all()


@pytest.mark.parametrize("groups", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("rows", [32, 64, 96, 128, 192, 256])
def test_scales_are_where_the_emulator_has_them(rows, groups):
    lane, column = cells(tensor_layouts.scales(rows, groups), (rows, groups))
    want_lane, want_column, byte = scale_cells(PARTS, rows, 0, groups)
    assert (lane == want_lane).all()
    assert (column == 4 * want_column + byte).all()
    assert tensor_layouts.scales(rows, groups) == tensor_layouts.scales_of_b(rows, groups, 256, 2)


@pytest.mark.parametrize("n", [64, 128, 192, 256])
def test_the_two_parts_of_a_pairs_d_have_their_own_scales_of_b(n):
    lane, column = cells(tensor_layouts.scales_of_b(n, 8, 128, 2), (2, n // 2, 8))
    for bank in range(2):
        want_lane, want_column, byte = scale_cells(PARTS.reshape(2, 2)[bank], n // 2, 0, 8)
        assert (lane[:, bank] == want_lane).all()
        assert (column[:, bank] == 4 * want_column + byte).all()


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        ("accumulator", (96, 64), "m with cta_group 1 must be one of 64, 128, got 96"),
        ("accumulator", (64, 64, 2), "m with cta_group 2 must be one of 128, 256, got 64"),
        ("accumulator", (128, 64, 3), "cta_group must be 1 or 2, got 3"),
        ("accumulator", (128, 63, 2), "n must be a positive multiple of 2, got 63"),
        ("operand_a", (32, 64), "m with cta_group 1 must be one of 64, 128, got 32"),
        ("scales", (48, 4), "rows must be a positive multiple of 32, got 48"),
        ("scales", (32, 6), "groups must be 1, 2 or a multiple of 4, got 6"),
        ("scales_of_b", (32, 4, 128, 2), "rows must be a positive multiple of 64, got 32"),
    ],
)
def test_what_no_instruction_has_is_refused(function, arguments, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        getattr(tensor_layouts, function)(*arguments)


def test_a_weight_stationary_product_has_no_pair():
    with pytest.raises(ValueError, match="cta_group must be 1 for a weight-stationary product, got 2"):
        tensor_layouts.accumulator(128, 64, 2, weight_stationary=True)
