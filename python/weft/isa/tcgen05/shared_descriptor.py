"""The shared-memory descriptor, which locates a matrix of `tcgen05.mma` or `tcgen05.cp` (PTX ISA,
"Shared memory descriptor", "Valid Combinations of Type-Size, Major-ness and Swizzling").

ptxas can't see into it, so every limit that the ISA sets is checked here.
"""

from dataclasses import dataclass
from typing import Any

from weft.isa.family import Verdict
from weft.isa.tcgen05.family import on_chip, takes_long_rows
from weft.isa.wgmma.descriptors import (
    SWIZZLES,
    UNIT,
    BitField,
    first,
    legal_only,
    name_of,
    one_of,
    unknown_bits,
)

WIDE_ATOMS = "128B_32B"
"""The swizzle over 128 bytes that moves 32 bytes at a time, which the descriptor of wgmma doesn't have."""
_WIDE_PERIOD = 512
SWIZZLE_NUMBERS = {name: mode.tcgen05 for name, mode in SWIZZLES.items()} | {WIDE_ATOMS: 1}
"""Swizzle modes and their numbers in the shared-memory descriptor."""

_VERSION = BitField("version", 46, 3)
_ABSOLUTE = BitField("absolute", 52, 1)
_SWIZZLE = BitField("swizzle", 61, 3)
SHARED_FIELDS = (
    BitField("address", 0, 14, UNIT),
    BitField("leading_byte_offset", 16, 14, UNIT),
    BitField("stride_byte_offset", 32, 14, UNIT),
    BitField("base_offset", 49, 3),
    _VERSION,
    _ABSOLUTE,
    _SWIZZLE,
)
"""The fields of a shared-memory descriptor, by name as in `SharedMemoryDescriptor`; `version` is always 1."""


@dataclass(frozen=True)
class SharedMemoryDescriptor:
    """Where a matrix lies in shared memory, for `tcgen05.mma` and `tcgen05.cp`; all in bytes.

    `stride_byte_offset` is the distance to the next group of eight rows (columns, for an MN-major matrix),
    `leading_byte_offset` that to the next 16 bytes of K (to the next panel as wide as the swizzle, for an
    MN-major one); a swizzled K-major matrix ignores the latter. `base_offset` is 0 where the swizzle's
    pattern starts at a multiple of its period (eight rows), otherwise bits 7 to 9 of the address where it
    starts. With `absolute`, on sm_103a and sm_107a, `leading_byte_offset` is the address of what follows the
    first 128 bytes of a row.
    """

    address: int = 0
    leading_byte_offset: int = 0
    stride_byte_offset: int = 0
    base_offset: int = 0
    swizzle: str = "none"
    absolute: bool = False

    def complaint(self, chip: str | None = None) -> Verdict | None:
        """The first rule that the fields break, on `chip` where it is given."""
        return first(self._fields(chip), self._stride())

    def _fields(self, chip: str | None = None) -> Verdict | None:
        return first(
            on_chip(chip),
            one_of("swizzle", self.swizzle, SWIZZLE_NUMBERS),
            *(
                f.complaint(getattr(self, f.name))
                for f in SHARED_FIELDS
                if f not in (_VERSION, _ABSOLUTE, _SWIZZLE)
            ),
            legal_only(self.swizzle != "none" or not self.base_offset, "base_offset", "with a swizzle only"),
            takes_long_rows(self.absolute, "absolute", chip),
            legal_only(
                not self.absolute or (self.swizzle == "128B" and not self.base_offset),
                "absolute",
                f"with swizzle 128B and base_offset 0 only, got {self.swizzle} and {self.base_offset}",
            ),
        )

    def _stride(self) -> Verdict | None:
        """A swizzle's pattern must begin anew with each group of rows of a matrix of its own. The hardware
        swizzles bits of addresses, so a descriptor of a part of a wider tile may have another stride.
        """
        if self.swizzle not in SWIZZLE_NUMBERS:
            return None
        period = _WIDE_PERIOD if self.swizzle == WIDE_ATOMS else SWIZZLES[self.swizzle].period
        if self.swizzle == "none" or self.stride_byte_offset % period == 0:
            return None
        below = self.stride_byte_offset - self.stride_byte_offset % period
        return Verdict(
            "stride_byte_offset",
            f"stride_byte_offset must be a multiple of {period} with swizzle {self.swizzle}, "
            f"got {self.stride_byte_offset}",
            tuple(str(v) for v in (below, below + period) if v),
        )

    def encode(self) -> int:
        """The descriptor; ValueError where `complaint` has one."""
        if verdict := self.complaint():
            raise ValueError(str(verdict))
        numbers = {f.name: getattr(self, f.name) for f in SHARED_FIELDS if f is not _VERSION}
        numbers |= {"version": 1, "absolute": int(self.absolute), "swizzle": SWIZZLE_NUMBERS[self.swizzle]}
        return sum(field.put(numbers[field.name]) for field in SHARED_FIELDS)

    @classmethod
    def decode(cls, word: int) -> "SharedMemoryDescriptor":
        """The fields of a descriptor; ValueError where no hardware takes them."""
        if extra := unknown_bits(word, SHARED_FIELDS):
            raise ValueError(f"a tcgen05 shared-memory descriptor has no bits {extra:#x}, got {word:#x}")
        values: dict[str, Any] = {field.name: field.get(word) for field in SHARED_FIELDS}
        if values.pop("version") != 1:
            raise ValueError(f"a tcgen05 shared-memory descriptor has 1 in bits 46 to 48, got {word:#x}")
        values["swizzle"] = name_of(word, "swizzle", values["swizzle"], SWIZZLE_NUMBERS)
        values["absolute"] = bool(values["absolute"])
        if values["swizzle"] == "none":
            # It means nothing then; Triton sets it for tcgen05.cp.
            values["base_offset"] = 0
        descriptor = cls(**values)
        if verdict := descriptor._fields():
            raise ValueError(f"{word:#x}: {verdict}")
        return descriptor


def swizzle_complaint(kind: str, swizzle: str, *, transposed: bool) -> Verdict | None:
    """Why an operand of `kind` can't have `swizzle`: an MN-major one (`transposed`) needs 32-byte atoms for
    32-bit elements and forbids them for others.
    """
    if not transposed or (kind == "tf32") == (swizzle == WIDE_ATOMS):
        return None
    legal = (WIDE_ATOMS,) if kind == "tf32" else tuple(SWIZZLES)
    return one_of("swizzle", swizzle, legal, f" for a transposed operand of kind {kind}")
