"""Merges the values that the sides of a branch of the GPU assign, or change in place.

Each side begins with the objects as they were before the branch. After it, they have what the sides made of
them, so that all of their names read that.
"""

import types
from collections.abc import Callable, Collection, Sequence
from typing import Any

from weft.errors import WeftError
from weft.language.capture import carried, python_objects, trace
from weft.language.capture.carried import RESULT, Carried, Unbound
from weft.language.capture.mutation import Region, fill, fix_shared
from weft.language.capture.python_objects import Scope
from weft.language.messages.mistakes import mistake, unseen
from weft.mlir import ir

_NO_VALUE = "has no value here"
_ONE_SIDE = "is assigned in one side only of a branch of the GPU: assign it before the branch"
_WHERE = "on the other side of a branch of the GPU"
_ABSENT = object()

Numbers = Callable[[object, object], tuple[object, object]]
"""Makes values of the GPU of numbers of Python that differ."""


class _Side:
    """The end of a side: the names' values, the rings' positions, and the members of changed objects."""

    def __init__(self, values: list[object], changes: dict[int, python_objects.Members]) -> None:
        self.values, self.changes, self.positions = values, changes, trace.current().positions()
        # Here, since the value of an element in memory is loaded in the side.
        self.parts = dict[int, tuple[Carried, list[ir.Value]]]()
        seen = set[int]()
        for each in (leaf for one in (*values, *changes.values()) for leaf in carried.leaves(one, seen)):
            if id(each) not in self.parts:
                self.parts[id(each)] = each, each.parts()

    def of(self, value: Carried) -> list[ir.Value]:
        """The SSA values of a value."""
        return self.parts[id(value)][1] if id(value) in self.parts else value.parts()

    def members(self, value: object) -> python_objects.Members:
        """The members of an object at the end of the side."""
        return self.changes[id(value)] if id(value) in self.changes else python_objects.members(value) or {}


class _Plan:
    """The value after the branch in place of one of each side."""

    def __init__(self, value: Any) -> None:
        self.value = value  # as it is, or what it is made like
        self.pairs: tuple[int, int] | None = None  # the numbers of its pairs of SSA values
        self.members: dict[object, _Plan] | None = None
        self.made: object = _ABSENT

    def build(self, results: Sequence[ir.Value]) -> object:
        """The value, made of the results of the branch."""
        if self.made is not _ABSENT:
            return self.made
        if self.pairs is not None:
            self.made = self.value.like(iter(results[slice(*self.pairs)]))
        elif self.members is None:
            self.made = self.value
        elif python_objects.is_mutable(self.value):
            self.made = python_objects.twin(self.value)
            python_objects.fill(self.made, {key: each.build(results) for key, each in self.members.items()})
        else:
            built = {key: each.build(results) for key, each in self.members.items()}
            self.made = python_objects.with_members(self.value, built)
        return self.made


class BranchValues:
    """The values of names and objects, and the positions of rings, around a branch."""

    def __init__(
        self, names: Sequence[str], again: Sequence[str], assigned: Collection[str], scope: Scope
    ) -> None:
        """`names` are those that have a value after it, `again` others that the second side reads as they
        were before, and `assigned` all that the sides assign.
        """
        self.names = names
        self.before = [scope.get(name, Unbound(name, _NO_VALUE)) for name in names]
        self.kept = [scope.get(name, Unbound(name, _NO_VALUE)) for name in again]
        self.positions = trace.current().positions()
        self._assigned = {*assigned, *names}
        self._region = Region(scope, self._assigned)
        self._rest = {name: each for name, each in scope.items() if name not in self._assigned}
        self._sides: list[_Side] = []
        self._error: Callable[[str], WeftError] = mistake
        self.pairs: list[tuple[ir.Value, ir.Value]] = []
        """The SSA values at the ends of both sides, of what may differ."""
        self._plans = dict[tuple[int, int], _Plan]()
        self._merged: list[tuple[str, _Plan, tuple[object, object]]] = []
        self._same: list[object] = []
        trace.current().regions.append(self._region)

    def end_side(self, scope: Scope) -> None:
        """Notes what a side has at its end, and gives objects the members from before the branch."""
        values = [scope.get(name, value) for name, value in zip(self.names, self.before, strict=True)]
        self._sides.append(_Side(values, self._region.changes()))
        self._region.restore()

    def undo(self) -> None:
        """Leaves a branch whose first side doesn't end."""
        self._region.changes()
        self._region.restore()
        self.leave()

    def leave(self) -> None:
        """Leaves the branch."""
        trace.current().regions.remove(self._region)

    def merge(self, numbers: Numbers) -> None:
        """Pairs what the sides have. Raises WeftError where one can't take the place of the other."""
        self._numbers = numbers
        one, other = self._sides
        ends = zip(self.names, one.values, other.values, strict=True)
        self._names = [self._plan(*each) for each in ends]
        self._rings = slice(len(self.pairs), len(self.pairs) + len(one.positions))
        self.pairs += zip(one.positions, other.positions, strict=True)
        self._error = unseen
        self._changed = list[tuple[object, dict[object, _Plan]]]()
        for key, reached in self._region.inside.items():
            if key in one.changes or key in other.changes:
                members = [side.changes.get(key, reached.members) for side in self._sides]
                self._changed.append((reached.value, self._members(reached.name, reached.value, *members)))
        self._note_shared()

    def after(self, results: Sequence[ir.Value]) -> list[Any]:
        """The names' values after the branch, made of its results, after changing objects and positions in
        rings likewise.
        """
        values = [each.build(results) for each in self._names]
        trace.current().restore(results[self._rings])
        for value, members in self._changed:
            fill(value, {key: each.build(results) for key, each in members.items()})
        for name, plan, *others in self._shared:
            for each in (plan.made, *others):
                fix_shared(each, name, "a branch")
        return values

    def _plan(self, name: str, one: object, other: object) -> _Plan:
        """The plan for the values of both sides, of which one may be absent."""
        if one is other:
            self._same.append(one)
            return _Plan(one)
        if name == RESULT and isinstance(one, Unbound) != isinstance(other, Unbound):
            one, other = self._numbers(one, other)  # the side that lacks it doesn't return
        if _ABSENT is one or _ABSENT is other or isinstance(one, Unbound) or isinstance(other, Unbound):
            return _Plan(Unbound(name, _ONE_SIDE))
        if (plan_before := self._plans.get((id(one), id(other)))) is not None:
            return plan_before
        one, other = self._numbers(one, other)
        for each in (one, other):
            if isinstance(each, Carried):
                each.hand_over()
        if wrong := carried.complaint(one, other):
            raise self._error(carried.cant_carry(name, wrong, _WHERE))
        plan = _Plan(one)
        if isinstance(one, Carried) and isinstance(other, Carried):
            start, (first, second) = len(self.pairs), self._sides
            self.pairs += zip(first.of(one), second.of(other), strict=True)
            plan.pairs = start, len(self.pairs)
        elif python_objects.members(one) is not None:
            self._plans[id(one), id(other)] = plan
            self._merged.append((name, plan, (one, other)))
            members, after = (
                side.members(each) for side, each in zip(self._sides, (one, other), strict=True)
            )
            if wrong := carried.different_members(one, members, after):
                raise self._error(carried.cant_carry(name, wrong, _WHERE))
            plan.members = {key: self._plan(name, each, after[key]) for key, each in members.items()}
        return plan

    def _members(
        self, name: str, value: object, one: python_objects.Members, other: python_objects.Members
    ) -> dict[object, _Plan]:
        """The plans for the members of an object that a side has changed."""
        if isinstance(value, types.CellType) or python_objects.is_object(value):
            keys = {**one, **other}
            return {
                key: self._plan(
                    f"{name}.{key}" if key else name, one.get(key, _ABSENT), other.get(key, _ABSENT)
                )
                for key in keys
            }
        if wrong := carried.different_members(value, one, other):
            raise self._error(carried.cant_carry(name, wrong, _WHERE))
        return {key: self._plan(name, each, other[key]) for key, each in one.items()}

    def _note_shared(self) -> None:
        """Finds what is made in place of two objects, of which one has other names after the branch, too."""
        fixed, counts = trace.current().fixed, dict[int, int]()
        staying = python_objects.reached(self._rest, self._assigned)
        staying |= python_objects.reached({str(number): each for number, each in enumerate(self._same)})
        merged = [each for each in self._merged if python_objects.is_mutable(each[1].value)]
        for *_, sides in merged:
            for each in sides:
                counts[id(each)] = counts.get(id(each), 0) + 1
        self._shared = [
            (name, plan, *sides)
            for name, plan, sides in merged
            if any(id(each) in staying or id(each) in fixed or counts[id(each)] > 1 for each in sides)
        ]
