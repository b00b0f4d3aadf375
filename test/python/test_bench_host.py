"""`weft bench --host`: it times only the calls, on arrays that were created before."""

import json
import time

import pytest

from weft.bench import host
from weft.errors import WeftError


def pair(name, ours, theirs):
    """Calls that take so many seconds; making them takes longer."""

    def calls(seconds):
        def make(count):
            time.sleep(0.002)
            return [lambda: time.sleep(seconds)] * min(count, 5)

        return make

    return host.Pair("torch", name, calls(ours), calls(theirs), lambda: time.sleep(0.002))


def test_the_time_of_calls_is_measured_in_turns_and_compared():
    seen = []
    (figure,) = host.measure([pair("f / g", 0.0002, 0.0004)], 3, lambda *done: seen.append(done))
    # A busy machine sleeps longer.
    assert 200 < figure.ours < 20_000 and 400 < figure.theirs < 40_000 and figure.ratio < 0.9
    assert seen == [(0, 1)]


def test_figures_are_told_as_a_table_and_as_json():
    figures = [host.Figure("torch", "f / g", 2.0, 4.0), host.Figure("jax", "longer / g", 3.0, 2.0)]
    assert host.table(figures).splitlines() == [
        "library call / other    weft   other  ratio",
        "torch   f / g           2.00    4.00   0.50",
        "jax     longer / g      3.00    2.00   1.50",
    ]
    made = json.loads(host.as_json(figures, {"name": "H200"}, {"torch": "2"}))
    assert made["microseconds"][0] == {
        "library": "torch",
        "name": "f / g",
        "ours": 2.0,
        "theirs": 4.0,
        "ratio": 0.5,
    }


def test_libraries_that_arent_there_are_left_out(monkeypatch):
    monkeypatch.setattr(host, "find_spec", lambda name: None)
    with pytest.raises(WeftError, match="none of torch, cupy, jax is installed"):
        host.pairs(host.LIBRARIES)


def test_threads_share_the_calls():
    made = []
    fresh = [lambda: "array"] * 5
    first, *rest = host._threads(lambda a, b, out: made.append((a, b, out)), fresh)(200)
    first()
    for each in rest:
        each()
    assert made == [("array",) * 3] * 200 and len(rest) == 199
