"""Divergence and reconvergence, barriers, calls, deadlock."""

import numpy as np
import pytest
from emulator_ptx import launch_threads as launch
from emulator_ptx import module, run

from weft import emulator


def collatz(n):
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


COLLATZ = """
  mov.u32 %r6, 0;
  mov.u32 %r7, %r5;
LOOP:
  setp.le.u32 %p1, %r7, 1;
  @%p1 bra DONE;
  and.b32 %r8, %r7, 1;
  setp.eq.u32 %p2, %r8, 0;
  @%p2 bra EVEN;
  mad.lo.u32 %r7, %r7, 3, 1;
  bra NEXT;
EVEN:
  shr.u32 %r7, %r7, 1;
NEXT:
  add.u32 %r6, %r6, 1;
  bra LOOP;
DONE:
  st.global.u32 [%rd2], %r6;
  ret;
"""


@pytest.mark.each_value(2)
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_loops_with_different_trip_counts(seed):
    out, _ = launch(COLLATZ, 256, 128, seed=seed)
    assert out.tolist() == [collatz(i) for i in range(256)]


def test_threads_reconverge_after_a_loop():
    # Had the lanes not met again, the store would be executed once for each trip count.
    out, report = launch(COLLATZ, 32, 32)
    assert report.counters["st"] == 1
    assert out[27] == 111


def test_nested_branches():
    body = """
      mov.u32 %r6, 0;
      and.b32 %r7, %r2, 1; setp.eq.u32 %p1, %r7, 0;
      and.b32 %r8, %r2, 2; setp.eq.u32 %p2, %r8, 0;
      @!%p1 bra ODD;
      @!%p2 bra A;
      add.u32 %r6, %r6, 1;
      bra JOIN;
    A:
      add.u32 %r6, %r6, 10;
      bra JOIN;
    ODD:
      @%p2 bra B;
      add.u32 %r6, %r6, 100;
    B:
      add.u32 %r6, %r6, 1000;
    JOIN:
      add.u32 %r6, %r6, %r2;
      st.global.u32 [%rd2], %r6;
      ret;
    """
    out, report = launch(body)
    want = [i + {0: 1, 2: 10, 1: 1000, 3: 1100}[i % 4] for i in range(64)]
    assert out.tolist() == want
    assert report.counters["st"] == 2


def test_early_return_leaves_the_others_running():
    body = """
      st.global.u32 [%rd2], 7;
      setp.lt.u32 %p1, %r2, 5;
      @%p1 ret;
      setp.gt.u32 %p2, %r2, 60;
      @%p2 exit;
      st.global.u32 [%rd2], %r2;
      ret;
    """
    out, _ = launch(body)
    assert out.tolist() == [7 if i < 5 or i > 60 else i for i in range(64)]


def test_loop_with_two_exits_and_a_break():
    body = """
      mov.u32 %r6, 0; mov.u32 %r9, 0;
    HEAD:
      setp.ge.u32 %p1, %r6, %r2;
      @%p1 bra OUT1;
      mul.lo.u32 %r7, %r6, %r6;
      setp.gt.u32 %p2, %r7, 200;
      @%p2 bra OUT2;
      add.u32 %r6, %r6, 1;
      bra HEAD;
    OUT2:
      add.u32 %r9, %r9, 1000;
    OUT1:
      add.u32 %r9, %r9, %r6;
      st.global.u32 [%rd2], %r9;
      ret;
    """
    out, report = launch(body, 32, 32)
    assert out.tolist() == [i if i <= 15 else 1015 for i in range(32)]
    assert report.counters["st"] == 1


def test_irreducible_loop():
    body = """
      mov.u32 %r6, 0; mov.u32 %r7, 0;
      and.b32 %r8, %r2, 1; setp.eq.u32 %p1, %r8, 0;
      @%p1 bra TWO;
    ONE:
      add.u32 %r7, %r7, 1;
      setp.ge.u32 %p2, %r7, 10; @%p2 bra OUT;
    TWO:
      add.u32 %r7, %r7, 3;
      setp.ge.u32 %p2, %r7, 10; @%p2 bra OUT;
      bra ONE;
    OUT:
      st.global.u32 [%rd2], %r7;
      ret;
    """
    out, report = launch(body)

    def want(i):
        r, two = 0, i % 2 == 0
        while True:
            r += 3 if two else 1
            if r >= 10:
                return r
            two = not two

    assert out.tolist() == [want(i) for i in range(64)]
    assert report.counters["st"] == 2


def test_branch_tables():
    body = """
      and.b32 %r6, %r2, 3;
    table: .branchtargets L0, L1, L2, L0;
      brx.idx %r6, table;
    L0:
      mov.u32 %r7, 5; bra.uni END;
    L1:
      mov.u32 %r7, 6; bra.uni END;
    L2:
      mov.u32 %r7, 7;
    END:
      st.global.u32 [%rd2], %r7;
      ret;
    """
    out, report = launch(body)
    assert out.tolist() == [{0: 5, 1: 6, 2: 7, 3: 5}[i % 4] for i in range(64)]
    assert report.counters["st"] == 2
    with pytest.raises(emulator.Fault, match=r"the index of brx\.idx must be in 0\.\.3, got 7"):
        launch(body.replace("and.b32 %r6, %r2, 3", "add.u32 %r6, %r2, 7"))


def test_a_spin_lock_within_a_warp_makes_progress():
    # With a stack of reconvergence points, the lane that has the lock waits forever for those that spin.
    body = """
      mov.u64 %rd3, lock;
    SPIN:
      atom.global.cas.b32 %r6, [%rd3], 0, 1;
      setp.ne.u32 %p1, %r6, 0;
      @%p1 bra SPIN;
      ld.volatile.global.u32 %r7, [%rd1];
      add.u32 %r7, %r7, 1;
      st.volatile.global.u32 [%rd1], %r7;
      membar.gl;
      atom.global.exch.b32 %r6, [%rd3], 0;
      ret;
    """
    for seed in (None, 3):
        out, _ = launch(body, 64, 32, before=".global .u32 lock = 0;", seed=seed)
        assert out[0] == 64


def test_one_warp_waits_for_another_through_memory():
    body = """
      .shared .align 4 .u32 flag;
      setp.eq.u32 %p1, %r2, 0;
      @%p1 st.shared.u32 [flag], 0;
      bar.sync 0;
      setp.ge.u32 %p2, %r2, 32;
      @%p2 bra PRODUCER;
    WAIT:
      ld.volatile.shared.u32 %r6, [flag];
      setp.eq.u32 %p3, %r6, 0;
      @%p3 bra WAIT;
      bra DONE;
    PRODUCER:
      setp.ne.u32 %p4, %r2, 32;
      @%p4 bra DONE;
      mov.u32 %r7, 0;
    WORK:
      add.u32 %r7, %r7, 1;
      setp.lt.u32 %p5, %r7, 3000;
      @%p5 bra WORK;
      st.volatile.shared.u32 [flag], %r7;
    DONE:
      ld.volatile.shared.u32 %r8, [flag];
      st.global.u32 [%rd2], %r8;
      ret;
    """
    out, _ = launch(body)
    assert (out[:32] == 3000).all()


def test_blocks_wait_for_one_another():
    # A grid-wide barrier needs every block to be running at once.
    body = """
      bar.sync 0;
      setp.ne.u32 %p1, %r2, 0;
      @%p1 bra JOIN;
      mov.u64 %rd3, arrived;
      atom.global.add.u32 %r6, [%rd3], 1;
      mov.u32 %r8, %nctaid.x;
    WAIT:
      ld.acquire.gpu.global.u32 %r7, [%rd3];
      setp.lt.u32 %p2, %r7, %r8;
      @%p2 bra WAIT;
    JOIN:
      bar.sync 0;
      ld.global.u32 %r9, [arrived];
      st.global.u32 [%rd2], %r9;
      ret;
    """
    out, _ = launch(body, 32 * 256, 32, before=".global .u32 arrived = 0;")
    assert (out == 256).all()


FUNCTIONS = """
.func (.param .b32 result) factorial(.param .b32 n)
{
  .reg .pred %p; .reg .b32 %r<6>;
  .local .align 4 .b8 kept[8];
  ld.param.u32 %r1, [n];
  st.local.u32 [kept+4], %r1;
  setp.le.u32 %p, %r1, 1;
  @%p bra BASE;
  sub.u32 %r2, %r1, 1;
  {
    .param .b32 argument; .param .b32 back;
    st.param.b32 [argument], %r2;
    call (back), factorial, (argument);
    ld.param.b32 %r3, [back];
  }
  ld.local.u32 %r4, [kept+4];
  mul.lo.u32 %r3, %r3, %r4;
  mul.lo.u32 %r5, %r1, 0;
  add.u32 %r3, %r3, %r5;
  st.param.b32 [result], %r3;
  ret;
BASE:
  st.param.b32 [result], 1;
  ret;
}
.func (.reg .b32 out) twice(.reg .b32 in)
{
  add.u32 out, in, in;
  ret;
}
"""


def test_recursive_calls_keep_registers_and_frames():
    body = """
      and.b32 %r6, %r2, 7;
      {
        .param .b32 a; .param .b32 b;
        st.param.b32 [a], %r6;
        call.uni (b), factorial, (a);
        ld.param.b32 %r7, [b];
      }
      call (%r8), twice, (%r7);
      st.global.u32 [%rd2], %r8;
      ret;
    """
    out, report = launch(body, before=FUNCTIONS)
    factorial = [1, 1, 2, 6, 24, 120, 720, 5040]
    assert out.tolist() == [2 * factorial[i % 8] for i in range(64)]
    assert report.counters["st"] > 2
    endless = "{ .param .b32 a; .param .b32 b; st.param.b32 [a], -1; call.uni (b), factorial, (a); } ret;"
    with pytest.raises(emulator.Fault, match="stack overflow"):
        launch(
            endless,
            before=FUNCTIONS.replace("setp.le.u32 %p, %r1, 1", "setp.eq.u32 %p, %r1, %r1; not.pred %p, %p"),
        )


def test_the_instruction_limit_ends_an_endless_loop():
    with pytest.raises(emulator.Fault, match="instruction limit of 1000"):
        launch("L: add.u32 %r6, %r6, 1; bra L;", max_instructions=1000)


@pytest.mark.parametrize(
    "body",
    [
        "L: bra L;",
        "setp.eq.u32 %p1, %r2, 64; L: @!%p1 bra L; ret;",
        "setp.eq.u32 %p1, %r2, 64; L: @%p1 bra M; bra L; M: ret;",
        "L: setp.eq.u32 %p1, %r2, 64; @%p1 bra M; bra.uni L; M: ret;",
        "mov.u32 %r6, 0; K: L: setp.eq.u32 %p1, %r2, 64; @!%p1 bra L; add.u32 %r6, %r6, 1; bra K;",
    ],
)
def test_a_loop_that_changes_nothing_is_a_fault(body):
    with pytest.raises(emulator.Fault, match=r"the loop never ends: .* in thread \(0, 0, 0\)") as caught:
        launch(f"st.global.u32 [%rd2], %r2; {body}", max_instructions=1000)
    assert caught.value.rule == "endless"


@pytest.mark.parametrize(
    "body",
    [
        "mov.u32 %r6, 0; L: add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 9; @%p1 bra L; ret;",
        "L: mov.u32 %r6, %clock; and.b32 %r6, %r6, 1; setp.eq.u32 %p1, %r6, 0; @%p1 bra L; ret;",
        "setp.eq.u32 %p1, %r2, 64; L: @%p1 bra L; ret;",
        "mov.pred %p1, 1; L: @!%p1 bra M; mov.pred %p1, 0; bra L; M: ret;",
        "mov.u32 %r6, 0; L: setp.eq.u32 %p1, %r6, 1; @%p1 bra M; mov.u32 %r6, 1; bra L; M: ret;",
        "L: ld.global.u32 %r6, [%rd2]; setp.eq.u32 %p1, %r6, 99; @%p1 bra L; ret;",
        "K: setp.eq.u32 %p1, %r2, 64; @%p1 bra L; ret; L: bra K;",
    ],
)
def test_loops_that_may_end_are_none(body):
    launch(body, max_instructions=1000)


def test_instructions_are_counted_by_warps():
    _, report = launch("st.global.u32 [%rd2], %r5; ret;", 64 * 3, 64)
    assert report.instructions == 9 * 6
    assert report.counters["st"] == 6
    assert report.counters["bytes.global"] == 4 * 192


def test_progress_is_told():
    told = []
    launch("ret;", 64 * 100, 64, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (100, 100)
    assert told == sorted(told)


def test_special_registers():
    names = [
        "%tid.x",
        "%tid.y",
        "%tid.z",
        "%ntid.y",
        "%ctaid.x",
        "%ctaid.y",
        "%nctaid.y",
        "%laneid",
        "%warpid",
        "%nwarpid",
        "%lanemask_lt",
        "%lanemask_ge",
        "%cluster_nctarank",
    ]
    stores = "".join(f"mov.u32 %r6, {n}; st.global.u32 [%rd2+{4 * i}], %r6;" for i, n in enumerate(names))
    text = f"""
    .visible .entry k(.param .u64 p) {{
      .reg .b32 %r<16>; .reg .b64 %rd<4>;
      ld.param.u64 %rd1, [p];
      mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z;
      mad.lo.u32 %r1, %r2, 5, %r1; mad.lo.u32 %r1, %r3, 15, %r1;
      mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y;
      mad.lo.u32 %r2, %r3, 2, %r2; mad.lo.u32 %r1, %r2, 60, %r1;
      mul.lo.u32 %r1, %r1, {4 * len(names)};
      cvt.u64.u32 %rd2, %r1; add.u64 %rd2, %rd1, %rd2;
      {stores}
      ret;
    }}"""
    out = np.zeros((2 * 3, 60, len(names)), np.uint32)
    module(text, "sm_90").launch("k", grid=(2, 3), block=(5, 3, 4), args=[out])
    for cta in range(6):
        for i in range(60):
            lane = i % 32
            want = [
                i % 5,
                i // 5 % 3,
                i // 15,
                3,
                cta % 2,
                cta // 2,
                3,
                lane,
                i // 32,
                2,
                (1 << lane) - 1,
                0xFFFFFFFF & ~((1 << lane) - 1),
                1,
            ]
            assert out[cta, i].tolist() == want


def test_clocks_go_forward():
    body = (
        "mov.u32 %r0, %clock; nanosleep.u32 5; "
        "mov.u64 %l0, %clock64; cvt.u32.u64 %r1, %l0; sub.u32 %d0, %r1, %r0;"
    )
    assert (run(body, np.zeros(32, np.uint32), out=np.uint32) > 0).all()


def test_trap_faults_with_its_thread():
    with pytest.raises(emulator.Fault, match=r"trap in thread \(9, 0, 0\)") as caught:
        launch("setp.eq.u32 %p1, %r2, 9;\n@%p1 trap;\nret;")
    assert caught.value.line == 16
    assert caught.value.thread == emulator.Thread((0, 0, 0), (9, 0, 0))
