"""Clusters: ranks, shared memory of other CTAs, and barriers."""

import numpy as np
import pytest
from emulator_clusters import SEEDS, SYNC, launch
from emulator_corpus import chips
from emulator_corpus import module as compiled
from emulator_ptx import module

from weft import emulator
from weft.emulator.watch import Watch
from weft.emulator.watching.observers import Observers
from weft.errors import WeftError

PLACES = [
    *(f"%{name}.{axis}" for name in ("clusterid", "nclusterid") for axis in "xyz"),
    *(f"%{name}.{axis}" for name in ("cluster_ctaid", "cluster_nctaid") for axis in "xyz"),
    "%cluster_ctarank",
    "%cluster_nctarank",
]


@pytest.mark.parametrize("seed", [None, 1])
def test_special_registers_of_clusters(seed):
    grid, cluster = (4, 6, 2), (2, 3, 1)
    stores = "".join(f"mov.u32 %r9, {n}; st.global.u32 [%rd2+{4 * i}], %r9;" for i, n in enumerate(PLACES))
    stores += "mov.pred %p1, %is_explicit_cluster; selp.u32 %r9, 1, 0, %p1;"
    stores += f"st.global.u32 [%rd2+{4 * len(PLACES)}], %r9;"
    out, _ = launch(stores, grid, cluster, block=1, words=len(PLACES) + 1, seed=seed)
    for number, got in enumerate(out.tolist()):
        cta = number % 4, number // 4 % 6, number // 24
        inside = [c % n for c, n in zip(cta, cluster, strict=True)]
        assert got[:3] == [c // n for c, n in zip(cta, cluster, strict=True)]
        assert got[3:6] == [2, 2, 2]
        assert got[6:9] == inside
        assert got[9:12] == list(cluster)
        assert got[12:] == [inside[0] + 2 * inside[1], 6, 1]


@pytest.mark.parametrize("seed", SEEDS)
def test_ctas_read_the_shared_memory_of_their_neighbor(seed):
    body = f"""
      mov.u32 %r5, data; mad.lo.u32 %r6, %r0, 4, %r5;
      mad.lo.u32 %r7, %r1, 1000, %r0;
      st.shared.u32 [%r6], %r7;
      {SYNC}
      add.u32 %r8, %r2, 1; and.b32 %r8, %r8, 3;
      mapa.shared::cluster.u32 %r9, %r6, %r8;
      ld.shared::cluster.u32 %r10, [%r9];
      getctarank.shared::cluster.u32 %r11, %r9;
      setp.ne.u32 %p1, %r11, %r8; @%p1 trap;
      {SYNC}
      st.global.u32 [%rd2], %r10;
    """
    out, _ = launch(body, (8, 1, 1), (4, 1, 1), seed=seed)
    want = [[(cta // 4 * 4 + (cta + 1) % 4) * 1000 + i for i in range(32)] for cta in range(8)]
    assert out.reshape(8, 32).tolist() == want


@pytest.mark.parametrize("seed", SEEDS)
def test_generic_addresses_and_atomics_reach_the_whole_cluster(seed):
    body = f"""
      st.shared.u32 [data], 0; st.shared.u32 [data+4], %r1;
      {SYNC}
      mov.u64 %rd3, data; cvta.shared.u64 %rd3, %rd3;
      mapa.u64 %rd4, %rd3, 0;
      atom.add.u32 %r5, [%rd4], 1;
      mapa.shared::cluster.u64 %rd5, data, 1;
      red.relaxed.cluster.shared::cluster.add.u32 [%rd5], 2;
      getctarank.u64 %r6, %rd4;
      isspacep.shared::cluster %p1, %rd4;
      isspacep.shared::cta %p2, %rd4;
      selp.u32 %r7, 1, 0, %p1; selp.u32 %r8, 1, 0, %p2;
      {SYNC}
      ld.shared.u32 %r9, [data]; ld.shared.u32 %r10, [data+4];
      st.global.v4.u32 [%rd2], {{%r9, %r10, %r6, %r7}}; st.global.u32 [%rd2+16], %r8;
    """
    out, _ = launch(body, (4, 1, 1), (2, 1, 1), words=8, seed=seed)
    for cta, got in enumerate(out.reshape(4, 32, 8)[:, :, :5]):
        assert (got == [64 if cta % 2 == 0 else 128, cta, 0, 1, cta % 2 == 0]).all()


def test_an_address_beyond_the_cluster_faults():
    body = "mov.u32 %r5, data; mapa.shared::cluster.u32 %r6, %r5, 2; ld.shared::cluster.u32 %r7, [%r6];"
    with pytest.raises(
        emulator.Fault, match=r"out-of-bounds shared .* at 0x2000000, each of the cluster's 2"
    ):
        launch(body, (2, 1, 1), (2, 1, 1))
    body = "mov.u32 %r5, data; mapa.shared::cluster.u32 %r6, %r5, 1; ld.shared::cluster.u32 %r7, [%r6+8192];"
    with pytest.raises(emulator.Fault, match="out-of-bounds shared"):
        launch(body, (2, 1, 1), (2, 1, 1))


@pytest.mark.parametrize("seed", SEEDS)
def test_arrive_and_wait_of_the_cluster_barrier_may_lie_apart(seed):
    # Each CTA writes into the next one's memory between two barriers, three rounds long.
    body = """
      mov.u32 %r5, data; mad.lo.u32 %r6, %r0, 4, %r5; mov.u32 %r12, 0; mov.u32 %r13, 0;
      xor.b32 %r8, %r2, 1; mapa.shared::cluster.u32 %r9, %r6, %r8;
    ROUND:
      barrier.cluster.arrive.release;
      mad.lo.u32 %r10, %r12, 7, %r1;
      barrier.cluster.wait;
      st.shared::cluster.u32 [%r9], %r10;
      barrier.cluster.arrive; barrier.cluster.wait;
      ld.shared.u32 %r11, [%r6];
      mad.lo.u32 %r13, %r13, 10, %r11;
      add.u32 %r12, %r12, 1; setp.lt.u32 %p1, %r12, 3; @%p1 bra ROUND;
      st.global.u32 [%rd2], %r13;
    """
    out, _ = launch(body, (4, 1, 1), (2, 1, 1), block=64, seed=seed)
    for cta, got in enumerate(out.reshape(4, 64)):
        values = [7 * n + (cta ^ 1) for n in range(3)]
        assert (got == values[0] * 100 + values[1] * 10 + values[2]).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_each_cluster_waits_for_its_own_threads(seed):
    # CTA 3 comes when CTA 0 is past the barrier of its cluster.
    body = f"""
      setp.ne.u32 %p1, %r1, 3; @%p1 bra THERE;
    LATE:
      ld.acquire.gpu.global.u32 %r5, [%rd1]; setp.eq.u32 %p2, %r5, 0; @%p2 bra LATE;
    THERE:
      mov.u32 %r6, data; mad.lo.u32 %r6, %r0, 4, %r6; add.u32 %r7, %r1, 70; st.shared.u32 [%r6], %r7;
      {SYNC}
      setp.eq.u32 %p1, %r1, 0; @%p1 st.release.gpu.global.u32 [%rd1], 71;
      xor.b32 %r8, %r2, 1; mapa.shared::cluster.u32 %r9, %r6, %r8;
      ld.shared::cluster.u32 %r10, [%r9];
      {SYNC}
      st.relaxed.gpu.global.u32 [%rd2], %r10;
    """
    out, _ = launch(body, (6, 1, 1), (2, 1, 1), seed=seed)
    assert out.reshape(6, 32).tolist() == [[70 + (cta ^ 1)] * 32 for cta in range(6)]


def test_threads_that_have_exited_are_not_waited_for():
    body = """
      setp.eq.u32 %p1, %r2, 1; @%p1 ret;
      setp.gt.u32 %p1, %r0, 20; @%p1 ret;
      barrier.cluster.arrive; barrier.cluster.wait;
      st.global.u32 [%rd2], 1;
    """
    out, _ = launch(body, (2, 1, 1), (2, 1, 1))
    assert out.tolist() == [1] * 21 + [0] * 43


def test_wrong_uses_of_the_cluster_barrier():
    with pytest.raises(emulator.Fault, match="arrive again before"):
        launch("barrier.cluster.arrive; barrier.cluster.arrive;", (2, 1, 1), (2, 1, 1))
    body = """
      setp.eq.u32 %p1, %r2, 1; @%p1 bra WAIT;
      barrier.cluster.arrive;
    WAIT:
      bar.sync 0; barrier.cluster.wait;
    """
    with pytest.raises(emulator.Deadlock) as caught:
        launch(body, (2, 1, 1), (2, 1, 1), block=64)
    assert len(caught.value.waiting) == 4
    assert "(barrier.cluster.wait) for its cluster: " in caught.value.waiting[0]


REMOTE = f"""
  setp.eq.u32 %p1, %r0, 0;
  @%p1 mbarrier.init.shared.b64 [bar], 2;
  fence.mbarrier_init.release.cluster;
  {SYNC}
  xor.b32 %r8, %r2, 1; mov.u32 %r5, bar; mapa.shared::cluster.u32 %r6, %r5, %r8;
  @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];
  and.b32 %r7, %r5, 0xFEFFFFFF;
  @%p1 mbarrier.arrive.shared::cluster.b64 _, [%r7];
  setp.eq.u32 %p3, %r2, 0;
  @!%p3 bra ODD;
WAIT:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], 0;
  @!%p2 bra WAIT;
ODD:
  mbarrier.test_wait.parity.shared.b64 %p2, [bar], 0;
  {SYNC}
  selp.u32 %r9, 1, 0, %p2;
  st.global.u32 [%rd2], %r9;
"""


def test_arrivals_at_the_barrier_of_another_cta():
    # The even CTA gets three arrivals, the odd one only one: the mask that clears the rank's lowest bit names
    # the even CTA of a pair.
    body = REMOTE.replace("[bar], 2;", "[bar], 3;") + "@%p1 mbarrier.inval.shared.b64 [bar];"
    out, _ = launch(body, (4, 1, 1), (2, 1, 1))
    assert out.reshape(4, 32).tolist() == [[1] * 32, [0] * 32] * 2


@pytest.mark.parametrize("seed", SEEDS)
def test_asynchronous_stores_and_reductions_complete_transactions(seed):
    body = f"""
      setp.eq.u32 %p1, %r0, 0;
      @%p1 mbarrier.init.shared.b64 [bar], 1;
      mov.u32 %r5, data; mad.lo.u32 %r6, %r0, 16, %r5; mov.u32 %r7, bar;
      st.shared.v4.u32 [%r6], {{0, 0, 5, 0}};
      @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], {32 * 12};
      {SYNC}
      xor.b32 %r8, %r2, 1;
      mapa.shared::cluster.u32 %r9, %r6, %r8; mapa.shared::cluster.u32 %r10, %r7, %r8;
      st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%r9], {{%r0, %r1}}, [%r10];
      red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.max.s32 [%r9+8], %r0, [%r10];
    WAIT:
      mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
      @!%p2 bra WAIT;
      ld.shared.v4.u32 {{%r11, %r12, %r13, %r14}}, [%r6];
      mad.lo.u32 %r11, %r11, 1000, %r12; mad.lo.u32 %r11, %r11, 100, %r13;
      st.global.u32 [%rd2], %r11;
      {SYNC}
    """
    out, _ = launch(body, (4, 1, 1), (2, 1, 1), seed=seed)
    want = [[(1000 * i + (cta ^ 1)) * 100 + max(5, i) for i in range(32)] for cta in range(4)]
    assert out.reshape(4, 32).tolist() == want


def test_asynchronous_stores_are_told(monkeypatch):
    told = []

    class Watching(Watch):
        def async_access(self, access):
            threads = int(access.threads.sum())
            told.append((*access[:4], access.offsets.tolist(), threads, access.mbarrier))

    monkeypatch.setattr(Observers, "sanitizer", lambda self, wave: Watching())
    body = f"""
      setp.eq.u32 %p1, %r0, 0;
      @%p1 mbarrier.init.shared.b64 [bar], 1;
      @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 4;
      {SYNC}
      mov.u32 %r5, data; mov.u32 %r6, bar; mad.lo.u32 %r7, %r2, 8, %r5; xor.b32 %r8, %r2, 1;
      mapa.shared::cluster.u32 %r9, %r7, %r8; mapa.shared::cluster.u32 %r10, %r6, %r8;
      @%p1 st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r9], %r1, [%r10];
      {SYNC}
    """
    launch(body, (2, 1, 1), (2, 1, 1))
    assert sorted(told) == [
        ("store", "st.async", 0, "shared", [8, 9, 10, 11], 1, (0, 4096)),
        ("store", "st.async", 1, "shared", [0, 1, 2, 3], 1, (1, 4096)),
    ]


# CTA 0 of a pair sends 40 numbers through a ring of two places in CTA 1, which tells it when one is free.
PIPELINE = f"""
  .shared .align 8 .b64 full[2]; .shared .align 8 .b64 empty[2];
  setp.eq.u32 %p1, %r0, 0;
  @%p1 mbarrier.init.shared.b64 [full], 1; @%p1 mbarrier.init.shared.b64 [full+8], 1;
  @%p1 mbarrier.init.shared.b64 [empty], 1; @%p1 mbarrier.init.shared.b64 [empty+8], 1;
  {SYNC}
  mov.u32 %r5, full; mov.u32 %r6, empty; mov.u32 %r7, data; mov.u32 %r9, 0; mov.u32 %r10, 0;
  setp.ne.u32 %p3, %r2, 0;
  @!%p1 bra DONE;
LOOP:
  and.b32 %r11, %r9, 1; shl.b32 %r12, %r11, 3;
  shr.u32 %r13, %r9, 1; and.b32 %r13, %r13, 1;
  add.u32 %r14, %r5, %r12; add.u32 %r15, %r6, %r12; add.u32 %r16, %r7, %r12;
  @%p3 bra RECEIVE;
  xor.b32 %r17, %r13, 1;
FREE:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [%r15], %r17;
  @!%p4 bra FREE;
  mapa.shared::cluster.u32 %r18, %r16, 1; mapa.shared::cluster.u32 %r19, %r14, 1;
  mad.lo.u32 %r20, %r9, %r9, %r1;
  st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r18], %r20, [%r19];
  bra NEXT;
RECEIVE:
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r14], 4;
THERE:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [%r14], %r13;
  @!%p4 bra THERE;
  ld.shared.u32 %r21, [%r16]; add.u32 %r10, %r10, %r21;
  mapa.shared::cluster.u32 %r18, %r15, 0;
  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r18];
NEXT:
  add.u32 %r9, %r9, 1; setp.lt.u32 %p5, %r9, 40; @%p5 bra LOOP;
DONE:
  {SYNC}
  st.global.u32 [%rd2], %r10;
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_pipeline_between_two_ctas(seed):
    out, _ = launch(PIPELINE, (6, 1, 1), (2, 1, 1), block=64, seed=seed)
    want = np.zeros((6, 64), np.uint32)
    for cta in (1, 3, 5):
        want[cta, 0] = sum(n * n + cta - 1 for n in range(40))
    assert (out.reshape(6, 64) == want).all()


@pytest.mark.parametrize("seed", [None, 5])
def test_a_pipeline_whose_sender_forgets_a_number_is_a_deadlock(seed):
    body = PIPELINE.replace("RECEIVE;", "RECEIVE; setp.eq.u32 %p6, %r9, 30; @%p6 bra NEXT;")
    with pytest.raises(emulator.Deadlock) as caught:
        launch(body, (2, 1, 1), (2, 1, 1), block=64, seed=seed)
    lines = "\n".join(caught.value.waiting)
    assert "block (1, 0, 0) warp 0 (1 lanes) waits at" in lines
    assert "for the mbarrier at 0x1008 of block (1, 0, 0)" in lines
    assert "phase parity 1, 1 of 1 arrivals pending, transaction count 0" in lines


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [None, 6])
def test_grid_wide_rounds_progress_across_clusters(seed):
    # Thread 0 of every CTA counts itself in and waits for all of the grid, in three rounds.
    body = f"""
      setp.eq.u32 %p1, %r0, 0; mov.u32 %r5, 0;
      mov.u32 %r6, %nctaid.x; mov.u32 %r7, 0;
    ROUND:
      add.u32 %r7, %r7, %r6;
      @!%p1 bra JOIN;
      red.release.gpu.global.add.u32 [%rd1], 1;
    WAIT:
      ld.acquire.gpu.global.u32 %r8, [%rd1];
      setp.lt.u32 %p2, %r8, %r7;
      @%p2 bra WAIT;
    JOIN:
      {SYNC}
      add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 3; @%p3 bra ROUND;
      ld.acquire.gpu.global.u32 %r8, [%rd1];
      setp.ge.u32 %p4, %r3, 1; @%p4 st.global.u32 [%rd2], %r8;
    """
    out, _ = launch(body, (96, 1, 1), (2, 1, 1), block=64, seed=seed)
    assert (out == 3 * 96).all()


@pytest.mark.sampled(12)
@pytest.mark.parametrize("chip", chips("warps"))
@pytest.mark.parametrize("seed", [None, 7])
def test_cooperative_groups_synchronize_a_grid(chip, seed):
    # nvcc's grid.sync() counts in a workspace whose address it takes from %envreg1 and %envreg2.
    count = 40 * 64
    a, out = np.arange(count, dtype=np.int32), np.zeros(count, np.int32)
    compiled("warps", chip).launch("grid_sync", grid=(20, 2), block=64, args=[a, out, count], seed=seed)
    assert (out == 2 * np.arange(count)[::-1]).all()


def test_clusters_of_one_launch_run_together_and_all_run():
    body = f"""
      setp.eq.u32 %p1, %r0, 0;
      @%p1 st.shared.u32 [data], 0;
      {SYNC}
      mov.u32 %r5, data; mapa.shared::cluster.u32 %r6, %r5, 0;
      @%p1 atom.shared::cluster.add.u32 %r7, [%r6], 1;
      {SYNC}
      ld.shared::cluster.u32 %r8, [%r6]; st.global.u32 [%rd2], %r8;
      {SYNC}
    """
    out, _ = launch(body, (3, 4, 20), (1, 4, 2), block=96)
    assert (out == 8).all()


def test_cluster_extents_come_from_the_kernel_too():
    body = "mov.u32 %r5, %cluster_nctarank; st.global.u32 [%rd2], %r5;"
    assert (launch(body, (4, 2, 1), 1, directives=".reqnctapercluster 2, 2, 1")[0] == 4).all()
    assert (launch(body, (4, 2, 1), (4, 1, 1), directives=".explicitcluster .maxclusterrank 4")[0] == 4).all()
    whole = ".blocksareclusters .reqntid 32, 1, 1 .reqnctapercluster 2"
    assert (launch(body, (4, 1, 1), 1, count=256, directives=whole)[0] == 2).all()


@pytest.mark.parametrize(
    "grid, cluster, directives, message",
    [
        (
            (3, 1, 1),
            (2, 1, 1),
            "",
            r"grid must be a multiple of cluster \(2, 1, 1\) in each dimension, got \(3, 1, 1\)",
        ),
        ((32, 1, 1), (32, 1, 1), "", r"cluster must have 1\.\.16 blocks"),
        ((8, 1, 1), (8, 1, 1), ".maxclusterrank 4", r"cluster must have 1\.\.4 blocks"),
        ((4, 1, 1), (4, 1, 1), ".reqnctapercluster 2", r"cluster must be \(2, 1, 1\), got \(4, 1, 1\)"),
        ((4, 1, 1), (0, 1, 1), "", "cluster must have"),
    ],
)
def test_clusters_that_do_not_fit_are_refused(grid, cluster, directives, message):
    with pytest.raises(WeftError, match=message):
        launch("ret;", grid, cluster, directives=directives)


def test_a_cta_ends_while_others_may_use_its_mbarriers():
    """The other CTA arrives at two of three; only a wait for one of them orders the end after that."""
    text = """.visible .entry k() {
      .shared .align 8 .b64 bars[3]; .reg .pred %p<4>; .reg .b32 %r<4>; .reg .b64 %rd<4>;
      mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0; mov.u32 %r1, %cluster_ctarank;
      @%p0 mbarrier.init.shared.b64 [bars], 1; @%p0 mbarrier.init.shared.b64 [bars+8], 1;
      @%p0 mbarrier.init.shared.b64 [bars+16], 1;
      fence.mbarrier_init.release.cluster; barrier.cluster.arrive; barrier.cluster.wait;
      setp.eq.and.u32 %p1, %r1, 1, %p0; setp.eq.u32 %p2, %r1, 1;
      mov.u64 %rd0, bars; mapa.shared::cluster.u64 %rd1, %rd0, 0;
      @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%rd1+8];
      @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%rd1+16];
      @%p2 ret;
      WAIT
      ret; }"""
    wait = "LOOP: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p3, [bars+{0}], 0; @!%p3 bra LOOP;"
    expected = {"": {8, 16}, wait.format(8): {16}, wait.format(16): set()}
    for waits, ends in expected.items():
        report = module(text.replace("WAIT", waits), "sm_90a").launch("k", block=32, grid=2, cluster=2)
        assert {finding.rule for finding in report.findings} <= {"cluster-exit"}
        assert {finding.address for finding in report.findings} == ends
        assert all("used by another CTA" in finding.message for finding in report.findings)
