"""Settings for all tests of pytest, and for the processes that they start."""

import gc
import os
import re
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from weft.launch import runtime

GPU_TESTS = Path(__file__).parent / "gpu"

# CPU time of a test and its child processes. CONTRIBUTING.md asks for 2; a busy machine needs more.
LIMIT_SECONDS = 10

# Tests use no database of tuned schedules unless they name one.
os.environ["WEFT_SCHEDULES"] = ""
# Scripts start jobs in the background with Ctrl-C ignored. Some tests would then wait for its effect forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def monkeypatch(monkeypatch):
    """Pytest's, without the cache. A test may change a part of Weft, which the cache's keys don't contain:
    they contain files.
    """
    monkeypatch.setattr("weft.compiler.cache_keys.lowering", lambda: None)
    return monkeypatch


@pytest.fixture
def patch():
    """As `monkeypatch`, but with the cache: for changes that passes don't see."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield monkeypatch


def pytest_ignore_collect(collection_path, config):
    """Leaves out test/gpu where no GPU is, unless it is named: thousands of tests would only be skipped."""
    if collection_path.parent != GPU_TESTS or runtime.available() is None:
        return None
    called = config.invocation_params
    named = [called.dir / each.partition("::")[0] for each in called.args] or [called.dir]
    return None if any(each.resolve().is_relative_to(GPU_TESTS) for each in named) else True


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc):
    """Marks cases that `sampled(n)` and `each_value` leave out as slow. The default run makes no test of a
    slow case: there are more of them than of others.
    """
    result = yield
    cases, function = metafunc._calls, metafunc.definition
    for number in _left_out(function, cases):
        cases[number].marks.append(pytest.mark.slow.mark)
    options = metafunc.config.option
    if options.markexpr == "not slow" and not any("::" in each for each in options.file_or_dir):
        whole = function.get_closest_marker("slow") is not None
        # A function without cases would be a test.
        metafunc._calls = [case for case in cases if not (whole or _is_slow(case))] or cases[:1]
    return result


def _is_slow(case):
    return any(mark.name == "slow" for mark in case.marks)


def _left_out(function, cases):
    """The numbers of the cases of a function that its markers leave out."""
    left_out = set()
    if (marker := function.get_closest_marker("sampled")) is not None:
        left_out |= {number for number in range(len(cases)) if number % marker.args[0]}
    marker = function.get_closest_marker("each_value")
    if marker is None or function.get_closest_marker("slow") is not None:
        return left_out
    if not cases:
        raise pytest.UsageError(f"a test with each_value must have parameters, got {function.nodeid}")
    others = [n for n, case in enumerate(cases) if n not in left_out and not _is_slow(case)]
    chosen = _covering([cases[number].params for number in others], next(iter(marker.args), None))
    return left_out | (set(others) - {others[each] for each in chosen})


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Refuses names that differ between runs: nobody could select such a test."""
    if addressed := [item.nodeid for item in items if re.search(" at 0x[0-9a-f]{8,}>", item.nodeid)]:
        raise pytest.UsageError(f"names of tests must not contain an address, got {addressed[0]}")
    items.sort(key=lambda item: item.get_closest_marker("waits") is None)  # beside lit, which uses the time
    if (providers := sys.modules.get("hypothesis.internal.conjecture.providers")) is not None:
        # Hypothesis would parse all imported modules, for 4 s, to try the numbers and texts in them.
        providers._get_local_constants = lambda: providers._local_constants


def _covering(cases, limit=None):
    """The numbers of a few cases that have every value of every parameter, each value about equally often;
    or of `limit` cases that have as many values as possible.
    """
    values = [{(name, _identity(value)) for name, value in case.items()} for case in cases]
    missing, chosen, uses = set().union(*values), set(), Counter()

    def gain(number):
        return len(values[number] & missing), -sum(uses[value] for value in values[number])

    while missing and len(chosen) != limit:
        best = max(range(len(cases)), key=gain)  # the first of equal ones
        chosen.add(best)
        missing -= values[best]
        uses.update(values[best])
    return chosen


def _identity(value):
    """What distinguishes a parameter's value. The cases of a product share each object."""
    return repr(value) if isinstance(value, bool | int | float | str | tuple | None) else id(value)


def _cpu_seconds():
    """Of this process, its ended children and its workers. A worker serves many tests; counted when it ends,
    its time would be that of the last.
    """
    spent = os.times()
    worker = sys.modules.get("weft.compiler.worker")
    workers = [] if worker is None else [each.process for each in list(worker._workers)]
    living = sum(_living_seconds(each.pid) for each in workers if each is not None)
    return time.process_time() + spent.children_user + spent.children_system + living


def _living_seconds(pid):
    """CPU time of another process; 0 where the system has no clock of it."""
    try:
        # Linux's number of that clock. Reading /proc takes 50 times as long: 5 % of the time of all tests.
        return time.clock_gettime(~pid << 3 | 2)
    except (AttributeError, OSError):
        return 0


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item):
    """Records the CPU time of a test. One that isn't marked as slow fails if it takes too much."""
    began = _cpu_seconds()
    try:
        result = yield
    finally:
        seconds = _cpu_seconds() - began
        item.user_properties.append(("cpu_seconds", seconds))
    if item.path.parent.name == "gpu":
        return result  # XLA and Inductor compile there; no such test is in the default run
    marker = item.get_closest_marker("cpu_seconds")
    limit = LIMIT_SECONDS if marker is None else marker.args[0]
    if seconds > limit and item.get_closest_marker("slow") is None:
        legal = "mark some of its cases as slow, or check the same with less work"
        pytest.fail(f"must take at most {limit} s of CPU time, got {seconds:.1f} s: {legal}", pytrace=False)
    return result


def pytest_terminal_summary(terminalreporter):
    """Tells that tests for GPUs were left out, and lists the tests that took most CPU time."""
    if (reason := runtime.available()) is not None:
        terminalreporter.line(f"test/gpu is left out unless it is named: {reason}")
    spent = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                # A test has no time if its process ended.
                spent[report.nodeid] = dict(report.user_properties).get("cpu_seconds", 0.0)
    slowest = sorted(spent.items(), key=lambda each: -each[1])[:10]
    if slowest and slowest[0][1] > 1:
        terminalreporter.section(f"most CPU time, of {sum(spent.values()):.0f} s in {len(spent)} tests")
        for name, seconds in slowest:
            terminalreporter.line(f"{seconds:6.1f} s {name}")


def pytest_collection():
    """Leaves out garbage collections while pytest makes its objects, which stay."""
    gc.disable()


def pytest_collection_finish():
    """Excludes pytest's collected objects from garbage collections, and makes these rarer."""
    gc.enable()
    gc.freeze()
    # IR is read and written as many objects that live briefly: with the default, 700, collections take 4 % of
    # the time.
    gc.set_threshold(20_000)


def pytest_unconfigure():
    """Lets pytest's collections of garbage at the end find nothing: they take 2 s where all tests of products
    ran in this process.
    """
    gc.freeze()
