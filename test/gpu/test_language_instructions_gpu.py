"""Orders of atomics, inline PTX, loops that are left, products of f64 and of sparse matrices, and copies of
rows in `weft.language`, on the GPU as in the emulator.
"""

import runpy
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from gpu_marks import GPU, with_marks

import weft.language as w

ROOT = Path(__file__).resolve().parents[2]
ON = {"on": "gpu"}

sys.path.insert(0, str(ROOT / "test" / "python"))
import test_language_f64 as doubles  # noqa: E402
import test_language_inline_ptx as inline  # noqa: E402
import test_language_loops as loops  # noqa: E402
import test_language_orders as orders  # noqa: E402
import test_language_row_copies as rows  # noqa: E402
import test_language_sparse as sparse  # noqa: E402

split_gemm = runpy.run_path(str(ROOT / "examples" / "language_signals.py"))["split_gemm"]


@with_marks(GPU)
@pytest.mark.parametrize(
    ("order", "scope"), [("relaxed", "gpu"), ("acquire", "sys"), ("release", None), (None, "sys")]
)
def test_atomics_of_each_order(order, scope):
    types = (np.int32, np.float32, np.uint64, ml_dtypes.bfloat16, np.float16)
    y, f, u, b, h = arrays = [np.zeros(8, each) for each in types]
    orders.each_atomic(*arrays, order=order, scope=scope, **ON)
    assert [*y] == [128, 58, -60, 255, 7, 7, 128, 0] and [*f[:2]] == [128, 63]
    assert [*u[:2]] == [256, 63] and b[0] == h[0] == 128


@with_marks(GPU)
def test_signals_are_set_to_0_again():
    a, b = (
        np.random.default_rng(0).standard_normal((n, 4000)).astype(ml_dtypes.bfloat16) for n in (200, 300)
    )
    done, results = np.zeros(16, np.int32), []
    for _ in range(20):
        d = np.full((200, 300), np.nan, np.float32)
        split_gemm(a, b, d, done, splits=8, **ON)
        assert np.allclose(d, a.astype(float) @ b.astype(float).T, atol=1e-2) and not done.any()
        results.append(d)
    assert all(np.array_equal(each, results[0]) for each in results)


@with_marks(GPU)
def test_inline_ptx():
    x, y = np.arange(1, 65, dtype=np.int32), np.zeros((6, 64), np.int32)
    inline.numbers(x, y, **ON)
    lane = np.arange(64) % 32
    wanted = [[n.bit_count() for n in map(int, x)], -x, -np.ones(64), np.repeat([2, 34], 32), lane, x]
    assert np.array_equal(y, wanted)


@with_marks(GPU)
def test_shuffles():
    @w.kernel(threads=64)
    def kernel(x: w.In["n", w.i32], y: w.Out["m n", w.i32]):
        i = w.thread()
        y[0, i], y[1, i] = w.shuffle(x[i], 3), w.shuffle(x[i], xor=5)
        y[2, i], y[3, i] = w.shuffle(x[i], up=2), w.shuffle(x[i].to(w.f64), down=4).to(w.i32)

    i, y = np.arange(64, dtype=np.int32), np.zeros((4, 64), np.int32)
    kernel(i, y, **ON)
    lane = i % 32
    assert np.array_equal(
        y, [i - lane + 3, i ^ 5, np.where(lane < 2, i, i - 2), np.where(lane > 27, i, i + 4)]
    )


@with_marks(GPU)
@pytest.mark.parametrize("by_while", [False, True])
def test_loops_are_left(by_while):
    x = np.random.default_rng(0).random((64, 20)).astype(np.float32)
    x[5] = 0.9
    found, total = np.zeros(64, np.int32), np.zeros(64, np.float32)
    loops.left(x, found, total, by_while=by_while, **ON)
    wanted = [loops.searched(row) for row in x]
    assert [*found] == [n for n, _ in wanted] and np.allclose(total, [s for _, s in wanted])


@with_marks(GPU)
@pytest.mark.parametrize(
    ("kernel", "k"),
    [(doubles.plain, 16), (doubles.by_warps, 4), (doubles.by_warps, 8), (doubles.in_flight, 16)],
)
def test_products_of_f64(kernel, k):
    a, b = (np.random.default_rng(0).standard_normal((n, 1000)) for n in (500, 700))
    d, wanted = np.full((500, 700), np.nan), a @ b.T + 64 * 64 * (kernel is doubles.in_flight)
    kernel(a, b, d, K=k, **ON)
    assert np.abs(d - wanted).max() < 1000 * 2**-50 * np.abs(wanted).max()


@with_marks(GPU)
@pytest.mark.parametrize("dtype", sparse.STORED, ids=str)
@pytest.mark.parametrize(("warpgroups", "k"), [(1, 64), (2, 128)])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_sparse_products(dtype, warpgroups, k, asynchronous):
    rng = np.random.default_rng(0)
    dense, b = (rng.integers(-3, 4, (n, 1024)).astype(sparse.STORED[dtype]) for n in (500, 700))
    a, meta, zeros = sparse.compressed(dense, rng)
    d = np.full((500, 700), 7, np.float32 if dtype.is_float else np.int32)
    sparse.product(dtype, warpgroups, asynchronous)(a, meta, b, d, K=k, **ON)
    assert np.array_equal(d, zeros.astype(float) @ b.astype(float).T)


@with_marks(GPU)
@pytest.mark.parametrize("dtype", rows.TYPES)
def test_copies_of_rows(dtype):
    rng = np.random.default_rng(0)
    x, index = rng.integers(1, 100, (2, 900, 192)).astype(dtype), rng.permutation(900)[:700].astype(np.int32)
    index[[3, 50, 60]] = -1, 900, 2**30
    has_row = (index >= 0) & (index < 900)
    y, z = np.full((2, 700, 192), 7, dtype), np.zeros_like(x)
    rows.gathered(x, index, y, C=64, **ON)
    wanted = np.zeros_like(y)
    wanted[:, has_row] = x[:, index[has_row]]
    assert np.array_equal(y, wanted)
    rows.scattered(y, index, z, C=64, **ON)
    wanted = np.zeros_like(z)
    wanted[:, index[has_row]] = y[:, has_row]
    assert np.array_equal(z, wanted)


@with_marks(GPU)
def test_gathered_rows_are_multiplied():
    rng = np.random.default_rng(0)
    x, b = (rng.integers(-3, 4, (n, 2000)).astype(ml_dtypes.bfloat16) for n in (500, 264))
    index, y = rng.integers(0, 500, 1000, dtype=np.int32), np.zeros((1000, 264), np.float32)
    rows.expert(x, index, b, y, **ON)
    assert np.array_equal(y, x[index].astype(float) @ b.T.astype(float))
