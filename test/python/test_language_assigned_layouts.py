"""Kernels whose tiles get their layouts by `--assign-layouts`."""

import runpy
from pathlib import Path

import language_mistakes
import ml_dtypes
import numpy as np
import pytest

import weft.language as w

EXAMPLES = Path(__file__).parents[2] / "examples"
ARCHS = ("sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a")
TYPES = {np.float32: w.f32, np.float16: w.f16, ml_dtypes.bfloat16: w.bf16}


def random(*shape, dtype=np.float32):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32).astype(dtype)


def softmax_of(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def rows_kernel(dtype, rows, columns):
    @w.kernel(grid=lambda x, y: w.ceil_div(x.rows, rows))
    def softmax(x: w.In["m n", dtype], y: w.Out["m n", dtype]):
        first = w.cta() * rows
        t = w.load(x[first, 0], (rows, columns), outside=-np.inf).to(w.f32)
        e = w.exp(t - w.max(t, axis=1))
        w.store((e * w.rcp(w.sum(e, axis=1))).to(dtype), y[first, 0])

    return softmax


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    "dtype, rows, columns, m, n",
    [
        (np.float32, 8, 256, 19, 256),
        (np.float32, 4, 512, 6, 500),
        (ml_dtypes.bfloat16, 4, 1024, 9, 1024),
        (ml_dtypes.bfloat16, 32, 64, 40, 57),
        (np.float16, 64, 24, 70, 24),
    ],
)
def test_softmax_of_rows(arch, dtype, rows, columns, m, n):
    x = random(m, n, dtype=dtype)
    y = np.zeros_like(x)
    report = rows_kernel(TYPES[dtype], rows, columns).emulate(x, y, arch=arch)
    assert not report.findings
    want = softmax_of(x.astype(np.float64))
    assert np.allclose(y.astype(np.float64), want, atol=1e-6 if dtype == np.float32 else 4e-3)


def test_rows_are_loaded_and_stored_in_16_bytes():
    ptx = rows_kernel(w.bf16, 4, 1024).compile(arch="sm_90a").ptx
    assert ptx.count("ld.global.v4.b32") == ptx.count("st.global.v4.b32") == 4


@w.kernel(grid=lambda x, y: w.ceil_div(x.rows, 8))
def in_parts(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
    """Softmax of rows of any length, in parts with a running maximum."""
    first = w.cta() * 8
    peak, total = w.full(8, -np.inf), w.zeros(8)
    for at in w.range(0, x.columns, 128):
        t = w.load(x[first, at], (8, 128), outside=-np.inf)
        higher = w.maximum(peak, w.max(t, axis=1))
        total = total * w.exp(peak - higher) + w.sum(w.exp(t - higher), axis=1)
        peak = higher
    for at in w.range(0, x.columns, 128):
        t = w.load(x[first, at], (8, 128))
        w.store(w.exp(t - peak) / total, y[first, at])


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_vectors_of_rows_are_carried_through_loops(arch):
    x = random(13, 300)
    y = np.zeros_like(x)
    assert not in_parts.emulate(x, y, arch=arch).findings
    assert np.allclose(y, softmax_of(x.astype(np.float64)), atol=1e-6)


@w.kernel()
def of_coordinates(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], z: w.Out["m n", w.i32], n: w.i32):
    t = w.load(x[0, 0], (16, 128))
    below = w.column(t) + 3 <= w.row(t) * 2
    inside = w.column(t) < n - 5
    w.store(w.where(below & inside, t, -1.0), y[0, 0])
    w.store(w.column(t) * 100 + w.row(t), z[0, 0])


def test_coordinates():
    x, z = random(16, 128), np.zeros((16, 128), np.int32)
    y = np.zeros_like(x)
    assert not of_coordinates.emulate(x, y, z, 30, arch="sm_80").findings
    row, column = np.indices(x.shape)
    assert np.array_equal(y, np.where((column + 3 <= row * 2) & (column < 25), x, -1))
    assert np.array_equal(z, column * 100 + row)


@w.kernel()
def of_both_kinds(x: w.In["m k", w.f16], y: w.Out["m n", w.f32], s: w.Out["m", w.i32]):
    """A tile that is multiplied, and one that isn't."""
    buffer = w.shared(64, 64, w.f16)
    with w.role():
        t = w.load(x[0, 0], (64, 64))
        w.store(t, buffer)
        w.warpgroup_barrier()
        sums = w.warp_gemm(buffer, buffer.T, w.zeros((64, 64)))
        w.store(sums + t.to(w.f32), y[0, 0])
        w.store_column(w.argmax(w.load(x[0, 0], (64, 64)), axis=1), s[0])


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_tiles_follow_the_sums_that_they_meet(arch):
    x = random(64, 64, dtype=np.float16)
    y, s = np.zeros((64, 64), np.float32), np.zeros(64, np.int32)
    assert not of_both_kinds.emulate(x, y, s, arch=arch).findings
    wide = x.astype(np.float32)
    assert np.allclose(y, wide @ wide.T + wide, atol=1e-2) and np.array_equal(s, x.argmax(1))


def test_branches_choose_among_tiles():
    @w.kernel()
    def chosen(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], n: w.i32):
        t = w.load(x[0, 0], (8, 64))
        scale = w.full(8, 1.0)
        if n > 3:
            t = t * 2.0
            scale = w.max(t, axis=1)
        else:
            t = t + w.full((1, 64), 5.0)
        w.store(t * scale, y[0, 0])

    x = random(8, 64)
    for n, want in ((4, 2 * x * (2 * x).max(1, keepdims=True)), (3, x + 5)):
        y = np.zeros_like(x)
        assert not chosen.emulate(x, y, n, arch="sm_80").findings
        assert np.allclose(y, want, atol=1e-5)


@w.kernel(grid=lambda x, **_: w.ceil_div(x.rows, 8))
def layernorm(
    x: w.In["m n", w.bf16],
    weight: w.In["n", w.bf16],
    bias: w.In["n", w.f32],
    scale: w.In["m", w.f32],
    y: w.Out["m n", w.bf16],
    means: w.Out["m", w.f32],
):
    first = w.cta() * 8
    t = w.load(x[first, 0], (8, 128)).to(w.f32)
    mean = w.sum(t, axis=1) * w.rcp(x.columns.to(w.f32))
    d = w.where(w.column(t) < x.columns, t - mean, 0.0)
    square = w.sum(d * d, axis=1) * w.rcp(x.columns.to(w.f32))
    done = d * w.rsqrt(square + 1e-5) * w.load_row(weight[0], like=t).to(w.f32) + w.load_row(bias[0], like=t)
    w.store((done * w.load_column(scale[first], like=t)).to(w.bf16), y[first, 0])
    w.store_column(mean, means[first])


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("m, n", [(16, 128), (11, 120), (3, 97)])
def test_vectors_are_loaded_and_stored_beside_tiles(arch, m, n):
    x, weight, bias, scale = random(m, n), random(n), random(n), random(m)
    x, weight = x.astype(ml_dtypes.bfloat16), weight.astype(ml_dtypes.bfloat16)
    y, means = np.zeros_like(x), np.zeros(m, np.float32)
    assert not layernorm.emulate(x, weight, bias, scale, y, means, arch=arch).findings
    wide = x.astype(np.float64)
    mean = wide.mean(1, keepdims=True)
    want = (wide - mean) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * weight.astype(np.float64) + bias
    assert np.allclose(means, mean[:, 0], atol=1e-5)
    assert np.allclose(y.astype(np.float64), want * scale[:, None], rtol=1e-2, atol=2e-2)


def test_rows_and_columns_of_equal_length_and_transposed_tiles():
    @w.kernel()
    def both(x: w.In["m n", w.f32], v: w.In["k", w.f32], y: w.Out["m n", w.f32], s: w.Out["j", w.f32]):
        t = w.load(x[1, 2], (64, 64)).T
        r, c = w.load_column(v[0], like=t), w.load_row(v[0], like=t)
        w.store(t + w.where(r < c, r, c * 2) + w.max(t, axis=1), y[0, 0])
        w.store_column(w.load_column(v[0], like=w.zeros((12, 32))), s[0])

    x, v, s = random(63, 70), random(64), np.zeros(12, np.float32)
    y = np.zeros((64, 64), np.float32)
    assert not both.emulate(x[:, :64], v, y[:63], s, arch="sm_80").findings
    turned = np.pad(x[1:, 2:64], ((0, 2), (0, 2))).T[:63]
    r, c = v[:63, None], v[None]
    want = turned + np.where(r < c, r, c * 2) + turned.max(1, keepdims=True)
    assert np.allclose(y[:63], want, atol=1e-5) and np.array_equal(s, v[:12])


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_loops_and_branches_have_tiles_with_and_without_layouts(arch):
    @w.kernel()
    def carried(x: w.In["m n", w.f32], y: w.Out["k m n", w.f32]):
        with w.role():
            t = w.load(x[0, 0], (64, 64))
            u = w.convert(w.load(x[0, 0], (64, 64)))
            before = w.zeros((64, 64))
            one, two, three = before, w.zeros((64, 64)), w.zeros((64, 64))
            for _ in w.range(2):
                one, two = one + (before + u), u
            three = u if w.cta() > 0 else three + 5
            number = w.i32(0)
            while number < 2:
                three, number = three - u, number + 1
            turned = w.convert(w.load(x[0, 0], (64, 64)).T)
            for at, each in enumerate(
                (turned, one, two + u, three, w.where(t > 0, t, w.max(u, axis=1)), w.pin(t))
            ):
                w.store(each, y[at, 0, 0])

    x, y = random(64, 64), np.zeros((6, 64, 64), np.float32)
    assert not carried.emulate(x, y, arch=arch).findings
    want = [x.T, 2 * x, 2 * x, 5 - x - x, np.where(x > 0, x, x.max(1, keepdims=True)), x]
    assert np.array_equal(y, want)


gemm = runpy.run_path(str(EXAMPLES / "language_plain_gemm.py"))["gemm"]


@w.kernel(grid=lambda d, M, N: (w.ceil_div(d.rows, M), w.ceil_div(d.columns, N)))
def of_transposed(a: w.In["m k", w.f16], b: w.In["n k", w.f16], d: w.Out["m n", w.f32], *, M, N, K):
    row, column = w.cta(0) * M, w.cta(1) * N
    sums = w.zeros((M, N))
    for k in w.range(0, a.columns, K):
        sums = w.gemm(w.load(a[row, k], (M, K)), w.load(b[column, k], (N, K)).T, sums)
    w.store(w.relu(sums * 0.5), d[row, column])


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
def test_a_plain_loop_multiplies(arch):
    a, b = random(200, 152, dtype=ml_dtypes.bfloat16), random(152, 264, dtype=ml_dtypes.bfloat16)
    d = np.zeros((200, 264), ml_dtypes.bfloat16)
    assert not gemm.emulate(a, b, d, N=128, arch=arch).findings
    want = a.astype(np.float64) @ b.astype(np.float64)
    assert np.allclose(d.astype(np.float64), want, rtol=2**-7, atol=0.02)
    a, b = random(70, 40, dtype=np.float16), random(90, 40, dtype=np.float16)
    d = np.zeros((70, 90), np.float32)
    assert not of_transposed.emulate(a, b, d, M=64, N=64, K=32, arch=arch).findings
    want = np.maximum(a.astype(np.float64) @ b.astype(np.float64).T * 0.5, 0)
    assert np.allclose(d, want, atol=1e-3)


@pytest.mark.each_value(3)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("first, columns", [(0, 151), (1, 152), (3, 149)])
def test_a_plain_loop_multiplies_arrays_with_unaligned_rows(arch, first, columns):
    a = random(200, 160, dtype=ml_dtypes.bfloat16)[:, first : first + columns]
    b = random(columns, 265, dtype=ml_dtypes.bfloat16)[:, first:]
    d = np.zeros((200, 265 - first), ml_dtypes.bfloat16)
    assert not gemm.emulate(a, b, d, N=128, arch=arch).findings
    want = a.astype(np.float64) @ b.astype(np.float64)
    assert np.allclose(d.astype(np.float64), want, rtol=2**-7, atol=0.02)


@w.kernel(grid=lambda d: (w.ceil_div(d.rows, 64), w.ceil_div(d.columns, 64)))
def of_parts(a: w.In["m k", w.f16], b: w.In["k n", w.f16], d: w.Out["m n", w.f32], first: w.i32, *, least):
    row, column, sums = w.cta(0) * 64, w.cta(1) * 64, w.zeros((64, 64))
    for k in w.range(0, a.columns - first, 32):
        at = k + (least if least else first)
        sums = w.gemm(w.load(a[row, at], (64, 32)), w.load(b[at, column], (32, 64)), sums)
    w.store(sums, d[row, column])


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("least", [0, 3])
def test_tiles_of_a_plain_loop_begin_at_any_column(arch, least):
    a, b = random(70, 104, dtype=np.float16), random(104, 72, dtype=np.float16)
    d = np.zeros((70, 72), np.float32)
    assert not of_parts.emulate(a, b, d, 3, least=least, arch=arch).findings
    assert np.allclose(d, a[:, 3:].astype(np.float64) @ b[3:].astype(np.float64), atol=1e-3)
    if not least:  # before the first column and row
        assert not of_parts.emulate(a, b, d, -5, least=least, arch=arch).findings
        assert np.allclose(d, a.astype(np.float64) @ b.astype(np.float64), atol=1e-3)


@w.kernel()
def of_registers(h: w.In["m k", w.f16], g: w.In["k n", w.f16], y: w.Out["m n", w.f32], *, same):
    a = w.load(h[0, 0], (64, 32)) + 1
    sums = w.zeros((64, 64))
    for k in w.range(0, h.columns, 32):
        if not same:
            a = w.load(h[0, k], (64, 32)) + 1
        sums = w.gemm(a, w.load(g[k, 0], (32, 64)), sums)
    w.store(sums, y[0, 0])


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_no_product_reads_registers_that_the_next_iteration_writes(arch, same):
    h, g, y = (
        random(64, 96, dtype=np.float16),
        random(96, 64, dtype=np.float16),
        np.zeros((64, 64), np.float32),
    )
    assert not of_registers.emulate(h, g, y, same=same, arch=arch).findings
    wide = np.tile(h[:, :32], 3) if same else h
    assert np.allclose(y, (wide.astype(float) + 1) @ g.astype(float), atol=0.05)


MISTAKES = r"""
# 'v' was a vector of 64 rows and becomes a vector of 64 columns, in a loop of the GPU: take \.T of one
v = w.full(64, 1.0)
for k in w.range(3):  # here
    v = w.full((1, 64), 2.0)
w.store_column(v, y[0, 0])

# a multiple of 8 columns, and of 16 rows with 8 columns, got \(7, 7\): use \(16, 8\)
w.zeros((7, 7))

# of 4 rows with 64 columns, got \(2, 64\): use \(4, 64\)
w.load(x[0, 0], (2, 64))

# needs the layout of the sums of w\.gemm, with a multiple of 64 rows .* got \(8, 64\): use \(64, 64\)
w.sum(w.load(x[0, 0], (8, 64)))

# a vector of columns beside a tile of \[8, 64\] must have 64 elements, got 8
w.load(x[0, 0], (8, 64)) + w.full((1, 8), 1.0)

# becomes a fragment of 8 x 64 w\.f32, in a loop of the GPU: begin with w\.full\(\(8, 64\), 0\.0\)$
t = 0.0
for k in w.range(3):  # here
    t = t + w.load(x[0, 0], (8, 64))
w.store(t, y[0, 0])

# a vector is beside tiles of one layout: .* load or compute one for each of them
with w.role():
    s, u = w.convert(w.load(x[0, 0], (64, 64))), w.load(x[0, 0], (8, 64))
    v = w.load_row(x[0, 0], like=u)
    w.store(s + v, y[0, 0])
    w.store(u + v, y[0, 0])  # here

# a vector is beside tiles of one layout, so load or compute one for each of them$
with w.role():
    s, u = w.convert(w.load(x[0, 0], (64, 64))), w.load(x[0, 0], (8, 64))
    v = w.load_row(x[0, 0], like=u)
    w.store(u + v, y[0, 0])  # here
    w.store(s + v, y[0, 0])

# stages of w\.range must be at least 2, and unroll 1, got 1
with w.role():
    for k in w.range(0, 64, 16, stages=1):  # here
        pass

# sums of this product must be as w\.zeros\(\(64, 64\), w\.f32\) makes them
w.gemm(w.load(x[0, 0], (64, 32)), w.load(x[0, 0], (32, 64)), w.zeros((64, 32)))

# a has 32 columns and b has 64 rows, which must be equal
w.gemm(w.load(x[0, 0], (64, 32)), w.load(x[0, 0], (64, 64)))

# 'tile.gemm' op multiplies loaded tiles, which must be in a loop: w\.range\(0, K, …\)
with w.role():
    s = w.gemm(w.load(x[0, 0], (64, 32)), w.load(x[0, 0], (32, 64)))  # here
    w.store(s, y[0, 0])
"""


@pytest.mark.parametrize("code, message", language_mistakes.cases(MISTAKES))
def test_mistakes(code, message, tmp_path):
    language_mistakes.refused(tmp_path, code, message, globals())


@pytest.mark.parametrize("chip", ["sm_90a", "sm_80"])
def test_a_second_product_of_loaded_tiles(chip):
    @w.kernel
    def kernel(a: w.In["m k", w.f16], b: w.In["k n", w.f16], c: w.In["k n", w.f16], d: w.Out["m n", w.f32]):
        total, sums = w.zeros(64), w.zeros((64, 64))
        for k in w.range(0, a.columns, 64):
            total = total + w.sum(w.gemm(w.load(a[0, k], (64, 64)), w.load(b[k, 0], (64, 64))), axis=1)
            sums = w.gemm(w.load(a[0, k], (64, 64)), w.load(c[k, 0], (64, 64)), w.maximum(sums, 0.0))
        w.store(sums + total, d[0, 0])

    a, b, c = np.random.default_rng(0).integers(-2, 3, (3, 64, 64)).astype(np.float16)
    d = np.zeros((64, 64), np.float32)
    assert not kernel.emulate(a, b, c, d, arch=chip).findings
    a, b, c = (each.astype(np.float32) for each in (a, b, c))
    assert np.array_equal(d, a @ c + (a @ b).sum(1, keepdims=True))


@pytest.mark.parametrize("branches", [False, True])
def test_a_product_of_what_others_read_is_not_late(branches):
    @w.kernel
    def kernel(
        q: w.In["m d", w.f16],
        k: w.In["n d", w.f16],
        p_out: w.Out["m n", w.f16],
        d: w.Out["m d", w.f32],
        *,
        branches,
    ):
        total, sums = w.zeros(64), w.zeros((64, 64))
        for n in w.range(0, k.rows, 32):
            s = w.gemm(w.load(q[0, 0], (64, 64)), w.load(k[n, 0], (32, 64)).T)
            p = s.to(w.f16)
            if branches:
                if n > 32:
                    p = (s * 0.5).to(w.f16)
            else:
                total = total + w.sum(p.to(w.f32), axis=1)
                w.store(p, p_out[0, n])
            sums = w.gemm(p, w.load(k[n, 0], (32, 64)), sums)
        w.store(sums + total, d[0, 0])

    q, k = np.random.default_rng(0).integers(-2, 3, (2, 96, 64)).astype(np.float16)
    p, d = np.zeros((64, 96), np.float16), np.zeros((64, 64), np.float32)
    assert not kernel.emulate(q[:64], k, p, d, branches=branches, arch="sm_90a").findings
    scores = q[:64].astype(np.float32) @ k.T.astype(np.float32)
    assert branches or np.array_equal(p, scores)
    scores[:, 64:] *= 0.5 if branches else 1
    total = 0 if branches else scores.sum(1, keepdims=True)
    assert np.allclose(d, scores @ k.astype(np.float32) + total, rtol=1e-3)
