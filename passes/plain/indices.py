"""Arithmetic on coordinates: index values that may also be Python numbers (then it is folded)."""

from collections.abc import Sequence
from math import prod
from typing import Any

from weft import mlir
from weft.mlir import arith, ir
from weft.passes.plain.sizes import UnknownSizeError

Number = Any
"""An index value or a Python int, not negative unless noted."""


def value(number: Number) -> ir.Value:
    """The number as an SSA value."""
    return arith.constant(ir.IndexType.get(), number) if isinstance(number, int) else number


def add(a: Number, b: Number) -> Number:
    """The sum, of any sign."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if isinstance(a, int):
        a, b = b, a
    return a if isinstance(b, int) and b == 0 else arith.addi(a, value(b))


def sub(a: Number, b: Number) -> Number:
    """The difference, of any sign."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return a if isinstance(b, int) and b == 0 else arith.subi(value(a), value(b))


def mul(a: Number, b: Number) -> Number:
    """The product, of any sign."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if isinstance(a, int):
        a, b = b, a
    if isinstance(b, int) and b in (0, 1):
        return a if b else 0
    return arith.muli(a, value(b))


def div(a: Number, b: Number) -> Number:
    """The quotient, rounded down."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    return a if isinstance(b, int) and b == 1 else arith.divui(value(a), value(b))


def rem(a: Number, b: Number) -> Number:
    """The remainder."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    return 0 if isinstance(b, int) and b == 1 else arith.remui(value(a), value(b))


def within(number: Number, first: Number, end: Number) -> Any:
    """Whether `first <= number < end`, of any sign: an i1 value."""
    above = arith.cmpi(arith.CmpIPredicate.sge, value(number), value(first))
    return arith.andi(above, below(number, end))


def below(number: Number, end: Number) -> ir.Value:
    """Whether `number < end`, of any sign: an i1 value."""
    return arith.cmpi(arith.CmpIPredicate.slt, value(number), value(end))


def product(numbers: Sequence[Number]) -> Number:
    """The product of all."""
    total: Number = prod(each for each in numbers if isinstance(each, int))
    for each in numbers:
        if not isinstance(each, int):
            total = mul(total, each)
    return total


def linear(coordinates: Sequence[Number], sizes: Sequence[Number]) -> Number:
    """The number of an element in row-major order."""
    total: Number = 0
    for coordinate, size in zip(coordinates, sizes, strict=True):
        total = add(mul(total, size), coordinate)
    return total


def coordinates(number: Number, sizes: Sequence[Number]) -> list[Number]:
    """The inverse of `linear`. The first size isn't used."""
    found: list[Number] = []
    for size in reversed(sizes[1:]):
        found.append(rem(number, size))
        number = div(number, size)
    return [*([number] if sizes else []), *reversed(found)]


def applied(expression: Any, loops: Sequence[Number]) -> Number:
    """The value of an affine expression without symbols, whose operands aren't negative where it divides."""
    if (loop := mlir.cast(ir.AffineDimExpr, expression)) is not None:
        return loops[loop.position]
    if (number := mlir.cast(ir.AffineConstantExpr, expression)) is not None:
        return int(number.value)
    for kind, function in _BINARY.items():
        if (binary := mlir.cast(kind, expression)) is not None:
            return function(applied(binary.lhs, loops), applied(binary.rhs, loops))
    raise UnknownSizeError(f"the value of {expression}, which has symbols")


def _ceil_div(a: Number, b: Number) -> Number:
    return div(add(a, sub(b, 1)), b)


_BINARY = {
    ir.AffineAddExpr: add,
    ir.AffineMulExpr: mul,
    ir.AffineFloorDivExpr: div,
    ir.AffineCeilDivExpr: _ceil_div,
    ir.AffineModExpr: rem,
}
