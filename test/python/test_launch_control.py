"""CTAs take over the work of clusters that haven't started, in the emulator, and faults in that protocol."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import weft
from weft import emulator

KERNEL = (Path(__file__).parent / "data" / "launch_control.mlir").read_text()
ALONE = KERNEL.replace("known_cluster_size = array<i32: 2, 1, 1>, ", "")


@cache
def ptx():
    return weft.compile(KERNEL, arch="sm_100a").ptx


def add(source=KERNEL, arch="sm_100a", text=None, seed=None):
    """How often each CTA's work was done, the report, and what was found; `text` is changed PTX."""
    kernel = weft.compile(source.replace("sm_100a", arch), arch=arch)
    if text is not None:
        kernel._module = emulator.Module(text)
    d, report = np.zeros((3, 32), np.int32), None
    try:
        report = kernel.emulate(d, seed=seed, max_instructions=200_000)
        found = report.findings
    except (emulator.Fault, emulator.Deadlock) as error:
        found = error.findings
    return d, report, {finding.rule for finding in found}


@pytest.mark.each_value(1)
@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize(("source", "arch"), [(KERNEL, "sm_100a"), (KERNEL, "sm_120f"), (ALONE, "sm_100")])
def test_the_work_of_each_cta_is_done_once(source, arch, seed):
    d, report, rules = add(source, arch, seed=seed)
    assert not rules
    assert (d == 1).all()
    # Some clusters were taken over, and some were not.
    started = report.counters["mbarrier.init"] // 4
    assert 0 < started < d.size


# A pattern of a step in the PTX, what replaces it, and the rules that report that.
LAST_WAIT = r"barrier\.cluster\.wait;(?![\s\S]*barrier\.cluster\.wait;)"
COUNT, BYTES = r"(mov\.b32 \t%r\d+, )6;", r"(mov\.b32 \t%r\d+, )16;"
FAULTS = {
    "readers of one CTA": (COUNT, r"\g<1>3;", {"shared-race"}),
    "readers of three CTAs": (COUNT, r"\g<1>9;", {"deadlock"}),
    "an answer for one CTA": (r"\.multicast::cluster::all", "", {"deadlock"}),
    "bytes of half an answer": (BYTES, r"\g<1>8;", {"deadlock"}),
    "bytes in one CTA": (r"(mapa\S+ \t%rd\d+, %rd\d+, )1;", r"\g<1>0;", {"mbarrier-count"}),
    "no wait for the answer": (r"@(%p\d+ bra\s+\S+;)(?=[^@]*ld\.shared\.v2)", r"@!\1", {"async-not-awaited"}),
    "an end before the answers": (LAST_WAIT, "", {"cluster-exit"}),
}


@pytest.mark.each_value(2)
@pytest.mark.sampled(3)
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_in_the_protocol_are_found(fault):
    pattern, new, rules = FAULTS[fault]
    text, count = re.subn(pattern, new, ptx())
    assert count
    assert rules <= add(text=text)[-1]


def test_a_cluster_needs_a_chip_that_answers_all_of_its_ctas():
    message = "expects a cluster of 1 CTA on this chip: clusterlaunchcontrol.try_cancel with .multicast"
    with pytest.raises(weft.WeftError, match=message):
        weft.compile(KERNEL.replace("sm_100a", "sm_100"))
