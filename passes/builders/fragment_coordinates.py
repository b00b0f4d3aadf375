"""The coordinates of the elements that a lane's registers hold."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from weft.isa.chips import LANES
from weft.isa.mma.fragments import LANES_OF_ROW, REGISTER_BITS
from weft.layout import Layout
from weft.mlir import ir
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
    lanes = np.array(lane_elements(layout, shape))
    origins = lanes[0, ::pack]
    held = lanes.reshape(LANES, len(origins), pack, -1) - origins[:, None]
    lane, element = np.indices((LANES, pack))
    at = np.stack((lane // LANES_OF_ROW, pack * (lane % LANES_OF_ROW) + element), -1)[:, None]
    along_row, along_column = ((held == each).all((0, 2, 3)) for each in (at, at[..., ::-1]))
    by_column = None
    if along_row.all():
        by_column = False
    elif along_column.all() and not along_row.any():
        by_column = True
    return tuple(map(tuple, origins.tolist())), by_column


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
    elements, lane = np.array(lane_elements(layout, shape)), np.arange(LANES)
    for dimension, own in enumerate(dimensions):
        of_lane = [lane // d.stride % d.extent * d.weight for d in own if d.axis == "laneid"]
        first = sum(of_lane, np.zeros(LANES, int))
        if (elements[..., dimension] != first[:, None] + elements[0, :, dimension]).any():
            return None
    return tuple(dimensions)


def lane_coordinate(digits: tuple[LaneDigit, ...]) -> ir.Value | int:
    """One coordinate of the lane's first element."""
    total: Any = 0
    for digit in digits:
        number = thread_ids.lane() if digit.axis == "laneid" else thread_ids.warp()
        low = emit.rem(emit.div(number, digit.stride), digit.extent)
        total = emit.add(total, emit.mul(low, digit.weight))
    return total
