"""Mutated PTX, in the emulator and in lint, ends with a result or a WeftError."""

import driver
import found_launches
import mutated_ptx
import pytest


def _check(report: driver.Report) -> None:
    print(report)
    assert not report.failures, report
    outcomes = report.outcomes
    # Otherwise most inputs would die in the parser, and the rest would say little.
    reached = sum(count for name, count in outcomes.items() if name.endswith(("ran", "Fault", "Deadlock")))
    assert reached > report.count // 10, report


def test_mutations_get_a_result_or_an_error() -> None:
    _check(driver.run("mutated_ptx", seconds=60, count=16))


@pytest.mark.slow
def test_many_mutations_get_a_result_or_an_error() -> None:
    _check(driver.run("mutated_ptx", seconds=driver.slow_seconds(), first=1_000_000))


def test_earlier_failures_stay_fixed() -> None:
    report = driver.run("found_launches", seconds=60, count=len(found_launches.FILES))
    assert report.count == len(found_launches.FILES) > 0
    assert not report.failures, report


def test_an_input_is_the_same_in_every_run() -> None:
    assert mutated_ptx.make(7) == mutated_ptx.make(7) != mutated_ptx.make(8)
