"""The sources of kernels for sm_90a run on chips without `wgmma`: each warp multiplies by `mma.sync`."""

import math
import re

import ml_dtypes
import numpy as np
import pytest
from language_kernels import operands, with_bias

import weft
import weft.language as w
from weft.language.calls import kernels

BF16, F16, FP8 = ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3fn
slow = pytest.mark.slow
TMA_CHIPS = ("sm_120a", "sm_90", "sm_100")


def random(*shape, dtype=BF16, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def clean(report):
    assert not report.findings, "\n".join(map(str, report.findings[:3]))


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    "arch, rows, shape, dtype",
    [
        ("sm_120a", 64, (77, 72, 136), BF16),
        pytest.param("sm_90", 128, (200, 72, 72), BF16, marks=slow),
        pytest.param("sm_100", 64, (1, 8, 8), F16, marks=slow),
        pytest.param("sm_120a", 64, (300, 136, 256), FP8, marks=slow),
        pytest.param("sm_90", 64, (300, 136, 256), np.float32, marks=slow),
        pytest.param("sm_120a", 64, (500, 264, 200), F16, marks=slow),
        ("sm_80", 64, (77, 72, 136), BF16),
        pytest.param("sm_86", 64, (200, 72, 72), F16, marks=slow),
        pytest.param("sm_80", 128, (500, 264, 200), BF16, marks=slow),
        pytest.param("sm_89", 64, (300, 136, 256), FP8, marks=slow),
        pytest.param("sm_80", 64, (1, 8, 8), F16, marks=slow),
    ],
)
def test_products_of_64_and_of_128_rows(arch, rows, shape, dtype):
    m, n, k = shape
    a, b, bias = random(m, k, dtype=dtype), random(n, k, dtype=dtype, seed=1), random(n, dtype=np.float32)
    d, meta = np.zeros((m, n), BF16), {"arch": arch, "R": rows, "BK": 32 if dtype == np.float32 else 64}
    clean(with_bias.emulate(a, b, bias, d, **meta))
    expected = a.astype(float) @ b.astype(float).T + bias
    assert np.allclose(d.astype(float), expected, rtol=2**-7, atol=0.03)
    kernel = with_bias.compile(a, b, bias, d, **meta)
    assert kernel.resources.spill_stores == 0
    assert "mma.sync" in kernel.ptx and "wgmma" not in kernel.ptx
    assert ("setmaxnreg" in kernel.ptx) == (arch == "sm_120a")
    assert ("cp.async.bulk.tensor" in kernel.ptx) == (arch in TMA_CHIPS)
    assert ("cp.async.mbarrier.arrive.noinc" in kernel.ptx) == (arch not in TMA_CHIPS)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_120a", pytest.param("sm_80", marks=slow)])
def test_operands_may_be_transposed_or_in_registers(arch):
    a, b = random(2, 64, 64, dtype=F16)
    d, e = np.zeros((2, 64, 64), np.float32)
    clean(operands.emulate(a, b, d, e, 3, arch=arch))
    expected = a.astype(float).T @ b.astype(float)
    assert np.allclose(d, expected, atol=1e-3)
    again = expected.astype(F16).astype(float) @ b.astype(float).T
    assert np.allclose(e, expected + 3 * again, atol=0.1)


@w.kernel(grid=lambda q: (w.ceil_div(q.rows, 64), q.matrices))
def attend(
    q: w.In["heads m D"], k: w.In["heads n D"], v: w.In["heads n D"], o: w.Out["heads m D"], *, D, N=64
):
    queries = w.ring(1, q=(64, D, q.dtype))
    blocks = w.ring(2, k=(N, D, k.dtype), v=(N, D, v.dtype))
    row, head = w.cta(0) * 64, w.cta(1)
    with w.role():
        query = queries.take().q
        peak, total, out = w.full(64, -w.inf), w.zeros(64), w.zeros((64, D))
        for n in w.range(0, k.rows, N):
            with blocks.take() as block:
                s = w.wait(w.gemm(query, block.k.T)) * (math.log2(math.e) / math.sqrt(D))
                s = w.where(w.column(s) + n < k.rows, s, -w.inf)
                old, peak = peak, w.maximum(peak, w.max(s, axis=1))
                p = w.exp2(s - peak)
                scale = w.exp2(old - peak)
                total = total * scale + w.sum(p, axis=1)
                out = w.wait(w.gemm(p.to(v.dtype), block.v, out * scale))
        w.store((out / total).to(o.dtype), o[head, row, 0])
    with w.role(), w.one_thread():
        queries.fill(q=q[head, row])
        for n in w.range(0, k.rows, N):
            blocks.fill(k=k[head, n], v=v[head, n])


@pytest.mark.parametrize(
    "arch", ["sm_80", pytest.param("sm_120a", marks=slow), pytest.param("sm_100a", marks=slow)]
)
def test_attention(arch):
    q, k, v = (random(1, n, 64, dtype=F16, seed=n) for n in (64, 100, 101))
    v, o = v[:, :100].copy(), np.zeros_like(q)
    clean(attend.emulate(q, k, v, o, arch=arch))
    e = np.exp(q.astype(float) @ k.astype(float).swapaxes(1, 2) / 8)
    assert np.allclose(o, e / e.sum(2)[..., None] @ v.astype(float), atol=2e-3)


def test_types_that_a_chip_cant_multiply():
    message = r"products of w.e4m3 and w.e4m3 by mma.sync need sm_89 or later, got sm_80: convert the tiles"
    with pytest.raises(weft.WeftError, match=message) as caught:
        with_bias.compile("f8E4M3FN", "f8E4M3FN", None, None, arch="sm_80")
    assert caught.value.diagnostics[0].location.file.endswith("language_kernels.py")


def test_rings_need_asynchronous_copies():
    message = (
        r"language_kernels\.py:\d+:\d+: error: a ring needs sm_80 or later, got sm_75: load tiles by w.load"
    )
    with pytest.raises(weft.WeftError, match=message):
        with_bias.compile("f16", "f16", None, None, arch="sm_75")


def test_one_thread_has_effects_where_all_threads_copy():
    @w.kernel(arch="sm_80")
    def counted(x: w.In["m n", w.f16], total: w.Out["one", w.i32], y: w.Out["m n", w.f16]):
        ring = w.ring(2, x=(64, 64, w.f16))
        staging = w.shared(64, 64, w.f16)
        with w.role():
            for i in w.range(0, x.rows, 64):
                with ring.take() as stage:
                    t = w.load(stage.x)
                w.store(t, y[i, 0], via=staging)
        with w.role(), w.one_thread():
            for i in w.range(0, x.rows, 64):
                ring.fill(x=x[i, 0])
                w.atomic_add(total[0], 1)
                w.print("block", i)
            total[1] = x.rows

    x = random(200, 72, dtype=F16)
    y, total = np.zeros_like(x), np.zeros(2, np.int32)
    report = counted.emulate(x, total, y)
    clean(report)
    assert np.array_equal(y[:, :64], x[:, :64]) and total.tolist() == [4, 200]
    assert report.printed.split("\n")[:4] == [f"block {i}" for i in (0, 64, 128, 192)]


def test_rows_that_begin_anywhere_cant_be_copied():
    with pytest.raises(weft.WeftError, match="rows of 'a' must begin at multiples of 16 bytes"):
        with_bias.compile(random(64, 65, dtype=F16), random(64, 65, dtype=F16), None, None, arch="sm_80")


def test_warps_meet_before_copies_of_a_stage_are_announced():
    """Of a vector, only some lanes copy; the others would run ahead."""

    @w.kernel(arch="sm_80")
    def vectors(x: w.In["m n", w.f32], y: w.Out["m n", w.f32]):
        ring = w.ring(2, v=(1, 64, w.f32))
        with w.role():
            for i in w.range(0, x.rows):
                with ring.take() as stage:
                    w.store_row(w.load_row(stage.v, like=w.zeros((64, 64))), y[i, 0])
        with w.role(), w.one_thread():
            for i in w.range(0, x.rows):
                ring.fill(v=x[i, 0])

    x = random(5, 64, dtype=np.float32)
    y = np.zeros_like(x)
    clean(vectors.emulate(x, y))
    assert np.array_equal(x, y)
    assert re.search(r"bar\.warp\.sync.*\n\s*cp\.async\.mbarrier\.arrive\.noinc", vectors.compile().ptx)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_100a", "sm_80"])
def test_attention_of_weft_on_other_chips(arch, monkeypatch):
    monkeypatch.setattr(kernels, "_default_chip", lambda: arch)
    q, k, v = (
        random(1, heads, rows, 64, dtype=F16, seed=rows) for heads, rows in ((2, 100), (1, 150), (1, 151))
    )
    v = v[:, :, :150].copy()
    out = weft.attention(q, k, v, causal=True)
    s = np.where(
        np.arange(150) <= np.arange(100)[:, None] + 50,
        q.astype(float) @ k.astype(float).swapaxes(2, 3),
        -np.inf,
    )
    e = np.exp(s / 8)
    assert np.allclose(out, e / e.sum(-1, keepdims=True) @ v.astype(float), atol=2e-3)
