"""What the kernel language knows of an object by its class: whether it has members, and can be changed."""

import array
import collections
import copy
import dataclasses
import enum
import itertools
import types
import typing

import numpy as np
import pytest

import weft
import weft.language as w
from weft.language.capture import python_objects


@dataclasses.dataclass(frozen=True)
class Frozen:
    members: list


class Kind(enum.Enum):
    ONE = 1


Pair = collections.namedtuple("Pair", "a b")


class Typed(typing.NamedTuple):
    a: object
    b: object


class OfOne(collections.namedtuple("OfOne", "a b")):
    """Its class takes other arguments than the elements, and it has attributes."""

    def __new__(cls, both):
        return super().__new__(cls, *both)


class Stack(list):
    top = None


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
        (array.array("i", [1]), True, None),
        (itertools.count(), True, None),
        (iter([1, 2]), True, None),
        (map(abs, [1]), True, None),
        (Pair(1, 2), False, 2),
        (collections.UserList([1, 2]), True, 1),
        (collections.ChainMap({}), True, 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_members_and_changes(value, mutable, count):
    assert python_objects.is_mutable(value) is mutable
    members = python_objects.members(value)
    assert (members if members is None else len(members)) == count


def test_lists_are_reached_through_what_stays_as_it_is():
    inner = [1]
    for outer in (Frozen(inner), Pair(inner, 2), (0, (inner,)), lambda x=inner: x, {"a": inner}):
        assert id(inner) in python_objects.reached({"outer": outer})


def test_classes_are_looked_at_once(monkeypatch):
    """A kernel has thousands of values, of few classes."""
    looked, original = [], dataclasses.is_dataclass
    monkeypatch.setattr(dataclasses, "is_dataclass", lambda kind: looked.append(kind) or original(kind))
    local = type("Local", (), {})
    python_objects.reached({str(number): [number, local()] for number in range(100)})
    assert looked.count(local) == 1
    assert len(looked) < 10


def grown(pair, number):
    return type(pair)(pair.a + number, w.maximum(pair.b, number))


def noted(pair, number):
    made = OfOne((pair.a + number, pair.b))
    made.most = w.maximum(pair.most, number)
    return made


def pushed(stack, number):
    stack[0] += number
    stack.top = w.maximum(stack.top, number)
    return stack


def both_changed(pair, number):
    pair[0] += number
    pair[1] = w.maximum(pair[1], number)
    return pair


def with_attribute(value, name):
    setattr(value, name, w.f32(0))
    return value


KINDS = {
    "namedtuple": (Pair, grown, lambda pair: pair.a + pair.b),
    "NamedTuple": (Typed, grown, lambda pair: pair.a + pair.b),
    "tuple with attributes": (
        lambda *both: with_attribute(OfOne(both), "most"),
        noted,
        lambda pair: pair.a + pair.most,
    ),
    "list with attributes": (
        lambda *both: with_attribute(Stack(both), "top"),
        pushed,
        lambda stack: stack[0] + stack.top,
    ),
    "UserList": (lambda *both: collections.UserList(both), both_changed, sum),
    "nested": (
        lambda *both: Pair([*both], {"last": Typed(*both)}),
        lambda pair, number: Pair(both_changed(pair.a, number), {"last": Typed(number, number)}),
        lambda pair: sum(pair.a) + pair.b["last"].a * 0.0,
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_loops_and_branches_carry_what_extends_tuples_and_lists(kind):
    begin, step, end = KINDS[kind]

    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.f32], y: w.Out["m", w.f32]):
        looped, chosen = begin(w.f32(0), w.f32(0)), begin(w.f32(0), w.f32(0))
        for i in w.range(8):
            looped = step(looped, x[i])
            if x[i] < 4.0:
                chosen = step(chosen, x[i])
        y[0], y[1] = end(looped), end(chosen)

    y = np.zeros(2, np.float32)
    assert not kernel.emulate(np.arange(8, dtype=np.float32), y).findings
    assert y.tolist() == [28 + 7, 6 + 3]


def test_a_message_has_its_remedy_after_the_last_colon():
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
        view = types.MappingProxyType({"a": x[0]})
        for i in w.range(4):
            view = types.MappingProxyType({"a": x[i]})
        y[0] = view["a"]

    with pytest.raises(weft.WeftError, match=r"\{'a':<.*, in a loop of the GPU: a loop or branch of the GPU"):
        kernel.compile()


@pytest.mark.parametrize(
    ("made", "change", "message"),
    [
        (
            lambda: np.zeros(3),
            lambda a: np.add(a, 1, out=a),
            "can't change Python's ndarray 'a': all threads",
        ),
        (lambda: np.zeros((2, 2)), lambda a: a.T.fill(1), "can't change Python's ndarray 'a': all threads"),
        (lambda: np.array([None]), lambda a: a.fill(1), "can't change Python's ndarray 'a': all threads"),
        (lambda: bytearray(2), lambda a: a.__setitem__(0, 1), "can't change Python's bytearray 'a'"),
        (
            lambda: array.array("i", [1]),
            lambda a: a.append(1),
            "can't change Python's array 'a': all threads",
        ),
        (itertools.count, None, "can't take values from 'a', an iterator of Python"),
        (lambda: itertools.cycle("ab"), None, "can't take values from 'a', an iterator of Python"),
        (
            lambda: collections.OrderedDict(a=1, b=2),
            lambda a: a.move_to_end("a"),
            r"OrderedDict with '.', '.' and becomes one with '.', '.', .*: keep the order of its keys",
        ),
    ],
)
@pytest.mark.parametrize("where", ["loop", "branch"])
def test_changes_in_loops_and_branches_that_python_makes_once(made, change, message, where):
    @w.kernel(threads=32)
    def kernel(y: w.Out["n", w.i32]):
        a = made()
        if where == "loop":
            for _ in w.range(2):
                next(a) if change is None else change(a)
        elif y[0] > 1:
            next(a) if change is None else change(a)

    with pytest.raises(weft.WeftError, match=message):
        kernel.compile()


def test_iterators_without_a_length_are_taken_from_outside_of_loops():
    @w.kernel(threads=32)
    def kernel(y: w.Out["n", w.i32]):
        numbers = itertools.count(3)
        y[0] = next(numbers)
        for i in w.range(2):
            inside = itertools.count(7)
            next(inside)
            y[i + 1] = next(inside)
        y[3] = next(numbers, None)

    y = np.zeros(4, np.int32)
    kernel.emulate(y)
    assert y.tolist() == [3, 8, 8, 4]


def test_copies_of_what_holds_values_have_the_same_values():
    @dataclasses.dataclass
    class State:
        numbers: list
        place: object

    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
        first = State([x[1], w.f32(2)], x[3])
        second, named = copy.deepcopy(first), dataclasses.asdict(first)
        for i in w.range(3):
            second.numbers[0] += x[i]
        y[0], y[1], y[2] = first.numbers[0], second.numbers[0], named["numbers"][1] + named["place"]

    y = np.zeros(4, np.float32)
    kernel.emulate(np.arange(4, dtype=np.float32), y)
    assert y.tolist() == [1, 4, 5, 0]
