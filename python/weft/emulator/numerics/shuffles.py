"""Moves of vector elements, as LLVM IR, and the lanes of shuffles."""

from collections.abc import Iterable
from functools import cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from weft.emulator.numerics.symbols import Symbol

_Lane = TypeVar("_Lane", int, npt.NDArray[np.int64])
_LOW, _HIGH = (0, 8, 1, 9, 4, 12, 5, 13), (0, 1, 8, 9, 4, 5, 12, 13)


def shuffle(kind: str, a: str, b: str, indices: Iterable[int]) -> str:
    """The elements of two vectors that have these indices."""
    mask = [f"i32 {i}" for i in indices]
    return f"shufflevector {kind} {a}, {kind} {b}, <{len(mask)} x i32> <{', '.join(mask)}>"


def loads_words(symbol: Symbol) -> bool:
    """Whether these are the four words of 16 loaded bytes."""
    while symbol.node[0] == "same":
        symbol = symbol.node[1]
    if symbol.node[0] != "bits" or symbol.dtype.itemsize != 4:
        return False
    origin = symbol.node[1].node
    return bool(origin[0] == "load" and origin[1] == 16)


@cache
def words() -> list[str]:
    """Code for `%word0` to `%word3` of eight lanes, which have 16 bytes each, one after the other, at
    `%words`. LLVM takes ten times as long for shuffles of 32 words.
    """
    lane, both, lines = "<4 x i32>", "<8 x i32>", []
    for each in range(8):
        lines.append(f"%at{each} = getelementptr i8, ptr %words, i64 {16 * each}")
        lines.append(f"%lane{each} = load {lane}, ptr %at{each}, align 1")
    for i in range(4):
        lines.append(f"%row{i} = {shuffle(lane, f'%lane{i}', f'%lane{i + 4}', range(8))}")
    for i in range(4):
        first, part = i % 2 * 2, i // 2 * 2
        rows = shuffle(both, f"%row{first}", f"%row{first + 1}", [part + k for k in _LOW])
        lines.append(f"%half{i} = {rows}")
    for i in range(4):
        first, part = i // 2 * 2, i % 2 * 2
        halves = shuffle(both, f"%half{first}", f"%half{first + 1}", [part + k for k in _HIGH])
        lines.append(f"%word{i} = {halves}")
    return [f"  {line}" for line in lines]


def named_lane(lane: _Lane, distance: _Lane, control: _Lane, mode: str) -> _Lane:
    """The lane that a lane of a shuffle names. Lanes are numbers in compiled code, otherwise arrays."""
    if mode == "up":
        return lane - distance
    if mode == "down":
        return lane + distance
    if mode == "bfly":
        return lane ^ distance
    segment = control >> 8 & 31
    return lane & segment | distance & ~segment


def beyond_segment(lane: _Lane, named: _Lane, control: _Lane, mode: str) -> _Lane:
    """How far the lane that a lane names is beyond the end of its segment; inside, it is 0 or less."""
    segment = control >> 8 & 31
    end = lane & segment | control & 31 & ~segment
    return end - named if mode == "up" else named - end
