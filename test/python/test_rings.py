"""Rings whose stages TMA, threads or MMAs fill and empty, and roles of warps, in the emulator."""

from pathlib import Path

import numpy as np
import pytest

import weft

DATA = Path(__file__).parent / "data"
SUMS = (DATA / "warp_ring.mlir").read_text()
PRODUCT = (DATA / "tcgen05_gemm.mlir").read_text()


def add(text):
    """What two warps of `SUMS` computed, and the findings."""
    d = np.zeros((2, 32), np.int32)
    report = weft.compile(text, arch="sm_90a").emulate(d)
    return d, report.findings


def multiply(text):
    """A and B of `PRODUCT`, what it computed, and the findings."""
    chance = np.random.default_rng(0)
    a, b = (chance.integers(-4, 5, (rows, 128)).astype(np.float16) for rows in (384, 64))
    d = np.full((384, 64), np.nan, np.float32)
    report = weft.compile(text, arch="sm_100a").emulate(a, b, d)
    return a.astype(np.float32) @ b.T.astype(np.float32), d, report.findings


def test_a_ring_goes_from_threads_to_warps():
    d, findings = add(SUMS)
    lanes = np.arange(32) ^ 1
    assert not findings
    assert (d == 6 * lanes + sum(row * row for row in range(6)) + np.arange(2)[:, None]).all()


def test_rings_go_from_tma_to_tcgen05_and_from_tcgen05_to_warps():
    wanted, d, findings = multiply(PRODUCT)
    assert not findings
    assert (d == wanted).all()


# Arrivals of too few or too many agents: a phase completes early, or never.
@pytest.mark.each_value(1)
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("run", "text", "old", "new"),
    [
        (add, SUMS, "consumers = 2", "consumers = 3"),
        (add, SUMS, "producers = 32", "producers = 33"),
        (add, SUMS, "warps = 2", "warps = 1"),
        (multiply, PRODUCT, "consumers = 4", "consumers = 5"),
        (multiply, PRODUCT, '"tile.release"(%ring, %stage) : (!Ring, i32) -> ()', ""),
    ],
)
def test_a_stage_that_not_all_agents_signal_is_caught(run, text, old, new):
    assert old in text
    with pytest.raises(weft.WeftError, match="deadlock"):
        run(text.replace(old, new))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ('emptied_by = "mma"', 'emptied_by = "threads"', "async-source-overwritten"),
        ('filled_by = "mma"', 'filled_by = "threads"', "tmem-race"),
    ],
)
def test_an_arrival_that_does_not_wait_for_the_mma_is_caught(old, new, rule):
    assert old in PRODUCT
    assert rule in {finding.rule for finding in multiply(PRODUCT.replace(old, new))[-1]}


LOAD = '%values = "tile.load"(%accumulator, %c0, %c0) : (!Accumulator, i32, i32) -> !Rows'
LOAD_WITHOUT_WAIT = """
  %start_of = "tile.address"(%accumulator) : (!Accumulator) -> !llvm.ptr<6>
  %32 = arith.constant 32 : i32
  %16 = arith.constant 16 : i32
  %first = arith.muli %number, %32 : i32
  %lanes = arith.shli %first, %16 : i32
  %cell = llvm.getelementptr %start_of[%lanes] : (!llvm.ptr<6>, i32) -> !llvm.ptr<6>, i8
  %words = "tcgen05.ld"(%cell) {shape = "32x32b", num = 64 : i64} : (!llvm.ptr<6>) -> vector<64xi32>
  %floats = vector.bitcast %words : vector<64xi32> to vector<64xf32>
  %values = "tile.from_lane"(%floats) : (vector<64xf32>) -> !Rows
"""


@pytest.mark.slow
def test_a_release_that_does_not_wait_for_the_loads_is_caught():
    assert PRODUCT.count(LOAD) == 1
    rules = {finding.rule for finding in multiply(PRODUCT.replace(LOAD, LOAD_WITHOUT_WAIT))[-1]}
    assert rules == {"tmem-race", "tcgen05-in-flight"}
