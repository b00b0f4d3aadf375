"""The example of products in tensor memory."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import weft

EXAMPLES = Path(__file__).parents[2] / "examples"


def load():
    spec = importlib.util.spec_from_file_location("tcgen05_gemm", EXAMPLES / "tcgen05_gemm.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.each_value(1)
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "ctas", "arch"),
    [
        ("mxfp8", 1, "sm_110a"),
        ("nvfp4", 2, "sm_100a"),
        ("mxfp8", 2, "sm_100a"),
        ("f16", 1, "sm_90a"),
        ("f16", 2, "sm_100a"),
        ("f16", 1, "sm_103a"),
        ("nvfp4", 1, "sm_103a"),
    ],
)
def test_the_example_multiplies(name, ctas, arch):
    d, wanted, ptx, report = load().multiply(name, ctas, arch)
    assert not report.findings
    assert np.abs(d - wanted).max() < 1e-6 * np.abs(wanted).max()
    assert f"cta_group::{ctas}" in ptx or arch == "sm_90a"


@pytest.mark.slow  # only the message of a finding
def test_an_early_end_is_blamed_on_the_unit_that_signals_later():
    text = (EXAMPLES / "tcgen05_gemm.mlir").read_text()
    wait = '"tile.await"(%multiplied, %c0, %c0) : (!Ring, i32, i32) -> ()'
    assert wait in text
    a, d = np.ones((128, 64), np.float16), np.zeros((128, 128), np.float32)
    findings = weft.compile(text.replace(wait, "")).emulate(a, a, d).findings
    (message,) = (f.message for f in findings if f.rule == "cluster-exit")
    assert "is signaled by an asynchronous unit, and nothing orders the end of its own CTA" in message


def test_its_file_multiplies_the_same():
    rng = np.random.default_rng(1)
    a, b = rng.integers(-4, 5, (2, 128, 64)).astype(np.float16)
    d = np.full((128, 128), np.nan, np.float32)
    report = weft.compile(EXAMPLES / "tcgen05_gemm.mlir").emulate(a, b, d)
    assert not report.findings
    assert np.array_equal(d, a.astype(np.float32) @ b.T.astype(np.float32))
