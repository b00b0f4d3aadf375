"""mbarriers: phases, counts of arrivals and bytes, waits, and errors."""

import numpy as np
import pytest
from emulator_ptx import module

from weft import emulator
from weft.emulator.memory.mbarrier import State, initial, settled

SEEDS = (None, 1, 2, 3)


def launch(body, count=32, block=32, grid=1, words=1, **options):
    """Runs a body with `words` results of each thread at %rd2, tid in %r0, a barrier at [bar]."""
    text = f"""
    .visible .entry k(.param .u64 p_out)
    {{
      .reg .pred %p<8>; .reg .b32 %r<40>; .reg .b64 %rd<40>;
      .shared .align 8 .b64 bar; .shared .align 8 .b64 ring[16]; .shared .align 16 .b8 data[4096];
      ld.param.u64 %rd1, [p_out];
      mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x;
      mad.lo.u32 %r3, %r1, %r2, %r0;
      mad.wide.u32 %rd2, %r3, {4 * words}, %rd1;
      {body}
    }}"""
    out = np.zeros((count, words) if words > 1 else count, np.uint32)
    report = module(text, "sm_90a").launch("k", grid=grid, block=block, args=[out], **options)
    assert not report.findings
    return out, report


@pytest.mark.parametrize("tx", [-(1 << 20) + 1, -4096, -1, 0, 1, 4096, (1 << 20) - 1])
def test_a_barriers_word_has_all_of_its_state(tx):
    most = (1 << 20) - 1
    word = settled(initial(most), most - 5, tx)
    assert State.of(word) == State(most, 5, tx, 0)
    assert State.of(settled(word, 5, -tx)) == State(most, most, 0, 1)


ONE = "setp.eq.u32 %p1, %r0, 0;\n"
LOOK = """
  mbarrier.test_wait.parity.shared.b64 %p2, [bar], 0; selp.u32 %r{0}, 1, 0, %p2;
  mbarrier.test_wait.parity.shared::cta.b64 %p2, [bar], 1; selp.u32 %r{1}, 1, 0, %p2;
"""


def test_a_phase_ends_with_its_last_arrival():
    body = f"""
      mbarrier.init.shared.b64 [bar], 2;
      {LOOK.format(10, 11)}
      mbarrier.arrive.shared.b64 %rd3, [bar];
      {LOOK.format(12, 13)}
      mbarrier.arrive.release.cta.shared::cta.b64 _, [bar];
      {LOOK.format(14, 15)}
      mbarrier.arrive.shared.b64 %rd3, [bar], 2;
      {LOOK.format(16, 17)}
      st.global.v4.u32 [%rd2], {{%r10, %r11, %r12, %r13}};
      st.global.v4.u32 [%rd2+16], {{%r14, %r15, %r16, %r17}};
    """
    out, _ = launch(body, 1, 1, words=8)
    # A fresh barrier shows the phase before its first, of parity 1, as complete.
    assert out.tolist() == [[0, 1, 0, 1, 1, 0, 0, 1]]


TRY = """
  mbarrier.try_wait.parity.shared.b64 %p2, [bar], {}; selp.u32 %r10, 1, 0, %p2; st.global.u32 [%rd2], %r10;
"""
ALL_ARRIVE = "@%p1 mbarrier.init.shared.b64 [bar], 64; bar.sync 0; mbarrier.arrive.shared.b64 _, [bar];"
COMPLETE = {
    "one arrival": ALL_ARRIVE.replace("64;", "1;").replace("mbarrier.a", "@%p1 mbarrier.a")
    + f"bar.sync 0; {TRY.format(0)}",
    "after a barrier": f"{ALL_ARRIVE} bar.sync 0; {TRY.format(0)}",
    "seen before": f"{ALL_ARRIVE} AGAIN: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra AGAIN; "
    + TRY.format(0),
    "a fresh barrier": f"@%p1 mbarrier.init.shared.b64 [bar], 64; bar.sync 0; {TRY.format(1)}",
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("body", COMPLETE.values(), ids=COMPLETE)
def test_a_wait_for_a_phase_that_is_known_to_be_complete_is_true(body, seed):
    assert (launch(ONE + body, 64, 64, seed=seed)[0] == 1).all()


def test_a_wait_that_nothing_orders_after_the_phase_may_be_too_early():
    """Warp 1 arrives; warp 0 learns of it by a relaxed load, which orders nothing."""
    body = f"""{ONE} @%p1 mbarrier.init.shared.b64 [bar], 1; st.shared.u32 [data], 0; bar.sync 0;
      setp.ge.u32 %p3, %r0, 32; @%p3 bra ARRIVE;
    POLL:
      ld.relaxed.cta.shared.u32 %r11, [data]; setp.eq.u32 %p4, %r11, 0; @%p4 bra POLL;
      {TRY.format(0)} ret;
    ARRIVE:
      setp.eq.u32 %p5, %r0, 32; @%p5 mbarrier.arrive.shared.b64 _, [bar];
      @%p5 st.relaxed.cta.shared.u32 [data], 1; ret;
    """
    assert (launch(body, 64, 64)[0] == 0).all()
    assert (launch(body, 64, 64, sanitize=False)[0][:32] == 1).all()


def test_generic_addresses_and_other_orders_of_modifiers():
    body = """
      mov.u64 %rd3, bar; cvta.shared.u64 %rd3, %rd3;
      mbarrier.init.b64 [%rd3], 1;
      mbarrier.arrive.release.cluster.b64 %rd4, [%rd3];
    WAIT:
      mbarrier.try_wait.parity.acquire.cluster.b64 %p1, [%rd3], 0, 0x989680;
      @!%p1 bra WAIT;
      mbarrier.test_wait.acquire.cta.b64 %p2, [%rd3], %rd4;
      selp.u32 %r9, 1, 0, %p2; st.global.u32 [%rd2], %r9;
    """
    assert launch(body, 1, 1)[0].tolist() == [1]


@pytest.mark.parametrize("seed", SEEDS)
def test_states_tell_what_was_pending_and_when_their_phase_is_over(seed):
    body = f"""
      {ONE} @%p1 mbarrier.init.shared.b64 [bar], 64;
      bar.sync 0;
      mbarrier.arrive.shared.b64 %rd3, [bar];
      mbarrier.pending_count.b64 %r9, %rd3;
    WAIT:
      mbarrier.try_wait.shared.b64 %p2, [bar], %rd3;
      @!%p2 bra WAIT;
      st.global.u32 [%rd2], %r9;
    """
    out, _ = launch(body, 64, 64, seed=seed)
    assert sorted(out.tolist()) == list(range(1, 65))


def test_arrivals_beyond_a_phase_count_for_the_next():
    # 32 lanes arrive at a barrier of 8: four phases end, the last of even parity.
    body = f"""
      {ONE} @%p1 mbarrier.init.shared.b64 [bar], 8;
      bar.warp.sync -1;
      mbarrier.arrive.shared.b64 %rd3, [bar];
      mbarrier.pending_count.b64 %r9, %rd3;
      shr.u64 %rd4, %rd3, 63;
      {LOOK.format(10, 11)}
      mad.lo.u32 %r9, %r10, 100, %r9; mad.lo.u32 %r9, %r11, 1000, %r9;
      st.global.u32 [%rd2], %r9;
    """
    out, _ = launch(body, ignore=["mbarrier-count"])
    assert out.tolist() == [1000 + 8 - i % 8 for i in range(32)]


@pytest.mark.parametrize(("count", "rules"), [(2, set()), (1, {"deadlock", "mbarrier-count"})])
def test_two_threads_that_copy_are_counted(count, rules):
    """With one arrival, the phase may be complete before the other thread expects its bytes."""
    text = """
    .visible .entry k(.param .u64 p) {{
      .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
      .shared .align 8 .b64 bar; .shared .align 128 .b8 s[256];
      ld.param.u64 %rd1, [p]; mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0; and.b32 %r1, %r0, 31;
      setp.eq.u32 %p1, %r1, 0; shl.b32 %r2, %r0, 2; mov.u32 %r3, s; add.u32 %r4, %r3, %r2;
      @%p0 mbarrier.init.shared.b64 [bar], {}; @%p0 fence.mbarrier_init.release.cluster; bar.sync 0;
      @!%p1 bra WAIT;
      @!%p0 bra OTHER;
      mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
      cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd1], 128, [bar];
      bra WAIT;
    OTHER:
      mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
      cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd1], 128, [bar];
    WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;
      ld.shared.u32 %r5, [s]; ret;
    }}"""
    words = np.zeros(64, np.uint32)
    try:
        found = module(text.format(count), "sm_90a").launch("k", block=64, args=[words]).findings
    except emulator.Deadlock as deadlock:
        found = deadlock.findings
    assert {each.rule for each in found} == rules


def test_a_phase_waits_for_its_bytes():
    body = f"""
      mbarrier.init.shared.b64 [bar], 1;
      mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 100;
      mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 164;
      {LOOK.format(10, 11)}
      mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [bar], 60;
      {LOOK.format(12, 13)}
      mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 16;
      mbarrier.complete_tx.shared::cta.relaxed.cta.b64 [bar], 4;
      {LOOK.format(14, 15)}
      mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 16;
      {LOOK.format(16, 17)}
      st.global.v4.u32 [%rd2], {{%r10, %r11, %r12, %r13}};
      st.global.v4.u32 [%rd2+16], {{%r14, %r15, %r16, %r17}};
    """
    out, _ = launch(body, 1, 1, words=8)
    assert out.tolist() == [[0, 1, 0, 1, 0, 1, 1, 0]]


def test_a_dropped_arrival_is_not_expected_again():
    body = f"""
      mbarrier.init.shared.b64 [bar], 3;
      mbarrier.arrive_drop.shared.b64 %rd3, [bar], 2;
      mbarrier.arrive.noComplete.shared.b64 %rd4, [data+8], 1;
      mbarrier.arrive.shared.b64 %rd3, [bar];
      {LOOK.format(10, 11)}
      mbarrier.arrive.shared.b64 %rd3, [bar];
      {LOOK.format(12, 13)}
      mbarrier.inval.shared.b64 [data+8];
      st.global.v4.u32 [%rd2], {{%r10, %r11, %r12, %r13}};
    """.replace(
        "mbarrier.init.shared.b64 [bar], 3;",
        "mbarrier.init.shared.b64 [bar], 3; mbarrier.init.shared.b64 [data+8], 2;",
    )
    out, _ = launch(body, 1, 1, words=4)
    assert out.tolist() == [[1, 0, 0, 1]]


RING = """
  setp.eq.u32 %p1, %r0, 0;
  @!%p1 bra READY;
  mov.u32 %r5, 0;
INIT:
  shl.b32 %r6, %r5, 3; mov.u32 %r7, ring; add.u32 %r6, %r6, %r7;
  mbarrier.init.shared.b64 [%r6], 1;
  mbarrier.init.shared.b64 [%r6+32], 32;
  add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 4; @%p2 bra INIT;
  fence.mbarrier_init.release.cluster;
READY:
  bar.sync 0;
  mov.u32 %r7, ring; mov.u32 %r8, data; mov.u32 %r9, 0; mov.u32 %r10, 0;
  setp.ge.u32 %p1, %r0, 32;
  @%p1 bra CONSUMER;
  elect.sync _|%p3, 0xffffffff;
  @!%p3 bra DONE;
PRODUCE:
  and.b32 %r11, %r9, 3; shl.b32 %r12, %r11, 3; add.u32 %r12, %r12, %r7;
  shr.u32 %r13, %r9, 2; and.b32 %r13, %r13, 1; xor.b32 %r14, %r13, 1;
EMPTY:
  mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r12+32], %r14;
  @!%p4 bra EMPTY;
  shl.b32 %r15, %r11, 2; add.u32 %r15, %r15, %r8;
  mad.lo.u32 %r16, %r9, %r9, 1;
  st.shared.u32 [%r15], %r16;
  mbarrier.arrive.shared::cta.b64 _, [%r12];
  add.u32 %r9, %r9, 1; setp.lt.u32 %p5, %r9, 50; @%p5 bra PRODUCE;
  bra DONE;
CONSUMER:
  and.b32 %r11, %r9, 3; shl.b32 %r12, %r11, 3; add.u32 %r12, %r12, %r7;
  shr.u32 %r13, %r9, 2; and.b32 %r13, %r13, 1;
FULL:
  mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r12], %r13;
  @!%p4 bra FULL;
  shl.b32 %r15, %r11, 2; add.u32 %r15, %r15, %r8;
  ld.shared.u32 %r16, [%r15];
  add.u32 %r10, %r10, %r16;
  mbarrier.arrive.shared::cta.b64 _, [%r12+32];
  add.u32 %r9, %r9, 1; setp.lt.u32 %p5, %r9, 50; @%p5 bra CONSUMER;
DONE:
  st.global.u32 [%rd2], %r10;
"""


@pytest.mark.each_value(2)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_producer_and_a_consumer_share_a_ring(seed):
    out, _ = launch(RING, 64 * 3, 64, grid=3, seed=seed)
    total = sum(n * n + 1 for n in range(50))
    assert out.tolist() == ([0] * 32 + [total] * 32) * 3


def test_a_ring_works_with_waits_that_do_not_block():
    body = RING.replace("try_wait", "test_wait")
    out, _ = launch(body, 64, 64)
    assert out[63] == sum(n * n + 1 for n in range(50))


def test_waits_under_a_predicate_leave_the_other_threads_alone():
    body = f"""
      {ONE} @%p1 mbarrier.init.shared.b64 [bar], 1;
      bar.sync 0;
      setp.ge.u32 %p2, %r0, 32;
      mov.pred %p3, %p2;
    AGAIN:
      @%p2 mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;
      @%p2 bra CHECK;
      @%p1 mbarrier.arrive.shared.b64 _, [bar];
      bra DONE;
    CHECK:
      @!%p3 bra AGAIN;
    DONE:
      st.global.u32 [%rd2], 1;
    """
    out, _ = launch(body, 64, 64)
    assert (out == 1).all()


@pytest.mark.parametrize("form", ["", ".noinc"])
@pytest.mark.parametrize("seed", SEEDS)
def test_copies_arrive_when_their_bytes_are_there(form, seed):
    # With .noinc the arrivals of the copies are among the 32 + 32 expected ones, without they come on top.
    count = 64 if form else 32
    body = f"""
      {ONE} @%p1 mbarrier.init.shared.b64 [bar], {count};
      st.global.u32 [%rd2], %r0;
      bar.sync 0;
      mov.u32 %r4, data; mad.lo.u32 %r5, %r0, 4, %r4;
      cp.async.ca.shared.global [%r5], [%rd2], 4;
      cp.async.mbarrier.arrive{form}.shared.b64 [bar];
      mbarrier.arrive.shared.b64 _, [bar];
    WAIT:
      mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
      @!%p2 bra WAIT;
      xor.b32 %r6, %r0, 31; mad.lo.u32 %r5, %r6, 4, %r4;
      ld.shared.u32 %r7, [%r5]; st.global.u32 [%rd2], %r7;
    """
    out, _ = launch(body, seed=seed)
    assert out.tolist() == list(range(31, -1, -1))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_wait_lets_memory_pollers_go_on(seed):
    # Warp 0 gives up its wait now and then to look at a flag that warp 1 sets, and warp 1 waits for warp 0.
    body = f"""
      {ONE} @%p1 mbarrier.init.shared.b64 [bar], 1;
      @%p1 st.shared.u32 [data], 0;
      @%p1 st.shared.u32 [data+4], 0;
      bar.sync 0;
      setp.ge.u32 %p2, %r0, 32;
      @%p2 bra OTHER;
    WAIT:
      mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;
      @%p3 bra DONE;
      st.volatile.shared.u32 [data], 1;
      bra WAIT;
    OTHER:
      ld.volatile.shared.u32 %r5, [data];
      setp.eq.u32 %p3, %r5, 0;
      @%p3 bra OTHER;
      setp.eq.u32 %p4, %r0, 32;
      @%p4 mbarrier.arrive.shared.b64 _, [bar];
    DONE:
      st.global.u32 [%rd2], 1;
    """
    assert (launch(body, 64, 64, seed=seed)[0] == 1).all()


@pytest.mark.each_value(1)
@pytest.mark.parametrize("wait", ["try_wait", "test_wait"])
def test_a_deadlock_shows_every_waiting_warp_and_barrier(wait):
    body = f"""
      {ONE} @%p1 mbarrier.init.shared.b64 [bar], 3;
      @%p1 mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 48;
      bar.sync 0;
      @%p1 mbarrier.arrive.shared.b64 _, [bar];
    WAIT:
      mbarrier.{wait}.parity.shared.b64 %p2, [bar], 0;
      @!%p2 bra WAIT;
    """
    with pytest.raises(emulator.Deadlock) as caught:
        launch(body, 64, 64)
    assert [line.split(" waits at")[0] for line in caught.value.waiting[:2]] == [
        "block (0, 0, 0) warp 0 (32 lanes)",
        "block (0, 0, 0) warp 1 (32 lanes)",
    ]
    assert f"(mbarrier.{wait}) for the mbarrier at 0x0 of block (0, 0, 0)" in caught.value.waiting[0]
    assert caught.value.waiting[2:] == (
        "mbarrier at 0x0 of block (0, 0, 0): phase parity 0, 2 of 3 arrivals pending, transaction count 48: "
        "48 bytes are missing",
    )


def test_the_instruction_limit_ends_a_wait():
    body = """
      mbarrier.init.shared.b64 [bar], 1;
    WAIT:
      ld.volatile.shared.u32 %r5, [data];
      mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
      @!%p2 bra WAIT;
    """
    with pytest.raises(emulator.Fault, match="instruction limit"):
        launch(body, 1, 1, max_instructions=5_000)


@pytest.mark.parametrize(
    "body, message",
    [
        ("mbarrier.arrive.shared.b64 _, [bar];", "no mbarrier was initialized at shared address 0x0"),
        ("mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;", "no mbarrier was initialized"),
        ("mbarrier.inval.shared.b64 [bar];", "no mbarrier was initialized"),
        ("mbarrier.init.shared.b64 [bar], 0;", r"count must be in 1\.\.1048575, got 0"),
        ("mbarrier.init.shared.b64 [bar+4], 1;", "misaligned"),
        ("mbarrier.init.shared.b64 [bar+65536], 1;", "out-of-bounds shared"),
        ("mbarrier.init.b64 [%rd1], 1;", "out-of-bounds shared"),
        (
            "mbarrier.init.shared.b64 [bar], 2; mbarrier.arrive.shared.b64 _, [bar], 3;",
            "has 2 pending arrivals, got 3",
        ),
        (
            "mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.noComplete.shared.b64 %rd3, [bar], 1;",
            "noComplete must not complete a phase",
        ),
        (
            "mbarrier.init.shared.b64 [bar], 1; mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 1048575;"
            "mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 1;",
            r"transaction count .* must be in -1048575\.\.1048575, got 1048576",
        ),
        (
            "mbarrier.init.shared.b64 [bar], 1; st.shared.u64 [bar], %rd9;"
            "mbarrier.arrive.shared.b64 _, [bar];",
            "was overwritten",
        ),
        (
            "mbarrier.init.shared.b64 [bar], 1; mbarrier.inval.shared.b64 [bar];"
            "mbarrier.arrive.shared.b64 _, [bar];",
            "no mbarrier was initialized",
        ),
    ],
)
def test_wrong_uses_fault(body, message):
    with pytest.raises(emulator.Fault, match=message):
        launch(body, 1, 1)


@pytest.mark.parametrize(
    "body",
    [
        "mbarrier.arrive.shared::cluster.b64 %rd3, [bar];",
        "mbarrier.arrive.noComplete.shared.b64 %rd3, [bar];",
        "mbarrier.try_wait.parity.shared.b64 %p1, [bar], %rd3;",
        "mbarrier.test_wait.parity.shared.b64 %p1, [bar], 0, 100;",
        "mbarrier.init.shared.b32 [bar], 1;",
        "mbarrier.init.global.b64 [%rd1], 1;",
        "mbarrier.frobnicate.b64 [bar];",
    ],
)
def test_wrong_forms_are_refused(body):
    with pytest.raises(emulator.PtxError):
        launch(body, 1, 1)
