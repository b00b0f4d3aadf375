"""Ctrl-C at any moment of a call of the cache: other threads find the entry, and nothing stays."""

import contextlib
import gc
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from weft.cache import disk_cache
from weft.cache.disk_cache import Cache
from weft.compiler import worker
from weft.system import file_locks

FILES = {module.__file__ for module in (disk_cache, file_locks, contextlib, worker)}


class Interrupt:
    """Raises KeyboardInterrupt at the `at`-th moment at which CPython may: where a function of these files
    begins, and after each function of C that they call.
    """

    def __init__(self, at):
        self.at = at
        self.moments = 0

    def __call__(self, frame, event, function):
        if event in ("call", "c_return") and frame.f_code.co_filename in FILES:
            self.moments += 1
            if self.moments == self.at:
                sys.setprofile(None)
                raise KeyboardInterrupt


def interrupted(work):
    """Errors of calls of `work` (with a number), each interrupted one moment later, until one isn't."""
    for at in range(1, 1000):
        before, interrupt = sys.getprofile(), Interrupt(at)
        try:
            sys.setprofile(interrupt)
            work(at)
            sys.setprofile(before)
            assert interrupt.moments < at and at > 20
            return
        except KeyboardInterrupt as error:
            sys.setprofile(before)
            yield at, error
    raise AssertionError("it doesn't end")


def plain(cache, key):
    cache.get_or_make("cubin", [key], lambda: b"made")


def nested(cache, key):
    cache.get_or_make("ptx", [key], lambda: cache.get_or_make("cubin", [key], lambda: b"made"))


def changing(cache, key):
    cache.change("cubin", [key], lambda _: b"made")


@pytest.mark.each_value(1)
@pytest.mark.parametrize("call", [plain, nested, changing])
def test_ctrl_c_at_any_moment_leaves_no_lock(tmp_path, call):
    cache = Cache(tmp_path)
    with ThreadPoolExecutor(1) as threads:
        for at, error in interrupted(lambda at: call(cache, str(at))):
            # Others find or make the entry, even if somebody keeps the error, as notebooks do.
            asked = threads.submit(changing if call is changing else plain, cache, str(at))
            asked.result(timeout=20)
            assert not disk_cache._guard.locked()
            del error
    gc.collect()  # errors refer to their frames
    plain(cache, "the last")
    assert len(disk_cache._locks) == 1


def test_ctrl_c_at_any_moment_lets_the_next_caller_start_a_worker():
    made = worker.Worker("weft.compiler.codegen", "LLVM's process")

    def start(_):
        made.start()
        made.stop()

    for _, _error in interrupted(start):
        assert not made._lock.locked()
        made.stop()


def test_a_moment_that_leaves_a_lock_is_found():
    lock = threading.Lock()

    @contextlib.contextmanager
    def held():
        lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def work(_):
        for _ in range(10):
            with held():
                pass

    assert any(lock.locked() for _, _error in interrupted(work))
