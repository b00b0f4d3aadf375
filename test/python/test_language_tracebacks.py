"""Tracebacks of mistakes have the lines of the user's code."""

import numpy as np
import pytest

import weft
import weft.language as w


def scaled_wrongly(x):
    return w.exp(x)


@w.kernel
def with_a_mistake(x: w.In["m n", w.f16], y: w.Out["m n", w.f16]):
    with w.role():
        for _ in w.range(x.rows):
            w.store(scaled_wrongly(w.load(x[0, 0], (64, 64))), y[0, 0])


@pytest.mark.parametrize(
    "call",
    [
        lambda x: with_a_mistake(x, x),
        lambda x: with_a_mistake.emulate(x, x),
        lambda x: with_a_mistake.compile(x, x),
        lambda x: with_a_mistake.prepare(x, x),
    ],
)
def test_tracebacks_have_lines_of_the_user_only(call, monkeypatch):
    def frames():
        with pytest.raises(weft.WeftError, match=r"w\.exp expects values of w\.f32") as raised:
            call(np.zeros((64, 64), np.float16))
        return [(each.path.name, each.name) for each in raised.traceback]

    own = [each[1] for each in frames()]
    assert own == ["frames", "<lambda>", "with_a_mistake", "scaled_wrongly"]
    monkeypatch.setenv("WEFT_FULL_TRACEBACKS", "1")
    assert ("maths.py", "exp") in frames()
