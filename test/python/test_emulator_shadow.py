"""Findings do not depend on the size of granules, which stay coarse for accesses to the ends of CTAs."""

import random
import resource

import numpy as np
import pytest
from emulator_ptx import module

from weft.emulator.memory import untouched
from weft.emulator.sanitizer import races, shadow

TAIL = 4
SIZE = 32 + TAIL
SHADOWS = []


class Recorded(shadow.Shadow):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        SHADOWS.append(self)


def accesses(rng, most):
    """Random accesses of two warps, most of them to the last bytes, and barriers between some."""
    lines, widths = [], rng.choice(((TAIL, TAIL, 16), (TAIL, 1, 1)))
    for _ in range(rng.randint(2, most)):
        width = rng.choice(widths)
        offset = width * rng.randrange(32 // width)
        if width < 16 and rng.random() < 0.8:
            offset = SIZE - (TAIL if width == TAIL else rng.randint(1, TAIL))
        vector, values, found = ".v4.b32", "{%x, %x, %x, %x}", "{%z, %z1, %z2, %z3}"
        if width < 16:
            vector, values, found = f".b{8 * width}", "%x", "%z"
        load, store = (
            f"ld.shared{vector} {found}, [m+{offset}];",
            f"st.shared{vector} [m+{offset}], {values};",
        )
        lines.append(f"@{rng.choice(('', '!'))}%p {rng.choice((load, store))}")
        if rng.random() < 0.3:
            lines.append("bar.sync 0;")
    return "\n".join(lines)


def findings(text, monkeypatch, most):
    monkeypatch.setattr(shadow, "_MOST_ENDS", most)
    monkeypatch.setattr(races, "Shadow", Recorded)
    report = module(text).launch("k", grid=2, block=64)
    return [(f.rule, f.message, f.line, f.thread, f.address, f.count) for f in report.findings]


def kernel(body):
    return f"""
    .shared .align 16 .b8 m[{SIZE}];
    .visible .entry k() {{
    .reg .b32 %w, %x, %z, %z1, %z2, %z3; .reg .pred %p;
    mov.u32 %w, %tid.x; setp.lt.u32 %p, %w, 32; mov.b32 %x, %w;
    {body}
    ret; }}"""


def test_findings_do_not_depend_on_granules(monkeypatch):
    coarse = found = 0
    for seed in range(40):
        text = kernel(accesses(random.Random(seed), 8))
        SHADOWS.clear()
        expected = findings(text, monkeypatch, 0)
        assert findings(text, monkeypatch, 32) == expected
        before, after = (each.granule for each in SHADOWS)
        assert after >= before
        coarse += after > before
        found += bool(after > before and expected)
    assert coarse >= 5
    assert found >= 3


@pytest.mark.parametrize(("times", "granule"), [(1, 16), (20, 16), (40, TAIL)])
def test_frequent_accesses_divide_granules(times, granule, monkeypatch):
    """Code of the host must get those of kernels that always use these bytes."""
    SHADOWS.clear()
    assert not findings(
        kernel(f"@%p st.shared.b32 [m+{SIZE - TAIL}], 0;\n" + times * "bar.sync 0;\n"), monkeypatch, 32
    )
    (seen,) = SHADOWS
    offsets = np.array([SIZE - TAIL])
    for _ in range(times - 1):
        seen.elements(offsets, TAIL)
    assert seen.granule == granule


@pytest.mark.each_value(1)
@pytest.mark.parametrize(("far", "first"), [(1 << 30, 0), (1 << 30, 8), (1 << 34, 0), (1 << 34, 8)])
def test_rows_with_gigabytes_between_them_take_memory_where_they_are_touched(far, first):
    rows = untouched.zeros((4, far), np.uint8)[:, first : first + 512]
    text = module("""
      .visible .entry k(.param .u64 p, .param .u64 far) {
      .reg .b64 %p, %far, %at; .reg .b32 %row, %t;
      ld.param.u64 %p, [p]; ld.param.u64 %far, [far];
      mov.u32 %row, %ctaid.x; add.u32 %row, %row, 1; and.b32 %row, %row, 3;
      cvt.u64.u32 %at, %row; mad.lo.u64 %p, %at, %far, %p;
      mov.u32 %t, %tid.x; mad.wide.u32 %at, %t, 8, %p; st.global.u64 [%at], 1;
      bar.sync 0; cvt.u64.u32 %at, %t; add.u64 %at, %p, %at; st.global.u8 [%at], %t;
      ret; }""")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert not text.launch("k", grid=4, block=64, args=[rows, np.uint64(far)]).findings
    assert (rows[:, :64] == np.arange(64)).all() and (rows[:, 64:512:8] == 1).all()
    report = text.launch("k", grid=6, block=64, args=[rows, np.uint64(far)])
    assert {finding.rule for finding in report.findings} == {"global-race"}
    assert {(finding.address - (1 << 33)) // far for finding in report.findings} == {1}  # of block 4
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + (1 << 19)  # KiB


@pytest.mark.parametrize("apart", [1, 3, 1 << 36])
def test_granules_cover_exactly_the_bytes_of_an_access(apart):
    draw = np.random.default_rng(apart)
    for size in (5, 16, 100, 1000):
        offsets = draw.choice(2000, size, replace=False) * apart // 8 * 8 + draw.integers(0, 8, size)
        granules = Sized(int(offsets.max()) + 1)
        index = granules.covered(offsets)
        covered = (index[:, None] * granules.granule + np.arange(granules.granule)).reshape(-1)
        assert set(covered.tolist()) == set(offsets.tolist()) and (np.diff(index) > 0).all()


class Sized(shadow.Granules):
    def repeat(self, times):
        """Without entries."""
