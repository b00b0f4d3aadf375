"""The 64-bit descriptor of a matrix in shared memory for `wgmma.mma_async` (PTX ISA, "Matrix
Descriptor Format"), and the bit fields and swizzle modes that all descriptors share.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from weft.isa.family import Verdict, must_be

UNIT = 16
"""The bytes that a descriptor's addresses and offsets count."""
GROUP = 8
"""Rows of a core matrix, which lie together: strides lead from one such group to the next."""


@dataclass(frozen=True)
class BitField:
    """`bits` bits of a word from bit `low` up, holding a value in units of `unit`."""

    name: str
    low: int
    bits: int
    unit: int = 1

    @property
    def last(self) -> int:
        """The largest value."""
        return self.unit * ((1 << self.bits) - 1)

    def put(self, value: int) -> int:
        """The word that has `value` here and 0 elsewhere; `complaint` must not object to it."""
        return value // self.unit << self.low

    def get(self, word: int) -> int:
        """The value that `word` has here."""
        return (word >> self.low & (1 << self.bits) - 1) * self.unit

    def complaint(self, value: int) -> Verdict | None:
        """Why the field can't hold `value`."""
        if not 0 <= value <= self.last:
            return Verdict(self.name, f"{self.name} must be in 0..{self.last}, got {value}")
        if value % self.unit:
            below = value - value % self.unit
            near = tuple(str(v) for v in (below, below + self.unit) if v <= self.last)
            return Verdict(self.name, f"{self.name} must be a multiple of {self.unit}, got {value}", near)
        return None


def unknown_bits(word: int, known: Sequence[BitField], width: int = 64) -> int:
    """The bits of `word` that are set in no field, or beyond `width`."""
    mask = sum(field.put(field.last) for field in known)
    return word & ~(mask & (1 << width) - 1)


def first(*verdicts: Verdict | None) -> Verdict | None:
    """The first complaint, if there is one."""
    return next((verdict for verdict in verdicts if verdict), None)


def legal_only(holds: bool, what: str, where: str) -> Verdict | None:
    """The complaint that `what` is legal only as `where` states, unless that is true."""
    return None if holds else Verdict(what, f"{what} is legal {where}")


def one_of(what: str, value: object, legal: Iterable[object], where: str = "") -> Verdict | None:
    """The complaint about a value that isn't one of the legal ones; the nearest of many numbers are named."""
    choices = tuple(legal)
    if value in choices:
        return None
    numbers = [c for c in choices if isinstance(c, int) and not isinstance(c, bool)]
    if isinstance(value, int) and len(numbers) > 4:
        near = sorted(sorted(numbers, key=lambda n: abs(n - value))[:2])
        steps = " then ".join(f"by {step}" for step in sorted({b - a for a, b in pairwise(numbers)}))
        reason = f"{what} must be in {numbers[0]}..{numbers[-1]} {steps}{where}, got {value}"
        return Verdict(what, reason, tuple(map(str, near)))
    return Verdict(what, must_be(what, choices, value, where))


def name_of(word: int, field: str, number: int, names: Mapping[str, int]) -> str:
    """The name of a number that a field of `word` has, or ValueError."""
    for name, known in names.items():
        if known == number:
            return name
    raise ValueError(f"{field} {number} names nothing, in {word:#x}")


@dataclass(frozen=True)
class Swizzle:
    """A swizzle mode; `wgmma` and `tcgen05` are its numbers in their descriptors."""

    name: str
    width: int
    wgmma: int
    tcgen05: int

    @property
    def period(self) -> int:
        """Bytes until the pattern repeats: a group of rows as wide as the swizzle."""
        return GROUP * self.width


#         name   bytes wgmma tcgen05
SWIZZLES = {
    mode.name: mode
    for mode in (
        Swizzle("none", 16, 0, 0),
        Swizzle("32B", 32, 3, 6),
        Swizzle("64B", 64, 2, 4),
        Swizzle("128B", 128, 1, 2),
    )
}
"""By name, in the order of the tile level's numbers; tcgen05 has one more, 1, which swizzles 32-byte atoms.
"""
WIDEST = max(SWIZZLES.values(), key=lambda mode: mode.width)

_ADDRESS = BitField("address", 0, 14, UNIT)
_LEADING = BitField("leading_byte_offset", 16, 14, UNIT)
_STRIDE = BitField("stride_byte_offset", 32, 14, UNIT)
_BASE = BitField("base_offset", 49, 3)
_SWIZZLE = BitField("swizzle", 62, 2)

FIELDS = (_ADDRESS, _LEADING, _STRIDE, _BASE, _SWIZZLE)
"""The fields of a `wgmma` descriptor, by name as in `MatrixDescriptor`."""


@dataclass(frozen=True)
class MatrixDescriptor:
    """Where a matrix lies in shared memory, all in bytes.

    `stride_byte_offset` is the distance to the next group of eight rows (columns, for an MN-major matrix),
    `leading_byte_offset` that to the next 16 bytes of K (to the next panel as wide as the swizzle, for an
    MN-major one); a swizzled K-major matrix ignores the latter. In an MN-major matrix without a swizzle the
    two are exchanged. `base_offset` is 0 where the swizzle's pattern starts at a multiple of its period,
    otherwise bits 7 to 9 of the address where it starts.
    """

    address: int = 0
    leading_byte_offset: int = 0
    stride_byte_offset: int = 0
    base_offset: int = 0
    swizzle: str = "none"

    def complaint(self) -> Verdict | None:
        """The first rule that the fields break."""
        mode = SWIZZLES.get(self.swizzle)
        if mode is None:
            return Verdict("swizzle", must_be("swizzle", SWIZZLES, self.swizzle))
        for field in (_ADDRESS, _LEADING, _STRIDE, _BASE):
            if verdict := field.complaint(getattr(self, field.name)):
                return verdict
        return self._swizzle_complaint(mode)

    def _swizzle_complaint(self, mode: Swizzle) -> Verdict | None:
        if mode.name == "none":
            if self.base_offset:
                return Verdict(
                    "base_offset", f"base_offset must be 0 without a swizzle, got {self.base_offset}"
                )
            return None
        if self.stride_byte_offset % mode.period:
            above = -(-self.stride_byte_offset // mode.period) * mode.period
            return Verdict(
                "stride_byte_offset",
                f"stride_byte_offset must be a multiple of {mode.period}, eight rows of swizzle {mode.name}, "
                f"got {self.stride_byte_offset}",
                (str(above),),
            )
        return None

    def encode(self) -> int:
        """The descriptor; ValueError where `complaint` has one."""
        if verdict := self.complaint():
            raise ValueError(str(verdict))
        numbers = {field.name: getattr(self, field.name) for field in FIELDS}
        numbers["swizzle"] = SWIZZLES[self.swizzle].wgmma
        return sum(field.put(numbers[field.name]) for field in FIELDS)

    @staticmethod
    def decode(word: int) -> "MatrixDescriptor":
        """The fields of a descriptor; ValueError where a bit is set that belongs to no field."""
        if extra := unknown_bits(word, FIELDS):
            raise ValueError(f"a wgmma descriptor has no bits {extra:#x}, got {word:#x}")
        numbers = {field.name: field.get(word) for field in FIELDS}
        mode = next(s for s in SWIZZLES.values() if s.wgmma == numbers["swizzle"])
        return MatrixDescriptor(**{**numbers, "swizzle": mode.name})  # type: ignore[arg-type]
