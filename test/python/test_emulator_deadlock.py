"""Messages about deadlocks: similar warps in one line, and rings by their stages."""

import numpy as np
import pytest
from emulator_ptx import module

from weft import emulator

RING = """
.visible .entry k(.param .u64 out) {
  .shared .align 16 .b8 pad[64]; .shared .align 8 .b64 bars[6];
  .reg .b32 %t; .reg .pred %p, %q; .reg .b64 %d;
  mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0;
  @%p bra READY;
  .loc 1 31 3
  mbarrier.init.shared.b64 [bars], 1; mbarrier.init.shared.b64 [bars+24], 2;
  mbarrier.init.shared.b64 [bars+8], 1; mbarrier.init.shared.b64 [bars+32], 2;
  mbarrier.init.shared.b64 [bars+16], 1; mbarrier.init.shared.b64 [bars+40], 2;
  .loc 1 40 1
READY:
  bar.sync 0;
  setp.lt.u32 %q, %t, 64;
  @%q bra CONSUMER;
  @!%p bra DONE;
PRODUCER:
  mbarrier.try_wait.parity.shared.b64 %q, [bars+24], 0; @!%q bra PRODUCER; bra DONE;
CONSUMER:
  FILL
FULL:
  mbarrier.try_wait.parity.shared.b64 %q, [bars+16], 0; @!%q bra FULL;
  RELEASE
DONE:
  ret; }
.file 1 "gemm.py"
"""


def told(text, **options):
    with pytest.raises(emulator.Deadlock) as caught:
        module(text, "sm_90a").launch("k", **{"block": 96, "args": [np.zeros(4)]} | options)
    assert "line 0" not in str(caught.value)
    return caught.value


def test_a_ring_is_told_by_its_stages():
    text = RING.replace("FILL", "mbarrier.expect_tx.relaxed.cta.shared.b64 [bars+16], 64;")
    error = told(text.replace("RELEASE", ""))
    made = "of the ring created at line 11 (gemm.py:31) is never"
    assert str(error).splitlines() == [
        "deadlock: no warp can continue",
        "  block (0, 0, 0):",
        "    warp 2 waits at line 21 (gemm.py:40) (mbarrier.try_wait) for the mbarrier at 0x58",
        f"      stage 0 {made} released: 2 of 2 arrivals are missing",
        "    warps 0, 1 wait at line 25 (gemm.py:40) (mbarrier.try_wait) for the mbarrier at 0x50",
        f"      stage 2 {made} filled: 1 of 1 arrivals and 4096 bytes are missing",
    ]
    assert error.findings[0].line == 21


def test_a_stage_that_got_too_many_bytes_is_told():
    text = RING.replace("FILL", "mbarrier.complete_tx.relaxed.cta.shared.b64 [bars+16], 64;")
    more = "1 of 1 arrivals are missing, and 4096 bytes more have arrived than were expected"
    assert more in str(told(text.replace("RELEASE", "")))


def test_too_many_bytes_at_a_barrier_of_no_ring_are_told():
    text = RING.replace("[bars+24], 2", "[bars+8], 2").replace("[bars+8], 1", "[bars+24], 1")
    text = text.replace("FILL", "mbarrier.complete_tx.relaxed.cta.shared.b64 [bars+16], 64;")
    said = "transaction count -4096: 4096 bytes more have arrived than were expected"
    assert said in str(told(text.replace("RELEASE", "")))


def test_barriers_of_no_ring_are_told_by_their_state():
    """CUTLASS makes all of full before all of empty: whose stages they are isn't guessed."""
    text = RING.replace("[bars+24], 2", "[bars+8], 2").replace("[bars+8], 1", "[bars+24], 1")
    lines = str(told(text.replace("FILL", "").replace("RELEASE", ""))).splitlines()
    assert lines[3] == "      phase parity 0, 1 of 1 arrivals pending, transaction count 0"


@pytest.mark.parametrize("cluster", [1, 2])
def test_a_large_grid_fits_a_screen(cluster):
    """Each CTA tells of itself (its cluster) alone; those that wait for the same are told once."""
    text = RING.replace("FILL", "").replace("RELEASE", "")
    error = told(text, grid=32, cluster=cluster)
    lines = str(error).splitlines()
    name = "block" if cluster == 1 else "the cluster of block"
    assert lines[1].startswith(f"  {name} (0, 0, 0) and ") and " more like it, up to (" in lines[1]
    assert len(lines) == 2 + 4 * cluster
    assert len(error.waiting) > 32
    if cluster == 2:
        assert lines[6].startswith("    rank 1, warp 2 waits at line ")


def test_many_warps_that_wait_for_different_things_fit_a_screen():
    text = """.visible .entry k(.param .u64 out) { .reg .b32 %t, %n; .reg .pred %p;
      mov.u32 %t, %tid.x; shr.u32 %n, %t, 5; setp.eq.u32 %p, %n, 15; @%p bra LAST;
      bar.sync %n, 64; ret;
    LAST: barrier.cluster.arrive; barrier.cluster.wait; ret; }"""
    error = told(text, grid=8, block=512)
    assert len(str(error).splitlines()) <= 26 and len(error.waiting) == 16 * 4
    error = told(text.replace("shr.u32 %n, %t, 5;", "mov.u32 %n, %ctaid.x;"), grid=16, block=32)
    assert len(str(error).splitlines()) <= 26
    assert "more lines: `waiting` has every warp" in str(error)


def test_who_has_not_come_to_a_clusters_barrier():
    text = """.visible .entry k(.param .u64 out) { .reg .b32 %c, %t; .reg .pred %p, %q;
      mov.u32 %t, %tid.x; setp.eq.u32 %q, %t, 95; @%q ret;
      mov.u32 %c, %ctaid.x; setp.ne.u32 %p, %c, 0; @%p bra OTHER;
      barrier.cluster.arrive; barrier.cluster.wait; ret;
    OTHER: bar.sync 1, 128; ret; }"""
    lines = str(told(text, grid=2, cluster=2)).splitlines()
    assert lines[1] == "  the cluster of block (0, 0, 0):"
    assert lines[2].endswith("(barrier.cluster.wait) for its cluster: 95 threads have not arrived")
    assert lines[2].startswith("    rank 0, warps 0, 1 wait at line ")
    assert lines[4].startswith("    rank 1, warps 0, 1 wait at line")
    assert lines[5].startswith("    rank 1, warp 2 (31 lanes) waits at line")


BRANCHES = """
.visible .entry k(.param .u64 out) {
  .reg .b32 %t, %v; .reg .pred %p;
  mov.u32 %t, %tid.x; setp.gt.u32 %p, %t, 11;
  @%p bra OTHER;
  .loc 1 7 3
  shfl.sync.bfly.b32 %v, %t, 1, 31, -1;
  bra DONE;
OTHER:
  .loc 1 9 3
  shfl.sync.bfly.b32 %v, %t, 2, 31, -1;
DONE:
  ret; }
.file 1 "sums.py"
"""


def test_lanes_that_wait_for_each_other_are_told_to_meet():
    with pytest.raises(emulator.Deadlock) as caught:
        module(BRANCHES, "sm_90a").launch("k", block=64, args=[np.zeros(4)])
    _, _, first, second, rule = str(caught.value).splitlines()
    assert first.startswith("    warp 0 (12 lanes) waits at line") and "(sums.py:7) (shfl.sync)" in first
    assert second.startswith("    warp 0 (20 lanes) waits at line") and "(sums.py:9) (shfl.sync)" in second
    assert rule == "    lanes of warp 0 wait for each other at several instructions: all must execute one"
    assert caught.value.lanes_apart
    (found,) = caught.value.findings
    assert found.message.count("sums.py:7") == 1
