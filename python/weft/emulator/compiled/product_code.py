"""Writes the code that gathers the operands of tensor cores, adds their products, and puts the sums back."""

from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]

from weft.emulator.compiled.builder import I8, I16, I32, I64, POINTER, Code, Value
from weft.emulator.running.product_code import Job, ProductKind
from weft.isa.types import ELEMENT_TYPES

DOUBLE, FLOAT = ir.DoubleType(), ir.FloatType()
LEAST = {"bf16": -126.0, "f16": -14.0, "tf32": -126.0}
"""The formats that are converted by arithmetic, with their least exponent; others have tables."""
CODES = 256
"""The codes of a table: their values, then their exponents."""
_ZERO, _MOST = -4000.0, 128.0
_NAMES = {8: I8, 16: I16, 32: I32}


class Part(IntEnum):
    """What all products of a kind share, 8 bytes each."""

    SUMS = 0
    """The function that adds."""
    LEFT = auto()
    """A's values, `[m, k]`, then their exponents."""
    RIGHT = auto()
    TOTAL = auto()
    OUT = auto()
    A_TABLE = auto()
    B_TABLE = auto()
    BLOCKS = auto()


@dataclass
class _Side:
    """One operand: where it is in a job, and its shape as the sums want it."""

    place: Job
    index: Job
    scales: Job
    values: Part
    table: Part
    name: str
    bits: int
    rows: int
    columns: int
    negated: bool
    by_row: bool
    """Whether the k of an element are its column."""


def module_of(kind: ProductKind) -> ir.Module:
    """A module with the function `product(jobs, count, parts)`."""
    return _Writer(kind).module


class _Writer:
    def __init__(self, kind: ProductKind) -> None:
        self.kind, self.module = kind, ir.Module()
        self.code = Code(self.module, "product", [POINTER, I64, POINTER])
        self.b = self.code.b
        self.integers = kind.how is None
        self.element: Any = I32 if self.integers else DOUBLE
        jobs, count, self.parts = self.code.arguments
        a, b = (Job.A, Job.A_INDEX, Job.A_SCALES), (Job.B, Job.B_INDEX, Job.B_SCALES)
        (m, n, k), types, bits, signs = (kind.m, kind.n, kind.k), kind.types, kind.bits, kind.negated
        left = _Side(*a, Part.LEFT, Part.A_TABLE, types[0], bits[0], m, k, signs[0], True)
        right = _Side(*b, Part.RIGHT, Part.B_TABLE, types[1], bits[1], k, n, signs[1], False)
        last = {side.values: [self.code.variable(0) for _ in range(3)] for side in (left, right)}
        with self.code.loop(count) as at:
            self.job = self.b.gep(jobs, [self.b.mul(at, self.code.number(len(Job)))], source_etype=I64)
            for side in (left, right):
                self._once(side, last[side.values])
            self._sum()
        self.code.give(0)

    def _of(self, field: Job) -> Value:
        return self.code.load(self.job, int(field))

    def _pointer(self, field: Job | Part) -> Value:
        return self.code.pointer(self.parts if isinstance(field, Part) else self.job, int(field))

    # Operands

    def _once(self, side: _Side, last: list[Value]) -> None:
        """Converts an operand, unless the job before had the same."""
        b = self.b
        new: Value = None
        for field, known in zip((side.place, side.index, side.scales), last, strict=True):
            value = self._of(field)
            differs = self.code.is_("!=", value, b.load(known, typ=I64))
            new = differs if new is None else b.or_(new, differs)
            b.store(value, known)
        with self.code.when(new):
            self._convert(side)
            if self.kind.scaled:
                self._scale(side)

    def _convert(self, side: _Side) -> None:
        code, count = self.code, side.rows * side.columns
        memory, index = self._pointer(side.place), self._pointer(side.index)
        out, table = self._pointer(side.values), self._pointer(side.table)
        with code.loop(count) as at:
            place = self.b.zext(code.load(index, at, I32), I64)
            bits = self._bits(memory, place, side)
            if self.integers:
                code.store(self._integer(bits, side), out, at, I32)
            else:
                value, power = self._number(bits, side, table)
                code.store(self._signed(value, side), out, at, DOUBLE)
                code.store(power, out, self.b.add(at, code.number(count)), DOUBLE)

    def _bits(self, memory: Value, place: Value, side: _Side) -> Value:
        """The bits of an element, as 32 bits."""
        b = self.b
        if side.bits >= 8:
            return b.zext(self.code.load(memory, place, _NAMES[side.bits]), I32)
        # The byte after an element's last bit may not exist.
        width = ELEMENT_TYPES[side.name].bits
        first, shift = b.lshr(place, self.code.number(3)), b.trunc(b.and_(place, self.code.number(7)), I32)
        low = b.zext(self.code.load(memory, first, I8), I32)
        word = low
        if 8 % width:
            last = b.lshr(b.add(place, self.code.number(width - 1)), self.code.number(3))
            high = b.zext(self.code.load(memory, last, I8), I32)
            word = b.or_(low, b.shl(high, ir.Constant(I32, 8)))
        return b.and_(b.lshr(word, shift), ir.Constant(I32, (1 << width) - 1))

    def _integer(self, bits: Value, side: _Side) -> Value:
        element = ELEMENT_TYPES[side.name]
        if element.kind == "uint":
            return bits
        up = ir.Constant(I32, 32 - element.bits)
        return self.b.ashr(self.b.shl(bits, up), up)

    def _number(self, bits: Value, side: _Side, table: Value) -> tuple[Value, Value]:
        """The value and the exponent of an element."""
        b, code = self.b, self.code
        if side.name not in LEAST:
            at = self.code.wide(bits)
            return code.load(table, at, DOUBLE), code.load(table, b.add(at, code.number(CODES)), DOUBLE)
        if side.name == "f16":
            value = self._half(bits)
        elif side.name == "bf16":
            value = b.bitcast(b.shl(bits, ir.Constant(I32, 16)), FLOAT)
        else:
            value = b.bitcast(b.and_(bits, ir.Constant(I32, 0xFFFFE000)), FLOAT)
        wide = b.fpext(value, DOUBLE)
        return wide, self._power(wide, LEAST[side.name])

    def _half(self, bits: Value) -> Value:
        """The float32 of an f16."""
        b = self.b
        size = b.shl(b.and_(bits, ir.Constant(I32, 0x7FFF)), ir.Constant(I32, 13))
        scaled = b.fmul(b.bitcast(size, FLOAT), ir.Constant(FLOAT, 2.0**112))
        special = b.icmp_unsigned(">=", size, ir.Constant(I32, 0x0F800000))
        whole = b.select(special, b.or_(size, ir.Constant(I32, 0x7F800000)), b.bitcast(scaled, I32))
        sign = b.shl(b.and_(bits, ir.Constant(I32, 0x8000)), ir.Constant(I32, 16))
        return b.bitcast(b.or_(whole, sign), FLOAT)

    def _power(self, value: Value, least: float) -> Value:
        b, code = self.b, self.code
        field = b.and_(b.lshr(b.bitcast(value, I64), code.number(52)), code.number(0x7FF))
        power = b.sitofp(b.sub(field, code.number(1023)), DOUBLE)
        for order, bound in (("<", least), (">", _MOST)):
            limit = ir.Constant(DOUBLE, bound)
            power = b.select(b.fcmp_ordered(order, power, limit), limit, power)
        zero = b.fcmp_ordered("==", value, ir.Constant(DOUBLE, 0.0))
        return b.select(zero, ir.Constant(DOUBLE, _ZERO), power)

    def _signed(self, value: Value, side: _Side) -> Value:
        return self.b.fneg(value) if side.negated else value

    def _scale(self, side: _Side) -> None:
        """Multiplies blocks of k by their scales."""
        b, code = self.b, self.code
        out, scales = self._pointer(side.values), self._pointer(side.scales)
        blocks = code.load(self.parts, int(Part.BLOCKS))
        size = b.udiv(code.number(self.kind.k), blocks)
        count = side.rows * side.columns
        powers = b.mul(blocks, code.number(side.rows if side.by_row else side.columns))
        with code.loop(side.rows) as row, code.loop(side.columns) as column:
            block = b.udiv(column if side.by_row else row, size)
            if side.by_row:
                scale = b.add(b.mul(row, blocks), block)
            else:
                scale = b.add(b.mul(block, code.number(side.columns)), column)
            at = b.add(b.mul(row, code.number(side.columns)), column)
            value = b.fmul(code.load(out, at, DOUBLE), code.load(scales, scale, DOUBLE))
            code.store(value, out, at, DOUBLE)
            at = b.add(at, code.number(count))
            power = b.fadd(code.load(out, at, DOUBLE), code.load(scales, b.add(scale, powers), DOUBLE))
            code.store(power, out, at, DOUBLE)

    # Sums

    def _sum(self) -> None:
        kind, code, b = self.kind, self.code, self.b
        self._load_d()
        names = Part.LEFT, Part.RIGHT, Part.TOTAL, Part.OUT
        left, right, total, out = (self._pointer(part) for part in names)
        if self.integers:
            self._add_integers(left, right, total, out)
        else:
            powers = [
                code.at(left, kind.m * kind.k, DOUBLE),
                code.at(right, kind.k * kind.n, DOUBLE),
            ]
            made = ir.FunctionType(ir.VoidType(), [POINTER] * 6 + [I64] * 3)
            numbers = [code.number(n) for n in (1, kind.m, kind.n)]
            function = code.load(self.parts, int(Part.SUMS), made.as_pointer())
            b.call(function, [left, powers[0], right, powers[1], total, out, *numbers])
        self._store_d()

    def _add_integers(self, left: Value, right: Value, total: Value, out: Value) -> None:
        kind, code, b = self.kind, self.code, self.b
        with code.loop(kind.m) as row:
            mine = code.at(out, b.mul(row, code.number(kind.n)), I32)
            with code.loop(kind.n) as column:
                code.store(0, mine, column, I32)
            with code.loop(kind.k) as k:
                one = code.load(left, b.add(b.mul(row, code.number(kind.k)), k), I32)
                those = code.at(right, b.mul(k, code.number(kind.n)), I32)
                with code.loop(kind.n) as column:
                    product = b.mul(one, code.load(those, column, I32))
                    code.store(b.add(code.load(mine, column, I32), product), mine, column, I32)
        with code.loop(kind.m * kind.n) as at:
            parts = code.load(out, at, I32), code.load(total, at, I32)
            code.store(self._added(*parts), out, at, I32)

    def _added(self, first: Value, second: Value) -> Value:
        b = self.b
        if not self.kind.satfinite:
            return b.add(first, second)
        value = b.add(b.sext(first, I64), b.sext(second, I64))
        for order, bound in (("<", -(1 << 31)), (">", (1 << 31) - 1)):
            limit = self.code.number(bound)
            value = b.select(b.icmp_signed(order, value, limit), limit, value)
        return b.trunc(value, I32)

    # D

    def _load_d(self) -> None:
        """C: what D has, or zeros."""
        code, b = self.code, self.b
        total, kept = self._pointer(Part.TOTAL), code.is_("!=", self._of(Job.KEEP), 0)
        with b.if_else(kept) as (then, otherwise):
            with then:
                self._each_of_d(lambda at, place: self._store_c(total, at, place))
            with otherwise, code.loop(self.kind.m * self.kind.n) as at:
                zero = ir.Constant(self._total, 0 if self.integers else 0.0)
                code.store(zero, total, at, self._total)

    @property
    def _total(self) -> Any:
        """The type of sums."""
        return I32 if self.integers else DOUBLE if self.kind.types[2] == "f16" else FLOAT

    @property
    def _stored(self) -> Any:
        """The type of D in memory."""
        return I16 if self.kind.types[2] == "f16" and not self.kind.rows else I32

    def _each_of_d(self, body: Any) -> None:
        """Runs for each element of D: its number, and its address."""
        code, b, kind = self.code, self.b, self.kind
        memory, index = self._pointer(Job.D), self._pointer(Job.D_INDEX)
        if not kind.rows:
            with code.loop(kind.m * kind.n) as at:
                place = self.code.wide(code.load(index, at, I32))
                body(at, code.at(memory, place, self._stored))
            return
        with code.loop(kind.m) as row:
            begin = code.at(memory, self.code.wide(code.load(index, row, I32)), I32)
            first = b.mul(row, code.number(kind.n))
            with code.loop(kind.n) as column:
                body(b.add(first, column), code.at(begin, column, I32))

    def _store_c(self, total: Value, at: Value, place: Value) -> None:
        bits = self.b.load(place, typ=self._stored)
        if self._total is DOUBLE:
            wide = bits if self._stored is I32 else self.b.zext(bits, I32)
            half = self.b.and_(wide, ir.Constant(I32, 0xFFFF))
            self.code.store(self.b.fpext(self._half(half), DOUBLE), total, at, DOUBLE)
        else:
            self.code.store(bits, total, at, I32)

    def _store_d(self) -> None:
        out = self._pointer(Part.OUT)

        def body(at: Value, place: Value) -> None:
            if self._total is DOUBLE:
                half = self._to_half(self.code.load(out, at, DOUBLE))
                half = self.b.trunc(half, I16) if self._stored is I16 else self.b.trunc(half, I32)
                self.b.store(half, place)
            else:
                self.b.store(self.code.load(out, at, I32), place)

        self._each_of_d(body)

    def _to_half(self, value: Value) -> Value:
        """The f16 with a value, in 64 bits; NaN is that of NVIDIA's units."""
        b, code = self.b, self.code
        bits = b.bitcast(value, I64)
        size = b.bitcast(b.and_(bits, code.number((1 << 63) - 1)), DOUBLE)
        small = b.bitcast(b.fmul(size, ir.Constant(DOUBLE, 2.0**-1008)), I64)
        half = b.lshr(small, code.number(42))
        infinite = b.fcmp_ordered("==", size, ir.Constant(DOUBLE, float("inf")))
        half = b.select(infinite, code.number(0x7C00), half)
        signed = b.or_(half, b.shl(b.lshr(bits, code.number(63)), code.number(15)))
        return b.select(b.fcmp_unordered("uno", value, value), code.number(0x7FFF), signed)
