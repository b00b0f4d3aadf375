"""Each rung from the ten plain lines to the tuned product (docs/ladder.md) computes the same product."""

import importlib.util
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("ladder", ROOT / "benchmarks" / "language" / "ladder.py")
ladder = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(ladder)
PAGE = (ROOT / "docs" / "ladder.md").read_text(encoding="utf-8")


@pytest.mark.each_value(1)
@pytest.mark.parametrize("rung", ladder.RUNGS, ids=lambda rung: rung.__name__)
def test_each_rung_is_the_product(rung):
    m, n, k = 1300, 300, 136  # 24 tiles for the emulator's 8 CTAs, in two bands, with parts at the edges
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))
    d = np.full((m, n), np.nan, ml_dtypes.bfloat16)
    assert not rung.emulate(a, b, d, arch="sm_90a").findings
    wanted = a.astype(float) @ b.astype(float).T
    assert np.abs(d.astype(float) - wanted).max() <= ladder.TOLERANCE * np.abs(wanted).max()
    assert rung.compile(arch="sm_90a").resources.spill_stores == 0
    assert f"| `{rung.__name__}` |" in PAGE
