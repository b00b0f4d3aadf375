"""Tiles and vectors of signed and unsigned integers: operators, reductions, copies, and products."""

import numpy as np
import pytest
from language_integers import CHIPS, NUMPY, TYPES, add_by_tma, differing_tiles, edges, emulate, exact, product

import weft
import weft.language as w

NEW = [w.u8, w.u16, w.u32, w.u64, w.i16]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.each_value(2)
def test_operators_are_those_of_numpy(dtype, chip):
    assert not differing_tiles(emulate, dtype, chip)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", NEW, ids=str)
@pytest.mark.each_value(1)
def test_reductions_and_scans_are_those_of_numpy(dtype, chip):
    def of_tile(t):
        return [f(t, axis=axis) for f in (w.sum, w.max, w.min) for axis in (0, 1)]

    @w.kernel(arch=chip)
    def kernel(
        x: w.In["64 16", dtype], v: w.Out["vs 64", dtype], n: w.Out["ns", dtype], z: w.Out["zs 64 16", dtype]
    ):
        with w.role():
            t = w.load(x[0, 0], (64, 16))
            for number, each in enumerate(of_tile(t)):
                (w.store_row if number % 2 == 0 else w.store_column)(each, v[number, 0])
            w.store_row(w.argmax(t, axis=0).to(dtype), v[6, 0])
            w.store_column(w.argmin(t, axis=1).to(dtype), v[7, 0])
            for number, each in enumerate((w.sum(t), w.max(t), w.min(t))):
                n[number] = each
            scans = w.cumsum(t, axis=0), w.cumsum(t, axis=1), w.associative_scan(t, w.maximum, axis=1)
            for number, each in enumerate(scans):
                w.store(each, z[number, 0, 0])

    x = edges(dtype, (64, 16))
    v, n, z = np.zeros((8, 64), x.dtype), np.zeros(3, x.dtype), np.zeros((3, 64, 16), x.dtype)
    assert not kernel.emulate(x, v, n, z).findings
    vectors = [f(axis=axis) for f in (lambda axis: x.sum(axis, x.dtype), x.max, x.min) for axis in (0, 1)]
    for found, each in zip(v, (*vectors, x.argmax(0), x.argmin(1)), strict=True):
        assert np.array_equal(found[: len(each)], each)
    assert n.tolist() == [x.sum(dtype=x.dtype), x.max(), x.min()]
    sums = [x.cumsum(axis, x.dtype) for axis in (0, 1)]
    assert np.array_equal(z, [*sums, np.maximum.accumulate(x, axis=1)])


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("dtype", NEW, ids=str)
@pytest.mark.each_value(1)
def test_rings_and_buffers_copy_them(dtype, chip):
    columns = 128 // dtype.bytes

    @w.kernel(arch=chip)
    def kernel(x: w.In["2 m n", dtype], y: w.Out["4 m n", dtype]):
        ring = w.ring(2, x=(64, columns, dtype))
        output, other = w.shared(64, columns, dtype), w.shared(64, columns, dtype)
        with w.role():
            for number in range(2):
                with ring.take() as stage:
                    t = w.load(stage.x) + 1
                w.store(t, y[number, 0, 0], via=output)
                w.store(t, other)
                w.warpgroup_barrier()
                for i in w.range(w.thread(), 64 * columns, 128):
                    y[2 + number, i // columns, i % columns] = other[i // columns, i % columns] + 1
                w.warpgroup_barrier()
        with w.role(), w.one_thread():
            for number in range(2):
                ring.fill(x=x[number, 0, 0])

    x = edges(dtype, (2, 64, columns))
    y = np.zeros((4, 64, columns), x.dtype)
    assert not kernel.emulate(x, y).findings
    one = x.dtype.type(1)
    assert np.array_equal(y[:2], x + one) and np.array_equal(y[2:], x + one + one)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", NEW, ids=str)
@pytest.mark.each_value(1)
def test_lanes_load_and_store_them(dtype, chip):
    @w.kernel(arch=chip)
    def kernel(x: w.In["m n", dtype], y: w.Out["8 m n", dtype], v: w.Out["k", dtype], u: w.Out["3 m", dtype]):
        line = w.shared(1, 64, dtype)
        with w.role():
            t = w.load(x[0, 0], (64, 64), outside=dtype.ones)
            w.store(t, y[0, 3, 5])
            w.store(w.load(x[w.row(t), w.column(t)]), y[1, 0, 0])
            rows = 63 - w.row(w.zeros(64))
            w.store(w.load(x[rows, 0], (64, 64)), y[2, 0, 0])
            w.store(t, y[3, rows, w.column(t)])
            w.store(w.load(x[w.cta() - 1, w.cta() - 2], (64, 64), outside=7), y[4, 0, 0])
            w.store(w.convert(t.T, like=t), y[5, 0, 0])
            w.store(w.from_lanes(w.by_lanes(t), (64, 64)), y[6, 0, 0])
            w.store(w.load(x[3, 1], 512, outside=5), v[0])
            w.store_row(w.load_row(x[2, 0], like=t), line)
            w.warpgroup_barrier()
            w.store_column(w.load_column(line, like=t), u[0, 0])
            w.store_column(w.load_column(x[1, 0], like=t).T.T, u[1, 0])
            w.store_row(w.load_row(line, like=t), u[2, 0])

    x = edges(dtype, (64, 64))
    y, v, u = np.zeros((8, *x.shape), x.dtype), np.zeros(512, x.dtype), np.zeros((3, 64), x.dtype)
    assert not kernel.emulate(x, y, v, u).findings
    assert np.array_equal(y[0, 3:, 5:], x[:-3, :-5]) and np.array_equal(y[1], x)
    assert np.array_equal(y[2], x[::-1]) and np.array_equal(y[3], x[::-1])
    assert np.array_equal(y[4], np.pad(x, ((1, 0), (2, 0)), constant_values=7)[:64, :64])
    assert np.array_equal(y[5], x.T) and np.array_equal(y[6], x)
    assert np.array_equal(v, np.pad(x[3, 1:], (0, 449), constant_values=5))
    assert np.array_equal(u, [x[2], x[1], x[2]])


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", [w.u32, w.u64], ids=str)
@pytest.mark.each_value(1)
def test_tiles_change_elements_atomically(dtype, chip):
    @w.kernel(arch=chip)
    def kernel(x: w.In["m n", dtype], y: w.Out["3 m n", dtype], counts: w.Out["bins", dtype]):
        with w.role():
            t = w.load(x[0, 0], (64, 8))
            for change, number in ((w.atomic_add, 0), (w.atomic_max, 1), (w.atomic_min, 2)):
                change(y[number, 0, 0], t)
            w.atomic_add(counts[(t % 16).to(w.i32)], 1)

    x, y = edges(dtype, (64, 8)), np.stack([edges(dtype, (64, 8), seed) for seed in (2, 3, 4)])
    counts, given = np.zeros(16, x.dtype), y.copy()
    assert not kernel.emulate(x, y, counts).findings
    assert np.array_equal(y, [given[0] + x, np.maximum(given[1], x), np.minimum(given[2], x)])
    assert np.array_equal(counts, np.bincount((x % x.dtype.type(16)).ravel().astype(int), minlength=16))


@pytest.mark.each_value(1)
@pytest.mark.parametrize("dtype", [w.u32, w.u64, w.i64], ids=str)
def test_tma_adds_them(dtype):
    x, y = edges(dtype, (64, 16)), edges(dtype, (64, 16), 1)
    total = x + y
    add_by_tma(emulate, dtype, x, y, "sm_90a")
    assert np.array_equal(y, total)


def test_choices_of_elements_and_numbers_of_python():
    @w.kernel(arch="sm_90a")
    def kernel(x: w.In["m n", w.u8], y: w.Out["2 m n", w.u8], z: w.Out["m n", w.i32]):
        with w.role():
            t = w.load(x[0, 0], (64, 8))
            w.store(w.where(t > 3, x[0, 0], 0), y[0, 0, 0])
            w.store(w.where(t > 3, w.minimum(x[0, 1], t), t), y[1, 0, 0])
            w.store(w.where(t > 3, 255, 0), z[0, 0])

    x, y, z = edges(w.u8, (64, 8)), np.zeros((2, 64, 8), np.uint8), np.zeros((64, 8), np.int32)
    assert not kernel.emulate(x, y, z).findings
    assert np.array_equal(y, [np.where(x > 3, x[0, 0], 0), np.where(x > 3, np.minimum(x, x[0, 1]), x)])
    assert np.array_equal(z, np.where(x > 3, 255, 0))


@pytest.mark.slow
def test_elements_of_a_tile_are_printed():
    @w.kernel(arch="sm_90a")
    def kernel(x: w.In["m n", w.u8]):
        with w.role():
            w.print(w.load(x[0, 0], (64, 8)))

    report = kernel.emulate(np.full((64, 8), 255, np.uint8))
    assert "[63, 7] 255" in report.printed and "-1" not in report.printed


@pytest.mark.each_value(2)
@pytest.mark.parametrize("old, new", [(w.f16, w.i16), (w.bf16, w.u16), (w.i16, w.u16), (w.u64, w.f64)])
def test_bits_of_tiles_become_those_of_another_type(old, new):
    import ml_dtypes

    @w.kernel(arch="sm_90a")
    def kernel(x: w.In["m n", old], y: w.Out["m n", new]):
        with w.role():
            w.store(w.load(x[0, 0], (64, 16)).bitcast(new), y[0, 0])

    types = {**NUMPY, w.f16: np.float16, w.bf16: ml_dtypes.bfloat16, w.f64: np.float64}
    x = np.random.default_rng(0).integers(0, 256, (64, 16 * old.bytes), np.uint8).view(types[old])
    y = np.zeros((64, 16), types[new])
    assert not kernel.emulate(x, y).findings
    assert y.tobytes() == x.tobytes()


def test_atomic_changes_of_narrow_integers_are_refused():
    @w.kernel(arch="sm_90a")
    def kernel(y: w.Out["n", w.u16]):
        w.atomic_add(y[0], 1)

    with pytest.raises(weft.WeftError, match=r"changes elements of .*w\.u64, w\.u32, got those of w\.u16"):
        kernel.compile()


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
