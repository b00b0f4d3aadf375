"""Each change of a step in the protocol of a kernel for tensor memory is found, or changes nothing."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import protocol_faults
import pytest

import weft
from weft import emulator

DATA = Path(__file__).parent / "data"
SEEDS = (None, 0, 1)


PRODUCT = """func.func @product(%a: memref<?x?xf16>, %b: memref<?x?xf16>, %d: memref<?x?xf32>) {{
  "tile.matmul"(%a, %b, %d) {{transpose_b = true, schedule = {{{}}}}}
    : (memref<?x?xf16>, memref<?x?xf16>, memref<?x?xf32>) -> ()
  return
}}
"""


@dataclass(frozen=True, eq=False)
class Case:
    """A kernel: a file in `data`, or a product with a schedule.

    `sizes` are those of the product; without them, the kernel does the work of each CTA once. `grid` is the
    number of CTAs if it isn't that of the tiles. `redundant`: the number of steps of each kind that other
    steps make redundant, which is not found.
    """

    name: str
    sizes: tuple[int, ...]
    redundant: dict[str, int]
    schedule: str = ""
    grid: int | None = None

    def __str__(self) -> str:
        return self.name


# The loads of the sums and their wait already need the whole warp. Of the waits for an accumulator and for a
# stage, one fence is enough; dealloc needs none. Of two fences of inits, the later one is enough.
OF_SUMS = {"no barrier of a warp": 1, "no fence after": 3, "no fence before": 1, "no fence of inits": 1}
# A producer waits at its end until its stages are empty: the last commit for an accumulator, which the
# epilogue waits for before the barrier at the end, completes after those for stages. The epilogue runs after
# a warp that has waited for the previous launch.
OF_PRODUCTS = {**OF_SUMS, "a wait that always passes": 1, "no wait for the previous launch": 1}
CASES = [
    # The second accumulator is used once, so nothing waits until it is empty.
    Case("tcgen05_gemm", (384, 64, 128), {**OF_SUMS, "another count": 2}),
    Case("tcgen05_pair", (512, 64, 192), {**OF_SUMS, "a wait that always passes": 1}),
    # Between reads and a later write by an asynchronous unit, the arrival and the wait are enough.
    Case("launch_control", (), {"no proxy fence": 4}),
    Case(
        "single CTAs",
        (256, 64, 192),
        OF_PRODUCTS,
        "block = array<i64: 128, 32, 64>, accumulators = 2, stages = 2",
        grid=1,
    ),
    Case(
        "pairs",
        (512, 64, 192),
        OF_PRODUCTS,
        "block = array<i64: 256, 32, 64>, accumulators = 2, stages = 2, cta_group = 2",
        grid=2,
    ),
    Case(
        "clusters of pairs",
        (1024, 64, 192),
        {**OF_PRODUCTS, "no barrier of a cluster": 1},  # of two at the end
        "block = array<i64: 256, 32, 64>, accumulators = 2, stages = 2, cta_group = 2, "
        "cluster = array<i64: 2, 1>",
        grid=4,
    ),
]


@cache
def compiled(case):
    text = PRODUCT.format(case.schedule) if case.schedule else (DATA / f"{case.name}.mlir").read_text()
    return weft.compile(text, arch="sm_100a")


def arguments(case):
    """The arguments, and the position and the value of the result."""
    if not case.sizes:
        return [np.zeros((3, 32), np.int32)], 0, np.ones((3, 32), np.int32)
    m, n, k = case.sizes
    chance = np.random.default_rng(0)
    a, b = (chance.integers(-4, 5, (rows, k)).astype(np.float16) for rows in (m, n))
    return [a, b, np.full((m, n), np.nan, np.float32)], 2, a.astype(np.float32) @ b.T.astype(np.float32)


def rules(case, text, seed=None):
    """The rules of what is found, and whether the result is right."""
    kernel = compiled(case)
    changed = weft.Kernel(kernel.compiled, kernel.launch)
    changed._module = emulator.Module(text)
    args, position, wanted = arguments(case)
    grid = None if case.grid is None else (case.grid, 1, 1)
    try:
        found = changed.emulate(*args, max_instructions=100_000, seed=seed, grid=grid).findings
    except (emulator.Fault, emulator.Deadlock) as error:
        found = error.findings
    return {finding.rule for finding in found}, np.array_equal(args[position], wanted)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_kernel_itself_has_no_finding(case):
    assert rules(case, compiled(case).ptx) == (set(), True)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("step", protocol_faults.STEPS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_faults_are_found(case, step):
    missed = []
    for fault in protocol_faults.of(compiled(case).ptx, step):
        results = (rules(case, fault.text, seed) for seed in SEEDS)
        verdict = next(((found, right) for found, right in results if found or not right), None)
        if verdict is None:
            missed.append(str(fault))
        else:
            # Nothing but the result shows that a store is missing.
            assert verdict[0] or step == "no copy", f"only the result shows {fault}"
    assert len(missed) == case.redundant.get(step, 0), missed


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_random_interleavings_have_no_finding(case):
    for seed in range(8):
        assert rules(case, compiled(case).ptx, seed) == (set(), True), seed


def test_there_are_faults_of_each_step():
    faults = [
        fault
        for case in CASES
        for step in protocol_faults.STEPS
        for fault in protocol_faults.of(compiled(case).ptx, step)
    ]
    assert len(faults) - sum(sum(case.redundant.values()) for case in CASES) >= 200
    assert {fault.step for fault in faults} == set(protocol_faults.STEPS)
