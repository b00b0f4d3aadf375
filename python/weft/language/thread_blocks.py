"""Blocks that only some threads execute: roles, and those of `w.one_thread`. What they assign to names and
objects as numbers of Python, other threads don't have.
"""

from typing import Any

from weft.language import objects, trace, traced_now
from weft.language.carried import Unbound
from weft.language.regions import Region, fill

_NOT_EXECUTED = (
    "changes in a role or in w.one_thread, which other threads don't execute: use a name or an object of its "
    "own there, or begin with a value again"
)
_PLAIN = (bool, int, float, str)


class ThreadBlock:
    """A `with` block; `traced` if it is one for some of the threads."""

    traced = False

    def __init__(self, names: tuple[str, ...], scope: dict[str, Any]) -> None:
        self._names = names
        if traced_now.is_tracing():
            self._before = {name: scope[name] for name in names if name in scope}
            self._region = Region(scope, names)
            self._threads = self._now()

    def enter(self) -> None:
        """Begins the block."""
        self.traced = traced_now.is_tracing() and self._now() != self._threads

    def after(self, scope: dict[str, Any]) -> tuple[Any, ...]:
        """The names' values after the block. What has another number of Python than before has no value."""
        for found in self._region.inside.values():
            if found.is_changed():
                fill(found.value, self._others(found.name, found.members, objects.members(found.value) or {}))
        values = {name: scope.get(name, Unbound(name, "has no value here")) for name in self._names}
        return tuple(self._other(name, self._before.get(name), each) for name, each in values.items())

    def _others(self, name: str, before: objects.Members, now: objects.Members) -> objects.Members:
        return {key: self._other(name, before.get(key), each) for key, each in now.items()}

    def _other(self, name: str, before: Any, now: Any) -> Any:
        are_plain = isinstance(before, _PLAIN) and isinstance(now, _PLAIN)
        return Unbound(name, _NOT_EXECUTED) if are_plain and not objects.is_same(before, now) else now

    def _now(self) -> tuple[int, bool]:
        """The role and the threads of it that are traced now."""
        current = trace.current()
        return id(current.role), current.one_thread
