"""Vectors of rows beside vectors of columns make tiles, in `weft.language`."""

import numpy as np
import pytest
from language_mistakes import Mistakes, refused

import weft
import weft.language as w

mistakes = Mistakes()


def clean(report):
    assert not report.findings, "\n".join(map(str, report.findings[:3]))


@w.kernel()
def distances(a: w.In["m", w.f32], b: w.In["n", w.f32], d: w.Out["m n", w.f32], *, M=64, N=40):
    """d[i, j] = |a[i] - b[j]|, with the sign of b[j] where a[i] is larger, by vectors alone."""
    with w.role():
        left, right = w.load_column(a[0], like=w.zeros(M)), w.load_row(b[0], like=w.zeros((1, N)))
        far = w.maximum(left - right, right - left)
        w.store(w.where(left > right, w.where(right < 0.0, -far, far), far), d[0, 0])


@pytest.mark.parametrize(
    "rows, arch", [(64, "sm_90a"), (128, "sm_100a"), pytest.param(128, "sm_80", marks=pytest.mark.slow)]
)
def test_vectors_of_rows_and_of_columns_make_a_tile(rows, arch):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(rows - 5).astype(np.float32), rng.standard_normal(37).astype(np.float32)
    d = np.zeros((rows - 5, 37), np.float32)
    clean(distances.emulate(a, b, d, M=rows, arch=arch))
    far = np.abs(a[:, None] - b)
    assert np.allclose(d, np.where((a[:, None] > b) & (b < 0), -far, far))


def test_a_condition_of_rows_chooses_among_columns():
    @w.kernel()
    def chosen(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
        with w.role():
            t = w.load(x[0, 0], (64, 32))
            w.store(w.where(w.sum(t, axis=1) > 0.0, w.max(t, axis=0), -1.0), y[0, 0])

    x = np.random.default_rng(0).integers(-9, 9, (64, 32)).astype(np.float32)
    y = np.zeros_like(x)
    clean(chosen.emulate(x, y))
    assert np.array_equal(y, np.where(x.sum(1)[:, None] > 0, x.max(0), -1))


def test_indices_of_rows_and_of_columns_gather_and_scatter():
    @w.kernel()
    def shuffled(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], z: w.Out["m n", w.f32]):
        with w.role():
            rows = 63 - w.row(w.zeros(64))
            columns = w.argmax(w.where(w.row(w.zeros((64, 32))) == 0, 1.0, 0.0), axis=0) + 3
            columns = columns + w.cumsum(w.full((1, 32), 1, w.i32))
            w.store(w.load(x[rows, columns]), y[rows, columns])
            w.atomic_add(z[rows, columns], 1.0)

    x = np.random.default_rng(0).standard_normal((50, 34)).astype(np.float32)
    y, z = np.zeros_like(x), np.zeros_like(x)
    clean(shuffled.emulate(x, y, z))
    z[:, 4:] -= 1
    assert np.array_equal(y[:, 4:], x[:, 4:]) and not y[:, :4].any() and not z.any()


@w.kernel()
def summed(x: w.In["m n", w.f32], y: w.Out["n", w.f32], z: w.Out["m", w.f32], *, N=32):
    """y = the sums of columns, and z = those of rows, of any number of rows."""
    with w.role():
        total, like = w.zeros((1, N)), w.zeros((64, N))
        for row in w.range(0, x.rows, 64):
            t = w.load(x[row, 0], (64, N))
            total += w.sum(t, axis=0)
            w.store_column(w.zeros((64, 1), like=like) + w.sum(t, axis=1), z[row])
        w.store_row(total + w.zeros((1, N), like=like), y[0])


def test_sums_of_columns_begin_with_a_vector_of_columns():
    x = np.random.default_rng(0).standard_normal((150, 30)).astype(np.float32)
    y, z = np.zeros(30, np.float32), np.zeros(150, np.float32)
    clean(summed.emulate(x, y, z))
    assert np.allclose(y, x.sum(0), atol=1e-4) and np.allclose(z, x.sum(1), atol=1e-4)


@mistakes(
    r"'total' was a fragment of 64 .* becomes a fragment of 64 x 32 .*: a vector of rows and one of col"
)
def rows_for_columns(x: w.In["m n", w.f32]):
    with w.role():
        total = w.zeros(64)
        for row in w.range(0, x.rows, 64):  # here
            total += w.sum(w.load(x[row, 0], (64, 32)), axis=0)


@mistakes(r"multiple of 64 rows .* got \(32,\): use \(64,\), .*; a vector of columns is \(1, 32\)$")
def few_rows(x: w.In["m n", w.f32]):
    with w.role():
        w.zeros(32)  # here


@mistakes(r"like must be a tile with 32 columns, got a fragment of 64 x 16 w\.f32$")
def a_tile_of_other_columns(x: w.In["m n", w.f32]):
    with w.role():
        w.zeros((1, 32), like=w.zeros((64, 16)))  # here


@mistakes(r"'peak' was the Python float 0\.0 and becomes .*: begin with w\.full\(\(1, 32\), 0\.0\)$")
def a_number_that_becomes_a_vector_of_columns(x: w.In["m n", w.f32], y: w.Out["n", w.f32]):
    with w.role():
        peak = 0.0
        for row in w.range(0, x.rows, 64):  # here
            peak = w.max(w.load(x[row, 0], (64, 32)), axis=0)
        w.store_row(peak, y[0])


@mistakes(
    r"shapes must be equal, or one that of a vector, got a fragment of 128 .* and a vector of 24 columns$"
)
def a_vector_of_another_layout(x: w.In["m n", w.f32]):
    with w.role():
        t = w.by_lanes(w.zeros((64, 64)))
        w.sum(t, axis=1) + w.zeros((1, 24))  # here


@mistakes(r"like must be a tile with columns, or a vector of columns, got a fragment of 64 w\.f32$")
def a_row_like_a_vector_of_rows(x: w.In["m n", w.f32]):
    with w.role():
        w.load_row(x[0, 0], like=w.zeros(64))  # here


@pytest.mark.parametrize("function, message", mistakes.cases)
def test_mistakes(function, message):
    refused(function, message)


def test_tiles_of_vectors_fit_registers():
    @w.kernel()
    def kernel(x: w.In["m", w.f32]):
        with w.role():
            w.zeros(64) + w.zeros((1, 512))

    with pytest.raises(weft.WeftError, match=r"a fragment of 64 x 512 w\.f32 needs 256 registers"):
        kernel.compile()
