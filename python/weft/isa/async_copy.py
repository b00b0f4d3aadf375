"""`cp.async`: copies from global to shared memory that run beside the thread (PTX ISA, "Data Movement and
Conversion Instructions: cp.async").
"""

from collections.abc import Iterator
from dataclasses import dataclass

from weft.isa.chips import since
from weft.isa.family import Family, Registers, Support


@dataclass(frozen=True)
class Copy:
    """One form of `cp.async`: `bytes` at a time, cached at all levels (`ca`) or in L2 alone (`cg`)."""

    bytes: int
    cache: str

    @property
    def ptx(self) -> str:
        return f"cp.async.{self.cache}.shared.global"

    @property
    def intrinsic(self) -> str:
        return f"llvm.nvvm.cp.async.{self.cache}.shared.global.{self.bytes}"

    @property
    def operands(self) -> tuple[Registers, ...]:
        """None: it takes addresses alone."""
        return ()


#   bytes cache since   PTX
_COPIES: tuple[tuple[int, str, str, tuple[int, int]], ...] = (
    (4, "ca", "sm_80", (7, 0)),
    (8, "ca", "sm_80", (7, 0)),
    (16, "ca", "sm_80", (7, 0)),
    (16, "cg", "sm_80", (7, 0)),
)


def _forms() -> Iterator[tuple[Copy, Support]]:
    for bytes_, cache, first, ptx in _COPIES:
        yield Copy(bytes_, cache), Support(since(first), ptx)


CP_ASYNC = Family("cp.async", Copy, _forms)


def copy_of(bytes_: int) -> Copy:
    """The form that copies so many bytes, legal or not: past the L1 cache where it can."""
    past = Copy(bytes_, "cg")
    return past if past in CP_ASYNC.table else Copy(bytes_, "ca")
