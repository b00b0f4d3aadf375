"""What a loop or branch carries: the SSA values of a kernel's variables, and what can't be carried."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from weft.language.foreign import Foreign
from weft.language.mistakes import mistake


class Carried(Foreign):
    """A value of a kernel that loops and branches can carry."""

    until_carried = ""
    """What must be done before it can take the place of a value of another kind."""

    def parts(self) -> list[Any]:
        """Its SSA values."""
        raise NotImplementedError

    def like(self, parts: Iterator[Any]) -> Any:
        """The same kind of value with the next SSA values in place of its own."""
        raise NotImplementedError

    def complaint(self, other: Any) -> str | None:
        """Why another value can't replace this one in a loop or branch."""
        raise NotImplementedError

    def begun(self, number: str) -> str:
        """What to write for a value of this kind that begins with a number; empty where that isn't clear."""
        return ""

    def number(self) -> str:
        """The number that it is, as the kernel writes it, where that is known, otherwise three dots."""
        return "…"

    def settled(self) -> "Carried":
        """The value as loops and branches carry it."""
        return self

    def hand_over(self) -> None:
        """Called where the next iteration of a loop gets the value."""


class Unbound:
    """The value of a name that has none here. Whatever is done with it raises an error."""

    def __init__(self, name: str, why: str) -> None:
        object.__setattr__(self, "_complaint", f"'{name}' {why}")

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise mistake(object.__getattribute__(self, "_complaint"))

    __getattr__ = __call__ = __getitem__ = __iter__ = __bool__ = __len__ = __index__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __floordiv__ = __mod__ = __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __enter__ = __exit__ = _refuse
    __eq__ = __ne__ = __pow__ = __and__ = __or__ = __xor__ = __float__ = __str__ = __format__ = _refuse
    __hash__ = object.__hash__
    __array_ufunc__ = None


def parts(value: Any) -> list[Any]:
    """The SSA values of a value; none of a Python object."""
    if isinstance(value, Carried):
        return value.parts()
    return [part for member in _members(value) or () for part in parts(member)]


def rebuilt(value: Any, new: Iterator[Any], twins: "Twins | None" = None) -> Any:
    """The value with the next SSA values in place of its own. `twins` get what is made of objects that a
    kernel can change in place. An object that several others have is made once.
    """
    if isinstance(value, Carried):
        return value.like(new)
    members = _members(value)
    if members is None:
        return value
    made = _with_members(value, [rebuilt(each, new, twins) for each in members])
    return made if twins is None or not _is_mutable(value) else twins.setdefault(id(value), made)


def copied(value: Any, twins: "Twins | None" = None) -> Any:
    """The value, or a copy of a list, dictionary or dataclass with copies of its members. `twins` as for
    `rebuilt`.
    """
    members = None if isinstance(value, Carried) else _members(value)
    if members is None:
        return value
    made = _with_members(value, [copied(each, twins) for each in members])
    return made if twins is None or not _is_mutable(value) else twins.setdefault(id(value), made)


Twins = dict[int, Any]
"""What stands for a list, dictionary or dataclass in the body of a loop or branch, by the object's id."""


class Node(NamedTuple):
    """A value before a loop or branch, and its members, if it is a tuple, list, dictionary or dataclass."""

    value: Any
    members: tuple["Node", ...]

    def put_back(self, value: Any, ends: Sequence[tuple[Any, Twins]]) -> Any:
        """The value after it, in the objects from before it that all bodies changed in place, since other
        names may have them, too. `ends` are the values at the ends of bodies.
        """
        after = None if isinstance(value, Carried) else _members(value)
        if after is None or len(after) != len(self.members):
            return value
        members = [
            each.put_back(one, part) for (each, part), one in zip(self.parts(ends), after, strict=True)
        ]
        if not self.stays(ends):
            return _with_members(value, members)
        original = self.value
        if isinstance(original, list):
            original[:] = members
        elif isinstance(original, dict):
            original.update(zip(original, members, strict=True))
        else:
            for field, member in zip(dataclasses.fields(original), members, strict=True):
                setattr(original, field.name, member)
        return original

    def stays(self, ends: Sequence[tuple[Any, Twins]]) -> bool:
        """Whether bodies end with the object that they got, which they may have changed in place."""
        if not _is_mutable(self.value):
            return False
        return all(twins.get(id(self.value), self.value) is end for end, twins in ends)

    def parts(self, ends: Sequence[tuple[Any, Twins]]) -> list[tuple["Node", list[tuple[Any, Twins]]]]:
        """Each member, with its values at the ends of bodies."""
        columns = [(_members(end) or (), twins) for end, twins in ends]
        return [
            (each, [(members[number], twins) for members, twins in columns if number < len(members)])
            for number, each in enumerate(self.members)
        ]

    def is_changed(self) -> bool:
        """Whether another value of the GPU is now in place of one of its own."""
        now = None if isinstance(self.value, Carried) else _members(self.value)
        if now is None or len(now) != len(self.members):
            return False
        return any(
            each.is_changed()
            if one is each.value
            else isinstance(one, Carried) and isinstance(each.value, Carried)
            for one, each in zip(now, self.members, strict=True)
        )

    def objects(self, ends: Sequence[tuple[Any, Twins]]) -> Iterator[tuple[int, bool]]:
        """The id of each object that can be changed in place, and whether it stays."""
        if _is_mutable(self.value):
            yield id(self.value), self.stays(ends)
        for each, part in self.parts(ends):
            yield from each.objects(part)


def node(value: Any) -> Node:
    """A value with its members as they are now."""
    members = None if isinstance(value, Carried) else _members(value)
    return Node(value, tuple(map(node, members or ())))


def others(scope: dict[str, Any], names: Sequence[str]) -> dict[str, Node]:
    """The lists, dictionaries and objects of users that other names of a scope have."""
    return {
        name: node(value)
        for name, value in scope.items()
        if name not in names and _is_mutable(value) and not type(value).__module__.startswith("weft.")
    }


def _is_mutable(value: Any) -> bool:
    if isinstance(value, Carried):
        return False
    is_object = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return isinstance(value, (list, dict)) or (is_object and not _is_frozen(value))


def _is_frozen(value: Any) -> bool:
    return bool(type(value).__dataclass_params__.frozen)


def hand_over(value: Any) -> None:
    """Marks the stages in a value as passed on to the next iteration, which must release them."""
    if isinstance(value, Carried):
        value.hand_over()
        return
    for member in _members(value) or ():
        hand_over(member)


def complaint(before: Any, after: Any) -> str | None:
    """Why `after` can't take the place of `before` at the end of a loop or branch, as the end of a sentence
    that begins with the name.
    """
    if before is after:
        return None
    if isinstance(before, Carried):
        one = before.settled()
        other = after.settled() if isinstance(after, Carried) else after
        if type(other) is not type(one):
            return f"was {described(one)} and becomes {described(other)}{_remedy(one, other)}"
        return one.complaint(other)
    members = _members(before)
    if members is None:
        return _object_complaint(before, after)
    others = _members(after)
    if others is None or type(before) is not type(after):
        return f"was {described(before)} and becomes {described(after)}"
    if len(members) != len(others):
        kind = type(before).__name__
        return (
            f"was a {kind} of {len(members)} and becomes one of {len(others)}: only range of Python, which "
            f"unrolls, can change the length of a {kind}"
        )
    return next((wrong for pair in zip(members, others, strict=True) if (wrong := complaint(*pair))), None)


def _remedy(one: Carried, other: Any) -> str:
    """What to write in place of a value of another kind, if that is clear."""
    if isinstance(other, Carried):
        begun = "" if hasattr(one, "shape") else other.begun(one.number())
        return other.until_carried or (f": begin with {begun}" if begun else "")
    shape, dtype = getattr(one, "shape", None), getattr(one, "dtype", None)
    if not isinstance(other, (bool, int, float)) or dtype is None:
        return ""
    number = written(other)
    return f": write {dtype}({number})" if shape is None else f": write w.full({shape}, {number}, {dtype})"


def written(number: float) -> str:
    """A number as a kernel writes it."""
    return repr(number).replace("inf", "w.inf") if abs(number) == math.inf else repr(number)


def described(value: Any) -> str:
    """A value in words."""
    if isinstance(value, Unbound):
        return "nothing"
    if isinstance(value, Carried):
        return str(value)
    return f"the Python {type(value).__name__} {value!r:.40}"


def _object_complaint(before: Any, after: Any) -> str | None:
    """Why a Python object can't be replaced: the GPU doesn't have it."""
    plain = isinstance(before, (bool, int, float, str, type(None)))
    if plain and type(before) is type(after) and before == after:
        return None
    after = after.settled() if isinstance(after, Carried) else after
    change = f"was {described(before)} and becomes {described(after)}"
    if isinstance(before, (bool, int, float)):
        if isinstance(after, Carried) and (begun := after.begun(written(before))):
            return f"{change}: begin with {begun}"
        kind = "w.i1" if isinstance(before, bool) else "w.i32" if isinstance(before, int) else "w.f32"
        is_number = isinstance(after, Carried) and not hasattr(after, "shape")
        kind = str(getattr(after, "dtype", kind)) if is_number else kind
        if isinstance(before, float) and kind.startswith("w.i"):
            return f"{change}: convert this one with .to(w.f32), or write it as a float"
        return f"{change}: begin with {kind}({written(before)}), a value of the GPU"
    return f"{change}: a loop or branch of the GPU can't change a Python object"


def _members(value: Any) -> Sequence[Any] | None:
    """The members of a tuple, list, dictionary or dataclass; None of anything else."""
    if isinstance(value, (tuple, list)):
        return value
    if isinstance(value, dict):
        return list(value.values())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    return None


def _with_members(value: Any, members: list[Any]) -> Any:
    if isinstance(value, dict):
        return dict(zip(value, members, strict=True))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*members)
    if isinstance(value, (tuple, list)):
        return type(value)(members)
    names = [field.name for field in dataclasses.fields(value)]
    return dataclasses.replace(value, **dict(zip(names, members, strict=True)))
