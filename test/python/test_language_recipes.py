"""Examples of kernels that users ask for: dropout from a seed, grouped top-k, convolution, a threshold."""

import importlib.util
from math import erf, sqrt
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

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
@pytest.mark.parametrize("arch, stages", [("sm_80", 3), ("sm_90a", 4), ("sm_100a", 4)])
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
@pytest.mark.each_value(2)
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
