"""Operations on mbarriers have the same results, findings and messages in code of the host as in Python."""

import random
import re

import numpy as np
import planted_faults
import pytest
from emulator_ptx import module

from weft import emulator
from weft.emulator.compiled import mbarriers
from weft.emulator.sanitizer.checker import Sanitizer

HEAD = """.visible .entry k(.param .u64 p_out) {
  .reg .pred %p<8>; .reg .b32 %r<40>; .reg .b64 %rd<40>;
  .shared .align 8 .b64 bars[4];
  ld.param.u64 %rd1, [p_out]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x;
  mad.lo.u32 %r3, %r1, %r2, %r0; mul.wide.u32 %rd3, %r3, 8; add.u64 %rd2, %rd1, %rd3;
  and.b32 %r5, %r0, 31; shr.u32 %r6, %r0, 5; mov.u64 %rd9, 0;
"""
COUNT, BLOCK, GRID = 256, 128, 2
WHO = [
    "",
    "",
    "",
    "setp.eq.u32 %p1, %r5, {lane};",
    "setp.lt.u32 %p1, %r5, {lane};",
    "setp.eq.u32 %p1, %r6, {warp};",
]
WHAT = (
    "mbarrier.arrive.shared.b64 %rd4, [bars+{at}];",
    "mbarrier.arrive.shared.b64 %rd4, [bars+{at}], {count};",
    "mbarrier.arrive.expect_tx.shared.b64 %rd4, [bars+{at}], {size};",
    "mbarrier.arrive.expect_tx.relaxed.cta.shared::cta.b64 %rd4, [bars+{at}], {size};",
    "mbarrier.arrive_drop.shared.b64 %rd4, [bars+{at}];",
    "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bars+{at}], {size};",
    "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bars+{at}], {size};",
    "mbarrier.test_wait.parity.shared.b64 %p2, [bars+{at}], {parity};",
    "mbarrier.test_wait.shared.b64 %p2, [bars+{at}], %rd4;",
    "mbarrier.arrive.shared.b64 %rd4, [%rd5];",
    "bar.sync 0;",
    "fence.proxy.async.shared::cta;",
    "st.global.u64 [%rd2], %rd4;",
    "mbarrier.inval.shared.b64 [bars+{at}];",
    "mbarrier.init.shared.b64 [bars+{at}], {count};",
)
OFTEN = (16, 4, 4, 2, 1, 1, 4, 6, 8, 4, 4, 2, 3, 0.3, 0.3)


def kernel(seed):
    """Random operations of random lanes on four mbarriers, which all threads know of unless a barrier is
    missing.
    """
    choice = random.Random(seed)
    lines = ["setp.eq.u32 %p7, %r0, 0; mov.u64 %rd6, bars; cvta.shared.u64 %rd7, %rd6;"]
    for at in range(4):
        count = choice.choice((4, 128, 128, 128, 256))
        lines.append(f"@%p7 mbarrier.init.shared.b64 [bars+{8 * at}], {count};")
    lines += ["fence.mbarrier_init.release.cluster;"] * (choice.random() < 0.5)
    lines += ["bar.sync 0;"] * (choice.random() < 0.7)
    lines.append("and.b32 %r7, %r6, 3; mad.wide.u32 %rd5, %r7, 8, %rd6;")
    lines.append("mov.u64 %rd4, 0; setp.eq.u32 %p2, %r0, %r0;")
    for _ in range(24):
        who = choice.choice(WHO).format(lane=choice.randrange(1, 32), warp=choice.randrange(4))
        what = choice.choices(WHAT, OFTEN)[0].format(
            at=choice.choice((0, 0, 8, 16)),
            count=choice.choice((1, 1, 2, 16)),
            size=choice.choice((0, 16, 16, 4096)),
            parity=choice.randrange(2),
        )
        whole = what.startswith(("bar.", "fence"))
        lines.append(what if whole or not who else f"{who}\n  @%p1 {what}")
        lines.append("selp.u64 %rd8, 1, 0, %p2; shl.b64 %rd9, %rd9, 1; xor.b64 %rd9, %rd9, %rd8;")
        lines.append("xor.b64 %rd9, %rd9, %rd4;")
    return HEAD + "\n  ".join([*lines, "st.global.u64 [%rd2], %rd9; ret; }"])


COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster"
MULTICAST = COMMIT + ".multicast::cluster.b64"
MASKS = """.shared .align 16 .b64 space[2]; .reg .b16 %h<8>; mov.b16 %h0, 0; mov.b16 %h1, 1; mov.b16 %h2, 2;
  mov.b16 %h3, 3; mov.b16 %h4, 4; cvt.u16.u32 %h5, %r1; add.u16 %h5, %h5, 1; cvt.u16.u32 %h6, %r5;
  add.u16 %h6, %h6, 1; mov.u32 %r10, %cluster_ctarank; xor.b32 %r10, %r10, 1;"""
COMMITTERS = (
    (6, "setp.eq.u32 %p1, %r0, {thread};"),
    (6, "setp.eq.u32 %p1, %r5, {lane};"),
    (4, "setp.eq.u32 %p1, %r3, {thread};"),
    (2, "setp.lt.u32 %p1, %r0, 2;"),
)
COMMITS = (
    (6, COMMIT + ".b64 [bars+{at}];"),
    (6, COMMIT + ".b64 [%rd5];"),
    (10, MULTICAST + " [bars+{at}], %h{mask};"),
    (4, MULTICAST + " [%rd5], %h3;"),
    (3, "mapa.shared::cluster.u64 %rd10, %rd6, %r10; @%p1 " + COMMIT + ".b64 [%rd10];"),
    (3, "mapa.shared::cluster.u64 %rd10, %rd6, %r10; @%p1 " + MULTICAST + " [%rd10], %h3;"),
    (3, "cp.async.ca.shared.global [space], [%rd1], 16;"),
    (2, "mbarrier.arrive.shared.b64 %rd4, [bars+{at}];"),
    (4, "mbarrier.test_wait.parity.shared.b64 %p2, [bars+{at}], {parity};"),
    (2, "tcgen05.fence::before_thread_sync;"),
    (3, "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;"),
)


def commits(seed):
    """Random commits of a few lanes in a cluster, with waits and copies. The inits are fenced most of the
    time.
    """
    choice = random.Random(seed)

    def chosen(of):
        return choice.choices([what for _, what in of], [often for often, _ in of])[0].format(
            at=choice.choice((0, 0, 8, 16)),
            lane=choice.randrange(32),
            mask=choice.choices(range(7), (0.3, 4, 4, 8, 0.3, 2, 4))[0],
            parity=choice.randrange(2),
            thread=choice.randrange(BLOCK),
        )

    counts = [choice.choice((7, 16, 40, 100)) for _ in range(4)]
    lines = []
    for _ in range(24):
        what = chosen(COMMITS)
        whole = what.startswith(("barrier", "tcgen05.fence"))
        lines.append(what if whole else f"{chosen(COMMITTERS)} @%p1 {what}")
        lines.append("selp.u64 %rd8, 1, 0, %p2; shl.b64 %rd9, %rd9, 1; xor.b64 %rd9, %rd9, %rd8;")
    return committing(lines, counts, fenced=choice.random() < 0.7)


def committing(lines, counts, *, fenced=True):
    """A kernel whose clusters run `lines` with four mbarriers."""
    begin = [MASKS, "setp.eq.u32 %p7, %r0, 0; mov.u64 %rd6, bars;"]
    begin += [f"@%p7 mbarrier.init.shared.b64 [bars+{8 * at}], {n};" for at, n in enumerate(counts)]
    begin += ["fence.mbarrier_init.release.cluster;"] * fenced
    begin.append("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;")
    begin.append("and.b32 %r7, %r6, 3; mad.wide.u32 %rd5, %r7, 8, %rd6; mov.u64 %rd4, 0;")
    begin.append("setp.eq.u32 %p2, %r0, %r0;")
    end = "barrier.cluster.arrive; barrier.cluster.wait; st.global.u64 [%rd2], %rd9; ret; }"
    return HEAD + "\n  ".join([*begin, *lines, end])


def known(sanitizer):
    """What the sanitizer of a wave knows."""
    clocks, table, lanes = sanitizer.clocks, sanitizer.table, sanitizer.lanes
    lanes.fit()
    table.fit()
    wave, held = sanitizer.wave, lanes.holding
    count = len(wave.mbarriers.keys)
    arrays = [clocks.all, clocks.times, held, lanes.knowing[held], lanes.clock[held]]
    arrays += [each[:count] for each in (table.pending, table.done, table.columns)]
    arrays += [table.init_rows[:count], table.init_times[:count], table.fenced_columns[:count]]
    uses = [table.used(at) for at in range(count)]
    lives = sorted(sanitizer.mbarriers._lines.items())
    unfenced = {row: len(each) for row, each in sanitizer.mbarriers._unfenced.items()}
    return (
        [array.tolist() for array in arrays],
        uses,
        lives,
        unfenced,
        wave.changes,
        sorted(wave.mbarriers.advanced),
    )


def outcome(ptx, arguments, monkeypatch, calls, **options):
    """All that a launch shows, what the sanitizer knows in the end, and the operations that code of the host
    has run.
    """
    run, done, sanitizers = mbarriers.MbarrierCalls._run, [], []
    init = Sanitizer.__init__

    def made(self, *operands):
        init(self, *operands)
        sanitizers.append(self)

    def counted(self, name, *operands):
        fine = run(self, name, *operands)
        done.extend([name] * fine)
        return fine

    values = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]
    with monkeypatch.context() as patch:
        patch.setattr(mbarriers, "_WORTH", 0 if calls else 1 << 60)
        patch.setattr(mbarriers.MbarrierCalls, "_run", counted)
        patch.setattr(Sanitizer, "__init__", made)
        options = {"threads": 1, "max_instructions": 100_000} | options
        try:
            shown = ptx.launch("k", args=values, **options)
        except (emulator.Fault, emulator.Deadlock) as error:
            shown = str(error), error.findings
    arrays = [value.tobytes() for value in values if isinstance(value, np.ndarray)]
    return (shown, arrays, [known(sanitizer) for sanitizer in sanitizers]), set(done)


def same(ptx, arguments, monkeypatch, **options):
    """Compares a launch on both paths; returns the operations that code of the host has run."""
    shown, done = outcome(ptx, arguments, monkeypatch, True, **options)
    expected, none = outcome(ptx, arguments, monkeypatch, False, **options)
    assert shown == expected
    assert not none
    return done


@pytest.mark.each_value(1)
@pytest.mark.parametrize("options", [{}, {"strict": True}, {"sanitize": False}], ids=str)
def test_random_operations(options, monkeypatch):
    names = set()
    for seed in range(10):
        ptx, out = module(kernel(seed), "sm_90a"), np.zeros(COUNT, np.uint64)
        names |= same(ptx, [out], monkeypatch, grid=GRID, block=BLOCK, **options)
    assert names == {"arrive"} | ({"observe"} if options.get("sanitize", True) else set())


@pytest.mark.each_value(1)
@pytest.mark.parametrize("options", [{}, {"strict": True}, {"sanitize": False}, {"seed": 1}], ids=str)
def test_random_commits(options, monkeypatch):
    names = set()
    for seed in range(8 if "seed" in options else 12):
        ptx, out = module(commits(seed), "sm_100a"), np.zeros(2 * COUNT, np.uint64)
        names |= same(ptx, [out], monkeypatch, grid=2 * GRID, block=BLOCK, cluster=2, **options)
    assert ("commit" in names) == ("seed" not in options)


REFUSED = {
    "CTAs of another cluster": f"setp.eq.u32 %p1, %r3, 0; @%p1 {MULTICAST} [bars], %h4;",
    "lanes with different CTAs": f"setp.lt.u32 %p1, %r0, 2; @%p1 {MULTICAST} [bars], %h6;",
    "too many arrivals": f"setp.lt.u32 %p1, %r0, 5; @%p1 {MULTICAST} [bars], %h3;",
    "the other order": "cp.async.ca.shared.global [space], [%rd1], 16; setp.eq.u32 %p1, %r0, 0;"
    f" mapa.shared::cluster.u64 %rd10, %rd6, %r10; @%p1 {MULTICAST} [%rd10], %h3;",
}


@pytest.mark.parametrize("sanitize", [True, False])
@pytest.mark.parametrize("name", REFUSED)
def test_commits_that_are_left_to_the_interpreter(name, sanitize, monkeypatch):
    ptx, out = module(committing([REFUSED[name]], [8] * 4), "sm_100a"), np.zeros(2 * COUNT, np.uint64)
    options = {"grid": 2 * GRID, "block": BLOCK, "cluster": 2, "sanitize": sanitize}
    assert "commit" not in same(ptx, [out], monkeypatch, **options)


INITS = {
    "no arrivals": ("@%p7 mbarrier.init.shared.b64 [space], 0;", "mbarrier-count"),
    "too many arrivals": ("@%p7 mbarrier.init.shared.b64 [space], 0x100000;", "mbarrier-count"),
    "one mbarrier by two lanes": ("setp.lt.u32 %p1, %r0, 2; @%p1 mbarrier.init.shared.b64 [space], 1;", None),
    "in use": ("@%p7 mbarrier.init.shared.b64 [bars], 1;", "mbarrier-init-twice"),
    "misaligned": ("@%p7 mbarrier.init.shared.b64 [space+4], 1;", "misaligned"),
    "out of bounds": ("mov.u64 %rd5, 0xfffff0; @%p7 mbarrier.init.shared.b64 [%rd5], 1;", "out-of-bounds"),
}


@pytest.mark.parametrize("sanitize", [True, False])
@pytest.mark.parametrize("name", INITS)
def test_inits(name, sanitize):
    (line, rule), text = INITS[name], kernel(0)
    begin = text.index("and.b32 %r7, %r6, 3;")
    text = text[:begin] + ".shared .align 16 .b64 space[2]; " + line + text[text.rindex("ret;") :]
    ptx, options = module(text, "sm_90a"), {"grid": GRID, "block": BLOCK, "sanitize": sanitize}
    if rule in (None, "mbarrier-init-twice"):
        report = ptx.launch("k", args=[np.zeros(COUNT, np.uint64)], **options)
        found = {finding.rule for finding in report.findings} - {"mbarrier-arrivals"}
        assert found == ({rule} if rule and sanitize else set())
        return
    with pytest.raises(emulator.Fault) as error:
        ptx.launch("k", args=[np.zeros(COUNT, np.uint64)], **options)
    assert error.value.rule == rule


AGAIN = """mbarrier.arrive.shared.b64 %rd4, [bars], 1; bar.sync 0;
    setp.lt.u32 %p1, %r0, 4; sub.u32 %r7, 3, %r0; mad.wide.u32 %rd5, %r7, 8, %rd6; add.u32 %r8, %r0, 1;
    @%p1 mbarrier.inval.shared.b64 [%rd5]; @%p1 mbarrier.init.shared.b64 [%rd5], %r8; bar.sync 0;
    @%p7 mbarrier.arrive.shared.b64 %rd4, [bars+16]; st.global.u64 [%rd2], %rd4;"""


@pytest.mark.parametrize("sanitize", [True, False])
def test_inits_by_lanes_in_another_order(sanitize, monkeypatch):
    """The last lane initializes the first mbarrier, which has completed a phase before."""
    text = kernel(0)
    text = text[: text.index("and.b32 %r7, %r6, 3;")] + "bar.sync 0; " + AGAIN + text[text.rindex("ret;") :]
    text = re.sub(r"(mbarrier.init.shared.b64 \[bars\+0\]), \d+;", rf"\1, {BLOCK};", text)
    plain = np.zeros(COUNT, np.uint64)
    same(module(text, "sm_90a"), [plain], monkeypatch, grid=GRID, block=BLOCK, sanitize=sanitize)
    report = module(text, "sm_90a").launch("k", args=[plain], grid=GRID, block=BLOCK, sanitize=sanitize)
    assert {finding.rule for finding in report.findings} <= {"mbarrier-arrivals"}
    assert plain[0] & 0xFFFFF == 2  # as lane 1 has it


@pytest.mark.each_value(7)
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("kernel", planted_faults.KERNELS)
def test_correct_kernels(kernel, strict, monkeypatch):
    options = planted_faults.launch_options(kernel) | {"strict": strict}
    ptx = emulator.Module(planted_faults.source(kernel))
    same(ptx, planted_faults.arguments(kernel), monkeypatch, **options)


FAULTS = [fault for fault in planted_faults.faults() if "mbarrier" in planted_faults.source(fault.kernel)]


@pytest.mark.each_value(6)
@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, marks=[pytest.mark.slow] if at % 12 else []) for at, fault in enumerate(FAULTS)],
    ids=str,
)
def test_planted_faults(fault, monkeypatch):
    options = planted_faults.launch_options(fault.kernel) | {"strict": True}
    same(emulator.Module(fault.text()), planted_faults.arguments(fault.kernel), monkeypatch, **options)
