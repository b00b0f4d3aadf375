"""Vectors in buffers of one row, and those of which a thread has elements that follow each other."""

import re
import warnings

import language_mistakes
import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w


def clean(report):
    assert not report.findings, "\n".join(map(str, report.findings[:3]))


@pytest.mark.each_value(1)
@pytest.mark.parametrize("dtype", ["f32", "e4m3"])
def test_vectors_go_through_buffers_to_another_role(dtype):
    kind = getattr(w, dtype)

    @w.kernel()
    def scaled(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
        ring = w.ring(1, down=(1, 128, kind), across=(1, 32, kind))
        with w.role(), ring.write() as slot:
            t = [w.load(x[64 * half, 0], (64, 32)) for half in range(2)]
            for half, each in enumerate(t):
                w.store_column(w.sum(each, axis=1).to(kind), slot.down.columns(64 * half, 64))
            w.store_row(w.sum(t[0] + t[1], axis=0).to(kind), slot.across)
        with w.role(), ring.take() as slot:
            for half in range(2):
                like = w.zeros((64, 32))
                down = w.load_column(slot.down.columns(64 * half, 64), like=like).to(w.f32)
                w.store(like + down + w.load_row(slot.across, like=like).to(w.f32), y[64 * half, 0])

    x, y = np.zeros((128, 32), np.float32), np.zeros((128, 32), np.float32)
    x[::4] = np.random.default_rng(0).integers(0, 2, (32, 32))
    clean(scaled.emulate(x, y))
    down, across = (
        x.sum(axis).astype(ml_dtypes.float8_e4m3fn if dtype == "e4m3" else float) for axis in (1, 0)
    )
    assert (y == down.astype(float)[:, None] + across.astype(float)).all()


def test_stages_of_short_vectors_begin_where_tma_can_write():
    @w.kernel()
    def copied(x: w.In["m n", w.f16], y: w.Out["rows n", w.f32]):
        ring = w.ring(2, x=(1, 32, w.f16))  # of 64 bytes
        with w.role():
            for row in range(2):
                with ring.take() as slot:
                    t = w.zeros((64, 32))
                    w.store(t + w.load_row(slot.x, like=t).to(w.f32), y[64 * row, 0])
        with w.role(), w.one_thread():
            for row in range(2):
                ring.fill(x=x[row, 0])

    x, y = np.random.default_rng(0).random((2, 32)).astype(np.float16), np.zeros((128, 32), np.float32)
    clean(copied.emulate(x, y))
    assert (y == x.repeat(64, 0)).all()


@pytest.mark.parametrize("dtype", ["f32", pytest.param("e4m3", marks=pytest.mark.slow)])
def test_fewer_elements_than_rows_are_repeated(dtype):
    @w.kernel()
    def repeated(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
        buffer, kind = w.shared(1, 64, getattr(w, dtype)), getattr(w, dtype)
        with w.role():
            w.store_column(w.sum(w.load(x[0, 0], (64, 32)), axis=1).to(kind), buffer)
            w.barrier()
            t = w.zeros((64, 32))
            w.store(t + w.load_column(buffer.columns(32, 32), like=t).to(w.f32), y[0, 0])

    x, y = np.zeros((64, 32), np.float32), np.ones((64, 32), np.float32)
    x[:, 3] = np.random.default_rng(0).integers(-8, 8, 64)
    clean(repeated.emulate(x, y))
    assert (y == x.sum(1)[32:].repeat(2).reshape(32, 2).T.reshape(64, 1)).all()


@pytest.mark.parametrize(
    "message, body",
    [
        (
            "expects a buffer of 1 x 64 w.f32, got a buffer of 1 x 32 w.f32",
            lambda b, _, __: w.store_column(w.zeros(64), b),
        ),
        ("a vector is stored whole to a buffer", lambda b, _, __: w.store_column(w.zeros(64), b, rows=3)),
        ("multiple of 128 bytes in a stage, since TMA", lambda _, ring, a: ring.fill(a=a[0, 0], v=a[0, 0])),
        (
            "multiple of 128 bytes in each of 2 parts, since TMA",
            lambda _, ring, a: ring.fill(v=(a[0, 0], a[1, 0]), a=None),
        ),
    ],
)
def test_mistakes(message, body):
    def kernel(a: w.In["m k", w.f16], d: w.Out["m", w.f32]):
        buffer, ring = w.shared(1, 32, w.f32), w.ring(2, a=(2, 16, w.f16), v=(1, 64, w.f16))
        with w.role():
            body(buffer, ring, a)

    with pytest.raises(weft.WeftError) as raised:
        w.kernel()(kernel).compile(arch="sm_90a")
    assert message in str(raised.value)


@w.kernel(grid=lambda x: x.rows)
def softmax(x: w.In["m n"], y: w.Out["m n"], largest: w.Out["m", w.i32], *, N=1024):
    """The softmax of each row by a CTA, and the index of its largest element."""
    row = w.cta()
    with w.role():
        t = w.load(x[row], N, outside=-w.inf).to(w.f32)
        e = w.exp(t - w.max(t))
        w.store((e / w.sum(e)).to(y.dtype), y[row, 0])
        at = w.argmax(t, axis=0)
        if w.thread() == 0:
            largest[row] = at


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    "dtype, tolerance",
    [(np.float32, 1e-5), (np.float64, 1e-5), (np.float16, 2e-3), (ml_dtypes.bfloat16, 1e-2)],
)
@pytest.mark.parametrize("columns", [1, 1001, 1024])
def test_a_row_for_each_cta(dtype, tolerance, columns):
    x = np.random.default_rng(0).standard_normal((3, columns)).astype(dtype)
    y, largest = np.zeros_like(x), np.zeros(3, np.int32)
    clean(softmax.emulate(x, y, largest))
    e = np.exp(x.astype(float) - x.astype(float).max(1, keepdims=True))
    assert np.allclose(y.astype(float), e / e.sum(1, keepdims=True), rtol=tolerance, atol=tolerance / 100)
    assert np.array_equal(largest, x.astype(float).argmax(1))


@w.kernel(grid=lambda p: w.ceil_div(p.rows, 1024))
def step(p: w.Out["n", w.f32], g: w.In["n", w.bf16], m: w.Out["n", w.f32], rate: w.f32):
    """A step with momentum over a flat array."""
    with w.role(warpgroups=2) as me:
        i = w.cta() * 1024 + me * 512
        momentum = w.load(m[i], 512) * 0.5 + w.load(g[i], 512).to(w.f32)
        w.store(momentum, m[i])
        w.store(w.load(p[i], 512) - momentum * rate, p[i])


@pytest.mark.each_value(2)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("count, first", [(3000, 0), (2500, 1), (513, 4), (3, 0)])
def test_flat_arrays_of_any_length_and_alignment(count, first, arch):
    rng = np.random.default_rng(0)
    p, m = (rng.standard_normal(count + first).astype(np.float32)[first:] for _ in range(2))
    g = rng.standard_normal(count + first).astype(ml_dtypes.bfloat16)[first:]
    momentum = m * 0.5 + g.astype(np.float32)
    expected = p - momentum * np.float32(0.25)
    clean(step.emulate(p, g, m, 0.25, arch=arch))
    assert np.array_equal(m, momentum) and np.allclose(p, expected, atol=1e-6)


def test_aligned_elements_are_accessed_at_once():
    ptx = step.compile().ptx
    for each in ("ld.global.v4.b32", "st.global.v4.b32", "ld.global.v2.b32"):
        assert len(re.findall(re.escape(each), ptx)) >= 1


@w.kernel(grid=lambda x: x.rows)
def scaled_rows(x: w.In["m n", w.bf16], gain: w.In["n", w.bf16], y: w.Out["m n", w.bf16], *, N=512):
    row = w.cta()
    w.store(w.load(x[row, 0], N) * w.load(gain[0], N), y[row, 0])


@w.kernel(grid=lambda x: w.ceil_div(x.rows, 16))
def scaled_tiles(x: w.In["m n", w.bf16], gain: w.In["n", w.bf16], y: w.Out["m n", w.bf16], *, N=512):
    t = w.load(x[w.cta() * 16, 0], (16, N))
    w.store(t * w.load_row(gain[0], like=t), y[w.cta() * 16, 0])


@pytest.mark.parametrize("kernel", [scaled_rows, scaled_tiles])
def test_arrays_of_whole_vectors_have_a_kernel_without_comparisons_of_addresses(kernel):
    rng = np.random.default_rng(0)

    def arrays(columns, pitch=512):
        x, y = (rng.integers(-9, 9, (20, pitch)).astype(ml_dtypes.bfloat16)[:, :columns] for _ in range(2))
        return x, rng.integers(-9, 9, columns).astype(ml_dtypes.bfloat16), y

    for columns, pitch in ((504, 504), (504, 512), (500, 512), (501, 501)):
        x, gain, y = arrays(columns, pitch)
        clean(kernel.emulate(x, gain, y))
        assert np.array_equal(y, x * gain), columns
        compiled = kernel.compile(x, gain, y, arch="sm_90a")
        assert ("ld.global.b16" in compiled.ptx) == (columns % 8 != 0)
    with pytest.raises(
        weft.WeftError, match="argument 'x': is compiled for rows that begin at and are multip"
    ):
        kernel.compile(*arrays(504)).emulate(*arrays(500))
    assert "ld.global.b16" in kernel.compile().ptx  # for any arrays


def test_indices_may_be_any_number_of_sums_of_sums():
    @w.kernel(threads=32)
    def kernel(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], i: w.i32, j: w.i32):
        for _ in range(40):  # 2 ** 40 paths from the last sum to the first one
            i = i + i
        for _ in range(500):
            j = j + i
        w.store(w.load(x[j, j - 4], 128), y[j, j])

    x = np.arange(128, dtype=np.float32).reshape(1, 128)
    y = np.zeros_like(x)
    clean(kernel.emulate(x, y, 0, 0))
    assert np.array_equal(y[0], [0, 0, 0, 0, *range(124)])


def test_threads_have_two_elements_of_64_bits_and_as_many_of_others_beside_them():
    @w.kernel(threads=128)
    def kernel(i: w.In["n", w.i64], x: w.In["n", w.f32], y: w.Out["n", w.i64]):
        w.store(w.load(i[0], 512) + w.load(x[0], 512).to(w.i64), y[0])

    i, x = np.arange(512), np.arange(512, dtype=np.float32)[::-1].copy()
    y = np.zeros_like(i)
    clean(kernel.emulate(i, x, y))
    assert (y == 511).all()
    ptx = kernel.compile(i, x, y).ptx
    assert re.search(r"ld.global.v2.b64 .*\+2048\]", ptx) and re.search(r"ld.global.v2.b32 .*\+1024\]", ptx)


def test_vectors_have_indices_sums_and_atomics():
    @w.kernel()
    def kernel(
        x: w.In["n", w.f32],
        table: w.In["n", w.f32],
        y: w.Out["n", w.f32],
        z: w.Out["n", w.f32],
        b: w.In["n", w.i8],
    ):
        with w.role():
            v = w.load(x[1], 512)
            i = w.row(v)
            w.store(w.cumsum(v) + w.load(table[511 - i]) + w.load(b[3], 512).to(w.f32), y[1])
            w.atomic_add(z[700], w.where(i % 2 == 0, v, w.zeros(512, like=v)))

    rng = np.random.default_rng(0)
    x, table = (rng.integers(-9, 9, 1000).astype(np.float32) for _ in range(2))
    y, z, b = np.zeros_like(x), np.zeros_like(x), rng.integers(-9, 9, 1000).astype(np.int8)
    clean(kernel.emulate(x, table, y, z, b))
    assert np.array_equal(y[1:513], np.cumsum(x[1:513]) + table[511::-1] + b[3:515])
    assert not y[0] and not y[513:].any()
    assert np.array_equal(z[700::2], x[1:301:2]) and not z[701::2].any() and not z[:700].any()


@w.kernel(grid=lambda x: x.rows, threads=lambda T: T)
def shared_rows(
    x: w.In["m n"], y: w.Out["m n"], up_to: w.Out["m n", w.f32], best: w.Out["m", w.i32], *, N, T
):
    """Rows minus their means, prefix sums and the index of the largest element, by all threads of a CTA."""
    row = w.cta()
    v = w.load(x[row], N).to(w.f32)
    w.store(w.cumsum(v), up_to[row, 0])
    mean = w.sum(v) / x.columns.to(w.f32)
    inside = w.where(w.row(v) < x.columns, v, -w.inf)
    w.store((v - mean).to(y.dtype), y[row, 0])
    w.atomic_add(best[row], w.where(w.thread() == 0, w.argmax(inside, axis=0), 0))


@pytest.mark.each_value(2)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_75"])
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float32, np.int8, np.float64])
@pytest.mark.parametrize(
    "threads, columns", [(128, 1024), (256, 3001), (512, 4093), (1024, 7), (32, 256), (64, 200), (96, 385)]
)
def test_all_threads_of_a_cta_share_a_vector(threads, columns, dtype, arch):
    x = np.random.default_rng(0).integers(-20, 20, (2, columns)).astype(dtype)
    y, up_to, best = np.zeros_like(x), np.zeros(x.shape, np.float32), np.zeros(2, np.int32)
    count = -(-columns // (4 * threads)) * 4 * threads
    clean(shared_rows.emulate(x, y, up_to, best, N=count, T=threads, arch=arch))
    wide = x.astype(np.float64)
    assert np.array_equal(up_to, wide.cumsum(1)) and np.array_equal(best, wide.argmax(1))
    expected = (wide - wide.mean(1, keepdims=True)).astype(dtype).astype(float)
    assert np.allclose(y.astype(float), expected, rtol=1e-2, atol=1.01 if dtype == np.int8 else 1e-5)


def test_rows_that_threads_share_take_few_registers():
    used = shared_rows.compile("bf16", "bf16", N=4096, T=128, arch="sm_90a").resources
    assert used.registers <= 128 and not used.spill_stores


def test_kernels_that_spill_warn():
    @w.kernel(grid=lambda x: x.rows, threads=1024)
    def scaled(x: w.In["m n", w.bf16], y: w.Out["m n", w.bf16], *, N):
        t = w.load(x[w.cta(), 0], N).to(w.f32)
        t = t - w.sum(t)
        w.store((t * w.rsqrt(w.sum(t * t))).to(w.bf16), y[w.cta(), 0])

    with pytest.warns(UserWarning, match=r"kernel scaled spills: each thread keeps \d+ bytes in memory"):
        scaled._warn_of_spills(scaled.compile(N=1 << 16, arch="sm_90a"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled._warn_of_spills(scaled.compile(N=1 << 14, arch="sm_90a"))


def test_loads_of_several_vectors_are_in_flight_together():
    @w.kernel(grid=lambda x: x.rows, threads=64)
    def kernel(x: w.In["m n", w.bf16], y: w.In["m n", w.bf16], z: w.Out["m n", w.f32]):
        t, u = (w.load(each[w.cta(), 0], 512).to(w.f32) for each in (x, y))
        w.store(t * u, z[w.cta(), 0])

    text = kernel.compile(arch="sm_90a").ptx
    assert text.rindex("ld.global.v4") < text.index("cvt.f32.bf16")
    sizes = {int(each) for each in re.findall(r"ld\.param\.b(?:32|64) .*kernel_param_(\d+)]", text)}
    assert 4 in sizes and 11 not in sizes  # n of x, but not of y


@pytest.mark.parametrize("threads, loads", [(128, 1), (512, 1), (1024, 1), (768, 24)])
def test_sums_of_many_warps_take_one_load(threads, loads):
    @w.kernel(threads=threads)
    def kernel(x: w.In["n", w.f32], y: w.Out["1", w.f32]):
        total = w.sum(w.load(x[0], 4 * threads))
        if w.thread() == threads - 1:
            y[0] = total

    x, y = np.arange(4 * threads, dtype=np.float32), np.zeros(1, np.float32)
    clean(kernel.emulate(x, y))
    text = kernel.compile(arch="sm_90a").ptx
    assert y[0] == x.sum() and len(re.findall(r"ld\S*\.shared", text)) == loads


def test_meta_parameters_may_be_integers_of_numpy():
    x = np.arange(512, dtype=np.float32).reshape(2, 256)
    y, up_to, best = np.zeros_like(x), np.zeros(x.shape, np.float32), np.zeros(2, np.int32)
    clean(shared_rows.emulate(x, y, up_to, best, N=np.int64(256), T=np.int32(64)))
    assert np.array_equal(best, [255, 255]) and np.array_equal(up_to, x.cumsum(1))


def test_a_vector_has_elements_for_all_threads_of_a_cta():
    @w.kernel(threads=256)
    def kernel(x: w.In["n", w.f32]):
        w.load(x[0], 512)

    with pytest.raises(weft.WeftError, match="multiple of 1024 elements for 256 threads, got 512: use 1024"):
        kernel.compile()


@pytest.mark.parametrize("threads", [32, 96, 256])
def test_a_vector_that_threads_share_goes_through_shared_memory(threads):
    @w.kernel(threads=lambda T: T)
    def kernel(x: w.In["n", w.f32], y: w.Out["n", w.f32], *, T):
        v = w.load(x[0], 8 * T)
        buffer = w.shared(1, 8 * T, w.f32)
        w.store_row(v + 1.0, buffer)
        w.barrier()
        w.store(w.load_column(buffer, like=v) + w.load(buffer[0, 8 * T - 1 - w.row(v)]), y[0])

    x = np.random.default_rng(0).integers(0, 9, 8 * threads).astype(np.float32)
    y = np.zeros_like(x)
    clean(kernel.emulate(x, y, T=threads))
    assert np.array_equal(y, x + x[::-1] + 2)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("threads", [32, 160, 992])
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.int64, ml_dtypes.float8_e4m3fn, np.bool_])
def test_rows_outside_of_an_array_are_loaded_with_a_value(dtype, threads):
    @w.kernel(grid=lambda x: (x.rows, x.matrices), threads=lambda T: T)
    def kernel(x: w.In["b m n"], y: w.Out["b m k"], *, T, N):
        row, matrix = w.cta(0), w.cta(1)
        w.store(w.load(x[matrix - 1, row + 1, row * 0 - 3], N, outside=1), y[matrix, row, 0])

    count = 12 * threads
    x = np.random.default_rng(0).integers(0, 9, (2, 4, count)).astype(dtype)[:, ::2, 1:]
    y, expected = np.zeros((2, 2, count), dtype), np.ones((2, 2, count), dtype)
    expected[1, 0, 3:] = x[0, 1, : count - 3]
    clean(kernel.emulate(x, y, T=threads, N=count))
    assert np.array_equal(y, expected)


@pytest.mark.parametrize(
    "threads, message, body",
    [
        (
            1024,
            "needs 100 registers of each thread, and each of 1024 has 64: loop over parts of it$",
            lambda x, _: w.load(x[0], 102400),
        ),
        (
            128,
            "a thread has 255: loop over parts of it, or use more threads$",
            lambda x, _: w.load(x[0], 32768),
        ),
        (
            256,
            "like must be a vector of 2048 elements, got a fragment of 1024 w.f32: leave it out",
            lambda x, _: w.load(x[0], 2048, like=w.load(x[0], 1024)),
        ),
        (
            256,
            "axis must be 0, or None, of a fragment of 1024 w.f32, got 1",
            lambda x, _: w.max(w.load(x[0], 1024), 1),
        ),
        (
            256,
            r"w.store expects an element of an array, as d\[row, column\], or a buffer, got the array 'x'",
            lambda x, _: w.store(w.load(x[0], 1024), x),
        ),
        (256, r"w\.row\(v\) has the indices of a vector", lambda x, _: w.column(w.load(x[0], 1024))),
        (
            32,
            r"a vector of rows must be executed by whole warpgroups, .* or w\.zeros\(128, like=v\)",
            lambda *_: w.sum(w.zeros(128)),
        ),
        (96, "w.load_contiguous must be executed by whole warpgroups", lambda _, b: w.load_contiguous(b)),
        (96, "w.by_lanes must be executed by whole warpgroups", lambda x, _: w.by_lanes(w.load(x[0], 384))),
        (
            256,
            "w.by_lanes expects a fragment of one warpgroup, got a fragment of 1024 w.f32 of 8 warps",
            lambda x, _: w.lane_parts(w.load(x[0], 1024)),
        ),
    ],
)
def test_mistakes_with_vectors_that_all_threads_share(threads, message, body):
    @w.kernel(threads=threads)
    def kernel(x: w.Out["n", w.f32]):
        body(x, w.shared(8, 128, w.f32))

    with pytest.raises(weft.WeftError) as raised:
        kernel.compile(arch="sm_90a")
    assert re.search(message, raised.value.diagnostics[0].message)


MISTAKES = r"""
# a vector must have a multiple of 512 elements, got 100: use 512, as loads and stores leave out
with w.role():
    w.load(x[0], 100)

# needs 256 registers of each thread, and a thread has 255: loop over parts of it, or divide it among
with w.role():
    w.load(x[0], 32768)

# a vector's first index of 'x' must be at least 0, got -1
with w.role():
    w.load(x[-1], 512)

# via and rows are for tiles of an array, not for vectors
def kernel(y: w.Out["n", w.f32]):
    with w.role():
        w.store(w.load(y[0], 512), y[0], rows=3)

# 'x' must be a w\.Out argument to be written, got w\.In
with w.role():
    w.store(w.load(x[0], 512), x[0])

# shape must be \(rows, columns\), or the number of elements of a vector, got 'all'
with w.role():
    w.load(x[0], "all")

# shape must be numbers that Python knows, got a value of w\.i32: write a meta-parameter after '\*'
def kernel(x: w.In["m n", w.f32]):
    with w.role():
        w.load(x[0, 0], x.columns)

# shape must be numbers that Python knows, got a value of w\.i32: write a meta-parameter after '\*'
def kernel(x: w.In["m n", w.f32]):
    with w.role():
        w.load(x[0, 0], (64, x.columns))

# a tile must have several rows and columns, got \(1, 1000\): a part of one row is a vector, of 1024 in pl
def kernel(x: w.In["m n", w.f32]):
    with w.role():
        w.load(x[0, 0], (1, 1000))
"""


@pytest.mark.parametrize("code, message", language_mistakes.cases(MISTAKES, parameters='x: w.In["n", w.f32]'))
def test_mistakes_of_parts(code, message, tmp_path):
    language_mistakes.refused(tmp_path, code, message, globals())
