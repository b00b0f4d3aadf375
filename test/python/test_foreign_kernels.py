"""The harness of benchmarks/foreign, on a kernel of the test data."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from emulator_corpus import facts, text

FOREIGN = Path(__file__).resolve().parents[2] / "benchmarks" / "foreign"


def loaded(name):
    spec = importlib.util.spec_from_file_location(f"foreign_{name}", FOREIGN / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def harness():
    return loaded("harness")


def softmax(harness, grid=3, rows=3, ptx=None):
    """A case: a softmax by Triton."""
    name, what = "triton.softmax", facts("triton.softmax", "sm_80")
    x = np.linspace(-2, 2, 300, dtype=np.float32).reshape(3, 100)
    y, scratch = np.zeros_like(x)[:rows], np.zeros(128, np.uint8)
    module = harness.parse(ptx or text(name, "sm_80"))
    args = [x, y, 100, 100, scratch, 0]
    harness.launch(module, what["name"], (grid,), 32 * what["num_warps"], args, shared_bytes=what["shared"])
    e = np.exp(x)
    yield y, (e / e.sum(1, keepdims=True))[:rows], 1e-5


def test_a_right_launch_counts_as_ran_right_and_silent(harness):
    outcome = harness.attempt("softmax", lambda: softmax(harness))
    assert (outcome.wrong, outcome.failed) == ("", "")
    assert [(each.findings, each.error) for each in outcome.launches] == [([], "")]


def test_a_wrong_result_a_fault_and_a_finding_are_told(harness):
    wrong = harness.attempt("a row too few", lambda: softmax(harness, grid=2))
    assert wrong.wrong.startswith("result 0: 100 of 300 elements differ, at (2, 0) 0.0 instead of")
    fault = harness.attempt("a row too many", lambda: softmax(harness, rows=2))
    assert fault.launches[0].error.startswith("Fault: ") and "out-of-bounds" in fault.failed
    without = text("triton.softmax", "sm_80").replace("bar.sync", "// bar.sync")
    racing = harness.attempt("no barrier", lambda: softmax(harness, ptx=without))
    assert "shared-race" in racing.launches[0].findings
    unread = harness.attempt("no PTX", lambda: softmax(harness, ptx="no PTX"))
    assert unread.launches[0].error.startswith("PtxError: ")


def test_the_report_explains_every_case_or_says_that_it_does_not(harness, capsys):
    run = loaded("run")
    good = {
        "case": "good",
        "launches": [{"kernel": "k", "findings": [], "error": ""}],
        "wrong": "",
        "failed": "",
    }
    assert run.report({"liger": [good]}) == 0
    bad = good | {"case": "bad", "wrong": "result 0 differs"}
    assert run.report({"liger": [good, bad]}) == 1
    printed = capsys.readouterr().out
    assert (
        "| liger | 2 | 2 | 2 | 1 | 2 |" in printed
        and "| liger | bad | UNEXPLAINED: wrong: result 0 differs |" in printed
    )
