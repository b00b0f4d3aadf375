"""Rings of the two CTAs of a pair, in the emulator: what they compute, and faults in their protocol."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import weft
from weft import emulator

PRODUCT = (Path(__file__).parent / "data" / "tcgen05_pair.mlir").read_text()


@cache
def ptx():
    return weft.compile(PRODUCT, arch="sm_100a").ptx


def multiply(text=None, seed=None):
    """A * B^T, what `PRODUCT` computed, and the findings; `text` is changed PTX."""
    kernel = weft.compile(PRODUCT, arch="sm_100a")
    if text is not None:
        kernel._module = emulator.Module(text)
    chance = np.random.default_rng(0)
    a, b = (chance.integers(-4, 5, (rows, 192)).astype(np.float16) for rows in (512, 64))
    d = np.full((512, 64), np.nan, np.float32)
    try:
        found = kernel.emulate(a, b, d, seed=seed, max_instructions=50_000).findings
    except (emulator.Fault, emulator.Deadlock) as error:
        found = error.findings
    return a.astype(np.float32) @ b.T.astype(np.float32), d, {finding.rule for finding in found}


@pytest.mark.parametrize("seed", [None, 1])
def test_a_pair_multiplies_what_both_of_its_ctas_copied(seed):
    wanted, d, rules = multiply(seed=seed)
    assert not rules
    assert (d == wanted).all()


# A pattern of a step in the PTX, what replaces it, and the rules that report that.
LAST_WAIT = r"barrier\.cluster\.wait;(?![\s\S]*barrier\.cluster\.wait;)"
BYTES = r"(mov\.b32 \t%r\d+, )40960;"
MASK, COUNT = r"(mov\.b16 \t%rs\d+, )3;", r"(mov\.b32 \t%r\d+, )8;"
FAULTS = {
    "a commit to the leader alone": (MASK, r"\g<1>1;", {"deadlock"}),
    "a commit to the peer alone": (MASK, r"\g<1>2;", {"deadlock"}),
    "bytes of one CTA": (BYTES, r"\g<1>20480;", {"deadlock"}),
    "bytes of three CTAs": (BYTES, r"\g<1>61440;", {"deadlock"}),
    "arrivals of one CTA": (COUNT, r"\g<1>4;", {"deadlock"}),
    "arrivals of three CTAs": (COUNT, r"\g<1>12;", {"deadlock"}),
    "copies that signal their own CTA": (", 4278190072;", ", 4294967288;", {"deadlock"}),
    "copies of single CTAs to the leader's barrier": (r"\.cta_group::2 \[%rd", " [%rd", {"fault"}),
    "releases to the own CTA": (
        r"mapa\.shared::cluster\.u64 \t(%rd\d+), (%rd\d+), 0;",
        r"mov.b64 \1, \2;",
        {"deadlock"},
    ),
    "no wait for the loads": (r"tcgen05\.wait::ld\.sync\.aligned;", "", {"tmem-race"}),
    "no wait for the peer": (LAST_WAIT, "", {"cluster-exit", "tmem-race"}),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_in_the_protocol_of_a_pair_are_found(fault):
    pattern, new, rules = FAULTS[fault]
    text, count = re.subn(pattern, new, ptx())
    assert count
    assert rules <= multiply(text)[-1]
