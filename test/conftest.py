"""Settings for all tests of pytest, and for the processes that they start."""

import gc
import os
from collections import Counter, defaultdict

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
    """Marks cases that `sampled(n)` and `each_value` leave out as slow. Refuses names that differ between
    processes: pytest-xdist would run nothing.
    """
    if addressed := [item.nodeid for item in items if " object at 0x" in item.nodeid]:
        raise pytest.UsageError(f"names of tests must not contain an address, got {addressed[0]}")
    seen, tests = Counter(), defaultdict(list)
    for item in items:
        name = item.path, item.originalname
        if (marker := item.get_closest_marker("sampled")) is not None:
            if seen[name] % marker.args[0]:
                item.add_marker(pytest.mark.slow)
            seen[name] += 1
        if item.get_closest_marker("each_value") is not None:
            tests[name].append(item)
    for cases in tests.values():
        left_out = set(range(len(cases))) - _covering([case.callspec.params for case in cases])
        for number in left_out:
            cases[number].add_marker(pytest.mark.slow)


def _covering(cases):
    """The numbers of a few cases that have every value of every parameter; ties go to the first."""
    values = [{(name, _identity(value)) for name, value in case.items()} for case in cases]
    missing, chosen = set().union(*values), set()
    while missing:
        best = max(range(len(cases)), key=lambda number: len(values[number] & missing))
        chosen.add(best)
        missing -= values[best]
    return chosen


def _identity(value):
    """What distinguishes a parameter's value. The cases of a product share each object."""
    return repr(value) if isinstance(value, bool | int | float | str | tuple | None) else id(value)


def pytest_collection_finish():
    """Excludes pytest's collected objects from garbage collections, which some tests request."""
    gc.collect()
    gc.freeze()
