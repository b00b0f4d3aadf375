"""Registers that one instruction uses together, in one array, so that code of the host can change them."""

import sys
from collections.abc import Callable, Sequence
from operator import is_, itemgetter
from typing import Any

import numpy as np

from weft.emulator.reading.types import Array


class RegisterBlock:
    """`array` is `[registers, warps, 32]`; `registers` are its parts, as a wave's register file has them."""

    __slots__ = ("address", "array", "registers")

    def __init__(self, array: Array) -> None:
        self.array = array if array.base is None else array.copy()
        self.registers = list(self.array)
        self.address: int = self.array.ctypes.data

    def is_current(self, file: list[Array], get: "Callable[[list[Array]], Any]") -> bool:
        """Whether the file has these registers in the slots that `get` takes."""
        return all(map(is_, self.registers, get(file)))

    @property
    def is_shared(self) -> bool:
        """Whether anything else than a register file has one of the registers, or a view of it."""
        views = sys.getrefcount(self.array) - len(self.registers)
        return max(map(sys.getrefcount, self.registers)) > _OWN or views > _OWN_VIEWS


def getter(slots: Sequence[int]) -> "Callable[[list[Array]], Any]":
    """Takes the registers in some slots of a register file."""
    return itemgetter(*slots) if len(slots) > 1 else lambda file: tuple(file[slot] for slot in slots)


def _own() -> tuple[int, int]:
    """How often a register that only a file has, and its block, are referred to."""
    block = RegisterBlock(np.zeros((2, 1, 1), np.uint32))
    file = list(block.registers)
    views = sys.getrefcount(block.array) - len(block.registers)
    return max(map(sys.getrefcount, block.registers)) * bool(file), views


_OWN, _OWN_VIEWS = _own()
