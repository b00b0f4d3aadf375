"""The notation of layouts, and the messages about wrong ones."""

from collections.abc import Callable

import pytest

from weft.errors import WeftError
from weft.layout import Iter, Layout, LayoutError

parse = Layout.parse
C_FRAGMENT = parse("S[(2,8,4,2):(2,4@laneid,1@laneid,1)]")
A_K8 = C_FRAGMENT
B_K8 = parse("S[(4,2,8):(1@laneid,1,4@laneid)]")


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
