"""Random programs compute what NumPy or Python does, on both paths of the emulator and on a GPU."""

from types import SimpleNamespace

import driver
import everywhere
import pytest
import random_expressions
import random_products
import random_ptx
import random_statements
import random_tiles

from weft.emulator.numerics import emit

KINDS = {
    random_ptx: 2,
    random_tiles: 1,
    random_statements: 4,
    random_expressions: 2,
    random_products: 2,
}
"""How many inputs of each kind the default run has."""
FAULTY = 256
"""An input with an `xor` whose result matters."""
_EACH = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def _check(report: driver.Report) -> None:
    print(report)
    assert not report.failures, report
    # Otherwise most programs would compare nothing.
    assert report.outcomes["agreed"] > report.count // 3, report


@_EACH
def test_programs_agree(kind):
    _check(driver.run(kind.__name__, seconds=100, count=KINDS[kind]))


@_EACH
@pytest.mark.slow
def test_many_programs_agree(kind):
    _check(driver.run(kind.__name__, seconds=driver.slow_seconds(), first=1_000_000))


@_EACH
def test_an_input_is_the_same_in_every_run(kind):
    assert kind.make(7) == kind.make(7) != kind.make(8)


def test_inputs_are_for_all_chips():
    assert {random_ptx.make(n).split()[1].strip(",") for n in range(60)} == {*everywhere.CHIPS}


@pytest.mark.slow
def test_a_fault_of_compiled_code_is_found_and_minimized(monkeypatch):
    """The attempts are in forks of this process, and have its fault."""
    random_ptx.begin()
    monkeypatch.setenv("WEFT_CACHE", "0")
    monkeypatch.setitem(emit._BITWISE, "bitwise_xor", "or")
    monkeypatch.setattr(random_ptx, "TOGETHER", 2)
    monkeypatch.setattr(driver, "MINIMIZED", 1)
    monkeypatch.setattr(driver, "MINIMIZING_SECONDS", 100.0)
    report = driver.supervise(random_ptx, FAULTY, 1, 100, 20)
    assert len(report.failures) == 1, report
    chip, mark, *lines = report.failures[0].text.splitlines()
    assert chip.startswith("# sm_") and mark.startswith("// program")
    assert len(lines) == 1 and "xor" in lines[0] and "compiled code" in report.failures[0].detail


def test_minimizing_keeps_the_kind_of_a_failure():
    """Here other inputs raise another exception or none."""

    def attempt(text):
        if "first" not in text.splitlines():
            raise KeyError("first")
        if "(second)" in text:
            raise KeyError("second")
        return "ran"

    text = "\n".join([*map(str, range(20)), "first", *map(str, range(9)), "@p f(x, (second)); g", "last"])
    kind = SimpleNamespace(make=lambda _: text, attempt=attempt)
    (failure,) = driver.supervise(kind, 0, 1, 60, 5).failures
    assert (failure.number, failure.text) == (0, "first\nf(second)")
