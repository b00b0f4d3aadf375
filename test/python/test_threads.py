"""Threads, forked children, tasks and generators build modules of their own, or get a reason."""

import argparse
import ast
import asyncio
import contextlib
import contextvars
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import weft
from weft.mlir import arith, ir
from weft.system import syntax

STORM = Path(__file__).with_name("thread_storm.py")
REFUSED = "module must be"


def storm(threads, turns, seconds):
    # Nothing may come from the cache: it is what makes things that is tried.
    done = subprocess.run(
        [sys.executable, STORM, str(threads), str(turns)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env={**os.environ, "WEFT_CACHE": "0", "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]


def test_threads_compile_multiply_build_and_fork_at_once():
    storm(4, 1, 240)


FORKS_DURING_AN_IMPORT = """
import os, sys, threading
import weft.system.locks

weft.__path__.append(sys.argv[1])
inside = threading.Event()
thread = threading.Thread(target=__import__, args=("weft.planted",))
thread.start()
inside.wait()
if not (child := os.fork()):
    import weft.planted
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
thread.join()
"""
PLANTED = """
import __main__, logging, time

__main__.inside.set()
time.sleep(0.5)  # until the other thread forks
logging.getLogger("imported")
import concurrent.futures.thread
"""


def test_a_fork_waits_for_imports_and_for_the_locks_that_they_need(tmp_path):
    """Otherwise the child waits forever for a module that no thread of it imports."""
    (tmp_path / "planted.py").write_text(PLANTED)
    program = [sys.executable, "-c", FORKS_DURING_AN_IMPORT, tmp_path]
    done = subprocess.run(program, timeout=60, check=True, capture_output=True, text=True)
    assert not done.stderr


IMPORTS_OF_USERS = {
    "that wait for the thread that forks": (
        "import app",
        "thread = threading.Thread(target=fork)",
        "thread.start()",
        "thread.join()",
    ),
    "that do not end": (
        "threading.Thread(target=__import__, args=('app',), daemon=True).start()",
        "sys.inside.wait()",
        "fork()",
        "sys.inside.set()",
        "time.sleep(1000)",
    ),
    "that use LLVM": (
        "threading.Thread(target=__import__, args=('app',)).start()",
        "sys.inside.wait()",
        "fork()",
        "sys.inside.set()",
        "time.sleep(0.5)",
        "llvmlite.binding.parse_assembly('')",
        "with locks.whole_process(): pass",
    ),
}
FORK = """
import os, sys, threading, time, llvmlite.binding
from weft.system import locks

def fork():
    if not (child := os.fork()):
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

if __name__ == "__main__":
    sys.inside = threading.Event()
"""


@pytest.mark.parametrize("lines", IMPORTS_OF_USERS.values(), ids=IMPORTS_OF_USERS)
def test_a_fork_does_not_wait_for_imports_of_users(lines, tmp_path):
    """The program imports itself; what follows the fork, or the import of itself, runs in the import."""
    first = next(i for i, line in enumerate(lines, 1) if line in ("fork()", "import app"))
    parts = ["".join(f"    {line}\n" for line in part) for part in (lines[:first], lines[first:])]
    (tmp_path / "app.py").write_text(f"{FORK}{parts[0]}else:\n{parts[1]}")
    subprocess.run([sys.executable, "app.py"], timeout=30, check=True, cwd=tmp_path)


@pytest.mark.slow
def test_threads_hold_for_long():
    for _ in range(10):
        storm(8, 1, 600)
    storm(8, 40, 1200)


def numbers(count=3):
    for number in range(count):
        arith.constant(ir.IntegerType.get_signless(32), number)


def kernel(module, name="k"):
    return module.kernel(name, [], block=(32, 1, 1))


def placed(module):
    return module.mlir.operation.get_asm(enable_debug_info=True)


def built():
    with weft.Module() as module, kernel(module):
        numbers()
    return placed(module)


def constants(module):
    return str(module).count("arith.constant")


@pytest.mark.parametrize(("threads", "modules"), [(2, 2), pytest.param(4, 20, marks=pytest.mark.slow)])
def test_locations_are_those_of_the_caller_in_every_thread(threads, modules):
    alone, found = built(), []
    assert alone.count(f'"{__file__}"') >= 2
    ready = threading.Barrier(threads)

    def work():
        ready.wait()
        found.extend(built() for _ in range(modules))

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == threads * modules
    # The frame of a thread's work isn't among the locations, but the builder's own is.
    assert set(found) == {alone}


def test_a_location_of_ones_own_is_kept():
    with weft.Module() as module, kernel(module):
        numbers(1)
        with ir.Location.name("mine"):
            numbers(1)
    assert placed(module).count('loc("mine")') == 1


def test_upstreams_builders_are_replaced_only_while_a_module_is_entered():
    own = ir.OpView.__init__, ir.Operation.create
    first, second = weft.Module(), weft.Module()
    with first:
        assert ir.OpView.__init__ is not own[0]
        assert ir.Operation.create is not own[1]
        with second:
            pass
        assert ir.OpView.__init__ is not own[0]
    assert (ir.OpView.__init__, ir.Operation.create) == own
    # Another thread that is in a module keeps them.
    entered, leave = threading.Event(), threading.Event()

    def work():
        with weft.Module():
            entered.set()
            leave.wait()

    worker = threading.Thread(target=work)
    worker.start()
    entered.wait()
    assert built()
    assert ir.OpView.__init__ is not own[0]
    leave.set()
    worker.join()
    assert (ir.OpView.__init__, ir.Operation.create) == own


def test_tasks_that_await_in_a_module_are_refused_rather_than_mixed():
    modules, refusals = {}, []

    async def build(name):
        with weft.Module() as module, kernel(module, name):
            modules[name] = module
            numbers()
            await asyncio.sleep(0)
            try:
                numbers()
            except weft.WeftError as error:
                refusals.append((name, str(error)))

    async def main():
        await asyncio.gather(build("a"), build("b"))

    asyncio.run(main())
    assert "@a" in str(modules["a"]) and "@b" not in str(modules["a"])
    assert "@b" in str(modules["b"]) and "@a" not in str(modules["b"])
    ((name, refusal),) = refusals  # the innermost goes on
    assert name == "a" and "don't await or yield" in refusal and "test_threads.py" in refusal
    assert constants(modules["a"]) == 3 and constants(modules["b"]) == 6
    assert built()


def test_tasks_that_do_not_await_in_a_module_build_as_they_like():
    async def build():
        await asyncio.sleep(0)
        return built()

    async def main():
        return await asyncio.gather(*(build() for _ in range(8)))

    assert set(asyncio.run(main())) == {built()}


def test_a_task_that_is_started_in_a_module_is_not_its_builder():
    async def main():
        with weft.Module() as module, kernel(module):

            async def inner():
                with pytest.raises(weft.WeftError, match=REFUSED):
                    numbers()
                with pytest.raises(weft.WeftError, match=REFUSED):
                    weft.memref("?x?", "f32")
                with pytest.raises(weft.WeftError, match=REFUSED), module.func("other", []):
                    pass
                return built()

            assert await asyncio.create_task(inner())
            numbers()
        return module

    assert constants(asyncio.run(main())) == 3


def test_a_task_without_a_module_does_not_build_in_another_ones():
    async def main():
        entered, over = asyncio.Event(), asyncio.Event()

        async def owner():
            with weft.Module() as module, kernel(module):
                entered.set()
                await over.wait()
            return module

        async def stranger():
            await entered.wait()
            with pytest.raises(weft.WeftError, match=REFUSED):
                numbers()
            with pytest.raises(weft.WeftError, match=REFUSED):
                ir.Operation.create("some.op")
            over.set()

        module, _ = await asyncio.gather(owner(), stranger())
        return module

    assert constants(asyncio.run(main())) == 0


def test_a_block_of_a_generator_cant_end_in_a_later_block():
    """Its operations since then are in the later module."""

    def parts(made):
        with weft.Module() as module, kernel(module):
            made.append(module)
            for _ in range(2):
                numbers(1)
                yield

    made = []
    first, second = parts(made), parts(made)
    next(first), next(second), next(first)
    with pytest.raises(weft.WeftError, match=REFUSED + ".*don't yield inside 'with weft.Module"):
        next(first)
    assert list(second) == [None]
    assert [constants(module) for module in made] == [1, 3]
    assert built()


def test_a_generator_that_is_dropped_leaves_no_trace():
    def parts():
        with weft.Module() as module, kernel(module):
            yield

    for _ in range(3):
        generator = parts()
        next(generator)
        with weft.Module() as module, kernel(module):
            del generator
            numbers(2)
        assert constants(module) == 2
    assert ir.Context.current is None
    assert built()


def test_a_block_that_stays_open_in_a_module_that_has_ended_is_named():
    """MLIR's entry for it is above the module's, which can't be removed."""
    with weft.Module() as module:
        left_open = ir.InsertionPoint(ir.InsertionPoint.current.block)
        left_open.__enter__()
    with pytest.raises(weft.WeftError, match=REFUSED):
        arith.constant(ir.IntegerType.get_signless(32, module.context), 1)
    left_open.__exit__(None, None, None)
    assert built()


def test_blocks_nest_in_helpers_of_every_kind():
    @contextlib.contextmanager
    def inner():
        with weft.Module() as module, kernel(module):
            yield module

    def helper():
        numbers(1)

    with weft.Module() as outer, kernel(outer):
        with inner() as module:
            helper()
        with contextlib.ExitStack() as stack:
            other = stack.enter_context(weft.Module())
            stack.enter_context(kernel(other))
            helper()
            contextvars.copy_context().run(helper)
        assert weft.compile(module, arch="sm_80").ptx
        numbers(3)
        with weft.Module() as late:
            late_part = weft.memref("?x?", "f32")
            with late.func("f", [late_part]):
                pass
    assert [constants(each) for each in (outer, module, other)] == [3, 1, 2]


def test_a_module_of_another_thread_is_refused():
    failures = []

    def work(module):
        for enter in (lambda: module, lambda: kernel(module)):
            try:
                with enter():
                    pass
            except weft.WeftError as error:
                failures.append(str(error))

    with weft.Module() as module:
        worker = threading.Thread(target=work, args=(module,))
        worker.start()
        worker.join()
    assert len(failures) == 2 and all("this thread" in failure for failure in failures)
    assert str(module).strip() == "module {\n}"


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python counts for each thread")
def test_a_thread_parses_while_a_collection_lets_another_one_do_so():
    """JAX, for example, calls Python at each collection."""
    text = Path(argparse.__file__).read_text()
    other = threading.Thread(target=syntax.parse, args=("((1 + 2) * 3)",))

    def collected(*_):
        if not other.ident:
            other.start()
            other.join(0.2)

    expected = ast.dump(ast.parse(text))
    threshold = gc.get_threshold()
    gc.callbacks.append(collected)
    gc.set_threshold(50)
    try:
        assert ast.dump(syntax.parse(text)) == expected
    finally:
        gc.callbacks.remove(collected)
        gc.set_threshold(*threshold)
    other.join()


def test_threads_compile_the_same_module(monkeypatch):
    monkeypatch.setenv("WEFT_CACHE", "0")
    with weft.Module() as module, kernel(module):
        numbers(20)
    found = []
    workers = [
        threading.Thread(target=lambda: found.append(weft.compile(module, arch="sm_80").llvm))
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 4 and len(set(found)) == 1


def test_contexts_start_no_threads():
    from weft.dialects import context

    assert context().get_num_threads() == 1


@pytest.mark.slow
def test_a_value_outlives_its_module_and_then_both_go():
    before = ir.Context._get_live_count()
    for _ in range(3):
        with weft.Module() as module, kernel(module):
            value = arith.constant(ir.IntegerType.get_signless(32), 7)
        assert ir.Context._get_live_count() == before + 1
        del module
        gc.collect()
        assert "arith.constant 7" in str(value)
        assert "gpu.module" in str(value.owner.parent.parent.operation)
        del value
    with weft.Module():
        pass
    gc.collect()
    assert ir.Context._get_live_count() <= before + 1


@pytest.mark.slow
def test_an_argument_is_printed_after_its_module_is_gone():
    def argument():
        with weft.Module() as module, module.func("f", [weft.memref("?x?", "f32")]) as (a,):
            pass
        return a

    kept = [argument() for _ in range(3)]
    gc.collect()
    for value in kept:
        assert "memref<?x?xf32>" in str(value)
        assert value.owner.owner.operation.name == "func.func"
