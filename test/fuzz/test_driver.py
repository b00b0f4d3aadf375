"""The driver detects every kind of failure and continues after it."""

import driver


def test_planted_faults_are_found_and_the_rest_is_counted() -> None:
    report = driver.run("planted_faults", seconds=60, count=20, patience=0.5)
    assert [(f.number, f.kind) for f in report.failures] == [
        (3, "abort"),
        (5, "hang"),
        (7, "traceback"),
        (11, "abort"),
    ]
    assert (report.count, report.outcomes) == (20, {"ran": 16})
    aborted, _, raised, left = report.failures
    assert "SIGABRT" in aborted.detail and "last words" in aborted.detail
    assert "KeyError: 'traceback'" in raised.detail
    assert "status 3" in left.detail


def test_a_run_ends_when_its_time_is_over() -> None:
    report = driver.run("planted_faults", seconds=0.3, first=100)
    assert report.outcomes.keys() == {"ran"} and report.count > 100
