"""The zero-column mask descriptor of `tcgen05.mma.ws`: which columns of B count as zero (PTX ISA,
"Zero-Column Mask Descriptor").
"""

from dataclasses import dataclass

from weft.isa.family import Verdict
from weft.isa.wgmma.descriptors import BitField, unknown_bits

_STARTS = tuple(BitField(f"start_count_{i}", 8 * i, 8) for i in range(4))
_FIRSTS = tuple(BitField(f"first_span_{i}", 32 + i, 1) for i in range(4))
_NON_ZERO = BitField("non_zero", 39, 1)
_SKIP = BitField("skip_span", 40, 8)
_USE = BitField("use_span", 48, 8)
_SHIFT = BitField("column_shift", 56, 6)
FIELDS = (*_STARTS, *_FIRSTS, _NON_ZERO, _SKIP, _USE, _SHIFT)
"""The fields of the 64-bit word."""


@dataclass(frozen=True)
class ZeroColumnMask:
    """A mask of runs: `use_span` + 1 columns that are used, `skip_span` + 1 that count as zero, and so on.

    N columns have one such mask for M = 128, one for each half for M = 64 and for each quarter for M = 32;
    mask i begins with the columns that count as zero where `first_span[i]` is set, and leaves its first
    `start_count[i]` bits out. Without `non_zero` all columns are used. Columns are counted from
    `column_shift` on.
    """

    start_count: tuple[int, int, int, int] = (0, 0, 0, 0)
    first_span: tuple[int, int, int, int] = (0, 0, 0, 0)
    non_zero: bool = True
    skip_span: int = 0
    use_span: int = 0
    column_shift: int = 0

    def complaint(self, m: int = 128) -> Verdict | None:
        """The first rule that the fields break, for an instruction of this M."""
        for field, value in self._numbers():
            if verdict := field.complaint(value):
                return verdict
        most = 16 if m == 32 else 32
        if self.column_shift > most:
            reason = f"column_shift must be in 0..{most} for M = {m}, got {self.column_shift}"
            return Verdict("column_shift", reason, (str(most),))
        return None

    def _numbers(self) -> tuple[tuple[BitField, int], ...]:
        spans = (int(self.non_zero), self.skip_span, self.use_span, self.column_shift)
        return tuple(zip(FIELDS, (*self.start_count, *self.first_span, *spans), strict=True))

    def encode(self) -> int:
        """The descriptor; ValueError where `complaint` has one."""
        if verdict := self.complaint():
            raise ValueError(str(verdict))
        return sum(field.put(value) for field, value in self._numbers())

    @classmethod
    def decode(cls, word: int, m: int = 128) -> "ZeroColumnMask":
        """The fields of a descriptor for an instruction of this M; ValueError where they aren't legal."""
        if extra := unknown_bits(word, FIELDS):
            raise ValueError(f"a zero-column mask descriptor has no bits {extra:#x}, got {word:#x}")
        a, b, c, d = (field.get(word) for field in _STARTS)
        e, f, g, h = (field.get(word) for field in _FIRSTS)
        mask = cls(
            (a, b, c, d),
            (e, f, g, h),
            bool(_NON_ZERO.get(word)),
            _SKIP.get(word),
            _USE.get(word),
            _SHIFT.get(word),
        )
        if verdict := mask.complaint(m):
            raise ValueError(f"{word:#x}: {verdict}")
        return mask

    def zeros(self, m: int, n: int) -> tuple[bool, ...]:
        """Which of the N columns, counted from `column_shift` on, count as zero."""
        masks = 128 // m
        if not self.non_zero:
            return (False,) * n
        used, skipped = self.use_span + 1, self.skip_span + 1
        zeros: list[bool] = []
        for i in range(masks):
            for column in range(n // masks):
                at = (column + self.start_count[i]) % (used + skipped)
                zeros.append(at < skipped if self.first_span[i] else at >= used)
        return tuple(zeros)
