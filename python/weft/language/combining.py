"""How scans combine elements that follow each other: by adding them up, or by a function of the kernel."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from weft.language import exchanges, operators
from weft.language.mistakes import mistake
from weft.language.scalars import Scalar, as_scalar, dtype_of
from weft.mlir import arith, ir
from weft.passes.builders import emit

Values = tuple[Any, ...]


class Part(NamedTuple):
    """What elements that follow each other are combined to, a value of each array. Where `has` is false,
    there are no such elements; without it, there are.
    """

    values: Values
    has: Any = None


class Law:
    """How two parts become one."""

    def combined(self, one: Values, other: Values) -> Values:
        """The values of a part and of the one that follows it, as one."""
        raise NotImplementedError

    def where(self, has: ir.Value, values: Values) -> Part:
        """A part that exists where `has`, an i1, is true."""
        return Part(values, has)

    def plus(self, one: Part | None, other: Part | None) -> Part | None:
        """A part, and one that follows it; None stands for no part."""
        return one if other is None else self.joined(one, other)

    def joined(self, one: Part | None, other: Part) -> Part:
        """A part, or None, and one that follows it."""
        if one is None:
            return other
        values, has = self.combined(one.values, other.values), None
        if other.has is not None:
            values = _selected(other.has, values, one.values)
        if one.has is not None:
            values = _selected(one.has, values, other.values)
            has = None if other.has is None else arith.ori(one.has, other.has)
        return Part(values, has)

    def folded(self, parts: Sequence[Part]) -> Part:
        """Parts that follow each other, as one."""
        return functools.reduce(self.joined, parts)


class Sums(Law):
    """Adds up one array. The sum of no elements is 0."""

    def combined(self, one: Values, other: Values) -> Values:
        return (operators.apply("add", one[0], other[0]),)

    def where(self, has: ir.Value, values: Values) -> Part:
        return Part(_selected(has, values, tuple(emit.constant(each.type, 0) for each in values)))

    def folded(self, parts: Sequence[Part]) -> Part:
        return Part((exchanges.folded("add", [each.values[0] for each in parts]),))


class Function(Law):
    """Combines the elements of arrays by an associative function of numbers."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def combined(self, one: Values, other: Values) -> Values:
        found = self._function(*map(Scalar, (*one, *other)))
        numbers = found if isinstance(found, (tuple, list)) else (found,)
        if len(numbers) != len(one):
            expected = f"{len(one)} numbers, one of each array" if len(one) > 1 else "1 number"
            raise mistake(f"combine must return {expected}, got {len(numbers)}")
        types = [dtype_of(each.type) for each in one]
        return tuple(as_scalar(each, dtype).value for each, dtype in zip(numbers, types, strict=True))


def check_parameters(combine: Callable[..., Any], count: int) -> None:
    """Raises WeftError for a function that doesn't take this many numbers."""
    try:
        signature = inspect.signature(combine)
    except ValueError:  # some functions of C have none
        return
    try:
        signature.bind(*[None] * count)
    except TypeError as error:
        what = "two numbers" if count == 2 else f"{count} numbers, an earlier and a later one of each array"
        raise mistake(f"combine must take {what}: {error}") from None


def _selected(condition: ir.Value, values: Values, others: Values) -> Values:
    return tuple(arith.select(condition, *pair) for pair in zip(values, others, strict=True))
