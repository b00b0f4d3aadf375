"""Compiled accesses leave the sanitizer's shadows as the interpreter does, for random addresses."""

import numpy as np
import pytest
from emulator_ptx import module

from weft.emulator.sanitizer import checker, global_races

HEAD = """.visible .entry k(.param .u64 p_data) {
  .reg .b32 %r<16>; .reg .b64 %rd<8>; .reg .pred %p<4>; .reg .b32 %v<4>;
  .shared .align 16 .b8 s[8192];
  ld.param.u64 %rd1, [p_data];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r2, %r2, %r3, %r1;
  mov.u32 %r4, s; mov.u32 %v0, %r2; mov.u32 %v1, 1; mov.u32 %v2, %r1; mov.u32 %v3, 2; mov.u32 %r6, 0;
"""
BYTES = 8192
ITEMS = {1: "u8 {0}", 4: "u32 {0}", 8: "v2.u32 {{{0}, {1}}}", 16: "v4.u32 {{{0}, {1}, {2}, {3}}}"}
VALUES = [f"%v{i}" for i in range(4)]


def access(rng, space):
    """An access to shared or global memory, with an index of one pattern of many."""
    width = int(rng.choice([1, 4, 4, 4, 8, 16]))
    thread = "%r1" if space == "shared" or rng.random() < 0.5 else "%r2"
    times, plus = int(rng.choice([0, 1, 1, 1, 2, 3])), int(rng.integers(0, 8))
    flip, keep = int(rng.choice([0, 0, 0, 1, 5, 33])), int(rng.choice([0xFFFF, 0xFFFF, 0xFFF8, 0x1F, 3]))
    lines = [
        f"mad.lo.u32 %r7, {thread}, {times}, {plus}; xor.b32 %r7, %r7, {flip}; and.b32 %r7, %r7, {keep};"
    ]
    lines.append(f"rem.u32 %r7, %r7, {BYTES // width}; mul.lo.u32 %r7, %r7, {width};")
    if space == "shared":
        lines.append("add.u32 %r8, %r4, %r7;")
        place = "[%r8]"
    else:
        lines.append("cvt.u64.u32 %rd2, %r7; add.u64 %rd3, %rd1, %rd2;")
        place = "[%rd3]"
    guard = ""
    if rng.random() < 0.3:
        lines.append(f"and.b32 %r9, %r1, {int(rng.choice([1, 3, 32]))}; setp.eq.u32 %p2, %r9, 0;")
        guard = "@%p2 "
    kind, _, items = ITEMS[width].partition(" ")
    if space == "global" and rng.random() < 0.3:
        return [*lines, *masked_load(rng, kind, items)]
    items = items.format(*VALUES)
    if rng.random() < 0.5:
        return [*lines, f"{guard}ld.{space}.{kind} {items}, {place};"]
    return [*lines, f"{guard}st.{space}.{kind} {place}, {items};"]


def masked_load(rng, kind, items):
    """A load from the beginning of the data for some lanes, which discard what they load."""
    mask = f"and.b32 %r9, %r1, {int(rng.choice([1, 7, 32]))}; setp.eq.u32 %q, %r9, 0;"
    address = "selp.b64 %rd3, %rd3, %rd1, %q;" if rng.random() < 0.5 else ""
    loaded = [f"%m{i}" for i in range(4)]
    order = "{0}, {1}" if rng.random() < 0.8 else "{1}, {0}"
    selects = [
        f"selp.b32 {value}, {order.format(one, value)}, %q;"
        for value, one in zip(VALUES, loaded, strict=True)
        if f"{{{VALUES.index(value)}}}" in items
    ]
    return [
        f"{{ .reg .pred %q; .reg .b32 %m<4>; {mask} {address}",
        f"ld.global.{kind} {items.format(*loaded)}, [%rd3];",
        " ".join([*selects, "}"]),
    ]


def kernel(seed):
    rng = np.random.default_rng(seed)
    lines = []
    for at in range(7):
        made = access(rng, str(rng.choice(["shared", "global"])))
        if rng.random() < 0.25:
            warp = f"shr.u32 %r10, %r1, 5; setp.ne.u32 %p3, %r10, {int(rng.integers(3))};"
            made = [f"{warp} @%p3 bra SKIP{at};", *made, f"SKIP{at}:"]
        lines += made
        if rng.random() < 0.5:
            lines.append("bar.sync 0;")
    loop = "add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 3; @%p1 bra L;"
    return "\n".join([HEAD, "L:", *lines, loop, "ret; }"])


def shadows(text, compiled, monkeypatch, grid=3):
    """All that a launch leaves: its report, its data, and the shadows of its waves."""
    waves = []
    init = checker.Sanitizer.__init__
    with monkeypatch.context() as patched:
        patched.setattr(
            checker.Sanitizer, "__init__", lambda self, *args: (init(self, *args), waves.append(self))[0]
        )
        data = np.zeros(BYTES, np.uint8)
        report = module(text).launch("k", grid=grid, block=96, args=[data], compiled=compiled, threads=1)
    found = [report, data]
    for wave in waves:
        shared = wave.races.shadow
        found += [shared.writer, shared.written, shared.write_line, shared.read_line, shared.reads]
        found.append(shared.read_by)
        for _, buffer in sorted(wave.globals.memory.shadows.items()):
            if buffer.is_written or buffer.time.any():
                found += [buffer.owner, buffer.time, buffer.line, buffer.level, np.array(buffer.is_written)]
    return found


@pytest.mark.each_value(3)
@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(96))
def test_shadows(seed, monkeypatch):
    text = kernel(seed)
    plain, fast = (shadows(text, compiled, monkeypatch) for compiled in (False, True))
    assert plain[0] == fast[0]
    assert len(plain) == len(fast)
    for one, other in zip(plain[1:], fast[1:], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_store_is_noted_for_later_waves(compiled, monkeypatch):
    """Each CTA loads what the one before has stored. Only a shadow that is written is compared."""
    place = "shl.b32 %r7, %r2, 4; cvt.u64.u32 %rd2, %r7; add.u64 %rd3, %rd1, %rd2;"
    load, store = "ld.global.v4.u32 {%v0, %v1, %v2, %v3},", "st.global.v4.u32 [%rd3], {%v0, %v1, %v2, %v3};"
    skip = "setp.lt.u32 %p1, %r2, 96; @%p1 ret;"
    body = f"{place} {load} [%rd3]; {store} {skip} {load} [%rd3+-1536]; ret; }}"
    report, *_, written = shadows(HEAD + body, compiled, monkeypatch)
    assert written
    assert [finding.rule for finding in report.findings] == ["global-race"]


LOAD, STORE = "ld.global.u32 %v2, {};", "st.global.u32 {}, %v0;"


@pytest.mark.parametrize("between", ["", "bar.sync 0;"])
@pytest.mark.parametrize("second", [LOAD, STORE])
@pytest.mark.parametrize("first", [LOAD, STORE])
def test_accesses_to_the_elements_of_another_warp(first, second, between, monkeypatch):
    """Each warp accesses its own 32 elements, and then those of the next one."""
    elements = (
        "mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2; add.u32 %r7, %r1, 32; rem.u32 %r7, %r7, 96;"
    )
    others = "mul.wide.u32 %rd4, %r7, 4; add.u64 %rd5, %rd1, %rd4;"
    before = f"{STORE} bar.sync 0; {LOAD} bar.sync 0;".replace("{}", "[%rd3+1024]")  # in the same buffer
    own = f"{before} {first.format('[%rd3]')}"
    text = f"{HEAD} {elements} {others} {own} {between} {second.format('[%rd5]')} ret; }}"
    plain, fast = (shadows(text, compiled, monkeypatch, grid=1) for compiled in (False, True))
    rules = [finding.rule for finding in fast[0].findings]
    assert rules == ([] if between or first == second == LOAD else ["global-race"])
    assert rules == [finding.rule for finding in plain[0].findings]
    for one, other in zip(plain[1:], fast[1:], strict=True):
        np.testing.assert_array_equal(one, other)


def test_code_makes_the_first_store_of_many_warps(monkeypatch):
    made, access = [], global_races.GlobalRaces.access
    monkeypatch.setattr(
        global_races.GlobalRaces, "access", lambda self, *each: made.append(each) or access(self, *each)
    )
    body = (
        "mul.wide.u32 %rd2, %r2, 16; add.u64 %rd3, %rd1, %rd2; st.global.v4.u32 [%rd3], {%v0, %v1, %v2, %v3};"
    )
    assert not shadows(f"{HEAD} {body} ret; }}", True, monkeypatch)[0].findings
    assert not made


def test_patterns_have_findings_and_none():
    """The random kernels break rules, and most of their accesses don't."""
    reports = [
        module(kernel(seed)).launch("k", grid=3, block=96, args=[np.zeros(BYTES, np.uint8)], compiled=False)
        for seed in range(6)
    ]
    rules = {finding.rule for report in reports for finding in report.findings}
    assert {"shared-race", "global-race", "uninitialized-shared"} <= rules
