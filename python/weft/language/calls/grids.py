"""Grids as functions of the sizes of a kernel's arrays."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weft.errors import Location, WeftError, shown
from weft.language.messages.mistakes import mistake
from weft.language.values.dtypes import NUMBERS

if TYPE_CHECKING:
    from weft.mlir import ir


def ceil_div(a: object, b: Any) -> object:
    """The quotient of integers, rounded up. `a` must not be negative."""
    if hasattr(a, "ceil_div"):
        return a.ceil_div(b)
    if isinstance(b, NUMBERS) and (not isinstance(b, int) or b < 1):
        raise mistake(f"w.ceil_div expects a positive integer to divide by, got {shown(b)}")
    if isinstance(a, NUMBERS) and isinstance(b, NUMBERS):
        return -(-a // b)
    if isinstance(b, int) and hasattr(a, "_ceil_div"):
        return a._ceil_div(b)
    try:
        return (a + (b - 1)) // b
    except TypeError:
        raise mistake(f"w.ceil_div expects integers, got {shown(a)} and {shown(b)}") from None


def _affine() -> "type[ir.AffineExpr]":
    """MLIR's class of expressions, which only the trace of a kernel needs."""
    from weft.mlir import ir

    return ir.AffineExpr


class Size:
    """A size that only a launch knows. It can be added to others and multiplied by them, and divided by
    numbers.
    """

    def __init__(self, expression: Any) -> None:
        self.expression = expression

    def _with(self, other: object) -> Any:
        if isinstance(other, Size):
            return other.expression
        if isinstance(other, int):
            return _affine().get_constant(other)
        raise WeftError(f"a grid must be computed from sizes and integers, got {shown(other)}")

    def __add__(self, other: object) -> "Size":
        return Size(self.expression + self._with(other))

    __radd__ = __add__

    def __sub__(self, other: object) -> "Size":
        return Size(self.expression - self._with(other))

    def __rsub__(self, other: object) -> "Size":
        return Size(self._with(other) - self.expression)

    def __neg__(self) -> "Size":
        return 0 - self

    def __mul__(self, other: object) -> "Size":
        return Size(self.expression * self._with(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: object) -> "Size":
        return Size(_affine().get_floor_div(self.expression, _divisor(other)))

    def __truediv__(self, _: object) -> object:
        raise WeftError("a grid has integers only: divide sizes by // or w.ceil_div")

    def __mod__(self, other: object) -> "Size":
        return Size(_affine().get_mod(self.expression, _divisor(other)))

    def ceil_div(self, other: object) -> "Size":
        """The quotient, rounded up."""
        return Size(_affine().get_ceil_div(self.expression, _divisor(other)))

    def __bool__(self) -> bool:
        raise WeftError("a grid can't depend on a comparison of sizes: only a launch knows them")

    def __int__(self) -> int:
        raise WeftError("sizes of a grid are integers that only a launch knows: leave int() out")

    def loaded(self) -> object:
        """Refuses functions of the language, which compute on the GPU."""
        raise WeftError("a grid has sums and products of sizes, // and w.ceil_div, and no other functions")

    __index__ = __int__
    __lt__ = __gt__ = __le__ = __ge__ = lambda self, _: bool(self)


def _divisor(value: object) -> int:
    if isinstance(value, Size):
        raise WeftError("in a grid, sizes can be divided by numbers that Python knows, got another size")
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise WeftError(f"in a grid, sizes can be divided by positive integers, got {shown(value)}")
    return value


class ArraySizes:
    """An array as the grid function sees it: its sizes."""

    def __init__(self, name: str, names: tuple[str, ...], sizes: tuple[Any, ...]) -> None:
        self._name, self._names, self.shape = name, names, sizes

    def size(self, dimension: int | str) -> Size:
        """Returns a size by its number or by its name."""
        if isinstance(dimension, str):
            if dimension not in self._names:
                raise WeftError(f"'{self._name}' has the sizes {', '.join(self._names)}, got '{dimension}'")
            dimension = self._names.index(dimension)
        return self.shape[dimension]

    @property
    def rows(self) -> object:
        """The number of rows, of a vector that of its elements."""
        return self.shape[max(len(self.shape) - 2, 0)]

    @property
    def columns(self) -> Size:
        """The number of columns."""
        return self.shape[-1]

    @property
    def matrices(self) -> Size:
        """The number of matrices of a batch, or of a batch of batches."""
        return math.prod(self.shape[:-2])


def numbers_of(grid: object, named: Mapping[str, object]) -> list[object]:
    """The one to three numbers of a grid, from its function of arrays and meta-parameters."""
    result = call_with("grid", grid, named) if callable(grid) else grid
    parts = list(result) if isinstance(result, (tuple, list)) else [result]
    if not 1 <= len(parts) <= 3:
        raise WeftError(f"a grid must have one to three numbers, got {len(parts)}")
    return parts


def expressions_of(grid: object, named: Mapping[str, object]) -> "list[ir.AffineExpr]":
    """The same as three affine expressions."""
    parts = numbers_of(grid, named)
    parts += [1] * (3 - len(parts))
    return [Size(_affine().get_constant(0))._with(each) for each in parts]


def call_with(option: str, function: Callable[..., object], named: Mapping[str, object]) -> Any:
    """Calls a function with those of the named values that it has parameters for. Errors of this module get
    the line of its definition.
    """
    try:
        return function(**_wanted(option, function, named))
    except WeftError as error:
        first, code = error.diagnostics[0], getattr(function, "__code__", None)
        if first.location is not None or code is None:
            raise
        where = Location(code.co_filename, code.co_firstlineno, 1)
        raise WeftError(replace(first, location=where)) from None


def _wanted(option: str, function: Callable[..., object], named: Mapping[str, object]) -> dict[str, object]:
    """Those of the named values that a function has parameters for."""
    parameters = inspect.signature(function).parameters.values()
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters):
        return dict(named)
    missing = [each.name for each in parameters if each.name not in named and each.default is each.empty]
    if missing:
        legal = ", ".join(named) or "the kernel's meta-parameters, of which there are none"
        raise WeftError(
            f"{option} has a parameter '{missing[0]}', which must be one of {legal}: make it a "
            "meta-parameter, after '*'"
        )
    return {each.name: named[each.name] for each in parameters if each.name in named}
