"""What a kernel reads from global variables and closures.

Its trace contains their values, so a kernel must be traced again when they change.
"""

import types
from collections.abc import Callable, Iterator
from typing import Any

from weft.language.capture import is_captured
from weft.language.scalars import DType

_PLAIN = (bool, int, float, str, bytes, type(None), DType)
_ABSENT = object()

Read = tuple[Any, str, Any]
"""Where a name is: a dictionary of global variables, or a cell; the name; and its value."""


def reads(*functions: Any) -> tuple[Read, ...]:
    """The numbers, texts, types, tuples of these, and functions that the functions read, also in functions of
    the same module and those with `@w.inline`.
    """
    found: dict[tuple[int, str], Read] = {}
    waiting, done = [each for each in functions if isinstance(each, types.FunctionType)], set[Any]()
    while waiting:
        function = waiting.pop()
        if function in done:
            continue
        done.add(function)
        for where, name in _names(function):
            value = _value(where, name)
            if isinstance(value, types.FunctionType):
                if value.__globals__ is function.__globals__ or is_captured(value):
                    waiting.append(value)
            elif not _is_plain(value):
                continue
            found[id(where), name] = where, name, value
    return tuple(found.values())


def have_changed(known: tuple[Read, ...]) -> bool:
    """Whether one of the names has another value now."""
    for where, name, before in known:
        now = where.get(name, _ABSENT) if type(where) is dict else _value(where, name)
        # 1, 1.0 and True are equal, but a kernel computes with them in different types.
        if now is not before and (repr(now) != repr(before) or not _is_plain(now)):
            return True
    return False


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(map(_is_plain, value)))


def _value(where: Any, name: str) -> Any:
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
