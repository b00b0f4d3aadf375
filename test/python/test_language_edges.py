"""Tiles and vectors that begin before the first row or column of an array: `x[row - 1, column - 1]`."""

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w


def clean(report):
    assert not report.findings, "\n".join(map(str, report.findings[:3]))


@w.kernel(grid=lambda x: (w.ceil_div(x.rows, 64), w.ceil_div(x.columns, 32)))
def stencil(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], border: w.f32):
    """The sums of four neighbors; those of the first and last rows and columns have the border's value."""
    row, column = w.cta(0) * 64, w.cta(1) * 32
    with w.role():
        sums = w.zeros((64, 32))
        for down, across in ((-1, 0), (1, 0), (0, -1), (0, 1)):
            sums += w.load(x[row + down, column + across], (64, 32), outside=border)
        w.store(sums, y[row, column])


@pytest.mark.each_value(2)
@pytest.mark.parametrize("shape", [(1, 1), (70, 40), (64, 33)])
@pytest.mark.parametrize("border", [0.0, 2.5])
def test_neighbors_on_all_sides(shape, border):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    y, p = np.zeros_like(x), np.pad(x, 1, constant_values=border)
    clean(stencil.emulate(x, y, border))
    assert np.allclose(y, p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:], atol=1e-5)


@w.kernel(grid=6)
def quotients(x: w.In["m n", w.f32], y: w.Out["b m n", w.f32]):
    """y[b, i] = x[b // 2 + 1 + i], from two sums of neighbors."""
    first = w.cta() // 2
    with w.role():
        sums = w.zeros((64, 8))
        for by in w.range(-1, 2, 2):
            sums += w.load(x[first + by, 0], (64, 8))
        w.store(sums - w.load(x[first - 1, 0], (64, 8)), y[w.cta(), 0, 0])


def test_quotients_and_loops_that_begin_below_0():
    x = np.arange(1, 513, dtype=np.float32).reshape(64, 8)
    y, p = np.zeros((6, 64, 8), np.float32), np.pad(x, ((1, 64), (0, 0)))
    clean(quotients.emulate(x, y))
    assert np.array_equal(y, [p[b // 2 + 2 : b // 2 + 66] for b in range(6)])


@w.kernel(grid=2)
def shifted(x: w.In["b m n"], y: w.Out["b m n"], z: w.Out["b m n"], *, by, rows=None):
    """y[1, i, j] = x[1, i - by, j - by], and z the other way around."""
    row = w.cta() * 64
    with w.role():
        w.store(w.load(x[1, row - by, -by + row], (64, 64)), y[1, row, row])
        w.store(w.load(x[1, row, row], (64, 64)), z[1, row - by, row - by], rows=rows)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int8])
@pytest.mark.parametrize("by, columns", [(3, 100), (16, 128)])
def test_tiles_of_batches_and_of_any_type(dtype, by, columns):
    x = np.random.default_rng(0).integers(-99, 99, (2, 90, columns)).astype(dtype)
    y, z = np.zeros_like(x), np.zeros_like(x)
    clean(shifted.emulate(x, y, z, by=by))
    expected, back = np.zeros_like(x[1]), np.zeros_like(x[1])
    for start in (0, 64):
        for i in range(start, min(start + 64, 90)):
            for j in range(start, min(start + 64, columns)):
                if i >= by and j >= by:
                    expected[i, j] = x[1, i - by, j - by]
                    back[i - by, j - by] = x[1, i, j]
    assert np.array_equal(y[1], expected) and np.array_equal(z[1], back)
    assert not y[0].any() and not z[0].any()


@pytest.mark.slow
def test_rows_of_a_tile_that_begins_before_the_array():
    x = np.arange(1, 2 * 64 * 64 + 1).reshape(2, 64, 64).astype(np.float32)
    y, z = np.zeros_like(x), np.zeros_like(x)
    clean(shifted.emulate(x, y, z, by=3, rows=10, grid=(1, 1, 1)))
    expected = np.zeros_like(x[1])
    expected[:7, :61] = x[1, 3:10, 3:]
    assert np.array_equal(z[1], expected)


@w.kernel(grid=2)
def vectors(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], sums: w.Out["m n", w.f32]):
    i = w.cta() * 64
    with w.role():
        t = w.zeros((64, 32))
        across, down = w.load_row(x[0, i - 2], like=t), w.load_column(x[1, i - 2], like=t)
        part = w.load(x[2, i - 4], 512)
        if w.cta() == 0:
            w.store_row(across, y[0, i - 1])
            w.store_column(down, y[1, i - 1])
            w.store(part, y[2, i - 8])
            w.atomic_add(sums[0, i - 2], across)
            w.atomic_add(sums[1, i - 1], t + 1.0)


def test_vectors_that_begin_before_the_array():
    x = np.random.default_rng(0).standard_normal((4, 600)).astype(np.float32)
    y, sums = np.zeros_like(x), np.zeros_like(x)
    clean(vectors.emulate(x, y, sums))
    padded = np.pad(x, ((0, 0), (4, 0)))
    expected = np.zeros_like(x)
    expected[0, :31] = padded[0, 3:34]
    expected[1, :63] = padded[1, 3:66]
    expected[2, :504] = padded[2, 8:512]
    assert np.array_equal(y, expected)
    added = np.zeros_like(x)
    added[0, :30] = padded[0, 4:34]
    added[1:, :31] = 1
    assert np.allclose(sums, added)


@w.kernel(grid=lambda x: x.rows)
def of_other_rows(x: w.In["m n", w.f32], y: w.Out["k m n", w.f32], border: w.f32):
    row = w.cta()
    with w.role():
        w.store(w.load(x[row - 1], 512, outside=border) + w.load(x[row + 1, 1], 512), y[0, row])
        like = w.zeros((64, 64))
        w.store_row(w.load_row(x[row - 1, 0], like=like), y[1, row, 0])
        w.store_column(w.load_column(x[row + 1, 2], like=like, outside=border), y[2, row, 0])
        w.store(w.load(x[row], 512), y[3, row - 1])
        w.store_row(w.load_row(x[row, 0], like=like), y[4, row + 1, 0])
        w.atomic_add(y[5, row - 1, 0], w.load_row(x[row, 0], like=like))


@pytest.mark.slow
def test_vectors_of_rows_that_an_array_lacks_are_outside():
    x = np.random.default_rng(0).standard_normal((3, 60)).astype(np.float32)
    found = np.zeros((6, 5, 60), np.float32)  # with rows before and after that must stay 0
    clean(of_other_rows.emulate(x, found[:, 1:-1], 7.0))
    y, padded, bordered = found[:, 1:-1], np.pad(x, 1), np.pad(x, 1, constant_values=7)
    assert np.allclose(y[0], bordered[:-2, 1:-1] + padded[2:, 2:])
    assert np.array_equal(y[1], padded[:-2, 1:-1])
    below = np.pad(x, ((0, 1), (0, 6)), constant_values=7)[1:, 2:62]
    assert np.array_equal(y[2], below)
    assert np.array_equal(y[3], padded[2:, 1:-1]) and np.array_equal(y[4], padded[:-2, 1:-1])
    assert np.array_equal(y[5], padded[2:, 1:-1])
    assert not found[:, 0].any() and not found[:, -1].any()


@w.kernel(grid=2)
def through_a_buffer(x: w.In["m n"], y: w.Out["m n"], *, rows=None):
    """y[i, j] = x[i + 2, j + 8], for the first rows of each tile."""
    buffer, row = w.shared(64, 64, w.f16), w.cta() * 64
    with w.role():
        w.store(w.load(x[row, 0], (64, 64)), y[row - 2, w.cta(1) - 8], via=buffer, rows=rows)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("columns, rows", [(64, None), (50, None), (64, 10)])
def test_stores_through_a_buffer_begin_before_the_array(chip, columns, rows):
    x = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float16)
    padded, expected = np.zeros((2, 128, 64), np.float16)
    clean(through_a_buffer.emulate(x[:, :columns], padded[:, :columns], arch=chip, rows=rows))
    for start in (0, 64):
        first, end = max(start - 2, 0), start - 2 + (rows or 64)
        expected[first:end, : columns - 8] = x[first + 2 : end + 2, 8:columns]
    assert np.array_equal(padded, expected)


@w.kernel
def of_known_columns(x: w.In["m N"], y: w.Out["m N"], *, N, rows=None):
    buffer = w.shared(64, 64, w.f16)
    with w.role():
        w.store(w.load(x[0, 0], (64, 64)), y[0, 0], via=buffer, rows=rows)


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    "columns, rows, by_lanes", [(64, None, 0), (56, None, 0), (60, None, 2), (64, 10, 2)]
)
def test_stores_by_tma_alone_of_rows_that_are_known_to_be_whole(columns, rows, by_lanes):
    """Otherwise, lanes store rows that end within 16 bytes, and the first rows of a tile."""
    x, y = np.random.default_rng(0).standard_normal((2, 70, 64)).astype(np.float16)
    expected = y.copy()
    expected[: rows or 64, :columns] = x[: rows or 64, :columns]
    given = x[:, :columns], y[:, :columns]
    clean(of_known_columns.emulate(*given, N=columns, rows=rows, arch="sm_90a"))
    assert np.array_equal(y, expected)
    kernel = of_known_columns.compile(*given, N=columns, rows=rows, arch="sm_90a")
    assert kernel.ptx.count("st.global") == by_lanes


@w.kernel(grid=2)
def through_a_ring(x: w.In["m n"], y: w.Out["m n"]):
    """y[i, j] = x[i - 2, j - 8]."""
    ring, row = w.ring(1, t=(64, 64, w.f16)), w.cta() * 64
    with w.role(), ring.take() as stage:
        w.store(w.load(stage.t), y[row, 0])
    with w.role(), w.one_thread():
        ring.fill(t=x[row - 2, w.cta(1) - 8])


@pytest.mark.each_value(1)
@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
def test_copies_begin_before_the_array(chip):
    x = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float16)
    y, expected = np.zeros_like(x), np.zeros_like(x)
    clean(through_a_ring.emulate(x, y, arch=chip))
    expected[2:, 8:] = x[:-2, :-8]
    assert np.array_equal(y, expected)


@w.kernel(grid=lambda x: x.size("a") * x.size("b"))
def of_other_matrices(
    x: w.In["a b m n"],
    loaded: w.Out["a b m n"],
    shifted: w.Out["a b m n"],
    copied: w.Out["a b m n"],
    stored: w.Out["a b m n"],
    added: w.Out["a b m n"],
    gathered: w.Out["a b m n"],
    scattered: w.Out["a b m n"],
    moved: w.Out["a b m n"],
    border: w.f32,
    zero: w.i32,
):
    i, j = w.cta() // x.size("b"), w.cta() % x.size("b")
    ring, shape = w.ring(1, t=(64, 8, x.dtype)), (64, 8)
    with w.role():
        for before in w.range(-1, 0):
            w.store(w.load(x[i, j + before], shape, outside=border.to(x.dtype)), loaded[i, j])
        t = w.load(x[i + 1, j - 1, zero - 1], shape, outside=border.to(x.dtype))
        w.store(t, shifted[i, j])
        with ring.take() as stage:
            w.store(w.load(stage.t), copied[i, j])
        w.store(w.load(x[i, j], shape), stored[i - 1, j + 1, zero - 1])
        w.atomic_add(added[i + 1, j - 1], w.load(x[i, j], shape))
        rows = w.row(w.zeros(64)) + 1
        w.store(w.load(x[i - 1, j + 1, rows, 0], shape), gathered[i, j])
        w.store(w.load(x[i, j], shape), scattered[i - 1, j, rows, 0])
        w.atomic_add(moved[i, j - 1, rows, 0], w.load(x[i, j], shape))
    with w.role(), w.one_thread():
        ring.fill(t=x[i - 1, j + 1, zero - 1])


@pytest.mark.each_value(1)
@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
def test_tiles_of_matrices_that_a_batch_lacks_are_outside(chip):
    x = np.random.default_rng(0).standard_normal((2, 3, 60, 8)).astype(np.float32)
    inner = (slice(1, -1),) * 3
    bordered, padded = (np.pad(x, ((1, 1), (1, 1), (1, 1), (0, 0)), constant_values=v) for v in (7, 0))
    found = [np.zeros_like(padded) for _ in range(8)]  # with a margin that must stay 0
    clean(of_other_matrices.emulate(x, *(each[inner] for each in found), 7.0, 0, arch=chip))
    loaded, shifted, copied, stored, added, gathered, scattered, moved = found
    assert np.array_equal(loaded[inner], bordered[1:-1, :-2, 1:-1])
    assert np.array_equal(shifted[inner], bordered[2:, :-2, :-2])
    assert np.array_equal(copied[inner], padded[:-2, 2:, :-2])
    assert np.array_equal(stored[inner], padded[2:, :-2, 2:])
    assert np.array_equal(added[inner], padded[:-2, 2:, 1:-1])
    assert np.array_equal(gathered[inner], padded[:-2, 2:, 2:])
    assert np.array_equal(scattered[inner], padded[2:, 1:-1, :-2])
    assert np.array_equal(moved[inner], padded[1:-1, 2:, :-2])
    for each in found:
        each[inner] = 0
        assert not each.any()


@w.kernel(grid=2)
def delayed(x: w.In["n"], y: w.Out["n"], z: w.Out["n"], *, by):
    """y[i] = x[i - by], and z[i - by] = x[i]."""
    i = w.cta() * 512
    with w.role():
        w.store(w.load(x[i - by], 512, outside=-1), y[i])
        w.store(w.load(x[i], 512), z[i - by])


@pytest.mark.each_value(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.float8_e4m3fn])
@pytest.mark.parametrize("by, count", [(3, 700), (4, 1024), (16, 513), (600, 1000)])
def test_vectors_of_flat_arrays(dtype, by, count):
    x = np.random.default_rng(0).integers(0, 9, count).astype(dtype)
    y, z = np.zeros_like(x), np.zeros_like(x)
    clean(delayed.emulate(x, y, z, by=by))
    assert (y[:by] == -1).all() and np.array_equal(y[by:], x[:-by])
    assert np.array_equal(z[:-by], x[by:]) and not z[-by:].any()


def test_other_tiles_need_no_more_comparisons():
    @w.kernel(grid=2)
    def from_the_end(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
        with w.role():
            for i in w.range(3):
                row = (w.last() - w.cta()) * 64 + (2 - i) * 64 - i
                w.store(w.load(x[row, w.cta() * 8 + 3 - 1], (64, 8)), y[row, 0])

    ir = from_the_end.compile().ir()
    assert ir.count('"tile.load"') == 1 and ir.count('"tile.store"') == 1


@pytest.mark.each_value(1)
@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype, outside", [(np.int32, -1), (np.int32, None), (np.float16, -np.inf)])
@pytest.mark.parametrize("by", [0, 3])
def test_vectors_of_tiles_have_values_outside(chip, dtype, outside, by):
    x = np.random.default_rng(0).integers(0, 9, 100).astype(dtype)
    short = x[:90]
    y, z = np.zeros((64, 100), dtype), np.zeros(100, dtype)
    expected = np.full(128, -1 if outside is None else outside, dtype)
    expected[by : by + 90] = short

    @w.kernel(grid=2)
    def kernel(x: w.In["n"], y: w.Out["m k"], z: w.Out["k"], border: w.i32):
        i = w.cta() * 64
        with w.role():
            value = border if outside is None else outside
            like = w.zeros((64, 64)).to(x.dtype)
            w.store(w.load_row(x[i - by], like=like, outside=value) + like, y[0, i])
            w.store_column(w.load_column(x[i - by], like=like, outside=value), z[i])

    clean(kernel.emulate(short, y, z, -1, arch=chip))
    assert np.array_equal(y, np.tile(expected[:100], (64, 1))) and np.array_equal(z, expected[:100])


def test_buffers_are_loaded_whole():
    @w.kernel
    def kernel(y: w.Out["n", w.f32], *, load):
        buffer, row = w.shared(64, 64, w.f32), w.shared(1, 64, w.f32)
        with w.role():
            load(buffer, row)

    message = "outside is for elements beyond an array, and a buffer is loaded whole"
    for load in (
        lambda buffer, row: w.load_column(row, like=w.zeros(64), outside=1),
        lambda buffer, row: w.load_row(row, like=w.zeros((64, 64)), outside=1),
        lambda buffer, row: w.load(buffer, outside=1),
    ):
        with pytest.raises(weft.WeftError, match=message):
            kernel.compile(load=load)
    with pytest.raises(weft.WeftError, match=r"a buffer is loaded whole, got the shape \(64, 32\) beside a"):
        kernel.compile(load=lambda buffer, row: w.load(buffer, (64, 32)))
    kernel.compile(load=lambda buffer, row: w.load(buffer, (64, 64)))
