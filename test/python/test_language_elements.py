"""Single elements of buffers in shared memory: reads, writes, atomic changes, and indices of fragments."""

import language_mistakes
import numpy as np
import pytest

import weft.language as w
from weft.language.values.dtypes import DTYPES

_RNG = np.random.default_rng(0)
_TYPES = [each for each in DTYPES.values() if each != w.i1]


def numbers(*shape, dtype=w.f32):
    """Small integers, which a type represents."""
    return _RNG.integers(0 if dtype.is_unsigned else -2, 3, shape).astype(np.float32)


@pytest.mark.parametrize("arch", ["sm_89", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("dtype", _TYPES, ids=str)
@pytest.mark.each_value(3)
def test_elements_are_where_tiles_have_them(dtype, arch):
    """Also in swizzled buffers, in their parts and in transposed ones."""
    width = max(64, 256 // dtype.bytes)  # two panels

    @w.kernel(threads=128, arch=arch)
    def kernel(x: w.In["64 n", w.f32], y: w.Out["3 64 n", w.f32], turned: w.Out["n 64", w.f32]):
        written, read = w.shared(64, width, dtype), w.shared(64, width, dtype)
        w.store(w.load(x[0, 0], (64, width)).to(dtype), read)
        for n in w.range(w.thread(), 64 * width, 128):
            written[n // width, n % width] = x[n // width, n % width].to(dtype)
        w.barrier()
        w.store(w.load(written).to(w.f32), y[0, 0, 0])
        half, lower = read.columns(width // 2, width // 2), read.rows(32, 32)
        for n in w.range(w.thread(), 64 * width, 128):
            row, column = n // width, n % width
            y[1, row, column] = read[row, column].to(w.f32)
            turned[column, row] = read.T[column, row].to(w.f32)
            each = half[row, column] if column < width // 2 else lower[row % 32, column]
            y[2, row, column] = each.to(w.f32)

    x, y = numbers(64, width, dtype=dtype), np.zeros((3, 64, width), np.float32)
    turned = np.zeros((width, 64), np.float32)
    assert not kernel.emulate(x, y, turned).findings
    halves = x[:, : width // 2], x[:, width // 2 :]
    parts = np.hstack([halves[1], np.vstack([halves[1][32:]] * 2)])
    for found, expected in zip((*y, turned), (x, x, parts, x.T), strict=True):
        assert np.array_equal(found, expected)


@pytest.mark.each_value(2)
@pytest.mark.parametrize("arch", ["sm_70", "sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("dtype", "numpy_type"),
    [(w.f64, "f8"), (w.f32, "f4"), (w.f16, "f2"), (w.i64, "i8"), (w.i32, "i4")],
    ids=lambda each: str(each),
)
def test_a_histogram_is_counted_in_shared_memory(dtype, numpy_type, arch):
    @w.kernel(grid=lambda x: w.ceil_div(x.rows, 512), threads=128, arch=arch)
    def histogram(x: w.In["n", w.i32], counts: w.Out["bins"], *, bins):
        own = w.shared(1, bins, dtype)
        for bin_ in w.range(w.thread(), bins, 128):
            own[bin_] = 0
        w.barrier()
        for n in w.range(w.cta() * 512 + w.thread(), w.minimum(w.cta() * 512 + 512, x.rows), 128):
            w.atomic_add(own[x[n]], 1)
        w.barrier()
        for bin_ in w.range(w.thread(), bins, 128):
            w.atomic_add(counts[bin_], own[0, bin_])

    x, counts = _RNG.integers(0, 160, 1300).astype(np.int32), np.zeros(160, numpy_type)
    assert not histogram.emulate(x, counts).findings
    assert np.array_equal(counts, np.bincount(x, minlength=160))


def test_maxima_and_minima_are_found_in_shared_memory():
    @w.kernel(threads=128)
    def extremes(x: w.In["128", w.i32], y: w.Out["2", w.i32]):
        found = w.shared(1, 8, w.i32)
        if w.thread() < 2:
            found[w.thread()] = x[0]
        w.barrier()
        w.atomic_max(found[0], x[w.thread()])
        w.atomic_min(found[1], x[w.thread()])
        w.barrier()
        if w.thread() < 2:
            y[w.thread()] = found[w.thread()]

    x, y = _RNG.integers(-900, 900, 128).astype(np.int32), np.zeros(2, np.int32)
    assert not extremes.emulate(x, y).findings
    assert y.tolist() == [x.max(), x.min()]


def test_numbers_of_numpy_are_stored_as_those_of_python_are():
    @w.kernel(threads=32)
    def kernel(y: w.Out["2 32", w.f32]):
        buffer = w.shared(1, 32, w.f32)
        buffer[w.thread()] = np.int64(3)
        y[0, w.thread()], y[1, w.thread()] = np.float32(2.5), buffer[w.thread()]

    y = np.zeros((2, 32), np.float32)
    assert not kernel.emulate(y).findings
    assert (y == [[2.5], [3]]).all()


def test_fragments_are_indices_of_elements():
    @w.kernel(grid=lambda x: w.ceil_div(x.rows, 64))
    def looked_up(
        x: w.In["m n", w.i32], table: w.In["64", w.f32], y: w.Out["m n", w.f32], counts: w.Out["64", w.i32]
    ):
        values, bins, placed = w.shared(1, 64, w.f32), w.shared(1, 64, w.i32), w.shared(64, 64, w.f32)
        with w.role():
            if w.thread() < 64:
                values[w.thread()], bins[w.thread()] = table[w.thread()], 0
            w.barrier()
            t = w.load(x[w.cta() * 64, 0], (64, 64), outside=-1)
            w.store(w.load(values[t]), placed[63 - w.row(t), w.column(t)])
            w.atomic_add(bins[t], 1)
            w.barrier()
            w.store(w.load(placed[63 - w.row(t), w.column(t)]), y[w.cta() * 64, 0])
            if w.thread() < 64:
                w.atomic_add(counts[w.thread()], bins[w.thread()])

    x, table = _RNG.integers(0, 64, (100, 50)).astype(np.int32), _RNG.random(64).astype(np.float32)
    y, counts = np.zeros(x.shape, np.float32), np.zeros(64, np.int32)
    assert not looked_up.emulate(x, table, y, counts).findings
    assert np.array_equal(y, table[x])
    assert np.array_equal(counts, np.bincount(x.ravel(), minlength=64))


def test_an_element_is_that_of_when_it_was_read():
    @w.kernel(threads=32)
    def kernel(y: w.Out["2", w.i32]):
        buffer = w.shared(1, 8, w.i32)
        if w.thread() == 0:
            buffer[3] = 7
            before = buffer[3]
            buffer[3] = 8
            for _ in w.range(2):
                before = before + buffer[0, 3]
            y[0], y[1] = before, buffer[3]

    y = np.zeros(2, np.int32)
    assert not kernel.emulate(y).findings
    assert y.tolist() == [23, 8]


@pytest.mark.each_value(1)
@pytest.mark.parametrize(("arch", "instructions"), [("sm_70", False), ("sm_75", True)])
def test_tiles_of_halves_are_loaded_on_chips_without_ldmatrix(arch, instructions):
    @w.kernel(threads=128, arch=arch)
    def kernel(x: w.In["64 64", w.f16], y: w.Out["64 64", w.f16]):
        buffer = w.shared(64, 64, w.f16)
        w.store(w.load(x[0, 0], (64, 64)), buffer)
        w.barrier()
        w.store(w.load(buffer.T), y[0, 0])

    x, y = numbers(64, 64).astype(np.float16), np.zeros((64, 64), np.float16)
    assert not kernel.emulate(x, y).findings
    assert np.array_equal(y, x.T)
    assert ("ldmatrix" in kernel.compile().ptx) == instructions


MISTAKES = r"""
# an element of a buffer of 2 x 8 w\.f32 is at \[row, column\]: w\.load loads
w.shared(2, 8, w.f32)[0] = 1.0

# is at \[row, column\]: .* \.columns\(first, count\) are parts
w.shared(64, 64, w.f32)[:, 0:8] + 1.0

# column of an element of a buffer of 1 x 8 w\.f32 must be in 0\.\.7, got 8
w.shared(1, 8, w.f32)[8] = 1.0

# expects a value of w\.f32, got a value of w\.i32: convert it with \.to\(w\.f32\)
w.shared(1, 8, w.f32)[0] = w.thread()

# expects a number for an element of a buffer .*, got a fragment .*: use w\.store for tiles
w.shared(64, 8, w.f32)[0, 0] = w.zeros((64, 8))

# at indices of a fragment are stored by w\.store
w.shared(1, 8, w.f32)[w.row(w.zeros(64))] = 1.0

# expects elements of w\.i32, got w\.f32: convert with \.to\(w\.i32\)
w.store(w.zeros(64), w.shared(1, 64, w.i32)[w.row(w.zeros(64))])

# changes elements of w\.f64, w\.f32, w\.f16, w\.i64, .*, w\.u32 in shared memory, got those of w\.bf16
w.atomic_add(w.shared(1, 16, w.bf16)[0], 1)

# can't loop over a buffer .*: loop over w\.range of its rows or columns
list(w.shared(1, 16, w.bf16))

# this stage is read before it is full
ring = w.ring(1, x=(64, 64, w.f32))
with w.role():
    stage = ring.take(waits=False)
    stage.x[0, 0] + 1.0
"""


@pytest.mark.parametrize("code, message", language_mistakes.cases(MISTAKES))
def test_mistakes_are_in_their_line(code, message, tmp_path):
    language_mistakes.refused(tmp_path, code, message, globals())
