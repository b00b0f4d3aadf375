"""Python's objects that code can change in place: lists, dictionaries, sets, objects of classes, and the
variables of functions around. Their members, and what can be reached from them.
"""

import array
import contextlib
import copy
import dataclasses
import enum
import functools
import operator
import os
import sys
import sysconfig
import types
from collections import ChainMap, OrderedDict, UserDict, UserList, deque
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import numpy as np

from weft.language.values.foreign import Foreign

Members = dict[Any, object]
"""The members of an object by their indices, keys or attributes."""
Scope = dict[str, Any]
"""The values of names, as `locals` returns them."""
CONTAINERS = (tuple, list, deque, dict, set)
ARRAYS = (np.ndarray, bytearray, array.array)
"""Types whose elements aren't members."""
_ITERATORS = (types.GeneratorType, zip, map, filter, enumerate)
_HOLDERS = (tuple, dict, types.FunctionType, types.MethodType, functools.partial, *_ITERATORS)
_OBJECTS = (types.SimpleNamespace, ChainMap, UserDict, UserList)
_LANGUAGE = "weft.language"
LIBRARIES = tuple(
    f"{path}{os.sep}"
    for name, path in sysconfig.get_paths().items()
    if name in ("stdlib", "purelib", "platlib")
)
"""The folders of Python's and other libraries."""


@dataclasses.dataclass(frozen=True)
class Attribute:
    """The name of an attribute that a container has beside its elements: one of a class that extends list."""

    name: str


class Found(NamedTuple):
    """An object that can be changed in place, its members as they are now, and a name from which it was
    reached.
    """

    value: object
    members: Members
    name: str

    def is_changed(self) -> bool:
        """Whether it has other members by now."""
        return not is_same_members(self.members, state(self.value))


def members(value: object) -> Members | None:
    """The members of a tuple, list, dictionary, set or object, or of a variable; None of anything else."""
    if _class_of(type(value)).is_plain or isinstance(value, (Foreign, *ARRAYS)):
        return None
    if isinstance(value, CONTAINERS):
        elements: Members = dict(enumerate(value)) if isinstance(value, (tuple, list, deque)) else {}
        elements = dict(value) if isinstance(value, dict) else elements or dict.fromkeys(value)
        return elements | {Attribute(name): each for name, each in getattr(value, "__dict__", {}).items()}
    if isinstance(value, types.CellType):
        try:
            return {"": value.cell_contents}
        except ValueError:  # of a cell that is empty
            return {}
    return _attributes(value) if is_object(value) else None


def is_iterator(value: object) -> bool:
    """Whether a value is an iterator, of which code takes values one after the other."""
    return _class_of(type(value)).is_iterator


def state(value: object) -> Members:
    """The members of a value; of an iterator where it is, and of an array its bytes."""
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return dict(enumerate(value.flat))
    if isinstance(value, ARRAYS):
        return {"": bytes(value) if isinstance(value, bytearray) else value.tobytes()}
    if isinstance(value, types.GeneratorType):
        frame = value.gi_frame
        own = {} if frame is None else {"": frame.f_lasti, **frame.f_locals}
        return {**own, "yield from": value.gi_yieldfrom}
    if is_iterator(value) and hasattr(value, "__length_hint__"):
        return {"": operator.length_hint(value)}
    return members(value) or {}


def is_object(value: object) -> bool:
    """Whether a value is a dataclass, or an object of a class that isn't one of a library."""
    return _class_of(type(value)).is_object


@functools.cache
def is_users(module: str) -> bool:
    """Whether a module is one of the user's own code, not of a library."""
    root = module.partition(".")[0]
    if root in ("weft", "builtins") or (root in sys.stdlib_module_names and root != "__main__"):
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is None or not file.startswith(LIBRARIES)


def is_mutable(value: object) -> bool:
    """Whether code can change a value in place."""
    return _class_of(type(value)).is_mutable


class _Class(NamedTuple):
    """Properties of all values of a class. `is_plain` ones have no members and don't change."""

    is_iterator: bool
    is_object: bool
    is_mutable: bool
    is_plain: bool


def _looked_at(kind: type) -> _Class:
    foreign = issubclass(kind, Foreign)
    is_object = dataclasses.is_dataclass(kind) or issubclass(kind, _OBJECTS) or is_users(kind.__module__)
    if foreign or issubclass(kind, (type, *CONTAINERS, enum.Enum)) or kind.__module__.startswith(_LANGUAGE):
        is_object = False
    iterates = issubclass(kind, _ITERATORS) or hasattr(kind, "__length_hint__")
    iterates |= hasattr(kind, "__next__") and not is_object
    changes = issubclass(kind, (list, dict, set, deque, types.CellType, *ARRAYS)) or iterates
    parameters = getattr(kind, "__dataclass_params__", None)
    frozen = parameters is not None and bool(parameters.frozen)
    mutable = not foreign if changes else is_object and not frozen
    return _Class(iterates, is_object, mutable, not (mutable or is_object or issubclass(kind, _HOLDERS)))


# A kernel has thousands of values.
_class_of: Callable[[type], _Class] = functools.lru_cache(maxsize=512)(_looked_at)


def _attributes(value: object) -> Members:
    attributes = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        for name, descriptor in vars(kind).items():
            if isinstance(descriptor, types.MemberDescriptorType) and not name.startswith("__"):
                with contextlib.suppress(AttributeError):  # of a slot that is empty
                    attributes[name] = descriptor.__get__(value)
    return attributes


def fill(value: object, new: Members) -> None:
    """Gives an object these members in place of its own."""
    if isinstance(value, CONTAINERS):
        _set_elements(value, new)
    elif isinstance(value, types.CellType):
        if new:
            value.cell_contents = new[""]
        else:
            del value.cell_contents
    else:
        _set_attributes(value, new)


def _set_elements(value: object, new: Members) -> None:
    elements = {key: each for key, each in new.items() if not isinstance(key, Attribute)}
    if isinstance(value, list):
        value[:] = elements.values()
    elif isinstance(value, deque):
        value.clear()
        value.extend(elements.values())
    elif isinstance(value, dict):
        # Not by methods of the user's class; an OrderedDict has its order apart from the elements.
        kind = OrderedDict if isinstance(value, OrderedDict) else dict
        kind.clear(value)
        kind.update(value, elements)
    elif isinstance(value, set):
        value.clear()
        value.update(elements)
    if hasattr(value, "__dict__"):
        value.__dict__.clear()
        value.__dict__.update({key.name: each for key, each in new.items() if isinstance(key, Attribute)})


def _set_attributes(value: object, new: Members) -> None:
    own = getattr(value, "__dict__", {})
    for name in [name for name in _attributes(value) if name not in new]:
        if name in own:
            del own[name]
        else:
            object.__delattr__(value, name)
    for name, member in new.items():
        if name in own or not isinstance(getattr(type(value), name, None), types.MemberDescriptorType):
            own[name] = member
        else:
            object.__setattr__(value, name, member)


def with_members(value: object, new: Members) -> object:
    """A tuple as `value`, or an object with the attributes of a frozen one, with these members."""
    if isinstance(value, tuple):
        kind, elements = type(value), [each for key, each in new.items() if not isinstance(key, Attribute)]
        try:  # not by the class, which may take other arguments than the elements
            other = tuple.__new__(kind, elements)
        except TypeError:  # of a class of C
            other = kind(elements)
    else:
        other = twin(value)
    fill(other, new)
    return other


def twin(value: object) -> Any:
    """A copy of an object, with the same members."""
    if isinstance(value, (list, dict, set, deque)):
        return copy.copy(value)
    try:
        other = object.__new__(type(value))
    except TypeError:  # of a class that extends one of C
        return copy.copy(value)
    fill(other, _attributes(value))
    return other


def reached(roots: Members, variables: Collection[str] = (), *, functions: bool = True) -> dict[int, Found]:
    """The objects that can be changed in place and are reached from values, by their ids, outer ones first.
    Not through variables of functions with these names, and only with `functions` through functions at all.
    """
    objects, seen = dict[int, Found](), dict[int, object]()
    rest = [(str(name), value) for name, value in reversed(roots.items())]
    while rest:
        name, value = rest.pop()
        if _class_of(type(value)).is_plain or id(value) in seen:
            continue
        if isinstance(value, types.CellType) and name in variables:
            continue
        inside = list(_inside(name, value, functions))
        if not inside and not is_mutable(value):
            continue
        seen[id(value)] = value
        if is_mutable(value):
            objects[id(value)] = Found(value, state(value), name)
        rest += reversed(inside)
    return objects


def _inside(name: str, value: object, functions: bool) -> Iterator[tuple[str, object]]:
    """The members of a value, and what a function or method has, with names for them."""
    if isinstance(value, types.FunctionType):
        module = value.__module__ or ""
        if functions and (is_users(module) or module.startswith("weft.")):
            yield from zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
            yield from ((name, each) for each in value.__defaults__ or ())
            yield from (value.__kwdefaults__ or {}).items()
    elif isinstance(value, types.MethodType):
        yield from ((name, each) for each in (value.__self__, value.__func__))
    elif isinstance(value, functools.partial):
        yield from ((name, each) for each in (value.func, *value.args, *value.keywords.values()))
    elif isinstance(value, _ITERATORS):
        parts = state(value).values() if isinstance(value, types.GeneratorType) else value.__reduce__()[1]
        yield from ((name, each) for each in parts)
    else:
        yield from ((name, each) for each in (members(value) or {}).values())


def of_classes(objects: dict[int, Found]) -> Members:
    """The lists, dictionaries and sets that the classes of objects have, by their names."""
    kinds = {kind for each in objects.values() for kind in type(each.value).__mro__}
    return {
        f"{kind.__name__}.{name}": value
        for kind in kinds
        for name, value in vars(kind).items()
        if isinstance(value, (list, dict, set, deque)) and not name.startswith("__")
    }


def is_same_members(one: Members, other: Members) -> bool:
    """Whether members have the same values, in the same order."""
    return [*one] == [*other] and all(is_same(value, other[key]) for key, value in one.items())


def is_same(one: object, other: object) -> bool:
    """Whether two values are one object, or equal numbers or texts of one type."""
    if one is other:
        return True
    if isinstance(one, bytes) and isinstance(other, bytes):
        return one == other
    plain = isinstance(one, (bool, int, float, str))
    return plain and type(one) is type(other) and repr(one) == repr(other)
