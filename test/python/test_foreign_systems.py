"""What doesn't need Linux works without what only Linux has.

`foreign_system` takes away what macOS or Windows lacks, in this machine's Python. What can't be seen so, such
as the rules of another file system, isn't tested here.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import weft
from weft import emulator

ROOT = Path(__file__).resolve().parents[2]
VARIES = re.compile("weft 0|emulated|ok +cache|(ok|none) +(ptxas|nvdisasm)")
SYSTEMS = ("darwin", "win32")
TOOL = ["-c", "import sys; from weft.tools import start; sys.exit(getattr(start, sys.argv.pop(1))())"]
CRASHES_IN_PARSER = """\
func.func @f(%s: !llvm.struct<(i32, i32)>) {
  %r = llvm.extractvalue %s[1099511627776] : !llvm.struct<(i32, i32)>
  return
}
"""


def started(
    system: str, arguments: list[str], folder: Path, stdin: int = subprocess.DEVNULL
) -> "subprocess.Popen[str]":
    paths = {"PYTHONPATH": str(ROOT / "test/python/foreign_system"), "WEFT_CACHE_DIR": str(folder / "cache")}
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **paths, "WEFT_TEST_SYSTEM": system},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ran(system: str, arguments: list[str], folder: Path) -> tuple[int, str, str]:
    process = started(system, arguments, folder)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


LIBRARY = """
import sys
from weft.compiler import channels, codegen, worker
from weft.cache import disk_cache as cache
from weft import errors; from weft.system import file_locks, memory_files, phase, processes

assert sys.platform == sys.argv[1]
code = codegen.to_ptx("define ptx_kernel void @k() { ret void }", "sm_80", (7, 0))
assert ".entry k(" in code.ptx
pid = codegen._worker.process.pid
assert ".entry l(" in codegen.to_ptx("define ptx_kernel void @l() { ret void }", "sm_80", (7, 0)).ptx
assert codegen._worker.process.pid == pid  # which has answered twice
try:
    codegen.to_ptx("define wrong", "sm_80", (7, 0))
except errors.WeftError as error:
    assert "LLVM IR: " in str(error), str(error)

assert cache.default().get_or_make("ptx", ["a"], lambda: b"kept") == b"kept"
assert cache.default().get_or_make("ptx", ["a"], lambda: b"made again") == b"kept"
cache.default().change("ptx", ["a"], lambda before: before + b" twice")
assert cache.default().find("ptx", ["a"]) == b"kept twice"

with memory_files.memory_file(b"contents") as file:
    read = processes.python("-c", "import sys; print(open(sys.argv[1]).read())", file.path)
    done = processes.run(read, timeout=60, inherited=file.inherited)
    assert (done.stdout.strip(), file.content()) == ("contents", b"contents"), done
assert processes.cores() >= 1
print("done")
"""


@pytest.mark.each_value(1)
@pytest.mark.parametrize("system", SYSTEMS)
def test_workers_caches_and_files(system: str, tmp_path: Path) -> None:
    assert ran(system, ["-W", "error", "-c", LIBRARY, system], tmp_path) == (0, "done\n", "")
    files = [path.name.partition("-")[0] for path in (tmp_path / "cache").iterdir()]
    assert sorted(files) == [".lock", "ptx"] if system == "win32" else files == ["ptx"]


WORKERS = """
import os, sys, time
from weft.compiler import worker
from weft.system import phase

def serve(opened):
    def answer(request):
        phase.enter("having tea")
        os.write(2, b"said")
        exec(request["do"])
        return {"answer": request["do"]}
    worker.serve(answer, opened)

if __name__ == "__main__":
    tried = worker.Worker("workers", "the process")
    assert tried.ask({"do": "1"}, 60) == ({"answer": "1"}, "said")
    try:
        tried.ask({"do": "os.abort()"}, 60)
    except worker.DeathError as death:
        print(death.cause, death.said, death.phase)
    try:
        tried.ask({"do": "time.sleep(60)"}, 0.5)
    except TimeoutError:
        print("timeout")
    assert tried.ask({"do": "print('x' * 9, flush=True)"}, 60)[1] == "saidxxxxxxxxx\\n"
"""


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_workers_that_die_or_hang(system: str, tmp_path: Path) -> None:
    (tmp_path / "workers.py").write_text(WORKERS)
    told = "SIGABRT said having tea\ntimeout\n"
    assert ran(system, ["workers.py"], tmp_path) == (0, told, "")


EMULATE = """
import numpy as np
from weft import emulator
from weft.emulator import parallel

parallel._TRIAL = 0.0
text = '''.version 8.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [data];
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r1;
  ret;
}'''
data = np.zeros(600, np.uint32)
emulator.Module(text).launch("k", grid=600, block=32, args=[data], threads=2)
assert (data == np.arange(600)).all()
print("done")
"""


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_emulator_runs_in_one_process(system: str, tmp_path: Path) -> None:
    assert ran(system, ["-c", EMULATE], tmp_path) == (0, "done\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_tool_whose_process_crashes(system: str, tmp_path: Path) -> None:
    (tmp_path / "bad.mlir").write_text(CRASHES_IN_PARSER)
    status, out, err = ran(system, [*TOOL, "weft_opt", "bad.mlir"], tmp_path)
    assert (status, out) == (1, "")
    assert "error: MLIR crashed (SIGSEGV) while parsing bad.mlir; this is a defect of MLIR" in err
    (reproducer,) = tmp_path.glob("weft-crash-*.mlir")
    assert reproducer.read_text().endswith(CRASHES_IN_PARSER)


def reading(system: str, folder: Path) -> "subprocess.Popen[str]":
    """weft-opt, when the process that does its work has begun to read stdin."""
    process = started(system, [*TOOL, "weft_opt"], folder, stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(" " * (1 << 20))  # more than a pipe holds
    process.stdin.flush()
    return process


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_tool_that_is_interrupted(system: str, tmp_path: Path) -> None:
    process = reading(system, tmp_path)
    process.send_signal(signal.SIGINT)
    if system == "win32":  # where a terminal interrupts both processes, and nobody else can
        os.kill(child_of(process), signal.SIGINT)
    assert process.wait(timeout=60) == 130  # before stdin is closed, which would end the work by itself
    assert process.communicate() == ("", "weft-opt: interrupted\n")


def child_of(process: "subprocess.Popen[str]") -> int:
    return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())


@pytest.mark.waits
@pytest.mark.each_value(1)
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_work_of_a_tool_ends_with_it(system: str, tmp_path: Path) -> None:
    process = reading(system, tmp_path)
    child = child_of(process)
    process.kill()
    assert process.wait(timeout=60) == -signal.SIGKILL
    deadline = time.monotonic() + 30
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    ended = not Path(f"/proc/{child}").exists() or b"Z" in Path(f"/proc/{child}/stat").read_bytes()
    process.communicate()  # closes its stdin, which would end the work
    assert ended


def test_line_endings_of_windows() -> None:
    text = (ROOT / "examples/matmul.mlir").read_text("utf-8")
    mine, theirs = (weft.compile(each, "sm_80").ptx for each in (text, text.replace("\n", "\r\n")))
    assert mine == theirs
    assert len(emulator.Module(mine.replace("\n", "\r\n")).kernels) == 1


COMMANDS = (
    ["weft_opt", "matmul.mlir", "--select-schedule=chip=sm_90a"],
    ["weft", "compile", "matmul.mlir", "--arch", "sm_90a", "--emit", "ptx"],
    ["weft", "run", "matmul.mlir", "--on", "emulator", "--shape", "64x64x32"],
    ["weft", "lint", "matmul.mlir", "--arch", "sm_90a"],
    ["weft", "doctor"],
)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
@pytest.mark.parametrize("system", SYSTEMS)
def test_tools(system: str, command: list[str], tmp_path: Path) -> None:
    """They print what they print here, except for times and the system's name."""
    (tmp_path / "matmul.mlir").write_bytes((ROOT / "examples/matmul.mlir").read_bytes())
    status, out, err = ran(system, [*TOOL, *command], tmp_path)
    here = subprocess.run([sys.executable, *TOOL, *command], cwd=tmp_path, capture_output=True, text=True)
    assert (status, err) == (here.returncode, here.stderr)
    assert told(out) == told(here.stdout)


def told(text: str) -> list[str]:
    """The lines of a text without those that differ between runs or systems."""
    return [line for line in text.splitlines() if not VARIES.match(line)]


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_types_have_no_names_of_another_system(system: str, tmp_path: Path) -> None:
    """mypy knows what Python's library has on each system."""
    check = [sys.executable, "-m", "mypy", "--platform", system, "--cache-dir", str(tmp_path)]
    done = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
