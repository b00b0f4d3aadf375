"""The legal schedules that are nearest to an illegal one, for messages."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from itertools import islice
from math import log2
from typing import Any

from weft.dialects.product_types import Types
from weft.dialects.schedule.family import AnySchedule
from weft.target import Target

_NUMBERS = sorted({*range(17), *range(16, 33, 4), *range(32, 257, 8), 512, 1024})
"""The values to which a field may be changed: the sizes of tiles, and small counts."""
_MOST = 3


def refusal(schedule: AnySchedule, types: Types, target: Target | None = None) -> str | None:
    """Why a schedule is illegal, with the nearest legal ones that differ in one field; None if it's legal."""
    complaint = schedule.complaint(types, target)
    if (
        complaint is None
        or "nearest legal" in complaint
        or (target and target.chip.name not in schedule.chips(types))
    ):
        return complaint
    found = nearest(schedule, lambda changed: changed.complaint(types, target) is None)
    return f"{complaint}; nearest legal: {', '.join(found)}" if found else complaint


def nearest(schedule: AnySchedule, legal: Callable[[AnySchedule], bool]) -> list[str]:
    """The changes of one field that make a schedule legal, the smallest ones."""
    changes = sorted(_changes(schedule), key=lambda change: change[0])
    return list(islice((text for _, text, changed in changes if legal(changed)), _MOST))


def _changes(schedule: Any) -> Iterator[tuple[float, str, AnySchedule]]:
    """The schedules that differ in one number or flag: how much, and the changed field."""
    for field in fields(schedule):
        value = getattr(schedule, field.name)
        if isinstance(value, bool):
            changes = [(1.0, not value)]
        elif isinstance(value, tuple):
            changes = [
                (apart, (*value[:at], number, *value[at + 1 :]))
                for at, old in enumerate(value)
                for apart, number in _numbers(old)
                if number
            ]
        else:
            changes = [(apart, number) for apart, number in _numbers(value) if number or field.default == 0]
        for apart, new in changes:
            text = "x".join(map(str, new)) if isinstance(new, tuple) else str(new).lower()
            yield apart, f"{field.name} {text}", replace(schedule, **{field.name: new})


def _numbers(old: int) -> Iterator[tuple[float, int]]:
    """Other numbers, each with how many times as large, or as small, it is."""
    return ((abs(log2((new + 1) / (abs(old) + 1))), new) for new in _NUMBERS if new != old)
