"""The compiled checks of asynchronous units accept what the interpreter's accept, and record the same."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest

from weft.emulator.compiled.products import OperandReads
from weft.emulator.running.function_code import Places, Read
from weft.emulator.sanitizer.clocks import VectorClocks
from weft.emulator.sanitizer.dataflow import NOTHING
from weft.emulator.sanitizer.findings import Findings
from weft.emulator.sanitizer.races import Races
from weft.emulator.sanitizer.shadow import BLOCK_SHIFT, NEVER, READ_BY_THREADS
from weft.emulator.sanitizer.undefined import Undefined
from weft.emulator.watch import Chunks

SIZE, STRIDE, WARPS, CTAS = 1000, 1024, 3, 4
ARRAYS = ("writer", "written", "write_line", "read_line", "reads", "unit", "taken", "read_by")


def races(seed, granule, cluster):
    """The checks of a wave with a random past, most of which its warps know of."""
    rng = np.random.default_rng(seed)
    rows = WARPS * CTAS
    launch = SimpleNamespace(warps=WARPS, cluster_size=cluster)
    memory = SimpleNamespace(
        shared=SimpleNamespace(data=np.zeros(CTAS * STRIDE, np.uint8)),
        shared_size=SIZE,
        shared_stride=STRIDE,
    )
    wave = SimpleNamespace(warps=rows, launch=launch, memory=memory, thread=lambda row, lane: None)
    wave.rows_of = lambda cta: range(WARPS * cta, WARPS * cta + WARPS)
    clocks = VectorClocks(rows)
    for row in range(rows):
        clocks.column(("wgmma", row), bool(row % 2))
        clocks.column(("mbarrier", row % CTAS, 16 * row), True)
    for column in clocks.times:
        clocks.times[column] = int(rng.integers(0, 6))
    clocks.all[:] = rng.integers(2, 6, clocks.all.shape)
    findings = Findings("", frozenset())
    found = Races(wave, clocks, findings, {}, Undefined(wave, findings, NOTHING, {}, frozenset))
    shadow = found.shadow
    shadow.refine(granule)
    shadow.slot(("wgmma", 0))
    shadow.slot(("wgmma", 1))
    rare = rng.random(shadow.granules) < 0.02
    shadow.written[:] = np.where(
        rare, rng.integers(0, 7, shadow.granules), rng.integers(0, 2, shadow.granules)
    )
    shadow.written[rng.random(shadow.granules) < 0.02] = NEVER
    shadow.writer[:] = rng.integers(0, clocks.width, shadow.granules)
    shadow.reads[:] = np.where(rng.random(shadow.reads.shape) < 0.01, 6, 1)
    shadow.unit[:] = rng.integers(0, clocks.width, shadow.unit.shape)
    shadow.taken[:] = np.where(rng.random(shadow.taken.shape) < 0.01, 6, 1)
    return found, rng


def reads(found):
    """The compiled reads of the units of a wave."""
    found.wave.memory.shared.data = np.zeros(CTAS * STRIDE, np.uint8)
    sanitizer = SimpleNamespace(
        wave=found.wave,
        races=found,
        clocks=found.clocks,
        globals=SimpleNamespace(number=0),
        column_of=lambda proxy, row: found.clocks.column((proxy, row)),
    )
    return OperandReads(sanitizer)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("granule", [16, 4, 1])
def test_both_record_the_same(granule, cluster):
    fine = 0
    for seed in range(150):
        plain, rng = races(seed, granule, cluster)
        fast = copy.deepcopy(plain)
        cta, row = (int(rng.integers(n)) for n in (CTAS, WARPS * CTAS))
        chunks = 16 * rng.permutation(SIZE // 16)[: int(rng.integers(1, 8))]
        before = len(plain.findings.all())
        column = plain.clocks.column(("wgmma", row))
        plain.unit_reads(column, row, Chunks(chunks).moved(cta * STRIDE), 9)
        code = reads(fast)
        accepted = code.record(code.prepared("wgmma", (Read(row, cta, (Places(chunks, chunks),)),)), 9)
        assert accepted == (len(plain.findings.all()) == before)
        fine += accepted
        for name in ARRAYS if accepted else ():
            np.testing.assert_array_equal(getattr(plain.shadow, name), getattr(fast.shadow, name))
    assert 10 < fine < 140


@pytest.mark.parametrize("by", [0, 1, 2, READ_BY_THREADS])
def test_the_end_of_a_cta_looks_at_all_who_have_read(by):
    """Each unit and the threads alone read in one CTA; the checks of the end must see them there only."""
    found, _ = races(1, 16, 2)
    shadow, mine = found.shadow, slice(2 * STRIDE // 16, 3 * STRIDE // 16)
    shadow.written[:], shadow.reads[:], shadow.taken[:] = 0, 0, 0
    if by == READ_BY_THREADS:
        shadow.reads[mine] = 9
    elif by:
        shadow.taken[by - 1, mine] = 9
        shadow.unit[by - 1, mine] = found.clocks.column(("mbarrier", 0, 0))
    shadow.read_by[2 * STRIDE >> BLOCK_SHIFT : 3 * STRIDE >> BLOCK_SHIFT] = by
    known = found.clocks.of(np.arange(6, 9))
    found.ended(3, known)
    assert not found.findings.all()
    found.ended(2, known)
    expected = {0: [], READ_BY_THREADS: ["cluster-exit"]}.get(by, ["async-at-exit"])
    assert [each.rule for each in found.findings.all()] == expected


def test_chunks_beyond_the_memory_are_left():
    found, _ = races(0, 16, 1)
    code = reads(found)
    for first in (-16, 992):
        chunks = np.array([first])
        assert not code.record(code.prepared("wgmma", (Read(0, 0, (Places(chunks, chunks),)),)), 9)
