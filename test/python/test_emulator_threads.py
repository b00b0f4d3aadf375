"""Threads that launch the same kernels at the same time."""

import contextlib
import os
import signal
import threading

import numpy as np
import one_product
import pytest
from emulator_ptx import HEAD, kernel
from llvmlite.binding import ffi
from meanwhile import growing

import weft
from weft import emulator
from weft.emulator import launch, native, parallel
from weft.emulator.compiled.tiers import Tier
from weft.launch.kernel import Kernel


def in_threads(count, work):
    """Calls `work` in threads at once, and raises what one of them raises."""
    ready, errors = threading.Barrier(count), []

    def run():
        ready.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_a_program_is_decoded_once(monkeypatch):
    decoded, both = [], threading.Barrier(2)

    class Program(launch.Program):
        def __init__(self, *args):
            decoded.append(threading.get_ident())
            with contextlib.suppress(threading.BrokenBarrierError):
                both.wait(0.2)
            super().__init__(*args)

    monkeypatch.setattr(launch, "Program", Program)
    inputs, results = np.arange(32, dtype=np.uint32), [np.zeros(32, np.uint32) for _ in range(2)]
    module = emulator.Module(kernel("add.u32 %d0, %a0, 1;", [inputs], results[:1]))
    waiting = list(results)
    in_threads(2, lambda: module.launch("k", block=32, args=[inputs, waiting.pop()]))
    assert len(decoded) == 1
    for result in results:
        np.testing.assert_array_equal(result, inputs + 1)


def test_launches_have_workspaces_of_their_own(monkeypatch):
    """Also where a thread has seen a kept workspace, and another one continues."""
    used = []
    monkeypatch.setattr(emulator.Module, "launch", lambda *_, args, **options: used.append(args))
    product = weft.compile(one_product.text(one_product.PARTS), arch="sm_90a")
    arrays = np.ones((64, 192), np.float16), np.ones((64, 192), np.float16), np.zeros((64, 64), np.float32)
    both = threading.Barrier(2)

    def seen(self):
        kept = vars(self)["kept"]
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.2)
        return kept

    product.emulate(*arrays)
    vars(product)["kept"] = vars(product).pop("_emulated")
    keep = property(seen, lambda self, kept: vars(self).update(kept=kept))
    monkeypatch.setattr(Kernel, "_emulated", keep, raising=False)
    in_threads(2, lambda: product.emulate(*arrays))
    # The arguments are views of the arrays.
    owned = [{id(x) for x in args if isinstance(x, np.ndarray) and x.flags.owndata} for args in used]
    before, *during = owned
    assert before in during
    assert during[0].isdisjoint(during[1])


def test_what_others_write_between_the_columns_of_a_buffer_stays():
    memory, inputs = np.zeros((2, 64), np.uint32), np.arange(16, dtype=np.uint32)
    # Memory that doesn't begin at a multiple of 16 bytes is copied, with all between its first and last byte.
    columns = memory[:, 1:17]

    def others(done, total):
        memory[0, 17:] = 7

    module = emulator.Module(kernel("add.u32 %d0, %a0, 1;", [inputs], [columns]))
    module.launch("k", block=16, args=[inputs, columns], progress=others)
    np.testing.assert_array_equal(columns[0], inputs + 1)
    assert (memory[0, 17:] == 7).all()


def test_a_launch_moves_variables_of_the_module_for_itself_alone():
    module = emulator.Module(HEAD.format(target="sm_80") + ".global .u32 total;")
    (segment,) = module.device.segments
    (copy,) = module.device.copy().segments
    data, view = segment.data, segment.view(4)
    copy.view(4)[0] = 3
    copy.replace(np.ones(4, np.uint8))
    assert segment.data is data
    assert segment.view(4) is view
    assert view[0] == 3
    assert copy.view(4)[0] == 0x01010101


def test_blocks_that_others_count_while_some_are_chosen():
    inputs = np.arange(32, dtype=np.uint32)
    module = emulator.Module(kernel("add.u32 %d0, %a0, 1;", [inputs], [inputs]))
    program, _ = module.prepared("k", launch.Shape(1, 32, 1, 0), None)
    tier = Tier(program)
    # Python keeps 2,000 pairs, for which it needn't allocate.
    tier._runs.update(dict.fromkeys(range(5000), 30))
    with growing(tier._runs, 1):
        assert tier.interpreted(0, 10**6)
    assert tier.ready
    assert tier._hot == set(range(5000))


@pytest.mark.skipif(not parallel.work(), reason="the system doesn't copy processes")
def test_a_forked_child_uses_llvm_that_another_thread_was_in():
    held, tried = threading.Event(), threading.Event()

    def hold():
        with ffi.lib._lock:
            held.set()
            tried.wait(0.2)

    native.machine(0)
    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        try:
            native.machine(0)
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    tried.set()
    other.join()
    assert status == 0
