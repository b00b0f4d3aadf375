"""Products of tcgen05.mma have the same bits and findings by code of the host as in the interpreter."""

from types import SimpleNamespace

import numpy as np
import pytest
import tcgen05_case
from tcgen05_case import Case

from weft.emulator.instructions import tcgen05_code
from weft.emulator.sanitizer.clocks import VectorClocks
from weft.emulator.sanitizer.findings import Findings
from weft.emulator.sanitizer.tensor_memory import TensorMemory
from weft.emulator.watch import Cells
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


@pytest.mark.parametrize("name", CASES)
def test_any_bits_have_the_same_sums(name, product_calls, monkeypatch):
    for keeps in (True, False):
        expected = outcome(filled(name), False, monkeypatch, keeps=keeps)
        assert not product_calls
        assert outcome(filled(name), True, monkeypatch, keeps=keeps) == expected
        assert product_calls
        product_calls.clear()


def test_findings_are_the_same(product_calls, monkeypatch):
    """D that nothing wrote, and operands that the proxy can't see."""
    plain = Case._body

    def broken(self, *args):
        return plain(self, *args).replace("fence.proxy.async.shared::cta;", "")

    monkeypatch.setattr(Case, "_body", broken)
    expected = outcome(filled("bf16"), False, monkeypatch)
    assert {finding.rule for finding in expected[0].findings} == {"missing-proxy-fence"}
    assert outcome(filled("bf16"), True, monkeypatch) == expected
    assert not product_calls


@pytest.mark.parametrize("change", ["rows", "scales", "pair"])
def test_a_mistake_in_the_code_is_caught(change, monkeypatch):
    name = {"rows": "bf16", "scales": "mxfp8", "pair": "a pair"}[change]
    expected = outcome(filled(name), False, monkeypatch)
    if change == "rows":
        changed = tcgen05_code.Places(512 * np.roll(np.arange(128), 1))
        monkeypatch.setattr(tcgen05_code, "_rows", lambda rows: changed)
    elif change == "scales":
        monkeypatch.setattr(tcgen05_code, "powers", lambda values: np.zeros(values.shape))
    else:
        plain = tcgen05_code._shared
        monkeypatch.setattr(tcgen05_code, "_shared", lambda *a: plain(*a[:8], a[8], 0, a[10]))
    assert outcome(filled(name), True, monkeypatch) != expected


# The sanitizer's short cut for rectangles of tensor memory

RECTANGLES = [Cells(0, 128, 0, 64), Cells(0, 128, 64, 64), Cells(0, 64, 0, 64), Cells(32, 32, 32, 64)]
ARRAYS = ("reads", "writes", "filled")
ROWS = 4


def accesses(seed, fences, short):
    """What random accesses to tensor memory leave: the findings, and the shadow's arrays, with operations
    by their times.
    """
    rng = np.random.default_rng(seed)
    thread = lambda row, lane: None  # noqa: E731
    wave = SimpleNamespace(
        warps=ROWS, thread=thread, cta_of_row=np.zeros(ROWS, int), rows_of=lambda cta: slice(0, ROWS)
    )
    clocks, findings = VectorClocks(ROWS, fences), Findings("", frozenset())
    memory = TensorMemory(wave, clocks, findings, fences)
    if not short:
        memory._again = lambda *args: False
    memory.event("alloc", 0, 0, 128, 1, ())
    used = 0
    for step in range(60):
        cells = RECTANGLES[int(rng.choice(4, p=[0.55, 0.25, 0.1, 0.1]))]
        row, line = int(rng.choice(ROWS, p=[0.6, 0.2, 0.1, 0.1])), 10 + step % 7
        use = Use("mma", (128, 64, int(rng.integers(2) * (rng.random() < 0.2))), D) if row < 2 else None
        kind, proxy = str(rng.choice(["load", "store"])), "tcgen05" if row < 2 else "tcgen05.ld"
        again = memory._again(memory._of[0], kind, proxy, cells, row, line, use) if short else False
        used += again
        if not again:
            memory.access(kind, proxy, 0, cells, row, line, use)
        if rng.random() < 0.5:
            clocks.times[clocks.column((proxy, row), proxy == "tcgen05")] += 1
        if rng.random() < 0.7:
            clocks.join(np.arange(ROWS), np.arange(ROWS))
            for column in clocks.names:
                clocks.known[:, column] = clocks.times[column]
        if fences and rng.random() < 0.8:
            clocks.fence_tensor(np.arange(ROWS), before=True)
            clocks.fence_tensor(np.arange(ROWS), before=False)
        if rng.random() < 0.02:
            memory.event("dealloc", 0, 64, 64, 5, ())
            memory.event("alloc", 0, 64, 64, 6, ())
    here = memory._of[0]
    here.settle()
    arrays = [np.array(here.listed)[:, :4][getattr(here, name)] for name in ("reads", "writes")]
    return findings.all(), arrays, here.filled, used


@pytest.mark.parametrize("fences", [frozenset(), frozenset({"before", "after"})], ids=["plain", "fences"])
def test_a_rectangle_that_was_written_as_a_whole(fences):
    total = found = 0
    for seed in range(12):
        expected, got = accesses(seed, fences, short=False), accesses(seed, fences, short=True)
        assert got[0] == expected[0]
        for one, other in zip(got[1], expected[1], strict=True):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(got[2], expected[2])
        total, found = total + got[3], found + len(got[0])
    assert total > 20
    assert found
