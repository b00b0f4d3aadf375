"""What is known of a function of the program after it is decoded, and what instructions and code of the host
share of products of tensor cores (see `compiled`).
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from weft.emulator.memory.segments import LEVELS
from weft.emulator.reading.syntax import PRED, U64, Array, Function
from weft.emulator.records import Record
from weft.emulator.running.ctas import Slots
from weft.emulator.watch import CHUNK
from weft.isa.accumulation import Accumulation


class RegisterBlock:
    """`array` is `[registers, warps, 32]`; `registers` are its parts, as a wave's register file has them."""

    __slots__ = ("address", "array", "registers")

    def __init__(self, array: Array) -> None:
        self.array = array if array.base is None else array.copy()
        self.registers = list(self.array)
        self.address: int = self.array.ctypes.data

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


Numbers = npt.NDArray[np.int64]
Elements = npt.NDArray[np.int32]


@dataclass(frozen=True)
class ProductKind:
    """`d = a @ b + d`, with A `[m, k]`, B `[k, n]` and D `[m, n]`.

    `types` are those of A, B and D, `bits` the bits between elements of A and B in memory. `how` is the rule
    of the sums, None for integers. `rows`: the rows of D are contiguous, and its elements take 32 bits each.
    `negated`: A or B is multiplied by -1. `scaled`: in how many blocks of k A and B have scales; 0: none.
    """

    types: tuple[str, str, str]
    bits: tuple[int, int]
    m: int
    n: int
    k: int
    how: Accumulation | None
    rows: bool = False
    negated: tuple[bool, bool] = (False, False)
    satfinite: bool = False
    scaled: int = 0


class Places:
    """Where a matrix is: the place of each element, in elements (in bits if an element takes less than a
    byte) from the beginning of a memory. For D by rows, it is the place of each row.

    `chunks` are the first bytes of the chunks of 16 bytes that the matrix covers in shared memory, of which
    it has the first `used`, and `end` is the byte after the last one; `bits` are those of an element there.
    """

    def __init__(
        self,
        elements: npt.NDArray[np.intp],
        chunks: "npt.NDArray[np.int64] | None" = None,
        used: int = CHUNK,
        bits: int = 0,
    ) -> None:
        self.elements: Elements = np.ascontiguousarray(elements, np.int32)
        self.address: int = self.elements.ctypes.data
        self.chunks: Numbers = np.ascontiguousarray(() if chunks is None else chunks, np.int64).reshape(-1)
        self.first: int = self.chunks.ctypes.data
        self.used, self.bits = used, bits
        self.end = 0 if chunks is None else int(self.chunks.max()) + CHUNK


class Job(Record):
    """The numbers of one product, 8 bytes each: addresses, and whether D is added."""

    A = "u1"
    A_INDEX = "u4"
    B = "u1"
    B_INDEX = "u4"
    D = "u1"
    D_INDEX = "u4"
    KEEP = ""
    A_SCALES = "f8"
    """For each row, and block of k: values, then their exponents."""
    B_SCALES = "f8"
    """For each block of k, and column: values, then their exponents."""


class Read(NamedTuple):
    """The chunks of shared memory that the unit of a warp reads, in the memory of a CTA."""

    row: int
    cta: int
    matrices: tuple[Places, ...]


Run = Callable[[int, int], None]
"""Computes products: the address of their numbers, `[jobs, len(Job)]`, and how many there are."""


MAX_FRAME = 512 * 1024
"""The most bytes of local memory of a thread."""


class FunctionCode:
    """A function: its registers, its blocks, and the functions that it may call. `scopes` are the levels of
    scopes by their names.
    """

    def __init__(self, function: Function, slots: Slots, scopes: Mapping[str, int] = LEVELS) -> None:
        self.function, self.scopes = function, scopes
        self.slots = slots
        self.base = len(slots.bits)
        """The slot of its first register; `frame` holds the address of its local frame, `carry` the carry."""
        for register in function.scope.registers:
            slots.new(register.type)
        self.frame = slots.new(U64)
        self.carry = slots.new(PRED)
        self.blocks: dict[int, int] = {}
        """The block that begins at a position of the body."""
        self.callees: dict[str, FunctionCode] = {}
        self.pointed: list[FunctionCode] = []
        """The functions whose addresses the program takes."""
        self.entry_block = -1
        self.levels: set[int] = set()
        """The scopes of its accesses and fences that order other accesses."""
        self.fences_inits = False
        """Whether it has a fence.mbarrier_init."""
        self.frame_size = 0
        self.recursive = False
