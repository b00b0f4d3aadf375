"""Fences and other instructions that don't change results."""

import numpy as np
import pytest
from emulator_ptx import module

from weft import emulator
from weft.emulator.watch import Watch
from weft.emulator.watching.observers import Observers


def launch(body, target="sm_90a", **options):
    out = np.zeros(64, np.uint32)
    text = f"""
    .visible .entry k(.param .u64 p_out)
    {{
      .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .shared .align 128 .b8 data[256];
      ld.param.u64 %rd1, [p_out]; mov.u32 %r0, %tid.x; mad.wide.u32 %rd2, %r0, 4, %rd1; mov.u64 %rd3, data;
      {body}
      st.global.u32 [%rd2], 1;
    }}"""
    module(text, target).launch("k", block=64, args=[out], **options)
    return out


FENCES = {
    "membar.cta;": "sc.cta",
    "membar.gl;": "sc.gpu",
    "membar.sys;": "sc.sys",
    "membar.proxy.alias;": "proxy.alias",
    "fence.sc.cluster;": "sc.cluster",
    "fence.acq_rel.gpu;": "acq_rel.gpu",
    "fence.cta;": "acq_rel.cta",
    "fence.acquire.sys;": "acquire.sys",
    "fence.release.cluster;": "release.cluster",
    "fence.acquire.sync_restrict::shared::cluster.cluster;": "acquire.cluster",
    "fence.release.sync_restrict::shared::cta.cluster;": "release.cluster",
    "fence.mbarrier_init.release.cluster;": "mbarrier_init",
    "fence.proxy.alias;": "proxy.alias",
    "fence.proxy.async;": "proxy.async",
    "fence.proxy.async.global;": "proxy.async.global",
    "fence.proxy.async.shared::cta;": "proxy.async.shared::cta",
    "fence.proxy.async.shared::cluster;": "proxy.async.shared::cluster",
    "fence.proxy.tensormap::generic.release.gpu;": "proxy.tensormap::generic.release.gpu",
    "fence.proxy.tensormap::generic.acquire.sys [%rd1], 128;": "proxy.tensormap::generic.acquire.sys",
    "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;": (
        "proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster"
    ),
}


@pytest.mark.parametrize("fence, kind", FENCES.items())
def test_fences_are_told(fence, kind, monkeypatch):
    told = []

    class Watching(Watch):
        def fence(self, kind, threads, line):
            told.append((kind, int(threads.sum()), line))

    monkeypatch.setattr(Observers, "sanitizer", lambda self, wave: Watching())
    out = launch(f"setp.lt.u32 %p1, %r0, 40; @!%p1 bra END;\n{fence}\nEND:")
    assert (out == 1).all()
    assert told == [(kind, 40, 10)]


def test_a_copy_of_a_tensor_map_is_told_as_the_fence_that_it_is(monkeypatch):
    told = []

    class Watching(Watch):
        def fence(self, kind, threads, line):
            told.append((kind, int(threads.sum())))

    monkeypatch.setattr(Observers, "sanitizer", lambda self, wave: Watching())
    to = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1]"
    launch(f".shared .align 128 .b8 map[128]; {to}, [map], 128;")
    assert told == [("proxy.tensormap::generic.release.gpu", 64)]


@pytest.mark.parametrize(
    "fence",
    [
        "fence;",
        "fence.proxy;",
        "fence.proxy.wrong;",
        "fence.sc;",
        "fence.sc.grid;",
        "membar.gpu;",
        "fence.cta 1;",
    ],
)
def test_wrong_fences_are_refused(fence):
    with pytest.raises(emulator.PtxError):
        launch(fence)


@pytest.mark.parametrize(
    "body",
    [
        "setmaxnreg.inc.sync.aligned.u32 232; setmaxnreg.dec.sync.aligned.u32 24;",
        "griddepcontrol.launch_dependents; griddepcontrol.wait;",
        "prefetch.global.L1 [%rd1]; prefetch.global.L2::evict_last [%rd1]; prefetchu.L1 [%rd1];",
        "discard.global.L2 [%rd1], 128; applypriority.global.L2::evict_normal [%rd1], 128;",
        "createpolicy.fractional.L2::evict_first.b64 %rd4, 1.0;",
        "mov.b64 %rd4, 0; ld.global.L2::cache_hint.u32 %r1, [%rd1], %rd4;",
        "createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %rd4, [%rd1], 256, 512;",
        "nanosleep.u32 100; mov.u32 %r1, 7; nanosleep.u32 %r1; pmevent 3;",
    ],
)
def test_advice_changes_nothing(body):
    assert (launch(body) == 1).all()


@pytest.mark.parametrize("fence", FENCES)
def test_fences_need_nobody_who_looks_on(fence):
    assert (launch(fence, sanitize=False) == 1).all()


@pytest.mark.parametrize(
    "body", ["setmaxnreg.inc.sync.aligned.u32 20;", "setmaxnreg.inc.u32 %r0;", "griddepcontrol.depend;"]
)
def test_wrong_advice_is_refused(body):
    with pytest.raises(emulator.PtxError):
        launch(body)


BARRIERS = """
  bar.warp.sync -1;
  bar.sync 1, 64;
  barrier.cluster.arrive; barrier.cluster.wait;
  setp.lt.u32 %p1, %r0, 32; @%p1 bra FIRST;
  bar.arrive 2, 64; bra END;
FIRST:
  bar.sync 2, 64;
END:
"""


@pytest.mark.parametrize("seed", [None, 4])
def test_barriers_and_exits_are_told(seed, monkeypatch):
    told, gone, ends = [], np.zeros((2, 32), bool), []

    class Watching(Watch):
        def barrier(self, name, arrived, released, line):
            told.append((name, int(arrived.sum()), int(released.sum())))

        def arrived(self, barrier, threads):
            told.append(("came", barrier, int(threads.sum())))

        def passed(self, barrier, threads):
            told.append(("passed", barrier, int(threads.sum())))

        def exited(self, threads, line):
            gone[:] |= threads

        def executed(self, block, warps, clock):
            ends.append((len(warps), clock))

        def done(self):
            ends.append("done")

    monkeypatch.setattr(Observers, "sanitizer", lambda self, wave: Watching())
    assert (launch(BARRIERS, seed=seed) == 1).all()
    warps = [n for name, n, _ in told if name == "bar.warp.sync"]
    assert sum(warps) == 64
    assert [t for t in told if t[0].startswith("bar") and t[0] != "bar.warp.sync"] == [
        ("bar.sync", 64, 64),
        ("barrier.cluster", 0, 64),
        ("bar.sync", 32, 32),
    ]
    # Those who go on when they have arrived: all at the cluster's barrier, one warp at the last.
    counts = {"came": {}, "passed": {}}
    for event, barrier, threads in told:
        if event in counts:
            counts[event][barrier] = counts[event].get(barrier, 0) + threads
    assert list(counts["came"].values()) == [64, 32]
    assert [counts["passed"][barrier] for barrier in counts["came"]] == [64, 32]
    assert gone.all()
    assert ends[-1] == "done"
    clocks = [clock for _, clock in ends[:-1]]
    assert clocks == sorted(clocks)


def test_a_relaxed_arrival_orders_nothing(monkeypatch):
    told = {"came": [], "passed": []}

    class Watching(Watch):
        def arrived(self, barrier, threads):
            told["came"].append((barrier, int(threads.sum())))

        def passed(self, barrier, threads):
            told["passed"].append((barrier, int(threads.sum())))

    monkeypatch.setattr(Observers, "sanitizer", lambda self, wave: Watching())
    launch("""
      barrier.cluster.arrive.relaxed; barrier.cluster.wait;
      setp.lt.u32 %p1, %r0, 32;
      @%p1 barrier.cluster.arrive.relaxed; @!%p1 barrier.cluster.arrive.release; barrier.cluster.wait;
    """)
    ((barrier, arrived),) = told["came"]
    assert arrived == 32
    assert sum(threads for passed, threads in told["passed"] if passed is barrier) == 64


def diverging(body, monkeypatch, **options):
    """The divergences that are told: name, threads and line."""
    told = []

    class Watching(Watch):
        def divergence(self, name, threads, line):
            told.append((name, int(threads.sum()), line))

    monkeypatch.setattr(Observers, "sanitizer", lambda self, wave: Watching())
    launch(body, **options)
    return told


SPLIT = """
  and.b32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 0;
  @%p1 bra EVEN;
  {0} 0;
  bra END;
EVEN:
  {0} 0;
END:
"""


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_lanes_of_a_warp_that_come_to_different_barriers_diverge(seed, monkeypatch):
    told = diverging(SPLIT.format("bar.sync"), monkeypatch, seed=seed)
    assert sum(threads for _, threads, _ in told) == 2 * 16
    assert {name for name, _, _ in told} == {"bar.sync"}
    assert diverging(SPLIT.format("barrier.sync.aligned"), monkeypatch, seed=seed)
    assert diverging(SPLIT.format("barrier.sync"), monkeypatch, seed=seed) == []
    assert diverging(BARRIERS, monkeypatch, seed=seed) == []


def test_a_collective_of_half_a_warp_diverges(monkeypatch):
    body = """
      mov.u32 %r2, data; and.b32 %r3, %r0, 31; setp.lt.u32 %p1, %r3, 16;
      setp.ge.u32 %p2, %r0, 32; or.pred %p1, %p1, %p2;
      @!%p1 exit;
      ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r2];
    """
    assert diverging(body, monkeypatch) == [("ldmatrix", 16, 13)]
