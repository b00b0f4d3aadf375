"""Signed and unsigned integers of `weft.language` on the GPU are those of NumPy."""

import language_integers
import numpy as np
import pytest
from gpu_marks import GPU, SM_90A, with_marks
from language_integers import NUMPY, TYPES, add_by_tma, edges, exact, product

import weft.language as w

pytestmark = GPU
WIDE = [w.u32, w.u64, w.i32, w.i64]


def on_gpu(kernel, *arrays):
    kernel(*arrays, on="gpu")


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_operators_are_those_of_numpy(dtype):
    assert not language_integers.differing_numbers(on_gpu, dtype)
    assert not language_integers.differing_tiles(on_gpu, dtype)


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_elements_are_changed_atomically(dtype):
    @w.kernel
    def kernel(x: w.In["m n", dtype], y: w.Out["3 m n", dtype], peak: w.Out["2", dtype]):
        with w.role():
            t = w.load(x[0, 0], (64, 8))
            for change, number in ((w.atomic_add, 0), (w.atomic_max, 1), (w.atomic_min, 2)):
                change(y[number, 0, 0], t)
            w.atomic_max(peak[0], x[w.thread() // 8, w.thread() % 8])
            w.atomic_min(peak[1], x[w.thread() // 8, w.thread() % 8])

    x, y = edges(dtype, (64, 8)), np.stack([edges(dtype, (64, 8), seed) for seed in (2, 3, 4)])
    given, peak = y.copy(), np.array([x[0, 0], x[0, 0]])
    on_gpu(kernel, x, y, peak)
    assert np.array_equal(y, [given[0] + x, np.maximum(given[1], x), np.minimum(given[2], x)])
    assert peak.tolist() == [x[:16].max(), x[:16].min()]


@with_marks(SM_90A)
@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_tma_adds_them(dtype):
    x, y = edges(dtype, (64, 16)), edges(dtype, (64, 16), 1)
    total = x + y
    add_by_tma(on_gpu, dtype, x, y)
    assert np.array_equal(y, total)


@pytest.mark.parametrize("of_b", [w.u8, w.i8], ids=str)
@pytest.mark.parametrize("of_a", [w.u8, w.i8], ids=str)
def test_bytes_are_multiplied(of_a, of_b):
    a, b = edges(of_a, (64, 256)), edges(of_b, (32, 256), 1)
    assert np.array_equal(product(on_gpu, a, b, of_a, of_b), exact(a, b))


@pytest.mark.parametrize("dtype", [w.u8, w.u16, w.u32, w.u64], ids=str)
def test_tensors_of_pytorch_are_read_and_written(dtype):
    torch = pytest.importorskip("torch")

    @w.kernel(grid=lambda x: w.ceil_div(x.rows, 128), threads=128)
    def halved(x: w.In["n", dtype], y: w.Out["n", dtype]):
        i = w.cta() * 128 + w.thread()
        if i < x.rows:
            y[i] = x[i] >> 1

    x = edges(dtype, 1000)
    given = torch.from_numpy(x).cuda()
    y = torch.zeros_like(given)
    for _ in range(2):  # the second call only fills in addresses
        halved(given, y)
    assert np.array_equal(y.cpu().numpy(), x >> NUMPY[dtype](1))
