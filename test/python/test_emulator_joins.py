"""Barriers of many CTAs at once join the same clocks as barriers of one CTA after the other."""

import random

import pytest
from emulator_ptx import module

from weft.emulator.sanitizer.checker import Sanitizer
from weft.emulator.sanitizer.clocks import VectorClocks
from weft.emulator.watch import Watch

BLOCK = 160
"""Five warps: the first may be alone, the others come in pairs to barriers 1 and 2."""


def kernel(seed):
    """Fences and stores of random warps between barriers; some warps leave before the end."""
    rng, lines = random.Random(seed), []
    for _ in range(rng.randint(4, 10)):
        kind = rng.choice(("fence", "store", "load", "all", "pairs", "pairs", "exit"))
        warp = rng.randrange(5)
        if kind == "all":
            lines.append("bar.sync 0;")
            continue
        if kind == "pairs":
            lines += ["@%q bra SKIP;", "bar.sync %n, 64;", "SKIP:"]
            lines[-3:] = [line.replace("SKIP", f"SKIP{len(lines)}") for line in lines[-3:]]
            continue
        if kind == "exit":
            lines.append(f"setp.eq.u32 %p, %w, {rng.choice((0, 9))}; @%p ret;")
            continue
        cell = 4 * rng.randrange(4)
        does = {
            "fence": rng.choice(("fence.acq_rel.gpu;", "fence.acq_rel.cta;", "fence.proxy.async;")),
            "store": f"st.shared.u32 [m+{cell}], %w;",
            "load": f"ld.shared.u32 %x, [m+{cell}];",
        }[kind]
        lines.append(f"setp.eq.u32 %p, %w, {warp}; @%p {does}")
    return f"""
    .shared .align 4 .b8 m[16];
    .visible .entry k() {{
    .reg .b32 %t, %w, %n, %x; .reg .pred %p, %q;
    mov.u32 %t, %tid.x; shr.u32 %w, %t, 5; setp.eq.u32 %q, %w, 0;
    add.u32 %n, %w, 1; shr.u32 %n, %n, 1;
    {chr(10).join(lines)}
    ret; }}"""


def outcome(text, monkeypatch, barriers):
    left = []
    monkeypatch.setattr(Sanitizer, "barriers", barriers)
    monkeypatch.setattr(Sanitizer, "done", lambda self: left.append((self.clocks.all, self.orders._released)))
    report = module(text, "sm_90").launch("k", grid=3, block=BLOCK, strict=True)
    (clocks, released), found = left[0], [(f.rule, f.message, f.line, f.count) for f in report.findings]
    orders = {to: {row: clock.tolist() for row, clock in known.items()} for to, known in released.items()}
    return clocks.tolist(), orders, found


@pytest.fixture
def joined(monkeypatch):
    """The sizes of the sets that were joined at once."""
    sizes, join = [], VectorClocks.join_each
    monkeypatch.setattr(
        VectorClocks, "join_each", lambda self, sets: sizes.append(sets.shape) or join(self, sets)
    )
    return sizes


def test_barriers_of_many_ctas(monkeypatch, joined):
    found, plain = 0, Sanitizer.barriers
    for seed in range(14):
        text = kernel(seed)
        expected = outcome(text, monkeypatch, Watch.barriers)
        assert outcome(text, monkeypatch, plain) == expected
        found += bool(expected[2])
    assert {(3, 5), (3, 4), (3, 2)} <= {*joined}
    assert 3 <= found < 14


def test_ctas_with_different_numbers_of_warps(monkeypatch, joined):
    """They have 5, 4 and 3 warps, and are joined one by one."""
    text = kernel(0)
    text = text[: text.index("setp.eq.u32 %q")] + "mov.u32 %n, %ctaid.x; setp.lt.u32 %q, %w, %n; @%q ret;"
    text += " bar.sync 0; ret; }"
    plain = Sanitizer.barriers
    expected = outcome(text, monkeypatch, Watch.barriers)
    assert outcome(text, monkeypatch, plain) == expected
    assert not joined


def test_counts_of_one_barrier_differ_between_ctas(monkeypatch, joined):
    """In the first CTA two warps meet at a time, in the others four."""
    text = kernel(0)
    text = text[: text.index("add.u32 %n")] + "mov.u32 %n, %ctaid.x; min.u32 %n, %n, 1; shl.b32 %n, %n, 6;"
    text += " add.u32 %n, %n, 64; mov.u32 %x, 1; @%q ret; bar.sync %x, %n; ret; }"
    assert not outcome(text, monkeypatch, Sanitizer.barriers)[2]
    assert (2, 4) in joined
