"""Gathers, scatters, atomic maxima and what users of Triton expect, on the GPU and in the emulator alike."""

import importlib.util
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import test_language_gathers as gathers
import test_language_users as users
from gpu_marks import GPU, SM_90A, with_marks

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def rng():
    """Random numbers that are the same in whatever order tests run."""
    return np.random.default_rng(0)


def alike(kernel, *arguments, **meta):
    """The kernel's results on the GPU, which must be those of the emulator."""
    here, there = ([np.array(each) for each in arguments] for _ in range(2))
    kernel(*here, **meta, on="emulator")
    kernel(*there, **meta, on="gpu")
    for one, other in zip(here, there, strict=True):
        assert np.array_equal(one.view(np.uint8), other.view(np.uint8))


@with_marks(GPU)
@pytest.mark.parametrize("columns", [72, 37])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_rows_are_gathered(rng, dtype, columns):
    x = rng.standard_normal((30, columns)).astype(dtype)
    alike(gathers.gather, x, gathers.INDEX, np.ones((100, columns), dtype))


@with_marks(GPU)
@pytest.mark.parametrize("add", [False, True])
def test_rows_are_scattered(rng, add):
    x, index = rng.integers(-4, 5, (2, 70, 48)).astype(np.float16), rng.permutation(80)[:70].astype(np.int32)
    alike(gathers.scatter, x, index, np.zeros((2, 75, 48), np.float32 if add else np.float16), add=add)


@with_marks(GPU)
def test_elements_are_looked_up_and_counted(rng):
    t, table = rng.integers(-2, 12, (64, 16)).astype(np.int32), rng.standard_normal(10).astype(np.float32)
    y, counts, first = np.zeros((64, 16), np.float32), np.zeros(10, np.int32), np.full(10, 2000, np.int32)
    alike(gathers.looked_up, t, table, y, counts, first)
    alike(gathers.extremes, rng.integers(-1000, 1000, 100).astype(np.int32), np.zeros(2, np.int32))


@with_marks(GPU)
def test_grids_of_products_and_indices_of_extremes(rng):
    x = rng.standard_normal((2, 3, 70, 36)).astype(np.float32)
    alike(users.doubled, x, np.zeros_like(x))
    x = rng.integers(-9, 9, (64, 24)).astype(np.float32)
    across, down, least = (np.zeros(n, np.int32) for n in (64, 24, 64))
    y = np.zeros_like(x)
    users.searched(x, across, down, least, y, on="gpu")
    assert np.array_equal(across, x.argmax(1)) and np.array_equal(down, x.argmax(0))
    assert np.array_equal(least, x.argmin(1)) and np.isfinite(y).all()


@with_marks(SM_90A)
def test_the_kernels_of_the_page_for_users_of_triton(tmp_path):
    torch = pytest.importorskip("torch")
    page = (ROOT / "docs" / "triton.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    program = tmp_path / "page.py"
    program.write_text("\n".join(blocks))
    spec = importlib.util.spec_from_file_location("page", program)
    with torch.device("cuda"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
