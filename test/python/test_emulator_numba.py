"""Kernels that Numba compiled from test/emulator/numba without a GPU, against NumPy."""

import numpy as np
import pytest
from emulator_corpus import chips, module

everywhere = pytest.mark.parametrize("chip", chips("numba.axpy"))


def array(value):
    """What Numba passes of an array: two objects, its size, an item's, its data, shape and strides."""
    return [0, 0, value.size, value.itemsize, value, *value.shape, *value.strides]


def launch(name, chip, args, grid, block):
    loaded = module(f"numba.{name}", chip)
    (kernel,) = loaded.kernels
    report = loaded.launch(kernel, grid=grid, block=block, args=args)
    assert not report.findings, report.findings


def rng():
    return np.random.default_rng(3)


@everywhere
def test_axpy(chip):
    x, y = rng().standard_normal((2, 100)).astype(np.float32)
    want = np.float32(2.5) * x + y
    launch("axpy", chip, [*array(x), *array(y), 2.5], 2, 64)
    np.testing.assert_allclose(y, want, rtol=1e-6, atol=1e-6)


@everywhere
def test_matmul(chip):
    a, b = (
        rng().standard_normal((12, 20)).astype(np.float32),
        rng().standard_normal((20, 10)).astype(np.float32),
    )
    c = np.zeros((12, 10), np.float32)
    launch("matmul", chip, [*array(a), *array(b), *array(c)], (2, 2), (8, 8))
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)


@everywhere
def test_functions(chip):
    x = rng().standard_normal(64) * 3
    y = np.zeros_like(x)
    launch("functions", chip, [*array(x), *array(y)], 2, 32)
    want = np.sin(x) * np.exp(x) + np.sqrt(abs(x)) ** 1.5 + x // 2 + x % 3
    np.testing.assert_allclose(y, want, rtol=1e-13)


@everywhere
def test_sums_of_warps(chip):
    x, y = rng().integers(0, 100, 128, np.int32), np.zeros(2, np.int32)
    launch("warp_sum", chip, [*array(x), *array(y)], 2, 64)
    assert y.tolist() == [x.sum(), x.reshape(4, 32).sum(axis=1).max()]


@everywhere
def test_local_arrays(chip):
    x, y = rng().integers(0, 100, 64, np.int32), np.zeros(64, np.int32)
    launch("local", chip, [*array(x), *array(y)], 2, 32)
    for i in range(64):
        box = np.zeros(8, int)
        for j in range(8):
            box[(j * 3 + i) % 8] = x[(i + j) % 64]
        assert y[i] == int(sum(int(v) << 7 - j for j, v in enumerate(box)))
