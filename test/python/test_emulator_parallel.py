"""CTAs on several cores: the same results, findings and errors as on one."""

import gc
import os
import signal
import sys
import threading
import time
import weakref

import numpy as np
import planted_faults
import pytest
from emulator_ptx import module

from weft import WeftError, emulator
from weft.emulator import parallel
from weft.emulator.running.ctas import Grid, Launch
from weft.emulator.running.totals import Totals
from weft.emulator.watching.observers import Observers
from weft.emulator.waves import Waves

CTAS, THREADS = 100, 64
COUNT = CTAS * THREADS
BODY = """
  .reg .b32 %r<12>;
  .reg .b64 %rd<4>;
  .reg .pred %p<3>;
  ld.param.u64 %rd1, [data];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %r3, %r1, 64, %r2;
  {index}
  mul.wide.u32 %rd2, %r3, 4;
  add.u64 %rd3, %rd1, %rd2;
  ld.global.u32 %r4, [%rd3];
  mad.lo.u32 %r4, %r4, 3, %r1;
  {extra}
  st.global.u32 [%rd3], %r4;
  ret;
"""


LOOP = "mov.u32 %r6, 0; L: add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 50; @%p2 bra L;"


def kernel(index="", extra=""):
    body = BODY.replace("{index}", index).replace("{extra}", extra)
    return module(".visible .entry k(.param .u64 data)\n{" + body + "}")


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Every launch is long enough for several processes; counts those that used them."""
    spread, used = parallel._spread, []
    monkeypatch.setattr(parallel, "_TRIAL", 0.0)
    monkeypatch.setattr(parallel, "_RESTART", 0.0)
    monkeypatch.setattr(parallel, "_spread", lambda *args: used.append(spread(*args)) or used[-1])
    return used


def launch(kernel, threads, data=None, **options):
    data = np.arange(COUNT, dtype=np.uint32) if data is None else data
    report = error = None
    try:
        report = kernel.launch("k", grid=CTAS, block=THREADS, args=[data], threads=threads, **options)
    except (emulator.Fault, emulator.Deadlock) as caught:
        error = caught
    return report, error, data


def same(one, other):
    (report, error, data), (report2, error2, data2) = one, other
    assert report == report2
    assert str(error) == str(error2)
    assert getattr(error, "findings", None) == getattr(error2, "findings", None)
    np.testing.assert_array_equal(data, data2)


@pytest.mark.each_value(2)
@pytest.mark.parametrize("sanitize", [True, False])
@pytest.mark.parametrize("threads", [2, 3, 50])
def test_results_and_counters_are_those_of_one_core(threads, sanitize, at_once):
    k = kernel()
    several = launch(k, threads, sanitize=sanitize)
    assert at_once == [True]
    same(several, launch(k, 1, sanitize=sanitize))
    assert at_once == [True]
    assert (several[2] == np.arange(COUNT) * 3 + np.arange(COUNT) // THREADS).all()


def test_a_race_between_processes_is_the_finding_of_one_core(at_once):
    k = kernel(index="rem.u32 %r3, %r3, 3200;")
    several = launch(k, 2)
    assert at_once == [False]
    assert "global-race" in {finding.rule for finding in several[0].findings}
    same(several, launch(k, 1))


def test_a_fault_of_a_late_cta_is_that_of_one_core(at_once):
    k = kernel(index="setp.eq.u32 %p1, %r1, 90;\n  @%p1 add.u32 %r3, %r3, 1000000;")
    several = launch(k, 2)
    assert at_once == [False]
    assert "out-of-bounds" in str(several[1])
    same(several, launch(k, 1))


def test_a_limit_counts_the_instructions_of_all_processes(at_once):
    total = launch(kernel(), 1)[0].instructions
    assert launch(kernel(), 2, max_instructions=total)[1] is None
    several = launch(kernel(), 2, max_instructions=total - 1)
    assert at_once == [True, False]
    same(several, launch(kernel(), 1, max_instructions=total - 1))


def test_ctas_that_communicate_run_in_one_process(at_once):
    k = kernel(extra="atom.global.add.u32 %r5, [%rd1], 0;\n  ld.volatile.global.u32 %r6, [%rd3];")
    assert launch(k, 2, sanitize=False)[1] is None
    assert not at_once


@pytest.mark.parametrize(
    ("opcode", "communicates"),
    [
        ("atom.global.add.u32", True),
        ("atom.shared.add.u32", False),
        ("red.async.relaxed.cluster.global.add.s32", True),
        ("ld.acquire.gpu.global.u32", True),
        ("ld.volatile.shared.u32", False),
        ("ld.global.nc.v4.u32", False),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32", True),
        ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", False),
        ("clusterlaunchcontrol.try_cancel.async.shared::cta.b128", True),
        ("call.uni", True),
        ("fence.acq_rel.gpu", False),
    ],
)
def test_which_instructions_communicate_between_ctas(opcode, communicates):
    assert parallel._communicates(opcode.split(".")) is communicates


def test_progress_counts_the_ctas_of_all_processes(at_once):
    seen = []
    launch(kernel(), 2, progress=lambda done, total: seen.append((done, total)))
    assert at_once == [True]
    assert seen == sorted(set(seen))
    assert seen[-1] == (CTAS, CTAS)


def test_what_others_write_between_the_elements_of_a_buffer_stays(at_once):
    data = np.arange(2 * COUNT, dtype=np.uint32)

    def others(done, total):
        data[1::2] = 7

    launch(kernel(index="shl.b32 %r3, %r3, 1;"), 2, data, progress=others)
    assert at_once == [True]
    assert (data[1::2] == 7).all()
    assert (data[::2] == np.arange(0, 2 * COUNT, 2) * 3 + np.arange(COUNT) // THREADS).all()


def test_an_interrupt_ends_all_processes(at_once, monkeypatch):
    begun, fork = [], parallel._fork

    def recorded():
        begun.append(fork())
        return begun[-1]

    def interrupt(done, total):
        if done > 34:  # those of the first wave
            raise KeyboardInterrupt

    monkeypatch.setattr(parallel, "_fork", recorded)
    data = np.arange(COUNT, dtype=np.uint32)
    with pytest.raises(KeyboardInterrupt):
        launch(kernel(), 2, data, progress=interrupt)
    assert (data == np.arange(COUNT)).all()
    assert len(begun) == 1
    for process in begun:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_no_handler_of_a_signal_runs_in_another_process(at_once, monkeypatch):
    fork, handled = parallel._fork, os.pipe()

    def signaled():
        process = fork()
        if process == 0:
            os.kill(os.getpid(), signal.SIGUSR1)
        return process

    monkeypatch.setattr(parallel, "_fork", signaled)
    before = signal.signal(signal.SIGUSR1, lambda *_: os.write(handled[1], b"!"))
    try:
        same(launch(kernel(), 2), launch(kernel(), 1))
    finally:
        signal.signal(signal.SIGUSR1, before)
        os.close(handled[1])
    written = os.read(handled[0], 1)
    os.close(handled[0])
    assert not written
    assert at_once == [False]


def test_a_timeline_and_a_seed_need_one_process(at_once, tmp_path):
    launch(kernel(), 2, trace=tmp_path / "trace.json")
    launch(kernel(), 2, seed=3)
    assert not at_once


def test_a_process_goes_on_with_the_waves_that_it_has_begun(at_once, monkeypatch):
    starts, init = [], Observers.__init__
    monkeypatch.setattr(
        Observers, "__init__", lambda *args, **named: starts.append(1) or init(*args, **named)
    )
    here, begun = os.getpid(), []
    take = Grid.take

    def taken(grid, most):
        ctas = take(grid, most)
        begun.extend(ctas if os.getpid() == here else ())
        return ctas

    monkeypatch.setattr(Grid, "take", taken)
    several = launch(kernel(), 2)
    assert at_once == [True]
    assert len(starts) == 1
    # How many of the others this process takes depends on when the other one starts.
    assert set(range(34)) <= set(begun) <= set(range(CTAS))
    assert len(begun) == len(set(begun))
    same(several, launch(kernel(), 1))


def test_a_launch_whose_last_wave_has_begun_ends_in_one_process(at_once, monkeypatch):
    begun, take = [], Grid.take

    def taken(grid, most):
        ctas = take(grid, most)
        begun.extend(ctas)
        return ctas

    whole = launch(kernel(extra=LOOP), 1)
    monkeypatch.setattr(Grid, "take", taken)
    monkeypatch.setattr(Totals, "pauses", lambda totals: totals.pause is not None and len(begun) == CTAS)
    same(launch(kernel(extra=LOOP), 2), whole)
    assert not at_once


def test_a_launch_of_one_wave_begins_again(at_once):
    k = kernel(extra=LOOP)

    def run(threads):
        data = np.arange(8 * THREADS, dtype=np.uint32)
        return k.launch("k", grid=8, block=THREADS, args=[data], threads=threads), data.tobytes()

    assert run(2) == run(1)
    assert at_once == [True]


def test_a_mistake_of_a_wave_that_had_begun_is_that_of_one_core(at_once):
    """The first wave reads late what others have written."""
    k = kernel(
        index="setp.eq.u32 %p1, %r1, 3;\n  @%p1 add.u32 %r3, %r3, 5000;",
        extra=LOOP,
    )
    several = launch(k, 2)
    assert "global-race" in {finding.rule for finding in several[0].findings}
    assert at_once == [False]
    same(several, launch(k, 1))


def test_a_time_limit_ends_all_processes(at_once):
    endless = "setp.eq.u32 %p2, %r1, %r1; L: st.global.u32 [%rd3], %r4; @%p2 bra L;"
    began = time.monotonic()
    data = np.arange(COUNT, dtype=np.uint32)
    with pytest.raises(emulator.TimeLimit, match=r"reached the time limit of 0\.2 s"):
        kernel(extra=endless).launch("k", grid=CTAS, block=THREADS, args=[data], threads=2, max_seconds=0.2)
    assert time.monotonic() - began < 20
    assert not at_once


@pytest.mark.parametrize(
    ("ctas", "warps", "size"), [(4, 8, 4), (16, 8, 8), (16, 12, 8), (97, 2, 33), (1, 32, 1)]
)
def test_waves_have_about_the_same_number_of_ctas(ctas, warps, size):
    running = Launch((ctas, 1, 1), (32 * warps, 1, 1), 0, 0, "hardware", (1, 1, 1), False, False)
    assert Waves(None, running, None, None, None).together == size


def test_short_launches_start_no_process(at_once, monkeypatch):
    monkeypatch.setattr(parallel, "_TRIAL", 60.0)
    same(launch(kernel(), 2), launch(kernel(), 1))
    assert not at_once


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2"])
def test_threads_must_be_a_number_of_cores(threads):
    with pytest.raises(WeftError, match="threads must be"):
        launch(kernel(), threads)


SLOW = pytest.param({"compiled": True}, marks=pytest.mark.slow)


@pytest.mark.parametrize("how", [{}, SLOW, {"seed": 1}, {"sanitize": False}, {"trace": "out"}], ids=str)
def test_memory_of_a_wave_is_free_at_its_end(how, monkeypatch, tmp_path):
    """Without the collector of garbage, which may leave it for long. Copies of the process would copy it."""
    seen, begun = [], Waves._begun

    def noted(self, rest):
        machine, wave = begun(self, rest)
        seen.extend(map(weakref.ref, (machine, wave, wave.memory, *([wave.watch] if wave.watch else []))))
        return machine, wave

    monkeypatch.setattr(Waves, "_begun", noted)
    options = how | {"trace": tmp_path / "out"} if "trace" in how else how
    for name in ("accumulate.sm_100a", "ring.sm_90a"):
        ptx = emulator.Module(planted_faults.source(name))
        arguments = planted_faults.arguments(name)
        gc.disable()
        try:
            ptx.launch("k", args=arguments, threads=1, **planted_faults.launch_options(name) | options)
        finally:
            gc.enable()
    assert seen
    assert not any(each() for each in seen)


def test_what_a_hook_has_seen_outlives_its_wave():
    kept, hooks = [], emulator.Hooks()
    hooks.on_instruction(kept.append, "st")
    data = np.zeros(32, np.uint32)
    text = ".visible .entry k(.param .u64 p) { .reg .b64 %rd<2>; .reg .b32 %r<2>; ld.param.u64 %rd0, [p];"
    text += " mov.u32 %r1, 7; st.global.u32 [%rd0], %r1; ret; }"
    module(text).launch("k", block=1, args=[data], hooks=hooks)
    assert int(kept[0].register("%r1")[0, 0]) == 7


def test_processes_with_threads_are_not_copied(monkeypatch):
    monkeypatch.setattr(parallel, "_THREADED", {"a_library"})
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    assert parallel.alone()
    with monkeypatch.context() as patch:
        patch.setattr(threading, "active_count", lambda: 2)
        assert not parallel.alone()
    monkeypatch.setitem(sys.modules, "a_library", sys)
    assert not parallel.alone()
