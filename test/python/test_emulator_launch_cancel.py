"""Clusters that take over the work of others that have not begun (cluster launch control)."""

import pytest
from emulator_clusters import SEEDS, SYNC, launch

CANCEL = """
  setp.eq.u32 %p1, %r0, 0;
  @%p1 mbarrier.init.shared.b64 [bar], 1;
  bar.sync 0;
  mov.u32 %r20, %ctaid.x; mov.u32 %r21, %ctaid.y; mov.u32 %r22, 0;
WORK:
  mov.u32 %r24, %nctaid.x; mad.lo.u32 %r23, %r21, %r24, %r20;
  mad.wide.u32 %rd3, %r23, 4, %rd1;
  @%p1 atom.global.add.u32 %r25, [%rd3], 1;
  bar.sync 0;
  @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
  @%p1 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [data], [bar];
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p2, [bar], %r22;
  @!%p2 bra WAIT;
  xor.b32 %r22, %r22, 1;
  ld.shared.b128 %q1, [data];
  fence.proxy.async.shared::cta;
  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q1;
  @!%p3 bra DONE;
  clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r20, %r21, _, _}, %q1;
  clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %r26, %q1;
  setp.ne.u32 %p4, %r21, %r26; @%p4 trap;
  bar.sync 0;
  bra WORK;
DONE:
  ret;
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", SEEDS)
def test_ctas_take_over_those_that_have_not_begun(seed):
    # 300 blocks are more than begin together, so that some of the work is taken over.
    out, report = launch(CANCEL, (60, 5, 1), (1, 1, 1), count=300, seed=seed)
    assert (out == 1).all()
    assert report.counters["mbarrier.init"] < report.counters["atom"] == 300


# As in kernels of CUTLASS, which compute with the coordinates before they use the predicate.
COMPUTED = CANCEL.replace(
    """  @!%p3 bra DONE;
  clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r20, %r21, _, _}, %q1;
""",
    """  @%p3 clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r30, %r31, _, _}, %q1;
  add.u32 %r20, %r30, 0; add.u32 %r21, %r31, 0;
  @!%p3 bra DONE;
""",
)


def test_coordinates_of_no_cluster_are_no_unwritten_registers():
    # Two blocks begin together: neither takes over another one, so no thread has any coordinates.
    assert COMPUTED != CANCEL
    out, _ = launch(COMPUTED, (2, 1, 1), (1, 1, 1), count=2)
    assert out.tolist() == [1, 1]


CANCEL_ALL = (
    "clusterlaunchcontrol.try_cancel.async.shared::cta"
    ".mbarrier::complete_tx::bytes.multicast::cluster::all.b128"
)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_takes_over_another_together(seed):
    # The CTA of rank 0 asks for both, and each does the part of its own rank.
    body = f"""
      setp.eq.u32 %p1, %r0, 0; setp.eq.u32 %p5, %r2, 0; and.pred %p5, %p1, %p5;
      @%p1 mbarrier.init.shared.b64 [bar], 1;
      @%p1 fence.mbarrier_init.release.cluster;
      {SYNC}
      mov.u32 %r20, %ctaid.x; mov.u32 %r22, 0;
    WORK:
      mad.wide.u32 %rd3, %r20, 4, %rd1;
      @%p1 red.global.add.u32 [%rd3], 1;
      @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
      {SYNC}
      @%p5 {CANCEL_ALL} [data], [bar];
    WAIT:
      mbarrier.try_wait.parity.shared.b64 %p2, [bar], %r22;
      @!%p2 bra WAIT;
      xor.b32 %r22, %r22, 1;
      ld.shared.b128 %q1, [data];
      fence.proxy.async.shared::cta;
      clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q1;
      @!%p3 bra DONE;
      clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r20, %q1;
      add.u32 %r20, %r20, %r2;
      {SYNC}
      bra WORK;
    DONE:
      {SYNC}
    """
    out, report = launch(body, (300, 1, 1), (2, 1, 1), count=300, seed=seed)
    assert (out == 1).all()
    assert report.counters["mbarrier.init"] < report.counters["red"] == 300
