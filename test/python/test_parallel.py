"""test/parallel.py runs tests in forks of the process that has collected them, and reports what they do."""

import multiprocessing.connection
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

if hasattr(os, "fork"):
    import parallel

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")

PARALLEL = Path(__file__).parents[1] / "parallel.py"
CASES = """
import os, signal, sys, warnings
from pathlib import Path
import pytest

COLLECTED_BY = os.getpid()

@pytest.fixture(scope="module")
def module_fixture():
    yield
    assert False, "the teardown of a file"

def test_a_fork(tmp_path):
    assert os.getppid() == COLLECTED_BY
    assert tmp_path.parent.name == "process-" + os.environ["WEFT_TEST_PROCESS"]

@pytest.mark.parametrize("number", range(4))
def test_that_passes(number, capfd):
    os.write(1, b"written")
    assert capfd.readouterr().out == "written"

def test_that_fails():
    print("said before it fails")
    assert [1] == [2]

def test_that_is_skipped():
    pytest.skip("why it is skipped")

def test_that_warns():
    warnings.warn("a warning of a fork")

def test_that_is_killed():
    os.kill(os.getpid(), signal.SIGKILL)

@pytest.mark.parametrize("status", [0, 7])
def test_that_exits(status):
    os._exit(status)

def test_a_teardown(module_fixture):
    pass
"""
MANY_CASES = """
import time
import pytest

@pytest.mark.parametrize("number", range(100))
def test_one_of_many(number):
    time.sleep(0.02)
    assert number != 1
"""


def run(folder, *arguments, limits="run['LIMITS']"):
    """The output of pytest in two forks."""
    code = f"import runpy; run = runpy.run_path({str(PARALLEL)!r}); import pytest, sys; "
    code += f"sys.exit(pytest.main(sys.argv[1:], plugins=[run['Processes'](2, {limits})]))"
    command = [sys.executable, "-c", code, "-p", "no:cacheprovider", "-p", "no:hypothesispytest", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    return done.stdout + done.stderr, done.returncode


def test_every_outcome_is_reported(tmp_path):
    (tmp_path / "test_cases.py").write_text(CASES)
    shutil.copy(PARALLEL.with_name("conftest.py"), tmp_path)
    said, status = run(tmp_path, "-rs")
    assert status == 1, said
    assert re.search("4 failed, 7 passed, 1 skipped, 1 warning, 1 error in", said), said
    assert "said before it fails" in said and "assert [1] == [2]" in said
    assert "why it is skipped" in said and "UserWarning: a warning of a fork" in said
    assert "the process that ran this test has ended with signal SIGKILL" in said
    for ended in (0, 7):
        assert f"the process that ran this test has ended with status {ended}" in said
    assert "ERROR at teardown of test_a_teardown" in said and "the teardown of a file" in said


@pytest.mark.slow
def test_the_run_stops_at_the_first_failure_if_asked(tmp_path):
    (tmp_path / "test_cases.py").write_text(MANY_CASES)
    said, status = run(tmp_path, "-x")
    assert status == 1 and "stopping after 1 failures" in said, said
    assert int(re.search(r"1 failed, (\d+) passed", said)[1]) < 90, said


@pytest.mark.slow
def test_a_test_can_end_the_run(tmp_path):
    cases = "import pytest\ndef test_that_ends_it():\n    pytest.exit('why it ends', 9)\n"
    (tmp_path / "test_cases.py").write_text(cases)
    said, status = run(tmp_path)
    assert status == 9 and "Exit: why it ends" in said, said


HANGING_CASES = """
import subprocess, sys, time
from pathlib import Path
import pytest

def test_that_hangs():
    tool = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
    Path("tool").write_text(str(tool.pid))
    tool.wait()

@pytest.mark.slow
def test_that_is_slow():
    time.sleep(1.5)

def test_that_passes():
    pass
"""


def test_a_test_that_hangs_is_named_and_ended(tmp_path):
    (tmp_path / "test_cases.py").write_text(HANGING_CASES)
    said, status = run(tmp_path, "-o", "markers=slow", limits="(1, 100)")
    assert status == 1 and "1 failed, 2 passed" in said, said
    assert "test_cases.py::test_that_hangs" in said
    assert "must end within 1 s, or be marked as slow; this one was ended with signal SIGABRT" in said
    assert re.search(r"line \d+ in test_that_hangs", said), said  # the stack
    tool = Path("/proc") / (tmp_path / "tool").read_text()
    assert not tool.exists() or "\nState:\tZ" in (tool / "status").read_text()


@pytest.mark.slow
def test_setups_are_timed_if_asked(tmp_path):
    cases = "import pytest\n@pytest.fixture\ndef slow():\n    import time\n    time.sleep(0.02)\n"
    (tmp_path / "test_cases.py").write_text(cases + "def test_one(slow):\n    pass\n")
    said, status = run(tmp_path, "--durations=3")
    assert status == 0 and re.search(r"0\.0[2-9]s setup +test_cases.py::test_one", said), said
    assert "1 passed in" in said, said


@pytest.mark.slow
def test_processes_of_xdist_are_used_if_asked(tmp_path):
    (tmp_path / "test_cases.py").write_text("def test_that_passes():\n    pass\n")
    said, status = run(tmp_path, "-n", "1")
    assert status == 0 and "1 passed" in said, said


def test_half_a_message_of_a_killed_process_is_left_out():
    receives, sends = multiprocessing.connection.Pipe(duplex=False)
    os.write(sends.fileno(), (100).to_bytes(4, "big") + b"half")
    sends.close()
    assert list(parallel._Process(0, 0, receives).received()) == []


def test_threads_of_jax_that_forks_would_lack_are_refused(patch):
    bridge = SimpleNamespace(backends_are_initialized=lambda: True)
    patch.setitem(sys.modules, "jax._src.xla_bridge", bridge)
    session = SimpleNamespace(
        config=SimpleNamespace(option=SimpleNamespace(collectonly=False)), testsfailed=0
    )
    with pytest.raises(pytest.UsageError, match="must not make arrays of JAX when they are imported"):
        parallel.Processes(2).pytest_runtestloop(session)


def test_forks_are_not_used_where_a_gpu_is(patch):
    called = []
    patch.setattr(parallel.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    patch.setattr(parallel.pytest, "main", lambda arguments, plugins=(): called.append((arguments, plugins)))
    for found in (None, "no GPU"):
        patch.setattr(parallel.runtime, "available", lambda found=found: found)
        parallel.main(["-x"])
    (exact, none), (plain, (plugin,)) = called
    assert exact[:2] == ["-n", "2"] and exact[-1] == "-x" and not none
    assert plain == ["-x"] and isinstance(plugin, parallel.Processes) and plugin._count == 3
