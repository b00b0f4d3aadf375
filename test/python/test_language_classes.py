"""What the kernel language knows of an object by its class: whether it has members, and can be changed."""

import collections
import dataclasses
import enum
import types

import numpy as np
import pytest

import weft.language as w
from weft.language import objects


@dataclasses.dataclass(frozen=True)
class Frozen:
    members: list


class Kind(enum.Enum):
    ONE = 1


Pair = collections.namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("value", "mutable", "count"),
    [
        (1, False, None),
        ("ab", False, None),
        (None, False, None),
        (w.f32, False, None),
        (Kind.ONE, False, None),
        (int, False, None),
        ((1, 2), False, 2),
        (Frozen([1]), False, 1),
        ([1, 2], True, 2),
        ({1, 2}, True, 2),
        ({"a": 1}, True, 1),
        (collections.deque([1]), True, 1),
        (types.SimpleNamespace(a=1), True, 1),
        (types.CellType(1), True, 1),
        (np.zeros(3), True, None),
        (bytearray(2), True, None),
        (iter([1, 2]), True, None),
        (map(abs, [1]), True, None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_members_and_changes(value, mutable, count):
    assert objects.is_mutable(value) is mutable
    members = objects.members(value)
    assert (members if members is None else len(members)) == count


def test_lists_are_reached_through_what_stays_as_it_is():
    inner = [1]
    for outer in (Frozen(inner), Pair(inner, 2), (0, (inner,)), lambda x=inner: x, {"a": inner}):
        assert id(inner) in objects.reached({"outer": outer})


def test_classes_are_looked_at_once(monkeypatch):
    """A kernel has thousands of values, of few classes."""
    looked, original = [], dataclasses.is_dataclass
    monkeypatch.setattr(dataclasses, "is_dataclass", lambda kind: looked.append(kind) or original(kind))
    local = type("Local", (), {})
    objects.reached({str(number): [number, local()] for number in range(100)})
    assert looked.count(local) == 1
    assert len(looked) < 10
