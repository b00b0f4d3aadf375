"""A tool whose process crashes, is interrupted or fails unexpectedly ends with a message."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.waits

# MLIR's verifier reads the member of a struct whose number it has cut to 32 bits.
CRASHES_IN_PARSER = """\
func.func @f(%s: !llvm.struct<(i32, i32)>) {
  %r = llvm.extractvalue %s[1099511627776] : !llvm.struct<(i32, i32)>
  return
}
"""
RUN = "import sys; from weft.tools.{tool} import main; sys.exit(main())"
# The tool's work is replaced by a line of Python.
PLANTED = """
import os, sys, time
from weft.system import phase
from weft.tools import weft_opt
def work(arguments):
    {work}
weft_opt._run = work
sys.exit(weft_opt.main())
"""


def started(
    code: str, *arguments: str, folder: Path, stdin: int | None = subprocess.DEVNULL
) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def ran(code: str, *arguments: str, folder: Path, stdin: str | None = None) -> tuple[int, str, str]:
    process = started(
        code, *arguments, folder=folder, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE
    )
    stdout, stderr = process.communicate(stdin, timeout=120)
    return process.returncode, stdout, stderr


def planted(work: str, folder: Path, *arguments: str) -> tuple[int, str, str]:
    return ran(PLANTED.format(work=work), *arguments, folder=folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("weft_opt", []), ("weft", ["compile", "--arch", "sm_80"]), ("weft", ["lint", "--arch", "sm_80"])],
)
def test_a_crash_of_mlir_is_told_with_a_reproducer(tool: str, arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "bad.mlir").write_text(CRASHES_IN_PARSER)
    output = ["-o", "out"] if "lint" not in arguments else []
    status, stdout, stderr = ran(RUN.format(tool=tool), *arguments, "bad.mlir", *output, folder=tmp_path)
    (reproducer,) = tmp_path.glob("weft-crash-*.mlir")
    told, versions, place = stderr.splitlines()
    assert (status, stdout) == (1, "")
    assert "error: MLIR crashed (SIGSEGV) while parsing bad.mlir; this is a defect of MLIR" in told
    assert "torch-mlir" in versions or "mlir-python-bindings" in versions
    assert str(reproducer) in place
    assert reproducer.read_text().endswith(f"input: bad.mlir, from the next line on\n{CRASHES_IN_PARSER}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.mlir", reproducer.name]


CRASHING_PASS = """
import os, signal, sys, weft
from weft.passes import Pass
from weft.tools import weft_opt
weft.register_pass(Pass("die", "", lambda module: os.kill(os.getpid(), signal.SIGSEGV)))
sys.exit(weft_opt.main())
"""


@pytest.mark.slow
def test_a_crash_of_a_pass_leaves_the_reproducer_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.mlir").write_text("module {}")
    out = "--mlir-pass-pipeline-crash-reproducer=out.mlir"
    status, _, told = ran(CRASHING_PASS, "a.mlir", "--cse", "--die", out, folder=tmp_path)
    assert status == 1 and "error: MLIR crashed (SIGSEGV) while running pass 'die'" in told
    assert told.endswith("note: reproducer generated at 'out.mlir'\n")
    assert 'pipeline: "builtin.module(cse,die)"' in (tmp_path / "out.mlir").read_text()


@pytest.mark.slow
def test_a_crash_on_stdin_keeps_its_text(tmp_path: Path) -> None:
    status, _, stderr = ran(RUN.format(tool="weft_opt"), folder=tmp_path, stdin=CRASHES_IN_PARSER)
    (reproducer,) = tmp_path.glob("weft-crash-*")
    assert (status, "while parsing <stdin>" in stderr) == (1, True)
    assert reproducer.read_text().endswith(CRASHES_IN_PARSER)


def test_the_output_of_native_code_is_in_the_reproducer(tmp_path: Path) -> None:
    work = "phase.enter('having tea'); os.write(2, b'PLEASE submit a bug report\\n'); os.abort()"
    status, _, stderr = planted(work, tmp_path)
    (reproducer,) = tmp_path.glob("weft-crash-*")
    assert status == 1
    assert stderr.startswith("weft-opt: error: MLIR crashed (SIGABRT) while having tea;")
    assert "PLEASE" not in stderr
    assert "// PLEASE submit a bug report\n" in reproducer.read_text()


def test_the_output_of_native_code_is_printed_if_nothing_crashes(tmp_path: Path) -> None:
    assert planted("os.write(2, b'a remark\\n'); return 0", tmp_path) == (0, "", "a remark\n")


def test_a_stack_that_overflows_is_told(tmp_path: Path) -> None:
    # Python 3.12 counts calls of C, and would stop before a stack of the usual size overflows.
    small = "import ctypes, resource; resource.setrlimit(resource.RLIMIT_STACK, (1 << 17, 1 << 17)); "
    work = f"{small}f = ctypes.CFUNCTYPE(None)(lambda: f()); sys.setrecursionlimit(10**9); f()"
    status, _, stderr = planted(work, tmp_path)
    assert (status, "MLIR crashed (SIGSEGV)" in stderr) == (1, True)


def test_a_crash_of_host_code_is_no_defect(tmp_path: Path) -> None:
    work = """phase.enter("running function 'main'"); os.kill(os.getpid(), 11)"""
    status, _, stderr = planted(work, tmp_path)
    assert (status, "defect" in stderr, list(tmp_path.glob("weft-crash-*"))) == (1, False, [])
    assert stderr.startswith("weft-opt: error: SIGSEGV while running function 'main'\n")


def test_what_the_system_kills_is_told(tmp_path: Path) -> None:
    status, _, stderr = planted("os.kill(os.getpid(), 9)", tmp_path)
    assert (status, "the system killed Weft (SIGKILL)" in stderr) == (1, True)


def test_an_unforeseen_exception_is_an_internal_error(tmp_path: Path) -> None:
    (tmp_path / "x.mlir").write_text("// hello\n")
    work = "from weft.tools import cli; phase.enter(\"running pass 'x'\"); cli.read('x.mlir'); {}['k']"
    status, _, stderr = planted(work, tmp_path)
    (reproducer,) = tmp_path.glob("weft-crash-*.mlir")
    told, about, place = stderr.splitlines()
    assert status == 1
    assert "internal error while running pass 'x': KeyError: 'k'; this is a defect of Weft" in told
    assert "weft 0." in about and about.endswith(", on x.mlir") and str(reproducer) in place
    assert "Traceback" not in stderr
    kept = reproducer.read_text()
    assert "// Traceback (most recent call last):\n" in kept and kept.endswith("// hello\n")


@pytest.mark.parametrize(
    ("work", "told"),
    [
        ("work(arguments)", "RecursionError"),
        ("raise MemoryError", "out of memory while starting"),
    ],
)
def test_python_out_of_stack_or_memory_is_told(work: str, told: str, tmp_path: Path) -> None:
    status, _, stderr = planted(work, tmp_path)
    assert (status, told in stderr, "Traceback" in stderr) == (1, True, False)


def test_a_folder_that_cannot_be_written_has_the_reproducer_elsewhere(tmp_path: Path) -> None:
    work = "os.chdir('/proc'); {}['k']"
    status, _, stderr = planted(work, tmp_path)
    kept = Path(stderr.splitlines()[-1].rpartition(" is in ")[2])
    assert (status, kept.is_file()) == (1, True)
    kept.unlink()


@pytest.mark.parametrize("work", ["time.sleep(60)", "import signal; signal.pause()"])
def test_an_interrupt_ends_in_one_line(work: str, tmp_path: Path) -> None:
    process = started(PLANTED.format(work=f"print('begun', flush=True); {work}"), folder=tmp_path)
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("", "weft-opt: interrupted\n")
    assert process.returncode == 130


@pytest.mark.parametrize("tool", ["weft", "weft_opt"])
def test_an_interrupt_of_the_imports_leaves_no_traceback(tool: str, tmp_path: Path) -> None:
    (tmp_path / "imported.py").write_text(f"""\
import importlib, os, signal, sys, time
from weft.tools import start
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it
def slowly(name):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
start.import_module = slowly
sys.exit(start.{tool}())
""")
    program = [sys.executable, str(tmp_path / "imported.py")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("seconds", [0, 0.05])
def test_interrupts_that_arrive_twice_end_in_one_line(seconds: float, tmp_path: Path) -> None:
    """Of a group of processes, the child gets the parent's too; and a user may press Ctrl-C again."""
    process = started(PLANTED.format(work="print('begun', flush=True); time.sleep(60)"), folder=tmp_path)
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=60) == ("", "weft-opt: interrupted\n")
    assert process.returncode == 130


def test_an_interrupt_ends_what_never_returns_to_python(tmp_path: Path) -> None:
    work = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}); time.sleep(60)"
    process = started(PLANTED.format(work=f"print('begun', flush=True); {work}"), folder=tmp_path)
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("", "weft-opt: interrupted\n")
    assert process.returncode == 130


@pytest.mark.parametrize(
    ("number", "heeded"), [(signal.SIGTERM, True), (signal.SIGHUP, True), (signal.SIGTERM, False)]
)
def test_other_signals_end_both_processes(number: int, heeded: bool, tmp_path: Path) -> None:
    """Also where the work doesn't heed one and has to be killed."""
    ignoring = "" if heeded else f"import signal; signal.signal({number:d}, signal.SIG_IGN); "
    work = f"{ignoring}print('begun', flush=True); time.sleep(60)"
    process = started(PLANTED.format(work=work), folder=tmp_path)
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    process.send_signal(number)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == -number


def test_the_work_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    code = PLANTED.format(work="print(os.getpid(), flush=True); time.sleep(60)")
    process = started(code, folder=tmp_path)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.kill()
    process.communicate(timeout=60)  # returns when nobody holds the pipe
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{child}").exists() or b"Z" in Path(f"/proc/{child}/stat").read_bytes()


def test_a_status_passes_through(tmp_path: Path) -> None:
    assert planted("return 7", tmp_path) == (7, "", "")
    assert planted("sys.exit(5)", tmp_path) == (5, "", "")
    assert list(tmp_path.iterdir()) == []
