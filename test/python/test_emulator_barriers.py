"""Barriers of CTAs and warps, and deadlock."""

import numpy as np
import pytest
from emulator_ptx import launch_threads as launch
from emulator_ptx import module

import weft
from weft import emulator


@pytest.mark.parametrize("seed", [-1, "x", 1.5])
def test_a_seed_is_a_number_from_0(seed):
    with pytest.raises(weft.WeftError, match=r"seed must be a whole number in 0\.\.\d+, got"):
        launch("ret;", seed=seed)
    launch("ret;", seed=np.int64(3))


def test_barriers_order_shared_memory():
    body = """
      .shared .align 4 .b8 buffer[256];
      mov.u32 %r6, buffer;
      shl.b32 %r7, %r2, 2;
      add.u32 %r8, %r6, %r7;
      st.shared.u32 [%r8], %r5;
      bar.sync 0;
      xor.b32 %r9, %r7, 252;
      add.u32 %r9, %r6, %r9;
      ld.shared.u32 %r10, [%r9];
      st.global.u32 [%rd2], %r10;
      ret;
    """
    for seed in (None, 1, 2, 3):
        out, _ = launch(body, 256, 64, seed=seed)
        assert out.tolist() == [i // 64 * 64 + 63 - i % 64 for i in range(256)]


def test_a_barrier_does_not_count_threads_that_have_exited():
    body = """
      setp.ge.u32 %p1, %r2, 40;
      @%p1 ret;
      bar.sync 0;
      st.global.u32 [%rd2], 1;
      ret;
    """
    out, _ = launch(body)
    assert out.tolist() == [1] * 40 + [0] * 24


def test_named_barriers_and_arrive():
    body = """
      .shared .align 4 .u32 value;
      setp.ge.u32 %p1, %r2, 32;
      @%p1 bra CONSUMER;
      setp.eq.u32 %p2, %r2, 0;
      @%p2 st.shared.u32 [value], 42;
      bar.arrive 1, 64;
      ret;
    CONSUMER:
      setp.ge.u32 %p1, %r2, 64;
      @%p1 ret;
      bar.sync 1, 64;
      ld.shared.u32 %r6, [value];
      st.global.u32 [%rd2], %r6;
      ret;
    """
    for seed in (None, 1, 2):
        out, _ = launch(body, 96, 96, seed=seed)
        assert out.tolist() == [0] * 32 + [42] * 32 + [0] * 32


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_threads_beyond_a_barriers_count_come_to_its_next_phase(seed):
    """Two phases of two warps each; with a count of three, the fourth warp waits for ever, as on a GPU."""
    body = "setp.lt.u32 %p1, %r2, 70; bar.red.popc.u32 %r6, 1, {count}, %p1; st.global.u32 [%rd2], %r6; ret;"
    out, _ = launch(body.format(count=64), 128, 128, seed=seed)
    assert (out[::32] == out[31::32]).all() and out[::32].sum() == 2 * 70
    with pytest.raises(emulator.Deadlock, match="barrier 1: 1 of 3 warps have arrived"):
        launch(body.format(count=96), 128, 128, seed=seed)


def test_arrivals_beyond_a_barriers_count_go_to_its_next_phase():
    """Three warps arrive at once for a phase of two warps and one more: a fourth makes the second whole."""
    body = """
      setp.lt.u32 %p1, %r2, 96;
      @%p1 bar.arrive 1, 64;
      @%p1 bra DONE;
      bar.sync 1, 64;
    DONE:
      bar.sync 0;
      st.global.u32 [%rd2], 1; ret;
    """
    out, _ = launch(body, 128, 128)
    assert out.all()
    with pytest.raises(emulator.Deadlock, match="barrier 1: 1 of 2 warps have arrived"):
        launch(body.replace("96;", "64;").replace("bra DONE", "ret"), 96, 96)


SPELLED = [
    "bar.{}",
    "bar.cta.{}",
    "barrier.{}",
    "barrier.cta.{}",
    "barrier.{}.aligned",
    "barrier.cta.{}.aligned",
]


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("spelled", SPELLED)
def test_a_warp_may_arrive_several_times_in_one_phase(spelled, seed):
    """Warps 0 and 1 arrive three times, and the last time they wait: all six arrivals."""
    arrive, sync = spelled.format("arrive"), spelled.format("sync")
    red = spelled.format("red.popc") + ".u32"
    body = f"""
      setp.ge.u32 %p1, %r2, 64; mov.u32 %r7, 192; @%p1 bra OTHER;
      {arrive} 3, 192; {arrive} 3, %r7; {sync} 3, 192;
      setp.lt.u32 %p2, %r2, 40;
      {arrive} 4, 128; {red} %r6, 4, 128, %p2; {arrive} 5, 128;
      st.global.u32 [%rd2], %r6; ret;
    OTHER:
      {sync} 5, 128; st.global.u32 [%rd2], 1; ret;
    """
    out, report = launch(body, 128, 128, seed=seed)
    assert out.tolist() == [40] * 64 + [1] * 64 and not report.findings
    with pytest.raises(emulator.Deadlock, match="barrier 3: 6 of 7 warps have arrived"):
        launch(body.replace("3, 192", "3, 224").replace("%r7, 192", "%r7, 224"), 128, 128, seed=seed)


def test_lanes_arrive_several_times_as_their_warp_does():
    """Lanes 0 to 15 of warp 0 are two arrivals ahead of its others, whose second one completes the phase."""
    body = """
      setp.ge.u32 %p1, %r2, 32; @%p1 bra OTHER;
      setp.ge.u32 %p1, %r2, 16; @%p1 bra LATE;
      barrier.arrive 1, 96; barrier.sync 1, 96; bra DONE;
    LATE:
      setp.ge.u32 %p1, %r2, 24; barrier.arrive 1, 96; barrier.sync 1, 96; bra DONE;
    OTHER:
      barrier.sync 1, 96;
    DONE:
      st.global.u32 [%rd2], 1; ret;
    """
    for seed in (None, 1, 2, 3):
        out, _ = launch(body, seed=seed)
        assert out.all()
    late = body.replace("%r2, 24; barrier.arrive 1, 96;", "%r2, 24;")
    with pytest.raises(emulator.Deadlock, match="2 of 3 warps have arrived, and some lanes of 1 more"):
        launch(late)


def test_a_warp_that_arrives_by_halves_again_is_told():
    """Half of a warp arrives twice at an aligned barrier before its other half does."""
    body = """
      setp.ge.u32 %p1, %r2, 16; @%p1 bra OTHER;
      bar.arrive 1, 64; bar.sync 1, 64; bra DONE;
    OTHER:
      bar.arrive 1, 64; bar.sync 1, 64;
    DONE:
      st.global.u32 [%rd2], 1; ret;
    """
    _, report = launch(body, 32, 32)
    assert {finding.rule for finding in report.findings} == {"divergent-aligned"}


def test_half_a_warp_comes_to_the_phase_of_its_other_half():
    """Half of warp 2 is there when warps 0 and 1 end the first phase; it reads what the other half wrote."""
    body = """
      .shared .align 4 .u32 flag;
      setp.eq.u32 %p1, %r2, 0; @%p1 st.shared.u32 [flag], 1;
      bar.sync 0;
      setp.ge.u32 %p1, %r2, 80;
      @%p1 bra LATE;
      barrier.sync 1, 64;
      ld.shared.u32 %r6, [flag];
      bra DONE;
    LATE:
      setp.eq.u32 %p2, %r2, 80; @%p2 st.shared.u32 [flag], 2;
      barrier.sync 1, 64;
      mov.u32 %r6, 3;
    DONE:
      st.global.u32 [%rd2], %r6; ret;
    """
    out, _ = launch(body, 128, 128)
    assert out[::16].tolist() == [1, 1, 1, 1, 2, 3, 3, 3]


def test_warps_that_count_otherwise_are_told():
    body = """
      setp.lt.u32 %p1, %r2, 32;
      @%p1 bra FIRST;
      bar.sync 1, 96; ret;
    FIRST:
      bar.sync 1, 64; ret;
    """
    with pytest.raises(emulator.Fault, match=r"barrier 1 expects (64|96) threads here, but \d+ at line \d+"):
        launch(body, 96, 96)
    # A barrier with no count waits for all.
    launch(body.replace("1, 64", "1").replace("1, 96", "1, 64"), 64, 64)


def test_arriving_where_no_one_waits_is_no_deadlock():
    out, _ = launch("bar.arrive 3, 128; st.global.u32 [%rd2], 1; ret;")
    assert (out == 1).all()


def test_barrier_reductions():
    body = """
      setp.lt.u32 %p1, %r2, %r1;
      bar.red.popc.u32 %r6, 0, %p1;
      bar.red.and.pred %p2, 0, %p1;
      bar.red.or.pred %p3, 0, !%p1;
      selp.u32 %r7, 1000, 0, %p2;
      selp.u32 %r8, 10000, 0, %p3;
      add.u32 %r6, %r6, %r7;
      add.u32 %r6, %r6, %r8;
      st.global.u32 [%rd2], %r6;
      ret;
    """
    assert set(launch(body, 128, 64, n=50)[0].tolist()) == {10050}
    assert set(launch(body, 128, 64, n=64)[0].tolist()) == {1064}


def test_deadlock_names_every_waiting_warp():
    body = """
      setp.ge.u32 %p1, %r2, 32;
      @%p1 bra OTHER;
      bar.sync 1, 64;
      ret;
    OTHER:
      bar.sync 2, 64;
      ret;
    """
    with pytest.raises(emulator.Deadlock) as caught:
        launch(body)
    assert len(caught.value.waiting) == 2
    assert str(caught.value).splitlines() == [
        "deadlock: no warp can continue",
        "  block (0, 0, 0):",
        "    warp 0 waits at line 18 at barrier 1: 1 of 2 warps have arrived",
        "    warp 1 waits at line 21 at barrier 2: 1 of 2 warps have arrived",
    ]
    with pytest.raises(emulator.Deadlock) as placed:
        launch(body.replace("bar.sync 2", '.file 1 "k.mlir"\n.loc 1 7 3\nbar.sync 2'))
    assert "warp 0 (32 lanes) waits at line 18 at barrier 1" in placed.value.waiting[0]
    assert "waits at line 23 (k.mlir:7) at barrier 2: " in str(placed.value)
    assert "at line 23 (k.mlir:7)" in placed.value.findings[0].message
    told = "block (0, 0, 0) warp 1 (32 lanes) waits at line 21 at barrier 2: 1 of 2 warps have arrived"
    assert caught.value.waiting[1] == told


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 1])
def test_polling_for_what_no_one_writes_is_a_deadlock(seed):
    body = """
      setp.ge.u32 %p1, %r2, 32;
      @%p1 bra OTHER;
    WAIT:
      ld.volatile.global.u32 %r6, [%rd1];
      setp.eq.u32 %p2, %r6, 0;
      @%p2 bra WAIT;
      ret;
    OTHER:
      bar.sync 1, 64;
      ret;
    """
    with pytest.raises(emulator.Deadlock) as caught:
        launch(body, 128, 64, seed=seed)
    assert len(caught.value.waiting) == 4
    assert "block (0, 0, 0) warp 0 (32 lanes) waits near line 2" in caught.value.waiting[0]
    assert "for memory that no thread changes" in caught.value.waiting[0]
    assert "warp 1 (32 lanes) waits at line 24 at barrier 1" in caught.value.waiting[1]


def test_lanes_that_never_come_to_a_collective_are_a_deadlock():
    body = """
      setp.ge.u32 %p1, %r2, 16;
      @%p1 bra OTHER;
      shfl.sync.idx.b32 %r6, %r2, 0, 31, 0xffffffff;
      ret;
    OTHER:
      bar.sync 0;
      ret;
    """
    with pytest.raises(emulator.Deadlock, match=r"warp 0 \(16 lanes\) waits at line 18 \(shfl.sync\)"):
        launch(body, 32, 32)


@pytest.mark.parametrize("seed", [None, 3])
def test_lanes_that_never_come_to_a_product_are_a_deadlock(seed):
    """A warp waits for them at a place where the other warps of its warpgroup wait for it."""
    given = module(
        """
        .visible .entry kernel()
        {
          .reg .pred %p<2>; .reg .b32 %r<2>; .reg .f32 %f<4>; .reg .b64 %d;
          mov.u32 %r0, %tid.x;
          mov.b64 %d, 0;
          setp.lt.u32 %p0, %r0, 16;
          @%p0 bra OTHER;
          wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d, %d, 0, 1, 1, 0, 0;
          ret;
        OTHER:
          bar.sync 1, 256;
          ret;
        }
        """,
        target="sm_90a",
    )
    with pytest.raises(emulator.Deadlock, match=r"warp 0 \(16 lanes\) waits at line \d+ \(wgmma.mma_async\)"):
        given.launch("kernel", block=128, seed=seed, max_instructions=100_000)


def test_lanes_wait_for_one_another_at_a_collective():
    body = """
      mov.u32 %r6, 0;
    LOOP:
      setp.ge.u32 %p1, %r6, %r2;
      @%p1 bra DONE;
      add.u32 %r6, %r6, 1;
      bra LOOP;
    DONE:
      vote.sync.ballot.b32 %r7, %p1, 0xffffffff;
      st.global.u32 [%rd2], %r7;
      ret;
    """
    out, report = launch(body, 64, 64)
    assert (out == 0xFFFFFFFF).all()
    assert report.counters["vote.sync"] == 2


def test_warp_syncs_at_different_instructions_match():
    body = """
      and.b32 %r6, %r2, 1; setp.eq.u32 %p1, %r6, 0;
      @%p1 bra EVEN;
      st.global.u32 [%rd2], 1;
      bar.warp.sync 0xffffffff;
      bra DONE;
    EVEN:
      bar.warp.sync 0xffffffff;
      ld.global.u32 %r7, [%rd2+4];
      st.global.u32 [%rd2], %r7;
    DONE:
      ret;
    """
    for seed in (None, 5):
        out, _ = launch(body, seed=seed)
        assert (out == 1).all()


@pytest.mark.parametrize("ctas", [1, 2])
def test_a_warpgroup_without_all_four_warps_never_multiplies(ctas):
    """Warps of the next CTA, which lie beside those of this one in the emulator, don't stand for its own."""
    given = module(
        """
        .visible .entry kernel()
        {
          .reg .f32 %f<4>; .reg .b64 %d;
          mov.b64 %d, 0;
          wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d, %d, 0, 1, 1, 0, 0;
          ret;
        }
        """,
        target="sm_90a",
    )
    with pytest.raises(emulator.Deadlock, match="wgmma"):
        given.launch("kernel", grid=ctas, block=64, args=[])
