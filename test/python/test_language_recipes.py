"""Kernels that users ask for, and those written from the page of the language alone."""

import importlib.util
from math import erf, sqrt
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import weft.language as w

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BF16 = ml_dtypes.bfloat16


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


dropout = example("language_dropout")
routing = example("language_routing")
convolution = example("language_convolution")
threshold = example("language_threshold")
signals = example("language_signals")


def clean(report):
    assert not report.findings, "\n".join(map(str, report.findings[:3]))


def philox(seed, offsets):
    """The first word of Philox 4x32-10."""
    words, low = [offsets.astype(np.uint64), *np.zeros((3, *offsets.shape), np.uint64)], np.uint64(2**32 - 1)
    keys = np.array([seed, 0], np.uint64)
    for _ in range(10):
        first, second = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        high = np.uint64(32)
        words = [
            (second >> high) ^ words[1] ^ keys[0],
            second & low,
            (first >> high) ^ words[3] ^ keys[1],
            first & low,
        ]
        keys = (keys + np.array([0x9E3779B9, 0xBB67AE85], np.uint64)) & low
    return words[0]


@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch, stages", [("sm_90a", 4), ("sm_80", 3), ("sm_100a", 4)])
def test_a_layer_drops_what_the_mask_of_its_seed_drops(arch, stages):
    rng = np.random.default_rng(0)
    x, weight = (rng.standard_normal((n, 72)).astype(BF16) for n in (140, 136))
    bias, y, mask = (
        rng.standard_normal(136).astype(np.float32),
        np.zeros((140, 136), BF16),
        np.ones((140, 136), np.int8),
    )
    clean(dropout.linear_dropout.emulate(x, weight, bias, y, 1234, 0.25, arch=arch, stages=stages))
    clean(dropout.dropout_mask.emulate(mask, 1234, 0.25, arch=arch))
    assert np.array_equal(mask, philox(1234, np.arange(mask.size).reshape(mask.shape)) >= 2**30)
    t = x.astype(float) @ weight.astype(float).T + bias
    gelu = t * (1 + np.vectorize(erf)(t / sqrt(2))) / 2
    assert np.allclose(y.astype(float), gelu * mask / 0.75, rtol=2**-7, atol=1e-3)


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_75"])
def test_routers_choose_the_largest_of_the_best_groups(arch):
    x = np.random.default_rng(0).integers(-99, 99, (70, 256)).astype(np.float32)  # with equal ones
    values, indices = np.zeros((70, 8), np.float32), np.zeros((70, 8), np.int32)
    clean(routing.route.emulate(x, values, indices, arch=arch))
    assert np.array_equal(indices, routing.expected(x))
    assert np.array_equal(values, np.take_along_axis(x, indices, axis=1))


@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a", "sm_80"])
def test_convolutions_are_padded_with_zeros(arch):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 66, 72)).astype(BF16)
    weight = (rng.standard_normal((9, 40, 72)) / 16).astype(BF16)
    y = np.zeros((2, 3, 66, 40), BF16)
    clean(convolution.convolution.emulate(x, weight, y, N=64, arch=arch))
    assert np.allclose(y.astype(float), convolution.expected(x, weight), rtol=2**-7, atol=1e-3)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("image", ["two classes", "white", "one pixel"])
@pytest.mark.each_value(1)
def test_images_are_separated_by_otsus_threshold(image, arch):
    rng = np.random.default_rng(0)
    made = {
        "two classes": np.where(rng.random((20, 600)) < 0.3, 220, 128) + rng.integers(-30, 30, (20, 600)),
        "white": np.full((3, 50), 255),
        "one pixel": np.full((1, 1), 7),
    }
    pixels = made[image].astype(np.uint8)
    counts, level, mask = np.zeros(256, np.uint32), np.zeros(1, np.uint8), np.zeros_like(pixels)
    clean(threshold.histogram.emulate(pixels, counts, arch=arch))
    clean(threshold.best.emulate(counts, level, arch=arch))
    clean(threshold.masked.emulate(pixels, level, mask, arch=arch))
    assert np.array_equal(counts, np.bincount(pixels.ravel(), minlength=256))
    assert level[0] == threshold.expected(pixels)
    assert np.array_equal(mask, np.where(pixels > level[0], 255, 0))


@pytest.mark.slow
def test_random_numbers_of_a_tile_spill_no_registers():
    assert dropout.linear_dropout.compile(arch="sm_90a").resources.spill_stores == 0


@w.kernel(grid=lambda x, b: (w.ceil_div(x.rows, 64), w.ceil_div(b.rows, 64)))
def normalized_product(
    x: w.In["m k", w.bf16],
    scale: w.In["k", w.f32],
    shift: w.In["k", w.f32],
    b: w.In["n k", w.bf16],
    d: w.Out["m n", w.f32],
):
    statistics = w.ring(2, x=(64, 64, w.bf16))
    ring = w.ring(2, x=(64, 64, w.bf16), b=(64, 64, w.bf16))
    row, column = w.cta(0) * 64, w.cta(1) * 64
    with w.role():
        total, squares = w.zeros(64), w.zeros(64)
        for _ in w.range(0, x.columns, 64):
            with statistics.take() as stage:
                t = w.load(stage.x).to(w.f32)
            total, squares = total + w.sum(t, axis=1), squares + w.sum(t * t, axis=1)
        count = x.columns.to(w.f32)
        mean = total / count
        factor = w.rsqrt(squares / count - mean * mean + 1e-5)
        sums = w.zeros((64, 64))
        for k in w.range(0, x.columns, 64):
            with ring.take() as stage:
                t = (w.load(stage.x).to(w.f32) - mean) * factor
                t = t * w.load_row(scale[k], like=t) + w.load_row(shift[k], like=t)
                sums = w.wait(w.gemm(t.to(w.bf16), stage.b.T, sums))
        w.store(sums, d[row, column])
    with w.role(), w.one_thread():
        for k in w.range(0, x.columns, 64):
            statistics.fill(x=x[row, k])
        for k in w.range(0, x.columns, 64):
            ring.fill(x=x[row, k], b=b[column, k])


@w.kernel(grid=lambda x: w.ceil_div(x.rows, 64))
def mlp(
    x: w.In["m K", w.bf16],
    up: w.In["h K", w.bf16],
    down: w.In["N h", w.bf16],
    y: w.Out["m N", w.bf16],
    *,
    K,
    N,
):
    rows, ring = w.ring(1, x=(64, K, w.bf16)), w.ring(2, up=(64, K, w.bf16), down=(N, 64, w.bf16))
    out, row = w.shared(64, N, w.bf16), w.cta() * 64
    with w.role():
        tile, sums = rows.take().x, w.zeros((64, N))
        for _ in w.range(0, up.rows, 64):
            with ring.take() as stage:
                hidden = w.maximum(w.wait(w.gemm(tile, stage.up.T)), 0.0).to(w.bf16)
                sums = w.wait(w.gemm(hidden, stage.down.T, sums))
        w.store(sums.to(w.bf16), y[row, 0], via=out)
    with w.role(), w.one_thread():
        rows.fill(x=x[row, 0])
        for h in w.range(0, up.rows, 64):
            ring.fill(up=up[h, 0], down=down[0, h])


@w.kernel(grid=lambda shares: shares.rows)
def stream_k(
    a: w.In["m k", w.bf16], b: w.In["n k", w.bf16], shares: w.In["c", w.i32], d: w.Out["m n", w.f32]
):
    """CTAs take equal shares of all K blocks, and add up their parts of tiles."""
    ring = w.ring(3, a=(64, 64, w.bf16), b=(64, 64, w.bf16))
    across, steps = w.ceil_div(b.rows, 64), w.ceil_div(a.columns, 64)
    total = w.ceil_div(a.rows, 64) * across * steps
    share = w.ceil_div(total, shares.rows)
    first = w.cta() * share
    last = w.minimum(first + share, total)
    with w.role():
        at = first
        while at < last:
            tile, step = at // steps, at % steps
            end = w.minimum(step + (last - at), steps)
            sums = w.zeros((64, 64))
            for _ in w.range(step, end):
                with ring.take() as stage:
                    sums = w.wait(w.gemm(stage.a, stage.b.T, sums))
            w.atomic_add(d[tile // across * 64, tile % across * 64], sums)
            at = at + (end - step)
    with w.role(), w.one_thread():
        at = first
        while at < last:
            tile, k = at // steps, at % steps * 64
            ring.fill(a=a[tile // across * 64, k], b=b[tile % across * 64, k])
            at = at + 1


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(BF16)


def product(a, b):
    return a.astype(float) @ b.astype(float).T


def of_normalized_product(arch):
    x, b = numbers(70, 136), numbers(40, 136, seed=1)
    scale, shift = np.random.default_rng(2).standard_normal((2, 136)).astype(np.float32)
    d = np.zeros((70, 40), np.float32)
    report = normalized_product.compile(arch=arch).emulate(x, scale, shift, b, d)
    t = x.astype(float)
    t = (t - t.mean(1, keepdims=True)) / np.sqrt(t.var(1, keepdims=True) + 1e-5) * scale + shift
    return report, np.abs(d - product(t, b)).max() < 0.3


def of_mlp(arch):
    x, up, down = numbers(70, 64), numbers(136, 64, seed=1), numbers(64, 136, seed=2)
    y = np.zeros((70, 64), BF16)
    report = mlp.compile(x, up, down, y, arch=arch).emulate(x, up, down, y)
    want = product(np.maximum(product(x, up), 0).astype(BF16), down)
    return report, np.allclose(y.astype(float), want, rtol=0.01)


def of_stream_k(arch):
    a, b, d = numbers(100, 200), numbers(72, 200, seed=1), np.zeros((100, 72), np.float32)
    report = stream_k.compile(arch=arch).emulate(a, b, np.zeros(5, np.int32), d)
    return report, (d == product(a, b)).all()


@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("kernel", [of_normalized_product, of_mlp, of_stream_k])
def test_kernels_written_from_the_page(kernel, arch):
    report, right = kernel(arch)
    assert right and not report.findings


@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a", "sm_100a"])
def test_ctas_add_up_parts_in_order_and_reset_their_signals(arch):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, 248)).astype(BF16) for rows in (70, 72))
    done, results = np.zeros(4, np.int32), []
    for seed in range(2):  # of the order of warps
        d = np.full((70, 72), np.nan, np.float32)
        clean(signals.split_gemm.emulate(a, b, d, done, arch=arch, splits=3, seed=seed))
        assert np.allclose(d, a.astype(float) @ b.astype(float).T, atol=1e-3) and not done.any()
        results.append(d)
    assert np.array_equal(*results)
