"""Floating-point arithmetic on f16, bf16, f32, f64 and packed pairs.

Approximate functions, computed in float64 and rounded: well within the errors that PTX documents.
"""

from collections.abc import Callable
from math import factorial, log, sqrt
from typing import Any

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Step, Table, computing
from weft.emulator.numerics.arithmetic import in_mode
from weft.emulator.numerics.floats import (
    NAN_BITS,
    Doubles,
    canonical,
    decode,
    encode,
    flush,
    fma_f32,
    fma_f64,
    numbers,
    operand_nan,
    saturate,
    sum_odd,
)
from weft.emulator.reading.syntax import TYPES, Array

table = Table(pure=True)
ROUNDINGS = ("rn", "rz", "rm", "rp")
_LEAST = {"f16": (0x0400, 2.0**-14), "f32": (0x00800000, 2.0**-126)}
"""The bits and the value of the least normal number of formats that have .ftz."""
_TYPES = "f16 f16x2 bf16 bf16x2 f32 f32x2 f64"
Function = Callable[..., Array]


class Format:
    """An element format, with the modifiers of an instruction that change operands or results."""

    def __init__(self, op: Op, allowed: str = _TYPES) -> None:
        self.mode = op.choice(ROUNDINGS, "rn")
        self.ftz, self.sat, self.relu = op.flag("ftz"), op.flag("sat"), op.flag("relu")
        op.flag("approx", "full")
        self.divides = op.prefix == "div"
        """Whether NaN of the first operand comes before that of the second."""
        self.nan, self.xorsign = op.flag("NaN"), op.flag("xorsign")
        self.type = op.type(allowed)
        self.name = self.type.name.removesuffix("x2")
        self.packed = self.type.name.endswith("x2")

    def elements(self, bits: Array) -> Array:
        """Register bits as one element each; the two of a pair are adjacent."""
        if self.packed:
            bits = bits.view(np.uint16 if self.type.bits == 32 else np.uint32)
        return flush(bits, self.name) if self.ftz and self.name != "f64" else bits

    def register(self, bits: Array) -> Array:
        """Elements as register bits, after .ftz, .sat and .relu."""
        if self.ftz and self.name != "f64":
            bits = flush(bits, self.name)
        if self.sat or self.relu:
            value = self.values(bits)
            clamped = saturate(value) if self.sat else np.where(value > 0, value, value.dtype.type(0))
            clamped = np.where(np.isnan(value) & (not self.sat), value, clamped)
            bits = self.bits(clamped)
        return bits.view(self.type.storage)

    def values(self, bits: Array) -> Array:
        """Elements as NumPy numbers."""
        return numbers(bits, self.name)

    def bits(self, value: Array) -> Array:
        """Computed values as element bits; wider values are rounded to nearest."""
        if self.name == "bf16":
            return encode(value.astype(np.float64), "bf16")
        if self.name == "f64":
            return value.view(np.uint64)
        return canonical(value, self.name)

    def lift(self, function: Function) -> Function:
        """A function on NumPy numbers as a function on registers."""

        def run(*registers: Array) -> Array:
            values = [self.values(self.elements(r)) for r in registers]
            value = function(*values)
            if self.name == "f64":
                value = operand_nan(value, values[::-1] if self.divides else values)
            return self.register(self.bits(value))

        if self.name == "f32" and not (self.packed or self.ftz or self.sat or self.relu):
            f32 = np.float32
            return lambda *registers: canonical(function(*[r.view(f32) for r in registers]), "f32")
        return run

    def exactly(self, function: Function, name: str) -> Function:
        """The same for operation `name` in this format's rounding; `function` on float64 rounds to odd."""
        if self.name == "f64":
            return self.lift(in_mode(name, self.mode))

        def run(*registers: Array) -> Array:
            values = [decode(self.elements(r), self.name) for r in registers]
            value = function(*values)
            if self.mode == "rm" and name in ("add", "sub", "fma"):
                # A sum of zero with a negative operand is negative zero.
                first = np.signbit(values[0] * values[1] if name == "fma" else values[0])
                last = ~np.signbit(values[-1]) if name == "sub" else np.signbit(values[-1])
                value = np.where((value == 0) & (first | last), -0.0, value)
            bits = encode(value, self.name, self.mode)
            if self.ftz and name in ("mul", "fma"):
                bits = self._flushed(bits, lambda: value)
            return self.register(bits)

        return run

    def _flushed(self, bits: Array, exact: Callable[[], Array]) -> Array:
        """Flushes results that only rounding makes normal: they are tiny before it. `exact` has the values as
        f64, rounded to odd.
        """
        number = bits.dtype.type
        code, least = _LEAST[self.name]
        sign = number(1 << (8 * bits.dtype.itemsize - 1))
        rounded = (bits & ~sign) == number(code)
        if not rounded.any():
            return bits
        return np.where(rounded & (np.abs(exact()) < least), bits & sign, bits)

    def product(self, plain: Function, exact: Function) -> Function:
        """`plain`, which rounds to nearest, on NumPy numbers, for a product or a fused sum."""
        if not self.ftz:
            return self.lift(plain)

        def run(*registers: Array) -> Array:
            parts = [self.elements(r) for r in registers]
            bits = self.bits(plain(*[self.values(e) for e in parts]))
            return self.register(self._flushed(bits, lambda: exact(*[decode(e, self.name) for e in parts])))

        return run


def _plain(op: Op, function: Function, odd: Function, inputs: int) -> Step:
    """A step of NumPy's `function` if that rounds as required, otherwise of `odd`, which rounds to odd."""
    fmt = Format(op)
    computed = fmt.lift(function) if fmt.mode == "rn" else fmt.exactly(odd, op.prefix)
    return computing(op, computed, fmt.type, *[fmt.type] * inputs)


def _mixed(op: Op, fmt: Format, computed: Function, inputs: int) -> Step:
    """A step of `computed`; all operands but the last may be f16 or bf16: `fma.rn.f32.f16 d, a, b, c`."""
    narrow = op.choice(["f16", "bf16"], "") if fmt.name == "f32" and not fmt.packed else ""
    if not narrow:
        return computing(op, computed, fmt.type, *[fmt.type] * inputs)

    def function(*registers: Array) -> Array:
        wide = [decode(r, narrow).astype(np.float32).view(np.uint32) for r in registers[:-1]]
        return computed(*wide, registers[-1])

    return computing(op, function, fmt.type, *[TYPES[narrow]] * (inputs - 1), fmt.type)


@table.float_step("add", "sub")
def add_sub(op: Op) -> Step:
    fmt, adds = Format(op), op.prefix == "add"
    if fmt.mode == "rn":
        return _mixed(op, fmt, fmt.lift(np.add if adds else np.subtract), 2)
    return _mixed(op, fmt, fmt.exactly(sum_odd if adds else lambda x, y: sum_odd(x, -y), op.prefix), 2)


@table.float_step("mul")
def mul(op: Op) -> Step:
    # A product of two numbers of up to 24 bits is exact in float64.
    fmt = Format(op)
    nearest = fmt.mode == "rn"
    computed = fmt.product(np.multiply, np.multiply) if nearest else fmt.exactly(np.multiply, "mul")
    return computing(op, computed, fmt.type, fmt.type, fmt.type)


@table.float_step("div")
def div(op: Op) -> Step:
    # The float64 quotient of 24-bit numbers is either a float32 or far enough from one to be rounded
    # correctly.
    approximate = "approx" in op.modifiers
    return _plain(op, _approximate_quotient if approximate else np.divide, np.divide, 2)


def _approximate_quotient(x: Array, y: Array) -> Array:
    """PTX defines that reciprocals of divisors from 2**126 on are 0."""
    far = (np.abs(y) > y.dtype.type(2.0**126)) & np.isfinite(y)
    return np.where(far, x * (y * y.dtype.type(0)), x / y)


@table.float_step("sqrt")
def square_root(op: Op) -> Step:
    return _plain(op, np.sqrt, np.sqrt, 1)


@table.float_step("rcp")
def rcp(op: Op) -> Step:
    if {"approx", "ftz", "f64"} <= set(op.modifiers):
        return approximate_f64(op, lambda x: 1.0 / x)
    return _plain(op, lambda x: x.dtype.type(1) / x, lambda x: 1.0 / x, 1)


def approximate_f64(op: Op, function: Function) -> Step:
    """Uses the upper 32 bits of the operand and gives those of the result; subnormals are zero."""
    fmt = Format(op, "f64")
    words = 0xFFFFFFFF, 0x7FF00000, 0x80000000, 0x7FFFFFFF
    upper, exponent, sign, upper_nan = (np.uint64(n << 32) for n in words)

    def cut(bits: Array) -> Array:
        return np.where(bits & exponent == 0, bits & sign, bits & upper)

    def run(bits: Array) -> Array:
        value = cut(function(cut(bits).view(np.float64)).view(np.uint64))
        return np.where(np.isnan(value.view(np.float64)), upper_nan, value)

    return computing(op, run, fmt.type, fmt.type)


@table.float_step("fma", "mad")
def fma(op: Op) -> Step:
    fmt = Format(op)
    if fmt.name == "f64" and fmt.mode == "rn":
        computed = fmt.lift(fma_f64)
    elif fmt.name == "f32" and fmt.mode == "rn":
        computed = fmt.product(fma_f32, _sum_of_product)
    else:
        if fmt.name == "bf16" and fmt.mode != "rn":
            op.fail(f"must round bf16 with .rn, got .{fmt.mode}: ptxas makes something else of it")
        computed = fmt.exactly(_sum_of_product, "fma")
    return _mixed(op, fmt, computed, 3)


def _sum_of_product(x: Array, y: Array, z: Array) -> Array:
    return sum_odd(x * y, z)


@table.float_step("abs", "neg")
def sign(op: Op) -> Step:
    """Changes the sign bit; NaN becomes that of computed results, which in f64 is itself, made quiet."""
    fmt = Format(op)
    bit = 1 << {"f16": 15, "bf16": 15, "f32": 31, "f64": 63}[fmt.name]
    clears = op.prefix == "abs"

    def function(register: Array) -> Array:
        bits = fmt.elements(register)
        mask = bits.dtype.type(bit)
        changed: Array = bits & ~mask if clears else bits ^ mask
        nan = bits | mask.dtype.type(1 << 51) if fmt.name == "f64" else mask.dtype.type(NAN_BITS[fmt.name])
        return np.where(np.isnan(fmt.values(bits)), nan, changed).view(fmt.type.storage)

    return computing(op, function, fmt.type, fmt.type)


@table.float_step("min", "max")
def min_max(op: Op) -> Step:
    """The negative zero is the lesser one. A number wins over NaN, except with `.NaN`."""
    fmt = Format(op)
    least, absolute = op.prefix == "min", op.flag("abs")
    op.count(3, 4)

    def two(x: Array, y: Array) -> Array:
        a, b = (np.abs(x), np.abs(y)) if absolute else (x, y)
        plain = (np.minimum if least else np.maximum) if fmt.nan else (np.fmin if least else np.fmax)
        value = plain(a, b)
        equal = (a == b) & (a == 0)
        zero = np.signbit(a) | np.signbit(b) if least else np.signbit(a) & np.signbit(b)
        value = np.where(equal, np.where(zero, -abs(a), abs(a)), value)
        if fmt.xorsign:
            value = np.copysign(value, np.where(np.signbit(x) ^ np.signbit(y), -1, 1).astype(value.dtype))
        return value

    def function(x: Array, *others: Array) -> Array:
        for other in others:
            x = two(x, other)
        return x

    return computing(op, fmt.lift(function), fmt.type, *[fmt.type] * (len(op.operands) - 1))


@table.step("copysign")
def copysign(op: Op) -> Step:
    """The second operand with the sign of the first."""
    kind = op.type("f32 f64")
    sign_bit = kind.storage.type(1 << (kind.bits - 1))
    return computing(op, lambda x, y: x & sign_bit | y & ~sign_bit, kind, kind, kind)


@table.step("testp")
def testp(op: Op) -> Step:
    test = op.choice(["finite", "infinite", "number", "notanumber", "normal", "subnormal"])
    kind = op.type("f32 f64")
    smallest = np.finfo(np.float32 if kind.bits == 32 else np.float64).tiny
    tests: dict[str, Function] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda x: ~np.isnan(x),
        "notanumber": np.isnan,
        "normal": lambda x: np.isfinite(x) & ((np.abs(x) >= smallest) | (x == 0)),
        "subnormal": lambda x: (np.abs(x) < smallest) & (x != 0),
    }
    function = tests[test]
    view = f"f{kind.bytes}"
    return computing(op, lambda x: function(x.view(view)), TYPES["pred"], kind)


_EXPONENT_BITS = 52
_BIAS = 1023
_MOST = 1000.0
_TERMS = 14
"""Of the series of 2**x for |x| <= 1/2: the rest is below 2**-60."""
_LOG_TERMS = 12
"""Of the series of log2(x) for x from sqrt(1/2) to sqrt(2): the rest is below 2**-60."""


def _exp2(x: Doubles) -> Doubles:
    """2**x, by the same operations on every host and in compiled code; NumPy's depends on the host."""
    near = np.minimum(np.maximum(x, -_MOST), _MOST)
    whole = np.rint(np.where(np.isnan(x), 0.0, near))
    rest = near - whole
    total: Any = np.float64(log(2) ** _TERMS / factorial(_TERMS))
    for power in range(_TERMS - 1, -1, -1):
        total = total * rest + np.float64(log(2) ** power / factorial(power))
    scale = (whole.astype(np.int64) + np.int64(_BIAS)) << np.int64(_EXPONENT_BITS)
    value: Doubles = total * scale.view(np.float64)
    return value


def _log2(x: Doubles) -> Doubles:
    """The binary logarithm of a number that isn't subnormal in float64, likewise."""
    bits = x.view(np.int64)
    one, least = np.int64(_BIAS << _EXPONENT_BITS), np.int64((1 << _EXPONENT_BITS) - 1)
    fraction = (bits & least | one).view(np.float64)
    upper = fraction > sqrt(2)
    fraction = np.where(upper, fraction * 0.5, fraction)
    exponent = (bits >> np.int64(_EXPONENT_BITS)) - np.int64(_BIAS) + upper.astype(np.int64)
    part = (fraction - 1.0) / (fraction + 1.0)
    square = part * part
    total: Any = np.float64(2 / log(2) / (2 * _LOG_TERMS + 1))
    for term in range(_LOG_TERMS - 1, -1, -1):
        total = total * square + np.float64(2 / log(2) / (2 * term + 1))
    value = exponent.astype(np.float64) + total * part
    value = np.where(x == np.inf, x, np.where(x == 0, -np.inf, value))
    return np.where(x < 0, np.nan, np.where(np.isnan(x), x, value))


_FUNCTIONS: dict[str, Function] = {
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "ex2": _exp2,
    "lg2": _log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}


@table.step(*_FUNCTIONS)
def approximate(op: Op) -> Step:
    wide = _FUNCTIONS[op.prefix]
    if {"ftz", "f64"} <= set(op.modifiers):
        return approximate_f64(op, wide)
    fmt = Format(op)

    def function(value: Array) -> Array:
        return wide(value.astype(np.float64)).astype(value.dtype)

    return computing(op, fmt.lift(function), fmt.type, fmt.type)
