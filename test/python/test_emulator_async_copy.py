"""`cp.async`: when its bytes become visible, groups, and sources that are partly read."""

import numpy as np
import pytest
from emulator_ptx import module

from weft import emulator
from weft.emulator.watch import Watch
from weft.emulator.watching.observers import Observers

KERNEL = """
.visible .entry k(.param .u64 p0, .param .u64 p1)
{
  .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<32>;
  .shared .align 16 .b8 block[1024];
  ld.param.u64 %rd20, [p0]; ld.param.u64 %rd21, [p1];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, block; shl.b32 %r2, %r0, 4; add.u32 %r1, %r1, %r2;
  st.shared.v4.u32 [%r1], {7, 7, 7, 7};
  cvt.u64.u32 %rd0, %r2; add.u64 %rd1, %rd20, %rd0; add.u64 %rd2, %rd21, %rd0;
  BODY
  ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r1]; st.global.v4.u32 [%rd2], {%r4, %r5, %r6, %r7};
  ret;
}
"""


def copied(body, count=32):
    """What each thread's 16 bytes of shared memory hold after `body`, which copies from %rd1 to %r1."""
    data, out = np.arange(100, 100 + 4 * count, dtype=np.uint32), np.zeros(4 * count, np.uint32)
    module(KERNEL.replace("BODY", body)).launch("k", block=count, args=[data, out])
    return data.reshape(-1, 4), out.reshape(-1, 4)


def test_async_copies_show_after_the_wait():
    data, out = copied(
        "cp.async.cg.shared.global [%r1], [%rd1], 16; cp.async.commit_group; cp.async.wait_group 0;"
    )
    assert (out == data).all()
    data, out = copied("cp.async.ca.shared.global.L2::128B [%r1], [%rd1], 8; cp.async.wait_all;")
    assert (out[:, :2] == data[:, :2]).all()
    assert (out[:, 2:] == 7).all()


@pytest.mark.parametrize(
    "body",
    [
        "cp.async.cg.shared.global [%r1], [%rd1], 16;",
        "cp.async.cg.shared.global [%r1], [%rd1], 16; cp.async.commit_group;",
        "cp.async.cg.shared.global [%r1], [%rd1], 16; cp.async.wait_group 0;",
        "cp.async.cg.shared.global [%r1], [%rd1], 16; cp.async.commit_group; cp.async.wait_group 1;",
        "cp.async.cg.shared.global [%r1], [%rd1], 16; cp.async.commit_group; bar.sync 0;",
    ],
)
def test_a_missing_wait_shows_stale_data(body):
    _, out = copied(body)
    assert (out == 7).all()


def test_a_wait_writes_no_bytes_of_threads_that_have_waited_before():
    """The first warp overwrites its bytes before the second one waits for the copy that both have issued."""
    data, out = copied(
        """
  cp.async.cg.shared.global [%r1], [%rd1], 16; cp.async.commit_group;
  setp.lt.u32 %p1, %r0, 32; @!%p1 bra MEET;
  cp.async.wait_all; st.shared.v4.u32 [%r1], {5, 5, 5, 5};
MEET:
  bar.sync 0; cp.async.wait_all;""",
        64,
    )
    assert (out[:32] == 5).all()
    assert (out[32:] == data[32:]).all()


def test_waits_finish_the_oldest_groups():
    body = """
      cp.async.ca.shared.global [%r1], [%rd1], 4; cp.async.commit_group;
      cp.async.ca.shared.global [%r1+4], [%rd1+4], 4; cp.async.commit_group;
      cp.async.ca.shared.global [%r1+8], [%rd1+8], 4; cp.async.commit_group;
      cp.async.wait_group 1;
    """
    data, out = copied(body)
    assert (out[:, :2] == data[:, :2]).all()
    assert (out[:, 2:] == 7).all()


def test_threads_wait_for_their_own_copies():
    body = """
      cp.async.cg.shared.global [%r1], [%rd1], 16; cp.async.commit_group;
      setp.lt.u32 %p1, %r0, 40;
      @%p1 cp.async.wait_group 0;
    """
    data, out = copied(body, 64)
    assert (out[:40] == data[:40]).all()
    assert (out[40:] == 7).all()


def test_short_and_ignored_sources_fill_with_zeros():
    body = """
      rem.u32 %r8, %r0, 5; shl.b32 %r8, %r8, 2;
      cp.async.cg.shared.global [%r1], [%rd1], 16, %r8; cp.async.wait_all;
    """
    data, out = copied(body)
    for i in range(32):
        want = data[i].copy()
        want[i % 5 :] = 0
        assert (out[i] == want).all()
    body = "setp.lt.u32 %p1, %r0, 8; cp.async.cg.shared.global [%r1], [%rd1], 16, %p1; cp.async.wait_all;"
    data, out = copied(body)
    assert (out[:8] == 0).all()
    assert (out[8:] == data[8:]).all()


def test_a_source_that_is_not_read_may_lie_anywhere():
    body = "mov.u64 %rd1, 0; cp.async.cg.shared.global [%r1], [%rd1], 16, 0; cp.async.wait_all;"
    assert (copied(body)[1] == 0).all()
    with pytest.raises(emulator.Fault, match="out-of-bounds global"):
        copied("mov.u64 %rd1, 0; cp.async.cg.shared.global [%r1], [%rd1], 16; cp.async.wait_all;")


def test_a_watcher_sees_every_access(monkeypatch):
    seen = []

    class Watching(Watch):
        def access(self, access):
            seen.append(access)

    monkeypatch.setattr(Observers, "sanitizer", lambda self, wave: Watching())
    copied("cp.async.cg.shared.global [%r1], [%rd1], 16; cp.async.wait_all;")
    kinds = [(access.kind, access.space, access.width) for access in seen]
    assert ("async", "shared", 16) in kinds
    assert ("store", "shared", 16) in kinds
    assert ("load", "global", 16) in kinds
    assert all(access.address.shape == (1, 32) for access in seen)


def test_a_copy_of_more_bytes_than_its_size_is_a_fault():
    legal = "mov.u32 %r9, 16; cp.async.cg.shared.global [%r1], [%rd1], 16, %r9; cp.async.wait_all;"
    assert (copied(legal)[1] == copied(legal)[0]).all()
    with pytest.raises(
        emulator.Fault, match=r"cp.async of 16 bytes must read at most 16, got 17 in thread \(3, 0, 0\)"
    ):
        copied(legal.replace("mov.u32 %r9, 16;", "add.u32 %r9, %r0, 14;"))
