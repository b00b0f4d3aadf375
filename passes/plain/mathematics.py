"""Functions of the math dialect on f32 and f64, without CUDA's device library.

`test_plain_mathematics.py` has the limits of their errors, in units of the last place of f32.
"""

from collections.abc import Callable
from math import factorial, log, pi, sqrt

from weft.mlir import arith, ir, scf
from weft.passes.builders import emit
from weft.passes.plain.real import Real, counted

_LOG2_E = 1 / log(2)
# Parts of constants whose sum has more digits than one number; the first has few bits.
_LN2 = {False: (0.693359375, -2.1219444005469057e-4), True: (0.6931471803691238, 1.9082149292705877e-10)}
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17)


def lowered(op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
    """The value that replaces the result of an operation of the math dialect, for numbers."""
    if op.name in _POWERS:
        return _power(*operands).value
    if op.name in _INTEGERS:
        return _INTEGERS[op.name](operands[0])
    result = _FUNCTIONS[op.name](*map(Real, operands))
    return result.value if isinstance(result, Real) else result


def _rounded(x: Real) -> tuple[Real, ir.Value]:
    """The nearest integer of a small number, as a value and as an integer. Adding a large number rounds."""
    magic = 1.5 * 2.0 ** (52 if x.wide else 23)
    moved = x + magic
    return moved - magic, arith.subi(moved.bits(), x.of(magic).bits())


def _scaled(x: Real, exponent: ir.Value) -> Real:
    """`x * 2**exponent`, in two steps, since the power alone may overflow."""
    half = arith.shrsi(exponent, arith.constant(exponent.type, 1))
    for part in (half, arith.subi(exponent, half)):
        bias, shift = (1023, 52) if x.wide else (127, 23)
        biased = arith.addi(part, arith.constant(part.type, bias))
        x = x * x.of_bits(arith.shli(biased, arith.constant(part.type, shift)))
    return x


def _taylor(first: int, last: int) -> tuple[float, ...]:
    return tuple(1 / factorial(i) for i in range(first, last))


def _exp(x: Real) -> Real:
    least, most = (-750.0, 710.0) if x.wide else (-110.0, 90.0)
    x = x.maximum(least).minimum(most)
    n, exponent = _rounded(x * _LOG2_E)
    high, low = _LN2[x.wide]
    rest = n.fma(-low, n.fma(-high, x))
    return _scaled(rest.polynomial(_taylor(0, 14 if x.wide else 8)), exponent)


def _exp2(x: Real) -> Real:
    least, most = (-1080.0, 1025.0) if x.wide else (-155.0, 129.0)
    x = x.maximum(least).minimum(most)
    n, exponent = _rounded(x)
    rest = (x - n) * log(2)
    return _scaled(rest.polynomial(_taylor(0, 14 if x.wide else 8)), exponent)


def _expm1(x: Real) -> Real:
    near = x * x.polynomial(_taylor(1, 20 if x.wide else 11))
    return near.where(x.magnitude().below(0.5), _exp(x) - 1.0)


def _log(x: Real) -> Real:
    exponent, s = _split(x)
    series = tuple(2 / (2 * i + 1) for i in range(12 if x.wide else 6))
    high, low = _LN2[x.wide]
    tail = s * (s * s).polynomial((0.0, *series[1:]))
    total = exponent.fma(high, s.fma(2.0, exponent.fma(low, tail)))
    return _special(x, total)


def _split(x: Real) -> tuple[Real, Real]:
    """The exponent of x, and (m - 1) / (m + 1) of its significand m in [sqrt(1/2), sqrt(2))."""
    shift, least = (52, 2.0**-1022) if x.wide else (23, 2.0**-126)
    small = x.below(least)
    x = (x * 2.0**shift).where(small, x)
    root = x.of(sqrt(0.5)).bits()
    bits = arith.subi(x.bits(), root)
    width = arith.constant(x.integer, shift)
    exponent = arith.shrsi(bits, width)
    mask = arith.constant(x.integer, 2**shift - 1)
    m = x.of_bits(arith.addi(arith.andi(bits, mask), root))
    number = x.of_integer(exponent) - x.of(float(shift)).where(small, 0.0)
    return number, (m - 1.0) / (m + 1.0)


def _special(x: Real, found: Real) -> Real:
    """A logarithm, where x may be 0, negative, infinite or NaN."""
    inside = found.where(x.below(float("inf")), x)  # infinity and NaN
    negative = x.of(float("nan")).where(x.below(0.0), inside)
    return x.of(float("-inf")).where(x.equals(0.0), negative)


def _log_of(base: float) -> Callable[[Real], Real]:
    def function(x: Real) -> Real:
        exponent, s = _split(x)
        series = tuple(2 / (2 * i + 1) / log(base) for i in range(12 if x.wide else 6))
        found = exponent.fma(log(2) / log(base), s * (s * s).polynomial(series))
        return _special(x, found)

    return function


def _log1p(x: Real) -> Real:
    u = x + 1.0
    corrected = _log(u) + (x - (u - 1.0)) / u
    between = arith.andi(u.below(float("inf")), x.of(0.0).below(u))
    return x.where(u.equals(1.0), corrected.where(between, _log(u)))


def _tanh(x: Real) -> Real:
    e = _expm1(x.magnitude().minimum(20.0) * 2.0)
    return (e / (e + 2.0)).signed_as(x)


def _sinh(x: Real) -> Real:
    e = _expm1(x.magnitude())
    near = (e + e / (e + 1.0)) * 0.5
    half = _exp(x.magnitude() * 0.5)
    return near.where(e.below(2.0**24), half * 0.5 * half).signed_as(x)


def _cosh(x: Real) -> Real:
    half = _exp(x.magnitude() * 0.5)
    return half * 0.5 * half + (half * half).over(0.5)


# erfc(x) = exp(-x^2) * (C1 t + C2 t^2 + ...) with t = 1 / (1 + x / 2), for x from 0.9 to 11: within 4.1e-9 of
# the exact one (a minimax fit in float64, weights after Lawson).
_TAIL = (
    0.0,
    0.2820851176208186,
    0.2823669640726431,
    0.24356466700583,
    0.1982224003580353,
    -0.006083198435335564,
    0.22571719333841156,
    -0.41151592796408104,
    0.22641699910904795,
    -0.040607450018662526,
)
_ERF = tuple(2 / sqrt(pi) * (-1) ** i / (factorial(i) * (2 * i + 1)) for i in range(14))


def _erf_near_zero(x: Real) -> Real:
    return x * (x * x).polynomial(_ERF)


def _tail(x: Real) -> Real:
    """erfc(x) for x from 1 on."""
    x = x.minimum(20.0)
    square = x * x
    lost = x.fma(x, -square)
    t = x.fma(0.5, 1.0).over(1.0)
    return (_exp(-square) * (-lost + 1.0)) * t.polynomial(_TAIL)


def _erf(x: Real) -> Real:
    a = x.magnitude()
    far = (x.of(1.0) - _tail(a.maximum(1.0))).signed_as(x)
    return _erf_near_zero(x).where(a.below(1.0), far)


def _erfc(x: Real) -> Real:
    tail = _tail(x.magnitude().maximum(1.0))
    far = (x.of(2.0) - tail).where(x.below(0.0), tail)
    return (x.of(1.0) - _erf_near_zero(x)).where(x.magnitude().below(1.0), far)


def _quarter(x: Real) -> tuple[Real, ir.Value]:
    """x minus the nearest multiple of pi / 2, and that multiple's number, computed in f64."""
    wide = x.widened()
    n, number = _rounded(wide * (2 / pi))
    high, low = _HALF_PI
    rest = n.fma(-low, n.fma(-high, wide))
    size = x.magnitude()
    far = arith.andi(x.of(_FAR).below(size), size.below(float("inf")))
    branch = scf.IfOp(far, [rest.value.type, number.type], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        scf.yield_(_far_quarter(x))
    with ir.InsertionPoint(branch.else_block):
        scf.yield_([rest.value, number])
    return Real(branch.results[0]), branch.results[1]


_FAR = 2.0**40
_TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163AB  # the first bits
_ALL_BITS, _SOME_BITS = 224, 96


def _far_quarter(x: Real) -> list[ir.Value]:
    """The same for a large x of f32, which is `digits * 2**power`: of 2 / pi, only some bits matter."""
    i32, i64, long, all_of_it = map(ir.IntegerType.get_signless, (32, 64, 128, 256))
    bits = x.bits()

    def constant(kind: ir.Type, number: int) -> ir.Value:
        return arith.constant(kind, ir.Attribute.parse(f"{number} : {kind}"))

    def masked(value: ir.Value, count: int) -> ir.Value:
        return arith.andi(value, constant(value.type, (1 << count) - 1))

    power = arith.subi(masked(arith.shrui(bits, constant(i32, 23)), 8), constant(i32, 150))
    digits = arith.ori(masked(bits, 23), constant(i32, 1 << 23))
    unused = arith.subi(constant(i32, _ALL_BITS - _SOME_BITS + 2), power)
    window = arith.shrui(constant(all_of_it, _TWO_OVER_PI), arith.extui(all_of_it, unused))
    window = masked(arith.trunci(long, window), _SOME_BITS)
    product = masked(arith.muli(window, arith.extui(long, digits)), _SOME_BITS)
    nearest = arith.addi(product, constant(long, 1 << (_SOME_BITS - 3)))
    number = arith.trunci(i64, arith.shrui(nearest, constant(long, _SOME_BITS - 2)))
    below = arith.subi(masked(nearest, _SOME_BITS - 2), constant(long, 1 << (_SOME_BITS - 3)))
    short = arith.trunci(i64, arith.shrsi(below, constant(long, _SOME_BITS - 2 - 63)))
    rest = Real(arith.sitofp(ir.F64Type.get(), short)) * (pi / 2 * 2.0**-63)
    negative = _sign_bit(x)
    opposite = arith.subi(constant(i64, 0), number)
    return [(-rest).where(negative, rest).value, arith.select(negative, opposite, number)]


_SINE = tuple((-1) ** i / factorial(2 * i + 1) for i in range(8))
_COSINE = tuple((-1) ** i / factorial(2 * i) for i in range(9))


def _wave(x: Real, shift: int) -> Real:
    """sin(x + shift * pi / 2)."""
    rest, number = _quarter(x)
    number = arith.addi(number, arith.constant(number.type, shift))
    square = rest * rest
    odd = _bit(number, 0)
    found = square.polynomial(_COSINE).where(odd, rest * square.polynomial(_SINE))
    return (-found).where(_bit(number, 1), found).narrowed(x.value.type)


def _bit(number: ir.Value, place: int) -> ir.Value:
    """A bit of an integer: an i1 value."""
    masked = arith.andi(number, arith.constant(number.type, 1 << place))
    return arith.cmpi(arith.CmpIPredicate.ne, masked, arith.constant(number.type, 0))


_POWERS = ("math.powf", "math.fpowi")
_MOST = 64  # of exponents that become multiplications


def _power(base: ir.Value, exponent: ir.Value) -> Real:
    """A power. Constant small integers become multiplications; others are computed in f64."""
    x, number = Real(base), _constant(exponent)
    if number is not None and number == int(number) and abs(number) <= _MOST:
        times = abs(int(number))
        total, power = x.of(1.0), x
        while times:
            total = total * power if times % 2 else total
            times //= 2
            power = power * power if times else power
        return total.over(1.0) if number < 0 else total
    if isinstance(exponent.type, ir.IntegerType):
        wide = Real(arith.sitofp(ir.F64Type.get(), exponent))
    else:
        wide = Real(exponent).widened()
    return _general_power(x.widened(), wide).narrowed(base.type)


def _constant(value: ir.Value) -> float | None:
    if isinstance(value.owner, ir.Block) or value.owner.name != "arith.constant":
        return None
    return float(value.owner.attributes["value"].value)


def _general_power(x: Real, y: Real) -> Real:
    a = x.magnitude()
    found = _exp2(y * _log_of(2)(a))
    whole = y.equals(y.truncated())
    half = y * 0.5
    odd = arith.andi(whole, emit.negate(half.equals(half.truncated())))
    signed = (-found).where(odd, found)
    negative = signed.where(whole, float("nan"))
    finite = arith.andi(x.below(0.0), a.below(float("inf")))
    found = negative.where(finite, signed.where(_sign_bit(x), found))
    one = arith.ori(y.equals(0.0), x.equals(1.0))
    minus_one = arith.andi(a.equals(1.0), y.magnitude().equals(float("inf")))
    return x.of(1.0).where(arith.ori(one, minus_one), found)


def _sign_bit(x: Real) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.slt, x.bits(), arith.constant(x.integer, 0))


_FUNCTIONS: dict[str, Callable[..., Real | ir.Value]] = {
    "math.exp": _exp,
    "math.exp2": _exp2,
    "math.expm1": _expm1,
    "math.log": _log,
    "math.log2": _log_of(2),
    "math.log10": _log_of(10),
    "math.log1p": _log1p,
    "math.sqrt": Real.root,
    "math.rsqrt": lambda x: x.root().over(1.0),
    "math.tanh": _tanh,
    "math.sinh": _sinh,
    "math.cosh": _cosh,
    "math.erf": _erf,
    "math.erfc": _erfc,
    "math.sin": lambda x: _wave(x, 0),
    "math.cos": lambda x: _wave(x, 1),
    "math.tan": lambda x: _wave(x, 0) / _wave(x, 1),
    "math.absf": Real.magnitude,
    "math.copysign": Real.signed_as,
    "math.fma": Real.fma,
    "math.floor": lambda x: x.called("floor"),
    "math.ceil": lambda x: x.called("ceil"),
    "math.trunc": Real.truncated,
    "math.round": lambda x: x.called("round"),
    "math.roundeven": lambda x: x.called("roundeven"),
    "math.isnan": lambda x: arith.cmpf(arith.CmpFPredicate.UNO, x.value, x.value),
    "math.isfinite": lambda x: x.magnitude().below(float("inf")),
    "math.isinf": lambda x: x.magnitude().equals(float("inf")),
    "math.clampf": lambda x, least, most: x.maximum(least).minimum(most),
    "arith.maxnumf": lambda x, y: x.called("maxnum", y),
    "arith.minnumf": lambda x, y: x.called("minnum", y),
}


_INTEGERS: dict[str, Callable[[ir.Value], ir.Value]] = {
    "math.absi": lambda x: arith.maxsi(x, arith.subi(arith.constant(x.type, 0), x)),
    "math.ctlz": lambda x: counted("ctlz", x),
    "math.cttz": lambda x: counted("cttz", x),
    "math.ctpop": lambda x: counted("ctpop", x),
}
