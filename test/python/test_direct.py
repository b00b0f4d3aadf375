"""Products of few rows that lanes load straight into registers."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.dialects.schedule import DirectSchedule, Types
from weft.multiply import product_kernel
from weft.schedules import choice, direct
from weft.target import Target

BF16 = ml_dtypes.bfloat16
E4M3 = ml_dtypes.float8_e4m3fn
HALVES = Types("f16", "f16", "f32")
SMALL = DirectSchedule((16, 16, 64), (1, 4))


def placed(values, shift, gap):
    """The values `shift` elements after an aligned address, with `gap` elements between rows: NaNs, or 77."""
    rows, columns = values.shape
    fill = 77 if values.dtype.kind in "iu" else np.nan
    memory = np.full(shift + rows * (columns + gap) + 16, fill).astype(values.dtype)
    view = memory[shift : shift + rows * (columns + gap)].reshape(rows, -1)[:, :columns]
    view[...] = values
    return view


def operands(m, n, k, dtype, shift=0, gap=0):
    """Small integers, whose sums are exact."""
    rng = np.random.default_rng(m * n + k)
    low = 0 if np.dtype(dtype).kind == "u" else -3
    return [placed(rng.integers(low, 4, (rows, k)).astype(dtype), shift, gap) for rows in (m, n)]


def exact(a, b):
    return a.astype(np.float64) @ b.astype(np.float64).T


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("dtype", "arch"),
    [
        (BF16, "sm_80"),
        (np.float16, "sm_90a"),
        (np.float32, "sm_80"),
        (np.int8, "sm_86"),
        (np.uint8, "sm_80"),
        (E4M3, "sm_89"),
        (ml_dtypes.float8_e5m2, "sm_120a"),
    ],
)
@pytest.mark.parametrize(("shift", "gap"), [(0, 0), (1, 0), (3, 2)])
@pytest.mark.parametrize(
    ("m", "n", "k", "block", "readers"),
    [
        (1, 40, 200, (16, 16, 2), (1, 4)),
        (16, 33, 131, (16, 32, 1), (2, 2)),
        (19, 24, 77, (32, 8, 4), (1, 3)),  # two tiles of rows with the next one
        (50, 17, 64, (48, 16, 1), (2, 1)),
        (64, 40, 33, (64, 16, 1), (1, 2)),
        (3, 8, 1, (16, 8, 1), (1, 16)),
    ],
)
def test_products_are_exact(m, n, k, block, readers, dtype, arch, shift, gap):
    a, b = operands(m, n, k, dtype, shift, gap)
    depth = block[2] * 64 // np.dtype(dtype).itemsize
    found = weft.matmul(
        a, b, transpose_b=True, arch=arch, schedule=DirectSchedule((*block[:2], depth), readers)
    )
    assert np.array_equal(found.astype(np.float64), exact(a, b).astype(found.dtype).astype(np.float64))


@pytest.mark.slow
def test_epilogues_and_batches():
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-2, 3, (3, rows, 75)).astype(np.float16) for rows in (5, 21))
    bias, c = (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((21,), (3, 5, 21)))
    found = weft.matmul(
        *(a, b.transpose(0, 2, 1)),
        out=np.zeros((3, 5, 21), np.float32),
        alpha=2.0,
        beta=0.5,
        c=c,
        epilogue=weft.Epilogue(bias=bias, activation="relu"),
        arch="sm_80",
        schedule=SMALL,
    )
    products = a.astype(np.float64) @ b.astype(np.float64).transpose(0, 2, 1)
    assert np.array_equal(found, np.maximum(2 * products + c / 2 + bias, 0))


def test_lanes_load_vectors_and_warps_meet_once():
    ptx = product_kernel.plain(HALVES, SMALL, "sm_80").ptx
    assert "ld.global.v4.b32" in ptx and "ldmatrix" not in ptx and "cp.async" not in ptx
    assert ptx.count("bar.sync") == 1 and "griddepcontrol" not in ptx
    alone = product_kernel.plain(HALVES, replace(SMALL, readers=(2, 1)), "sm_90").ptx
    assert "bar.sync" not in alone and "griddepcontrol.wait" in alone


@pytest.mark.parametrize(
    ("schedule", "types", "chip", "message"),
    [
        (SMALL, HALVES, "sm_75", "mma.sync needs sm_80 or later"),
        (SMALL, replace(HALVES, transposed=(False, True)), "sm_80", "B must be K-major (transpose_b = true)"),
        (SMALL, replace(HALVES, grouped=True), "sm_80", "must be without promotion, scales and groups"),
        (SMALL, Types("f64", "f64", "f64"), "sm_80", "floats of 8 to 32 bits or integers of 8"),
        (
            replace(SMALL, block=(24, 16, 64)),
            HALVES,
            "sm_80",
            "block M must be one of 16, 32, 48, 64, got 24",
        ),
        (
            replace(SMALL, block=(80, 16, 64)),
            HALVES,
            "sm_80",
            "block M must be one of 16, 32, 48, 64, got 80",
        ),
        (
            replace(SMALL, block=(16, 20, 64)),
            HALVES,
            "sm_80",
            "readers must divide block N in multiples of 8",
        ),
        (replace(SMALL, block=(16, 16, 48)), HALVES, "sm_80", "block K must be one of 32, 64, 96, 128"),
        (replace(SMALL, readers=(2, 32)), HALVES, "sm_80", "readers must be at most 32 in all, got 2 x 32"),
        (replace(SMALL, readers=(0, 4)), HALVES, "sm_80", "readers must have numbers of at least 1"),
        (DirectSchedule((64, 64, 64), (1, 8)), HALVES, "sm_80", "a thread must need at most 248 registers"),
        (DirectSchedule((64, 128, 32), (8, 4)), HALVES, "sm_80", "a thread must need at most 64 registers"),
        (
            DirectSchedule((64, 48, 32), (1, 8)),
            HALVES,
            "sm_89",
            "shared memory must be at most 101376 bytes",
        ),
        (SMALL, Types("bf16", "bf16", "f8E4M3FN"), "sm_80", "D of f8E4M3FN needs"),
    ],
)
def test_what_cannot_be_lowered_is_refused(schedule, types, chip, message):
    assert message in str(schedule.complaint(types, Target.of(chip)))


@pytest.mark.parametrize(
    ("size", "types", "chip", "chosen"),
    [
        ((1, 8192), HALVES, "sm_80", ((16, 16, 64), (1, 8))),
        ((8, 3185), HALVES, "sm_86", ((16, 16, 64), (1, 8))),
        ((16, 3184), HALVES, "sm_80", ((16, 16, 64), (1, 16))),
        ((16, 4096), Types("f8E4M3FN", "f8E4M3FN", "bf16"), "sm_89", ((16, 16, 128), (1, 8))),
        ((4, 944), Types("f32", "f32", "f32"), "sm_80", ((16, 8, 32), (1, 16))),
    ],
)
def test_few_rows_get_readers_on_chips_before_sm_90a(size, types, chip, chosen):
    found = choice.choose(*size, 4096, types, chip)
    assert isinstance(found, DirectSchedule) and (found.block, found.readers) == chosen
    assert not isinstance(choice.choose(*size, 4096, types, "sm_90a"), DirectSchedule)


def test_other_products_get_stages():
    for size in ((9, 4097), (17, 4096), (None, 4096), (1, None)):
        assert direct.choose(*size, HALVES, "sm_80") is None
    assert direct.choose(1, 4096, HALVES, "sm_75") is None
    assert direct.choose(1, 4096, replace(HALVES, transposed=(True, False)), "sm_80") is None
