"""The bounds of `weft.reference` for what tensor cores add up or read in fewer bits than f32 has: right
results are within them, and those of a coarser way to add aren't.
"""

import ml_dtypes
import numpy as np
import pytest

from weft import reference

F8 = ml_dtypes.float8_e4m3fn
WIDE = ml_dtypes.float8_e5m2


def added_up(a, b, depth, bits, kept):
    """`a @ b.T` as a tensor core adds it up: `depth` products and the sum, aligned and cut `bits` below the
    largest, of which `kept` bits stay.
    """
    total = np.zeros((a.shape[0], b.shape[0]))
    a, b = a.astype(np.float64), b.astype(np.float64)
    for start in range(0, a.shape[1], depth):
        k = slice(start, start + depth)
        terms = np.concatenate([a[:, None, k] * b[None, :, k], total[:, :, None]], axis=2)
        largest = np.abs(terms).max(axis=2, keepdims=True)
        total = cut(terms, largest, bits).sum(axis=2)
        total = cut(total, np.abs(total), kept)
    return total


def cut(values, largest, bits):
    """Values without what is so many bits below the leading one of another."""
    unit = np.exp2(np.floor(np.log2(np.where(largest > 0, largest, 1.0))) - bits)
    return np.trunc(values / unit) * unit


def promoted(a, b, scale_a=None, scale_b=None):
    """The same of fp8, in blocks of 128 that are scaled and added up in f32."""
    total = np.zeros((a.shape[0], b.shape[0]), np.float32)
    for number, start in enumerate(range(0, a.shape[1], 128)):
        k = slice(start, start + 128)
        part = added_up(a[:, k], b[:, k], 32, 13, 13).astype(np.float32)
        if scale_a is not None:
            part *= np.outer(scale_a[number], np.repeat(scale_b[:, number], 128)[: b.shape[0]])
        total += part
    return total


def random(*shape, dtype=F8, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("k", [1, 33, 128, 1000])
def test_sums_of_fp8_are_within_their_bound(k):
    a, b = np.abs(random(16, k)), np.abs(random(8, k, seed=1))
    found = added_up(a, b, 32, 13, 13)
    seen = reference.product(a, b, transpose_b=True).compare(found)
    assert seen.passed and (k < 33 or seen.ratio > 0.001)
    exact = a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16)
    assert k < 33 or not reference.product(*exact, transpose_b=True).compare(found).passed


def test_promoted_sums_are_within_a_bound_that_others_exceed():
    """A large product and then ones: 13 bits of fraction lose all of these."""
    a, b = np.ones((4, 1 << 13), WIDE), np.ones((8, 1 << 13), WIDE)
    a[:, 0] = b[:, 0] = 128
    kept, lost = promoted(a, b), added_up(a, b, 32, 13, 13)
    assert reference.product(a, b, transpose_b=True).compare(lost).passed
    bounded = reference.product(a, b, transpose_b=True, promote=True)
    assert bounded.compare(kept).passed and not bounded.compare(lost).passed


def test_scales_are_those_of_blocks():
    m, n, k = 24, 136, 300
    a, b = random(m, k), random(n, k, seed=1)
    rng = np.random.default_rng(2)
    scale_a, scale_b = (rng.uniform(0.5, 1.5, size).astype(np.float32) for size in ((3, m), (2, 3)))
    expected = reference.product(a, b, transpose_b=True, scale_a=scale_a, scale_b=scale_b)
    of_a, of_b = scale_a.astype(np.float64), scale_b.astype(np.float64)
    whole = sum(
        of_a[x // 128][:, None]
        * of_b[np.arange(n) // 128, x // 128]
        * np.outer(*(y[:, x].astype(np.float64) for y in (a, b)))
        for x in range(k)
    )
    np.testing.assert_allclose(expected.values, whole, rtol=1e-9)
    assert expected.compare(promoted(a, b, scale_a, scale_b)).passed
    for other in ((scale_a[::-1], scale_b), (scale_a, scale_b[::-1]), (scale_a, scale_b[:, ::-1])):
        assert not expected.compare(promoted(a, b, *other)).passed


def test_f32_is_multiplied_as_tf32():
    a, b = random(16, 64, dtype=np.float32), random(8, 64, dtype=np.float32, seed=1)
    short = [(x.view(np.uint32) + 0x1000 & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, b)]
    found = added_up(*short, 8, 25, 23)
    expected = reference.product(a, b, transpose_b=True)
    assert expected.compare(found).passed and expected.compare(found).ratio > 0.01
    shorter = [(x.view(np.uint32) & np.uint32(0xFFFC0000)).view(np.float32) for x in (a, b)]
    assert not expected.compare(added_up(*shorter, 8, 25, 23)).passed


@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_sums_below_the_normal_numbers_lose_no_more_than_those(alpha):
    least = np.float64(2.0**-149)
    a, b = np.full((4, 8), 2.0**-75, ml_dtypes.bfloat16), np.full((4, 8), 1.5 * 2.0**-76, ml_dtypes.bfloat16)
    expected = reference.product(a, b, transpose_b=True, alpha=alpha)
    assert expected.compare(np.zeros((4, 4), np.float32)).passed
    assert not expected.compare(np.full((4, 4), 500 * least, np.float32)).passed


@pytest.mark.parametrize(("dtype", "largest"), [(F8, 448.0), (WIDE, 57344.0)])
def test_values_beyond_fp8_must_become_its_largest_value(dtype, largest):
    a, b = np.full((2, 64), 60000.0, np.float16), np.full((2, 64), 8.0, np.float16)
    expected = reference.product(a, b, transpose_b=True, dtype=dtype)
    assert expected.compare(np.full((2, 2), largest).astype(dtype)).passed
    assert not expected.compare(np.full((2, 2), largest * 0.9).astype(dtype)).passed
