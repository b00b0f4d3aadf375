"""`cp.async`: copies from global to shared memory that run beside the thread (PTX ISA, "Data Movement and
Conversion Instructions: cp.async").
"""

import re
from collections.abc import Iterator, Sequence
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
        """Where to, where from, how many bytes, and how many of them are read: the rest become zeros."""
        return (
            Registers("destination", 1, "!llvm.ptr<3>"),
            Registers("source", 1, "!llvm.ptr<1>"),
            Registers("size", 1, "i32", role="immediate", values=(self.bytes,)),
            Registers("source_bytes", 1, "i32"),
        )

    @property
    def assembly(self) -> str:
        return "[{destination}], [{source}], {size}, {source_bytes}"


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


def parse_cp_async(opcode: str, operands: Sequence[str] = ()) -> Copy | None:
    """The form that a PTX opcode and its operands spell, legal or not; None where it isn't such a copy."""
    match = re.fullmatch(r"cp\.async\.(ca|cg)\.shared(?:::cta)?\.global(?:\.L2::\w+)*", opcode)
    size = operands[2] if len(operands) > 2 else ""
    return Copy(int(size), match.group(1)) if match and size.isdigit() else None


CP_ASYNC = Family("cp.async", Copy, _forms, parse_cp_async)


def copy_of(bytes_: int) -> Copy:
    """The form that copies so many bytes, legal or not: past the L1 cache where it can."""
    past = Copy(bytes_, "cg")
    return past if past in CP_ASYNC.table else Copy(bytes_, "ca")
