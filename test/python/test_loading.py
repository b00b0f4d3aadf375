"""Products of few rows whose matrices begin at any element: kernels that load them, without copies."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.dialects.schedule import Types
from weft.multiply import launches
from weft.schedules import loading

BF16 = Types("bf16", "bf16", "bf16")
BF16_NN = replace(BF16, transposed=(False, True))


@pytest.mark.parametrize(
    ("shape", "types", "chosen"),
    [
        ((49, 4097, 4095), BF16_NN, ((128, 56, 64), 1, 4, 4)),
        ((5, 8191, 4095), BF16_NN, ((128, 8, 64), 2, 6, 2)),
        ((128, 8192, 8192), BF16_NN, ((128, 192, 64), 2, 2, 3)),
        ((8, 300, 77), BF16_NN, ((128, 8, 64), 2, 6, 1)),  # fewer K blocks than slices
    ],
)
def test_few_rows_get_tiles_for_each_multiprocessor(shape, types, chosen):
    found = loading.schedule(*shape, types, "sm_90a")
    assert (found.block, found.warpgroups, found.stages, found.global_splits) == chosen
    assert found.loaders and found.swap == (shape[0] <= 64)


@pytest.mark.parametrize(
    ("shape", "chosen"),
    [
        ((33, 8192, 4095), ((64, 40, 128), 2, 4, 1)),
        ((65, 2049, 8191), ((64, 72, 128), 2, 4, 4)),
        ((129, 5121, 3585), ((64, 136, 64), 3, 6, 1)),
        ((256, 7168, 4096), ((64, 256, 64), 1, 3, 1)),
    ],
)
def test_b_alone_is_loaded_where_all_rows_of_a_share_it(shape, chosen):
    found = loading.schedule(*shape, BF16, "sm_90a")
    assert (found.block, found.loaders, found.stages, found.global_splits) == chosen
    assert found.copies_a and found.swap and found.warpgroups == 1


@pytest.mark.parametrize(
    ("shape", "types", "chip"),
    [
        ((250, 1000, 1000), BF16, "sm_90a"),
        ((257, 7168, 4096), BF16, "sm_90a"),
        ((65, 4097, 4095), BF16_NN, "sm_90a"),
        ((129, 8192, 8192), BF16_NN, "sm_90a"),
        ((49, 4097, 4095), Types("f8E4M3FN", "f8E4M3FN", "bf16"), "sm_90a"),
        ((49, 4097, 4095), BF16, "sm_80"),
        ((8, 4097, 4095), BF16_NN, "sm_80"),
        ((8, 4097, 4095), Types("f64", "f64", "f64"), "sm_80"),
    ],
)
def test_other_products_are_copied(shape, types, chip):
    assert loading.schedule(*shape, types, chip) is None


@pytest.mark.parametrize(
    ("shape", "types", "chip", "chosen"),
    [
        ((1, 28671, 4097), BF16, "sm_90a", ((16, 32, 64), (1, 8))),
        ((16, 2049, 4095), BF16, "sm_90a", ((16, 16, 64), (1, 16))),
        ((8, 300, 77), BF16, "sm_90a", ((16, 8, 64), (1, 16))),
        ((33, 4097, 4095), BF16, "sm_90a", ((48, 32, 64), (1, 8))),
        ((17, 50257, 4095), BF16, "sm_90a", ((32, 32, 64), (1, 4))),
        ((8, 4097, 4095), Types("f8E4M3FN", "f8E4M3FN", "bf16"), "sm_89", ((16, 32, 128), (1, 8))),
        ((8, 4097, 4095), Types("f32", "f32", "f32"), "sm_80", ((16, 32, 32), (1, 8))),
    ],
)
def test_very_few_rows_are_multiplied_from_registers(shape, types, chip, chosen):
    found = loading.schedule(*shape, types, chip)
    assert (found.block, found.readers) == chosen


def test_a_product_of_few_rows_reads_them_where_they_are(monkeypatch):
    copied = []

    def run(kernel, views, numbers, on=None):
        copied.extend(numbers)
        run_(kernel, views, numbers, on)

    run_ = launches.run_with_copies
    monkeypatch.setattr(launches, "run_with_copies", run)
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-4, 5, shape).astype(ml_dtypes.bfloat16) for shape in ((5, 139), (141, 139)))
    d = weft.matmul(a, b, transpose_b=True, arch="sm_90a")
    assert (d == (a.astype(np.float32) @ b.astype(np.float32).T).astype(d.dtype)).all()
    assert not copied
