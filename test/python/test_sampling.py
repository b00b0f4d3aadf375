"""What keeps the default run short: markers that select a few cases of a test, and a limit of CPU time. Also
that it can run in the background.
"""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
CASES = """
import pytest

@pytest.mark.sampled(3)
@pytest.mark.parametrize("x", range(7))
def test_one_in_three(x):
    pass

@pytest.mark.each_value
@pytest.mark.parametrize("second", range(6))
@pytest.mark.parametrize("first", range(2))
def test_balance(first, second):
    pass

@pytest.mark.each_value(3)
@pytest.mark.parametrize("second", range(6))
@pytest.mark.parametrize("first", range(2))
def test_limited(first, second):
    pass

@pytest.mark.each_value
@pytest.mark.parametrize("z", [None, {}], ids=str)
@pytest.mark.parametrize(("x", "y"), [(1, "a"), (2, "a"), (1, "b"), (2, "b")])
def test_product(x, y, z):
    pass
"""

COSTLY = """
import subprocess, sys, time, types, pytest

CODE = "import time\\nbegan = time.process_time()\\nwhile time.process_time() < began + 0.4: pass"

def test_itself():
    exec(CODE)

def test_its_child():
    subprocess.run([sys.executable, "-c", CODE])

@pytest.mark.slow
def test_a_slow_one():
    subprocess.run([sys.executable, "-c", CODE])

def test_one_that_sleeps():
    time.sleep(0.4)

WORKER = types.SimpleNamespace(process=None)
sys.modules["weft.compiler.worker"] = types.SimpleNamespace(_workers=[WORKER])

def test_one_that_starts_a_worker():
    code = CODE + "\\nprint(flush=True)\\ninput()"
    pipe = subprocess.PIPE
    WORKER.process = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe)
    WORKER.process.stdout.readline()

def test_one_that_ends_a_worker():
    WORKER.process.communicate(b"1\\n")
    WORKER.process = None
"""


@pytest.mark.slow
def test_cpu_time_is_limited_and_listed(tmp_path):
    (tmp_path / "test_costly.py").write_text(COSTLY)
    limited = (
        CONFTEST.read_text().replace("LIMIT_SECONDS = 10", "LIMIT_SECONDS = 0.3").replace("> 1:", "> 0.3:")
    )
    (tmp_path / "conftest.py").write_text(limited)
    command = [sys.executable, "-m", "pytest", "-q", tmp_path]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300).stdout
    assert "3 failed, 3 passed" in said, said
    if sys.platform == "linux":  # a worker's time is that of the test that uses it
        assert "FAILED test_costly.py::test_one_that_starts_a_worker" in said
    assert "must take at most 0.3 s of CPU time, got 0." in said
    _, _, listed = said.partition("most CPU time, of ")
    assert listed.partition("\n")[0].strip("= ").endswith("s in 6 tests"), said
    assert "s test_costly.py::test_its_child\n" in listed.partition("short test summary")[0]


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    """The cases that pytest selects for an expression of marks."""
    folder = tmp_path_factory.mktemp("cases")
    (folder / "test_cases.py").write_text(CASES)
    (folder / "conftest.py").write_text(CONFTEST.read_text())

    def cases(marks):
        command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-m", marks, folder]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
        return {line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line}

    return cases


def test_a_sample_has_every_value_and_the_rest_is_slow(collected):
    default, slow = collected("not slow"), collected("slow")
    assert {each for each in default if "three" in each} == {f"test_one_in_three[{x}]" for x in (0, 3, 6)}
    limited = [each.partition("[")[2][:-1].split("-") for each in default if "limited" in each]
    assert [len(set(values)) for values in zip(*limited, strict=True)] == [2, 3]
    product = {each for each in default if "product" in each}
    assert len(product) == 2
    assert not default & slow and len(default | slow) == 7 + 12 + 12 + 8
    balance = [each for each in default if "balance" in each]
    assert len(balance) == 6 and sum("[0-" in each for each in balance) == 3
    for value in ("1", "2", "a", "b", "None", "{}"):
        assert any(value in each.partition("[")[2].strip("]").split("-") for each in product), value


@pytest.fixture
def conftest(request):
    return request.config.pluginmanager.get_plugin(str(CONFTEST))


def test_each_value_without_parameters_is_refused_by_name(conftest):
    marker = {"each_value": pytest.mark.each_value.mark}
    function = SimpleNamespace(nodeid="test_it.py::test_it", get_closest_marker=marker.get)
    with pytest.raises(pytest.UsageError, match=r"each_value must have parameters, got test_it.py::test_it$"):
        conftest._left_out(function, [])


@pytest.mark.slow
def test_ctrl_c_arrives_in_tests_that_a_script_runs_in_the_background(tmp_path):
    """A shell starts these with the signal ignored."""
    check = (
        "import signal\n\ndef test_it():\n    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN\n"
    )
    (tmp_path / "test_signal.py").write_text(check)
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    begin = "import signal, sys, pytest; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    command = [sys.executable, "-c", f"{begin}; sys.exit(pytest.main(['-q']))"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
