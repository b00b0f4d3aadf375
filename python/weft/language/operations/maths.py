"""Functions of numbers and of fragments, element by element."""

import math
from collections.abc import Callable

from weft.errors import shown
from weft.language.messages.mistakes import mistake
from weft.language.values.dtypes import NUMBERS, DType, f32, i1, i32
from weft.language.values.fragments import Fragment, common, everywhere, together
from weft.language.values.scalars import Loaded, Scalar, as_scalar, same
from weft.mlir import arith, ir, nvvm
from weft.mlir import math as mlir_math
from weft.passes.builders import emit
from weft.passes.kernels import activations

Result = float | Scalar | Fragment
"""A number of Python for one of Python; otherwise of the GPU."""


def _unary(
    value: object, name: str, python: Callable[[float], float], build: Callable[[ir.Value], ir.Value]
) -> Result:
    """A function of f32: of a Python number, a number of the GPU, or each element of a fragment."""
    if isinstance(value, NUMBERS):
        return _of_python(value, name, python)
    value = _operand(value, name)
    result = build(value.value)
    return Scalar(result) if isinstance(value, Scalar) else Fragment(result, value.axis)


def _of_python(value: float, name: str, python: Callable[[float], float]) -> float:
    try:
        return python(value)
    except (ValueError, OverflowError, ZeroDivisionError):
        raise mistake(f"w.{name} has no result for {shown(value)} that a float can be") from None


def _operand(value: object, name: str) -> Fragment | Scalar:
    """A number of the GPU or a fragment, of f32. Raises WeftError for anything else."""
    value = value if isinstance(value, (Fragment, Scalar)) else as_scalar(value)
    if value.dtype != f32:
        raise mistake(f"w.{name} expects values of {f32}, got {value}: convert with .to(w.f32)")
    return value


def _approximate(function: Callable[..., ir.Value]) -> Callable[[ir.Value], ir.Value]:
    """A function of the math dialect by the approximation that PTX has of it."""
    return lambda x: function(x, fastmath=arith.FastMathFlags.afn)


def special_exp2(x: object) -> Result:
    """2 to the power of x, by the special function units."""
    return _unary(x, "exp2", lambda v: 2.0**v, activations.power)


def exp(x: object) -> Result:
    """e to the power of x, by `exp2`."""
    if isinstance(x, NUMBERS):
        return _of_python(x, "exp", math.exp)
    return special_exp2(_operand(x, "exp") * math.log2(math.e))


def log2(x: object) -> Result:
    """The logarithm to base 2 (`lg2.approx.ftz`)."""
    return _unary(x, "log2", lambda v: -math.inf if v == 0 else math.log2(v), _approximate(mlir_math.log2))


def log(x: object) -> Result:
    """The natural logarithm, by `log2`."""
    if isinstance(x, NUMBERS):
        return _of_python(x, "log", lambda v: -math.inf if v == 0 else math.log(v))
    return log2(_operand(x, "log")) * math.log(2)


def rcp(x: object) -> Result:
    """1 / x (`rcp.approx.ftz`)."""
    return _unary(x, "rcp", lambda v: 1 / v, activations.reciprocal)


def sqrt(x: object) -> Result:
    """The square root, correctly rounded."""
    return _unary(x, "sqrt", math.sqrt, mlir_math.sqrt)


def rsqrt(x: object) -> Result:
    """1 / sqrt(x) (`rsqrt.approx.ftz`)."""
    return _unary(x, "rsqrt", lambda v: 1 / math.sqrt(v), _approximate(mlir_math.rsqrt))


def tanh(x: object) -> Result:
    """The hyperbolic tangent (`tanh.approx`)."""
    return _unary(x, "tanh", math.tanh, _approximate(mlir_math.tanh))


def floor(x: object) -> Result:
    """The largest integer that isn't larger than x, as a float."""
    return _unary(x, "floor", lambda v: float(math.floor(v)), mlir_math.floor)


def ceil(x: object) -> Result:
    """The smallest integer that isn't smaller than x, as a float."""
    return _unary(x, "ceil", lambda v: float(math.ceil(v)), mlir_math.ceil)


def round_(x: object) -> Result:
    """The nearest integer, as a float; the even one of two."""
    return _unary(x, "round", lambda v: float(round(v)), mlir_math.roundeven)


def sin(x: object) -> Result:
    """The sine (`sin.approx.ftz`), within 2^-20.5 for x in -pi..pi."""
    return _unary(x, "sin", math.sin, _approximate(mlir_math.sin))


def cos(x: object) -> Result:
    """The cosine (`cos.approx.ftz`), within 2^-20.5 for x in -pi..pi."""
    return _unary(x, "cos", math.cos, _approximate(mlir_math.cos))


def erf(x: object) -> Result:
    """The error function, within 3e-7 of it."""
    return _unary(x, "erf", math.erf, activations.erf)


def gelu(x: object) -> Result:
    """x * Phi(x), as the epilogues of `weft.matmul` compute it."""
    return activated(x, "gelu")


def silu(x: object) -> Result:
    """x / (1 + exp(-x)), as the epilogues of `weft.matmul` compute it."""
    return activated(x, "silu")


def sigmoid(x: object) -> Result:
    """1 / (1 + exp(-x))."""
    if isinstance(x, NUMBERS):
        return _of_python(x, "sigmoid", lambda v: 1 / (1 + math.exp(-v)))
    return rcp(special_exp2(_operand(x, "sigmoid") * -math.log2(math.e)) + 1.0)


def relu(x: object) -> Result:
    """max(x, 0)."""
    return maximum(x, 0.0)


def activated(x: object, name: str) -> Result:
    """An activation of `weft.matmul`, by its name."""
    value = as_scalar(x) if isinstance(x, NUMBERS) else x
    return _unary(value, name, float, lambda x: activations.apply(name, x))


def derivative(x: object, name: str) -> Result:
    """The derivative of an activation of `weft.matmul` at each element of a fragment of f32."""
    return _unary(x, name, float, lambda x: activations.derivative(name, x))


def absolute(x: object) -> Result:
    """The absolute value."""
    if isinstance(x, NUMBERS):
        return abs(x)
    return abs(x if isinstance(x, (Fragment, Scalar)) else as_scalar(x))


def _pair(name: str, python: Callable[[float, float], float], a: object, b: object) -> Result:
    a, b = _settled(a), _settled(b)
    if isinstance(a, NUMBERS) and isinstance(b, NUMBERS):
        return python(a, b)
    if isinstance(a, Fragment):
        return a.binary(name, b, False)
    if isinstance(b, Fragment):
        return b.binary(name, a, True)
    return _number(a, _type_of(a, b)).binary(name, b, False)


def _settled(value: object) -> object:
    """A number in memory as it is there, and one of NumPy as one of Python; anything else as it is."""
    if isinstance(value, Loaded):
        return value.loaded()
    is_of_numpy = not isinstance(value, NUMBERS) and getattr(value, "ndim", None) == 0
    return value.item() if is_of_numpy and hasattr(value, "item") else value


def _type_of(*values: object) -> DType:
    """The type that numbers of Python beside other values get: that of the others, if there are any."""
    for each in values:
        if isinstance(each, (Fragment, Scalar)):
            return each.dtype
    kinds = {type(each) for each in values}
    return i1 if kinds == {bool} else f32 if float in kinds else i32


def _number(value: object, dtype: DType) -> Scalar:
    """A number of the GPU; one of Python gets this type."""
    return as_scalar(value, dtype if isinstance(value, NUMBERS) else None)


def minimum(a: object, b: object) -> Result:
    """The smaller one; NaN if one of them is."""
    return _pair("minimum", min, a, b)


def maximum(a: object, b: object) -> Result:
    """The larger one; NaN if one of them is."""
    return _pair("maximum", max, a, b)


def mulhi(a: object, b: object) -> Result:
    """The upper half of the bits of products of integers (`mul.hi`), which are signed or unsigned as their
    type is. The lower half is `a * b`.
    """
    if isinstance(a, NUMBERS) and isinstance(b, NUMBERS):
        raise mistake(f"w.mulhi expects a number of the GPU, which has a type, got {a} and {b}")
    return _pair("mulhi", max, a, b)


def where(choice: object, a: object, b: object) -> object:
    """`a` where the condition is true, otherwise `b`, element by element; both are computed."""
    if isinstance(choice, (bool, int)):
        return a if choice else b
    choice = _settled(choice)
    if not isinstance(choice, (Scalar, Fragment)) or choice.dtype != i1:
        got = str(choice) if isinstance(choice, (Scalar, Fragment)) else shown(choice)
        is_integer = isinstance(choice, (Scalar, Fragment)) and not choice.dtype.is_float
        remedy = ": compare it, as in x != 0" if is_integer else ""
        raise mistake(f"w.where expects a condition, such as x < y, got {got}{remedy}")
    a, b = _settled(a), _settled(b)
    if any(isinstance(each, Fragment) for each in (choice, a, b)):
        return chosen(choice, a, b)
    dtype = _type_of(a, b)
    one, other = _number(a, dtype), _number(b, dtype)
    same(one.dtype, other.dtype)
    return Scalar(arith.select(choice.value, one.value, other.value))


def chosen(choice: Fragment | Scalar, a: object, b: object) -> Fragment:
    """`where` of values of which one is a fragment."""
    dtype = _type_of(a, b)
    tile_ = common([each for each in (choice, a, b) if isinstance(each, Fragment)])
    condition, first, second = (_as_tile(each, tile_, dtype) for each in (choice, a, b))
    same(first.dtype, second.dtype)
    return Fragment(arith.select(condition.value, first.value, second.value), tile_.axis)


def _as_tile(value: object, tile_: Fragment, dtype: DType) -> Fragment:
    """A number, vector or tile with the shape and layout of a tile."""
    if isinstance(value, Fragment):
        return together(tile_, value)[1] if value is not tile_ else value
    return everywhere(_number(value, dtype).value, tile_)


_ROUNDS = 1.5 * 2**23  # added to a number, it leaves its nearest integer in the lowest bits
_LEAST = -125.0  # so that the exponent of the result is at least 1
# For f in -1/2 .. 1/2, within 7.5e-5 of 2^f (a minimax fit in float64, weights after Lawson).
_POLYNOMIAL = (0.9999280735395694, 0.6932609854640265, 0.2426111221918073, 0.05517166903960564)


def exp2(x: object, *, polynomial_every: int = 0) -> Result:
    """2 to the power of x (`ex2.approx.ftz`).

    A multiprocessor computes 16 of these in a cycle. With `polynomial_every=n`, every n-th element of a lane
    is computed by a polynomial, which other units do: within 7.5e-5 of the exact one for x in -125..127, and
    at most 2^-125 for any smaller x.
    """
    if not polynomial_every:
        return special_exp2(x)
    if not isinstance(polynomial_every, int) or polynomial_every < 1:
        raise mistake(f"polynomial_every must be a positive number, got {polynomial_every}")
    if not isinstance(x, Fragment) or x.dtype != f32:
        raise mistake(f"polynomial_every is for fragments of {f32}, got {x}")
    elements = [
        _polynomial(each) if number % polynomial_every == 0 else nvvm.ex2(each, ftz=True)
        for number, each in enumerate(x.elements())
    ]
    return Fragment.of_lane(emit.vector_of(elements), x.shape, x.layout)


def _polynomial(x: ir.Value) -> ir.Value:
    """2 to the power of an f32: a polynomial of its fraction, with its integer added to the exponent."""
    kind, rounds = x.type, emit.constant(x.type, _ROUNDS)
    x = arith.maximumf(x, emit.constant(kind, _LEAST))
    shifted = arith.addf(x, rounds)
    fraction = arith.subf(x, arith.subf(shifted, rounds))
    flags = arith.FastMathFlags.contract
    total = emit.constant(kind, _POLYNOMIAL[-1])
    for coefficient in _POLYNOMIAL[-2::-1]:
        product = arith.mulf(total, fraction, fastmath=flags)
        total = arith.addf(product, emit.constant(kind, coefficient), fastmath=flags)
    integer = arith.shli(arith.bitcast(emit.i32(), shifted), emit.value(23))
    return arith.bitcast(kind, arith.addi(arith.bitcast(emit.i32(), total), integer))
