"""Generating PTX with LLVM in a worker process: options, errors and crashes."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from weft.compiler import channels, codegen, worker
from weft.errors import Location, WeftError

MMA = """
declare {float, float, float, float} @llvm.nvvm.mma.m16n8k16.row.col.bf16(
    i32, i32, i32, i32, i32, i32, float, float, float, float)
define ptx_kernel void @k(ptr %p) {
  %x = alloca float
  %r = call {float, float, float, float} @llvm.nvvm.mma.m16n8k16.row.col.bf16(
      i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, float 0.0, float 0.0, float 0.0, float 0.0)
  %e = extractvalue {float, float, float, float} %r, 0
  store float %e, ptr %x
  %y = load float, ptr %x
  store float %y, ptr %p
  ret void
}
"""


def refused(ir: str, chip: str = "sm_80", ptx_version: tuple[int, int] = (7, 0)) -> WeftError:
    with pytest.raises(WeftError) as caught:
        codegen.to_ptx(ir, chip, ptx_version)
    return caught.value


def works() -> bool:
    return "mma.sync.aligned.m16n8k16" in codegen.to_ptx(MMA, "sm_80", (7, 0)).ptx


def worker_pid() -> int:
    assert codegen._worker.process is not None
    return codegen._worker.process.pid


def gone(pid: int) -> bool:
    """Whether the process ended within 10 s; one that nobody has waited for yet counts as ended."""
    for _ in range(100):
        try:
            status = Path(f"/proc/{pid}/stat").read_text()
        except FileNotFoundError:
            return True
        if status.rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.1)
    return False


def test_ptx_is_for_the_chip_and_version_asked_for():
    made = codegen.to_ptx(MMA, "sm_90a", (8, 4))
    assert ".version 8.4\n.target sm_90a\n" in made.ptx
    assert "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32" in made.ptx


def test_ir_is_shown_after_optimization():
    assert "alloca" not in codegen.to_ptx(MMA, "sm_80", (7, 0), optimized=True).ir
    assert "alloca" in codegen.to_ptx(MMA, "sm_80", (7, 0), opt_level=0, optimized=True).ir
    for passes in (codegen.SOME, codegen.FEW):
        made = codegen.to_ptx(MMA, "sm_80", (7, 0), passes=passes, optimized=True)
        assert "alloca" not in made.ir and "mma.sync" in made.ptx


def test_ir_gets_the_data_layout_of_nvptx():
    assert not codegen.to_ptx(MMA, "sm_80", (7, 0)).ir  # which takes as long as reading the input
    assert 'target datalayout = "e-p6:32:32' in codegen.to_ptx(MMA, "sm_80", (7, 0), optimized=True).ir


def test_the_callers_process_never_holds_llvm():
    call = "import sys, weft.compiler.codegen as c; c.to_ptx('', 'sm_80', (7, 0))"
    check = f"{call}; print('llvmlite' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", check], text=True) == "False\n"


def test_an_abort_of_llvm_names_intrinsic_and_chip_and_ends_nothing_else():
    said = str(refused(MMA, "sm_75", (6, 3)))
    assert said.startswith("llvm.nvvm.mma.m16n8k16.row.col.bf16 doesn't exist on sm_75 with PTX 6.3")
    assert works()


def test_an_unknown_intrinsic_is_no_external_function():
    ir = "declare i32 @llvm.nvvm.no.such()\ndefine i32 @f() { %r = call i32 @llvm.nvvm.no.such() ret i32 %r }"
    assert "LLVM has no intrinsic llvm.nvvm.no.such" in str(refused(ir))


@pytest.mark.parametrize(
    ("chip", "ptx_version", "message"),
    [
        ("sm_999", (7, 0), "LLVM doesn't know processor sm_999"),
        ("sm_80", (77, 0), "LLVM doesn't know feature +ptx770"),
        ("sm_100a", (7, 0), "Minimum required PTX version is 8.6"),
    ],
)
def test_a_target_that_llvm_lacks_is_refused(chip, ptx_version, message):
    assert message in str(refused("define void @f() { ret void }", chip, ptx_version))
    assert message in str(refused(MMA, chip, ptx_version))


def test_a_syntax_error_has_its_source_location():
    (diagnostic,) = refused("define void @f() {\n  call void @g()\n  ret void\n}").diagnostics
    assert diagnostic.location == Location("<llvm ir>", 2, 13)
    assert diagnostic.message == "LLVM IR: use of undefined value '@g'"
    assert "call void @g()" in str(diagnostic.notes[0])


def test_ir_that_llvm_doesnt_verify_is_refused():
    (diagnostic,) = refused(
        "define i32 @f() {\n %y = add i32 %z, 1\n %z = add i32 %y, 1\n ret i32 %z\n}"
    ).diagnostics
    assert diagnostic.message == "LLVM IR: Instruction does not dominate all uses!"
    assert "%z = add i32 %y, 1" in diagnostic.notes[0].message


def test_ir_for_another_machine_is_refused():
    assert "expected target triple nvptx64" in str(refused('target triple = "x86_64-linux-gnu"'))


def test_a_nul_byte_doesnt_cut_the_text_short():
    assert "NUL" in str(refused(MMA + "\0nonsense"))


def test_a_worker_that_died_idle_is_replaced():
    assert works()
    os.kill(worker_pid(), signal.SIGKILL)
    assert gone(worker_pid())
    assert works()


def test_a_worker_that_was_started_ahead_answers():
    codegen._worker.stop()
    codegen.start()
    started = worker_pid()
    codegen.start()
    assert worker_pid() == started
    assert works() and worker_pid() == started


def test_a_worker_that_cant_be_started_ahead_is_no_error(monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EAGAIN, "no more processes")

    codegen._worker.stop()
    monkeypatch.setattr(channels.subprocess, "Popen", refuse)
    codegen.start()
    with pytest.raises(WeftError, match="LLVM's process doesn't start"):
        works()
    monkeypatch.undo()
    assert works()


def test_a_worker_that_hangs_is_ended(monkeypatch):
    assert works()
    pid = worker_pid()
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(codegen, "TIMEOUT_SECONDS", 0.2)
    assert "LLVM didn't finish within 0.2 s (for sm_80 with PTX 7.0)" in str(refused(MMA))
    assert gone(pid)
    monkeypatch.undo()
    assert works()


def test_a_crash_of_the_worker_is_reported():
    assert works()
    os.kill(worker_pid(), signal.SIGSTOP)
    threading.Timer(0.3, os.kill, (worker_pid(), signal.SIGSEGV)).start()
    threading.Timer(0.4, os.kill, (worker_pid(), signal.SIGCONT)).start()
    assert "LLVM crashed (Segmentation fault) (for sm_80 with PTX 7.0)" in str(refused(MMA))
    assert works()


@pytest.mark.parametrize(("system", "status"), [("linux", -9), ("darwin", -9), ("win32", 1)])
def test_a_worker_that_is_killed_is_told_from_a_crash(system, status, monkeypatch):
    monkeypatch.setattr(sys, "platform", system)
    assert worker.DeathError(status, "", "").killed
    assert not any(worker.DeathError(other, "", "").killed for other in (-11, -6, 3, 0xC0000005))


def test_an_interrupted_call_leaves_no_answer_for_the_next(monkeypatch):
    def interrupt(channel, timeout):
        raise KeyboardInterrupt

    monkeypatch.setattr(channels.Channel, "receive_within", interrupt)
    with pytest.raises(KeyboardInterrupt):
        codegen.to_ptx("define void @wrong() { ret void }", "sm_80", (7, 0))
    monkeypatch.undo()
    assert works()


def test_threads_get_their_own_answers():
    names = [f"f{i}" for i in range(24)]
    made = {}

    def make(name):
        made[name] = codegen.to_ptx(f"define void @{name}() {{ ret void }}", "sm_80", (7, 0)).ptx

    threads = [threading.Thread(target=make, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(f".func {name}(" in made[name] for name in names)


def test_a_forked_child_and_its_parent_both_go_on():
    check = """
import os, weft.compiler.codegen as c
make = lambda name: c.to_ptx(f"define void @{name}() {{ ret void }}", "sm_80", (7, 0)).ptx
assert "before" in make("before")
child = os.fork()
assert f"in{child == 0}" in make(f"in{child == 0}")
if child:
    assert os.waitpid(child, 0)[1] == 0
    assert "after" in make("after")
    print("done")
"""
    ran = subprocess.run([sys.executable, "-W", "error", "-c", check], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("done\n", "")


@pytest.mark.parametrize("end", ["pass", "os.kill(os.getpid(), 9)"])
def test_the_worker_ends_with_its_parent(end):
    check = f"""
import os, weft.compiler.codegen as c
c.to_ptx("", "sm_80", (7, 0))
print(c._worker.process.pid, flush=True)
{end}
"""
    ran = subprocess.run([sys.executable, "-W", "error", "-c", check], capture_output=True, text=True)
    assert ran.stderr == ""
    assert gone(int(ran.stdout))
