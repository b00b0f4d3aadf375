"""The sanitizer's analysis of registers that an asynchronous instruction may still read."""

import pytest
from emulator_ptx import module

from weft.emulator.sanitizer.dataflow import ignored_waits

HEAD = """.visible .entry k() { .shared .align 8 .b64 s; .reg .pred %p<4>; .reg .b32 %r<4>;
mov.u32 %r1, %tid.x; setp.eq.u32 %p2, %r1, 0; setp.eq.u32 %p3, %r1, 1;
mbarrier.test_wait.parity.shared.b64 %p1, [s], 0;
"""


@pytest.mark.parametrize(
    ("after", "ignored"),
    [
        ("", True),
        ("mov.u32 %r2, 1;", True),
        ("@%p2 mov.u32 %r2, 1;", True),
        ("setp.eq.u32 %p1, %r1, 2; selp.u32 %r2, 1, 0, %p1;", True),
        ("@%p2 setp.eq.u32 %p1, %r1, 2; selp.u32 %r2, 1, 0, %p1;", False),
        ("selp.u32 %r2, 1, 0, %p1;", False),
        ("@%p1 mov.u32 %r2, 1;", False),
        ("@!%p1 bra END;", False),
        ("@%p2 bra END; bra END;", True),
        ("@%p2 bra END; @%p3 bra END; selp.u32 %r2, 1, 0, %p1;", False),
        ("L: add.u32 %r2, %r2, 1; @%p2 bra L; mov.u32 %r3, 1;", True),
        ("bra N; M: @%p1 bra END; N: @%p2 bra M;", False),
    ],
)
def test_a_wait_is_ignored_when_no_path_reads_its_result(after, ignored):
    made = module(HEAD + f"{after}\nEND: ret; }}", "sm_90a")
    assert bool(ignored_waits(made._program("k", "sm_90a"))) == ignored


LANES = """.visible .entry k() {{
.shared .align 128 .b8 s[512]; .reg .pred %p<4>; .reg .b32 %r<16>; .reg .f32 %f<4>;
mov.u32 %r1, %laneid; mov.u32 %r2, s; mad.lo.u32 %r3, %r1, 16, %r2; and.b32 %r4, %r1, 3;
st.shared.v4.u32 [%r3], {{%r1, %r1, %r1, %r1}}; bar.warp.sync -1; mov.b32 %r6, 0; mov.b32 %f1, 0;
setp.le.u32 %p0, {}; @%p0 mov.u32 %r9, %r3; @!%p0 bra L; add.u32 %r5, %r9, 0;
L: {}
st.shared.u32 [%r3], %r6; ret; }}"""
SPARSE = """mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%f0, %f2, %f3, %f0},
{%r6, %r6, %r6, %r6}, {%r6, %r6, %r6, %r6}, {%f1, %f1, %f1, %f1}, %r5, 0;"""


LDMATRIX = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r6}, [%r5];"
STMATRIX = "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r5], {%r6};"
SLCT = "selp.b32 %r7, 1, -1, %p0; slct.u32.s32 %r6, %r5, 0, %r7;"


@pytest.mark.parametrize(
    ("condition", "use", "old", "new"),
    [
        ("%r1, 0", "shfl.sync.idx.b32 %r6, %r5, 0, 31, -1;", "%r5, 0", "%r5, 1"),
        ("%r1, 0", "shfl.sync.up.b32 %r6|%p1, %r5, %r1, 0, -1;", "%r5, %r1", "%r5, 1"),
        ("%r1, 15", "and.b32 %r7, %r1, 16; shfl.sync.bfly.b32 %r6, %r5, %r7, 31, -1;", "%r7, 31", "8, 31"),
        ("%r1, 7", LDMATRIX, "x1.shared.b16 {%r6}", "x2.shared.b16 {%r6, %r7}"),
        ("%r1, 7", STMATRIX, "x1.shared.b16 [%r5], {", "x2.shared.b16 [%r5], {%r6, "),
        ("%r4, 1", SPARSE, "%r5, 0", "%r5, 1"),
        ("%r1, 7", SLCT, "slct.u32.s32 %r6, %r5, 0", "mad.lo.u32 %r6, %r5, 0"),
    ],
)
def test_only_lanes_whose_register_is_read_must_have_written_it(condition, use, old, new):
    """`new` instead of `old` reads a register of a lane that has not written it."""
    for body, rules in ((use, []), (use.replace(old, new), ["uninitialized-register"])):
        findings = module(LANES.format(condition, body), "sm_90a").launch("k", block=32).findings
        assert [found.rule for found in findings] == rules, body
