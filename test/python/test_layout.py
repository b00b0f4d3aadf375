"""Layouts against their definition, by brute force, and against PTX's fragment formulas."""

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from weft.errors import WeftError
from weft.layout import AXES, SWIZZLES, Iter, Layout, LayoutError, flatten, row_major, unflatten

# Brute force takes as long as the layout is large.
unhurried = settings(deadline=None, max_examples=30)

parse = Layout.parse
C_FRAGMENT = parse("S[(2,8,4,2):(2,4@laneid,1@laneid,1)]")
A_K8 = C_FRAGMENT
B_K8 = parse("S[(4,2,8):(1@laneid,1,4@laneid)]")
A_K16 = A_K8.tile_to((16, 16), (16, 8))
B_K16 = B_K8.tile_to((16, 8), (8, 8))

Position = dict[str, int]


def definition(layout: Layout, flat: int) -> list[Position]:
    """The module docstring, word for word; swizzles apart."""
    point = dict.fromkeys(layout.axes, 0)
    for axis, value in layout.offset:
        point[axis] += value
    for it in reversed(layout.shard):
        flat, digit = divmod(flat, it.extent)
        point[it.axis] += digit * it.stride
    stored = []
    for digits in product(*(range(it.extent) for it in layout.replica)):
        copy = dict(point)
        for it, digit in zip(layout.replica, digits, strict=True):
            copy[it.axis] += digit * it.stride
        stored.append(copy)
    return stored


def nonzero(position: Position) -> Position:
    """A position without the axes at 0, to compare layouts that name different axes."""
    return {axis: value for axis, value in position.items() if value}


def same_map(a: Layout, b: Layout) -> bool:
    def sets(layout: Layout) -> list[list[list[tuple[str, int]]]]:
        return [sorted(sorted(nonzero(p).items()) for p in layout.positions(i)) for i in range(layout.size)]

    return a.size == b.size and sets(a) == sets(b)


def strided(positions: list[Position]) -> bool:
    """Whether some digits visit these positions in order, by trial of every factorization."""
    n = len(positions)
    if n == 1:
        return True
    step = {axis: positions[1][axis] - positions[0][axis] for axis in positions[0]}
    if len(nonzero(step)) > 1 or min(step.values(), default=0) < 0:
        return False
    for inner in (d for d in range(2, n + 1) if n % d == 0):
        starts = positions[::inner]
        runs = [{x: v + i * step[x] for x, v in start.items()} for start in starts for i in range(inner)]
        if runs == positions and strided(starts):
            return True
    return False


def coords(shape: Sequence[int]) -> list[tuple[int, ...]]:
    return list(product(*map(range, shape)))


@st.composite
def iterators(draw: st.DrawFn, most: int = 4) -> tuple[Iter, ...]:
    one = st.builds(Iter, st.integers(1, 3), st.integers(0, 9), st.sampled_from(AXES))
    return tuple(draw(st.lists(one, max_size=most)))


@st.composite
def layouts(draw: st.DrawFn, swizzled: bool = False) -> Layout:
    offset = draw(st.dictionaries(st.sampled_from(AXES), st.integers(0, 9), max_size=2))
    swizzle = draw(st.sampled_from([None, *SWIZZLES.values()])) if swizzled else None
    return Layout(draw(iterators()), draw(iterators(most=2)), tuple(offset.items()), swizzle)


@st.composite
def bijections(draw: st.DrawFn) -> Layout:
    """Dense on each of up to three axes, the digits in any order."""
    shard: list[Iter] = []
    for axis in ("laneid", "reg", "m"):
        stride = 1
        for extent in draw(st.lists(st.integers(1, 4), max_size=2)):
            shard.append(Iter(extent, stride, axis))
            stride *= extent
    return Layout(tuple(draw(st.permutations(shard))))


@st.composite
def shaped(draw: st.DrawFn, rank: int = 2) -> tuple[Layout, tuple[int, ...]]:
    """A layout and a shape that it groups by."""
    dims = [draw(iterators(most=2)) for _ in range(rank)]
    shape = tuple(prod(it.extent for it in dim) for dim in dims)
    return Layout(sum(dims, ()), draw(iterators(most=1)), (("m", draw(st.integers(0, 5))),)), shape


@unhurried
@given(layouts())
def test_positions_follow_the_definition(layout: Layout) -> None:
    for flat in range(layout.size):
        assert layout.positions(flat) == definition(layout, flat)
        assert layout.apply(flat) == definition(layout, flat)[0]
    firsts = (dict(zip(AXES, first, strict=True)) for first in layout.first_positions().tolist())
    assert [{a: p[a] for a in layout.axes} for p in firsts] == [layout.apply(i) for i in range(layout.size)]


@unhurried
@given(shaped())
def test_coordinates_are_row_major(drawn: tuple[Layout, tuple[int, ...]]) -> None:
    layout, shape = drawn
    digits = [it.extent for it in layout.shard]
    for flat, at in enumerate(coords(shape)):
        assert (flatten(at, shape), unflatten(flat, shape)) == (flat, at)
        assert layout.apply(at, shape) == layout.apply(flat) == layout.apply(unflatten(flat, digits))


@pytest.mark.parametrize(
    ("name", "low", "high", "shift"),
    [("128B", 0x70, 0x380, 3), ("64B", 0x30, 0x180, 3), ("32B", 0x10, 0x80, 3), ("128B_32B", 0x60, 0x180, 2)],
)
def test_swizzle_xors_the_documented_bits(name: str, low: int, high: int, shift: int) -> None:
    for byte in range(4096):
        assert SWIZZLES[name].swizzle_offset(byte) == byte ^ ((byte & high) >> shift)
        assert SWIZZLES[name].swizzle_offset(byte) & ~low == byte & ~low


def test_swizzle_acts_on_the_byte_address_of_memory() -> None:
    layout = parse("S[(8,64):(64,1)] + O[64] xor 128B")
    for row, col in coords((8, 64)):
        byte = (row + 1) * 128 + col * 2
        assert layout.apply((row, col), element_bits=16) == {"m": (byte ^ ((byte & 0x380) >> 3)) // 2}
    # Two 4-bit elements share a byte and stay neighbors.
    nibbles = parse("S[(8,256):(256,1)] xor 128B")
    assert nibbles.apply((1, 1), element_bits=4) == {"m": 256 + 32 + 1}


@pytest.mark.each_value(11)
@pytest.mark.parametrize("name", SWIZZLES)
@pytest.mark.parametrize("bits", [4, 8, 16, 32])
def test_swizzled_tile_is_a_bijection(name: str, bits: int) -> None:
    columns = SWIZZLES[name].width * 8 // bits
    layout = Layout(row_major((8, columns)).shard, swizzle=SWIZZLES[name])
    assert layout.is_bijective({"m": 8 * columns}, element_bits=bits)
    back = layout.inverse((8, columns), element_bits=bits)
    assert all(back[(layout.apply(at, element_bits=bits)["m"],)] == at for at in coords((8, columns)))


@unhurried
@given(layouts(swizzled=True))
def test_notation_round_trips(layout: Layout) -> None:
    assert parse(str(layout)) == layout
    assert hash(parse(str(layout))) == hash(layout)


# PTX's formulas for the fragments of mma.m16n8k16 and mma.m16n8k8 with 16-bit elements: (row, column) of a_i.
Element = Callable[[int, int], tuple[int, int]]


def a_element(lane: int, i: int) -> tuple[int, int]:
    return lane // 4 + (0 if i in (0, 1, 4, 5) else 8), lane % 4 * 2 + i % 2 + (0 if i < 4 else 8)


def b_element(lane: int, i: int) -> tuple[int, int]:
    return lane % 4 * 2 + i % 2 + (8 if i >= 2 else 0), lane // 4


def c_element(lane: int, i: int) -> tuple[int, int]:
    return lane // 4 + (8 if i >= 2 else 0), lane % 4 * 2 + i % 2


@pytest.mark.parametrize(
    ("layout", "shape", "element"),
    [
        (A_K8, (16, 8), a_element),
        (A_K16, (16, 16), a_element),
        (B_K8, (8, 8), b_element),
        (B_K16, (16, 8), b_element),
        (C_FRAGMENT, (16, 8), c_element),
    ],
    ids=["A k8", "A k16", "B k8", "B k16", "C"],
)
def test_mma_fragments_match_ptx(layout: Layout, shape: tuple[int, int], element: Element) -> None:
    registers = prod(shape) // 32
    assert layout.is_bijective({"laneid": 32, "m": registers})
    for lane in range(32):
        assert layout.lane_elements(lane, shape) == [element(lane, i) for i in range(registers)]


def test_a_k16_puts_k_hi_at_stride_4() -> None:
    assert str(A_K16) == "S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]"
    assert str(B_K16) == "S[(2,4,2,8):(2,1@laneid,1,4@laneid)]"
    for lane, s in product(range(32), range(8)):
        kp, rm, khi = s % 2, s // 2 % 2, s // 4
        assert A_K16.apply((lane // 4 + 8 * rm, lane % 4 * 2 + kp + 8 * khi), (16, 16)) == {
            "laneid": lane,
            "m": s,
        }


def test_lane_elements_count_warps_and_replicas() -> None:
    layout = parse("S[(2,2,2):(1@warpid,1@laneid,1)] + R[(2):(2)]")
    assert layout.lane_elements(1, (2, 4), warp=1) == [(1, 2), (1, 3), (1, 2), (1, 3)]
    assert layout.lane_indices(1, warp=1).tolist() == [6, 7, 6, 7]
    assert layout.lane_elements(2, (2, 4)) == []
    # `reg` comes before `m`, whatever the logical order.
    assert parse("S[(2,2):(1,1@reg)]").lane_elements(0, (2, 2)) == [(0, 0), (1, 0), (0, 1), (1, 1)]


@unhurried
@given(shaped(rank=3))
def test_group_keeps_the_map(drawn: tuple[Layout, tuple[int, ...]]) -> None:
    layout, shape = drawn
    groups = layout.canonical().group(shape)
    assert [prod(it.extent for it in group) for group in groups] == list(shape)
    assert same_map(Layout(sum(groups, ()), layout.replica, layout.offset), layout)


def test_group_splits_and_fuses() -> None:
    assert parse("S[(4,6):(100,1)]").group((2, 2, 6)) == ((Iter(2, 200),), (Iter(2, 100),), (Iter(6, 1),))
    assert parse("S[(24):(5@laneid)]").group((4, 1, 6)) == (
        (Iter(4, 30, "laneid"),),
        (),
        (Iter(6, 5, "laneid"),),
    )
    assert C_FRAGMENT.group((16, 8)) == (C_FRAGMENT.shard[:2], C_FRAGMENT.shard[2:])


@unhurried
@given(layouts())
def test_canonical_keeps_the_map_and_is_least(layout: Layout) -> None:
    least = layout.canonical()
    assert same_map(least, layout)
    assert least.canonical() == least
    assert all(it.extent > 1 for it in least.shard)


def test_canonical_merges_contiguous_iterators() -> None:
    layout = parse("S[(2,1,8,4,2):(64,7,8,2,1)] + R[(2,2):(2@laneid,1@laneid)]")
    assert str(layout.canonical()) == "S[(128):(1)] + R[(4):(1@laneid)]"
    # Contiguous numbers on different axes are not neighbors.
    assert parse("S[(4,2):(2@laneid,1)]").canonical() == parse("S[(4,2):(2@laneid,1)]")


@pytest.mark.slow
@unhurried
@given(shaped(), shaped())
def test_tile_adds_outer_steps_of_one_span(
    inner: tuple[Layout, tuple[int, ...]], outer: tuple[Layout, tuple[int, ...]]
) -> None:
    (fine, fine_shape), (coarse, coarse_shape) = inner, outer
    assume(fine.size * coarse.size <= 256)
    shape = tuple(a * b for a, b in zip(coarse_shape, fine_shape, strict=True))
    tiled = fine.tile(coarse, coarse_shape, fine_shape)
    for at in coords(shape):
        tile = tuple(x // n for x, n in zip(at, fine_shape, strict=True))
        rest = tuple(x % n for x, n in zip(at, fine_shape, strict=True))
        wanted = [
            nonzero({axis: p.get(axis, 0) + q.get(axis, 0) * fine.span(axis) for axis in AXES})
            for q in coarse.positions(tile, coarse_shape)
            for p in fine.positions(rest, fine_shape)
        ]
        assert [nonzero(position) for position in tiled.positions(at, shape)] == wanted


def test_tile_by_a_grid_of_warps() -> None:
    grid = parse("S[(2,2):(1@warpid,2@warpid)]")
    warps = C_FRAGMENT.tile(grid, (2, 2), (16, 8))
    assert warps.is_bijective({"warpid": 4, "laneid": 32, "m": 4})
    # Another copy of the whole tile, behind it in the registers.
    copied = C_FRAGMENT.tile(parse("S[(2,1):(1,1)] + R[(2):(2)]"), (2, 1), (16, 8))
    assert str(copied) == "S[(2,2,8,4,2):(4,2,4@laneid,1@laneid,1)] + R[(2):(8)]"
    assert warps.apply((17, 8), (32, 16)) == {"warpid": 3, "laneid": 4, "m": 0}


@unhurried
@given(bijections(), st.integers(1, 3), st.integers(1, 3))
def test_tile_to_repeats_bijections_without_overlap(layout: Layout, rows: int, columns: int) -> None:
    tiled = layout.tile_to((rows, columns * layout.size), (1, layout.size))
    box = {axis: layout.span(axis) for axis in layout.axes} | {"m": layout.span("m") * rows * columns}
    assert tiled.is_bijective(box)


@unhurried
@given(shaped(), st.data())
def test_slice_keeps_every_position(drawn: tuple[Layout, tuple[int, ...]], data: st.DataObject) -> None:
    layout, shape = drawn
    starts = [data.draw(st.integers(0, n - 1)) for n in shape]
    extents = [data.draw(st.integers(1, n - start)) for n, start in zip(shape, starts, strict=True)]
    region = [
        [nonzero(p) for p in layout.positions([s + x for s, x in zip(starts, at, strict=True)], shape)]
        for at in coords(extents)
    ]
    along = [
        [[*starts[:dim], start + x, *starts[dim + 1 :]] for x in range(n)]
        for dim, (start, n) in enumerate(zip(starts, extents, strict=True))
    ]
    if not all(strided([layout.apply(at, shape) for at in line]) for line in along):
        with pytest.raises(LayoutError, match="the positions have no common stride"):
            layout.slice(shape, starts, extents)
        return
    part = layout.slice(shape, starts, extents)
    assert [[nonzero(p) for p in part.positions(at, extents)] for at in coords(extents)] == region


def test_slice_of_fragments() -> None:
    assert str(A_K16.slice((16, 16), (0, 8), (16, 8))) == "S[(2,8,4,2):(2,4@laneid,1@laneid,1)] + O[4]"
    assert str(A_K16.slice((16, 16), (8, 0), (8, 16))) == "S[(8,2,4,2):(4@laneid,4,1@laneid,1)] + O[2]"
    # A start inside an iterator is fine as long as the steps stay even.
    assert str(parse("S[(8,8):(8,1)]").slice((8, 8), (1, 3), (5, 4))) == "S[(5,4):(8,1)] + O[11]"


@unhurried
@given(bijections(), st.permutations(range(3)), st.lists(st.integers(1, 4), min_size=3, max_size=3))
def test_compose_is_application_after_application(outer: Layout, order: list[int], tile: list[int]) -> None:
    strides = [prod(tile[i + 1 :]) for i in range(3)]
    inner = Layout((*(Iter(tile[i], strides[i]) for i in order), Iter(2, 1, "warpid")))
    assume(inner.span("m") <= outer.size)
    through = [inner.apply(flat) for flat in range(inner.size)]
    after = [{"warpid": position["warpid"], **outer.apply(position["m"])} for position in through]
    if strided(after):
        composed = outer.compose(inner)
        assert [nonzero(composed.apply(flat)) for flat in range(inner.size)] == list(map(nonzero, after))
    else:
        with pytest.raises(LayoutError, match="the positions have no common stride"):
            outer.compose(inner)


def test_compose_carries_replicas_offsets_and_swizzles() -> None:
    outer = parse("S[(4,8):(10,1)] + R[(2):(100)] + O[3] xor 128B")
    inner = parse("S[(2,4):(8,1)] + R[(2):(16)] + O[4,2@laneid]")
    composed = outer.compose(inner)
    assert str(composed) == "S[(2,4):(10,1)] + R[(2,2):(100,20)] + O[2@laneid,7] xor 128B"
    # Row-major then transposed: the order of digits changes, their strides don't.
    transpose = parse("S[(8,4):(1,8)]")
    assert str(row_major((4, 8)).compose(transpose)) == "S[(8,4):(1,8)]"
    assert transpose.compose(transpose.invert()).canonical() == row_major((32,))


@unhurried
@given(bijections())
def test_inverse_undoes_apply(layout: Layout) -> None:
    back = layout.inverse((layout.size,))
    assert len(back) == layout.size
    assert all(back[tuple(layout.apply(flat).values())] == (flat,) for flat in range(layout.size))


@unhurried
@given(bijections())
def test_invert_is_a_strided_inverse_of_a_strided_bijection(layout: Layout) -> None:
    # Digits only change positions, so the inverse is always strided here.
    inverse = layout.invert()
    box = [layout.span(axis) for axis in layout.axes]
    for flat in range(layout.size):
        position = flatten([layout.apply(flat)[axis] for axis in layout.axes], box)
        assert inverse.apply(position).get("m", 0) == flat


def test_invert_of_the_c_fragment() -> None:
    # Over (laneid, m): 8*(lane/4) for the row and 2*(lane%4) for the column make 2*lane.
    assert str(C_FRAGMENT.invert()) == "S[(32,2,2):(2,64,1)]"


@unhurried
@given(layouts(), st.dictionaries(st.sampled_from(AXES), st.integers(1, 8)))
def test_is_bijective_counts_every_position(layout: Layout, box: dict[str, int]) -> None:
    hits = [
        tuple(p.get(axis, 0) for axis in AXES) for flat in range(layout.size) for p in layout.positions(flat)
    ]
    wanted = list(product(*(range(box.get(axis, 1)) for axis in AXES)))
    assert layout.is_bijective(box) == (sorted(hits) == wanted)


@unhurried
@given(bijections())
def test_dense_layouts_are_bijections(layout: Layout) -> None:
    assert layout.is_bijective({axis: layout.span(axis) for axis in layout.axes})
    assert not layout.is_bijective({"warpid": 2, **{axis: layout.span(axis) for axis in layout.axes}})


def test_replicas_count_as_positions() -> None:
    layout = parse("S[(8):(1@laneid)] + R[(4):(8@laneid)]")
    assert layout.has_replica and layout.size == 8 and layout.span("laneid") == 32
    assert layout.is_bijective({"laneid": 32})
    assert not parse("S[(8):(1@laneid)] + R[(4):(4@laneid)]").is_bijective({"laneid": 32})
    assert not parse("S[(8):(1)] + R[(1):(8)]").has_replica


@unhurried
@given(layouts())
def test_span_is_the_reach_on_an_axis(layout: Layout) -> None:
    for axis in AXES:
        values = [p.get(axis, 0) for flat in range(layout.size) for p in layout.positions(flat)]
        assert layout.span(axis) == 1 + max(values) - min(values)


def test_a_layout_of_one_element_has_no_coordinates():
    assert Layout(()).lane_elements(0, ()) == [()]
    assert Layout(()).lane_elements(1, ()) == []


# The notation, and the messages about wrong ones


@pytest.mark.parametrize(
    "text",
    [
        "S[(2,8,4,2):(2,4@laneid,1@laneid,1)]",
        "S[(8):(1)] + R[(2,4):(4@laneid,1@warpid)]",
        "S[(8):(1)] + O[3@laneid,5]",
        "S[():()]",
        "S[(128,4):(1@TLane,1@TCol)] + R[(2):(64@TLane)] + O[256@TCol]",
        "S[(8,64):(64,1)] + R[(2):(1@reg)] + O[1024] xor 64B",
    ],
)
def test_notation_prints_as_written(text: str) -> None:
    assert str(parse(text)) == text


def test_notation_takes_spaces_and_normalizes_offsets() -> None:
    spaced = parse(" S[ (2, 8) : (4 @ laneid, 1,) ]+O[ 5, 2@laneid, 1@m, 0@reg ]xor  32B ")
    assert str(spaced) == "S[(2,8):(4@laneid,1)] + O[2@laneid,6] xor 32B"


KNOWN = "warpid, laneid, TLane, TCol, reg, m"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1: expected 'S', got the end"),
        ("R[(1):(1)]", "column 1: expected 'S', got 'R'"),
        ("S(2):(1)", "column 2: expected '[', got '('"),
        ("S[2:1]", "column 3: expected '(', got '2'"),
        ("S[(2", "column 5: expected ',' or ')', got the end"),
        ("S[(2 3):(1,1)]", "column 6: expected ',' or ')', got '3'"),
        ("S[(0):(1)]", "column 4: expected a positive extent, got '0'"),
        ("S[(x):(1)]", "column 4: expected a positive extent, got 'x'"),
        ("S[(2)(1)]", "column 6: expected ':', got '('"),
        ("S[(2):1]", "column 7: expected '(', got '1'"),
        ("S[(2):(-1)]", "column 8: expected an integer, got '-'"),
        ("S[(2):(@laneid)]", "column 8: expected an integer, got '@'"),
        ("S[(2):(1@lane)]", f"column 10: expected an axis ({KNOWN}), got 'lane'"),
        ("S[(2):(1@)]", f"column 10: expected an axis ({KNOWN}), got ')'"),
        ("S[(2,4):(1)]", "column 9: expected as many strides as extents, 2, got 1"),
        ("S[(2):(1)", "column 10: expected ']', got the end"),
        ("S[(2):(1)] R[(2):(1)]", "column 12: expected '+', 'xor' or the end, got 'R'"),
        ("S[(2):(1)] + X[1]", "column 14: expected 'R' or 'O', got 'X'"),
        ("S[(2):(1)] + R[(2):(1)] + R[(2):(1)]", "column 27: expected 'O', got 'R'"),
        ("S[(2):(1)] + O(1)", "column 15: expected '[', got '('"),
        ("S[(2):(1)] + O[1", "column 17: expected ',' or ']', got the end"),
        ("S[(2):(1)] + O[1] + R[(2):(1)]", "column 19: expected 'xor' or the end, got '+'"),
        ("S[(2):(1)] xor 16B", "column 16: expected a swizzle (128B, 64B, 32B, 128B_32B), got '16B'"),
        ("S[(2):(1)] xor 64B + O[1]", "column 20: expected the end, got '+'"),
    ],
)
def test_parse_errors_name_column_and_expectation(text: str, message: str) -> None:
    with pytest.raises(LayoutError) as caught:
        parse(text)
    assert str(caught.value) == f"layout '{text}', {message}"


LINE, X64 = parse("S[(8):(1)]"), parse("S[(8):(1)] xor 64B")
SKIP = parse("S[(3):(3)] + O[2]")
TWICE, HOLES, BOTH = parse("S[(2,2):(1,0)]"), parse("S[(2,2):(1@laneid,2)]"), parse("S[(2):(1)] + R[(2):(2)]")


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: Iter(2, 1, "lane"), f"axis must be one of {KNOWN}, got 'lane'"),
        (lambda: Layout((), (), (("tx", 1),)), f"axis must be one of {KNOWN}, got 'tx'"),
        (lambda: C_FRAGMENT.span("lane"), f"axis must be one of {KNOWN}, got 'lane'"),
        (lambda: C_FRAGMENT.is_bijective({"lane": 32}), f"axis must be one of {KNOWN}, got 'lane'"),
        (lambda: Iter(0, 1), "iterator 0:1 must have a positive extent and a non-negative stride"),
        (
            lambda: Iter(2, -1, "reg"),
            "iterator 2:-1@reg must have a positive extent and a non-negative stride",
        ),
        (lambda: Layout((), offset=(("reg", -2),)), "offset must not be negative, got -2@reg"),
        (
            lambda: Iter(2, 2**31),
            "iterator 2:2147483648 must have an extent and a stride of at most 2147483647",
        ),
        (lambda: Layout((), offset=(("m", 2**31),)), "offset must be at most 2147483647, got 2147483648"),
        (lambda: C_FRAGMENT.apply(128), "index must be within shape (2, 8, 4, 2), got 128"),
        (lambda: C_FRAGMENT.apply((16, 0), (16, 8)), "coordinates must be within shape (16, 8), got (16, 0)"),
        (lambda: C_FRAGMENT.apply((0, 0)), "coordinates must be within shape (2, 8, 4, 2), got (0, 0)"),
        (
            lambda: C_FRAGMENT.apply(0, (16, 16)),
            f"shape (16, 16) doesn't have the 128 elements of {C_FRAGMENT}",
        ),
        (lambda: X64.apply(0), "element_bits must divide 128 for swizzle 64B, got None"),
        (lambda: X64.apply(0, element_bits=6), "element_bits must divide 128 for swizzle 64B, got 6"),
        (
            lambda: parse("S[(3,4):(4,1@laneid)]").group((2, 6)),
            "shape (2, 6), dimension 1 of extent 6: its last 6 are in iterator 4:1@laneid, "
            "but neither 6 nor 4 divides the other",
        ),
        (
            lambda: parse("S[(3,2,2):(4,2,1)]").group((2, 6)),
            "shape (2, 6), dimension 1 of extent 6: its last 3 are in iterator 2:2, "
            "but neither 3 nor 2 divides the other",
        ),
        (
            lambda: A_K8.tile_to((24, 8), (16, 8)),
            "to_shape must be a multiple of (16, 8) in each dimension, got (24, 8)",
        ),
        (
            lambda: A_K8.tile_to((16,), (16, 8)),
            "to_shape must be a multiple of (16, 8) in each dimension, got (16,)",
        ),
        (
            lambda: A_K8.tile(LINE, (8,), (16, 8)),
            "outer_shape and inner_shape must have the same rank, got (8,) and (16, 8)",
        ),
        (
            lambda: LINE.tile(X64, (8,), (8,)),
            f"outer must not have a swizzle, got {X64}",
        ),
        (
            lambda: A_K8.slice((16, 8), (8, 0), (16, 8)),
            "region must lie within shape (16, 8), got (16, 8) at (8, 0)",
        ),
        (lambda: A_K8.slice((16, 8), (0,), (16,)), "region must lie within shape (16, 8), got (16,) at (0,)"),
        (
            lambda: A_K8.slice((16, 8), (0, 1), (16, 2)),
            "dimension 1, elements 1 to 2 of S[(4,2):(1@laneid,1)]: the positions have no common stride",
        ),
        (
            lambda: parse("S[(2,4):(1,2)]").slice((8,), (3,), (2,)),
            "dimension 0, elements 3 to 4 of S[(2,4):(1,2)]: the positions have no common stride",
        ),
        (
            lambda: LINE.compose(SKIP),
            f"inner must stay below 8, the size of {LINE}, got {SKIP}, which reaches 9",
        ),
        (lambda: LINE.compose(X64), f"inner must not have a swizzle, got {X64}"),
        (lambda: B_K8.compose(SKIP), f"{B_K8} after {SKIP}: the positions have no common stride"),
        (lambda: TWICE.inverse((2, 2)), f"no inverse: {TWICE} stores (0, 0) and (0, 1) at the same position"),
        (
            lambda: HOLES.invert(),
            "layout must be a bijection onto {'laneid': 2, 'm': 3}, without replica or swizzle, "
            f"got {HOLES}",
        ),
        (
            lambda: BOTH.invert(),
            f"layout must be a bijection onto {{'m': 4}}, without replica or swizzle, got {BOTH}",
        ),
    ],
)
def test_messages_state_what_is_expected_and_what_was_found(
    attempt: Callable[[], object], message: str
) -> None:
    with pytest.raises(LayoutError) as caught:
        attempt()
    assert isinstance(caught.value, WeftError)
    assert str(caught.value) == message
