"""Documents in the middle of edits: the language server's checks and features answer every one."""

import driver
import edited_documents
import pytest


def _check(report: driver.Report) -> None:
    print(report)
    assert not report.failures, report
    fixed = report.outcomes["mlir with a fix"] + report.outcomes["ptx with a fix"]
    assert report.count < 80 or fixed > report.count // 50, report  # fewer on a machine with other work


def test_edited_documents_get_an_answer() -> None:
    _check(driver.run("edited_documents", seconds=60, count=12))


@pytest.mark.slow
def test_many_edited_documents_get_an_answer() -> None:
    _check(driver.run("edited_documents", seconds=driver.slow_seconds(), first=1_000_000))


def test_a_document_is_the_same_in_every_run() -> None:
    assert edited_documents.make(7) == edited_documents.make(7) != edited_documents.make(8)
