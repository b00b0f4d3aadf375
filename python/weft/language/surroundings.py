"""What a kernel reads from global variables and closures.

Its trace contains their values, so a kernel must be traced again when they change.
"""

import dataclasses
import enum
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from weft.language.capture import is_captured
from weft.language.dtypes import DType
from weft.language.objects import Members

_PLAIN = (bool, int, float, str, bytes, type(None), DType, np.generic, enum.Enum)
_ABSENT = object()

Read = tuple[Any, str, Any]
"""Where a name is: a dictionary of global variables, or a cell; the name; and its value."""


def reads(*functions: Any) -> tuple[Read, ...]:
    """The numbers, texts, types, members of enumerations, tuples and frozen dataclasses of these, and
    functions that the functions read, also in functions of the same module and those with `@w.inline`.
    """
    found: dict[tuple[int, str], Read] = {}
    for where, name, value in everything(*functions):
        if isinstance(value, types.FunctionType) or _is_plain(value):
            found[id(where), name] = where, name, value
    return tuple(found.values())


class Around:
    """What a kernel function reads that isn't made in it, and its meta-parameters."""

    def __init__(self, function: Any, meta: dict[str, Any]) -> None:
        self._meta = meta
        self._reads = {(id(where), name): (where, name) for where, name, _ in everything(function)}
        self._defaults = function.__defaults__, function.__kwdefaults__

    def values(self) -> Members:
        """The values now, by their names; variables of functions around as they are."""
        found: Members = {}
        for where, name in self._reads.values():
            is_variable = isinstance(where, types.CellType)
            found[name] = where if is_variable else now(where, name)
        return found | self._meta | {"a default value": self._defaults}


def everything(*functions: Any) -> Iterator[Read]:
    """All that the functions read from global variables and closures."""
    waiting, done = [each for each in functions if isinstance(each, types.FunctionType)], set[Any]()
    while waiting:
        function = waiting.pop()
        if function in done:
            continue
        done.add(function)
        for where, name in _names(function):
            value = now(where, name)
            is_function = isinstance(value, types.FunctionType)
            if is_function and (value.__globals__ is function.__globals__ or is_captured(value)):
                waiting.append(value)
            yield where, name, value


def have_changed(known: tuple[Read, ...]) -> bool:
    """Whether one of the names has another value now."""
    for where, name, before in known:
        value = where.get(name, _ABSENT) if type(where) is dict else now(where, name)
        if value is not before and (not _is_plain(value) or _text(value) != _text(before)):
            return True
    return False


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN) or (_is_frozen(value) and all(map(_is_plain, _fields(value))))


def _is_frozen(value: Any) -> bool:
    """Whether a value is a frozen dataclass."""
    parameters = getattr(type(value), "__dataclass_params__", None)
    return parameters is not None and parameters.frozen


def _fields(value: Any) -> tuple[Any, ...]:
    return tuple(getattr(value, each.name) for each in dataclasses.fields(value))


def _text(value: Any) -> str:
    """A value as text: 1, 1.0 and True are equal, but kernels compute with them in different types."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))})"
    if not isinstance(value, _PLAIN) and _is_frozen(value):
        return f"{type(value).__qualname__}{_text(_fields(value))}"
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name} {value.value!r}"
    return repr(value)


def now(where: Any, name: str) -> Any:
    """The value of a name."""
    if isinstance(where, dict):
        return where.get(name, _ABSENT)
    try:
        return where.cell_contents
    except ValueError:  # of a cell that is empty
        return _ABSENT


def _names(function: Callable[..., Any]) -> Iterator[tuple[Any, str]]:
    """The global variables and cells of a function, and of the functions inside it."""
    code = function.__code__
    yield from zip(function.__closure__ or (), code.co_freevars, strict=True)
    codes = [code]
    while codes:
        inner = codes.pop()
        yield from ((function.__globals__, name) for name in inner.co_names if name in function.__globals__)
        codes += [each for each in inner.co_consts if isinstance(each, types.CodeType)]
