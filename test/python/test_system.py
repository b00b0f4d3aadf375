"""If the operating system refuses something, one sentence gives advice, and no partial file remains."""

import errno
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from weft import mlir
from weft.bench.compiling import Compiler
from weft.compiler import codegen, ptxas, translation
from weft.emulator import Module
from weft.errors import WeftError
from weft.tools import cli, doctor, supervisor

PTX = """.version 8.4
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 p)
{
	ret;
}
"""
LLVM = "define ptx_kernel void @kernel() { ret void }"


def script(text: str, *, timeout: float = 60) -> str:
    """What a Python program prints that has not more than it says."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text], capture_output=True, text=True, timeout=timeout
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def translated_apart() -> None:
    with mlir.ir.Context(), mlir.ir.Location.unknown():
        made = mlir.ir.Module.parse("gpu.module @m { llvm.func @f() { llvm.return } }")
        translation.translate(made.body.operations[0], apart=True)


CHILDREN = {
    "ptxas": lambda: ptxas.assemble(PTX, "sm_80"),
    "ptxas --version": lambda: ptxas._version_of(ptxas.find("ptxas")),
    "nvdisasm": lambda: ptxas.disassemble(b"\x7fELF"),
    "LLVM's process": lambda: codegen.to_ptx(LLVM, "sm_80", (7, 0)),
    "the translation": translated_apart,
}


@pytest.mark.each_value(2)
@pytest.mark.parametrize("start", CHILDREN.values(), ids=CHILDREN)
def test_no_more_processes(start, monkeypatch):
    def refuse(*args, **options):
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    codegen._worker.stop()
    monkeypatch.setattr("subprocess.Popen", refuse)
    with pytest.raises(
        WeftError, match=r"start|cannot run .*: .*end some processes.*\(ulimit -u\)"
    ) as caught:
        start()
    assert len(str(caught.value).splitlines()) == 1
    monkeypatch.undo()
    start() if "nvdisasm" not in str(caught.value) else None


def test_a_real_limit_on_processes():
    said = script("""
import os, resource
from weft.compiler import codegen, ptxas
from weft.errors import WeftError
ptxas.find("ptxas")
if os.geteuid() == 0:  # whom no limit binds
    os.setuid(54321)
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
for start in (
    lambda: codegen.to_ptx("define void @f() { ret void }", "sm_80", (7, 0)),
    lambda: ptxas.assemble(".version 8.4\\n.target sm_80\\n.address_size 64\\n", "sm_80"),
):
    try:
        start()
    except WeftError as error:
        print(error)
""")
    assert said.count("Resource temporarily unavailable; end some processes, or raise") == 2


@pytest.mark.each_value(2)
@pytest.mark.parametrize("start", CHILDREN.values(), ids=CHILDREN)
def test_no_temporary_directory_is_needed(start, monkeypatch):
    def refuse(*args, **options):
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    codegen._worker.stop()
    monkeypatch.setenv("TMPDIR", "/no/such/directory")
    for name in ("gettempdir", "mkdtemp", "mkstemp", "TemporaryFile", "TemporaryDirectory"):
        monkeypatch.setattr(tempfile, name, refuse)
    try:
        start()
    except WeftError as error:
        assert "nvdisasm" in str(error)  # which doesn't take the bytes, and was run


@pytest.mark.parametrize("start", CHILDREN.values(), ids=CHILDREN)
def test_no_more_files_can_be_opened(start, monkeypatch):
    def refuse(*args, **options):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    codegen._worker.stop()
    for name in ("os.memfd_create", "subprocess.Popen"):
        monkeypatch.setattr(name, refuse)
    with pytest.raises(WeftError, match=r"Too many open files; .*\(ulimit -n\)"):
        start()


def test_a_limit_on_the_size_of_files():
    said = script("""
import resource
from weft.compiler import codegen, ptxas
from weft.errors import WeftError
head = ".version 8.4\\n.target sm_80\\n.address_size 64\\n.visible .entry kernel() { ret; }\\n"
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
print("ret;" in codegen.to_ptx("define void @f() { ret void }", "sm_80", (7, 0)).ptx)
for text in (head, head + "//" + "x" * 3000):
    try:
        ptxas.assemble(text, "sm_80")
    except WeftError as error:
        print(error)
""")
    generated, killed, unwritten = said.splitlines()
    assert generated in ("generated", "True")
    assert killed.startswith("ptxas was killed by signal 25, File size limit exceeded; raise")
    assert unwritten.startswith("cannot write 30") and unwritten.endswith("(ulimit -f)")


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    said = script(f"""
import resource
from weft.errors import WeftError
from weft.tools import cli, doctor, supervisor
cli.write({str(tmp_path / "x")!r}, "old")
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    cli.write({str(tmp_path / "x")!r}, "new" * 1000)
except WeftError as error:
    print(error)
""")
    reason = "File too large; raise the limit on the size of files (ulimit -f)"
    assert said == f"cannot write '{tmp_path}/x': {reason}\n"
    assert (tmp_path / "x").read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    target = tmp_path / "x"
    cli.write(str(target), "old")

    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(WeftError, match="No space left on device; free some space on that file system"):
        cli.write(str(target), "new")
    assert target.read_text() == "old" and list(tmp_path.iterdir()) == [target]


def run(trace: str, ptx: str = PTX) -> None:
    Module(ptx).launch("kernel", args=[np.zeros(4, np.int32)], grid=1, block=32, trace=trace)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing/trace.json", "No such file or directory"),
        (".", "Is a directory"),
        ("\0", "the name contains a zero byte"),
    ],
)
def test_a_trace_that_cant_be_written_is_refused_before_the_launch(name, reason, tmp_path, monkeypatch):
    monkeypatch.setattr("weft.emulator.waves.Waves.run", lambda *args: pytest.fail("the launch has begun"))
    with pytest.raises(WeftError, match=f"cannot write the trace '.*': {reason}"):
        run(f"{tmp_path}/{name}")


def test_a_disk_that_fills_up_while_a_launch_runs(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(WeftError, match=r"cannot write the trace '.*t\.json': No space left on device; free"):
        run(f"{tmp_path}/t.json")
    assert not list(tmp_path.iterdir())
    faulty = PTX.replace("ret;", "trap;")
    with pytest.warns(UserWarning, match="cannot write the trace"), pytest.raises(WeftError, match="trap"):
        run(f"{tmp_path}/t.json", faulty)


@pytest.mark.waits
def test_a_program_that_hangs_is_ended_with_all_that_it_started(tmp_path, monkeypatch):
    fake, started = tmp_path / "ptxas", tmp_path / "pid"
    fake.write_text(f"#!/bin/sh\nsleep 30 & echo $! > {started}; wait\n")
    fake.chmod(0o755)
    monkeypatch.setenv("WEFT_PTXAS", str(fake))
    monkeypatch.setattr(ptxas, "TIMEOUT_SECONDS", 1)
    with pytest.raises(WeftError, match="ptxas didn't finish within 1 s"):
        ptxas.assemble(PTX, "sm_80")
    status = Path(f"/proc/{started.read_text().strip()}/stat")
    for _ in range(100):
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.1)
    pytest.fail("what ptxas started still runs")


def test_nothing_stays_of_a_killed_process(tmp_path, monkeypatch):
    fake = tmp_path / "ptxas"
    fake.write_text("#!/bin/sh\nkill -9 $PPID\n")
    fake.chmod(0o755)
    folder = tmp_path / "tmp"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", f"from weft.compiler import ptxas; ptxas.assemble({PTX!r}, 'sm_80')"],
        env=os.environ | {"TMPDIR": str(folder), "WEFT_PTXAS": str(fake)},
        timeout=60,
    )
    assert done.returncode == -9 and not list(folder.iterdir())


@pytest.mark.parametrize(
    ("mode", "said"), [(0o700, "0 entries, 0.0 of"), (0o777, "nothing is kept: others can write ")]
)
def test_doctor_reports_why_nothing_is_kept(mode, said, tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    tmp_path.chmod(mode)
    (tmp_path / "dangling").symlink_to("nowhere")
    (found,) = (finding for finding in doctor.examine() if finding.name == "cache")
    assert found.present == (mode == 0o700) and said in found.text


def exhausted(*args, **options):
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def test_a_tool_that_gets_no_process_reports_it(monkeypatch, capsys):
    monkeypatch.setattr("os.fork", exhausted)
    monkeypatch.setattr("signal.pthread_sigmask", lambda *args: None)  # pytest's own process goes on
    assert supervisor.supervised("weft", lambda: pytest.fail("has begun")) == 1
    said = capsys.readouterr().err
    assert said.startswith("weft: error: cannot start a process: Resource temporarily unavailable; end some")


def test_precompiling_without_processes_reports_it(monkeypatch):
    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor.submit", exhausted)
    with (
        Compiler(1) as compiler,
        pytest.raises(WeftError, match=r"cannot start a process that compiles: .*ulimit"),
    ):
        compiler.ahead(None, ["{}"])
