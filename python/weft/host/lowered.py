"""A host function as LLVM IR."""

from collections.abc import Sequence
from dataclasses import dataclass

from weft.errors import Location

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
