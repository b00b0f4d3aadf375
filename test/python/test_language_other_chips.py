"""The sources of kernels for sm_90a run on other chips: in tensor memory, and by `mma.sync`."""

import importlib.util
import math
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from language_kernels import operands, with_bias

import weft
import weft.language as w
from weft.language.calls import kernels

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BF16, F16 = ml_dtypes.bfloat16, np.float16
slow = pytest.mark.slow


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def random(*shape, dtype=BF16, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def clean(report):
    assert not report.findings, "\n".join(map(str, report.findings[:3]))


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    "rows, shape, dtype",
    [
        (64, (77, 72, 136), BF16),
        (128, (200, 72, 72), BF16),
        pytest.param(64, (1, 8, 8), F16, marks=slow),
        pytest.param(128, (500, 264, 200), F16, marks=slow),
        pytest.param(64, (300, 136, 256), ml_dtypes.float8_e4m3fn, marks=slow),
        pytest.param(128, (300, 136, 256), np.float32, marks=slow),
    ],
)
def test_products_of_64_and_of_128_rows(rows, shape, dtype):
    m, n, k = shape
    a, b, bias, d = (
        random(m, k, dtype=dtype),
        random(n, k, dtype=dtype, seed=1),
        random(n),
        np.zeros((m, n), BF16),
    )
    bias = bias.astype(np.float32)
    meta = {"R": rows, "BK": 32 if dtype == np.float32 else 64, "stages": 3}
    clean(with_bias.emulate(a, b, bias, d, arch="sm_100a", **meta))
    expected = a.astype(float) @ b.astype(float).T + bias
    assert np.allclose(d.astype(float), expected, rtol=2**-7, atol=0.02)


@pytest.mark.slow
def test_instructions_have_as_many_rows_as_a_warpgroup_multiplies():
    """An M of 128 uses all lanes of tensor memory; two warpgroups of 64 rows share columns."""
    small, large = (
        with_bias.compile("bf16", "bf16", None, None, arch="sm_100a", R=rows, stages=3) for rows in (64, 128)
    )
    assert "tcgen05.mma.cta_group::1.kind::f16" in small.ptx and "wgmma" not in small.ptx
    columns = [kernel.ptx.count("tcgen05.ld") for kernel in (small, large)]
    assert columns[1] == 2 * columns[0]
    assert not any(each.resources.spill_stores for each in (small, large))


@pytest.mark.slow
def test_operands_may_be_transposed_or_in_registers():
    a, b = random(2, 64, 64, dtype=F16)
    d, e = np.zeros((2, 64, 64), np.float32)
    clean(operands.emulate(a, b, d, e, 3, arch="sm_100a"))
    expected = a.astype(float).T @ b.astype(float)
    assert np.allclose(d, expected, atol=1e-3)
    again = expected.astype(F16).astype(float) @ b.astype(float).T
    assert np.allclose(e, expected + 3 * again, atol=0.1)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_operands_of_f32_are_contiguous_along_k(arch):
    @w.kernel(arch=arch)
    def product(b: w.In["k n", w.f32], d: w.Out["m n", w.f32]):
        a, tile = w.shared(64, 32, w.f32), w.shared(32, 64, w.f32)
        with w.role():
            w.store(w.wait(w.gemm(a, tile)), d[0, 0])

    with pytest.raises(
        weft.WeftError, match=r"b of w.gemm must be contiguous along K for elements of w\.f32"
    ):
        product.compile()


@w.kernel(arch="sm_100a")
def ahead(a: w.In["m k", w.f16], b: w.In["n k", w.f16], d: w.Out["m n", w.f32], twice: w.i32):
    """The squares of the products of each block, added up: the next product starts before they are."""
    ring = w.ring(2, a=(64, 64, w.f16), b=(64, 64, w.f16))
    with w.role():
        total = w.zeros((64, 64))
        slot = ring.take()
        s = w.gemm(slot.a, slot.b.T)
        for _ in w.range(1, w.ceil_div(a.columns, 64)):
            block = w.wait(s)
            slot.release()
            slot = ring.take()
            s = w.gemm(slot.a, slot.b.T)
            total = total + block * block
        if twice > 0:
            s = w.gemm(slot.a, slot.b.T, s)
            t = w.wait(s)
        else:
            t = w.wait(s)
        slot.release()
        w.store(total + t * t, d[0, 0])
    with w.role():
        for k in w.range(0, a.columns, 64):
            ring.fill(a=a[0, k], b=b[0, k])


@pytest.mark.each_value(1)
@pytest.mark.parametrize("twice", [0, 1])
def test_a_product_that_the_next_iteration_waits_for(twice):
    a, b, d = random(64, 192, dtype=F16), random(64, 192, dtype=F16, seed=1), np.zeros((64, 64), np.float32)
    clean(ahead.emulate(a, b, d, twice))
    blocks = [a[:, k : k + 64].astype(float) @ b[:, k : k + 64].astype(float).T for k in (0, 64, 128)]
    blocks[-1] *= 1 + twice
    assert np.allclose(d, sum(each**2 for each in blocks), rtol=1e-3, atol=0.05)


def refused(kernel, message, *arguments, **meta):
    with pytest.raises(weft.WeftError, match=message) as caught:
        kernel.compile(*arguments, **meta)
    location = caught.value.diagnostics[0].location
    assert location is not None and location.file == __file__


@w.kernel()
def released_later(a: w.In["m k", w.f16], d: w.Out["m n", w.f32]):
    ring = w.ring(2, a=(64, 64, a.dtype))
    with w.role():
        old = ring.take()
        acc = w.gemm(old.a, old.a.T)
        for _ in w.range(1, w.ceil_div(a.columns, 64)):
            new = ring.take()
            acc = w.gemm(new.a, new.a.T, acc)
            w.wait(pending=1)
            old.release()
            old = new
        acc = w.wait(acc)
        old.release()
        w.store(acc, d[0, 0])
    with w.role(), w.one_thread():
        for k in w.range(w.ceil_div(a.columns, 64)):
            ring.fill(a=a[0, 64 * k])


@pytest.mark.slow
def test_no_warp_is_late_for_a_stage_that_one_thread_releases():
    """Each warp waits for a stage and for a product by itself. With the barrier left out of `w.wait`, some of
    these seeds let one warp be two stages behind.
    """
    a, d = random(64, 640, dtype=F16), np.zeros((64, 64), np.float32)
    for seed in (*range(10), 50):
        clean(released_later.emulate(a, d, arch="sm_100a", seed=seed))
    assert np.allclose(d, a.astype(float) @ a.astype(float).T, rtol=1e-3, atol=1e-2)


def test_mistakes_are_reported_at_the_line_of_the_kernel():
    @w.kernel(arch="sm_100a")
    def wide(a: w.In["m k", w.f16], d: w.Out["m n", w.f32]):
        ring = w.ring(1, a=(64, 64, w.f16), b=(256, 64, w.f16))
        with w.role():
            slot = ring.take()
            products = [w.gemm(slot.a, slot.b.T) for _ in range(3)]
            for each in w.wait(*products):
                w.store(each, d[0, 0])

    refused(wide, "have 512 columns of tensor memory, got 768")

    @w.kernel(arch="sm_100a")
    def stale(a: w.In["m k", w.f16], d: w.Out["m n", w.f32]):
        ring = w.ring(1, a=(64, 64, w.f16))
        with w.role():
            slot = ring.take()
            first = w.gemm(slot.a, slot.a.T)
            second = w.gemm(slot.a, slot.a.T, first)
            first, second = w.wait(first, second)
            w.store(first + second, d[0, 0])

    refused(stale, "later products were added to the sums of this one")

    @w.kernel(arch="sm_100a")
    def many(a: w.In["m k", w.f16]):
        ring = w.ring(1, a=(64, 64, w.f16))
        with w.role():
            slot = ring.take()
            w.gemm(slot.a, slot.a.T)
            w.wait(pending=8)

    refused(many, "pending must be less than 8")

    @w.kernel(arch="sm_100a")
    def moves(a: w.In["m k", w.f16], d: w.Out["m n", w.f32], n: w.i32):
        ring = w.ring(1, a=(64, 64, w.f16))
        with w.role():
            slot = ring.take()
            s = w.gemm(slot.a, slot.a.T)
            for _ in w.range(n):
                s = w.gemm(slot.a, slot.a.T)
            w.store(w.wait(s), d[0, 0])

    refused(moves, "becomes a pending product of 64 x 64 w.f32 with sums in other tensor memory")


@slow
def test_the_examples_on_sm_100a():
    gemm, gated, rmsnorm = (
        getattr(example(f"language_{name}"), kernel)
        for name, kernel in (("gemm", "gemm_gelu"), ("gated_mlp", "gated"), ("rmsnorm", "rmsnorm_gemm"))
    )
    a, b, bias, d = (
        random(200, 136),
        random(264, 136, seed=1),
        random(264).astype(np.float32),
        np.zeros((200, 264), BF16),
    )
    clean(gemm.emulate(a, b, bias, d, arch="sm_100a"))
    x = a.astype(float) @ b.astype(float).T + bias
    expected = x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2
    assert np.allclose(d.astype(float), expected, rtol=2**-8, atol=1e-4)
    x, gate, up = (random(n, 136, seed=n) / 4 for n in (200, 264, 265))
    x, gate, up, y = x.astype(BF16), gate.astype(BF16), up[:264].astype(BF16), np.zeros((200, 264), BF16)
    clean(gated.emulate(x, gate, up, y, arch="sm_100a"))
    one, other = (x.astype(float) @ each.astype(float).T for each in (gate, up))
    assert np.allclose(y.astype(float), one / (1 + np.exp(-one)) * other, rtol=2**-7, atol=1e-3)
    gain, d = np.random.default_rng(0).uniform(0.5, 1.5, 136).astype(np.float32), np.zeros((200, 264), BF16)
    clean(rmsnorm.emulate(a, gain[None], b, d, 1e-6, arch="sm_100a"))
    exact = a.astype(float)
    exact = exact / np.sqrt((exact**2).mean(1, keepdims=True) + 1e-6) * gain @ b.astype(float).T
    assert np.abs(d.astype(float) - exact).max() < 0.01 * np.abs(exact).max()
    for kernel in (gemm, gated, rmsnorm):
        resources = kernel.compile(arch="sm_100a").resources
        assert resources.spill_stores == resources.spill_loads == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "d, causal", [(64, False), pytest.param(64, True, marks=slow), pytest.param(128, False, marks=slow)]
)
def test_attention_on_sm_100a(d, causal):
    attention = example("attention").attention
    q, k, v = (random(2, n, d, dtype=F16, seed=n) for n in (70, 130, 131))
    v = v[:, :130].copy()
    o, lse, scale = np.zeros_like(q), np.zeros(q.shape[:2], np.float32), 1 / math.sqrt(d)
    meta = {"causal": causal, "ahead": False, "arch": "sm_100a"}
    clean(attention.emulate(q, k, v, o, lse, scale, **meta))
    s = q.astype(float) @ k.astype(float).swapaxes(1, 2) * scale
    if causal:
        s = np.where(np.arange(130) <= np.arange(70)[:, None] + 60, s, -np.inf)
    e = np.exp(s)
    assert np.allclose(o.astype(float), e / e.sum(2)[..., None] @ v.astype(float), atol=2e-3)
    assert np.allclose(lse, np.log(e.sum(2)), atol=2e-3)
    resources = attention.compile(q, k, v, o, lse, scale, **meta).resources
    assert resources.spill_stores <= (12 if causal else 0)  # in the role that copies, which has 24 registers


BF16_OF_WARPS, F16_OF_WARPS, FP8 = ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3fn
TMA_CHIPS = ("sm_120a", "sm_90", "sm_100")


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    "arch, rows, shape, dtype",
    [
        ("sm_120a", 64, (77, 72, 136), BF16_OF_WARPS),
        pytest.param("sm_90", 128, (200, 72, 72), BF16_OF_WARPS, marks=slow),
        pytest.param("sm_100", 64, (1, 8, 8), F16_OF_WARPS, marks=slow),
        pytest.param("sm_120a", 64, (300, 136, 256), FP8, marks=slow),
        pytest.param("sm_90", 64, (300, 136, 256), np.float32, marks=slow),
        pytest.param("sm_120a", 64, (500, 264, 200), F16_OF_WARPS, marks=slow),
        ("sm_80", 64, (77, 72, 136), BF16_OF_WARPS),
        pytest.param("sm_86", 64, (200, 72, 72), F16_OF_WARPS, marks=slow),
        pytest.param("sm_80", 128, (500, 264, 200), BF16_OF_WARPS, marks=slow),
        pytest.param("sm_89", 64, (300, 136, 256), FP8, marks=slow),
        pytest.param("sm_80", 64, (1, 8, 8), F16_OF_WARPS, marks=slow),
    ],
)
def test_products_of_64_and_of_128_rows_of_warps(arch, rows, shape, dtype):
    m, n, k = shape
    a, b, bias = random(m, k, dtype=dtype), random(n, k, dtype=dtype, seed=1), random(n, dtype=np.float32)
    d, meta = (
        np.zeros((m, n), BF16_OF_WARPS),
        {"arch": arch, "R": rows, "BK": 32 if dtype == np.float32 else 64},
    )
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
def test_operands_may_be_transposed_or_in_registers_of_warps(arch):
    a, b = random(2, 64, 64, dtype=F16_OF_WARPS)
    d, e = np.zeros((2, 64, 64), np.float32)
    clean(operands.emulate(a, b, d, e, 3, arch=arch))
    expected = a.astype(float).T @ b.astype(float)
    assert np.allclose(d, expected, atol=1e-3)
    again = expected.astype(F16_OF_WARPS).astype(float) @ b.astype(float).T
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
    q, k, v = (random(1, n, 64, dtype=F16_OF_WARPS, seed=n) for n in (64, 100, 101))
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

    x = random(200, 72, dtype=F16_OF_WARPS)
    y, total = np.zeros_like(x), np.zeros(2, np.int32)
    report = counted.emulate(x, total, y)
    clean(report)
    assert np.array_equal(y[:, :64], x[:, :64]) and total.tolist() == [4, 200]
    assert report.printed.split("\n")[:4] == [f"block {i}" for i in (0, 64, 128, 192)]


def test_rows_that_begin_anywhere_cant_be_copied():
    with pytest.raises(weft.WeftError, match="rows of 'a' must begin at multiples of 16 bytes"):
        with_bias.compile(
            random(64, 65, dtype=F16_OF_WARPS), random(64, 65, dtype=F16_OF_WARPS), None, None, arch="sm_80"
        )


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
        random(1, heads, rows, 64, dtype=F16_OF_WARPS, seed=rows)
        for heads, rows in ((2, 100), (1, 150), (1, 151))
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
