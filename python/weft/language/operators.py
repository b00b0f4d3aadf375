"""Python's operators on values of the GPU, and the operations that they build."""

from collections.abc import Callable
from numbers import Real
from typing import Any

from weft import construction, mlir
from weft.errors import shown
from weft.language.mistakes import mistake
from weft.mlir import arith, ir
from weft.passes.builders import emit

_FAST = arith.FastMathFlags.contract
"""Products and sums may become one instruction that rounds once, as CUDA compilers have it."""


class Operators:
    """Operators, by a method `binary(name, other, swapped)` of the class."""

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        raise NotImplementedError

    def binary(self, name: str, other: Any, swapped: bool) -> Any:
        """The result of an operation; NotImplemented where the other operand may know better."""
        raise NotImplementedError

    def noun(self) -> str:
        """What it is, in messages."""
        raise NotImplementedError

    def __str__(self) -> str:
        if construction.is_called_by_user():  # by an f-string, str(), format() or print()
            raise mistake(
                f"Python makes texts while the kernel is traced, when only the GPU knows {self.noun()}: "
                'print it by w.print("x is", x), as an argument of its own'
            )
        return self.noun()

    def __repr__(self) -> str:
        return f"<{self.noun()}>"

    def __add__(self, other: Any) -> Any:
        return self.binary("add", other, False)

    def __radd__(self, other: Any) -> Any:
        return self.binary("add", other, True)

    def __sub__(self, other: Any) -> Any:
        return self.binary("sub", other, False)

    def __rsub__(self, other: Any) -> Any:
        return self.binary("sub", other, True)

    def __mul__(self, other: Any) -> Any:
        return self.binary("mul", other, False)

    def __rmul__(self, other: Any) -> Any:
        return self.binary("mul", other, True)

    def __truediv__(self, other: Any) -> Any:
        return self.binary("div", other, False)

    def __rtruediv__(self, other: Any) -> Any:
        return self.binary("div", other, True)

    def __floordiv__(self, other: Any) -> Any:
        return self.binary("floordiv", other, False)

    def __rfloordiv__(self, other: Any) -> Any:
        return self.binary("floordiv", other, True)

    def __mod__(self, other: Any) -> Any:
        return self.binary("mod", other, False)

    def __rmod__(self, other: Any) -> Any:
        return self.binary("mod", other, True)

    def __and__(self, other: Any) -> Any:
        return self.binary("and", other, False)

    def __rand__(self, other: Any) -> Any:
        return self.binary("and", other, True)

    def __or__(self, other: Any) -> Any:
        return self.binary("or", other, False)

    def __ror__(self, other: Any) -> Any:
        return self.binary("or", other, True)

    def __xor__(self, other: Any) -> Any:
        return self.binary("xor", other, False)

    def __rxor__(self, other: Any) -> Any:
        return self.binary("xor", other, True)

    def __lshift__(self, other: Any) -> Any:
        return self.binary("shl", other, False)

    def __rlshift__(self, other: Any) -> Any:
        return self.binary("shl", other, True)

    def __rshift__(self, other: Any) -> Any:
        return self.binary("shr", other, False)

    def __rrshift__(self, other: Any) -> Any:
        return self.binary("shr", other, True)

    def __lt__(self, other: Any) -> Any:
        return self.binary("lt", other, False)

    def __le__(self, other: Any) -> Any:
        return self.binary("le", other, False)

    def __gt__(self, other: Any) -> Any:
        return self.binary("gt", other, False)

    def __ge__(self, other: Any) -> Any:
        return self.binary("ge", other, False)

    def __eq__(self, other: Any) -> Any:
        return self.binary("eq", other, False)

    def __ne__(self, other: Any) -> Any:
        return self.binary("ne", other, False)

    def __neg__(self) -> Any:
        return self.binary("sub", -0.0 if self.dtype.is_float else 0, True)

    def __invert__(self) -> Any:
        if self.dtype.is_float:
            raise mistake("'~' can't be applied to floats: compare them first, or use -")
        return self.binary("xor", self.dtype.bits == 1 or -1, False)

    def __abs__(self) -> Any:
        return self.binary("maximum", -self, False)

    def __pow__(self, exponent: Any) -> Any:
        known = isinstance(exponent, Real) and not isinstance(exponent, bool)
        if not known or exponent not in (1, 2, 3, 4):
            got = exponent if isinstance(exponent, Operators) else shown(exponent)
            raise mistake(f"an exponent must be 1, 2, 3 or 4, got {got}: use w.exp2(w.log2(x) * exponent)")
        square = self * self
        return {1: self, 2: square, 3: square * self, 4: square * square}[exponent]

    __hash__ = object.__hash__


def apply(name: str, a: Any, b: Any) -> Any:
    """The SSA value of an operation on two SSA values of one type, scalars or vectors."""
    element = a.type.element_type if isinstance(a.type, ir.VectorType) else a.type
    floats = not isinstance(element, ir.IntegerType)
    if floats and element.width == 8:
        raise mistake("floats of 8 bits have no arithmetic: convert them with .to(w.f32)")
    if element.width == 1 and name not in _OF_CONDITIONS:
        raise mistake("conditions have no arithmetic: convert them with .to(w.i32), or use &, | and ^")
    table = _FLOATS if floats else _INTEGERS
    if name not in table:
        symbol = _SYMBOLS.get(name, name)
        remedy = "use // or .to(w.f32)" if not floats else "convert to .to(w.i32)"
        if floats and name in ("floordiv", "mod"):
            remedy = "use w.floor"
        raise mistake(f"'{symbol}' can't be applied to {'floats' if floats else 'integers'}: {remedy}")
    return table[name](a, b)


_OF_CONDITIONS = ("and", "or", "xor", "mul", "eq", "ne")
"""The operations on one bit with the results that Python has."""
_SYMBOLS = {"div": "/", "floordiv": "//", "mod": "%"}
_SYMBOLS |= {"and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>"}


def _compare(predicates: Any, function: Callable[..., Any], name: str) -> Callable[[Any, Any], Any]:
    return lambda a, b: function(getattr(predicates, name), a, b)


def _floor_div(a: Any, b: Any) -> Any:
    """The quotient rounded down, as Python has it."""
    quotient = arith.divsi(a, b)
    rest = arith.subi(a, arith.muli(quotient, b))
    return arith.subi(quotient, arith.extui(a.type, _differs(rest, b)))


def _floor_mod(a: Any, b: Any) -> Any:
    """The remainder with the sign of the divisor, as Python has it."""
    rest = arith.remsi(a, b)
    zero = emit.constant(a.type, 0)
    return arith.addi(rest, arith.select(_differs(rest, b), b, zero))


def _differs(rest: Any, divisor: Any) -> Any:
    """Whether a remainder isn't 0 and has another sign than the divisor."""
    zero = emit.constant(rest.type, 0)
    signs = arith.cmpi(arith.CmpIPredicate.slt, arith.xori(rest, divisor), zero)
    return arith.andi(signs, arith.cmpi(arith.CmpIPredicate.ne, rest, zero))


def _shift_left(a: Any, bits: Any) -> Any:
    """Integers shifted to the left. By their width or more, 0, as PTX has it: LLVM's result is undefined."""
    if _shifts(a, bits):
        return arith.shli(a, bits)
    fits = arith.cmpi(arith.CmpIPredicate.ult, bits, emit.constant(bits.type, _width(a)))
    return arith.select(fits, arith.shli(a, bits), emit.constant(a.type, 0))


def _shift_right(a: Any, bits: Any) -> Any:
    """Integers shifted to the right. By their width or more, copies of the sign, as PTX has it."""
    if not _shifts(a, bits):
        bits = arith.minui(bits, emit.constant(bits.type, _width(a) - 1))
    return arith.shrsi(a, bits)


def _width(value: Any) -> int:
    """The bits of a number, or of the elements of a vector."""
    element = value.type.element_type if isinstance(value.type, ir.VectorType) else value.type
    return int(element.width)


def _shifts(a: Any, bits: Any) -> bool:
    """Whether Python knows the bits of a shift. Raises WeftError if they are too many, or negative."""
    known, width = mlir.splat(bits), _width(a)
    if known is not None and not 0 <= known < width:
        raise mistake(f"a number of {width} bits can be shifted by 0 to {width - 1} bits, got {known}")
    return known is not None


_I, _F = arith.CmpIPredicate, arith.CmpFPredicate
_INTEGERS: dict[str, Callable[[Any, Any], Any]] = {
    "add": arith.addi,
    "sub": arith.subi,
    "mul": arith.muli,
    "floordiv": _floor_div,
    "mod": _floor_mod,
    "and": arith.andi,
    "or": arith.ori,
    "xor": arith.xori,
    "shl": _shift_left,
    "shr": _shift_right,
    "minimum": arith.minsi,
    "maximum": arith.maxsi,
    **{name: _compare(_I, arith.cmpi, f"s{name}") for name in ("lt", "le", "gt", "ge")},
    **{name: _compare(_I, arith.cmpi, name) for name in ("eq", "ne")},
}
_FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: arith.addf(a, b, fastmath=_FAST),
    "sub": lambda a, b: arith.subf(a, b, fastmath=_FAST),
    "mul": lambda a, b: arith.mulf(a, b, fastmath=_FAST),
    "div": arith.divf,
    "minimum": arith.minimumf,
    "maximum": arith.maximumf,
    **{name: _compare(_F, arith.cmpf, f"O{name.upper()}") for name in ("lt", "le", "gt", "ge", "eq")},
    "ne": _compare(_F, arith.cmpf, "UNE"),
}
