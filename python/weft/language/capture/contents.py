"""The contents of Python's values, to see whether they have changed since a kernel was traced."""

import array
import dataclasses
import enum
import functools
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from weft.language.capture import python_objects
from weft.language.values.dtypes import DType

_PLAIN = (bool, int, float, complex, str, bytes, range, type(None), DType, np.generic, np.dtype, enum.Enum)
_WRAPPERS = (staticmethod, classmethod)
ABSENT = object()
"""In place of a value that doesn't exist, and the content of what isn't compared."""


def is_plain(value: object) -> bool:
    """Whether a value can't change: a number, text or type, or a tuple or frozen dataclass of these."""
    if isinstance(value, tuple):
        return all(map(is_plain, value))
    return isinstance(value, _PLAIN) or (_is_frozen(value) and all(map(is_plain, _fields(value))))


def _is_frozen(value: object) -> bool:
    """Whether a value is a frozen dataclass."""
    parameters = getattr(type(value), "__dataclass_params__", None)
    return parameters is not None and parameters.frozen


def _fields(value: Any) -> tuple[object, ...]:
    return tuple(getattr(value, each.name) for each in dataclasses.fields(value))


def _text(value: object) -> str:
    """A value as text: 1, 1.0 and True are equal, but kernels compute with them in different types."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))})"
    if not isinstance(value, _PLAIN) and _is_frozen(value):
        return f"{type(value).__qualname__}{_text(_fields(value))}"
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name} {value.value!r}"
    return repr(value)


_VERSIONED = ("weft", "numpy", "builtins")
"""Packages whose functions and classes their names identify: the cache's keys hold the versions."""


def as_text(content: object) -> str:
    """A content as text, the same in every process. Raises TypeError for one that has no such text."""
    if isinstance(content, tuple | frozenset):
        parts = [as_text(each) for each in content]
        return f"{type(content).__name__}{parts if isinstance(content, tuple) else sorted(parts)}"
    if isinstance(content, types.FunctionType | type) and content.__module__.split(".")[0] in _VERSIONED:
        return f"{content.__module__}.{content.__qualname__}"
    if content is None or isinstance(content, bool | int | float | str | bytes | np.dtype):
        return repr(content)
    raise TypeError(type(content))


def content(value: Any, seen: dict[int, int] | None = None) -> object:
    """The contents of a value, to compare and hash: the numbers in containers, arrays and objects of the
    user's classes. For other objects, their identity; for a library's module, nothing.
    """
    kind = type(value)
    if kind in (int, float, str, bool, type(None)):
        return kind, repr(value)
    if value is ABSENT or is_plain(value):
        return value if value is ABSENT else _text(value)
    seen = {} if seen is None else seen
    if id(value) in seen:
        return seen[id(value)]
    seen[id(value)] = len(seen)
    if isinstance(value, types.ModuleType) and not python_objects.is_users(value.__name__):
        return ABSENT
    if isinstance(value, (bytearray, memoryview, array.array)):
        return kind, bytes(value)
    if isinstance(value, np.ndarray):
        objects_in = value.flat if value.dtype.hasobject else ()
        return value.dtype, value.shape, tuple(content(e, seen) for e in objects_in) or value.tobytes()
    if isinstance(value, (set, frozenset)):
        return kind, frozenset(content(each, seen) for each in value)
    if kind in (tuple, list):
        return kind, tuple([content(each, seen) for each in value])
    if (inside := _inside(value)) is None:
        return value if isinstance(value, (types.FunctionType, type)) else _Same(value)
    head = value if isinstance(value, type) else kind
    return head, tuple([(content(key, seen), content(each, seen)) for key, each in inside])


def _inside(value: object) -> Iterable[tuple[object, object]] | None:
    """The parts of a value by their keys or names; None of one that is compared as a whole."""
    if isinstance(value, types.MethodType):
        return [("self", value.__self__), ("function", value.__func__)]
    if isinstance(value, functools.partial):
        return [("function", value.func), ("arguments", value.args), ("named", value.keywords)]
    if isinstance(value, types.ModuleType):
        return [
            (name, each) for name, each in _public(value) if not isinstance(each, (type, types.ModuleType))
        ]
    if isinstance(value, type):
        own = [each for each in value.__mro__ if python_objects.is_users(each.__module__)]
        return (
            [pair for kind in own for pair in _public(kind) if not hasattr(pair[1], "__get__")]
            if own
            else None
        )
    members = python_objects.members(value)
    if members is None or not python_objects.is_object(value):
        return None if members is None else members.items()
    return [("", type(value)), *members.items()]


def _public(value: object) -> list[tuple[str, object]]:
    return [pair for pair in vars(value).copy().items() if not pair[0].startswith("__")]


def held_functions(value: object, seen: set[int] | None = None) -> Iterator[types.FunctionType]:
    """The functions of Python that a value is or contains, those of its class among them."""
    if isinstance(value, types.FunctionType):
        yield value
    seen = set() if seen is None else seen
    if is_plain(value) or isinstance(value, types.ModuleType) or id(value) in seen:
        return
    seen.add(id(value))
    for _, each in _inside(value) or ():
        yield from held_functions(each, seen)
    for kind in (value if isinstance(value, type) else type(value)).__mro__:
        for each in vars(kind).values() if python_objects.is_users(kind.__module__) else ():
            function = each.fget if isinstance(each, property) else each
            function = function.__func__ if isinstance(function, _WRAPPERS) else function
            if isinstance(function, types.FunctionType):
                yield function


class _Same:
    """Equal for one object only."""

    def __init__(self, value: object) -> None:
        self._id = id(value)
        try:
            self._of: Callable[[], object] = weakref.ref(value)
        except TypeError:  # such as a number of another library
            self._of = lambda: value

    def __eq__(self, other: object) -> bool:
        value = self._of()
        return isinstance(other, _Same) and value is not None and value is other._of()

    def __hash__(self) -> int:
        return self._id
