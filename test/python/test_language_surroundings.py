"""Values of global variables and closures, whose changes a kernel of `weft.language` notices."""

import collections
import enum
import functools
import math
import sys
import types
from dataclasses import dataclass

import numpy as np
import pytest

import weft.language as w
from weft.language.capture import reads


class Mode(enum.Enum):
    ONE = 1
    TWO = 2


@dataclass(frozen=True)
class Sizes:
    rows: int
    names: tuple = ()


@dataclass
class Loose:
    rows: int


class Scale:
    factor = 2.0
    __slots__ = ("own",)

    def __init__(self):
        self.own = 2.0

    def applied(self, x):
        return x * self.own

    @property
    def doubled(self):
        return 2 * self.own

    @staticmethod
    def by_global(x):
        return x * FACTOR


class Around:
    """What functions below read; `s` and `o` count its changes."""

    def __init__(self):
        self.space = types.SimpleNamespace(s=2.0, o=2.0)
        self.inner = types.SimpleNamespace(space=self.space)
        self.scale, self.numbers, self.named = Scale(), [2.0, 2.0], {"s": [2.0], "o": 2.0}
        self.array, self.bytes = np.full((2, 2), 2.0), bytearray([2])
        self.part = functools.partial(lambda x, f: x * f[0], f=self.numbers)
        self.queue, self.method = collections.deque([2.0]), self.scale.applied


FACTOR, MODULE = 2.0, sys.modules[__name__]


def by_global(x):
    return x * FACTOR


FUNCTIONS = [by_global]


def by_default(x, numbers=FUNCTIONS):
    return numbers[0](x)


def by_import(x):
    from test_language_surroundings import FACTOR as number

    return x * number


def to(value, name):
    """A change of an attribute, or of an element."""
    return lambda a: setattr(value(a), name, 3.0)


def at(value, index):
    return lambda a: value(a).__setitem__(index, 3.0)


OF_MODULE = to(lambda a: MODULE, "FACTOR")
READS = {
    "namespace": (lambda a, x: x * a.space.s, to(lambda a: a.space, "s")),
    "namespace in another": (lambda a, x: x * a.inner.space.s, to(lambda a: a.space, "s")),
    "getattr": (lambda a, x: x * getattr(a.space, "s"), to(lambda a: a.space, "s")),  # noqa: B009
    "another name": (lambda a, x: (lambda space: x * space.s)(a.space), to(lambda a: a.space, "s")),
    "class": (lambda a, x: x * Scale.factor, to(lambda a: Scale, "factor")),
    "class of an object": (lambda a, x: x * a.scale.factor, to(lambda a: Scale, "factor")),
    "slot": (lambda a, x: x * a.scale.own, to(lambda a: a.scale, "own")),
    "method": (lambda a, x: a.scale.applied(x), to(lambda a: a.scale, "own")),
    "bound method": (lambda a, x: a.method(x), to(lambda a: a.scale, "own")),
    "property": (lambda a, x: x * a.scale.doubled / 2, to(lambda a: a.scale, "own")),
    "static method": (lambda a, x: Scale.by_global(x), OF_MODULE),
    "list": (lambda a, x: x * a.numbers[0], at(lambda a: a.numbers, 0)),
    "loop over a list": (lambda a, x: max(x * each for each in a.numbers), at(lambda a: a.numbers, 1)),
    "dictionary": (lambda a, x: x * a.named["s"][0], at(lambda a: a.named["s"], 0)),
    "get": (lambda a, x: x * a.named.get("s")[0], at(lambda a: a.named["s"], 0)),
    "deque": (lambda a, x: x * a.queue[0], at(lambda a: a.queue, 0)),
    "partial": (lambda a, x: a.part(x), at(lambda a: a.numbers, 0)),
    "array": (lambda a, x: x * a.array[0, 1], at(lambda a: a.array, (0, 1))),
    "array's method": (lambda a, x: x * a.array.max(), at(lambda a: a.array, (0, 1))),
    "bytes": (lambda a, x: x * a.bytes[0], lambda a: a.bytes.__setitem__(0, 3)),
    "library's module": (lambda a, x: x * math.weft_factor, to(lambda a: math, "weft_factor")),
    "module": (lambda a, x: x * MODULE.FACTOR, OF_MODULE),
    "function in a list": (lambda a, x: FUNCTIONS[0](x), OF_MODULE),
    "function in a default": (lambda a, x: by_default(x), OF_MODULE),
    "import": (lambda a, x: by_import(x), OF_MODULE),
}


@pytest.mark.parametrize("name", READS)
def test_a_change_of_what_is_read_is_noticed(name, monkeypatch):
    for owner, attribute in ((math, "weft_factor"), (MODULE, "FACTOR"), (Scale, "factor")):
        monkeypatch.setattr(owner, attribute, 2.0, raising=False)
    around, (read, change) = Around(), READS[name]

    def function(x):
        return read(around, x)

    known = reads.reads_of(function)
    assert function(1.0) == 2 and not reads.have_changed(known.values())
    change(around)
    assert function(1.0) == 3 and reads.have_changed(known.values())


def test_a_change_beside_what_is_read_is_ignored():
    around = Around()
    known = reads.reads_of(
        lambda x: (x * around.space.s, around.named["s"][0], around.array.shape, len(around.numbers))
    )
    around.space.o = around.named["o"] = around.array[0, 0] = around.numbers[0] = 3.0
    assert not reads.have_changed(known.values())
    around.numbers.append(4.0)
    assert reads.have_changed(known.values())


def test_shapes_of_other_arrays_are_read_without_their_contents():
    class Tensor:
        shape, elements = (2, 3), [0]

        def __dlpack__(self):
            raise NotImplementedError

    tensor = Tensor()
    known = reads.reads_of(lambda x: x * tensor.shape[0])
    tensor = Tensor()
    tensor.elements = [1]
    assert not reads.have_changed(known.values())
    tensor.shape = (4, 3)
    assert reads.have_changed(known.values())


def changed(before, after):
    """Whether a function's reads show that a variable of its closure has changed."""
    value = before

    def read():
        return value

    known = reads.reads_of(read)
    value = after
    return reads.have_changed(known.values())


@pytest.mark.parametrize(
    "before, after",
    [
        (1, 2),
        (1, 1.0),
        (True, 1),
        ((1, 2), (1, 2.0)),
        (np.float32(1), np.float32(2)),
        (np.float32(1), np.float64(1)),
        (Mode.ONE, Mode.TWO),
        (Sizes(1), Sizes(2)),
        (Sizes(1, ("a",)), Sizes(1, ("b",))),
        (Sizes(1), Loose(1)),
        ((Sizes(1), 2), (Sizes(3), 2)),
        (w.f32, w.f16),
        (1, [1]),
        ([1], [2]),
        (Loose(1), Loose(2)),
        ({"a": (1, [2])}, {"a": (1, [3])}),
        (np.array([1.0]), np.array([2.0])),
        (np.array([1.0]), np.array([1.0], np.float32)),
    ],
)
def test_values_that_are_noticed(before, after):
    assert changed(before, after)


@pytest.mark.parametrize(
    "before, after",
    [
        (1, 1),
        (float("nan"), float("nan")),
        (np.float32(1), np.float32(1)),
        (Sizes(1, ("a",)), Sizes(1, ("a",))),
        ((Mode.ONE, 2), (Mode.ONE, 2)),
        ([1, [2]], [1, [2]]),
        (Loose(1), Loose(1)),
        (np.array([1.0]), np.array([1.0])),
        ({1, 2}, {2, 1}),
    ],
)
def test_values_for_which_nothing_is_traced_again(before, after):
    assert not changed(before, after)


def test_a_number_of_numpy_is_traced_again():
    x, factor = np.zeros(32, np.float32), np.float32(2)

    @w.kernel(threads=32)
    def fill(x: w.Out["n", w.f32]):
        x[w.thread()] = w.f32(1) * factor

    fill(x, on="emulator")
    factor = np.float32(4)
    fill(x, on="emulator")
    assert x[0] == 4


def test_attributes_and_elements_are_traced_again_only_if_they_change():
    x, space, array, traces = np.zeros(32, np.float32), types.SimpleNamespace(s=2.0), np.array([2.0]), []

    @w.kernel(threads=32)
    def fill(x: w.Out["n", w.f32]):
        traces.append(None)  # by the kernel itself
        x[w.thread()] = w.f32(1) * space.s * array[0].item()

    for factor, count in ((2.0, 1), (2.0, 1), (3.0, 2), (3.0, 2)):
        space.s = array[0] = factor
        fill.emulate(x)
        assert x[0] == factor**2 and len(traces) == count


def test_meta_parameters_are_compared_with_their_types_and_contents():
    @w.kernel(threads=32)
    def fill(x: w.Out["n", w.f32], *, s):
        if isinstance(s, types.FunctionType):
            s = s()
        x[w.thread()] = w.f32(1) * (s.factor if isinstance(s, Mutable) else len(repr(s)))

    class Mutable:
        factor = 1.0

    x, number = np.zeros(32, np.float32), Mutable()
    for value in (1, True, 1.0, 0.0, -0.0, (1,), (1.0,)):
        fill.emulate(x, s=value)
        assert x[0] == len(repr(value))
    for factor in (5.0, 6.0):
        number.factor = factor
        fill.emulate(x, s=number)
        assert x[0] == factor
        fill.emulate(x, s=lambda: number)
        assert x[0] == factor


@pytest.mark.parametrize("name", ["_torchdynamo_marker", "__warningregistry__"])
def test_captured_code_s_module_lacks_other_names(name):
    """Inductor asks every module that it meets for attributes of its own."""
    from weft.language.capture import runtime

    assert not hasattr(runtime, name)
