"""What holds for all tests of pytest, and for the processes that they start."""

import os

import pytest

# No tuned schedules, the user's or the package's, where a test names no file of them.
os.environ["WEFT_SCHEDULES"] = ""


@pytest.fixture(autouse=True)
def _lowered_anew(request):
    """A test that changes what it runs may change a number or a table of a pass. The cache's keys don't see
    that: they hold files, what is registered, and functions. Nothing that such a test makes is kept or taken.
    """
    if "monkeypatch" in request.fixturenames:
        monkeypatch = request.getfixturevalue("monkeypatch")
        monkeypatch.setattr("weft.stages.decides_all", lambda module: False)
        # Another process would not have the change.
        monkeypatch.setattr("weft.cache_keys.as_imported", lambda: False)
