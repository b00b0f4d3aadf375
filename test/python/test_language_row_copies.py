"""Rows at indices that are copied to and from shared memory, 16 bytes of a lane at once."""

import re

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w

CHIPS = ["sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"]
TYPES = [np.float16, ml_dtypes.bfloat16, np.uint8, ml_dtypes.float8_e4m3fn, np.int32, np.float64]


@w.kernel(grid=lambda y, C: (w.ceil_div(y.rows, 64), w.ceil_div(y.columns, C), y.matrices))
def gathered(x: w.In["batch m n"], index: w.In["k", w.i32], y: w.Out["batch k n"], *, C):
    buffer, row, column, batch = w.shared(64, C, x.dtype), w.cta(0) * 64, w.cta(1) * C, w.cta(2)
    with w.role():
        rows = w.load_column(index[row], like=w.zeros((64, 64)), outside=-1)
        w.store(x[batch, rows, column], buffer)
        w.barrier()
        w.store(w.load(buffer), y[batch, row, column])


@w.kernel(grid=lambda x, C: (w.ceil_div(x.rows, 64), w.ceil_div(x.columns, C), x.matrices))
def scattered(x: w.In["batch k n"], index: w.In["k", w.i32], y: w.Out["batch m n"], *, C):
    buffer, row, column, batch = w.shared(64, C, x.dtype), w.cta(0) * 64, w.cta(1) * C, w.cta(2)
    with w.role():
        rows = w.load_column(index[row], like=w.zeros((64, 64)), outside=-1)
        w.store(w.load(x[batch, row, column], (64, C)), buffer)
        w.barrier()
        w.store(buffer, y[batch, rows, column])


@pytest.mark.each_value(2)
@pytest.mark.parametrize("arch", CHIPS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("columns", "tile"), [(192, 64), (80, 32), (96, 96)])
def test_rows_are_gathered_and_scattered(arch, dtype, columns, tile):
    rng = np.random.default_rng(0)
    x = rng.integers(1, 100, (2, 90, columns)).astype(dtype)
    index = rng.permutation(90)[:70].astype(np.int32)
    index[[3, 50, 60]] = -1, 90, 2**30  # of rows that there aren't
    has_row = (index >= 0) & (index < 90)
    y, z = np.full((2, 70, columns), 7, dtype), np.zeros_like(x)
    assert not gathered.emulate(x, index, y, arch=arch, C=tile).findings
    wanted = np.zeros_like(y)
    wanted[:, has_row] = x[:, index[has_row]]
    assert np.array_equal(y, wanted)
    assert not scattered.emulate(y, index, z, arch=arch, C=tile).findings
    wanted = np.zeros_like(z)
    wanted[:, index[has_row]] = y[:, has_row]
    assert np.array_equal(z, wanted)
    ptx = gathered.compile(x, index, y, arch=arch, C=tile).ptx
    assert re.search(r"cp\.async\.cg\.shared\.global \[[^,]*, \[[^,]*, 16, ", ptx)
    assert re.search(r"st\.global\.v[24]\.b(32|64)", scattered.compile(y, index, z, arch=arch, C=tile).ptx)


@w.kernel(grid=lambda y, N: (w.ceil_div(y.rows, 64), w.ceil_div(y.columns, N)))
def expert(
    x: w.In["m k", w.bf16],
    index: w.In["tokens", w.i32],
    b: w.In["n k", w.bf16],
    y: w.Out["tokens n", w.f32],
    *,
    N=64,
):
    """y = x[index] @ b.T: one role gathers rows of x, another copies b."""
    left, right = w.ring(2, a=(64, 64, w.bf16)), w.ring(2, b=(N, 64, w.bf16))
    row, column = w.cta(0) * 64, w.cta(1) * N
    with w.role():
        sums = w.zeros((64, N))
        for _ in w.range(0, x.columns, 64):
            with left.take() as x_stage, right.take() as b_stage:
                sums = w.wait(w.gemm(x_stage.a, b_stage.b.T, sums))
        w.store(sums, y[row, column])
    with w.role():
        rows = w.load_column(index[row], like=w.zeros((64, 64)), outside=-1)
        for k in w.range(0, x.columns, 64):
            with left.write() as stage:
                w.store(x[rows, k], stage.a)
    with w.role(), w.one_thread():
        for k in w.range(0, x.columns, 64):
            right.fill(b=b[column, k])


@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch", CHIPS)
@pytest.mark.parametrize("seed", [None, 1])
def test_gathered_rows_are_multiplied(arch, seed):
    rng = np.random.default_rng(0)
    x, b = (rng.integers(-3, 4, (rows, 200)).astype(ml_dtypes.bfloat16) for rows in (50, 72))
    index, y = rng.integers(0, 50, 100, dtype=np.int32), np.zeros((100, 72), np.float32)
    assert not expert.emulate(x, index, b, y, arch=arch, seed=seed).findings
    assert np.array_equal(y, x[index].astype(float) @ b.T.astype(float))


@w.kernel(grid=lambda y, N: (w.ceil_div(y.rows, 64), w.ceil_div(y.columns, N)))
def by_tma(
    x: w.In["m k", w.bf16],
    index: w.In["tokens", w.i32],
    b: w.In["n k", w.bf16],
    y: w.Out["tokens n", w.f32],
    *,
    N=64,
):
    ring, row, column = w.ring(2, a=(64, 64, w.bf16), b=(N, 64, w.bf16)), w.cta(0) * 64, w.cta(1) * N
    with w.role():
        sums = w.zeros((64, N))
        for _ in w.range(0, x.columns, 64):
            with ring.take() as stage:
                sums = w.wait(w.gemm(stage.a, stage.b.T, sums))
        w.store(sums, y[row, column])
    with w.role(), w.one_thread():
        for k in w.range(0, x.columns, 64):
            ring.fill(a=x.at_rows(index[row], k), b=b[column, k])


@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch", ["sm_100a", "sm_120a"])
@pytest.mark.parametrize("seed", [None, 1])
def test_tma_gathers_rows(arch, seed):
    rng = np.random.default_rng(0)
    x, b = (rng.integers(-3, 4, (rows, 200)).astype(ml_dtypes.bfloat16) for rows in (50, 72))
    index, y = rng.integers(0, 50, 100, dtype=np.int32), np.zeros((100, 72), np.float32)
    index[[5, 70]] = -1, 50  # of rows that there aren't
    assert not by_tma.emulate(x, index, b, y, arch=arch, seed=seed).findings
    wanted = x[index % 50].astype(float) @ b.T.astype(float)
    wanted[[5, 70]] = 0
    assert np.array_equal(y, wanted)
    assert ".tile::gather4." in by_tma.compile(arch=arch).ptx


@pytest.mark.parametrize("column", [0, 8, 16, 64])
def test_rows_are_copied_from_before_the_first_column(column):
    @w.kernel
    def kernel(x: w.In["m n", w.f16], y: w.Out["m n", w.f16], column: w.i32):
        buffer = w.shared(64, 32, w.f16)
        with w.role():
            rows = w.row(w.zeros(64))
            w.store(x[rows, column - 16], buffer)
            w.barrier()
            w.store(buffer, y[rows, column - 16])

    x = np.random.default_rng(0).integers(1, 9, (64, 64)).astype(np.float16)
    y, wanted, part = np.zeros_like(x), np.zeros_like(x), np.s_[:, max(column - 16, 0) : column + 16]
    assert not kernel.emulate(x, y, column, arch="sm_90a").findings
    wanted[part] = x[part]
    assert np.array_equal(y, wanted)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_chips_without_such_copies_say_what_to_do(arch):
    with pytest.raises(weft.WeftError, match=r"rows at indices on sm_100 or later, got .*: else"):
        by_tma.compile(arch=arch)


@pytest.mark.parametrize(
    ("arch", "dtype", "shape", "columns", "message"),
    [
        ("sm_75", w.f16, (64, 64), 64, "copies of rows need sm_80 or later, got sm_75"),
        ("sm_90a", w.f32, (64, 64), 64, "copies of rows don't round, as products of f32 need it"),
        ("sm_90a", w.f16, (128, 64), 64, "the buffer must have 64 rows, one for each row number"),
        (
            "sm_90a",
            w.f16,
            (64, 64),
            50,
            "parts of rows of 'x' must begin and end at multiples of 16 bytes to be copied",
        ),
    ],
)
def test_mistakes(arch, dtype, shape, columns, message):
    @w.kernel
    def kernel(x: w.In["m n", dtype], index: w.In["k", w.i32]):
        buffer = w.shared(*shape, dtype)
        with w.role():
            w.store(x[w.load_column(index[0], like=w.zeros((64, 64))), 0], buffer)

    x = np.zeros((64, columns), np.float16 if dtype == w.f16 else np.float32)
    with pytest.raises(weft.WeftError, match=re.escape(message)):
        kernel.compile(x, np.zeros(64, np.int32), arch=arch)


@pytest.mark.parametrize("columns", [False, True])
def test_rows_are_copied_at_vectors_only(columns):
    @w.kernel
    def kernel(x: w.In["m n", w.f16], *, columns):
        buffer = w.shared(64, 64, w.f16)
        with w.role():
            t = w.zeros((64, 64), w.i32)
            w.store(x[0, w.row(w.zeros(64))] if columns else x[t, w.column(t)], buffer)

    with pytest.raises(weft.WeftError, match=r"copied at a vector of row numbers, as x\[rows, column\]"):
        kernel.compile(columns=columns)
