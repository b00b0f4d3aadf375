"""Products and attention in `weft.language`: right in the emulator, without findings or spills."""

import importlib.util
import math
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from test_tf32 import nearest, operands

import weft
import weft.language as w

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BF16, F16 = ml_dtypes.bfloat16, np.float16


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


gemm_gelu = example("language_gemm").gemm_gelu
gated = example("language_gated_mlp").gated
rmsnorm_gemm = example("language_rmsnorm").rmsnorm_gemm
softmax = example("language_softmax")
attention_example = example("attention")
linear = example("language_linear_attention")


def clean(report):
    assert not report.findings, "\n".join(map(str, report.findings[:3]))


@pytest.mark.each_value(1)
@pytest.mark.parametrize("shape", [(3, 128), (2, 1000), (2, 16384), (1, 65536)])
def test_softmax_of_rows(shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(BF16)
    y = np.zeros_like(x)
    clean(softmax.softmax.emulate(x, y, N=softmax.block(shape[1])))
    e = np.exp(x.astype(float) - x.astype(float).max(1, keepdims=True))
    assert np.allclose(y.astype(float), e / e.sum(1, keepdims=True), rtol=2**-7, atol=1e-6)


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("tokens", "depth", "values", "arch"),
    [
        (150, 64, 72, "sm_90a"),
        (70, 64, 8, "sm_80"),
        (70, 64, 72, "sm_100a"),
        (1, 64, 64, "sm_90a"),
        pytest.param(200, 128, 136, "sm_90a", marks=pytest.mark.slow),
    ],
)
def test_linear_attention(tokens, depth, values, arch):
    q, k, v, gates, o, final = linear.arguments(2, tokens, depth, values)
    clean(linear.linear_attention.emulate(q, k, v, gates, o, final, arch=arch))
    assert linear.linear_attention.compile(q, k, v, gates, o, final, arch=arch).resources.spill_stores == 0
    exact, state = linear.reference(q, k, v, gates)
    assert np.abs(o.astype(float) - exact).max() < 0.01 * np.abs(exact).max()
    assert np.abs(final - state).max() < 0.005 * np.abs(state).max()


@pytest.mark.parametrize(
    "m, n, k",
    [
        (77, 72, 40),
        pytest.param(200, 264, 136, marks=pytest.mark.slow),
        pytest.param(128, 256, 256, marks=pytest.mark.slow),
        pytest.param(1, 8, 8, marks=pytest.mark.slow),
        pytest.param(257, 520, 200, marks=pytest.mark.slow),
    ],
)
def test_gemm_and_gelu(m, n, k):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, k)).astype(BF16) for rows in (m, n))
    bias = rng.standard_normal(n).astype(np.float32)
    d = np.zeros((m, n), BF16)
    clean(gemm_gelu.emulate(a, b, bias, d, BN=64 if n < 100 else 256))
    x = a.astype(float) @ b.astype(float).T + bias
    expected = x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2
    assert np.allclose(d.astype(float), expected, rtol=2**-8, atol=1e-4)


@pytest.mark.slow
def test_the_example_of_a_gemm_doesnt_spill():
    resources = gemm_gelu.compile().resources
    assert resources.registers == 168
    assert resources.spill_stores == resources.spill_loads == 0


@pytest.mark.slow
@pytest.mark.parametrize("m, n, k", [(65, 72, 200), pytest.param(700, 264, 136, marks=pytest.mark.slow)])
def test_a_gated_layer(m, n, k):
    rng = np.random.default_rng(0)
    x, gate, up = ((rng.standard_normal((rows, k)) / 4).astype(BF16) for rows in (m, n, n))
    y = np.zeros((m, n), BF16)
    clean(gated.emulate(x, gate, up, y, BM=64, BN=64))
    a, b = (x.astype(float) @ each.astype(float).T for each in (gate, up))
    assert np.allclose(y.astype(float), a / (1 + np.exp(-a)) * b, rtol=2**-8, atol=1e-4)


def test_operands_may_be_transposed_or_in_registers():
    @w.kernel()
    def products(
        a: w.In["k m", w.f16], b: w.In["k n", w.f16], d: w.Out["m n", w.f32], e: w.Out["m n", w.f32]
    ):
        ring = w.ring(1, a=(64, 64, w.f16), b=(64, 64, w.f16))
        with w.role():
            slot = ring.take()
            d_ = w.wait(w.gemm(slot.a.T, slot.b))
            w.store(d_, d[0, 0])
            w.store(w.wait(w.gemm(d_.to(w.f16), slot.b.T, d_)), e[0, 0])
        with w.role():
            ring.fill(a=a[0, 0], b=b[0, 0])

    a, b = np.random.default_rng(0).standard_normal((2, 64, 64)).astype(F16)
    d, e = np.zeros((2, 64, 64), np.float32)
    clean(products.emulate(a, b, d, e))
    expected = a.astype(float).T @ b.astype(float)
    assert np.allclose(d, expected, atol=1e-3)
    assert np.allclose(e, expected + expected.astype(F16).astype(float) @ b.astype(float).T, atol=2e-2)


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    "d, causal, dtype, heads, m, n",
    [
        (64, True, F16, 1, 260, 270),  # three tiles: a pair, and one without a partner
        pytest.param(64, True, F16, 1, 129, 600, marks=pytest.mark.slow),
        pytest.param(64, True, F16, 5, 400, 300, marks=pytest.mark.slow),
        pytest.param(64, False, BF16, 2, 128, 384, marks=pytest.mark.slow),
        pytest.param(64, False, F16, 2, 40, 100, marks=pytest.mark.slow),
        (64, False, BF16, 5, 60, 140),  # five tiles: the emulator has four multiprocessors
        pytest.param(128, False, BF16, 5, 100, 140, marks=pytest.mark.slow),
        pytest.param(128, True, F16, 2, 256, 256, marks=pytest.mark.slow),
        pytest.param(128, True, BF16, 2, 200, 70, marks=pytest.mark.slow),
    ],
)
def test_attention_forward(d, causal, dtype, heads, m, n):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((heads, rows, d)).astype(dtype) for rows in (m, n, n))
    q *= dtype(4)  # so that the largest scores differ by more than `SLACK` from block to block
    o, lse = np.zeros_like(q), np.zeros((heads, m), np.float32)
    options = {"polynomial_every": 4} if not causal or n > 400 else {"lazy": False}
    options |= attention_example.best(d, m, causal)
    clean(attention_example.attention.emulate(q, k, v, o, lse, d**-0.5, causal=causal, **options))
    expected, sums = attention_example.reference(q, k, v, d**-0.5, causal)
    # As the same in the precision of the kernel: P is rounded before it is multiplied, and the output.
    bound = 4 * ml_dtypes.finfo(dtype).eps * max(np.abs(expected).max(), 1)
    assert np.abs(o.astype(float) - expected).max() < bound
    assert np.allclose(lse, sums, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "d, options",
    [
        (128, {"causal": False}),
        pytest.param(64, {"causal": True}, marks=pytest.mark.slow),
        pytest.param(64, {"causal": False, "groups": 3}, marks=pytest.mark.slow),
        pytest.param(64, {"groups": 3, "polynomial_every": 4}, marks=pytest.mark.slow),
        pytest.param(128, {"N": 160, "ahead": False}, marks=pytest.mark.slow),
        pytest.param(256, {"N": 80, "ahead": False}, marks=pytest.mark.slow),
        pytest.param(256, {"N": 80, "ahead": False, "causal": True}, marks=pytest.mark.slow),
        pytest.param(128, {"causal": True}, marks=pytest.mark.slow),
    ],
)
def test_attention_doesnt_spill(d, options):
    types = ("bf16", "bf16", "bf16", "bf16", None, None)
    kernel = attention_example.attention.compile(*types, D=d, **options)
    # With heads of 256, numbers of the tile are kept in local memory.
    assert kernel.resources.spill_stores <= (72 if d == 256 else 0)
    assert kernel.resources.registers == (128 if "groups" in options else 168)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_attention_in_other_orders_of_warps(seed):
    rng = np.random.default_rng(seed)
    q, k, v = rng.standard_normal((3, 1, 256, 64)).astype(F16)
    o, lse = np.zeros_like(q), np.zeros((1, 256), np.float32)
    clean(attention_example.attention.emulate(q, k, v, o, lse, 0.125, causal=True, seed=seed))
    assert np.abs(o - attention_example.reference(q, k, v, 0.125, True)[0]).max() < 4e-3


def test_rings_move_on_in_branches_and_while_loops():
    @w.kernel()
    def even(a: w.In["m k", w.f16], d: w.Out["m n", w.f32], n: w.i32):
        """Sums up every second block of 64 columns."""
        ring = w.ring(2, a=(64, 64, w.f16))
        with w.role():
            sums, k = w.zeros((64, 64)), w.i32(0)
            while k < n:
                if k % 2 == 0:
                    with ring.take() as stage:
                        sums = sums + w.load(stage.a).to(w.f32)
                k += 1
            w.store(sums, d[0, 0])
        with w.role(), w.one_thread():
            for k in w.range(n):
                if k % 2 == 0:
                    ring.fill(a=a[0, k * 64])

    a = np.random.default_rng(0).standard_normal((64, 7 * 64)).astype(F16)
    d = np.zeros((64, 64), np.float32)
    clean(even.emulate(a, d, 7))
    assert np.allclose(d, a.astype(float).reshape(64, 7, 64)[:, ::2].sum(1), atol=1e-4)


def test_products_of_what_a_warpgroup_stored():
    @w.kernel()
    def square(a: w.In["m k", w.f16], d: w.Out["m n", w.f32]):
        ring, buffer = w.ring(1, a=(64, 64, w.f16)), w.shared(64, 64, w.f16)
        with w.role():
            with ring.take() as stage:
                t = w.load(stage.a) * 2.0
            w.store(t, buffer)
            w.fence()
            w.barrier()
            w.store(w.wait(w.gemm(buffer, buffer.T)), d[0, 0])
        with w.role():
            ring.fill(a=a[0, 0])

    a = np.random.default_rng(0).standard_normal((64, 64)).astype(F16)
    d = np.zeros((64, 64), np.float32)
    clean(square.emulate(a, d))
    assert np.allclose(d, 4 * a.astype(float) @ a.astype(float).T, atol=1e-2)


def test_a_warpgroup_may_multiply_more_rows():
    @w.kernel()
    def tall(a: w.In["m k", w.f16], d: w.Out["m n", w.f32], sums: w.Out["m", w.f32]):
        ring = w.ring(1, a=(128, 64, w.f16))
        with w.role():
            with ring.take() as stage:
                x = w.wait(w.gemm(stage.a, stage.a.T))
            w.store(x, d[0, 0])
            w.store_column(w.sum(x, axis=1), sums[0])
        with w.role():
            ring.fill(a=a[0, 0])

    a = np.random.default_rng(0).standard_normal((128, 64)).astype(F16)
    d, sums = np.zeros((128, 128), np.float32), np.zeros(128, np.float32)
    clean(tall.emulate(a, d, sums))
    assert np.allclose(d, a.astype(float) @ a.astype(float).T, atol=1e-3)
    assert np.allclose(sums, d.sum(1), atol=1e-3)


def test_a_call_raises_what_the_sanitizer_finds():
    @w.kernel()
    def hasty(a: w.In["m k", w.f16], d: w.Out["m n", w.f32]):
        ring, buffer = w.ring(1, a=(64, 64, w.f16)), w.shared(64, 64, w.f16)
        with w.role():
            with ring.take() as stage:
                w.store(w.load(stage.a), buffer)
            w.store(w.wait(w.gemm(buffer, buffer.T)), d[0, 0])  # without w.fence() and w.barrier()
        with w.role():
            ring.fill(a=a[0, 0])

    a, d = np.ones((64, 64), F16), np.zeros((64, 64), np.float32)
    with pytest.raises(weft.WeftError, match=r"the emulator found .* mistake"):
        hasty(a, d, on="emulator")
    with pytest.warns(UserWarning, match="the emulator found"):
        hasty(a, d, on="emulator", findings="warn")


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("m, n, k", [(130, 264, 72), (64, 8, 200)])
def test_rmsnorm_is_a_prologue(m, n, k):
    rng = np.random.default_rng(0)
    x, b = (rng.standard_normal((rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))
    gain, d = rng.uniform(0.5, 1.5, k).astype(np.float32), np.zeros((m, n), ml_dtypes.bfloat16)
    clean(rmsnorm_gemm.emulate(x, gain[None], b, d, 1e-2))
    exact = x.astype(float)
    exact = exact / np.sqrt((exact**2).mean(1, keepdims=True) + 1e-2) * gain @ b.astype(float).T
    assert np.abs(d.astype(float) - exact).max() < 6e-3 * np.abs(exact).max()


@pytest.mark.slow
def test_rmsnorm_fits_into_registers():
    assert rmsnorm_gemm.compile(arch="sm_90a").resources.spill_stores == 0


@w.kernel()
def overlapping(a: w.In["m k", w.f16], d: w.Out["m n", w.f32], *, pinned):
    ring, next_one = w.ring(1, a=(64, 64, w.f16)), w.ring(1, a=(64, 64, w.f16))
    with w.role():
        stage = ring.take()
        first, second = w.gemm(stage.a, stage.a.T), w.gemm(stage.a, stage.a)
        e = w.exp2(w.wait(first, pending=1))
        e = w.pin(e) if pinned else e
        second = w.wait(second)
        with next_one.take():
            w.store(e * second, d[0, 0])
        stage.release()
    with w.role():
        ring.fill(a=a[0, 0])
        next_one.fill(a=a[0, 0])


@pytest.mark.parametrize("pinned, count", [(True, 32), pytest.param(False, 0, marks=pytest.mark.slow)])
def test_pinned_tiles_are_computed_under_the_next_product(pinned, count):
    text = overlapping.compile(arch="sm_90a", pinned=pinned).ptx
    before, _ = text.split("wgmma.wait_group.sync.aligned \t0;")
    assert before.count("ex2.approx") == count


@pytest.mark.slow
def test_pinned_tiles_are_the_same():
    a, d = np.random.default_rng(0).standard_normal((64, 64)).astype(F16) / 8, np.zeros((64, 64), np.float32)
    clean(overlapping.emulate(a, d, pinned=True))
    exact = a.astype(float)
    assert np.allclose(d, 2 ** (exact @ exact.T) * (exact @ exact), atol=1e-3)


def test_only_tiles_can_be_pinned():
    @w.kernel()
    def wrong(d: w.Out["n", w.f32]):
        with w.role():
            w.store_column(w.pin(w.zeros(64)), d[0])

    with pytest.raises(
        weft.WeftError, match=r"w\.pin expects a tile of w\.f32 or w\.i32, got a fragment of 64 w\.f32"
    ):
        wrong.compile()


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("how", ["filled", "stored", "elements", "warp_gemm"])
@pytest.mark.each_value(1)
def test_f32_is_rounded_to_tf32(how, chip):
    @w.kernel(arch=chip)
    def kernel(a: w.In["64 32", w.f32], b: w.In["64 32", w.f32], d: w.Out["64 64", w.f32]):
        filled = w.ring(1, a=(64, 32, w.f32))
        other = w.ring(1, b=(64, 32, w.f32))
        with w.role(), filled.take() as left, other.take() as right:
            if how == "warp_gemm":
                w.store(w.warp_gemm(left.a, right.b.T), d[0, 0])
            else:
                w.store(w.wait(w.gemm(left.a, right.b.T)), d[0, 0])
        if how in ("filled", "warp_gemm"):
            with w.role(), w.one_thread():
                filled.fill(a=a[0, 0])
                other.fill(b=b[0, 0])
        else:
            with w.role(), other.write() as stage:
                if how == "stored":
                    w.store(w.load(b[0, 0], (64, 32)), stage.b)
                else:
                    row = w.thread() % 64
                    for column in w.range(32):
                        stage.b[row, column] = b[row, column]
            with w.role(), w.one_thread():
                filled.fill(a=a[0, 0])

    a, b, expected = operands(64, 64, 32)
    d = np.zeros((64, 64), np.float32)
    assert not kernel.emulate(a, np.ascontiguousarray(b.T), d).findings
    assert np.array_equal(d, expected)


def test_buffers_without_products_keep_all_bits_of_f32():
    @w.kernel(arch="sm_90a")
    def kernel(a: w.In["64 32", w.f32], same: w.Out["64 32", w.f32], d: w.Out["64 64", w.f32]):
        ring, other = w.ring(1, a=(64, 32, w.f32)), w.ring(1, a=(64, 32, w.f32))
        with w.role(), ring.take() as stage, other.take() as exact:
            w.store(w.load(exact.a), same[0, 0])
            w.store(w.wait(w.gemm(stage.a, stage.a.T)), d[0, 0])
        with w.role(), w.one_thread():
            ring.fill(a=a[0, 0])
            other.fill(a=a[0, 0])

    a = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32)
    same, d = np.zeros((64, 32), np.float32), np.zeros((64, 64), np.float32)
    assert not kernel.emulate(a, same, d).findings
    rounded = nearest(a).astype(np.float64)
    assert np.array_equal(same, a) and np.allclose(d, rounded @ rounded.T, rtol=0, atol=1e-5)


@w.kernel
def by_warps(a: w.In["m k"], b: w.In["n k"], d: w.Out["m n", w.f32], *, rows, how):
    """(a + a) @ b.T by `w.warp_gemm`, of a buffer or a fragment."""
    ring = w.ring(1, a=(rows, 32, a.dtype), b=(32, 32, b.dtype))
    with w.role():
        with ring.take() as stage:
            left = w.convert(w.load(stage.a)) if how == "fragment" else stage.a
            sums = w.warp_gemm(left, stage.b.T, w.zeros((rows, 32)) if how == "sums" else None)
            sums = w.warp_gemm(left, stage.b.T, sums)
        w.store(sums, d[0, 0])
    with w.role(), w.one_thread():
        ring.fill(a=a[0, 0], b=b[0, 0])


@pytest.mark.parametrize("how", ["buffer", "sums", "fragment"])
@pytest.mark.parametrize("rows", [128, 192, 256])
@pytest.mark.parametrize("chip", ["sm_80", "sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a"])
@pytest.mark.each_value(1)
def test_warps_multiply_any_rows(chip, rows, how):
    a, b, _ = operands(rows, 32, 32)
    a, b = a.astype(np.float16), b.astype(np.float16)
    d = np.zeros((rows, 32), np.float32)
    assert not by_warps.emulate(a, b, d, rows=rows, how=how, arch=chip).findings
    assert np.allclose(d, 2 * (a.astype(float) @ b.astype(float).T), atol=1e-4)


@w.kernel
def product(a: w.In["m k"], b: w.In["n k"], d: w.Out["m n"], *, rows, columns, by_warps=False):
    ring = w.ring(1, a=(rows, 32, a.dtype), b=(columns, 32, b.dtype))
    with w.role(), ring.take() as stage:
        if by_warps:
            w.store(w.warp_gemm(stage.a, stage.b.T), d[0, 0])
        else:
            w.store(w.wait(w.gemm(stage.a, stage.b.T)), d[0, 0])  # here
    with w.role(), w.one_thread():
        ring.fill(a=a[0, 0], b=b[0, 0])


@pytest.mark.parametrize(
    "dtype, rows, columns, chip, message",
    [
        ("i8", 64, 136, "sm_90a", r"b of w\.gemm of w\.i8 must have 8, 16, 24, .* got 136: use 128 or 144$"),
        (
            "f16",
            64,
            264,
            "sm_90a",
            r"must have a multiple of 8 in 8\.\.256 columns, got 264: use 248 or 256$",
        ),
        (
            "i8",
            64,
            64,
            "sm_103a",
            r"w\.gemm of w\.i8 needs sm_100a, sm_110a .* got sm_103a: use w\.warp_gemm$",
        ),
        (
            "f16",
            192,
            256,
            "sm_100a",
            r"take 768 columns of tensor memory, and a CTA has 512: use smaller tiles$",
        ),
    ],
)
def test_products_that_no_instruction_has(dtype, rows, columns, chip, message):
    sums = "i32" if dtype == "i8" else "f32"
    with pytest.raises(weft.WeftError, match=message) as caught:
        product.compile(dtype, dtype, sums, rows=rows, columns=columns, arch=chip)
    lines = Path(__file__).read_text().splitlines()
    assert lines[caught.value.diagnostics[0].location.line - 1].endswith("# here")


@pytest.mark.each_value(1)
@pytest.mark.parametrize("columns, chip", [(136, "sm_90a"), (64, "sm_103a")])
def test_warps_multiply_what_the_message_says(columns, chip):
    a, b = (np.random.default_rng(0).integers(-128, 128, (n, 32)).astype(np.int8) for n in (64, columns))
    d = np.zeros((64, columns), np.int32)
    report = product.emulate(a, b, d, rows=64, columns=columns, by_warps=True, arch=chip)
    assert not report.findings and np.array_equal(d, a.astype(int) @ b.T.astype(int))
