"""Gathers the operands of tensor cores, adds their products, and puts the sums back, in functions for the
compiler of `plain_code`.
"""

from dataclasses import dataclass
from functools import partial

from weft.emulator.compiled import plain_code
from weft.emulator.compiled.plain_code import Value, bits_of, call, double, single, view
from weft.emulator.records import Record
from weft.emulator.running.product_code import Job, ProductKind
from weft.isa.types import ELEMENT_TYPES

LEAST = {"bf16": -126, "f16": -14, "tf32": -126}
"""The formats that are converted by arithmetic, with their least exponent; others have tables."""
CODES = 256
"""The codes of a table: their values, then their exponents."""
_ZERO, _MOST = -4000, 128
_INFINITY = float("inf")


class Part(Record):
    """What all products of a kind share."""

    SUMS = ""
    """The function that adds."""
    LEFT = "f8"
    """A's values, `[m, k]`, then their exponents in 16 bits."""
    RIGHT = "f8"
    TOTAL = "f8"
    OUT = "f8"
    A_TABLE = "f8"
    B_TABLE = "f8"
    BLOCKS = ""


@dataclass(frozen=True)
class _Side:
    """One operand as the sums want it. `by_row`: whether the k of an element are its column."""

    name: str
    bits: int
    rows: int
    columns: int
    k: int
    negated: bool
    by_row: bool

    @property
    def least(self) -> int:
        """The least exponent of a format without a table; 0 for others."""
        return LEAST.get(self.name, 0)

    @property
    def count(self) -> int:
        return self.rows * self.columns

    @property
    def width(self) -> int:
        """The bits of an element."""
        return ELEMENT_TYPES[self.name].bits

    @property
    def kind(self) -> str:
        return ELEMENT_TYPES[self.name].kind


@dataclass(frozen=True)
class _Product:
    """The constants for which `_products` is compiled."""

    of: ProductKind
    left: _Side
    right: _Side

    @property
    def halves(self) -> bool:
        """Whether D is f16."""
        return self.of.types[2] == "f16"


def text_of(kind: ProductKind) -> str:
    """The LLVM IR of the function `product(jobs, count, parts)`."""
    left = _Side(kind.types[0], kind.bits[0], kind.m, kind.k, kind.k, kind.negated[0], True)
    right = _Side(kind.types[1], kind.bits[1], kind.k, kind.n, kind.k, kind.negated[1], False)
    function = partial(_products, p=_Product(kind, left, right))
    return plain_code.text({"product": function}, "i8", int, Part)


def _products(jobs: Value, count: int, part: Value, p: _Product) -> int:
    for at in range(count):
        job: Value = Job(jobs[len(Job) * at :])
        if _is_new(jobs, at, Job.A, Job.A_INDEX, Job.A_SCALES):
            _convert(job.A, job.A_INDEX, part.LEFT, part.A_TABLE, p.left)
            if p.of.scaled:
                _scale(part.LEFT, job.A_SCALES, part.BLOCKS, p.left)
        if _is_new(jobs, at, Job.B, Job.B_INDEX, Job.B_SCALES):
            _convert(job.B, job.B_INDEX, part.RIGHT, part.B_TABLE, p.right)
            if p.of.scaled:
                _scale(part.RIGHT, job.B_SCALES, part.BLOCKS, p.right)
        _load_d(job, part.TOTAL, p)
        left, right, total, out = part.LEFT, part.RIGHT, part.TOTAL, part.OUT
        if p.of.how is None:
            _add_integers(view(left, "i4"), view(right, "i4"), view(total, "i4"), view(out, "i4"), p)
        else:
            powers = left[p.left.count :]
            call(part.SUMS, left, powers, right, right[p.right.count :], total, out, 1, p.of.m, p.of.n)
        _store_d(job, out, p)
    return 0


# Operands


def _is_new(jobs: Value, at: int, first: int, index: int, scales: int) -> bool:
    """Whether an operand isn't that of the job before."""
    if at == 0:
        return True
    now, before = jobs[len(Job) * at :], jobs[len(Job) * (at - 1) :]
    return now[first] != before[first] or now[index] != before[index] or now[scales] != before[scales]


def _convert(elements: Value, index: Value, out: Value, table: Value, side: _Side) -> None:
    for at in range(side.count):
        bits = _bits(elements, index[at], side)
        if side.kind == "float":
            value = _value(bits, table, side)
            out[at] = -value if side.negated else value
            power = view(table, "i8")[CODES + bits] if side.name not in LEAST else _power(value, side)
            view(out[side.count :], "i2")[at] = power
        else:
            signed = bits << 64 - side.width >> 64 - side.width
            view(out, "i4")[at] = bits if side.kind == "uint" else signed


def _bits(elements: Value, at: int, side: _Side) -> int:
    """The bits of an element."""
    if side.bits == 32:
        return view(elements, "u4")[at]
    if side.bits == 16:
        return view(elements, "u2")[at]
    if side.bits == 8:
        return elements[at]
    word = elements[at >> 3]
    if 8 % side.width:  # otherwise, the byte after an element's last bit may not exist
        word |= elements[at + side.width - 1 >> 3] << 8
    return word >> (at & 7) & (1 << side.width) - 1


def _value(bits: int, table: Value, side: _Side) -> float:
    if side.name == "f16":
        return _half(bits)
    if side.name == "bf16":
        return single(bits << 16)
    if side.name == "tf32":
        return single(bits & 0xFFFFE000)
    return table[bits]


def _half(bits: int) -> float:
    """The number of an f16."""
    size = (bits & 0x7FFF) << 13
    value = single(size | 0x7F800000) if size >= 0x0F800000 else single(size) * 2.0**112
    return double(bits_of(value) | (bits & 0x8000) << 48)


def _power(value: float, side: _Side) -> int:
    """The exponent of a number."""
    power = min(max((bits_of(value) >> 52 & 0x7FF) - 1023, side.least), _MOST)
    return _ZERO if value == 0.0 else power


def _scale(out: Value, scales: Value, blocks: int, side: _Side) -> None:
    """Multiplies blocks of k by their scales."""
    size, powers = side.k // blocks, blocks * (side.rows if side.by_row else side.columns)
    for row in range(side.rows):
        for column in range(side.columns):
            by_row = row * blocks + column // size
            scale = by_row if side.by_row else row // size * side.columns + column
            at = row * side.columns + column
            out[at] = out[at] * scales[scale]
            view(out[side.count :], "i2")[at] += view(scales, "i8")[powers + scale]


# Sums


def _add_integers(left: Value, right: Value, total: Value, out: Value, p: _Product) -> None:
    for row in range(p.of.m):
        mine = out[row * p.of.n :]
        for column in range(p.of.n):
            mine[column] = 0
        for k in range(p.of.k):
            one, those = left[row * p.of.k + k], right[k * p.of.n :]
            for column in range(p.of.n):
                mine[column] += one * those[column]
    for at in range(p.of.m * p.of.n):
        both = out[at] + total[at]
        out[at] = max(min(both, (1 << 31) - 1), -1 << 31) if p.of.satfinite else both


# D


def _place(job: Value, row: int, column: int, p: _Product) -> int:
    """Where an element of D is, in elements."""
    if p.of.rows:
        return job.D_INDEX[row] + column
    return job.D_INDEX[row * p.of.n + column]


def _load_d(job: Value, total: Value, p: _Product) -> None:
    """C: what D has, or zeros."""
    for row in range(p.of.m):
        for column in range(p.of.n):
            at, bits = row * p.of.n + column, 0
            if job.KEEP:
                place = _place(job, row, column, p)
                narrow = p.halves and not p.of.rows
                bits = view(job.D, "u2")[place] if narrow else view(job.D, "u4")[place]
            if p.halves:
                total[at] = _half(bits & 0xFFFF)
            else:
                view(total, "u4")[at] = bits


def _store_d(job: Value, out: Value, p: _Product) -> None:
    for row in range(p.of.m):
        for column in range(p.of.n):
            at, place = row * p.of.n + column, _place(job, row, column, p)
            if not p.halves:
                view(job.D, "u4")[place] = view(out, "u4")[at]
            elif p.of.rows:
                view(job.D, "u4")[place] = _to_half(out[at])
            else:
                view(job.D, "u2")[place] = _to_half(out[at])


def _to_half(value: float) -> int:
    """The f16 with a value, in 64 bits; NaN is that of NVIDIA's units."""
    bits = bits_of(value)
    size = double(bits & (1 << 63) - 1)
    half = 0x7C00 if size == _INFINITY else bits_of(size * 2.0**-1008) >> 42
    return 0x7FFF if value != value else half | (bits >> 63 & 1) << 15
