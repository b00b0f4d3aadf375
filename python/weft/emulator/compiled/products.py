"""Runs the compiled products of one wave, and its sanitizer's checks of what they read in shared memory.

Gathers the operands of tensor cores, adds their products, and puts the sums back, in functions for the
compiler of `plain_code`. The sanitizer's check and record of the operands that asynchronous units read in
shared memory, for many warps in one call of code of this host.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from weft.emulator import native
from weft.emulator.compiled import accesses, plain_code
from weft.emulator.compiled.box_state import Listed, Part, Reads
from weft.emulator.compiled.plain_code import Value, bits_of, call, double, single, view
from weft.emulator.compiled.shadows import SharedPart
from weft.emulator.native import addresses
from weft.emulator.numerics import native_sums
from weft.emulator.numerics.arithmetic import Rule, decode, exponents
from weft.emulator.numerics.native_sums import address
from weft.emulator.records import Record
from weft.emulator.running.function_code import Job, Numbers, ProductKind, Read, Run
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.checker import Sanitizer
from weft.emulator.sanitizer.clocks import Clocks, Rows
from weft.emulator.watch import CHUNK
from weft.isa.types import ELEMENT_TYPES

LEAST = {"bf16": -126, "f16": -14, "tf32": -126}
"""The formats that are converted by arithmetic, with their least exponent; others have tables."""
CODES = 256
"""The codes of a table: their values, then their exponents."""
_ZERO, _MOST = -4000, 128
_INFINITY = float("inf")


class ProductPart(Record):
    """What all products of a kind share."""

    SUMS = ""
    """The function that adds."""
    LEFT = "f8"
    """A's values, `[m, k]`, then their exponents in 16 bits."""
    RIGHT = TOTAL = OUT = A_TABLE = B_TABLE = "f8"


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
    return plain_code.text({"product": function}, "i8", int, ProductPart)


def _products(jobs: Value, count: int, part: Value, p: _Product) -> int:
    for at in range(count):
        job: Value = Job(jobs[len(Job) * at :])
        if _is_new(jobs, at, Job.A, Job.A_INDEX, Job.A_SCALES):
            _convert(job.A, job.A_INDEX, part.LEFT, part.A_TABLE, p.left)
            if p.of.scaled:
                _scale(part.LEFT, job.A_SCALES, p.of.scaled, p.left)
        if _is_new(jobs, at, Job.B, Job.B_INDEX, Job.B_SCALES):
            _convert(job.B, job.B_INDEX, part.RIGHT, part.B_TABLE, p.right)
            if p.of.scaled:
                _scale(part.RIGHT, job.B_SCALES, p.of.scaled, p.right)
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
    power = min(max((bits_of(value) >> 52 & 0x7FF) - 1023, side.least), _MOST)
    return _ZERO if value == 0.0 else power


def _scale(out: Value, scales: Value, blocks: int, side: _Side) -> None:
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


class Lists:
    """Lists of chunks as numbers, and the columns of the units that read them."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self.times: Numbers = numbers[:, Listed.TIME]
        self.columns: Rows = numbers[:, Listed.COLUMN].copy()
        self.address: int = numbers.ctypes.data


class OperandReads:
    """The reads of one wave's units."""

    def __init__(self, sanitizer: Sanitizer) -> None:
        self._sanitizer = sanitizer
        self._part = SharedPart(sanitizer.wave, sanitizer)
        self._call: npt.NDArray[np.int64] = np.zeros(len(Reads), np.int64)
        self._call[Reads.END] = sanitizer.wave.memory.shared_size - CHUNK
        self._clocks: Clocks | None = None

    def record(self, lists: Lists, line: int) -> bool:
        """Records what units read. False if that may break a rule; doing all of it again changes nothing."""
        clocks = self._sanitizer.clocks
        np.add(clocks.times[lists.columns], 1, out=lists.times)
        self._part.refresh()
        if clocks.all is not self._clocks:
            self._clocks = clocks.all
            arrays = clocks.known.ctypes.data, clocks.fenced.ctypes.data
            self._call[Reads.KNOWN :] = *arrays, clocks.all.shape[2]
        self._call[: Reads.END] = lists.address, len(lists.columns), line
        return bool(_function()(self._call.ctypes.data, self._part.pointer))

    def prepared(self, proxy: str, reads: Sequence[Read]) -> Lists:
        """What `record` needs of reads: each matrix's chunks, and its unit's column, without the matrices."""
        stride, lists = self._sanitizer.wave.memory.shared_stride, []
        for row, cta, matrices in reads:
            column = self._sanitizer.column_of(proxy, row)
            slot = self._sanitizer.races.slot(column)
            for matrix in matrices:
                chunks = matrix.first, len(matrix.chunks)
                lists.append((*chunks, cta * stride, column, 0, slot, row, matrix.used))
        return Lists(np.array(lists, np.int64))


@cache
def _function() -> Callable[[int, int], int]:
    text = lambda: plain_code.text({"reads": accesses.read_each}, Reads, Part)  # noqa: E731
    address = native.Library("operand reads", text, ["reads"]).addresses()["reads"]
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(address)


class Products:
    """The products of one wave. `at_once`: all are worth code."""

    def __init__(self, wave: Wave, *, at_once: bool = False) -> None:
        self._watch, self._at_once = wave.watch, at_once
        self._reads = OperandReads(wave.watch) if isinstance(wave.watch, Sanitizer) else None
        self._ready: dict[ProductKind, _Function] = {}

    def product(self, kind: ProductKind, times: int) -> Run | None:
        """The code for products of a kind, of which so many are wanted now; None if it isn't worth it yet, or
        if there is none.
        """
        known = self._ready.get(kind)
        if known is not None:
            return known.run
        rule = rule_of(kind)
        if rule is None and kind.how is not None:
            return None
        work = times * kind.m * kind.n * kind.k
        if not (native_sums.is_worth(rule or native_sums.INTEGERS, work) or self._at_once):
            return None
        made = self._ready[kind] = _Function(kind, rule)
        return made.run

    def prepared(self, proxy: str, reads: tuple[Read, ...]) -> Lists | None:
        """What `reads` needs; it doesn't keep the matrices."""
        return None if self._reads is None else self._reads.prepared(proxy, reads)

    def reads(self, prepared: Lists | None, line: int) -> bool:
        """Reports to the sanitizer that asynchronous units read shared memory. False if a rule may be broken,
        so that the interpreter must make the whole instruction.
        """
        if self._reads is None or prepared is None:
            return self._watch is None
        return self._reads.record(prepared, line)


def rule_of(kind: ProductKind) -> Rule | None:
    """The sums of a kind; None for integers, and for orders that have no code."""
    if kind.how is None:
        return None
    step = kind.how.step_bytes // max(1, ELEMENT_TYPES[kind.types[0]].bits // 8) or kind.k
    return None if kind.how.order else Rule.of(kind.how, kind.k, step, kind.types[2])


class _Function:
    """The code of one kind, with the memory that it works in."""

    def __init__(self, kind: ProductKind, rule: Rule | None) -> None:
        self._parts: npt.NDArray[np.int64] = np.zeros(len(ProductPart), np.int64)
        self._kept: list[npt.NDArray[np.float64]] = []
        sizes = {
            ProductPart.LEFT: 2 * kind.m * kind.k,
            ProductPart.RIGHT: 2 * kind.k * kind.n,
            ProductPart.TOTAL: kind.m * kind.n,
            ProductPart.OUT: kind.m * kind.n,
        }
        for part, size in sizes.items():
            self._parts[part] = self._address(np.zeros(size))
        if rule is not None:
            self._parts[ProductPart.SUMS] = address(rule)
        for part, name in ((ProductPart.A_TABLE, kind.types[0]), (ProductPart.B_TABLE, kind.types[1])):
            if name not in LEAST and ELEMENT_TYPES[name].kind == "float":
                self._parts[part] = self._address(_table(name))
        self._run, self._pointer = _compiled(kind), self._parts.ctypes.data

    def _address(self, array: npt.NDArray[np.float64]) -> int:
        self._kept.append(array)
        return int(array.ctypes.data)

    def run(self, jobs: int, count: int) -> None:
        self._run(jobs, count, self._pointer)


@cache
def _table(name: str) -> npt.NDArray[np.float64]:
    """The values of all codes of a format, then their exponents as integers."""
    values = decode(np.arange(256, dtype=np.uint8), name)
    return np.concatenate([values, exponents(values, name).astype(np.int64).view(np.float64)])


@cache
def _compiled(kind: ProductKind) -> Callable[..., object]:
    at = addresses(text_of(kind), ["product"], code=2, whole=True)["product"]
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(at)
