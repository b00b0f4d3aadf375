"""Numbers of the GPU, one for each thread or in memory, and their conversions."""

import math
import operator
from collections.abc import Iterator
from typing import Any, NoReturn

from weft import mlir
from weft.dialects import tile
from weft.dialects.tile import FragmentType
from weft.errors import shown
from weft.isa.chips import describe
from weft.isa.conversion import FP8_ROUNDING
from weft.language.capture import trace
from weft.language.capture.carried import Carried, written
from weft.language.messages.mistakes import check_value, mistake
from weft.language.values import operators
from weft.language.values.dtypes import DTYPES, NUMBERS, DType, checked_type, e4m3, f16, f32, i1, i32
from weft.mlir import arith, ir
from weft.passes.builders import emit, small_floats
from weft.passes.kernels import fragments

_DIGITS = {"f64": (53, 1023), "f32": (24, 127), "bf16": (8, 127), "f16": (11, 15), "f8E5M2": (3, 15)}
"""Of types of floats, and the largest exponent."""
_RANGES = {
    "f8E4M3FN": (448, 464),  # which has no infinity, and NaN in place of its largest number
    **{name: ((2**n - 1) << (e + 1 - n), (2 ** (n + 1) - 1) << (e - n)) for name, (n, e) in _DIGITS.items()},
}
"""The largest number of a type of floats, and the least one that is rounded to infinity or NaN."""


def dtype_of(kind: ir.Type) -> DType:
    """The element type of an MLIR type, which may be a vector or tile."""
    return DTYPES[str(emit.element_of(kind))]


_SIGNED = ("lt", "le", "gt", "ge", "floordiv", "mod", "minimum", "maximum", "shr")
"""Operations that depend on the sign of integers."""


class Scalar(operators.Operators, Carried):
    """A number of the GPU. Operators on it build operations; with Python's numbers too."""

    def __hash__(self) -> int:
        raise mistake(
            "only the GPU knows this number, so it can't be in a set or a key of a dictionary: use a list, "
            "or an index of an array"
        )

    def __init__(self, value: ir.Value) -> None:
        check_value(value, "Scalar")
        self.value = value
        """The SSA value."""

    @property
    def dtype(self) -> DType:
        """Its type."""
        return dtype_of(self.value.type)

    def to(self, dtype: DType) -> "Scalar":
        """The number in another type. Floats become integers toward zero."""
        return Scalar(converted(self.value, checked_type(dtype)))

    def bitcast(self, dtype: DType) -> "Scalar":
        """The bits of the number as a number of another type with as many bits."""
        return Scalar(reinterpreted(self.value, checked_type(dtype)))

    def binary(self, name: str, other: object, swapped: bool) -> "Scalar":
        if (second := operand(other, self.dtype)) is None:
            return NotImplemented
        check_sign(name, other, self.dtype)
        same(self.dtype, second.dtype)
        pair = (second, self) if swapped else (self, second)
        return Scalar(operators.apply(name, *(each.value for each in pair)))

    def _ceil_div(self, other: int) -> "Scalar":
        """The quotient for `w.ceil_div`."""
        if self.dtype == i32:
            return Scalar(emit.ceil_div(self.value, other))
        return (self + (other - 1)) // other

    def parts(self) -> list[ir.Value]:
        return [self.value]

    def of_zeros(self) -> "Scalar":
        return Scalar(constant(self.value.type, 0))

    def like(self, parts: Iterator[ir.Value]) -> "Scalar":
        return Scalar(next(parts))

    def number(self) -> str:
        constant_ = mlir.constant(emit.signless(self.value))
        if constant_ is None:
            return super().number()
        return written(constant_ % 2**self.dtype.bits if self.dtype.is_unsigned else constant_)

    def complaint(self, other: "Scalar") -> str | None:
        if other.dtype == self.dtype:
            return None
        return f"was {self} and becomes {other}: convert it with .to({self.dtype})"

    def noun(self) -> str:
        return f"a value of {self.dtype}"

    def __bool__(self) -> bool:
        raise mistake(
            "only the GPU knows this condition: write it in a function with @w.kernel or @w.inline, as "
            "'if', 'while', 'and', 'or', 'not', 'in', 'match' with numbers or a conditional expression, or "
            "use w.where; & and | in place of all() and any(), and w.minimum and w.maximum in place of min() "
            "and max()"
        )

    def __index__(self) -> int:
        raise mistake(
            "only the GPU knows this number: Python needs one that it knows; loop with w.range, and choose "
            "among values by w.where, or by an index of an array"
        )

    def __int__(self) -> int:
        raise mistake("only the GPU knows this number: convert it with .to(w.i32) in place of int()")

    def __float__(self) -> float:
        raise mistake(
            "only the GPU knows this number: use the functions of w, such as w.exp in place of math.exp, and "
            ".to(w.f32) in place of float()"
        )

    def __iter__(self) -> NoReturn:
        raise mistake(
            f"can't unpack {self}: it is one number, as are tiles of w.tiles() where the grid is one number"
        )


def operand(value: Any, dtype: DType) -> Scalar | None:
    """A number, from Python or the GPU, as an operand of an operation on this type; otherwise None."""
    if isinstance(value, Scalar):
        return value
    if isinstance(value, NUMBERS) or (hasattr(value, "__array__") and getattr(value, "ndim", 1) == 0):
        return as_scalar(value if isinstance(value, NUMBERS) else value.item(), dtype)
    loaded = getattr(value, "loaded", None)
    return loaded() if callable(loaded) else None


def check_sign(name: str, number: object, dtype: DType) -> None:
    """Raises WeftError for a number of Python that has the sign bit of an integer type, in an operation that
    would take it for a negative one.
    """
    if name in _SIGNED and isinstance(number, int) and dtype.is_signed:
        limit = 2 ** (dtype.bits - 1)
        if number >= limit:
            raise mistake(
                f"{shown(number)} is beyond the numbers of {dtype}, which are less than {limit}: use a wider "
                "type, or an unsigned one"
            )


def same(one: DType, other: DType) -> None:
    """Raises WeftError for operands of two types."""
    if one != other:
        best = str(max(one, other, key=lambda each: (each.is_float, each.bits)))
        if one.bits == other.bits and one.is_unsigned != other.is_unsigned:
            best = f"{one}) or .to({other}"
        raise mistake(f"operands must have one type, got {one} and {other}: convert one with .to({best})")


def as_scalar(value: object, dtype: DType | None = None) -> Scalar:
    """A number as a value of the GPU. A Python number gets this type."""
    if isinstance(value, Scalar):
        if dtype is not None and value.dtype != dtype:
            raise mistake(f"expects a value of {dtype}, got {value}: convert it with .to({dtype})")
        return value
    if not isinstance(value, NUMBERS):
        if (number := operand(value, dtype or f32)) is not None:
            return as_scalar(number, dtype)
        raise mistake(f"expects a number, got {shown(value)}")
    if dtype is None:
        dtype = i1 if isinstance(value, bool) else i32 if isinstance(value, int) else f32
    check_fits(value, dtype)
    try:
        kind = dtype.type
    except RuntimeError:  # there is no context
        raise mistake("this can be called in a kernel only, while it is traced") from None
    return Scalar(constant(kind, value))


DType.make = as_scalar


def check_fits(value: float, dtype: DType) -> None:
    """Raises WeftError for a number of Python that isn't one of a type."""
    if isinstance(value, float) and not dtype.is_float:
        raise mistake(f"expects an integer beside a value of {dtype}, got {value}: convert with .to(w.f32)")
    least = 0 if dtype.is_unsigned else -(2 ** (dtype.bits - 1))
    if not dtype.is_float and not least <= value < 2**dtype.bits:
        range_ = f", whose numbers are in 0..{dtype.ones}" if dtype.is_unsigned else ""
        raise mistake(f"{shown(value)} doesn't fit into {dtype}{range_}")
    if not dtype.is_float or (abs(value) == math.inf and dtype != e4m3):
        return
    largest, beyond = _RANGES[dtype.name]
    if abs(value) >= beyond:
        raise mistake(
            f"{shown(value)} doesn't fit into {dtype}, whose largest number is {float(largest):.7g}"
        )


def constant(kind: ir.Type, number: float) -> ir.Value:
    """A number as an SSA value of this type, or in all elements of a vector or tile."""
    element = emit.element_of(kind)
    if isinstance(element, ir.IntegerType):
        width = element.width
        number = int(number) if int(number) < 2 ** (width - 1) or width == 1 else int(number) - 2**width
        return emit.constant(kind, number)
    return emit.constant(kind, float(number))


def condition(value: object) -> bool | Scalar:
    """The truth of a value: Python's, or an i1 of the GPU."""
    if (loaded := getattr(value, "loaded", None)) is not None and callable(loaded):
        value = loaded()
    if not isinstance(value, Scalar):
        return bool(value)
    if value.dtype == i1:
        constant_ = mlir.constant(value.value)
        return value if constant_ is None else bool(constant_)
    return Scalar((value != 0).value)


def converted(value: ir.Value, dtype: DType) -> ir.Value:
    """An SSA value, a scalar, vector or tile, in another type. Floats are rounded once; those beyond the
    range of fp8 become its largest value. Integers keep their lowest bits; as an i1, they are whether they
    aren't 0.
    """
    old = dtype_of(value.type)
    if old == dtype:
        return value
    if dtype == i1 and old.is_float:
        raise mistake(f"can't convert {old} to {dtype}: compare it with a number")
    if _is_fp8(old) or _is_fp8(dtype):
        if not isinstance(value.type, FragmentType):
            return _of_pairs(value, dtype)
        kind = FragmentType.of(value.type.shape, dtype.type, value.type.layout)
        return tile.from_lane(_of_pairs(tile.to_lane(value), dtype), kind)
    kind = emit.with_elements(value.type, dtype.type)
    if old.is_float and dtype.is_float:
        if old.bits == dtype.bits:
            return converted(converted(value, f32), dtype)
        return (arith.extf if dtype.bits > old.bits else arith.truncf)(kind, value)
    if dtype.is_float:
        return (arith.sitofp if old.is_signed else arith.uitofp)(kind, emit.signless(value))
    integer = emit.signless_type(kind)
    if old.is_float:
        return emit.bits((arith.fptoui if dtype.is_unsigned else arith.fptosi)(integer, value), kind)
    number = emit.signless(value)
    if dtype == i1:
        return arith.cmpi(arith.CmpIPredicate.ne, number, emit.constant(number.type, 0))
    if dtype.bits < old.bits:
        number = arith.trunci(integer, number)
    elif dtype.bits > old.bits:
        number = (arith.extsi if old.is_signed else arith.extui)(integer, number)
    return emit.bits(number, kind)


def reinterpreted(value: ir.Value, dtype: DType) -> ir.Value:
    """The bits of an SSA value, a scalar, vector or tile, in a type of the same width."""
    old = dtype_of(value.type)
    if old == i1 and dtype != i1:
        raise mistake(f"bitcast is for numbers, got a condition: convert it with .to({dtype})")
    if old.bits != dtype.bits:
        raise mistake(f"bitcast needs a type of {old.bits} bits, as {old} has, got {dtype}")
    return emit.bits(value, emit.with_elements(value.type, dtype.type))


def _is_fp8(dtype: DType) -> bool:
    return dtype.is_float and dtype.bits == 8


def _of_pairs(value: ir.Value, dtype: DType) -> ir.Value:
    """A conversion from or to fp8, of which instructions convert two numbers at once."""
    numbers = emit.elements(value)
    padded = emit.vector_of([*numbers, *numbers[: len(numbers) % 2]])
    old, chip = dtype_of(value.type), trace.current().chip
    if _is_fp8(old):  # f16 has all of its values
        rounds = chip in FP8_ROUNDING
        halves = (
            fragments.convert(padded, emit.with_elements(padded.type, f16.type))
            if rounds
            else small_floats.to_f16(padded)
        )
        result = converted(halves, dtype)
    else:
        floats = padded if old.is_float else converted(padded, f32)
        if chip not in FP8_ROUNDING:
            needs = describe(FP8_ROUNDING)
            raise mistake(f"conversion to {dtype} needs {needs}, got {chip}: use w.f16 or w.bf16")
        result = fragments.convert(floats, emit.with_elements(floats.type, dtype.type))
    elements = emit.elements(result)[: len(numbers)]
    return emit.vector_of(elements) if isinstance(value.type, ir.VectorType) else elements[0]


class Loaded(operators.Operators, Carried):
    """A number in memory. In arithmetic, it is its value."""

    __hash__ = Scalar.__hash__
    element: Scalar | None
    """The number as it was when this was made; None for the first element of a tile, without all indices."""

    def loaded(self) -> Scalar:
        """The number."""
        raise NotImplementedError

    def to(self, dtype: DType) -> Scalar:
        """The number in another type."""
        return self.loaded().to(dtype)

    def bitcast(self, dtype: DType) -> Scalar:
        """The bits of the number as a number of another type with as many bits."""
        return self.loaded().bitcast(dtype)

    def binary(self, name: str, other: object, swapped: bool) -> Scalar:
        return self.loaded().binary(name, other, swapped)

    def __bool__(self) -> bool:
        return bool(self.loaded())

    def __index__(self) -> int:
        return operator.index(self.loaded())

    def __int__(self) -> int:
        return int(self.loaded())

    def __float__(self) -> float:
        return float(self.loaded())

    def settled(self) -> Carried:
        return self.loaded()

    def parts(self) -> list[ir.Value]:
        return self.loaded().parts()

    def like(self, parts: Iterator[ir.Value]) -> Scalar:
        return self.loaded().like(parts)
