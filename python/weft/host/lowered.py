"""A host function as LLVM IR, its memory and its launches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from weft.errors import Location

Bytes = npt.NDArray[np.uint8]
Dim = tuple[int, int, int]
PAGE = 4096
_UNSET = 0xFF  # NaN, or -1: what a program reads before it writes
ASSERT = "weftAssert"
"""The function that a `cf.assert` calls with its condition and its number."""


@dataclass(frozen=True)
class Lowered:
    """LLVM IR with the function `entry`. `result` is the LLVM type that it returns, `chips` are those of its
    kernels, and `assertions` have the message and the location of each.
    """

    llvm: str
    entry: str
    result: str
    chips: tuple[str, ...]
    assertions: Sequence[tuple[str, Location | None]]


class Shape(NamedTuple):
    """The dimensions of a launch, and its dynamic shared memory."""

    grid: Dim
    block: Dim
    cluster: Dim
    shared_bytes: int


@dataclass(frozen=True)
class Launched:
    """A launch: the kernel, its dimensions, and the emulator's report if that ran it."""

    kernel: str
    grid: Dim
    block: Dim
    report: Any = None


def new_bytes(size: int) -> Bytes:
    """Memory that begins at a page, and isn't set."""
    room = np.full(size + PAGE, _UNSET, np.uint8)
    begin = -room.ctypes.data % PAGE
    return room[begin : begin + size]
