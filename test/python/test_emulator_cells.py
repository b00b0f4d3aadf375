"""Rectangles of tensor memory are checked as their single cells are."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest

from weft.emulator.sanitizer.clocks import VectorClocks
from weft.emulator.sanitizer.findings import Findings
from weft.emulator.sanitizer.tensor_memory import TensorMemory
from weft.emulator.watch import Cells, UnitAccess
from weft.isa.tcgen05.pipelining import Use

WARPS = 4
FENCES = frozenset(["before", "after"])


def history(seed, fences):
    """The checks of a wave after some random accesses, most of them in order."""
    rng = np.random.default_rng(seed)
    wave = SimpleNamespace(
        cta_of_row=np.zeros(WARPS, np.intp),
        thread=lambda row, lane: None,
        rows_of=lambda cta: slice(0, WARPS),
    )
    found = TensorMemory(wave, VectorClocks(WARPS, fences), Findings("", frozenset()), fences)
    found.event("alloc", 0, 0, 64 if rng.random() < 0.5 else 512, 1, (0,))
    for _ in range(6):
        found.access(*step(rng, found))
    return found, rng


def step(rng, found):
    """The arguments of an access; sometimes its warp knows of all that came before."""
    lane, column = (int(rng.choice([0, 0, 32, 64])) for _ in range(2))
    cells = Cells(lane, int(rng.choice([1, 32, 64])), column, int(rng.choice([1, 16, 64])))
    row, kind = int(rng.integers(WARPS)), str(rng.choice(["load", "store", "store"]))
    proxy = str(rng.choice(["tcgen05", "tcgen05", "tcgen05.st"]))
    shape = 128, int(rng.choice([64, 128])), int(rng.choice([0, 64]))
    use = Use("mma", shape, "d") if proxy == "tcgen05" else None
    if rng.random() < 0.7:
        column_of_unit = found.clocks.column((proxy, row), proxy == "tcgen05")
        found.clocks.times[column_of_unit] += 1
        found.clocks.all[:, row] = 9
        found.clocks.met[row] = 9
    threads = np.zeros((WARPS, 32), np.bool_)
    return UnitAccess(kind, proxy, 0, "tensor", cells, threads, int(rng.integers(2, 99)), use=use), row


@pytest.mark.each_value(1)
@pytest.mark.parametrize("fences", [frozenset(), FENCES], ids=["plain", "fences"])
def test_rectangles_are_their_cells(fences):
    findings = 0
    for seed in range(60):
        whole, rng = history(seed, fences)
        single = copy.deepcopy(whole)
        for _ in range(3):
            access, row = step(rng, whole)
            single.clocks = copy.deepcopy(whole.clocks)
            whole.access(access, row)
            single.access(access._replace(offsets=access.offsets.each()), row)
        assert whole.findings.all() == single.findings.all()
        whole.shadow.refine()
        single.shadow.refine()
        for name in ("filled", "writes", "reads", "allocated"):
            np.testing.assert_array_equal(getattr(whole.shadow, name), getattr(single.shadow, name))
        findings += bool(whole.findings.all())
    assert 5 < findings < 60


def test_cells_in_order():
    assert Cells(2, 2, 5, 3).each().tolist() == [2 << 16 | c for c in (5, 6, 7)] + [
        3 << 16 | c for c in (5, 6, 7)
    ]
    assert len(Cells(2, 2, 5, 3)) == 6
