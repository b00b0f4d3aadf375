"""The state that a loop of the GPU carries: the values of names, the members of objects that its body changes
in place, and the positions of rings.

In the body, an object that it changes in place has the values of the iteration, so that all of its names read
them. A name that the body assigns gets a copy of its list or object, since names of the first one keep that.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from weft.errors import WeftError
from weft.language.capture import carried, python_objects, trace
from weft.language.capture.carried import Unbound
from weft.language.capture.mutation import UNSEEN, Region, fill, fix_shared
from weft.language.capture.python_objects import Found, Scope
from weft.language.messages.mistakes import mistake, unseen
from weft.language.values.dtypes import NUMBERS, DType, f32, i1, i32
from weft.language.values.fragments import Fragment
from weft.language.values.scalars import Loaded, Scalar, as_scalar
from weft.mlir import ir


def common_type(one: object, other: object) -> DType | None:
    """The type of the GPU that a number of Python and another number become; None where they stay as they
    are.
    """
    numbers = [each for each in (one, other) if isinstance(each, NUMBERS)]
    if not numbers or (len(numbers) == 2 and type(one) is type(other) and one == other):
        return None
    kinds = {type(each) for each in numbers}
    if len(numbers) == 2:
        if kinds == {bool}:
            return i1
        return None if bool in kinds else f32 if float in kinds else i32
    number, value = numbers[0], other if numbers[0] is one else one
    if not isinstance(value, (Scalar, Loaded)) or (kinds == {bool}) != (value.dtype == i1):
        return None
    return value.dtype if value.dtype.is_float or not isinstance(number, float) else None


_NO_VALUE = "has no value here"
_ONLY_INSIDE = "is assigned only in a loop of the GPU, which may not run: assign it before the loop"
_BECOMES_OTHER = (
    "{} have one object before a loop of the GPU, and others after an iteration: begin with a list, "
    "dictionary or object for each"
)
_BECOME_ONE = (
    "a loop of the GPU changes an object of {} in place, of which they have one after an iteration, but not "
    "before the first one: assign a copy"
)
_IS_ASSIGNED = (
    "a loop of the GPU assigns '{}' and changes its object in place, which has other names, too: begin with "
    "a copy"
)


class LoopNames(NamedTuple):
    """The names of a loop."""

    assigned: tuple[str, ...]
    """Those that the body assigns."""
    changed: tuple[str, ...]
    """Those of objects of which it assigns parts, or that it changes by methods."""
    passed: tuple[str, ...]
    """Those of functions that it calls, and of what these get."""
    targets: tuple[str, ...] = ()
    """Those of the numbers of the loop."""


class LoopValues:
    """The values of names and objects, and the positions of rings, around a loop."""

    def __init__(self, names: LoopNames, scope: Scope) -> None:
        self.names = names.assigned
        own = {*names.assigned, *names.targets}
        self.values = [scope.get(name, Unbound(name, _NO_VALUE)) for name in self.names]
        self.positions = trace.current().positions()
        self._region = Region(scope, own)
        inside = {*names.changed, *names.passed}
        rest = {name: each for name, each in scope.items() if name not in own | inside}
        self._elsewhere = python_objects.reached(rest, own)
        self._roots = [(name, scope[name]) for name in inside if name in scope and name not in own]
        self._placed = self._found_in_place(names, scope, own)
        for key, each in self._region.inside.items():
            if key not in self._placed:
                self._region.fix(each.value, each, UNSEEN)
        self._begun = dict[int, Found]()  # the objects before the loop, by their ids
        self._stays = dict[int, bool]()  # whether all bodies end with the object that they got
        self._shared = set[int]()  # what may be one object with another
        self._others = list[
            tuple[int, object]
        ]()  # objects from before the loop that take the place of others
        trace.current().regions.append(self._region)

    def _found_in_place(self, names: LoopNames, scope: Scope, own: set[str]) -> dict[int, Found]:
        """The objects that the body changes in place, or that a function may change which it calls."""
        of_names = python_objects.reached({name: scope[name] for name in self.names if name in scope})
        changed = {name: scope[name] for name in names.changed if name in scope}
        changing = python_objects.reached(changed, functions=False)
        passed = python_objects.reached({name: scope[name] for name in names.passed if name in scope}, own)
        weak = {
            key: each
            for key, each in passed.items()
            if key not in of_names and key not in changing and all(map(_is_plain, each.members.values()))
        }
        changing = {
            key: each
            for key, each in (changing | weak).items()
            if key in self._region.inside
            and not (python_objects.is_iterator(each.value) or isinstance(each.value, python_objects.ARRAYS))
        }
        count = -1
        while count != len(changing):  # what has an object that stays as it is can't change either
            count = len(changing)
            changing = {
                key: each
                for key, each in changing.items()
                if key not in weak
                or python_objects.reached(each.members, functions=False).keys() <= changing.keys()
            }
        return changing

    def begin(self) -> list[ir.Value]:
        """All SSA values, in order. Passes the stages among them on to the loop, which must release them."""
        for value in (*self.values, *(each.members for each in self._placed.values())):
            carried.hand_over(value)
        seen = set(self._placed)
        values = [part for value in self.values for part in carried.parts(value, seen)]
        for each in self._placed.values():
            values += [part for member in each.members.values() for part in carried.parts(member, seen)]
        return values + self.positions

    def gives(self, new: Iterator[ir.Value]) -> tuple[Any, ...]:
        """The names' values in a body, made of other SSA values, after setting objects and the rings'
        positions likewise.
        """
        self._heads = {key: each.value for key, each in self._placed.items()}
        values = [carried.rebuilt(each, new, self._heads) for each in self.values]
        made = {
            key: {name: carried.rebuilt(one, new, self._heads) for name, one in each.members.items()}
            for key, each in self._placed.items()
        }
        for key, members in made.items():
            fill(self._placed[key].value, members)
        trace.current().restore(new)
        self._given = {
            key: Found(head, python_objects.members(head) or {}, "") for key, head in self._heads.items()
        }
        self._after = dict[int, object]()
        for key, head in self._heads.items():
            if key in self._region.outside:
                self._region.fix(head, self._region.outside[key])
            elif key in self._elsewhere and key not in self._placed:
                self._region.fix(head, self._elsewhere[key], _IS_ASSIGNED)
        return tuple(values)

    def after(self, new: Iterator[ir.Value]) -> list[object]:
        """The names' values after a loop, made of its results, after setting objects and the rings' positions
        likewise.
        """
        made = {key: each.value for key, each in self._placed.items()}
        values = [self._result(each, new, made) for each in self.values]
        for each in self._placed.values():
            fill(each.value, {key: self._result(one, new, made) for key, one in each.members.items()})
        trace.current().restore(new)
        for key in self._shared:
            self._fix(key, made.get(key), self._begun[key].value)
        for key, other in self._others:
            self._fix(key, other)
        return values

    def _result(self, value: object, new: Iterator[ir.Value], made: dict[int, object]) -> object:
        """A value after the loop: an object that all bodies keep is filled, others are made."""

        def copy(each: object) -> object:
            return each if self._stays.get(id(each)) else python_objects.twin(each)

        return carried.mapped(value, lambda each: each.like(new), made, copy, fill)

    def _fix(self, key: int, *values: object) -> None:
        """Refuses changes of what may be one object with another after the loop."""
        for each in values:
            fix_shared(each, self._begun[key].name, "a loop or branch")

    def taken(self, scope: Scope, where: str) -> list[ir.Value]:
        """All SSA values at the end of a body, in order. Raises WeftError for what can't be carried."""
        ends = [scope.get(name, value) for name, value in zip(self.names, self.values, strict=True)]
        begins = zip(self.names, self.values, ends, strict=True)
        pairs = [each for each in begins if not isinstance(each[1], Unbound)]
        for name, before, end in (*pairs, *((name, each, each) for name, each in self._roots)):
            self._match(name, before, end)
        for key, each in self._placed.items():
            if key not in self._after:
                self._match(each.name, each.value, each.value)
        self._check()
        parts, seen = list[ir.Value](), set(self._placed)
        for name, before, end in pairs:
            self._take((name, where), before, end, parts, seen)
        for key, each in self._placed.items():
            end = python_objects.members(self._after.get(key, each.value)) or {}
            if wrong := carried.different_members(each.value, each.members, end):
                raise unseen(carried.cant_carry(each.name, wrong, where))
            for member, before in each.members.items():
                self._take((each.name, where), before, end[member], parts, seen, unseen)
        return parts + trace.current().positions()

    def ended(self, scope: Scope, first: Callable[[], list[ir.Value]] = list) -> list[ir.Value]:
        """The SSA values at the end of the body, which is left, after those of `first`. Raises WeftError for
        an object that a function has changed unseen.
        """
        trace.current().multiplier.end_body()
        parts = [*first(), *self.taken(scope, "in a loop of the GPU")]
        for key in self._region.changes():
            if key not in self._placed:
                raise unseen(self._region.fixed[key][1])
        trace.current().regions.remove(self._region)
        trace.current().check_released()
        return parts

    def after_all(self, results: Sequence[ir.Value]) -> list[object]:
        """The names' values after a loop with these results; none of those that only its body assigns."""
        values = zip(self.names, self.after(iter(results)), strict=True)
        return [Unbound(n, _ONLY_INSIDE) if isinstance(each, Unbound) else each for n, each in values]

    def _match(self, name: str, before: object, end: object) -> None:
        """Notes which objects the next iteration has in place of those that this one began with."""
        members = self._members(before)
        if members is None or isinstance(before, carried.Carried):
            return
        if python_objects.is_mutable(before):
            if id(before) not in self._heads:  # it isn't made in the kernel
                return
            begun = self._begun.setdefault(id(before), Found(before, members, name))
            if id(before) in self._after:
                if self._after[id(before)] is not end:
                    names = " and ".join(f"'{each}'" for each in sorted({begun.name, name}))
                    raise mistake(_BECOMES_OTHER.format(names))
                return
            self._after[id(before)] = end
        after = python_objects.members(end) or {}
        for key, member in members.items():
            if key in after:
                self._match(name, member, after[key])

    def _members(self, value: object) -> python_objects.Members | None:
        """The members of a value before the loop."""
        placed = self._placed.get(id(value))
        return python_objects.members(value) if placed is None else placed.members

    def _check(self) -> None:
        """Raises WeftError where objects that the body changes in place are no longer the same, or become
        one.
        """
        fixed = trace.current().fixed
        heads = {id(head): key for key, head in self._heads.items()}
        by_end = dict[int, list[int]]()
        for key, end in self._after.items():
            stays = end is self._heads[key]
            self._stays[key] = self._stays.get(key, True) and stays
            by_end.setdefault(id(end), []).append(key)
            name, changed = self._begun[key].name, self._given[key].is_changed()
            if key in self._elsewhere and not stays:
                if changed or key in self._placed:
                    raise mistake(_IS_ASSIGNED.format(name))
                self._shared.add(key)
            if key in self._elsewhere and key not in self._placed and changed:
                raise mistake(_IS_ASSIGNED.format(name))
            is_other = id(end) in self._region.inside or id(end) in self._region.outside
            if (is_other and id(end) not in heads) or id(end) in fixed or key in fixed:
                self._may_be_one([key])
                self._others.append((key, end))
        for keys in by_end.values():
            if len(keys) > 1:
                self._may_be_one(keys)

    def _may_be_one(self, keys: list[int]) -> None:
        """Notes that objects may be one with others after the loop. Raises WeftError if the body changes
        them.
        """
        fixed = trace.current().fixed
        for key, object_ in self._given.items():
            if (key in keys or id(object_.value) in fixed) and object_.is_changed():
                names = " and ".join(dict.fromkeys(f"'{self._begun[each].name}'" for each in (*keys, key)))
                raise mistake(_BECOME_ONE.format(names))
        self._shared.update(keys)

    def _take(
        self,
        where: tuple[str, str],
        before: object,
        end: object,
        parts: list[ir.Value],
        seen: set[int],
        error: Callable[[str], WeftError] = mistake,
    ) -> None:
        """Adds the SSA values of a value at the end of a body, in the order of those before. A number of
        Python in place of one of the GPU gets its type.
        """
        dtype = common_type(before, end) if isinstance(end, NUMBERS) else None
        end = end if dtype is None or isinstance(before, NUMBERS) else as_scalar(end, dtype)
        if wrong := carried.complaint(before, end):
            raise error(carried.cant_carry(where[0], wrong, where[1]))
        members = self._members(before)
        if members is None or isinstance(before, carried.Carried):
            if end is not before:
                carried.hand_over(end)
            parts += carried.parts(end if isinstance(before, carried.Carried) else before)
            return
        if id(before) in seen:
            return
        if python_objects.is_mutable(before):
            seen.add(id(before))
        after = python_objects.members(end) or {}
        if wrong := carried.different_members(before, members, after):
            raise error(carried.cant_carry(where[0], wrong, where[1]))
        for key, member in members.items():
            self._take(where, member, after[key], parts, seen, unseen)


def _is_plain(value: object) -> bool:
    """Whether a loop may carry a value that its body perhaps doesn't change."""
    is_number = isinstance(value, Scalar) or (isinstance(value, Loaded) and value.element is not None)
    return is_number or isinstance(value, Fragment) or not isinstance(value, carried.Carried)
