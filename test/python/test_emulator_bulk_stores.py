"""`st.bulk`, which fills shared memory with zeros."""

import numpy as np
import pytest
from emulator_ptx import module

from weft import emulator

KERNEL = """
.visible .entry k(.param .u64 p, .param .u64 p_bytes)
{{
  .shared .align 16 .b8 memory[1024];
  .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %l<8>;
  ld.param.u64 %l1, [p]; ld.param.u64 %l2, [p_bytes];
  mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, memory; add.u32 %r3, %r3, %r2;
  cvt.u64.u32 %l3, %r2; add.u64 %l1, %l1, %l3; cvt.u32.u64 %r6, %l2;
  setp.eq.u32 %p1, %r1, 0; setp.lt.u32 %p2, %r1, 4;
  {fill}
  st.shared.b32 [%r3], 0xffffffff;
  bar.sync 0;
  mov.u32 %r4, memory; cvt.u64.u32 %l4, %r4; cvta.shared.u64 %l4, %l4;
  {body}
  bar.sync 0;
  ld.shared.b32 %r5, [%r3];
  st.global.b32 [%l1], %r5;
  ret;
}}"""
OWN = "shl.b32 %r7, %r1, 6; add.u32 %r7, %r7, %r4;"


def launch(body, count=0, fill="", **options):
    """The 256 words that each of 256 threads filled with ones, after `body`."""
    out = np.zeros(256, np.uint32)
    report = module(KERNEL.format(body=body, fill=fill), "sm_100a").launch(
        "k", block=256, args=[out, count], **options
    )
    return out, report


@pytest.mark.parametrize(
    ("body", "count", "zeros"),
    [
        ("@%p1 st.bulk.weak.shared::cta [%r4], %l2, 0;", 1024, range(1024)),
        ("@%p1 st.bulk.weak.shared::cta [%r4+8], %l2, 0;", 24, range(8, 32)),
        ("@%p1 st.bulk.shared::cta [%r4+16], 40, 0;", 0, range(16, 56)),
        ("@%p1 st.bulk [%l4], %r6, 0;", 8, range(8)),
        ("@%p1 st.bulk.weak [%l4+992], %l2, 0;", 32, range(992, 1024)),
        ("@%p1 st.bulk.weak.shared::cta [%r4], %l2, 0;", 0, range(0)),
        (f"{OWN} @%p2 st.bulk.weak.shared::cta [%r7], 32, 0;", 0, [n for n in range(256) if n % 64 < 32]),
    ],
)
@pytest.mark.parametrize("compiled", [False, True])
def test_bytes_become_zero(body, count, zeros, compiled):
    out, report = launch(body, count, compiled=compiled)
    want = np.full(1024, 255, np.uint8)
    want[list(zeros)] = 0
    np.testing.assert_array_equal(out, want.view(np.uint32))
    assert not report.findings and report.counters["st.bulk"] == 8


def test_filled_memory_is_initialized_and_may_race():
    store = "mov.u32 %r4, memory; @%p1 st.bulk.weak.shared::cta [%r4], 1024, 0;"
    fill = f"{store} bar.sync 0; ld.shared.b32 %r5, [%r3];"
    assert not launch("", fill=fill)[1].findings
    _, report = launch("", fill=fill.replace("bar.sync 0; ", ""))
    assert {finding.rule for finding in report.findings} == {"shared-race"}
    _, report = launch("@%p1 st.bulk.weak.shared::cta [%r4], 1024, 0; st.shared.b32 [%r3], 1;")
    assert {finding.rule for finding in report.findings} == {"shared-race"}


@pytest.mark.parametrize(
    ("body", "count", "rule", "message"),
    [
        (
            "st.bulk [%l4], %l2, 0;",
            12,
            "misaligned",
            r"a multiple of 8 in 0\.\.16777216, got 12; the nearest is 16",
        ),
        ("st.bulk [%l4], %l2, 0;", 1 << 25, "misaligned", "got 33554432; the nearest is 16777216"),
        ("st.bulk [%l4], %l2, 0;", 1032, "out-of-bounds", "the block has 1024 bytes"),
        ("st.bulk [%l4+4], %l2, 0;", 8, "misaligned", "misaligned generic access of 8 bytes"),
        ("st.bulk [%l1], %l2, 0;", 8, "out-of-bounds", "out-of-bounds shared access"),
    ],
)
def test_illegal_sizes_and_addresses_are_faults(body, count, rule, message):
    with pytest.raises(emulator.Fault, match=message) as error:
        launch(f"@%p1 {body}", count)
    assert error.value.rule == rule


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("st.bulk.weak.shared::cta [%r4], 12, 0;", "a multiple of 8"),
        ("st.bulk.weak.shared::cta [%r4], 16777224, 0;", "got 16777224; the nearest is 16777216"),
        ("st.bulk.weak.shared::cta [%r4], %l2, 1;", "the value must be the constant 0"),
        ("st.bulk.weak.shared::cta [%r4], %l2, %l3;", "the value must be the constant 0"),
        ("st.bulk.weak.shared::cta [%r4], %l2;", "expects 3 operands, got 2"),
        ("st.bulk.weak.shared::cta %r4, %l2, 0;", "expects an address"),
        ("st.bulk.weak.shared::cta [%r4], %p1, 0;", "expects 64 bits"),
        ("st.bulk.weak.shared::cluster [%r4], %l2, 0;", "unsupported modifier"),
        ("st.bulk.relaxed.shared::cta [%r4], %l2, 0;", "unsupported modifier"),
    ],
)
def test_illegal_instructions_are_rejected(text, message):
    with pytest.raises(emulator.PtxError, match=message):
        launch(text)
