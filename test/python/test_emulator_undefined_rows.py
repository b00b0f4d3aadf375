"""Rows of a product's tiles that nothing has written are reported where their results matter."""

import numpy as np
import pytest
from emulator_ptx import module

PRODUCT = """.visible .entry k(.param .u64 x) {{
.shared .align 128 .b8 s[4096]; .reg .pred %p<4>; .reg .b32 %r<32>; .reg .f32 %f<32>; .reg .b64 %d<4>;
ld.param.u64 %d0, [x]; mov.u32 %r0, %tid.x; mov.u32 %r1, s; mul.wide.u32 %d1, %r0, 8; add.u64 %d0, %d0, %d1;
mad.lo.u32 %r2, %r0, 32, %r1; setp.lt.u32 %p0, %r0, {rows}; setp.lt.u32 %p1, %r0, {columns};
mov.u32 %r20, 0x3c003c00; and.b32 %r21, %r0, 3; setp.lt.u32 %p2, %r21, 2; mad.lo.u32 %r22, %r0, 8, %r1;
@%p0 st.shared.v4.u32 [%r2], {{%r20, %r20, %r20, %r20}};
@%p0 st.shared.v4.u32 [%r2+16], {{%r20, %r20, %r20, %r20}};
@%p1 st.shared.v4.u32 [%r2+1024], {{%r20, %r20, %r20, %r20}};
@%p1 st.shared.v4.u32 [%r2+1040], {{%r20, %r20, %r20, %r20}};
bar.warp.sync -1;
and.b32 %r3, %r0, 15; mad.lo.u32 %r3, %r3, 32, %r1; shr.u32 %r4, %r0, 4; mad.lo.u32 %r3, %r4, 16, %r3;
and.b32 %r5, %r0, 7; mad.lo.u32 %r5, %r5, 32, %r1; shr.u32 %r4, %r0, 3; and.b32 %r4, %r4, 1;
mad.lo.u32 %r5, %r4, 16, %r5; mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r10, %r11, %r12, %r13}}, [%r3];
ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{%r14, %r15}}, [%r5+1024];
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f0, %f1, %f2, %f3}}, {{%r10, %r11, %r12, %r13}},
{{%r14, %r15}}, {{%f0, %f1, %f2, %f3}};
{use}
ret; }}"""
"""A product of 16x8x16, whose lanes have two elements of rows 0 to 7, and two of rows 8 to 15."""
FIRST, SECOND = "st.global.v2.f32 [%d0], {%f0, %f1};", "st.global.v2.f32 [%d0], {%f2, %f3};"
AGAIN = """mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r20, %r20, %r20, %r20},
{%r20, %r20}, {%f0, %f1, %f2, %f3};"""
STAGED = """mul.f32 %f2, %f2, 0f40000000; st.shared.v2.f32 [%r22+2048], {%f0, %f2}; bar.warp.sync -1;
ld.shared.v2.f32 {%f4, %f5}, [%r22+2048]; """
STMATRIX = """cvt.rn.f16x2.f32 %r6, %f1, %f0; cvt.rn.f16x2.f32 %r7, %f3, %f2; mad.lo.u32 %r8, %r0, 16, %r1;
stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r8+2048], {{%r6, %r7}}; bar.warp.sync -1;
setp.lt.u32 %p3, %r0, {}; @%p3 ld.shared.u32 %r9, [%r8+2048]; @%p3 st.global.u32 [%d0], %r9;"""


def found(use, rows=8, columns=8, **options):
    text = module(PRODUCT.format(rows=rows, columns=columns, use=use), "sm_90a")
    out = np.zeros(128, np.float32)
    report = text.launch("k", block=32, args=[out], **options)
    return [(f.rule, text.text.splitlines()[f.line - 1].split(" ")[0]) for f in report.findings], out


@pytest.mark.parametrize(
    ("use", "fine"),
    [
        ("", True),
        (FIRST, True),
        (SECOND, False),
        ("st.global.v2.f32 [%d0], {%f0, %f2};", False),
        (AGAIN + FIRST, True),
        (AGAIN + SECOND, False),
        (f"mov.b32 %r20, 0; mov.b32 %f2, %r20; mov.b32 %f3, %r20; {SECOND}", True),
        (f"max.f32 %f0, %f0, %f2; {FIRST}", False),
        ("setp.lt.f32 %p3, %f0, %f1; @%p3 st.global.f32 [%d0], %f0;", True),
        ("setp.lt.f32 %p3, %f0, %f2; @%p3 st.global.f32 [%d0], %f0;", False),
        ("shfl.sync.bfly.b32 %f4, %f0, 1, 31, -1; st.global.f32 [%d0], %f4;", True),
        ("shfl.sync.bfly.b32 %f4, %f2, 1, 31, -1; st.global.f32 [%d0], %f4;", False),
        (STAGED + "st.global.f32 [%d0], %f4;", True),
        (STAGED + "st.global.f32 [%d0], %f5;", False),
        (
            STAGED
            + "st.shared.f32 [%r22+2052], %f0; ld.shared.f32 %f2, [%r22+2052]; st.global.f32 [%d0], %f2;",
            True,
        ),
        (STMATRIX.format(8), True),
        (STMATRIX.format(9), False),
    ],
)
def test_rows_that_nothing_has_written_may_be_multiplied_but_not_used(use, fine):
    rules, _ = found(use)
    assert rules == ([] if fine else [("uninitialized-shared", "ldmatrix.sync.aligned.m8n8.x4.shared.b16")])
    assert found(use, rows=16)[0] == []


@pytest.mark.parametrize("how", ["compiled", "interpreted", "traced", "seed"])
@pytest.mark.parametrize(("use", "fine"), [("@%p2 " + FIRST, True), (FIRST, False)])
def test_columns_that_nothing_has_written_are_those_of_b(use, fine, how, tmp_path):
    traced = {"trace": tmp_path / "trace.json"} if how == "traced" else {}
    seed = 1 if how == "seed" else None
    rules, out = found(use, rows=16, columns=4, compiled=how == "compiled", seed=seed, **traced)
    assert rules == ([] if fine else [("uninitialized-shared", "ldmatrix.sync.aligned.m8n8.x2.shared.b16")])
    assert (out.reshape(-1, 8)[:8, :4] == 16).all()


WGMMA = """.visible .entry k(.param .u64 x) {{
.shared .align 128 .b8 s[4096]; .reg .pred %p<4>; .reg .b32 %r<16>; .reg .f32 %f<8>; .reg .b64 %d<4>;
ld.param.u64 %d0, [x]; mov.u32 %r0, %tid.x; mov.u32 %r1, s; mul.wide.u32 %d1, %r0, 8; add.u64 %d0, %d0, %d1;
mad.lo.u32 %r2, %r0, 16, %r1; mov.u32 %r3, 0x3c003c00; and.b32 %r4, %r0, 16; and.b32 %r5, %r0, 3;
setp.lt.u32 %p0, %r4, {rows}; setp.lt.u32 %p2, %r5, 2; and.b32 %r6, %r0, 7; setp.lt.u32 %p1, %r6, {columns};
setp.lt.and.u32 %p1, %r0, 16, %p1; mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0;
mov.f32 %f3, %f0;
@%p0 st.shared.v4.u32 [%r2], {{%r3, %r3, %r3, %r3}}; @%p1 st.shared.v4.u32 [%r2+2048], {{%r3, %r3, %r3, %r3}};
fence.proxy.async.shared::cta; bar.sync 0; cvt.u64.u32 %d1, %r1; shr.u64 %d1, %d1, 4;
or.b64 %d2, %d1, 0x1000080000; add.u64 %d3, %d2, 128; setp.ne.u32 %p3, %r2, 0x7fffffff;
mov.b32 %r8, %r3; mov.b32 %r9, %r3; mov.b32 %r10, %r3; mov.b32 %r11, %r3; wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %d2, %d3, %p3, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
{use}
ret; }}"""
"""A product of 64x8x16, whose lanes have two elements of rows 0 to 7 of each 16, and two of rows 8 to 15."""
AGAIN_REGISTERS = """cvt.rn.f16x2.f32 %r8, %f1, %f0; cvt.rn.f16x2.f32 %r9, %f3, %f2; wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, {%r8, %r9, %r10, %r11},
%d3, 0, 1, 1, 0; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; """


@pytest.mark.parametrize(
    ("use", "rows", "columns", "fine"),
    [
        (FIRST, 8, 8, True),
        (SECOND, 8, 8, False),
        ("@%p2 " + FIRST, 32, 4, True),
        (FIRST, 32, 4, False),
        (AGAIN_REGISTERS + FIRST, 8, 8, True),
        (AGAIN_REGISTERS + SECOND, 8, 8, False),
        (FIRST + SECOND, 32, 8, True),
    ],
)
def test_wgmma_reads_rows_that_nothing_has_written(use, rows, columns, fine):
    text = module(WGMMA.format(rows=rows, columns=columns, use=use), "sm_90a")
    report = text.launch("k", block=128, args=[np.zeros(256, np.float32)])
    assert [f.rule for f in report.findings] == ([] if fine else ["uninitialized-shared"]), report.findings
    assert all(text.text.splitlines()[f.line - 1].startswith("wgmma.mma") for f in report.findings)
