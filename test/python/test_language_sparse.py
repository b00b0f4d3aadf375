"""Products of a sparse A, of which two in four elements are stored, by `mma.sp`."""

import re

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w

STORED = {w.f16: np.float16, w.bf16: ml_dtypes.bfloat16, w.e4m3: ml_dtypes.float8_e4m3fn, w.i8: np.int8}
SUMS = {w.i8: w.i32}


def compressed(dense, rng):
    """Two random elements of each four, the metadata that selects them, and the matrix without the others."""
    fours = dense.reshape(len(dense), -1, 4)
    kept = np.sort(rng.permuted(np.broadcast_to(np.arange(4), fours.shape), axis=2)[..., :2], axis=2)
    values, sparse = np.take_along_axis(fours, kept, 2), np.zeros_like(fours)
    np.put_along_axis(sparse, kept, values, 2)
    chunks = (kept[..., 0] | kept[..., 1] << 2).reshape(len(dense), -1, 4)
    words = sum(chunks[..., n] << 4 * n for n in range(4)).astype(np.uint16)
    return values.reshape(len(dense), -1), words, sparse.reshape(dense.shape)


def product(dtype, warpgroups, asynchronous):
    @w.kernel(grid=lambda d: (w.ceil_div(d.rows, 64 * warpgroups), w.ceil_div(d.columns, 48)))
    def kernel(
        a: w.In["m half", dtype],
        meta: w.In["m words", w.u16],
        b: w.In["n k", dtype],
        d: w.Out["m n", SUMS.get(dtype, w.f32)],
        *,
        K=64,
    ):
        ring = w.ring(2, takers=warpgroups, a=(64 * warpgroups, K // 2, dtype), b=(48, K, dtype))
        row, column = w.cta(0) * (64 * warpgroups), w.cta(1) * 48
        with w.role(warpgroups=warpgroups) as me:
            sums, mine = w.zeros((64, 48), SUMS.get(dtype, w.f32)), 64 * me
            for k in w.range(0, b.columns, K):
                with ring.take() as stage:
                    operands = stage.a.rows(mine, 64), stage.b.T, sums
                    if asynchronous:
                        sums = w.wait(w.gemm(*operands, metadata=meta[row + mine, k // 16]))
                    else:
                        sums = w.warp_gemm(*operands, metadata=meta[row + mine, k // 16])
            w.store(sums, d[row + mine, column])
        with w.role(), w.one_thread():
            for k in w.range(0, b.columns, K):
                ring.fill(a=a[row, k // 2], b=b[column, k])

    return kernel


@pytest.mark.each_value(2)
@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("dtype", STORED, ids=str)
@pytest.mark.parametrize(("warpgroups", "k"), [(1, 64), (2, 128)])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_metadata_selects_the_elements_of_b(arch, dtype, warpgroups, k, asynchronous):
    if dtype == w.e4m3 and arch == "sm_80":
        pytest.skip("which has no products of e4m3")
    rng = np.random.default_rng(0)
    dense, b = (rng.integers(-3, 4, (rows, 256)).astype(STORED[dtype]) for rows in (100, 72))
    a, meta, sparse = compressed(dense, rng)
    kernel = product(dtype, warpgroups, asynchronous)
    d = np.full((100, 72), 7, np.float32 if dtype.is_float else np.int32)
    assert not kernel.emulate(a, meta, b, d, K=k, arch=arch).findings
    assert np.array_equal(d, sparse.astype(float) @ b.astype(float).T)
    shape = "m16n8k32" if dtype.bits == 16 else "m16n8k64"
    assert f"mma.sp::ordered_metadata.sync.aligned.{shape}" in kernel.compile(K=k, arch=arch).ptx


def test_dense_and_sparse_products_are_waited_for_together():
    @w.kernel
    def kernel(
        a: w.In["m half", w.f16], meta: w.In["m words", w.u16], b: w.In["n k", w.f16], d: w.Out["m n", w.f32]
    ):
        left, right = w.shared(64, 64, w.f16), w.shared(64, 128, w.f16)
        with w.role():
            w.store(w.load(a[0, 0], (64, 64)), left)
            w.store(w.load(b[0, 0], (64, 128)), right)
            w.fence()
            w.barrier()
            dense, sparse = w.gemm(left, left.T), w.gemm(left, right.T, metadata=meta[0, 0])
            dense, sparse = w.wait(dense, sparse)
            w.store(dense + sparse, d[0, 0])

    rng = np.random.default_rng(0)
    dense, b = (rng.integers(-3, 4, (64, 128)).astype(np.float16) for _ in range(2))
    a, meta, sparse = compressed(dense, rng)
    for arch in ("sm_80", "sm_90a", "sm_100a"):
        d = np.zeros((64, 64), np.float32)
        assert not kernel.emulate(a, meta, b, d, arch=arch).findings
        assert np.array_equal(
            d, a.astype(float) @ a.T.astype(float) + sparse.astype(float) @ b.T.astype(float)
        )


@pytest.mark.parametrize(
    ("dtype", "depth", "arch", "message"),
    [
        (w.f16, 64, "sm_75", "sparse products of w.f16 and w.f16 need sm_80 or later, got sm_75"),
        (w.e4m3, 128, "sm_80", "sparse products of w.e4m3 and w.e4m3 need sm_89 or later, got sm_80"),
        (w.f32, 64, "sm_90a", "a of a sparse product must be of w.f16, w.bf16, w.e4m3"),
        (w.f16, 32, "sm_90a", "b of a sparse product must have a multiple of 64 rows, got 32"),
        (w.f16, 128, "sm_90a", "a has 64 columns with its zeros and b has 128 rows"),
        (w.f16, 64, "data", "metadata must be an element of a matrix of w.u16"),
    ],
)
def test_mistakes(dtype, depth, arch, message):
    @w.kernel
    def kernel(meta: w.In["m words", w.u16], data: w.In["m k", w.f16], d: w.Out["m n", w.f32]):
        left = w.shared(64, 32 if message.startswith("a has") else depth // 2, dtype)
        right = w.shared(64, depth, dtype)
        with w.role():
            words = data[0, 0] if arch == "data" else meta[0, 0]
            w.store(w.wait(w.gemm(left, right.T, metadata=words)), d[0, 0])

    with pytest.raises(weft.WeftError, match=re.escape(message)):
        kernel.compile(arch="sm_90a" if arch == "data" else arch)
