"""test/run.py runs lit and pytest at the same time, and fails if one of them does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import warm_tools

RUN = Path(__file__).parents[1] / "run.py"
PROGRAM = """
import pathlib, runpy, sys
sys.path.insert(0, str(pathlib.Path(sys.argv[1]).parent))
run = runpy.run_path(sys.argv[1])
python = [sys.executable, "-ISc"]
for name, code in zip(run["SUITES"], sys.argv[2:4], strict=True):
    run["SUITES"][name] = [*python, code]
sys.exit(run["main"](sys.argv[4:]))
"""


def run(*arguments):
    command = [sys.executable, "-Sc", PROGRAM, RUN, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
def test_both_run_at_the_same_time_and_either_may_fail(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # each end waits for the other
    lit = f"open({str(pipe)!r}, 'w').write('x'); print('said by lit'); raise SystemExit(3)"
    done = run(lit, f"print('said by pytest'); open({str(pipe)!r}).read()")
    assert done.stdout.split("\n") == ["== pytest", "said by pytest", "== lit", "said by lit", ""]
    assert (done.returncode, done.stderr) == (1, "failed: lit\n")


def test_one_suite_can_be_named(tmp_path):
    done = run("raise SystemExit(1)", "import sys; print(sys.argv)", "pytest")
    assert (done.returncode, done.stdout) == (0, "== pytest\n['-c']\n")
    done = run("", "", "pytests")
    assert (done.returncode, done.stderr) == (1, "suite must be one of lit, pytest, slow, got 'pytests'\n")


def test_both_call_tools_from_one_server():
    code = "import os; print(os.environ['WEFT_WARM_TOOLS'])"
    done = run(code, code)
    first, second = (line for line in done.stdout.splitlines() if not line.startswith("=="))
    assert first == second and not Path(first).exists()  # removed at the end


@pytest.mark.parametrize(("main", "status"), [(lambda: 3, 3), (lambda: sys.exit("a message"), 1)])
def test_forks_of_lit_end_with_the_status_of_the_tool(main, status, patch):
    patch.setattr(warm_tools, "tools_of_lit", lambda: {"/bin/tool": main})
    assert warm_tools.Popen(["tool"], executable="/bin/tool", env={}).wait() == status


def test_forks_of_lit_have_its_streams_directory_and_environment(tmp_path, patch):
    def tool():
        print(sys.argv, os.environ["NAME"], Path.cwd() == tmp_path, sys.stdin.read())

    patch.setattr(warm_tools, "tools_of_lit", lambda: {"/bin/tool": tool})
    called = warm_tools.Popen(
        ["tool", "-x"],
        executable="/bin/tool",
        cwd=tmp_path,
        env={"NAME": "value"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        universal_newlines=True,
    )
    assert called.communicate("given")[0] == "['tool', '-x'] value True given\n"
    program = warm_tools.Popen(["sh", "-c", "exit $STATUS"], executable="/bin/sh", env={"STATUS": "5"})
    assert program.wait() == 5
