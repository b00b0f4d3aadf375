"""What is computed once and kept: properties, and caches of bounded size."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

_T = TypeVar("_T")
_MOST_KEPT = 1 << 15


def make_room(cache: dict[Any, Any]) -> None:
    """Empties a cache that is full. A process that reads many texts would otherwise keep words of all."""
    if len(cache) >= _MOST_KEPT:
        cache.clear()


class computed(Generic[_T]):
    """A property that is computed when it is first read, and then kept in the instance.

    Threads that read it first at the same time each compute it. `functools.cached_property` of Python 3.11
    has a lock for all instances instead: a forked child finds it locked if another thread was computing.
    """

    def __init__(self, function: Callable[[Any], _T]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> "computed[_T]": ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> _T: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> "computed[_T] | _T":
        if instance is None:
            return self
        # The instance's own attribute of that name goes before this one, which has no `__set__`.
        kept: _T = instance.__dict__.setdefault(self._name, self._function(instance))
        return kept
