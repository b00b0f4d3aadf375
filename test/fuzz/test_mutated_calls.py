"""Mutated calls from Python end with a result or a WeftError."""

import driver
import found_calls
import mutated_calls
import pytest


def _check(report: driver.Report) -> None:
    print(report)
    assert not report.failures, report
    accepted = sum(n for name, n in report.outcomes.items() if name.endswith(("done", "made", "its kernel")))
    assert accepted > report.count // 20, report
    # A busy machine tries only a few in the time.
    assert report.outcomes["not made"] < max(report.count // 5, 5), report


def test_mutations_get_a_result_or_an_error() -> None:
    _check(driver.run("mutated_calls", seconds=60, count=20))


@pytest.mark.slow
def test_many_mutations_get_a_result_or_an_error() -> None:
    _check(driver.run("mutated_calls", seconds=driver.slow_seconds(), first=1_000_000))


def test_earlier_failures_stay_fixed() -> None:
    count = len(found_calls.FILE.read_text("utf-8").splitlines())
    report = driver.run("found_calls", seconds=100, count=count)
    assert report.count == count > 0
    assert not report.failures, report


def test_an_input_is_the_same_in_every_run() -> None:
    assert mutated_calls.make(7) == mutated_calls.make(7) != mutated_calls.make(8)
