"""Triton's kernels in sizes of several tiles and a part of one, against NumPy. All sizes are multiples of 16,
for which the kernels are specialized.
"""

import numpy as np
import pytest
from test_emulator_triton import KINDS, compiled, launch

pytestmark = pytest.mark.slow


@compiled(*KINDS)
def test_products(name, chip):
    kind, out = KINDS[name]
    m, n, k = 336, 272, 208
    rng = np.random.default_rng(31)
    a, b = (rng.integers(-8, 9, shape).astype(kind) for shape in ((m, k), (k, n)))
    c = np.zeros((m, n), out)
    launch(name, chip, [a, b, c, m, n, k, k, n, n], (6, 5))
    want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(c, want.astype(out))


@compiled("softmax")
def test_softmax(name, chip):
    x = np.random.default_rng(32).standard_normal((67, 240)).astype(np.float32)
    y = np.zeros_like(x)
    launch(name, chip, [x, y, 240, 240], 67)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(axis=1, keepdims=True), rtol=1e-5)


@compiled("layer_norm")
def test_layer_norm(name, chip):
    rng = np.random.default_rng(33)
    x, w = rng.standard_normal((67, 240)).astype(np.float16), rng.standard_normal(240).astype(np.float32)
    y = np.zeros_like(x)
    launch(name, chip, [x, w, y, 240], 67)
    v = x.astype(np.float64)
    centred = v - v.mean(axis=1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * w
    np.testing.assert_allclose(y, want, rtol=2e-3, atol=1e-3)


@compiled("attention")
def test_attention(name, chip):
    q, k, v = (np.random.default_rng(34).standard_normal((3, 320, 64)) * 0.5).astype(np.float16)
    o = np.zeros_like(q)
    launch(name, chip, [q, k, v, o, 0.125, 320], 5)
    q, k, v = (t.astype(np.float64) for t in (q, k, v))
    p = np.exp2(q @ k.T * 0.125)
    np.testing.assert_allclose(o, p / p.sum(axis=1, keepdims=True) @ v, rtol=2e-2, atol=2e-3)


@compiled("persistent_matmul", "persistent_matmul_ws")
def test_persistent_products(name, chip):
    m, n, k = 656, 336, 208
    rng = np.random.default_rng(35)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (n, k)))
    c = np.zeros((m, n), np.float16)
    launch(name, chip, [a, b, c, m, n, k], 2)
    np.testing.assert_array_equal(c, (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float16))
