"""Checks changes in place by loops and branches of the GPU, and by some of the threads.

A kernel's own lists, dictionaries and objects may change as Python has it, since what holds them afterwards
is known. What isn't made in the kernel would change while the kernel is traced, once for all threads and
for all later traces, so a loop or branch of the GPU can't change it.
"""

import types
from collections import deque
from collections.abc import Iterable
from typing import TypeVar

from weft.errors import Diagnostic, WeftError
from weft.ir import callers
from weft.language.capture import python_objects, trace, tracing_state
from weft.language.capture.carried import Unbound
from weft.language.capture.python_objects import Found, Scope
from weft.language.messages.mistakes import mistake, unseen
from weft.language.values.foreign import Foreign

_T = TypeVar("_T")
_OUTSIDE = (
    "a loop or branch of the GPU can't change {}, which isn't made in the kernel: it would change while the "
    "kernel is traced, once for all threads. Make it in the kernel, or let a function return what it makes"
)
UNSEEN = (
    "a function changes '{0}' in a loop of the GPU, and the next iteration lacks the change: let it return "
    "what it makes, and assign that to '{0}' or a part of it"
)
_ITERATOR = (
    "a loop or branch of the GPU can't take values from '{}', an iterator of Python: all threads would get "
    "the next ones. Take them before"
)
_MAY_BE_ONE = (
    "'{}' may have the same object as another name, as {} of the GPU decides, so it can't be changed in "
    "place: assign a copy before"
)
_ARRAY = (
    "a loop or branch of the GPU can't change Python's {}: all threads would get the change. Use w.shared, "
    "or a list of values of the GPU"
)


class Region:
    """The objects around the body of a loop or branch of the GPU, as they are at its beginning."""

    def __init__(self, scope: Scope, assigned: Iterable[str] = ()) -> None:
        """`assigned` are names that the loop or branch itself gives their values."""
        self._assigned = frozenset(assigned)
        self._around = trace.current().around
        self._values = self._around.values() if self._around else {}
        self.outside = python_objects.reached(self._values)
        self.inside = python_objects.reached(scope)
        self.outside |= python_objects.reached(python_objects.of_classes(self.outside | self.inside))
        for each in self.outside:
            self.inside.pop(each, None)
        self.fixed = dict[int, tuple[object, str]]()
        """Objects that the body can't change, and why."""

    def changes(self) -> dict[int, python_objects.Members]:
        """The members that objects have now, of those that have changed. Raises WeftError for one that isn't
        made in the kernel.
        """
        check_fixed()
        for each in self.outside.values():
            if each.is_changed():
                raise unseen(_OUTSIDE.format(f"'{each.name}'"))
        now = self._around.values() if self._around else {}
        for name, value in self._values.items():
            if not python_objects.is_same(now[name], value):
                raise unseen(_OUTSIDE.format(f"'{name}'"))
        changed = {
            key: each for key, each in self.inside.items() if each.is_changed() and not self._is_own(each)
        }
        for each in changed.values():
            if python_objects.is_iterator(each.value):
                raise unseen(_ITERATOR.format(each.name))
            if isinstance(each.value, python_objects.ARRAYS):
                raise unseen(_ARRAY.format(f"{type(each.value).__name__} '{each.name}'"))
        return {key: python_objects.members(each.value) or {} for key, each in changed.items()}

    def _is_own(self, reached: Found) -> bool:
        """Whether it is a variable that the loop or branch gives its value by its name."""
        return isinstance(reached.value, types.CellType) and reached.name in self._assigned

    def restore(self) -> None:
        """Gives all objects the members that they had at the beginning."""
        for each in self.inside.values():
            if each.is_changed() and not self._is_own(each):
                fill(each.value, each.members)

    def fix(self, value: object, reached: Found, why: str = _OUTSIDE) -> None:
        """Refuses changes of an object in the body, which stands for another one."""
        name = f"'{reached.name}'" if why is _OUTSIDE else reached.name
        self.fixed[id(value)] = value, why.format(name)

    def complaint(self, value: object) -> str | None:
        """Says why the body can't change an object; None if it can."""
        if (reached := self.outside.get(id(value))) is not None:
            return _OUTSIDE.format(f"'{reached.name}'")
        return self.fixed[id(value)][1] if id(value) in self.fixed else None


def fix(value: object, why: str) -> None:
    """Refuses changes of an object from now on."""
    where = callers.here()
    trace.current().fixed[id(value)] = value, why, python_objects.members(value) or {}, where


def fix_shared(value: object, name: str, decides: str) -> None:
    """Refuses changes of an object from now on that may be one with another name's, as `decides` decides."""
    if python_objects.is_mutable(value):
        fix(value, _MAY_BE_ONE.format(name, decides))


def fill(value: object, new: python_objects.Members) -> None:
    """Gives an object members, also one that can't change otherwise."""
    python_objects.fill(value, new)
    if (fixed := trace.current().fixed.get(id(value))) is not None:
        fix(value, fixed[1])


def check_fixed(*, at_end: bool = False) -> None:
    """Raises WeftError if a function that isn't traced has changed an object that can't change: at the line
    that is traced now, or `at_end` at the end of the loop or branch that fixed it.
    """
    for value, why, members, where in trace.current().fixed.values():
        if not python_objects.is_same_members(members, python_objects.members(value) or {}):
            raise WeftError(Diagnostic(why, where if at_end else callers.here()))


def changing(value: _T) -> _T:
    """An object of which code is about to change members. Raises WeftError if it can't."""
    if isinstance(value, Foreign) or not tracing_state.is_tracing():
        return value
    current = trace.current()
    check_fixed()
    if id(value) in current.fixed:
        raise mistake(current.fixed[id(value)][1])
    if not current.regions:
        return value
    if isinstance(value, (type, types.ModuleType, types.FunctionType)):
        raise mistake(_OUTSIDE.format(f"an attribute of '{value.__name__}'"))
    is_known = isinstance(value, (bool, int, float, str)) or python_objects.is_mutable(value)
    is_known |= isinstance(value, tuple) and not hasattr(value, "__dict__")
    if (
        not is_known
        and not python_objects.is_object(value)
        and not type(value).__module__.startswith("weft.")
    ):
        raise mistake(_ARRAY.format(type(value).__name__))
    for region in reversed(current.regions):
        if isinstance(value, python_objects.ARRAYS) and (
            id(value) in region.inside or id(value) in region.outside
        ):
            raise mistake(_ARRAY.format(type(value).__name__))
        if (wrong := region.complaint(value)) is not None:
            raise mistake(wrong)
    return value


def taking(value: _T) -> _T:
    """The argument of `next`, or the value that a loop iterates over. Raises WeftError for an iterator from
    before a loop or branch of the GPU.
    """
    if python_objects.is_iterator(value) and tracing_state.is_tracing():
        for region in trace.current().regions:
            if (iterator := (region.inside | region.outside).get(id(value))) is not None:
                raise mistake(_ITERATOR.format(iterator.name))
    return value


def calling(value: _T) -> _T:
    """The object of which a method is called with a name of those that change lists, dictionaries or sets, or
    which is added to. Raises WeftError for one of these that can't change.
    """
    return changing(value) if isinstance(value, (list, dict, set, deque, *python_objects.ARRAYS)) else value


_NOT_EXECUTED = (
    "changes in a role or in w.one_thread, which other threads don't execute: use a name or an object of its "
    "own there, or begin with a value again"
)
_PLAIN = (bool, int, float, str)


class ThreadBlock:
    """A `with` block; `traced` if it is one for some of the threads."""

    traced = False

    def __init__(self, names: tuple[str, ...], scope: Scope) -> None:
        self._names = names
        if tracing_state.is_tracing():
            self._before = {name: scope[name] for name in names if name in scope}
            self._region = Region(scope, names)
            self._threads = self._now()

    def enter(self) -> None:
        """Begins the block."""
        self.traced = tracing_state.is_tracing() and self._now() != self._threads

    def after(self, scope: Scope) -> tuple[object, ...]:
        """The names' values after the block. What has another number of Python than before has no value."""
        for reached in self._region.inside.values():
            if reached.is_changed():
                now = python_objects.members(reached.value) or {}
                fill(
                    reached.value,
                    {k: self._other(reached.name, reached.members.get(k), each) for k, each in now.items()},
                )
        values = {name: scope.get(name, Unbound(name, "has no value here")) for name in self._names}
        return tuple(self._other(name, self._before.get(name), each) for name, each in values.items())

    def _other(self, name: str, before: object, now: object) -> object:
        are_plain = isinstance(before, _PLAIN) and isinstance(now, _PLAIN)
        return Unbound(name, _NOT_EXECUTED) if are_plain and not python_objects.is_same(before, now) else now

    def _now(self) -> tuple[int, bool]:
        """The role and the threads of it that are traced now."""
        current = trace.current()
        return id(current.role), current.one_thread
