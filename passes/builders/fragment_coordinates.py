"""The coordinates of the elements that a lane's registers hold."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from weft.isa.chips import LANES
from weft.isa.mma.fragments import LANES_OF_ROW, REGISTER_BITS
from weft.layout import Layout
from weft.passes.builders import emit, thread_ids


@lru_cache(maxsize=256)
def lane_elements(layout: Layout, shape: tuple[int, ...]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """For every lane of the first warp, the coordinates of its elements, in register order.

    Raises LayoutError if lanes hold different numbers of elements, or share one.
    """
    return tuple(tuple(layout.lane_elements(each, shape)) for each in range(LANES))


def elements_of_row(bits: int) -> int:
    """Elements of so many bits in a row of a matrix that ldmatrix moves."""
    return LANES_OF_ROW * REGISTER_BITS // bits


@lru_cache(maxsize=256)
def matrices(
    layout: Layout, shape: tuple[int, ...], pack: int = 2
) -> tuple[tuple[tuple[int, int], ...], bool | None]:
    """The first row and column of the matrix of each register of `pack` elements, as ldmatrix moves it, and
    whether the elements of a register are along the columns of all matrices, or the rows (None if neither).
    """
    lanes = lane_elements(layout, shape)
    origins, directions = list[tuple[int, int]](), set[bool | None]()
    for register in range(0, len(lanes[0]), pack):
        row, column = lanes[0][register]
        held = [[lanes[lane][register + i] for i in range(pack)] for lane in range(LANES)]
        directions.add(_direction(row, column, held))
        origins.append((row, column))
    return tuple(origins), directions.pop() if len(directions) == 1 else None


def _direction(row: int, column: int, held: Sequence[Sequence[tuple[int, ...]]]) -> bool | None:
    """Whether the lanes' elements are along the columns of the matrix at (`row`, `column`), or its rows; None
    if neither.
    """
    pack = len(held[0])
    for by_column in (False, True):
        elements = [
            [_element(row, column, lane, i, by_column, pack) for i in range(pack)] for lane in range(LANES)
        ]
        if held == elements:
            return by_column
    return None


def _element(row: int, column: int, lane: int, i: int, by_column: bool, pack: int) -> tuple[int, int]:
    """Element `i` of a lane's register of a matrix at (`row`, `column`), along a row or a column."""
    outer, inner = lane // LANES_OF_ROW, pack * (lane % LANES_OF_ROW) + i
    return (row + inner, column + outer) if by_column else (row + outer, column + inner)


@dataclass(frozen=True)
class LaneDigit:
    """One digit of a coordinate that depends on the lane, or on the warp in its warpgroup:
    `(number / stride) % extent * weight`.
    """

    stride: int
    extent: int
    weight: int
    axis: str = "laneid"


@lru_cache(maxsize=256)
def lane_digits(layout: Layout, shape: tuple[int, ...]) -> tuple[tuple[LaneDigit, ...], ...] | None:
    """For each dimension, the digits of a lane's number that give the coordinate of its first element. None
    if the other registers of the lane aren't at the same distance from the first in every lane.
    """
    dimensions = []
    for group in layout.group(shape):
        weight, digits = 1, []
        for it in reversed(group):
            if it.axis in ("laneid", "warpid"):
                digits.append(LaneDigit(it.stride, it.extent, weight, it.axis))
            weight *= it.extent
        dimensions.append(tuple(digits))
    elements = lane_elements(layout, shape)
    for each in range(LANES):
        first = tuple(
            sum(each // d.stride % d.extent * d.weight for d in digits if d.axis == "laneid")
            for digits in dimensions
        )
        for here, there in zip(elements[each], elements[0], strict=True):
            if here != tuple(f + t for f, t in zip(first, there, strict=True)):
                return None
    return tuple(dimensions)


def lane_coordinate(digits: tuple[LaneDigit, ...]) -> Any:
    """One coordinate of the lane's first element."""
    total: Any = 0
    for digit in digits:
        number = thread_ids.lane() if digit.axis == "laneid" else thread_ids.warp()
        low = emit.rem(emit.div(number, digit.stride), digit.extent)
        total = emit.add(total, emit.mul(low, digit.weight))
    return total
