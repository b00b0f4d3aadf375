"""Kernels of `weft.language` with a mistake in the line that ends with `# here`."""

import inspect

import pytest

import weft
import weft.language as w


class Mistakes:
    """A decorator of such kernels, with the message that each of them raises: the cases of a test."""

    def __init__(self):
        self.cases = []

    def __call__(self, message):
        def add(function):
            self.cases.append(pytest.param(function, message, id=function.__name__))
            return function

        return add


def refused(function, message):
    """Where compiling a kernel is refused with this message, which must be in the marked line."""
    lines, first = inspect.getsourcelines(function)
    number = first + next(n for n, line in enumerate(lines) if line.endswith("# here\n"))
    with pytest.raises(weft.WeftError, match=message) as raised:
        w.kernel()(function).compile()
    where = raised.value.diagnostics[0].location
    assert (where.file, where.line) == (inspect.getfile(function), number)
    return where
