"""Work that is postponed until a thread waits for another process."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from fake_driver import GpuArray, two_gpus

import weft
from weft import disk_cache as cache
from weft import idle, system
from weft.compiler import codegen
from weft.dialects.schedule import Types, WarpgroupSchedule
from weft.disk_cache import Cache
from weft.errors import WeftError
from weft.launch import launcher
from weft.multiply import compiled_schedules, product_kernel

SCHEDULE = WarpgroupSchedule((128, 64, 64), 2, 3)


def raising(text):
    def work():
        raise WeftError(text)

    return work


def test_work_is_done_at_once_outside_of_a_block():
    done = []
    idle.later(lambda: done.append(1))
    assert done == [1]


def test_work_is_done_in_order_at_the_end_of_the_outermost_block():
    done = []
    with idle.postponing():
        idle.later(lambda: idle.later(lambda: done.append(1)))
        with idle.postponing():
            idle.later(lambda: done.append(2))
        assert done == []
    assert done == [1, 2]


def test_work_is_done_after_an_error():
    done = []
    with pytest.raises(WeftError, match="block"), idle.postponing():
        idle.later(lambda: done.append(1))
        raise WeftError("block")
    with pytest.raises(WeftError, match="work"), idle.postponing():
        idle.later(raising("work"))
        idle.later(lambda: done.append(2))
    idle.later(lambda: done.append(3))
    assert done == [1, 2, 3]


def test_errors_of_work_dont_replace_that_of_the_block():
    done = []
    with pytest.raises(KeyboardInterrupt), idle.postponing():
        idle.later(raising("work"))
        idle.later(lambda: done.append(1))
        raise KeyboardInterrupt
    assert done == [1]


def test_optional_work_is_done_last_in_a_wait_or_not_at_all():
    done = []
    idle.meanwhile(lambda: done.append(1))
    with idle.postponing():
        idle.meanwhile(lambda: done.append(2))
        idle.later(lambda: done.append(3))
        idle.later(lambda: done.append(4))
        idle.do()
        idle.meanwhile(lambda: done.append(5))
    with idle.postponing():
        idle.do()
    assert done == [3, 4, 2]


def test_a_block_is_of_one_thread():
    done = []
    with idle.postponing():
        thread = threading.Thread(target=lambda: idle.later(lambda: done.append(1)))
        thread.start()
        thread.join()
        assert done == [1]


def test_work_is_done_while_a_program_runs(tmp_path):
    """The program waits for it."""
    code = f"import os, time\nwhile not os.path.exists({str(tmp_path / 'done')!r}): time.sleep(0.01)"
    with idle.postponing():
        idle.later((tmp_path / "done").touch)
        assert system.run([sys.executable, "-c", code], timeout=60).returncode == 0
    with pytest.raises(WeftError, match="work"), idle.postponing():
        idle.later(raising("work"))
        system.run([sys.executable, "-c", "input()"], timeout=60)


def test_work_is_done_while_llvm_runs():
    done = []
    with idle.postponing():
        idle.later(lambda: done.append(1))
        codegen.to_ptx("define void @f() { ret void }", "sm_80", (7, 0))
        assert done == [1]
        with pytest.raises(WeftError, match="work"):
            idle.later(raising("work"))
            codegen.to_ptx("define void @f() { ret void }", "sm_80", (7, 0))
    assert "f" in codegen.to_ptx("define void @f() { ret void }", "sm_80", (7, 0)).ptx


def test_an_error_of_the_system_in_postponed_work_isnt_the_death_of_llvm():
    def work():
        raise OSError("work")

    with pytest.raises(OSError, match="work"), idle.postponing():
        idle.later(work)
        codegen.to_ptx("define void @f() { ret void }", "sm_80", (7, 0))


def test_an_entry_is_kept_later_and_made_once(tmp_path):
    kept, made = Cache(tmp_path), []

    def make():
        made.append(1)
        return b"made"

    with ThreadPoolExecutor(1) as threads, idle.postponing():
        assert kept.get_or_make("ptx", ["key"], make) == b"made"
        other = threads.submit(kept.get_or_make, "ptx", ["key"], make)
        assert kept.get_or_make("cubin", ["key"], make) == b"made"
        assert other.result() == b"made" and not list(tmp_path.iterdir())
    assert len(made) == 2 and len(list(tmp_path.iterdir())) == 2


def test_threads_that_keep_entries_later_dont_wait_for_each_other(tmp_path):
    kept, both, got = Cache(tmp_path), threading.Barrier(2, timeout=20), []

    def ask(first, second):
        with idle.postponing():
            kept.get_or_make("ptx", [first], lambda: b"made")
            both.wait()
            got.append(kept.get_or_make("ptx", [second], lambda: b"again"))

    threads = [threading.Thread(target=ask, args=keys, daemon=True) for keys in ("ab", "ba")]
    for each in threads:
        each.start()
    for each in threads:
        each.join(20)
    assert got == [b"made"] * 2


def test_a_child_that_is_forked_meanwhile_says_nothing(tmp_path):
    code = f"""
import os, threading
from pathlib import Path
from weft import idle
from weft.disk_cache import Cache
postponed, forked = threading.Event(), threading.Event()
def make():
    with idle.postponing():
        Cache(Path({str(tmp_path)!r})).get_or_make("ptx", ["key"], lambda: b"made")
        postponed.set()
        forked.wait()
thread = threading.Thread(target=make)
thread.start()
postponed.wait()
if (child := os.fork()) == 0:
    assert Cache(Path({str(tmp_path)!r})).get_or_make("ptx", ["key"], lambda: b"again") == b"again"
    os._exit(0)
print(os.waitpid(child, 0)[1])
forked.set()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("0\n", "")
    assert len(list(tmp_path.iterdir())) == 1


def test_in_a_block_a_name_is_computed_once():
    computed = []
    for _ in range(2):
        assert idle.once("a", lambda: computed.append("outside") or 1) == 1
    with idle.postponing():
        for _ in range(2):
            assert idle.once("a", lambda: computed.append("inside") or 2) == 2
            assert idle.once("b", lambda: computed.append("other") or None) is None
    with idle.postponing():
        assert idle.once("a", lambda: 3) == 3
    assert computed == ["outside", "outside", "inside", "other"]


def test_an_entry_whose_key_changes_until_it_is_kept_isnt(tmp_path):
    state = ["before"]
    with idle.postponing():
        Cache(tmp_path).get_or_make("ptx", lambda present: list(state), lambda: b"made")
        state[0] = "after"
    assert not list(tmp_path.iterdir())


def test_entries_of_a_kernel_are_kept_while_other_processes_compile_it(tmp_path, patch):
    patch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    product_kernel.compiled.cache_clear()

    def kinds():
        return {entry.path.name.partition("-")[0] for entry in cache.default().entries()}

    with idle.postponing():
        kernel = product_kernel.plain(Types("f16", "f16", "f16"), SCHEDULE, "sm_90a")
        assert not tmp_path.exists() or kinds() == set()
        _ = kernel.ptx
        assert kinds() == {"llvm", "module", "schedules"}
        _ = kernel.cubin
        assert kinds() == {"llvm", "module", "schedules", "ptx"}
    assert kinds() == {"llvm", "module", "schedules", "ptx", "cubin"}


def test_a_call_does_what_it_can_while_other_processes_compile(tmp_path, patch):
    patch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    order, run, add, host_code = [], codegen.to_ptx, compiled_schedules.add, launcher.compiled
    patch.setattr(codegen, "to_ptx", lambda *of, **given: (order.append("llvm"), run(*of, **given))[1])
    patch.setattr(compiled_schedules, "add", lambda *of: (order.append("add"), add(*of)))
    patch.setattr(launcher, "compiled", lambda: (order.append("host code"), host_code())[1])
    with two_gpus(patch) as driver:
        weft.matmul(GpuArray(driver, 0, 1000, 64), GpuArray(driver, 0, 64, 512), schedule=SCHEDULE)
    assert order[:3] == ["llvm", "add", "host code"]
