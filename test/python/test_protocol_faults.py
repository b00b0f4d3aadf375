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


@dataclass(frozen=True)
class Case:
    """A kernel in `data`: a product of these sizes, or if it has none, work that each CTA does once.

    `redundant`: the number of steps of each kind that other steps make redundant, which is not found.
    """

    name: str
    sizes: tuple[int, ...]
    redundant: dict[str, int]

    def __str__(self) -> str:
        return self.name


CASES = [
    Case(
        "tcgen05_gemm",
        (384, 64, 128),
        {
            # The loads and their wait already need the whole warp.
            "no barrier of a warp": 1,
            # Of the waits for an accumulator and for a stage, one fence is enough; dealloc needs none.
            "no fence after": 3,
            "no fence before": 1,
            # The next fence follows before anything uses the mbarriers.
            "no fence of inits": 1,
            # The second accumulator is used once, so nothing waits until it is empty.
            "another count": 2,
        },
    ),
    Case(
        "tcgen05_pair",
        (512, 64, 192),
        {
            "no barrier of a warp": 1,
            "no fence after": 3,
            "no fence before": 1,
            "no fence of inits": 1,
            # The end of the producer: a barrier of the cluster follows.
            "a wait that always passes": 1,
        },
    ),
    # Between reads and a later write by an asynchronous unit, the arrival and the wait are enough.
    Case("launch_control", (), {"no proxy fence": 4}),
]


@cache
def compiled(name):
    return weft.compile((DATA / f"{name}.mlir").read_text(), arch="sm_100a")


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
    kernel = compiled(case.name)
    changed = weft.Kernel(kernel.compiled, kernel.launch)
    changed._module = emulator.Module(text)
    args, position, wanted = arguments(case)
    try:
        found = changed.emulate(*args, max_instructions=100_000, seed=seed).findings
    except (emulator.Fault, emulator.Deadlock) as error:
        found = error.findings
    return {finding.rule for finding in found}, np.array_equal(args[position], wanted)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_kernel_itself_has_no_finding(case):
    assert rules(case, compiled(case.name).ptx) == (set(), True)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("step", protocol_faults.STEPS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_faults_are_found(case, step):
    missed = []
    for fault in protocol_faults.of(compiled(case.name).ptx, step):
        results = (rules(case, fault.text, seed) for seed in SEEDS)
        verdict = next(((found, right) for found, right in results if found or not right), None)
        if verdict is None:
            missed.append(str(fault))
        else:
            assert verdict[0], f"only the result shows {fault}"
    assert len(missed) == case.redundant.get(step, 0), missed


def test_there_are_faults_of_each_step():
    faults = [
        fault
        for case in CASES
        for step in protocol_faults.STEPS
        for fault in protocol_faults.of(compiled(case.name).ptx, step)
    ]
    assert len(faults) - sum(sum(case.redundant.values()) for case in CASES) >= 100
    missing = set(protocol_faults.STEPS) - {fault.step for fault in faults}
    assert missing == {"no group of stores", "no wait for stores"}  # stores by TMA
