"""Python's operators on values of the GPU, and the operations that they build."""

from collections.abc import Callable
from numbers import Real
from typing import Any

from weft import mlir
from weft.errors import shown
from weft.ir import callers
from weft.language.messages.mistakes import mistake
from weft.language.values.dtypes import DType
from weft.mlir import arith, ir
from weft.passes.builders import emit

_FAST = arith.FastMathFlags.contract
"""Products and sums may become one instruction that rounds once, as CUDA compilers have it."""


Operator = Callable[[Any, Any], Any]


def _operator(name: str) -> tuple[Operator, Operator]:
    """The methods of an operator, for its left and for its right operand."""
    return (
        lambda self, other: self.binary(name, other, False),
        lambda self, other: self.binary(name, other, True),
    )


class Operators:
    """Operators, by a method `binary(name, other, swapped)` of the class."""

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        raise NotImplementedError

    def binary(self, name: str, other: object, swapped: bool) -> Any:
        """The result of an operation; NotImplemented where the other operand may know better."""
        raise NotImplementedError

    def noun(self) -> str:
        """The value in words, for messages."""
        raise NotImplementedError

    def __str__(self) -> str:
        if callers.is_called_by_user():  # by an f-string, str(), format() or print()
            raise mistake(
                f"Python makes texts while the kernel is traced, when only the GPU knows {self.noun()}: "
                'print it by w.print("x is", x), as an argument of its own'
            )
        return self.noun()

    def __repr__(self) -> str:
        return f"<{self.noun()}>"

    __add__, __radd__ = _operator("add")
    __sub__, __rsub__ = _operator("sub")
    __mul__, __rmul__ = _operator("mul")
    __truediv__, __rtruediv__ = _operator("div")
    __floordiv__, __rfloordiv__ = _operator("floordiv")
    __mod__, __rmod__ = _operator("mod")
    __and__, __rand__ = _operator("and")
    __or__, __ror__ = _operator("or")
    __xor__, __rxor__ = _operator("xor")
    __lshift__, __rlshift__ = _operator("shl")
    __rshift__, __rrshift__ = _operator("shr")
    __lt__, __gt__ = _operator("lt")[0], _operator("gt")[0]
    __le__, __ge__ = _operator("le")[0], _operator("ge")[0]
    __eq__, __ne__ = _operator("eq")[0], _operator("ne")[0]

    def __neg__(self) -> Any:
        return self.binary("sub", -0.0 if self.dtype.is_float else 0, True)

    def __invert__(self) -> Any:
        if self.dtype.is_float:
            raise mistake("'~' can't be applied to floats: compare them first, or use -")
        return self.binary("xor", self.dtype.ones, False)

    def __abs__(self) -> Any:
        return self if self.dtype.is_unsigned else self.binary("maximum", -self, False)

    def __pow__(self, exponent: Any) -> Any:
        is_number = isinstance(exponent, Real) and not isinstance(exponent, bool)
        if not is_number or exponent not in (1, 2, 3, 4):
            got = exponent if isinstance(exponent, Operators) else shown(exponent)
            raise mistake(f"an exponent must be 1, 2, 3 or 4, got {got}: use w.exp2(w.log2(x) * exponent)")
        square = self * self
        return {1: self, 2: square, 3: square * self, 4: square * square}[exponent]

    __hash__ = object.__hash__


def apply(name: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """The SSA value of an operation on two SSA values of one type, scalars or vectors. The type decides
    whether integers are signed.
    """
    kind, element = a.type, emit.element_of(a.type)
    floats = not isinstance(element, ir.IntegerType)
    if floats and element.width == 8:
        raise mistake("floats of 8 bits have no arithmetic: convert them with .to(w.f32)")
    if element.width == 1 and name not in _OF_CONDITIONS:
        raise mistake("conditions have no arithmetic: convert them with .to(w.i32), or use &, | and ^")
    table = _FLOATS if floats else _INTEGERS
    if name not in table:
        symbol = _SYMBOLS.get(name, name)
        remedy = "use // or .to(w.f32)" if not floats else "convert with .to(w.i32)"
        if floats and name in ("floordiv", "mod"):
            remedy = "use w.floor"
        raise mistake(f"'{symbol}' can't be applied to {'floats' if floats else 'integers'}: {remedy}")
    if floats or element.is_signless:
        return table[name](a, b)
    result = _UNSIGNED[name](emit.signless(a), emit.signless(b))
    return result if name in COMPARISONS else emit.bits(result, kind)


COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
"""The operations whose results are conditions."""
_OF_CONDITIONS = ("and", "or", "xor", "mul", "eq", "ne")
"""The operations on one bit with the results that Python has."""
_SYMBOLS = {"mulhi": "w.mulhi", "div": "/", "floordiv": "//", "mod": "%"}
_SYMBOLS |= {"and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>"}


def _compare(predicates: Any, function: Callable[..., ir.Value], name: str) -> Operator:
    return lambda a, b: function(getattr(predicates, name), a, b)


def _floor_div(a: ir.Value, b: ir.Value) -> ir.Value:
    """The quotient rounded down, as Python has it."""
    quotient = arith.divsi(a, b)
    rest = arith.subi(a, arith.muli(quotient, b))
    return arith.subi(quotient, arith.extui(a.type, _differs(rest, b)))


def _floor_mod(a: ir.Value, b: ir.Value) -> ir.Value:
    """The remainder with the sign of the divisor, as Python has it."""
    rest = arith.remsi(a, b)
    zero = emit.constant(a.type, 0)
    return arith.addi(rest, arith.select(_differs(rest, b), b, zero))


def _differs(rest: ir.Value, divisor: ir.Value) -> ir.Value:
    """Whether a remainder isn't 0 and has another sign than the divisor."""
    zero = emit.constant(rest.type, 0)
    signs = arith.cmpi(arith.CmpIPredicate.slt, arith.xori(rest, divisor), zero)
    return arith.andi(signs, arith.cmpi(arith.CmpIPredicate.ne, rest, zero))


def _by_any(divide: Operator) -> Operator:
    """A quotient or remainder that is 0 where the divisor is 0, as in NumPy.

    LLVM's is undefined, so LLVM assumes that no divisor is 0, and drops tests such as `w.where(b != 0, …)`.
    Raises WeftError if Python knows that it is 0.
    """

    def divided(a: ir.Value, b: ir.Value) -> ir.Value:
        constant = mlir.splat(b)
        if constant == 0:
            raise mistake("an integer can't be divided by 0")
        if constant is not None:
            return divide(a, b)
        zero = emit.constant(b.type, 0)
        is_zero = arith.cmpi(arith.CmpIPredicate.eq, b, zero)
        result = divide(a, arith.select(is_zero, emit.constant(b.type, 1), b))
        return arith.select(is_zero, zero, result)

    return divided


_AMOUNT = 32
"""The bits of a shift's amount in PTX. Of a longer one, LLVM drops the others if it folds the choice of 0."""


def _shift_in_zeros(shift: Operator, unsigned: bool) -> Operator:
    """A shift of integers that is 0 by their width or more, as PTX has it: LLVM's result is undefined."""

    def shifted(a: ir.Value, bits: ir.Value) -> ir.Value:
        if _is_known(a, bits, unsigned):
            return shift(a, bits)
        width = emit.constant(bits.type, _width(a))
        if _width(a) > _AMOUNT:
            capped = arith.minui(bits, width)
            half = arith.shrui(capped, emit.constant(bits.type, 1))
            return shift(shift(a, half), arith.subi(capped, half))
        fits = arith.cmpi(arith.CmpIPredicate.ult, bits, width)
        return arith.select(fits, shift(a, bits), emit.constant(a.type, 0))

    return shifted


def _shift_right(a: ir.Value, bits: ir.Value) -> ir.Value:
    """Signed integers shifted to the right. By their width or more, copies of the sign, as PTX has it."""
    if not _is_known(a, bits, False):
        bits = arith.minui(bits, emit.constant(bits.type, _width(a) - 1))
    return arith.shrsi(a, bits)


def _width(value: ir.Value) -> int:
    """The bits of a number, or of the elements of a vector."""
    return int(emit.element_of(value.type).width)


def _is_known(a: ir.Value, bits: ir.Value, unsigned: bool) -> bool:
    """Whether Python knows the bits of a shift. Raises WeftError if they are too many, or negative."""
    constant, width = mlir.splat(bits), _width(a)
    if constant is None:
        return False
    constant = constant % 2**width if unsigned else constant
    if not 0 <= constant < width:
        raise mistake(f"a number of {width} bits can be shifted by 0 to {width - 1} bits, got {constant}")
    return True


_I, _F = arith.CmpIPredicate, arith.CmpFPredicate
_INTEGERS: dict[str, Operator] = {
    "add": arith.addi,
    "sub": arith.subi,
    "mul": arith.muli,
    "mulhi": lambda a, b: arith.mulsi_extended(a, b)[1],
    "floordiv": _by_any(_floor_div),
    "mod": _by_any(_floor_mod),
    "and": arith.andi,
    "or": arith.ori,
    "xor": arith.xori,
    "shl": _shift_in_zeros(arith.shli, False),
    "shr": _shift_right,
    "minimum": arith.minsi,
    "maximum": arith.maxsi,
    **{name: _compare(_I, arith.cmpi, f"s{name}") for name in ("lt", "le", "gt", "ge")},
    **{name: _compare(_I, arith.cmpi, name) for name in ("eq", "ne")},
}
_UNSIGNED: dict[str, Operator] = {
    **_INTEGERS,
    "mulhi": lambda a, b: arith.mului_extended(a, b)[1],
    "floordiv": _by_any(arith.divui),
    "mod": _by_any(arith.remui),
    "shl": _shift_in_zeros(arith.shli, True),
    "shr": _shift_in_zeros(arith.shrui, True),
    "minimum": arith.minui,
    "maximum": arith.maxui,
    **{name: _compare(_I, arith.cmpi, f"u{name}") for name in ("lt", "le", "gt", "ge")},
}
_FLOATS: dict[str, Operator] = {
    "add": lambda a, b: arith.addf(a, b, fastmath=_FAST),
    "sub": lambda a, b: arith.subf(a, b, fastmath=_FAST),
    "mul": lambda a, b: arith.mulf(a, b, fastmath=_FAST),
    "div": arith.divf,
    "minimum": arith.minimumf,
    "maximum": arith.maximumf,
    **{name: _compare(_F, arith.cmpf, f"O{name.upper()}") for name in ("lt", "le", "gt", "ge", "eq")},
    "ne": _compare(_F, arith.cmpf, "UNE"),
}
