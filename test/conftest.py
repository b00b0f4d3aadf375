"""Settings for all tests of pytest, and for the processes that they start."""

import gc
import os
from collections import Counter

import pytest

# Tests use no database of tuned schedules unless they name one.
os.environ["WEFT_SCHEDULES"] = ""


@pytest.fixture(autouse=True)
def _uncached(request):
    """Disables the cache in tests that use `monkeypatch`. Such a test may change a number or a table of a
    pass, which the cache's keys don't contain: they contain files, registrations and functions.
    """
    if "monkeypatch" in request.fixturenames:
        monkeypatch = request.getfixturevalue("monkeypatch")
        monkeypatch.setattr("weft.compiler.stages.decides_all", lambda module: False)
        # Another process wouldn't have the change.
        monkeypatch.setattr("weft.compiler.cache_keys.as_imported", lambda: False)


@pytest.fixture
def patch():
    """As `monkeypatch`, but with the cache: for changes that passes don't see."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield monkeypatch


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Marks all but one in n cases of a test with `sampled(n)` as slow. Refuses names that differ between
    processes: pytest-xdist would run nothing.
    """
    if addressed := [item.nodeid for item in items if " object at 0x" in item.nodeid]:
        raise pytest.UsageError(f"names of tests must not contain an address, got {addressed[0]}")
    seen = Counter()
    for item in items:
        if (marker := item.get_closest_marker("sampled")) is not None:
            number = seen[item.path, item.originalname]
            seen[item.path, item.originalname] += 1
            if number % marker.args[0]:
                item.add_marker(pytest.mark.slow)


def pytest_collection_finish():
    """Excludes pytest's collected objects from garbage collections, which some tests request."""
    gc.collect()
    gc.freeze()
