"""What holds for all tests of pytest, and for the processes that they start."""

import gc
import os
from collections import Counter

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
        monkeypatch.setattr("weft.compiler.stages.decides_all", lambda module: False)
        # Another process would not have the change.
        monkeypatch.setattr("weft.compiler.cache_keys.as_imported", lambda: False)


@pytest.fixture
def patch():
    """pytest's own fixture by another name: under that one, no test keeps what is lowered."""
    with pytest.MonkeyPatch.context() as made:
        yield made


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of the cases of a test that is marked `sampled(n)`, the default run has one in n."""
    seen = Counter()
    for item in items:
        if (marker := item.get_closest_marker("sampled")) is not None:
            number = seen[item.path, item.originalname]
            seen[item.path, item.originalname] += 1
            if number % marker.args[0]:
                item.add_marker(pytest.mark.slow)


def pytest_collection_finish():
    """Keeps what collection has made out of later collections of garbage, which some tests ask for."""
    gc.collect()
    gc.freeze()
