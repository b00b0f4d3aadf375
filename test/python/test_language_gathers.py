"""Loads, stores and atomic operations at indices that fragments hold."""

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w


@w.kernel(grid=lambda index: w.ceil_div(index.rows, 64))
def gather(x: w.In["t n"], index: w.In["m", w.i32], y: w.Out["m n"], *, N=32):
    row = w.cta() * 64
    with w.role():
        rows = w.load_column(index[row], like=w.zeros(64))
        for j in w.range(0, x.columns, N):
            w.store(w.load(x[rows, j], (64, N)), y[row, j])


INDEX = np.random.default_rng(0).integers(-3, 33, 100).astype(np.int32)  # of 30 rows, some outside


@pytest.mark.each_value(2)
@pytest.mark.parametrize(
    "dtype, columns, load",
    [
        (np.float32, 72, "ld.global.v2"),
        (ml_dtypes.bfloat16, 72, "ld.global.b32"),
        (np.float16, 37, None),
        (ml_dtypes.float8_e4m3fn, 48, None),
    ],
)
def test_rows_are_gathered(dtype, columns, load):
    x = np.random.default_rng(1).standard_normal((30, columns)).astype(dtype)
    y = np.ones((100, columns), dtype)
    assert not gather.emulate(x, INDEX, y).findings
    inside = (INDEX >= 0) & (INDEX < 30)
    expected = np.where(inside[:, None], x[np.clip(INDEX, 0, 29)].astype(np.float32), 0)
    assert np.array_equal(y.astype(np.float32), expected)
    if load:  # what a lane has next to each other is loaded at once
        assert load in gather.compile(x, INDEX, y).ptx


@w.kernel(grid=lambda index: (w.ceil_div(index.rows, 64), 2))
def scatter(x: w.In["b m n", w.f16], index: w.In["m", w.i32], y: w.Out["b t n"], *, add=False):
    row, batch = w.cta(0) * 64, w.cta(1)
    with w.role():
        rows = w.load_column(index[row], like=w.zeros(64), outside=-1)
        t = w.load(x[batch, row, 0], (64, 48)).to(y.dtype)
        if add:
            w.atomic_add(y[batch, rows, 0], t)
        else:
            w.store(t, y[batch, rows, 0])


def test_rows_are_scattered():
    rng = np.random.default_rng(2)
    x, index = rng.standard_normal((2, 70, 48)).astype(np.float16), rng.permutation(80)[:70].astype(np.int32)
    y = np.zeros((2, 75, 48), np.float16)
    assert not scatter.emulate(x, index, y).findings
    expected, kept = np.zeros_like(y), index < 75
    expected[:, index[kept]] = x[:, kept]
    assert np.array_equal(y, expected)


def test_rows_are_added_to_rows():
    rng = np.random.default_rng(3)
    x, index = rng.integers(-4, 5, (2, 70, 48)).astype(np.float16), rng.integers(-1, 8, 70).astype(np.int32)
    y = np.zeros((2, 7, 48), np.float32)
    assert not scatter.emulate(x, index, y, add=True).findings
    expected, kept = np.zeros_like(y), (index >= 0) & (index < 7)
    np.add.at(expected, (slice(None), index[kept]), x[:, kept])
    assert np.array_equal(y, expected)


@w.kernel()
def looked_up(
    t: w.In["m n", w.i32],
    table: w.In["k", w.f32],
    y: w.Out["m n", w.f32],
    counts: w.Out["k", w.i32],
    first: w.Out["k", w.i32],
):
    with w.role():
        tile = w.load(t[0, 0], (64, 16), outside=-1)
        w.store(w.load(table[tile]) * 2.0, y[0, 0])
        w.atomic_add(counts[tile], 1)
        w.atomic_min(first[tile], w.row(tile) * 16 + w.column(tile))


def test_elements_are_looked_up_and_counted():
    rng = np.random.default_rng(4)
    t, table = rng.integers(-2, 12, (64, 16)).astype(np.int32), rng.standard_normal(10).astype(np.float32)
    y, counts, first = np.zeros((64, 16), np.float32), np.zeros(10, np.int32), np.full(10, 2000, np.int32)
    assert not looked_up.emulate(t, table, y, counts, first).findings
    inside = (t >= 0) & (t < 10)
    assert np.array_equal(y, np.where(inside, table[np.clip(t, 0, 9)] * 2, 0))
    assert np.array_equal(counts, np.bincount(t[inside], minlength=10))
    assert np.array_equal(first, [np.flatnonzero(t.ravel() == n)[0] for n in range(10)])


@w.kernel(threads=128)
def extremes(x: w.In["n", w.i32], y: w.Out["k", w.i32]):
    i = w.thread()
    if i < x.rows:
        w.atomic_max(y[0], x[i])
        w.atomic_min(y[1], x[i])


@w.kernel(grid=lambda pixels, **_: (w.ceil_div(pixels.rows, 64), 3))
def patches(x: w.In["b h w c"], pixels: w.In["m", w.i32], y: w.Out["m k c"], *, H=6, W=5, N=8):
    """Row m of y is a column of three neighbors of pixel m, as for a convolution."""
    first, tap = w.cta(0) * 64, w.cta(1)
    with w.role():
        pixel = w.load_column(pixels[first], like=w.zeros(64))
        image, line, column = pixel // (H * W), pixel // W % H, pixel % W
        for channel in w.range(0, x.size("c"), N):
            t = w.load(x[image, line + tap - 1, column, channel], (64, N))
            w.store(t, y[w.row(w.zeros(64)) + first, tap, channel])


@pytest.mark.parametrize("dtype, channels", [(np.float32, 16), (np.float16, 13)])
def test_tiles_are_loaded_and_stored_at_several_vectors(dtype, channels):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 6, 5, channels)).astype(dtype)
    pixels = rng.permutation(np.arange(-5, 95))[:70].astype(np.int32)  # of 90, some outside
    y = np.ones((70, 3, channels), dtype)
    report = patches.emulate(x, pixels, y)
    assert not report.findings, report.findings
    expected = np.zeros_like(y)
    for m, pixel in enumerate(pixels):
        image, line, column = pixel // 30, pixel // 5 % 6, pixel % 5
        for tap in range(3):
            if 0 <= image < 3 and 0 <= line + tap - 1 < 6:
                expected[m, tap] = x[image, line + tap - 1, column]
    assert np.array_equal(y, expected)


@w.kernel
def swapped_dimensions(x: w.In["m n", w.f32], y: w.Out["a b c d", w.f32], z: w.Out["a e f", w.f32]):
    with w.role():
        t, i = w.load(x[0, 0], (64, 8)), w.row(w.zeros(64))
        w.store(t, y[i % 4, i // 4 % 4, i // 16, 0])
        w.atomic_add(z[i % 4, 1, 3], t)
        w.atomic_add(z[i % 4, i // 4 % 2, 3], t)


def test_tiles_are_added_at_several_vectors():
    x = np.random.default_rng(0).integers(0, 9, (60, 8)).astype(np.float32)
    y, z = np.ones((4, 4, 3, 8), np.float32), np.zeros((4, 2, 9), np.float32)
    assert not swapped_dimensions.emulate(x, y, z).findings
    rows = np.concatenate([x, np.zeros((4, 8), np.float32)])
    assert np.array_equal(y, rows.reshape(4, 4, 4, 8).transpose(2, 1, 0, 3)[:, :, :3])
    expected = np.zeros_like(z)
    for i, row in enumerate(rows):
        expected[i % 4, 1, 3:] += row[:6]
        expected[i % 4, i // 4 % 2, 3:] += row[:6]
    assert np.array_equal(z, expected)


def test_maxima_and_minima_in_memory():
    x, y = np.random.default_rng(5).integers(-1000, 1000, 100).astype(np.int32), np.zeros(2, np.int32)
    assert not extremes.emulate(x, y).findings
    assert list(y) == [x.max(), x.min()]


def wrong(build):
    @w.kernel()
    def kernel(x: w.In["m n", w.f32], index: w.In["m", w.i32], y: w.Out["m n", w.f32]):
        with w.role():
            rows = w.load_column(index[0], like=w.zeros(64))
            build(x, rows, y)

    return kernel


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda x, rows, y: w.load(x[rows.to(w.f32), 0], (64, 8)), "fragments of indices must be of w.i32"),
        (
            lambda x, rows, y: w.load(x[rows, 0], (128, 8)),
            "shape must be .64, columns., as there are 64",
        ),
        (lambda x, rows, y: w.load(x[rows]), "'x' has 2 dimensions, got 1 indices"),
        (lambda x, rows, y: x[rows, 0] * 2.0, "load elements of the array 'x' at indices .* by w.load first"),
        (lambda x, rows, y: w.load(x[rows, rows], (64, 8)), "shape and like are for tiles"),
        (lambda x, rows, y: w.store(rows, x[rows, 0]), "'x' must be a w.Out argument"),
        (lambda x, rows, y: y.__setitem__((rows, 0), 1.0), "at indices of a fragment are stored by w.store"),
    ],
)
def test_wrong_indices(build, message):
    with pytest.raises(weft.WeftError, match=message):
        wrong(build).compile()


@w.kernel(grid=2)
def columns_of_a_matrix(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
    row = w.cta() * 64
    with w.role():
        rows = w.row(w.zeros(64)) + row
        for i in w.range(3):
            w.store(w.load(x[rows, i]), y[rows, 2 - i])


def test_vectors_are_columns_of_a_matrix():
    x = np.random.default_rng(0).standard_normal((100, 3)).astype(np.float32)
    y = np.zeros_like(x)
    assert not columns_of_a_matrix.emulate(x, y).findings
    assert np.array_equal(y, x[:, ::-1])


def test_tiles_are_stored_transposed():
    @w.kernel(grid=2)
    def kernel(x: w.In["m n", w.f16], y: w.Out["n m", w.f16]):
        row = w.cta() * 64
        with w.role():
            t = w.load(x[row, 0], (64, 48))
            w.store(t, y[w.column(t), w.row(t) + row])

    x = np.random.default_rng(0).standard_normal((100, 45)).astype(np.float16)
    y = np.zeros((45, 100), np.float16)
    assert not kernel.emulate(x, y).findings
    assert np.array_equal(y, x.T)
