"""Exchanges between the lanes of a warp, against loops over lanes."""

import numpy as np
import pytest
from emulator_ptx import module, run

from weft import emulator

FULL = 0xFFFFFFFF
RNG = np.random.default_rng(0)
VALUES = RNG.integers(0, 1 << 32, 96, np.uint64).astype(np.uint32)


def shuffled(mode, value, b, c):
    """The loop of the ISA's description, "shfl.sync", for one warp."""
    result, valid = [], []
    for lane in range(32):
        bval, cval, segment = int(b[lane]) & 31, int(c[lane]) & 31, int(c[lane]) >> 8 & 31
        most = (lane & segment) | (cval & ~segment)
        least = lane & segment
        if mode == "up":
            j = lane - bval
            p = j >= most
        elif mode == "down":
            j = lane + bval
            p = j <= most
        elif mode == "bfly":
            j = lane ^ bval
            p = j <= most
        else:
            j = least | (bval & ~segment)
            p = j <= most
        result.append(int(value[j if p else lane]))
        valid.append(p)
    return result, valid


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("width", [32, 16, 4])
def test_shfl(mode, width):
    b = RNG.integers(0, 40, 96).astype(np.uint32)
    c = np.full(96, (32 - width) << 8 | (0 if mode == "up" else 31), np.uint32)
    got, valid = run(f"shfl.sync.{mode}.b32 %d0|%d1, %a0, %a1, %a2, -1;", VALUES, b, c, out=(np.uint32, bool))
    for warp in range(3):
        at = slice(32 * warp, 32 * warp + 32)
        want, inside = shuffled(mode, VALUES[at], b[at], c[at])
        assert got[at].tolist() == want
        assert valid[at].tolist() == inside


def test_votes_and_active_masks():
    p = RNG.integers(0, 2, 96).astype(bool)
    p[32:64] = True
    p[64:] = False
    mask = 0x0FFFFFF0
    body = f"""
      vote.sync.ballot.b32 %d0, %a0, {FULL}; vote.sync.ballot.b32 %d1, !%a0, {FULL};
      vote.sync.all.pred %d2, %a0, {FULL}; vote.sync.any.pred %d3, %a0, {FULL};
      vote.sync.uni.pred %d4, %a0, {FULL};
      activemask.b32 %d5;
    """
    ballot, other, all_, any_, uni, active = run(
        body, p, out=(np.uint32, np.uint32, bool, bool, bool, np.uint32)
    )
    for warp in range(3):
        votes = p[32 * warp : 32 * warp + 32]
        bits = sum(1 << i for i in range(32) if votes[i])
        at = slice(32 * warp, 32 * warp + 32)
        assert (ballot[at] == bits).all()
        assert (other[at] == FULL ^ bits).all()
        assert (all_[at] == votes.all()).all()
        assert (any_[at] == votes.any()).all()
        assert (uni[at] == (votes.all() or not votes.any())).all()
    assert (active == FULL).all()
    body = (
        f"setp.ge.u32 %q0, %a1, 4; "
        f"setp.lt.and.u32 %q0, %a1, 28, %q0; mov.u32 %d0, 0;\n@%q0 vote.sync.ballot.b32 %d0, %a0, {mask};"
    )
    lane = np.tile(np.arange(32, dtype=np.uint32), 3)
    got = run(body, p, lane, out=np.uint32)
    for warp in range(3):
        bits = sum(1 << i for i in range(4, 28) if p[32 * warp + i])
        want = [bits if 4 <= i < 28 else 0 for i in range(32)]
        assert got[32 * warp : 32 * warp + 32].tolist() == want


def test_halves_of_a_warp_vote_apart():
    lane = np.arange(32, dtype=np.uint32)
    body = """
      setp.lt.u32 %q0, %a0, 16; selp.b32 %r0, 0x0000FFFF, 0xFFFF0000, %q0;
      and.b32 %r1, %a0, 1; setp.eq.u32 %q1, %r1, 0;
      vote.sync.ballot.b32 %d0, %q1, %r0;
      @%q0 bra LOW;
      vote.sync.ballot.b32 %d1, %q1, 0xFFFF0000;
      bra DONE;
      LOW: vote.sync.ballot.b32 %d1, %q1, 0x0000FFFF;
      DONE:
    """
    for got in run(body, lane, out=(np.uint32, np.uint32)):
        assert got.tolist() == [0x5555] * 16 + [0x55550000] * 16


def test_match():
    keys = RNG.integers(0, 4, 64).astype(np.uint32)
    keys[32:] = 9
    wide = keys.astype(np.uint64) << np.uint64(40)
    body = (
        "match.any.sync.b32 %d0, %a0, -1; "
        "match.any.sync.b64 %d1, %a1, -1; match.all.sync.b32 %d2|%d3, %a0, -1;"
    )
    some, other, all_, same = run(body, keys, wide, out=(np.uint32, np.uint32, np.uint32, bool))
    for warp in range(2):
        mine = keys[32 * warp : 32 * warp + 32].tolist()
        want = [sum(1 << j for j in range(32) if mine[j] == mine[i]) for i in range(32)]
        at = slice(32 * warp, 32 * warp + 32)
        assert some[at].tolist() == want
        assert other[at].tolist() == want
    assert all_.tolist() == [0] * 32 + [FULL] * 32
    assert same.tolist() == [False] * 32 + [True] * 32


def test_elect_picks_the_lowest_member():
    lane = np.arange(32, dtype=np.uint32)
    body = (
        "elect.sync %d0|%d1, -1; "
        "setp.ge.u32 %q0, %a0, 5; mov.u32 %d2, 99;\n@%q0 elect.sync %d2|_, 0xFFFFFFE0;"
    )
    leader, elected, other = run(body, lane, out=(np.uint32, bool, np.uint32), target="sm_90")
    assert (leader == 0).all()
    assert elected.tolist() == [True] + [False] * 31
    assert other.tolist() == [99] * 5 + [5] * 27


def test_redux():
    s = VALUES.view(np.int32)
    cases = {
        "add.u32": lambda v: int(v.astype(np.int64).sum()) & FULL,
        "min.s32": lambda v: int(v.view(np.int32).min()) & FULL,
        "max.u32": lambda v: int(v.max()),
        "and.b32": lambda v: int(np.bitwise_and.reduce(v)),
        "or.b32": lambda v: int(np.bitwise_or.reduce(v)),
        "xor.b32": lambda v: int(np.bitwise_xor.reduce(v)),
    }
    for name, function in cases.items():
        got = run(f"redux.sync.{name} %d0, %a0, -1;", VALUES, out=np.uint32)
        assert got.tolist() == [function(VALUES[i // 32 * 32 : i // 32 * 32 + 32]) for i in range(96)], name
    assert s.dtype == np.int32


def test_a_partly_filled_warp_takes_part_with_the_lanes_it_has():
    out = np.zeros(40, np.uint32)
    text = """
    .visible .entry k(.param .u64 p) {
      .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p;
      ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mad.wide.u32 %rd2, %r1, 4, %rd1;
      redux.sync.add.u32 %r2, %r1, -1; bar.sync 0;
      st.global.u32 [%rd2], %r2; ret;
    }"""
    module(text).launch("k", block=40, args=[out])
    assert out.tolist() == [sum(range(32))] * 32 + [sum(range(32, 40))] * 8


@pytest.mark.parametrize(
    "line",
    [
        "shfl.sync.bfly.b32 %r2, %r1, 1, 31, %r3;",
        "vote.sync.any.pred %p2, %p1, %r3;",
        "match.any.sync.b32 %r2, %r1, %r3;",
        "redux.sync.max.u32 %r2, %r1, %r3;",
        "elect.sync %r2|%p2, %r3;",
        "bar.warp.sync %r3;",
    ],
)
def test_a_lane_outside_its_own_member_mask_is_a_fault(line):
    text = f"""
    .visible .entry k() {{
      .reg .pred %p<3>; .reg .b32 %r<4>; mov.u32 %r1, %tid.x; mov.u32 %r3, MASK; setp.lt.u32 %p1, %r1, 40;
      @%p1 {line}
      ret;
    }}"""
    module(text.replace("MASK", "-1"), "sm_90a").launch("k", block=32)
    module(text.replace("MASK", "0xff").replace("%r1, 40", "%r1, 8"), "sm_90a").launch("k", block=64)
    said = rf"{line.split('.')[0]}.*sync must include its own lane, 8, got 0xff in thread \(8, 0, 0\)"
    with pytest.raises(emulator.Fault, match=said):
        module(text.replace("MASK", "0xff"), "sm_90a").launch("k", block=64)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(
    ("before", "shuffle", "threads"),
    [
        ("", "bfly.b32 %r2, %r1, 16, 31, -1", 0),
        ("", "bfly.b32 %r2, %r1, 8, 31, 0xffff", 0),
        ("", "down.b32 %r2, %r1, 4, 31, -1", 0),
        ("@%p1 ret;", "bfly.b32 %r2, %r1, 16, 31, -1", 12),
        ("@%p1 ret;", "down.b32 %r2, %r1, 4, 31, -1", 4),
        ("@%p1 ret;", "down.b32 %r2, %r1, 4, 19, -1", 0),  # clamped to the last lane that is there
        ("@%p1 ret;", "up.b32 %r2, %r1, 4, 0, -1", 0),
        ("@%p1 ret;", "idx.b32 %r2, %r1, 3, 31, -1", 0),
        ("@%p1 ret;", "idx.b32 %r2, %r1, 20, 31, -1", 20),
        ("@%p1 bra END;", "idx.b32 %r2, %r1, 20, 31, 0xfffff", 20),
        ("@%p1 bra END;", "bfly.b32 %r2, %r1, 1, 31, 0xfffff", 0),
    ],
)
def test_a_shuffle_reads_only_lanes_that_take_part(before, shuffle, threads, compiled):
    text = f"""
    .visible .entry k(.param .u64 p) {{
      .reg .pred %p<3>; .reg .b32 %r<4>; .reg .b64 %d;
      mov.u32 %r1, %tid.x; mov.u32 %r2, 0; setp.ge.u32 %p1, %r1, 20; setp.ge.u32 %p2, %r1, 16;
      ld.param.u64 %d, [p]; {before}
      {"@%p2 bra END;" if "0xffff" in shuffle and "0xfffff" not in shuffle else ""}
      shfl.sync.{shuffle};
    END: st.global.u32 [%d], 7; ret;
    }}"""
    args = [np.zeros(1, np.uint32)]
    report = module(text).launch("k", block=32, args=args, compiled=compiled)
    assert [(f.rule, f.count) for f in report.findings] == [("shuffle-source", threads)] * (threads > 0)
    if threads:
        lane = 16 if " 4," in shuffle else 4 if "bfly" in shuffle else 0
        assert report.findings[0].thread.tid == (lane, 0, 0)


def test_votes_and_reductions_leave_out_lanes_that_have_exited():
    """PTX defines them over the lanes that are left."""
    text = """
    .visible .entry k(.param .u64 p) {
      .reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %d;
      mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 20; ld.param.u64 %d, [p]; @%p1 ret;
      bar.warp.sync -1; vote.sync.ballot.b32 %r2, %p1, -1; match.any.sync.b32 %r3, %r1, -1;
      redux.sync.add.u32 %r4, 1, -1; elect.sync %r5|%p2, -1; @%p2 st.global.u32 [%d], %r4; ret;
    }"""
    out = np.zeros(1, np.uint32)
    assert module(text, "sm_90a").launch("k", block=32, args=[out]).findings == ()
    assert out[0] == 20
