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


def test_its_file_multiplies_the_same():
    rng = np.random.default_rng(1)
    a, b = rng.integers(-4, 5, (2, 128, 64)).astype(np.float16)
    d = np.full((128, 128), np.nan, np.float32)
    report = weft.compile(EXAMPLES / "tcgen05_gemm.mlir").emulate(a, b, d)
    assert not report.findings
    assert np.array_equal(d, a.astype(np.float32) @ b.T.astype(np.float32))
