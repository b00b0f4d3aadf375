"""Products of tcgen05.mma have the same bits and findings by code of the host as in the interpreter."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import tcgen05_case
from tcgen05_case import Case

from weft.emulator import parallel
from weft.emulator.errors import Fault
from weft.emulator.instructions import tcgen05_code
from weft.emulator.memory.tensor_memory import Touch
from weft.emulator.sanitizer.clocks import VectorClocks
from weft.emulator.sanitizer.findings import Findings
from weft.emulator.sanitizer.tensor_memory import TensorMemory
from weft.emulator.watch import Cells, UnitAccess
from weft.isa.tcgen05.pipelining import D, Use

MX = {"vec": "block32", "blocks": 1, "type": "ue8m0"}
CASES = {
    "bf16": {"kind": "f16", "m": 128, "n": 64, "a_type": "bf16"},
    "f16 to f16": {"kind": "f16", "m": 128, "n": 32, "a_type": "f16", "d_type": "f16"},
    "tf32": {"kind": "tf32", "m": 128, "n": 16, "a_type": "tf32"},
    "fp8": {"kind": "f8f6f4", "m": 128, "n": 32, "a_type": "e4m3", "b_type": "e5m2"},
    "fp6 and fp4": {"kind": "f8f6f4", "m": 128, "n": 32, "a_type": "e3m2", "b_type": "e2m1"},
    "fp8 and fp6": {"kind": "f8f6f4", "m": 128, "n": 32, "a_type": "e4m3", "b_type": "e2m3"},
    "integers": {"kind": "i8", "m": 128, "n": 32, "a_type": "s8", "b_type": "u8", "d_type": "s32"},
    "a pair": {"kind": "f16", "m": 256, "n": 64, "a_type": "bf16", "group": 2},
    "a pair with two banks": {"kind": "f16", "m": 128, "n": 64, "a_type": "f16", "group": 2},
    "negated": {"kind": "f16", "m": 128, "n": 32, "a_type": "bf16", "negate": (True, False)},
    "transposed": {"kind": "f16", "m": 128, "n": 64, "a_type": "f16", "transpose": (True, True)},
    "swizzled": {"kind": "f8f6f4", "m": 128, "n": 64, "a_type": "e4m3", "swizzle": ("128B", "64B")},
    "weight stationary": {"kind": "f16", "m": 32, "n": 64, "a_type": "bf16", "ws": True},
    "mxfp8": {"kind": "mxf8f6f4", "m": 128, "n": 32, "a_type": "e4m3", "b_type": "e5m2", "scale": MX},
    "mxfp4 and mxfp6": {
        "kind": "mxf8f6f4",
        "m": 128,
        "n": 32,
        "a_type": "e2m1",
        "b_type": "e3m2",
        "scale": MX,
    },
    "mxfp4": {"kind": "mxf4", "m": 256, "n": 64, "a_type": "e2m1", "group": 2, "scale": {**MX, "blocks": 2}},
    "nvfp4": {
        "kind": "mxf4nvf4",
        "m": 128,
        "n": 32,
        "a_type": "e2m1",
        "scale": {"vec": "block16", "blocks": 4, "type": "ue4m3"},
    },
}


def outcome(case, compiled, monkeypatch, **options):
    monkeypatch.setenv("WEFT_EMULATOR_COMPILED", str(int(compiled)))
    _, report = case.run(findings=True, **options)
    return report, case.after.tobytes()


def filled(name, **more):
    """A case with any bits in shared memory and in tensor memory."""
    options = {**CASES[name], **more}
    tcgen05_case.RNG = rng = np.random.default_rng(len(name))
    case = Case(options.pop("kind"), options.pop("m"), options.pop("n"), **options)
    case.images[:] = rng.integers(0, 1 << 32, case.images.shape, np.uint64).astype(case.images.dtype)
    if not case.scale:
        case.memory[:] = rng.integers(0, 1 << 32, case.memory.shape, np.uint64).astype(case.memory.dtype)
    return case


@pytest.mark.each_value(1)
@pytest.mark.parametrize("name", CASES)
def test_any_bits_have_the_same_sums(name, product_calls, monkeypatch):
    for keeps in (True, False):
        expected = outcome(filled(name), False, monkeypatch, keeps=keeps)
        assert not product_calls
        assert outcome(filled(name), True, monkeypatch, keeps=keeps) == expected
        assert product_calls
        product_calls.clear()


@pytest.mark.usefixtures("lone_places")
def test_products_keep_the_places_that_they_use(product_calls, monkeypatch):
    name = "a pair with two banks"
    expected = outcome(filled(name), False, monkeypatch)
    monkeypatch.setattr(tcgen05_code, "_MOST_KNOWN", 0)  # nor do templates keep them
    assert outcome(filled(name), True, monkeypatch) == expected
    assert product_calls


def copied(name, times):
    """A case in several CTAs or pairs with different bits."""
    case, rng = filled(name), np.random.default_rng(times)
    case.images = np.concatenate([case.images] * times)
    case.memory = np.concatenate([case.memory] * times)
    case.images[:, ::3] = rng.integers(0, 1 << 32, case.images[:, ::3].shape, np.uint64)
    if case.scale:
        case.memory[1:, [tcgen05_case.SCALE_A, tcgen05_case.SCALE_B]] ^= np.uint32(1)
    return case


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("name", "ctas"), [pytest.param("bf16", 3, marks=pytest.mark.slow), ("a pair", 4), ("nvfp4", 2)]
)
def test_threads_of_several_ctas_at_once(name, ctas, product_calls, monkeypatch):
    monkeypatch.setattr(parallel, "alone", lambda: False)
    times = ctas // (2 if name == "a pair" else 1)
    expected = outcome(copied(name, times), False, monkeypatch)
    assert outcome(copied(name, times), True, monkeypatch) == expected
    assert ctas in [jobs for _, _, jobs in product_calls]


@pytest.mark.each_value(1)
@pytest.mark.parametrize("operand", ["A", "B"])
def test_copies_of_scales_must_be_the_same(operand, product_calls, monkeypatch):
    faults = []
    for compiled in (False, True):
        case = filled("mxfp8")
        case.memory[0, {"A": tcgen05_case.SCALE_A, "B": tcgen05_case.SCALE_B}[operand], 40] ^= 1 << 6
        with pytest.raises(Fault, match=f"scale_{operand.lower()}: lanes 32..63 must have the same") as fault:
            outcome(case, compiled, monkeypatch)
        faults.append((str(fault.value), fault.value.findings))
    assert faults[0] == faults[1]
    assert not product_calls


BROKEN = {
    r"fence\.proxy\.async\.shared::cta;": "missing-proxy-fence",
    r"tcgen05\.wait::st\.sync\.aligned;": "tmem-race",
    r"tcgen05\.st\.[^;]*;": "uninitialized-tensor",
}


@pytest.mark.each_value(1)
@pytest.mark.parametrize("lacking", BROKEN)
def test_findings_are_the_same(lacking, product_calls, monkeypatch):
    """Operands that the proxy can't see, and a D that is still being written, or was never written."""
    plain = Case._body

    def broken(self, *args):
        return re.sub(lacking, "", plain(self, *args))

    monkeypatch.setattr(Case, "_body", broken)
    expected = outcome(filled("bf16"), False, monkeypatch)
    assert {finding.rule for finding in expected[0].findings} == {BROKEN[lacking]}
    assert outcome(filled("bf16"), True, monkeypatch) == expected
    assert not product_calls


@pytest.mark.each_value(1)
@pytest.mark.parametrize("change", ["rows", "scales", "pair"])
def test_a_mistake_in_the_code_is_caught(change, monkeypatch):
    name = {"rows": "bf16", "scales": "mxfp8", "pair": "a pair"}[change]
    expected = outcome(filled(name), False, monkeypatch)
    if change == "rows":
        changed = tcgen05_code.Places(512 * np.roll(np.arange(128), 1))
        monkeypatch.setattr(tcgen05_code, "_rows", lambda rows: changed)
    elif change == "scales":
        plain = tcgen05_code._table
        monkeypatch.setattr(tcgen05_code, "_table", lambda name: plain(name) * np.array([[1], [0]]))
    else:
        plain = tcgen05_code._banks
        monkeypatch.setattr(
            tcgen05_code, "_banks", lambda part, parts, _, banks: plain(part, parts, 0, banks)
        )
    assert outcome(filled(name), True, monkeypatch) != expected


# The sanitizer's checks of rectangles of tensor memory, together and one by one

RECTANGLES = [
    *(Cells(0, 128, 0, 64), Cells(0, 128, 64, 64), Cells(0, 64, 0, 64), Cells(32, 32, 32, 64)),
    *(Cells(0, 128, 60, 8), Cells(64, 64, 100, 20)),
]
HALF = Cells(16, 16, 8, 8)
"""A rectangle that divides granules."""
ROWS = 4


def event(rng):
    """Some accesses of a warp that take place at once, and their line."""
    row, line = int(rng.choice(ROWS, p=[0.6, 0.2, 0.1, 0.1])), 10 + int(rng.integers(7))
    use = Use("mma", (128, 64, int(rng.integers(2) * (rng.random() < 0.2))), D) if row < 2 else None
    proxy = "tcgen05" if row < 2 else "tcgen05.ld"
    cells = RECTANGLES[int(rng.choice(6, p=[0.5, 0.2, 0.1, 0.1, 0.05, 0.05]))]
    if rng.random() < 0.04:
        cells = HALF
    if use is not None and rng.random() < 0.3:
        return [touch(kind, proxy, 0, cells, row, use) for kind in ("load", "store")], line
    if use is None and rng.random() < 0.5:
        return [touch("load", proxy, 0, RECTANGLES[3], each, None) for each in (2, 3)], line
    return [touch(str(rng.choice(["load", "store"])), proxy, 0, cells, row, use)], line


def touch(kind, proxy, cta, cells, row, use):
    """The access of one warp's unit."""
    return Touch(kind, proxy, np.array([cta]), cells, np.array([row]), use)


def accessed(memory, touch, line):
    """Warps' units access a rectangle one after the other."""
    none = np.zeros((ROWS, 32), np.bool_)
    for cta, row in zip(touch.ctas.tolist(), touch.rows.tolist(), strict=True):
        access = UnitAccess(touch.kind, touch.proxy, cta, "tensor", touch.cells, none, line, use=touch.use)
        memory.access(access, row)


def accesses(seed, fences, how):
    """What random accesses to tensor memory leave: the findings, the shadow's arrays, with operations by
    their numbers, and how many of them were checked together, with coarse granules and with fine ones.
    `how`: together, by rectangles or by cells.
    """
    rng = np.random.default_rng(seed)
    thread = lambda row, lane: None  # noqa: E731
    wave = SimpleNamespace(
        warps=ROWS, thread=thread, cta_of_row=np.zeros(ROWS, int), rows_of=lambda cta: slice(0, ROWS)
    )
    clocks, findings = VectorClocks(ROWS, fences), Findings("", frozenset())
    memory = TensorMemory(wave, clocks, findings, fences)
    if how == "cells":
        memory._is_plain = lambda *args: False
    careful = seed % 2 == 0
    memory.event("alloc", 0, 0, 128 if careful else 120, 1, ())
    if careful:
        accessed(memory, touch("store", "tcgen05.st", 0, Cells(0, 128, 0, 128), 0, None), 2)
        clocks.times[:] += 1
        clocks.known[:] = 1
        clocks.published[:] = clocks.met[:] = 1
    used = {True: 0, False: 0}
    for _ in range(40):
        (touches, line), more = event(rng), 1 if careful and rng.random() < 0.97 else 0
        if how == "together" and memory.record(touches, line):
            used[memory.shadow.granule > 1] += 1
        else:
            for each in touches:
                accessed(memory, each, line)
        if rng.random() < 0.5 + more:
            for each in touches:
                clocks.times[clocks.column((each.proxy, int(each.rows[0])), each.proxy == "tcgen05")] += 1
        if rng.random() < 0.7 + more:
            clocks.join(np.arange(ROWS), np.arange(ROWS))
            for column in clocks.names:
                clocks.known[:, column] = clocks.times[column]
        if fences and rng.random() < 0.8 + more:
            clocks.fence_tensor(np.arange(ROWS), before=True)
            clocks.fence_tensor(np.arange(ROWS), before=False)
        if not careful and rng.random() < 0.02:
            memory.event("dealloc", 0, 64, 56, 5, ())
            memory.event("alloc", 0, 64, 56, 6, ())
    here = memory.shadow
    here.refine()
    operations = [here.operations[:4, 0, each[0]] for each in (here.reads, here.writes)]
    return findings.all(), operations, here.filled, used


@pytest.mark.each_value(1)
@pytest.mark.parametrize("fences", [frozenset(), frozenset({"before", "after"})], ids=["plain", "fences"])
def test_rectangles_of_tensor_memory(fences):
    total, found = {True: 0, False: 0}, 0
    for seed in range(10):
        expected, plain, got = (accesses(seed, fences, how) for how in ("cells", "rectangles", "together"))
        for each in (plain, got):
            assert each[0] == expected[0]
            for one, other in zip(each[1], expected[1], strict=True):
                np.testing.assert_array_equal(one, other)
            np.testing.assert_array_equal(each[2], expected[2])
        total = {coarse: count + got[3][coarse] for coarse, count in total.items()}
        found += len(got[0])
    assert min(total.values()) > 20
    assert found


@pytest.mark.parametrize("late", [False, True], ids=["in order", "late"])
def test_accesses_in_several_ctas_are_those_of_each(late):
    """Units of different warps access the same rectangles of different CTAs; one of them may be too early."""
    both = []
    for together in (True, False):
        wave = SimpleNamespace(warps=ROWS, thread=lambda row, lane: (row, lane), cta_of_row=np.arange(ROWS))
        clocks = VectorClocks(ROWS)
        memory = TensorMemory(wave, clocks, Findings("", frozenset()))
        for cta in range(ROWS):
            memory.event("alloc", cta, 0, 128, 1, ())
        if late:
            accessed(memory, touch("store", "tcgen05.st", 2, RECTANGLES[3], 0, None), 3)
        every, use = np.array([3, 1, 2]), Use("mma", (128, 64, 0), D)
        kinds = ("store", RECTANGLES[0]), ("store", RECTANGLES[1])
        touches = [Touch(kind, "tcgen05", every, cells, every[::-1], use) for kind, cells in kinds]
        assert not together or memory.record(touches, 9) == (not late)
        if late or not together:
            for each in touches:
                accessed(memory, each, 9)
        here = memory.shadow
        both.append((memory.findings.all(), here.granule, here.operations, here.writes, here.filled))
    for one, other in zip(*both, strict=True):
        np.testing.assert_array_equal(one, other)
    assert [finding.rule for finding in both[0][0]] == ["tmem-race"] * late


def test_threads_with_different_operands(product_calls, monkeypatch):
    """Only one of two CTAs adds D, so that the threads of one instruction have different templates."""
    monkeypatch.setattr(parallel, "alone", lambda: False)
    plain = Case._body

    def differing(self, *args):
        changed, count = re.subn(
            r"setp.eq.u32 %p7, 1, 1;",
            "{ .reg .b32 %cta; mov.u32 %cta, %ctaid.x; setp.ne.u32 %p7, %cta, 0; }",
            plain(self, *args),
        )
        assert count == 1
        return changed

    same = outcome(copied("bf16", 2), False, monkeypatch)
    monkeypatch.setattr(Case, "_body", differing)
    expected = outcome(copied("bf16", 2), False, monkeypatch)
    assert expected != same
    assert outcome(copied("bf16", 2), True, monkeypatch) == expected
    assert [jobs for _, _, jobs in product_calls] == [2]
