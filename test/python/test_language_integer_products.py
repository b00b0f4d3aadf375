"""Products of signed and unsigned bytes, on all ways to tensor cores."""

import numpy as np
import pytest
from language_integers import NUMPY, emulate, exact, product

import weft.language as w

_RNG = np.random.default_rng(0)
BYTES = [w.u8, w.i8]


def matrix(dtype, *shape):
    limits = np.iinfo(NUMPY[dtype])
    return _RNG.integers(limits.min, limits.max + 1, shape).astype(NUMPY[dtype])


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("of_b", BYTES, ids=str)
@pytest.mark.parametrize("of_a", BYTES, ids=str)
@pytest.mark.each_value(2)
def test_buffers_are_multiplied(of_a, of_b, chip):
    a, b = matrix(of_a, 64, 128), matrix(of_b, 32, 128)
    assert np.array_equal(product(emulate, a, b, of_a, of_b, chip), exact(a, b))


@pytest.mark.each_value(1)
@pytest.mark.parametrize("of_a, of_b", [(w.u8, w.u8), (w.u8, w.i8)], ids=str)
def test_a_fragment_is_multiplied_by_wgmma(of_a, of_b):
    @w.kernel(arch="sm_90a")
    def kernel(a: w.In["m 64", w.i32], b: w.In["64 n", of_b], d: w.Out["m n", w.i32]):
        stored = w.ring(1, b=(64, 64, of_b))
        turned = w.ring(1, b=(64, 64, of_b))
        with w.role():
            t = w.interleaved(w.load(a[0, 0], (64, 64))).to(of_a)
            with turned.take() as right:
                w.store(w.wait(w.gemm(t, right.b.T)), d[0, 0])
        with w.role(), stored.take() as source, turned.write() as target:
            w.transpose(source.b, target.b, interleaved=True)
        with w.role(), w.one_thread():
            stored.fill(b=b[0, 0])

    a, b, d = matrix(of_a, 64, 64), matrix(of_b, 64, 64), np.zeros((64, 64), np.int32)
    assert not kernel.emulate(a.astype(np.int32), b, d).findings
    assert np.array_equal(d, exact(a, b.T))
