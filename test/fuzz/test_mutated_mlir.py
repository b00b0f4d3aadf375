"""Mutated .mlir ends with a result or a diagnostic of weft-opt, weft compile and weft lint."""

from pathlib import Path

import driver
import mutated_mlir
import pytest

FOUND = sorted(Path(__file__).with_name("found").glob("*.mlir"))


def _check(report: driver.Report) -> None:
    print(report)
    assert not report.failures, report
    outcomes = report.outcomes
    # Otherwise most inputs would die in the parser, and the rest would say little.
    assert outcomes["accepted"] > report.count // 20, report
    assert outcomes["accepted"] + outcomes["refused by an operation"] > report.count // 4, report


def test_mutations_get_a_result_or_a_diagnostic() -> None:
    _check(driver.run("mutated_mlir", seconds=60, count=16))


@pytest.mark.slow
def test_many_mutations_get_a_result_or_a_diagnostic() -> None:
    _check(driver.run("mutated_mlir", seconds=driver.slow_seconds(), first=1_000_000))


def test_earlier_failures_stay_fixed() -> None:
    report = driver.run("found_mlir", seconds=60, count=len(FOUND))
    assert FOUND
    assert report.count == len(FOUND)
    assert not report.failures, report


def test_an_input_is_the_same_in_every_run() -> None:
    assert mutated_mlir.make(7) == mutated_mlir.make(7) != mutated_mlir.make(8)
