"""What the code of a loop or branch of the GPU may change in place, and what it may not.

A kernel's own lists, dictionaries and objects may change as Python has it, since what holds them afterwards
is known. What isn't made in the kernel would change while the kernel is traced, once for all threads and
for all later traces, so a loop or branch of the GPU can't change it.
"""

import types
from collections import deque
from collections.abc import Iterable
from typing import Any, TypeVar

from weft.errors import Diagnostic, WeftError
from weft.ir import callers
from weft.language import objects, trace, traced_now
from weft.language.foreign import Foreign
from weft.language.mistakes import mistake, unseen
from weft.language.objects import Found

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

    def __init__(self, scope: dict[str, Any], assigned: Iterable[str] = ()) -> None:
        """`assigned` are names that the loop or branch itself gives their values."""
        self._assigned = frozenset(assigned)
        self._around = trace.current().around
        self._values = self._around.values() if self._around else {}
        self.outside = objects.reached(self._values)
        self.inside = objects.reached(scope)
        self.outside |= objects.reached(objects.of_classes(self.outside | self.inside))
        for each in self.outside:
            self.inside.pop(each, None)
        self.fixed = dict[int, tuple[Any, str]]()
        """Objects that the body can't change, and why."""

    def changes(self) -> dict[int, objects.Members]:
        """The members that objects have now, of those that have changed. Raises WeftError for one that isn't
        made in the kernel.
        """
        check_fixed()
        for each in self.outside.values():
            if each.is_changed():
                raise unseen(_OUTSIDE.format(f"'{each.name}'"))
        now = self._around.values() if self._around else {}
        for name, value in self._values.items():
            if not objects.is_same(now[name], value):
                raise unseen(_OUTSIDE.format(f"'{name}'"))
        found = {
            key: each for key, each in self.inside.items() if each.is_changed() and not self._is_own(each)
        }
        for each in found.values():
            if objects.is_iterator(each.value):
                raise unseen(_ITERATOR.format(each.name))
            if isinstance(each.value, objects.ARRAYS):
                raise unseen(_ARRAY.format(f"{type(each.value).__name__} '{each.name}'"))
        return {key: objects.members(each.value) or {} for key, each in found.items()}

    def _is_own(self, found: Found) -> bool:
        """Whether it is a variable that the loop or branch gives its value by its name."""
        return isinstance(found.value, types.CellType) and found.name in self._assigned

    def restore(self) -> None:
        """Gives all objects the members that they had at the beginning."""
        for each in self.inside.values():
            if each.is_changed() and not self._is_own(each):
                fill(each.value, each.members)

    def fix(self, value: Any, found: Found, why: str = _OUTSIDE) -> None:
        """Refuses changes of an object in the body, which stands for another one."""
        name = f"'{found.name}'" if why is _OUTSIDE else found.name
        self.fixed[id(value)] = value, why.format(name)

    def complaint(self, value: Any) -> str | None:
        """Why the body can't change an object."""
        if (found := self.outside.get(id(value))) is not None:
            return _OUTSIDE.format(f"'{found.name}'")
        return self.fixed[id(value)][1] if id(value) in self.fixed else None


def fix(value: Any, why: str) -> None:
    """Refuses changes of an object from now on."""
    where = callers.here()
    trace.current().fixed[id(value)] = value, why, objects.members(value) or {}, where


def fix_shared(value: Any, name: str, decides: str) -> None:
    """Refuses changes of an object from now on that may be one with another name's, as `decides` decides."""
    if objects.is_mutable(value):
        fix(value, _MAY_BE_ONE.format(name, decides))


def fill(value: Any, new: objects.Members) -> None:
    """Gives an object members, also one that can't change otherwise."""
    objects.fill(value, new)
    if (known := trace.current().fixed.get(id(value))) is not None:
        fix(value, known[1])


def check_fixed(*, at_end: bool = False) -> None:
    """Raises WeftError if a function that isn't traced has changed an object that can't change: at the line
    that is traced now, or `at_end` at the end of the loop or branch that fixed it.
    """
    for value, why, members, where in trace.current().fixed.values():
        if not objects.is_same_members(members, objects.members(value) or {}):
            raise WeftError(Diagnostic(why, where if at_end else callers.here()))


def changing(value: _T) -> _T:
    """An object of which code is about to change members. Raises WeftError if it can't."""
    if isinstance(value, Foreign) or not traced_now.is_tracing():
        return value
    current = trace.current()
    check_fixed()
    if id(value) in current.fixed:
        raise mistake(current.fixed[id(value)][1])
    if not current.regions:
        return value
    if isinstance(value, (type, types.ModuleType, types.FunctionType)):
        raise mistake(_OUTSIDE.format(f"an attribute of '{value.__name__}'"))
    is_known = isinstance(value, (bool, int, float, str)) or objects.is_mutable(value)
    is_known |= isinstance(value, tuple) and not hasattr(value, "__dict__")
    if not is_known and not objects.is_object(value) and not type(value).__module__.startswith("weft."):
        raise mistake(_ARRAY.format(type(value).__name__))
    for region in reversed(current.regions):
        if isinstance(value, objects.ARRAYS) and (id(value) in region.inside or id(value) in region.outside):
            raise mistake(_ARRAY.format(type(value).__name__))
        if (wrong := region.complaint(value)) is not None:
            raise mistake(wrong)
    return value


def taking(value: _T) -> _T:
    """The argument of `next`, or the value that a loop iterates over. Raises WeftError for an iterator from
    before a loop or branch of the GPU.
    """
    if objects.is_iterator(value) and traced_now.is_tracing():
        for region in trace.current().regions:
            if (found := (region.inside | region.outside).get(id(value))) is not None:
                raise mistake(_ITERATOR.format(found.name))
    return value


def calling(value: _T) -> _T:
    """What has a method that is about to be called, whose name is that of one of lists, dictionaries and sets
    that changes them, or what is added to. Raises WeftError for one of these that can't change.
    """
    return changing(value) if isinstance(value, (list, dict, set, deque, *objects.ARRAYS)) else value
