"""Kernels of a few lines for the sanitizer, and how faults in them are found."""

import numpy as np
from emulator_ptx import HEAD

from weft import emulator
from weft.emulator.sanitizer import RULES

SHARED = ".shared .align 128 .b8 s[8192];"
REGISTERS = ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .b64 %d<16>; .reg .f32 %f<32>;"


def kernel(lines, target="sm_90a", declare=SHARED):
    body = [".visible .entry k(.param .u64 x)", "{", declare, REGISTERS, "ld.param.u64 %d0, [x];"]
    body += ["mov.u32 %r0, %tid.x;", "shl.b32 %r1, %r0, 2;", "mov.u32 %r2, s;", *lines, "ret;", "}"]
    return HEAD.format(target=target) + "\n".join(body)


def line_of(text, what):
    """The line, from 1, of the last line that begins with `what`."""
    return max(i for i, row in enumerate(text.splitlines(), 1) if row.startswith(what))


def run(text, block=128, grid=1, **more):
    x = np.arange(4096, dtype=np.uint32)
    return emulator.Module(text).launch("k", grid=grid, block=block, args=[x], **more)


def check(lines, fault, rule, at, block=128, target="sm_90a", **more):
    """The kernel of these lines is clean, and with the lines that `fault` makes of them has one finding."""
    assert run(kernel(lines, target), block, **more).findings == ()
    planted = kernel(fault(list(lines)), target)
    findings = run(planted, block, **more).findings
    assert [(f.rule, f.line) for f in findings] == [(rule, line_of(planted, at))]
    assert rule in RULES
    return findings[0]


def without(*starts):
    return lambda lines: [line for line in lines if not line.startswith(starts)]


PRODUCT = [
    "shl.b32 %r3, %r0, 4;",
    "add.u32 %r4, %r2, %r3;",
    "st.shared.v4.u32 [%r4], {%r0, %r0, %r0, %r0};",
    "st.shared.v4.u32 [%r4+2048], {%r0, %r0, %r0, %r0};",
    "fence.proxy.async.shared::cta;",
    "bar.sync 0;",
    "cvt.u64.u32 %d1, %r2;",
    "shr.u64 %d1, %d1, 4;",
    "or.b64 %d2, %d1, 0x1000080000;",
    "mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;",
    "setp.ne.u32 %p0, %r2, 0x7fffffff;",
    "wgmma.fence.sync.aligned;",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d2, %d2, %p0, 1, 1, 0, 0;",
    "wgmma.commit_group.sync.aligned;",
    "wgmma.wait_group.sync.aligned 0;",
    "bar.sync 0;",
    "st.shared.f32 [%r4], %f0;",
]
"""A product of 64x8x16 by wgmma, with A and B in shared memory without a swizzle."""
