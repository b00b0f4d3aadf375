"""Code of the host for products of tensor cores, as instructions use it. See `compiled`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from weft.emulator.records import Record
from weft.emulator.watch import CHUNK
from weft.isa.accumulation import Accumulation

Numbers = npt.NDArray[np.int64]
Elements = npt.NDArray[np.int32]


@dataclass(frozen=True)
class ProductKind:
    """`d = a @ b + d`, with A `[m, k]`, B `[k, n]` and D `[m, n]`.

    `types` are those of A, B and D, `bits` the bits between elements of A and B in memory. `how` is the rule
    of the sums, None for integers. `rows`: the rows of D are contiguous, and its elements take 32 bits each.
    `negated`: A or B is multiplied by -1. `scaled`: blocks of k of A and B have scales.
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
    scaled: bool = False


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


Run = Callable[[int, int, int], None]
"""Computes products: the address of their numbers, `[jobs, len(Job)]`, how many there are, and in how many
blocks of k each has scales.
"""


class ProductCode(Protocol):
    """The products of one wave."""

    def product(self, kind: ProductKind, times: int) -> Run | None:
        """The code for products of a kind, of which so many are wanted now; None if it isn't worth it yet, or
        if there is none.
        """

    def prepared(self, proxy: str, reads: tuple[Read, ...]) -> Any:
        """What `reads` needs; it doesn't keep the matrices."""

    def reads(self, prepared: Any, line: int) -> bool:
        """Reports to the sanitizer that asynchronous units read shared memory; `prepared` is what the method
        of that name has returned. False if a rule may be broken, so that the interpreter must make the whole
        instruction.
        """
