"""Branches of the GPU: numbers of Python that they assign, and conditions by `in`, `is` and `match`."""

import dataclasses
import enum

import numpy as np
import pytest

import weft
import weft.language as w


@w.kernel(threads=64)
def chosen(x: w.In["n", w.f32], y: w.Out["k n", w.f32]):
    i = w.thread()
    count, scale, first, element = 0, 1, False, 0.0
    if i < 40:
        count, scale, element = 3, 0.5, x[i]
        if i < 10:
            first = True
            count = 7
    elif i > 60:
        first = x[i] > 0.0
        element = 2.0
    y[0, i] = count.to(w.f32)
    y[1, i] = scale
    if first:
        y[2, i] = 1.0
    y[3, i] = element
    start = x[i]
    if i > 50:
        start = 4
    y[4, i] = start


def test_numbers_of_both_sides_become_values_of_the_gpu():
    x = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    y, i = np.zeros((5, 64), np.float32), np.arange(64)
    assert not chosen.emulate(x, y).findings
    assert np.array_equal(y[0], np.where(i < 10, 7, np.where(i < 40, 3, 0)))
    assert np.array_equal(y[1], np.where(i < 40, 0.5, 1))
    assert np.array_equal(y[2], (i < 10) | ((i > 60) & (x > 0)))
    assert np.array_equal(y[3], np.where(i < 40, x, np.where(i > 60, 2, 0)).astype(np.float32))
    assert np.array_equal(y[4], np.where(i > 50, np.float32(4), x))


def test_conditional_expressions_give_numbers_the_types_of_branches():
    @w.kernel(threads=64)
    def kernel(x: w.In["n", w.f32], y: w.Out["m n", w.f32]):
        i = w.thread()
        y[0, i] = x[i] if i < 40 else 7
        y[1, i] = 7 if i < 40 else x[i] + 0.5
        y[2, i] = 1 if i < 40 else 7.5
        half = w.f16(2) if i < 40 else 1
        y[3, i] = half.to(w.f32)
        known = 8 if i < 40 else 2**3
        assert known == 8 and isinstance(known, int)

    x, y, i = np.arange(64, dtype=np.float32), np.zeros((4, 64), np.float32), np.arange(64)
    assert not kernel.emulate(x, y).findings
    for row, (one, other) in zip(y, ((x, 7), (7, x + 0.5), (1, 7.5), (2, 1)), strict=True):
        assert np.array_equal(row, np.where(i < 40, one, other))


def test_conditional_expressions_of_other_types_are_refused():
    @w.kernel(threads=32)
    def kernel(y: w.Out["n", w.i32]):
        y[0] = w.thread() if w.thread() > 3 else 1.5

    with pytest.raises(
        weft.WeftError, match=r"error: the value was a value of w\.i32 and becomes the Python fl"
    ):
        kernel.compile()


def test_numbers_that_both_sides_have_stay_numbers_of_python():
    @w.kernel(threads=32)
    def kernel(y: w.Out["n", w.i32]):
        i, width = w.thread(), 8
        if i < 3:
            width = 8
            y[i] = 1
        assert width == 8 and isinstance(width, int)

    kernel.compile()


@pytest.mark.parametrize("other", [True, 0.5])
def test_types_that_dont_fit_are_refused(other):
    @w.kernel(threads=32)
    def kernel(y: w.Out["n", w.i32]):
        v = w.thread()
        if v < 3:
            v = other
        y[0] = v

    with pytest.raises(weft.WeftError, match=r"'v' was the Python .* and becomes a value of w\.i32, on the"):
        kernel.compile()


@pytest.mark.slow
def test_threads_are_a_function_of_meta_parameters():
    @w.kernel(grid=lambda x: x.rows, threads=lambda N: N // 2)
    def ordered(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], *, N=128):
        """Each row, sorted: a bitonic network in shared memory."""
        row, i, own = w.cta(), w.thread(), w.shared(1, N, w.f32)
        for at in (i, i + N // 2):
            own[at] = x[row, at] if at < x.columns else w.inf
        w.barrier()
        for size in (2**each for each in range(1, N.bit_length())):
            half = size // 2
            while half:
                low = i // half * 2 * half + i % half
                a, b = own[low], own[low + half]
                if (a > b) == (low // size % 2 == 0):
                    own[low], own[low + half] = b, a
                w.barrier()
                half //= 2
        for at in (i, i + N // 2):
            if at < x.columns:
                y[row, at] = own[at]

    for columns, N in ((100, 128), (64, 64)):
        x = np.random.default_rng(0).standard_normal((3, columns)).astype(np.float32)
        y = np.zeros_like(x)
        assert not ordered.emulate(x, y, N=N).findings
        assert np.array_equal(y, np.sort(x))
        assert ordered.compile(N=N).launch.block == (N // 2, 1, 1)
    with pytest.raises(weft.WeftError, match=r"threads must be a multiple of 32 in 32\.\.1024, got 24$"):
        ordered.compile(N=48)
    for wrong in (48, 2048, True, "32"):
        with pytest.raises(weft.WeftError, match=r"threads must be a multiple of 32 in 32\.\.1024, got "):
            w.kernel(threads=wrong)(ordered.__wrapped__)
    w.kernel(threads=enum.IntEnum("Threads", {"WARPGROUP": 128}).WARPGROUP)(ordered.__wrapped__)


def test_conditions_of_loops_have_effects_once_for_each_iteration():
    @w.kernel(threads=128)
    def kernel(x: w.In["n", w.i32], y: w.Out["n", w.i32]):
        bound = w.shared(1, 8, w.i32)
        bound[0] = 5
        w.barrier()
        i = w.thread()
        if i == 0:
            while w.atomic_add(y[0], 1) < bound[0] and x[0] == 0:
                y[1] += 1
        rounds = w.i32(0)
        while w.sum(x[i]) > rounds:  # a reduction of all threads, with memory of its own
            rounds += 64
        steps = 0
        while (w.atomic_add(y[3], 1) is None) or steps < 3:  # Python's
            steps += 1
        if i == 0:
            y[2] = rounds

    x, y = np.ones(128, np.int32), np.zeros(128, np.int32)
    x[0] = 0
    assert not kernel.emulate(x, y).findings
    assert y[:4].tolist() == [6, 5, 128, 4 * 128]


COUNTS = [0]
COUNTED: list[int] = []


def test_functions_change_what_functions_around_them_have():
    starts = [0]

    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.f32], y: w.Out["n", w.f32]):
        buffer, steps = w.shared(1, 32, w.f32), [w.i32(0)]

        def put(i, value, negative):
            import math

            if negative:  # Python's
                buffer[i] = -value
            else:
                buffer[i] = value * math.e
            if value > 0.5:
                steps[0] += 1

            def further():
                for _ in w.range(3):
                    steps[0] += 2

            further()
            return buffer[i]

        i = w.thread()
        y[i] = put(i, x[i], True) + steps[0].to(w.f32)
        for _ in range(2):
            COUNTS[0] += 1
            starts[0] += 1

    x, y = np.linspace(0, 1, 32).astype(np.float32), np.zeros(32, np.float32)
    assert not kernel.emulate(x, y).findings
    assert np.allclose(y, np.where(x > 0.5, 7, 6) - x)
    assert COUNTS == starts == [2]


@dataclasses.dataclass
class Counted:
    number: object

    @w.inline
    def in_a_loop(self):
        for _ in w.range(3):
            self.number += 1

    @w.inline
    def in_a_branch(self, value):
        if value > 0:
            self.number += 1
        else:
            self.number -= 1

    @w.inline
    def early(self, value):
        if value > 0:
            self.number += 1
            return
        self.number -= 1


@w.inline
def added(numbers, key):
    for _ in w.range(0, 7, unroll=2):
        numbers[key] += 1


def changed_by(how, x, number):
    """Changes a number in a list, dictionary or object in place, and returns it by another name."""
    state, numbers, named = Counted(number), [number], {"a": number}
    other, others = state, numbers
    if how == "a loop":
        state.in_a_loop()
    elif how == "a branch":
        state.in_a_branch(x)
        state.in_a_branch(-x)
        state.in_a_branch(x)
    elif how == "a return":
        state.early(x)
    elif how == "a list":
        added(numbers, 0)
        return others[0]
    elif how == "a dictionary":
        added(named, "a")
        return named["a"]
    return other.number


@pytest.mark.parametrize(
    "how, steps", [("a loop", 3), ("a branch", 1), ("a return", 1), ("a list", 7), ("a dictionary", 7)]
)
def test_objects_that_functions_change_in_place(how, steps):
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.f32], y: w.Out["n", w.i32]):
        i = w.thread()
        y[i] = changed_by(how, x[i], i)

    x, y = np.where(np.arange(32) < 16, 1, -1).astype(np.float32), np.zeros(32, np.int32)
    assert not kernel.emulate(x, y).findings
    expected = np.where(x > 0, steps, -steps) if how in ("a branch", "a return") else steps
    assert np.array_equal(y, np.arange(32) + expected)


def test_names_of_one_object():
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.f32], y: w.Out["n", w.i32]):
        state, numbers, n = Counted(w.i32(0)), [w.i32(0)], w.i32(0)
        same, other, before = state, numbers, numbers
        while n < 3:  # changes the object in place
            state.number += 1
            n += 1
        for _ in w.range(3):  # makes another list
            numbers = [numbers[0] + 1]
        if x[0] > 0:
            other = [other[0] + 5]
        y[0], y[1], y[2], y[3] = same.number, numbers[0], other[0], before[0]

    y = np.zeros(32, np.int32)
    assert not kernel.emulate(np.ones(32, np.float32), y).findings
    assert y[:4].tolist() == [3, 3, 5, 0]


def nested(x, number):
    numbers = [[number], [number + 1]]
    first = numbers[0]
    for k in w.range(5):
        numbers[0][0] += k
    return first[0]


def twice(x, number):
    numbers = [number]
    pair = {"a": numbers, "b": numbers}
    for _ in w.range(0, 3, unroll=2):
        pair["a"][0] += 1
        pair["b"][0] += 1
    return numbers[0]


def two_names(x, number):
    numbers, n = [number], w.i32(0)
    same = numbers
    while n < 3:
        numbers[0] += 1
        same[0] += 1
        n += 1
    return numbers[0]


def not_read_later(x, number):
    numbers = [number]
    same = numbers
    if x > 0:
        same[0] += 6
    return numbers[0]


def two_names_in_a_branch(x, number):
    numbers = [number]
    same = numbers
    if x < 0:
        numbers[0] += 7
    else:
        numbers[0] += 3
        same[0] += 3
    if x < 0:
        numbers[0] -= 7
    return numbers[0]


@pytest.mark.parametrize(
    "change, expected",
    [(nested, (10, 10)), (twice, (6, 6)), (two_names, (6, 6))]
    + [(change, (0, 6)) for change in (not_read_later, two_names_in_a_branch)],
)
def test_lists_with_several_names(change, expected):
    change = w.inline(change)

    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.f32], y: w.Out["n", w.i32]):
        i = w.thread()
        y[i] = change(x[i], i)

    x, y = np.where(np.arange(32) < 16, -1, 1).astype(np.float32), np.zeros(32, np.int32)
    assert not kernel.emulate(x, y).findings
    assert np.array_equal(y, np.arange(32) + np.where(x > 0, expected[1], expected[0]))


def test_one_list_that_becomes_two_in_a_loop():
    @w.kernel(threads=32)
    def kernel(y: w.Out["n", w.i32]):
        a = b = [w.i32(0)]
        for _ in w.range(3):
            a[0] += 1
            b = [b[0] + 2]
        y[0] = a[0] + b[0]

    with pytest.raises(weft.WeftError, match="'a' and 'b' have one object before a loop of the GPU"):
        kernel.emulate(np.zeros(32, np.int32))


def test_functions_that_change_objects_in_a_loop():
    @w.kernel(threads=32)
    def kernel(y: w.Out["n", w.i32]):
        state, numbers, count = Counted(w.i32(0)), [w.i32(0)], w.i32(0)

        def step():
            nonlocal count
            numbers[0] += 1
            count += 10

        for i in w.range(3):
            state.in_a_loop()
            step()
            y[i] = state.number + numbers[0] + count

    y = np.zeros(32, np.int32)
    assert not kernel.emulate(y).findings
    assert y[:3].tolist() == [14, 28, 42]


def test_functions_that_change_objects_unseen_in_a_loop():
    @w.kernel
    def kernel(x: w.In["m n", w.f16], y: w.Out["n", w.i32]):
        ring = w.ring(1, x=(64, 64, x.dtype))
        with w.role():
            held = {"stage": ring.take(), "number": w.i32(0)}

            def step():
                held["number"] += 1

            for i in w.range(3):
                step()
                y[i] = held["number"]
        with w.role():
            ring.fill(x=x[0, 0])

    with pytest.raises(weft.WeftError, match="a function changes 'held' in a loop of the GPU"):
        kernel.compile()


def test_and_and_or_have_the_values_of_operands():
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.i32], y: w.Out["k n", w.i32]):
        i = w.thread()
        n = i - 2
        y[0, i] = x[i] and i + 5
        y[1, i] = n or 7
        y[2, i] = (n and x[i] and 9) or -1
        inside = i < 16 and x[i] > 3
        y[3, i] = inside.to(w.i32)
        if (x[i] and n) or x[i] == 0:
            y[4, i] = 1
        y[5, i] = 1 if not (x[i] or n) else 2

    x, y, i = np.arange(32, dtype=np.int32) % 5, np.zeros((6, 32), np.int32), np.arange(32)
    assert not kernel.emulate(x, y).findings
    pairs = [*zip(x.tolist(), i.tolist(), strict=True)]
    assert y[0].tolist() == [a and b + 5 for a, b in pairs]
    assert y[1].tolist() == [b - 2 or 7 for _, b in pairs]
    assert y[2].tolist() == [((b - 2) and a and 9) or -1 for a, b in pairs]
    assert y[3].tolist() == [b < 16 and a > 3 for a, b in pairs]
    assert y[4].tolist() == [bool((a and b - 2) or a == 0) for a, b in pairs]
    assert y[5].tolist() == [1 if not (a or b - 2) else 2 for a, b in pairs]


@pytest.mark.parametrize("word", ["and", "or"])
@pytest.mark.parametrize("swapped", [False, True])
def test_and_and_or_of_a_condition_and_a_number(word, swapped):
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.i32], y: w.Out["n", w.i32]):
        i = w.thread()
        number, condition = x[i], i < 3
        if word == "and":
            found = (number and condition) if swapped else (condition and number)
        else:
            found = (number or condition) if swapped else (condition or number)
        if found:
            y[i] = 1

    message = (
        f"the value of '{word}' is one of its operands, of which one is a condition and one is a value of"
    )
    with pytest.raises(weft.WeftError, match=f"{message} w.i32: compare that with 0"):
        kernel.compile()


def test_names_of_the_module_keep_their_values():
    @w.kernel(threads=32)
    def kernel(y: w.Out["n", w.i32]):
        i = w.thread()
        for _ in w.range(2):
            y[i] += int(np.append([1], 2)[1])
        COUNTED.append(1)

    y, module = np.zeros(32, np.int32), np
    assert not kernel.emulate(y).findings
    assert (y == 4).all() and np is module and COUNTED == [1]


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
