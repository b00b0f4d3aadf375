"""Each change of a step in the protocol of a kernel for tensor memory or TMA is found, or changes nothing."""

import protocol_faults
import pytest
from protocol_cases import CASES

SEEDS = (None, 0, 1)


@pytest.mark.each_value(1)
@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_kernel_itself_has_no_finding(case):
    assert case.rules() == (set(), True)


@pytest.mark.each_value(1)
@pytest.mark.sampled(37)
@pytest.mark.parametrize("step", protocol_faults.STEPS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_faults_are_found(case, step):
    missed = []
    for fault in protocol_faults.of(case.kernel.ptx, step):
        results = (case.rules(fault.text, seed) for seed in SEEDS)
        verdict = next(((found, right) for found, right in results if found or not right), None)
        if verdict is None:
            missed.append(str(fault))
        else:
            # Nothing but the result shows that a store is missing.
            assert verdict[0] or step == "no copy", f"only the result shows {fault}"
    assert len(missed) == case.redundant.get(step, 0), missed


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("case", CASES, ids=str)
def test_random_interleavings_have_no_finding(case, seed):
    assert case.rules(seed=seed) == (set(), True)


@pytest.mark.slow
def test_there_are_faults_of_each_step():
    faults = [
        fault
        for case in CASES
        for step in protocol_faults.STEPS
        for fault in protocol_faults.of(case.kernel.ptx, step)
    ]
    assert len(faults) - sum(sum(case.redundant.values()) for case in CASES) >= 400
    assert {fault.step for fault in faults} == set(protocol_faults.STEPS)
