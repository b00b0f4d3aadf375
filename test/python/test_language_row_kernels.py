"""The kernels of `benchmarks/language/row_kernels.py`, whose times `rows.py` measures."""

import runpy
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

KERNELS = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "language" / "row_kernels.py"))
EPSILON = KERNELS["EPSILON"]


def emulated(name, *args, **meta):
    assert not KERNELS[name].emulate(*args, **meta, arch="sm_90a").findings


def random(*shape):
    x = np.random.default_rng(sum(shape)).standard_normal(shape).astype(ml_dtypes.bfloat16)
    return x, x.astype(np.float64)


def near(got, want):
    got = got.astype(np.float64)
    return np.abs(got - want).max() <= 4e-3 * np.abs(want).max()


def normalized(x):
    x = x - x.mean(1, keepdims=True)
    return x / np.sqrt((x * x).mean(1, keepdims=True) + EPSILON)


@pytest.mark.parametrize(
    "name, meta",
    [
        ("layer_norm", {"N": 1024, "T": 128}),
        ("layer_norm", {"N": 512, "T": 128, "C": 2}),
        ("layer_norm_in_loops", {"N": 256, "T": 64, "C": 4, "G": 2}),
        ("layer_norm_of_tiles", {"N": 1024, "R": 4}),
    ],
)
def test_layer_norm(name, meta):
    (x, _), (gain, g), (bias, b) = random(5, 1000), random(1000), random(1000)
    x = (x.astype(np.float32) + 3).astype(x.dtype)
    y = np.zeros_like(x)
    emulated(name, x, gain, bias, y, **meta)
    assert near(y, normalized(x.astype(np.float64)) * g + b)


@pytest.mark.parametrize("name, meta", [("rms_norm", {"N": 512, "T": 128}), ("rms_norm_of_tiles", {"R": 8})])
def test_rms_norm(name, meta):
    (x, wide), (gain, g) = random(9, 500), random(500)
    y = np.zeros_like(x)
    emulated(name, x, gain, y, **{"N": 512, **meta})
    assert near(y, wide / np.sqrt((wide * wide).mean(1, keepdims=True) + EPSILON) * g)


@pytest.mark.parametrize(
    "name, n, meta",
    [
        ("layer_backward", 300, {"T": 128}),
        ("layer_backward", 700, {"T": 128, "C": 2}),
        ("layer_backward_of_tiles", 500, {"R": 4}),
    ],
)
def test_gradients_of_layer_norm(name, n, meta):
    (x, wide), (gain, g), (dy, d) = random(13, n), random(n), random(13, n)
    scale, h, e = 1 / np.sqrt(wide.var(1) + EPSILON), normalized(wide), d * g
    dx, parts = np.zeros_like(x), np.zeros((2, 8, n), np.float32)
    statistics = wide.mean(1).astype(np.float32), scale.astype(np.float32)
    emulated(name, x, *statistics, gain, dy, dx, parts, N=512, **meta)
    of_row = e - e.mean(1, keepdims=True) - h * (e * h).mean(1, keepdims=True)
    assert near(dx, of_row * scale[:, None])
    assert near(parts.sum(1), [(d * h).sum(0), d.sum(0)])


@pytest.mark.parametrize("heads", [16, 21])
def test_rotary_embedding(heads):
    (q, wide), (cos, c), (sin, s) = random(2, heads, 128), random(2, 1, 64), random(2, 1, 64)
    y, (a, b) = np.zeros_like(q), np.split(wide, 2, axis=2)
    emulated("rotary", q, cos[:, 0], sin[:, 0], y, H=16)
    assert near(y, np.concatenate([a * c - b * s, b * c + a * s], axis=2))


def test_transposed_cast():
    x, wide = random(208, 136)
    y, scale = np.zeros((136, 208), ml_dtypes.float8_e4m3fn), np.zeros((2, 2), np.float32)
    emulated("transposed_cast", x, y, scale)
    assert np.isclose(scale[1, 1] * 448, np.abs(wide[128:, 128:]).max())
    got = y.T.astype(np.float64) * np.kron(scale, np.ones((128, 128)))[:208, :136]
    assert np.abs(got - wide).max() <= 2**-4 * np.abs(wide).max()
    assert "st.shared.b8" not in KERNELS["transposed_cast"].compile(arch="sm_90a").ptx  # but two at once


@pytest.mark.parametrize("n, R, S", [(256, 16, 8), (200, 32, 1), (256, 32, 4)])
def test_top_k_takes_the_first_of_equal_elements(n, R, S):
    x = np.random.default_rng(0).standard_normal((21, n)).round(1).astype(np.float32)
    values, indices = np.zeros((21, 8), np.float32), np.zeros((21, 8), np.int32)
    emulated("top_k", x, values, indices, N=256, R=R, S=S)
    want = np.argsort(-x, axis=1, kind="stable")[:, :8]
    assert np.array_equal(indices, want)
    assert np.array_equal(values, np.take_along_axis(x, want, axis=1))
