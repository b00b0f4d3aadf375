"""Loops and branches of the GPU that change lists, dictionaries and objects in place."""

import array
import collections
import dataclasses
import inspect
import re
import sys
import types

import numpy as np
import pytest

import weft
import weft.language as w

NUMBERS, NAMED, CALLS = [0], {"a": 0}, 0
GRID = np.zeros(4)


class Plain:
    made: list[int] = []  # noqa: RUF012

    def __init__(self, number):
        self.number = number

    @w.inline
    def grow(self, by):
        self.number = self.number + by
        return self


class Slots:
    __slots__ = ("number",)

    def __init__(self, number):
        self.number = number


OUTSIDE = Plain(0)


@dataclasses.dataclass(frozen=True)
class Options:
    numbers: Plain


@w.inline
def through_a_function(numbers):
    numbers[0] += 1


def plainly(numbers):
    numbers[0] += 1


@w.inline
def remembers(number, kept=[]):  # noqa: B006
    kept.append(number)


def values_of(change):
    """What a function of a number of the GPU and a condition computes in each thread."""
    change = w.inline(change)

    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.i32], y: w.Out["n", w.i32]):
        i = w.thread()
        y[i] = change(x[i], i < 16)

    y = np.zeros(32, np.int32)
    assert not kernel.emulate(np.arange(32, dtype=np.int32), y).findings
    return y


def alias_in_a_loop(x, condition):
    s = [x]
    q, total = s, w.i32(0)
    for k in w.range(3):
        s[0] += k
        total += q[0]
    return total - 3 * x + q[0]


def alias_in_parts_of_a_loop(x, condition):
    s = [x]
    q, total = s, w.i32(0)
    for k in w.range(0, 3, unroll=2):
        s[0] += k
        total += q[0]
    return total - 3 * x + q[0]


def alias_in_while(x, condition):
    s, n = [x], w.i32(0)
    held, total = {"s": s}, w.i32(0)
    while n < 3:
        held["s"][0] += n
        total += s[0]
        n += 1
    return total - 3 * x + s[0]


def alias_in_a_branch(x, condition):
    s = [x + 4]
    q = s
    if condition:
        s[0] -= 4
        q[0] = s[0]
    else:
        q[0] = s[0]
    if condition:
        s[0] += 4
    return q[0] + 0 * s[0]


def name_of_a_part(x, condition):
    rows = [[x], [x]]
    for k in w.range(3):
        row = rows[1]
        row[0] += k
    for row in rows:
        for _ in w.range(1):
            row[0] += 1
    return rows[1][0] + rows[0][0] - x


def swapped_in_a_loop(x, condition):
    s, q, rows = [x], [x + 4], [[x], [x + 8]]
    for _ in w.range(3):
        s, q = q, s
        rows[0], rows[1] = rows[1], rows[0]
        s[0] += 0
    return s[0] + rows[0][0] - rows[1][0] - x + q[0] - 8


def objects_of_classes(x, condition):
    state, other = Plain(x), Slots(x)
    same = state
    if condition:
        state.number += 4
        other.number += 1
    else:
        same.grow(4)
        other.number += 1
    for _ in w.range(2):
        same.number += 0
        other.number -= 1
    return state.number + (other.number + 1 - x)


def variable_of_a_function(x, condition):
    number = x

    def step():
        nonlocal number
        number += 2

    if condition:
        step()
        step()
    if x >= 16:
        number += 4
    return number


def default_value(x, condition):
    def step(kept=[x]):  # noqa: B006
        kept[0] += 2
        return kept[0]

    if condition:
        step()
    else:
        step()
    return step()


def conditional_expression(x, condition):
    s = [x, x]

    def put(at):
        s[at] += 4
        return at

    at = put(0) if condition else put(1)
    return w.where(at == 0, s[0], s[1])


def one_list_made_in_both_sides(x, condition):
    if condition:
        s = q = [x + 1]
    else:
        s = q = [x + 2]
    s[0] = x
    q[0] += 4
    return s[0]


def keys_in_other_orders(x, condition):
    found = {"a": x, "b": x + 4}
    if condition:
        found = {"b": x + 4, "a": x}
    for _ in w.range(2):
        found = {"b": found["b"], "a": found["a"]}
    return found["b"]


def equal_lengths(x, condition):
    found = [x]
    if condition:
        found.append(x + 4)
    else:
        found.extend([x + 4])
    return found[1]


def pushed_and_popped(x, condition):
    found = [x]
    for _ in w.range(2):
        found.append(found[0] + 2)
        found.pop(0)
    return found[0]


@pytest.mark.parametrize(
    "change",
    [
        *(alias_in_a_loop, alias_in_parts_of_a_loop, alias_in_while, alias_in_a_branch, name_of_a_part),
        *(
            swapped_in_a_loop,
            objects_of_classes,
            variable_of_a_function,
            default_value,
            conditional_expression,
        ),
        *(one_list_made_in_both_sides, keys_in_other_orders, equal_lengths, pushed_and_popped),
    ],
)
def test_objects_change_as_in_python(change):
    expected = {"alias_in_a_loop": 7, "alias_in_parts_of_a_loop": 7, "alias_in_while": 7}
    added = expected.get(change.__name__, 5 if change is name_of_a_part else 4)
    assert np.array_equal(values_of(change), np.arange(32) + added)


@pytest.mark.each_value
@pytest.mark.parametrize(
    "name, code",
    [
        ("NUMBERS", "NUMBERS[0] += 1"),
        ("NUMBERS", "NUMBERS.append(1)"),
        ("NUMBERS", "del NUMBERS[0]"),
        ("NUMBERS", "plainly(NUMBERS)"),
        ("NUMBERS", "through_a_function(NUMBERS)"),
        ("NUMBERS", "same[0] = 1"),
        ("NUMBERS", "same += [1]"),
        ("NAMED", "NAMED['a'] = y[i]"),
        ("NAMED", "NAMED.update(b=1)"),
        ("NAMED", "NAMED.setdefault('b', []).append(1)"),
        ("OUTSIDE", "OUTSIDE.number = 1"),
        ("OUTSIDE", "OUTSIDE.grow(1)"),
        ("OUTSIDE", "setattr(OUTSIDE, 'number', 1)"),
        ("Plain.made", "Plain(0).made.append(1)"),
        ("an attribute of 'Plain'", "Plain.made = [1]"),
        ("an attribute of 'numpy'", "np.other = 1"),
        ("options", "options.numbers.number += 1"),
        ("remembers", "remembers(1)"),
        ("around", "around[0] += 1"),
        ("count", "step()"),
        ("CALLS", "count_calls()"),
    ],
)
@pytest.mark.parametrize("construct", ["if i < 3:", "for _ in w.range(2):", "while y[i] < 1:"])
def test_objects_that_arent_made_in_the_kernel(name, code, construct, tmp_path, monkeypatch):
    text = f"""
def made(w, np, NUMBERS, NAMED, OUTSIDE, Plain, plainly, through_a_function, remembers):
    around, count = [0], 0

    def step():
        nonlocal count
        count += 1

    def count_calls():
        global CALLS
        CALLS = 1

    @w.kernel(threads=32)
    def kernel(y: w.Out["n", w.i32], *, options):
        i, same = w.thread(), NUMBERS
        {construct}
            {code}
            y[i] = 1

    return kernel
"""
    path, names = tmp_path / "kernels.py", {"CALLS": 0}
    path.write_text(text)
    exec(compile(text, str(path), "exec"), names)
    given = NUMBERS, NAMED, OUTSIDE, Plain, plainly, through_a_function, remembers
    monkeypatch.setattr(Plain, "made", [])
    kernel = names["made"](w, np, *given)
    name = name if name.startswith("an ") else f"'{name}'"
    message = f"a loop or branch of the GPU can't change {name}, which isn't made in the kernel"
    with pytest.raises(weft.WeftError, match=re.escape(message)) as caught:
        kernel.emulate(np.zeros(32, np.int32), options=Options(OUTSIDE))
    NUMBERS[:], OUTSIDE.number, Plain.made = [0], 0, []
    NAMED.clear()
    NAMED["a"] = 0
    where = caught.value.diagnostics[0].location
    at_once = not code.startswith(("plainly", "setattr", "step", "count_calls"))
    if where.file == str(path) and at_once:
        assert text.splitlines()[where.line - 1].strip() == code


@pytest.mark.parametrize(
    "code, message",
    [
        ("found = {i}", "it can't be in a set or a key of a dictionary: use a list"),
        ("found = {x[i]: 1}", "it can't be in a set or a key of a dictionary: use a list"),
        (
            "found = {w.shared(1, 8, w.i32)[0, 0]}",
            "it can't be in a set or a key of a dictionary: use a list",
        ),
        (
            "found = i < 3_000_000_000",
            "3000000000 is beyond the numbers of w.i32, which are less than 2147483648",
        ),
        ("found = i // 0x80000000", "2147483648 is beyond the numbers of w.i32"),
        ("found = w.load(x[0], 512) > 2**31", "2147483648 is beyond the numbers of w.i32"),
        ("if i < 3: numbers[0] = 1", "can't change Python's ndarray: all threads would get the change"),
        ("if i < 3: others[0] = 1", "can't change Python's array: all threads would get the change"),
        ("if i < 3: step.number = 1", "can't change an attribute of 'step', which isn't made in the kernel"),
    ],
)
def test_what_only_looks_like_python(code, message, tmp_path):
    text = f"""
@w.kernel(threads=128)
def kernel(x: w.In["n", w.i32], y: w.Out["n", w.i32]):
    i, numbers, others = w.thread(), np.zeros(2), array.array("i", [0])
    def step(): return 0
    {code}
"""
    path, names = tmp_path / "kernels.py", {"w": w, "np": np, "array": array}
    path.write_text(text)
    exec(compile(text, str(path), "exec"), names)
    with pytest.raises(weft.WeftError, match=re.escape(message)) as caught:
        names["kernel"].compile()
    assert caught.value.diagnostics[0].location.line == 6


def test_numbers_of_python_that_a_branch_adds_to():
    @w.kernel(threads=32)
    def kernel(y: w.Out["n", w.i32]):
        i, count, text = w.thread(), 1, "a"
        if i < 3:
            count += 4
        if i < 5:
            inner = 1
            inner += 2
            text += ""
            count += inner
        y[i] = count + len(text)

    y, i = np.zeros(32, np.int32), np.arange(32)
    assert not kernel.emulate(y).findings
    assert np.array_equal(y, 2 + 4 * (i < 3) + 3 * (i < 5))


def test_objects_of_libraries():
    @w.kernel(threads=32)
    def kernel(y: w.Out["k n", w.i32]):
        i = w.thread()
        space, counts = types.SimpleNamespace(a=i), collections.Counter(a=1)
        same, queue = space, collections.deque([i, 0])
        if i < 16:
            same.a += 1
            counts["a"] += 1
            queue.rotate()
            table = np.zeros(2, np.int32)
            table[0] = 3
            y[3, i] = table[0]
        for _ in w.range(2):
            same.a += 1
            queue[1] += 1
        y[0, i], y[1, i], y[2, i] = space.a, counts["a"], queue[1]

    y, i = np.zeros((4, 32), np.int32), np.arange(32)
    assert not kernel.emulate(y).findings
    assert np.array_equal(y[0], i + 2 + (i < 16)) and np.array_equal(y[1], 1 + (i < 16))
    assert np.array_equal(y[2], np.where(i < 16, i, 0) + 2) and np.array_equal(y[3], 3 * (i < 16))


@pytest.mark.parametrize(
    "begin, change, read",
    [
        ("n = 0", "n += 1", "n"),
        ("n = [0]", "n[0] += 1", "n[0]"),
        ("n = Plain(0)", "n.number = 4", "n.number"),
        ("n = {'a': [True]}", "n['a'][0] = False", "n['a'][0].to(w.i32)"),
    ],
)
@pytest.mark.parametrize("only_one", [False, True])
def test_numbers_that_change_in_a_role(begin, change, read, only_one, tmp_path):
    inside = f"with w.one_thread():\n            {change}" if only_one else change
    after = f"y[0] = {read}" if only_one else f"0\n    with w.role():\n        y[0] = {read}"
    text = f"""
@w.kernel
def kernel(y: w.Out["n", w.i32]):
    {begin}
    with w.role():
        {inside}
        {after}
"""
    path, names = tmp_path / "kernels.py", {"w": w, "Plain": Plain}
    path.write_text(text)
    exec(compile(text, str(path), "exec"), names)
    message = "'n' changes in a role or in w.one_thread, which other threads don't execute"
    with pytest.raises(weft.WeftError, match=message) as caught:
        names["kernel"].compile()
    assert f"y[0] = {read}" in text.splitlines()[caught.value.diagnostics[0].location.line - 1]


def test_roles_with_numbers_of_their_own():
    @w.kernel
    def kernel(y: w.Out["n", w.i32]):
        phase, state = 0, Plain(w.i32(0))
        with w.role():
            phase += 1
            state.number = state.number + phase
            for _ in range(2):
                phase += 1
            if w.thread() == 0:
                y[0] = state.number + phase
        with w.role():
            phase = 5
            if w.thread() == 0:
                y[1] = phase

    y = np.zeros(2, np.int32)
    assert not kernel.emulate(y).findings
    assert y.tolist() == [4, 5]


def generated():
    yield from (1, 2, 3)


@pytest.mark.parametrize(
    "made",
    [
        *(lambda: iter([1, 2, 3]), lambda: enumerate([1, 2]), generated, lambda: (k for k in range(4))),
        *(lambda: zip([1, 2], [2, 3], strict=True), lambda: map(abs, [1, 2]), lambda: reversed([1, 2])),
    ],
)
def test_iterators_that_loops_and_branches_advance(made):
    @w.kernel(threads=32)
    def kernel(y: w.Out["n", w.i32], *, where):
        i, numbers = w.thread(), made()
        next(numbers)
        if where == "branch":
            if i < 3:
                next(numbers)
        elif where == "loop":
            for _ in w.range(2):
                next(numbers)
        else:
            for _ in w.range(2):
                y[i] = 1
        next(numbers)

    for where in ("branch", "loop"):
        with pytest.raises(weft.WeftError, match="can't take values from 'numbers', an iterator of Python"):
            kernel.compile(where=where)
    kernel.compile(where="before and after")


@pytest.mark.parametrize("change", ["a[0] = 3", "b[0] = 3"])
@pytest.mark.parametrize("around", ["if i < 16:", "for _ in w.range(y.shape[0]):"])
def test_objects_that_may_be_one_stay_as_they_are(around, change, tmp_path):
    """Whether `a` and `b` are one list is known on the GPU only, so neither can be changed for both."""
    text = f"""
@w.kernel(threads=32)
def kernel(y: w.Out["n", w.i32]):
    i = w.thread()
    a, b = [i], [i + 1]
    {around}
        a = b
    {change}
    y[i] = a[0] + b[0]
"""
    path, names = tmp_path / "kernels.py", {"w": w}
    path.write_text(text)
    exec(compile(text, str(path), "exec"), names)
    with pytest.raises(weft.WeftError, match="may have the same object") as caught:
        names["kernel"].compile(np.zeros(32, np.int32), arch="sm_90a")
    assert change in text.splitlines()[caught.value.diagnostics[0].location.line - 1]


NUMBERS_OF_CHANGES = []


class Count:
    number = 0


def append(values):
    del values[:0]
    values.append(w.f32(1))  # of a list


def append_later(values):
    append(values)


def increase(count):
    count.number += 1  # of an object


def remember():
    NUMBERS_OF_CHANGES.append(1)  # of a list of the module


def of_a_list(n: w.In["n", w.i32]):
    values = [w.f32(0)]
    for _ in w.range(n[0]):  # around
        append(values)  # call


def of_a_list_in_a_branch(n: w.In["n", w.i32]):
    values = [w.f32(0)]
    if n[0] > 0:  # around
        append_later(values)  # call


def of_an_object(n: w.In["n", w.i32]):
    count = Count()
    count.number = 3
    while n[0] > count.number:  # around
        increase(count)  # call


def of_the_module(n: w.In["n", w.i32]):
    for _ in w.range(n[0]):  # around
        remember()  # call


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + next(n for n, line in enumerate(lines) if text in line)


@pytest.mark.parametrize(
    "kernel, function, message",
    [
        (of_a_list, append, "'values' was a list of 1 and becomes one of 2"),
        (of_a_list_in_a_branch, append, "'values' was a list of 2 and becomes one of 1"),
        (of_an_object, increase, "'count' was the Python int 3 and becomes the Python int 4"),
        (of_the_module, remember, "can't change 'NUMBERS_OF_CHANGES', which isn't made in the kernel"),
    ],
)
def test_errors_are_where_a_function_changes_something(kernel, function, message, monkeypatch):
    monkeypatch.setitem(globals(), "NUMBERS_OF_CHANGES", [])
    hook = sys.gettrace()
    with pytest.raises(weft.WeftError) as raised:
        w.kernel(threads=32)(kernel).compile()
    assert sys.gettrace() is hook
    (error,) = raised.value.diagnostics
    call, around = error.notes
    assert message in error.message
    assert error.location.line == line_of(function, "# of")
    assert (call.message, call.location.line) == ("it is called here", line_of(kernel, "# call"))
    assert around.location.line == line_of(kernel, "# around")
