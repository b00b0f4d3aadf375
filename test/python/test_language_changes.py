"""Errors about what a loop or branch of the GPU can't change name the function that changes it."""

import inspect
import sys

import pytest

import weft
import weft.language as w

NUMBERS = []


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
    NUMBERS.append(1)  # of a list of the module


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
        (of_the_module, remember, "can't change 'NUMBERS', which isn't made in the kernel"),
    ],
)
def test_errors_are_where_a_function_changes_something(kernel, function, message, monkeypatch):
    monkeypatch.setitem(globals(), "NUMBERS", [])
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
