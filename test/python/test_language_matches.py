"""`in`, `is` and `match` with numbers of the GPU: functions compute what they do with numbers of Python."""

import numpy as np
import pytest

import weft
import weft.language as w


class Named:
    FOUR = 4


@w.inline
def of_containers(i, x):
    found = 0
    for number, each in enumerate(
        ((1, 2), [3, i], {5}, {6: 0}, range(7, 20, 3), (), np.array([21, 22]), (None, 2))
    ):
        if i in each:
            found = found + 2**number
        if i not in each and x > 4:
            found = found + 256
    return found + (1000 if 5 in (i, 7) and 0 < i in (5, 6) else 0)


@w.inline
def of_values(i, x):
    found = x
    match i:
        case 0:
            found = 10
        case 1 | 2 | -3:
            found = 20
        case Named.FOUR as four:
            found = 30 + four
        case n if n > 25:
            found = n + 40
        case 7 | 8 if x < 10:
            found = 50
        case other:
            found = other + 60
    return found


@w.inline
def of_sequences(i, x):
    found = 0
    match (i, [x, 3]):
        case (1, _):
            found = 1
        case (2 | 3, (6, three)):
            found = 2 + three
        case [_, _, _]:
            found = 3
        case (n, [9, 3]):
            found = n
    return found


@w.inline
def of_truths(i, x):
    found = 0
    match i > 4:
        case None:
            found = 1
        case True:
            found = 2
        case False:
            found = 3
    return found + (10 if (x > 4) is True else 20) + (0 if (x > 8) is not False else 40)


@w.inline
def of_returns(i, x):
    match i:
        case 0 | 1:
            return x
        case n if n > 20:
            return n
    match "text":
        case "other":
            return i
        case "text" if i in (3, 4):
            return i + 7
    match {"text": [5, 6]}:  # Python's
        case {"text": [five, *rest]} if len(rest) == 1:
            x = x + five
    return x + 1


@pytest.mark.parametrize("function", [of_containers, of_values, of_sequences, of_truths, of_returns])
def test_numbers_of_the_gpu_match_as_those_of_python(function):
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.i32], y: w.Out["n", w.i32]):
        y[w.thread()] = function(w.thread(), x[w.thread()])

    x, y = np.arange(32, dtype=np.int32) * 3 % 10, np.zeros(32, np.int32)
    assert not kernel.emulate(x, y).findings
    assert y.tolist() == [function(i, int(x[i])) for i in range(32)]


def test_elements_are_compared_in_the_type_of_the_number():
    @w.kernel(threads=32)
    def kernel(y: w.Out["n", w.f32]):
        y[0] = 1.0 if w.thread() in (1.5, 2) else 0.0

    with pytest.raises(weft.WeftError, match=r"expects an integer beside a value of w\.i32, got 1\.5"):
        kernel.compile()


def test_a_case_that_stays_pythons_has_a_message():
    @w.kernel(threads=32)
    def kernel(y: w.Out["n", w.f32]):
        match {"a": w.thread()}:
            case {"a": 0}:
                y[0] = 1.0

    with pytest.raises(
        weft.WeftError, match=r"only the GPU knows this condition: .* 'in', 'match' with numbers"
    ):
        kernel.compile()
