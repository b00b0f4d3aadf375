"""Values of global variables and closures, whose changes a kernel of `weft.language` notices."""

import enum
from dataclasses import dataclass

import numpy as np
import pytest

import weft.language as w
from weft.language import surroundings


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


def changed(before, after):
    """Whether a function's reads show that a variable of its closure has changed."""
    value = before

    def read():
        return value

    known = surroundings.reads(read)
    value = after
    return surroundings.have_changed(known)


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
        ([1], [2]),  # documented: lists and other objects aren't compared
        (Loose(1), Loose(2)),
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
