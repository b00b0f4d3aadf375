"""Conditions and choices of captured code, over values of Python or of the GPU."""

import operator
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.errors import shown
from weft.language.capture.carried import described
from weft.language.capture.control import Branch
from weft.language.messages.mistakes import mistake
from weft.language.operations.ranges import Range
from weft.language.values.dtypes import i1
from weft.language.values.foreign import Foreign
from weft.language.values.scalars import Loaded, Scalar, as_scalar, condition
from weft.passes.builders import emit


def choose(value: object, then: Callable[[], object], otherwise: Callable[[], object]) -> object:
    """`then() if value else otherwise()`."""
    truth = condition(value)
    if isinstance(truth, bool):
        return then() if truth else otherwise()
    branch = Branch(truth, ("the value",))
    branch.begin({"then": then, "otherwise": otherwise})
    branch.end_then({"the value": then()})
    branch.end_else({"the value": otherwise()})
    return branch.after()[0]


def logical(is_and: bool, of_truth: bool, first: object, *rest: Callable[[], object]) -> object:
    """`first and …`, or `first or …`: the operand that decides it, or with `of_truth` its truth alone."""
    if not rest:
        return first
    truth = condition(first)
    if not isinstance(truth, Scalar):
        return logical(is_and, of_truth, rest[0](), *rest[1:]) if truth == is_and else first
    value = first if of_truth else _settled(first)
    is_condition = of_truth or (isinstance(value, Scalar) and value.dtype == i1)

    def others() -> object:
        last = logical(is_and, of_truth, rest[0](), *rest[1:])
        return _truth(last) if of_truth else _as(value, last, "and" if is_and else "or")

    sides = others, lambda: _truth(not is_and) if is_condition else value
    return choose(truth, *(sides if is_and else sides[::-1]))


def _settled(value: object) -> object:
    """A value, where it is in memory the number there."""
    return value.loaded() if isinstance(value, Loaded) else value


def _as(one: object, other: object, word: str) -> object:
    """An operand of `and` or `or`. Raises WeftError if it is a condition and another one is a number, or the
    other way round.
    """
    other = _settled(other)
    is_condition = isinstance(other, bool) or (isinstance(other, Scalar) and other.dtype == i1)
    differs = is_condition != (isinstance(one, Scalar) and one.dtype == i1)
    if differs and isinstance(other, (bool, int, float, Scalar)):
        number = one if is_condition else other
        raise mistake(
            f"the value of '{word}' is one of its operands, of which one is a condition and one is "
            f"{described(number)}: compare that with 0"
        )
    return as_scalar(other) if isinstance(other, bool) else other


def _truth(value: object) -> Scalar:
    return as_scalar(condition(value))


def negated(value: object) -> object:
    """`not value`."""
    truth = condition(value)
    return Scalar(emit.negate(truth.value)) if isinstance(truth, Scalar) else not truth


def contains(value: object, container: Any) -> object:
    """`value in container`: by comparisons, where the value or what a container has is of the GPU."""
    is_of_gpu, is_array = isinstance(value, Foreign), isinstance(container, np.ndarray)
    elements = container.ravel().tolist() if is_array and is_of_gpu else container
    is_collection = isinstance(elements, (tuple, list, deque, dict, set, frozenset, range))
    if isinstance(container, Foreign) or (is_of_gpu and isinstance(container, (str, bytes, Range))):
        raise mistake(
            "'in' must be followed by numbers in a tuple, list, set or range of Python, got "
            f"{container if isinstance(container, Foreign) else shown(container)}"
        )
    if not is_collection or not (is_of_gpu or any(isinstance(each, Foreign) for each in elements)):
        return value in container
    result: object = False
    for each in elements:
        one = value is each or value == each
        if one is True:
            return True
        if isinstance(one, Foreign) and not isinstance(one, Scalar):
            raise mistake(f"'in' compares numbers, got {value}: combine conditions of its elements by |")
        if isinstance(one, Scalar):
            result = one if result is False else result | one
    return result


def is_same(value: object, other: object) -> object:
    """`value is other`: for a condition of the GPU and True or False, whether it is that."""
    for one, constant in ((value, other), (other, value)):
        if isinstance(constant, bool) and isinstance(one, Scalar) and one.dtype == i1:
            return one if constant else negated(one)
    return value is other


def is_sequence(value: object, count: int) -> bool:
    """Whether a value matches a pattern of a sequence of so many parts."""
    is_text = isinstance(value, (str, bytes, bytearray))
    return isinstance(value, Sequence) and not is_text and len(value) == count


def chosen(value: Scalar) -> bool:
    """The condition of a comprehension. Raises WeftError for one of the GPU."""
    truth = condition(value)
    if isinstance(truth, Scalar):
        raise mistake(
            "a comprehension can't choose by a condition of the GPU, since Python must know the length of "
            "its result: choose values by w.where(condition, value, 0.0)"
        )
    return truth


def asserted(value: object) -> object:
    """The condition of an `assert`. Raises WeftError for one of the GPU."""
    if isinstance(value, Scalar):
        raise mistake("assert can't check a value of the GPU: use w.check(condition, message)")
    return value


_COMPARISONS: dict[str, Callable[[Any, Any], object]] = {
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Is": is_same,
    "IsNot": lambda a, b: negated(is_same(a, b)),
    "In": contains,
    "NotIn": lambda a, b: negated(contains(a, b)),
}


def chain(operators: tuple[str, ...], left: object, *rest: Callable[[], object]) -> object:
    """`left < rest[0] < rest[1] …`."""
    right = rest[0]()
    first = _COMPARISONS[operators[0]](left, right)
    if len(operators) == 1:
        return first
    return logical(True, True, first, lambda: chain(operators[1:], right, *rest[1:]))
