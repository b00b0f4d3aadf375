"""Conditions and choices of captured code, over values of Python or of the GPU."""

import operator
from collections.abc import Callable
from typing import Any

from weft.language.control import Branch
from weft.language.mistakes import mistake
from weft.language.scalars import Scalar, as_scalar, condition
from weft.passes.builders import emit


def choose(value: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """`then() if value else otherwise()`."""
    known = condition(value)
    if isinstance(known, bool):
        return then() if known else otherwise()
    branch = Branch(known, ("the value",))
    branch.begin({"then": then, "otherwise": otherwise})
    one = then()
    branch.end_then({"the value": _value(one)})
    branch.end_else({"the value": _like(one, otherwise())})
    return branch.after()[0]


def _value(one: Any) -> Any:
    """A Python number as a value of the GPU."""
    return as_scalar(one) if isinstance(one, (bool, int, float)) else one


def _like(one: Any, other: Any) -> Any:
    if isinstance(other, (bool, int, float)):
        return as_scalar(other, _value(one).dtype if isinstance(_value(one), Scalar) else None)
    return other


def both(first: Any, *rest: Callable[[], Any]) -> Any:
    """`first and …`."""
    if not rest:
        return first
    known = condition(first)
    if isinstance(known, Scalar):
        return choose(known, lambda: _truth(both(rest[0](), *rest[1:])), lambda: _truth(False))
    return both(rest[0](), *rest[1:]) if known else first


def either(first: Any, *rest: Callable[[], Any]) -> Any:
    """`first or …`."""
    if not rest:
        return first
    known = condition(first)
    if isinstance(known, Scalar):
        return choose(known, lambda: _truth(True), lambda: _truth(either(rest[0](), *rest[1:])))
    return first if known else either(rest[0](), *rest[1:])


def _truth(value: Any) -> Scalar:
    known = condition(value)
    return as_scalar(known)


def negated(value: Any) -> Any:
    """`not value`."""
    known = condition(value)
    return Scalar(emit.negate(known.value)) if isinstance(known, Scalar) else not known


def asserted(value: Any) -> Any:
    """The condition of an `assert`. Raises WeftError for one of the GPU."""
    if isinstance(value, Scalar):
        raise mistake("assert can't check a value of the GPU: use w.check(condition, message)")
    return value


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
}


def chain(operators: tuple[str, ...], left: Any, *rest: Callable[[], Any]) -> Any:
    """`left < rest[0] < rest[1] …`."""
    right = rest[0]()
    first = _COMPARISONS[operators[0]](left, right)
    if len(operators) == 1:
        return first
    return both(first, lambda: chain(operators[1:], right, *rest[1:]))
