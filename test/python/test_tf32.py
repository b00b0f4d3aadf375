"""f32 is rounded to the nearest tf32 by all kernels of products: tensor cores ignore the last 13 bits."""

import numpy as np
import pytest

import weft
from weft.dialects.schedule import (
    DirectSchedule,
    Schedule,
    WarpgroupSchedule,
    WmmaSchedule,
)

CHIPS = ("sm_80", "sm_90a", "sm_100a", "sm_120a")
pytestmark = pytest.mark.filterwarnings("error::UserWarning")  # what the emulator finds


def nearest(values):
    """f32 rounded to tf32; no value here is as near to two of them."""
    assert not (values.view(np.uint32) & 0x1FFF == 0x1000).any()
    return (values.view(np.uint32) + np.uint32(0x1000) & np.uint32(0xFFFFE000)).view(np.float32)


def operands(m, n, k, seed=0):
    """A with one element in each row, B, and their product as tf32, which f32 can hold exactly."""
    rng = np.random.default_rng(seed)
    a, b, rows = np.zeros((m, k), np.float32), rng.standard_normal((k, n)).astype(np.float32), np.arange(m)
    a[rows, rows % k] = rng.standard_normal(m).astype(np.float32)
    return a, b, nearest(a[rows, rows % k])[:, None] * nearest(b[rows % k])


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("shape", [(70, 40, 68), (3, 130, 45), (130, 96, 64)], ids=str)
@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False)], ids=str)
@pytest.mark.parametrize("chip", CHIPS)
def test_matmul(chip, transposed, shape):
    a, b, expected = operands(*shape)
    a, b = (np.ascontiguousarray(x.T) if turned else x for x, turned in zip((a, b), transposed, strict=True))
    found = weft.matmul(a, b, transpose_a=transposed[0], transpose_b=transposed[1], arch=chip)
    assert np.array_equal(found, expected)


@pytest.mark.each_value(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_special_numbers(chip):
    """NaN, infinities, what rounds to infinity, and subnormals. tf32 lacks the low bits, which are all of the
    NaN 0x7F800001: without `cvt.rn.tf32`, it becomes infinity.
    """
    least, most = np.finfo(np.float32).smallest_subnormal, np.finfo(np.float32).max
    given = np.array([np.nan] * 3 + [np.inf, -np.inf, most, -most, 1e-40, -least, 2.0**-126, 0.0], np.float32)
    given.view(np.uint32)[:3] = 0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF
    first = np.inf if chip == "sm_80" else np.nan
    a, b = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
    a[: len(given), 5], b[5] = given, 1
    found = weft.matmul(a, b, arch=chip)[: len(given), 3]
    expected = [first, np.nan, np.nan] + [np.inf, -np.inf] * 2 + [nearest(given[7:8])[0], 0.0, 2.0**-126, 0.0]
    assert np.array_equal(found, np.array(expected, np.float32), equal_nan=True)


SCHEDULES = {
    "mma.sync": ("sm_80", Schedule((64, 64, 32), (2, 2), 3)),
    "wgmma": ("sm_90a", WarpgroupSchedule((64, 64, 32), warpgroups=1, stages=3)),
    "direct": ("sm_80", DirectSchedule((16, 32, 64), (1, 4))),
    "wmma": ("sm_80", WmmaSchedule((64, 64, 32), (2, 2), 2)),
    "multicast": ("sm_90a", WarpgroupSchedule((64, 64, 32), warpgroups=1, stages=3, cluster=(2, 1))),
    "loaders": ("sm_90a", WarpgroupSchedule((64, 8, 32), warpgroups=1, stages=4, swap=True, loaders=1)),
    "slices": ("sm_90a", WarpgroupSchedule((64, 64, 32), warpgroups=1, stages=3, global_splits=2)),
    "stream_k": ("sm_90a", WarpgroupSchedule((64, 64, 32), warpgroups=1, stages=3, stream_k=True)),
}


@pytest.mark.each_value(3)
@pytest.mark.parametrize("kind", SCHEDULES)
def test_schedules(kind):
    chip, schedule = SCHEDULES[kind]
    m = 3 if kind == "loaders" else 70
    a, b, expected = operands(m, 136, 68)
    found = weft.matmul(a, np.ascontiguousarray(b.T), transpose_b=True, arch=chip, schedule=schedule)
    assert np.array_equal(found, expected)


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("chip", ["sm_90a", "sm_100a"])
def test_batches_and_groups(chip):
    made = [operands(128, 32, 64, seed) for seed in range(2)]
    a, b, expected = (np.stack(each) for each in zip(*made, strict=True))
    assert np.array_equal(weft.matmul(a, b, arch=chip), expected)
    ends = np.array([128, 256], np.int32)
    found = weft.matmul(a.reshape(256, 64), b, row_ends=ends, arch=chip)
    assert np.array_equal(found, expected.reshape(256, 32))
