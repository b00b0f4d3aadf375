"""Values that loops and branches carry: the SSA values of a kernel's variables, and what can't be carried."""

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

from weft.language.capture import python_objects
from weft.language.messages.mistakes import mistake
from weft.language.values.dtypes import NUMBERS
from weft.language.values.foreign import Foreign

if TYPE_CHECKING:
    from weft.mlir import ir

RESULT = "_weft_result"
"""The name that has a function's result."""


class Carried(Foreign):
    """A value of a kernel that loops and branches can carry."""

    until_carried = ""
    """The end of a message: what must be done before it can replace a value of another kind."""

    def parts(self) -> "list[ir.Value]":
        """Its SSA values."""
        raise NotImplementedError

    def like(self, parts: "Iterator[ir.Value]") -> object:
        """The same kind of value with the next SSA values in place of its own."""
        raise NotImplementedError

    def complaint(self, other: Self) -> str | None:
        """Says why another value can't replace this one in a loop or branch; None if it can."""
        raise NotImplementedError

    def begun(self, number: str) -> str:
        """The code for a value of this kind that begins with a number; empty where that isn't clear."""
        return ""

    def number(self) -> str:
        """The number that it is, as the kernel writes it, where that is known, otherwise three dots."""
        return "…"

    def settled(self) -> "Carried":
        """The value as loops and branches carry it."""
        return self

    def of_zeros(self) -> object:
        """The same kind of value with zeros; for another one than a number or tile, nothing."""
        return Unbound(RESULT, "must be numbers or tiles of the GPU")

    def hand_over(self) -> None:
        """Called where the next iteration of a loop gets the value."""


class Fixed:
    """A value that loops and branches of the GPU can't choose, since Python must know it where it is used."""

    name: str

    def __str__(self) -> str:
        return f"{type(self).__name__.lower()} '{self.name}'"


class Unbound:
    """The value of a name that has none here. Whatever is done with it raises an error."""

    def __init__(self, name: str, why: str) -> None:
        object.__setattr__(self, "_complaint", f"'{name}' {why}")

    def _refuse(self, *_: object, **__: object) -> object:
        raise mistake(object.__getattribute__(self, "_complaint"))

    __hash__ = object.__hash__
    __array_ufunc__ = None


_BINARY = ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow")
_BITWISE = ("lshift", "rshift", "and", "or", "xor")
_UNARY = ("neg", "pos", "abs", "invert", "round", "bool", "index", "int", "float", "complex", "str", "format")
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_OF_CONTAINERS = ("getitem", "setitem", "delitem", "iter", "contains", "len")
_OF_OBJECTS = ("getattr", "setattr", "delattr", "call", "enter", "exit")
_REFLECTED = tuple(f"r{each}" for each in _BINARY + _BITWISE)
for _each in _BINARY + _BITWISE + _REFLECTED + _UNARY + _COMPARISONS + _OF_CONTAINERS + _OF_OBJECTS:
    setattr(Unbound, f"__{_each}__", Unbound._refuse)


def leaves(value: object, seen: set[int] | None = None) -> Iterator[Carried]:
    """The values of the GPU in a value, not those in objects whose ids were `seen` before."""
    if isinstance(value, Carried):
        yield value
        return
    seen = set() if seen is None else seen
    if (members := python_objects.members(value)) is None or id(value) in seen:
        return
    if python_objects.is_mutable(value):
        seen.add(id(value))
    for member in members.values():
        yield from leaves(member, seen)


def parts(value: object, seen: set[int] | None = None) -> "list[ir.Value]":
    """The SSA values of a value; none of a Python object, or of one whose id was `seen` before."""
    return [part for each in leaves(value, seen) for part in each.parts()]


def mapped(
    value: object,
    function: Callable[[Carried], object],
    made: dict[int, object] | None = None,
    copy: Callable[[object], object] = python_objects.twin,
    fill: Callable[[object, python_objects.Members], None] = python_objects.fill,
) -> object:
    """The value with what a function makes of each value of the GPU in it. `made` has what stands for objects
    that can be changed in place, by their ids, and gets what `copy` makes of others.
    """
    if isinstance(value, Carried):
        return function(value)
    made = {} if made is None else made
    if id(value) in made:
        return made[id(value)]
    if (members := python_objects.members(value)) is None:
        return value
    if not python_objects.is_mutable(value):
        new = {key: mapped(each, function, made, copy, fill) for key, each in members.items()}
        return python_objects.with_members(value, new)
    other = made[id(value)] = copy(value)
    fill(other, {key: mapped(each, function, made, copy, fill) for key, each in members.items()})
    return other


def rebuilt(value: object, new: "Iterator[ir.Value]", made: dict[int, object] | None = None) -> Any:
    """The value with the next SSA values in place of its own. `made` as for `mapped`."""
    return mapped(value, lambda each: each.like(new), made)


def hand_over(value: object) -> None:
    """Marks the stages in a value as passed on to the next iteration, which must release them."""
    for each in leaves(value):
        each.hand_over()


def complaint(before: object, after: object) -> str | None:
    """Says why a value, apart from its members, can't take the place of `before` at the end of a loop or
    branch, as the end of a sentence that begins with the name; None if it can.
    """
    if before is after:
        return None
    if isinstance(before, Carried):
        one = before.settled()
        other = after.settled() if isinstance(after, Carried) else after
        if type(other) is not type(one):
            return f"was {described(one)} and becomes {described(other)}{_remedy(one, other)}"
        return one.complaint(other)
    if python_objects.members(before) is None:
        return _object_complaint(before, after)
    if type(before) is not type(after):
        return f"was {described(before)} and becomes {described(after)}: both must have one type"
    return None


def different_members(
    value: object, before: python_objects.Members, after: python_objects.Members
) -> str | None:
    """Says why members can't replace those that an object had before; None if they can."""
    is_ordered = isinstance(value, OrderedDict)
    if ([*before] == [*after]) if is_ordered else before.keys() == after.keys():
        return None
    kind, others = type(value).__name__, before.keys() ^ after.keys()
    if isinstance(value, python_objects.CONTAINERS) and not any(
        isinstance(e, python_objects.Attribute) for e in others
    ):
        if len(before) != len(after):
            return (
                f"was a {kind} of {len(before)} and becomes one of {len(after)}: only range of Python, which "
                f"unrolls, can change the length of a {kind}"
            )
        order = "" if others else ": keep the order of its keys"
        return f"was a {kind} with {_listed(before)} and becomes one with {_listed(after)}{order}"
    name = next(
        (each.name for each in others if isinstance(each, python_objects.Attribute)), next(iter(others))
    )
    return f"has no attribute '{name}' before or after: assign it before the loop or branch"


def _listed(keys: python_objects.Members) -> str:
    return f"{', '.join(map(repr, keys)):.60}"


def _remedy(one: Carried, other: object) -> str:
    """The end of a message about a value of another kind: what to write, if that is clear."""
    if isinstance(other, Carried):
        begun = "" if hasattr(one, "shape") else other.begun(one.number())
        return other.until_carried or (f": begin with {begun}" if begun else "")
    shape, dtype = getattr(one, "shape", None), getattr(one, "dtype", None)
    if not isinstance(other, NUMBERS) or dtype is None:
        return ""
    number = written(other)
    if isinstance(other, float) and not dtype.is_float:
        return f": begin with a value of w.f32, or end with one of {dtype}"
    return f": write {dtype}({number})" if shape is None else f": write w.full({shape}, {number}, {dtype})"


def written(number: float) -> str:
    """A number as a kernel writes it."""
    return repr(number).replace("inf", "w.inf") if abs(number) == math.inf else repr(number)


def described(value: object) -> str:
    """A value in words."""
    if isinstance(value, Unbound):
        return "nothing"
    if isinstance(value, (Carried, Fixed)):
        return str(value)
    shown = repr(value).replace(": ", ":")  # `cant_carry` looks for the colon before a remedy
    return f"the Python {type(value).__name__} {shown:.40}"


def _object_complaint(before: object, after: object) -> str | None:
    """Says why a Python object, which the GPU doesn't have, can't be replaced."""
    plain = isinstance(before, (bool, int, float, str, type(None)))
    if plain and type(before) is type(after) and before == after:
        return None
    after = after.settled() if isinstance(after, Carried) else after
    change = f"was {described(before)} and becomes {described(after)}"
    if isinstance(before, Fixed) and isinstance(after, Fixed):
        return f"{change}: use each of them in a branch of its own, or choose among values that they have"
    if isinstance(before, NUMBERS):
        if isinstance(after, Carried) and (begun := after.begun(written(before))):
            return f"{change}: begin with {begun}"
        kind = "w.i1" if isinstance(before, bool) else "w.i32" if isinstance(before, int) else "w.f32"
        is_number = isinstance(after, Carried) and not hasattr(after, "shape")
        kind = str(getattr(after, "dtype", kind)) if is_number else kind
        if isinstance(before, float) and kind.startswith(("w.i", "w.u")):
            return f"{change}: convert this one with .to(w.f32), or write it as a float"
        return f"{change}: begin with {kind}({written(before)}), a value of the GPU"
    return f"{change}: a loop or branch of the GPU can't change a Python object"


def cant_carry(name: str, wrong: str, where: str) -> str:
    """The message about a name: what is wrong, where, and what `wrong` has after a colon, a remedy."""
    reason, colon, remedy = wrong.partition(": ")
    if name == RESULT:
        return f"the result {reason}, {where}: all returns must have values of one type"
    subject = f"'{name}'" if name.isidentifier() else name
    return f"{subject} {reason}, {where}{colon}{remedy}"
