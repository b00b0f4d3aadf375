"""Kernels of `wgmma` whose threads load A and B, with rows that begin at any element."""

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.dialects.schedule import Types, WarpgroupSchedule, read_schedule
from weft.errors import WeftError
from weft.multiply import product_kernel
from weft.target import Target

BF16 = ml_dtypes.bfloat16
F8 = ml_dtypes.float8_e4m3fn
pytestmark = pytest.mark.filterwarnings("error::UserWarning")  # what the emulator finds
RNG = np.random.default_rng(5)


def of(*block: int, **fields: object) -> WarpgroupSchedule:
    stages = {2: 4, 3: 6}.get(fields.get("loaders", 1), 3)  # type: ignore[call-overload]
    given = {"warpgroups": 1, "stages": stages, "swap": True, "loaders": 1, **fields}
    return WarpgroupSchedule(block, **given)  # type: ignore[arg-type]


def matrix(rows, columns, dtype, gap=0, start=0):
    """Small integers, so that sums are exact, in memory that ends with the last row. Around them is NaN, or
    the greatest integer.
    """
    pitch = columns + gap
    memory = np.full(start + (rows - 1) * pitch + columns, 0, dtype)
    memory[...] = np.iinfo(dtype).max if np.issubdtype(dtype, np.integer) else np.nan
    size = memory.itemsize
    view = np.lib.stride_tricks.as_strided(memory[start:], (rows, columns), (pitch * size, size))
    least = 0 if dtype == np.uint8 else -2
    view[...] = RNG.integers(least, 3, (rows, columns)).astype(dtype)
    return view


PRODUCTS = (
    (np.float16, (3, 70, 133), (False, True), 0, 0, of(64, 8, 64)),
    (np.float16, (3, 70, 133), (False, True), 3, 5, of(64, 8, 128, loaders=2)),
    (BF16, (16, 130, 77), (False, False), 1, 1, of(64, 16, 64, loaders=2)),
    (BF16, (33, 65, 70), (True, True), 2, 0, of(128, 48, 64, warpgroups=2)),
    (np.float16, (65, 41, 131), (False, True), 4, 2, of(64, 48, 64, swap=False, loaders=3)),
    (np.float16, (40, 64, 61), (True, False), 1, 7, of(64, 64, 64, swap=False)),
    (F8, (5, 66, 259), (False, True), 0, 3, of(64, 8, 128, loaders=2)),
    (np.int8, (5, 66, 131), (False, True), 6, 1, of(64, 8, 128)),
    (np.uint8, (5, 66, 131), (False, True), 0, 0, of(64, 8, 128, loaders=3)),
    (np.float32, (5, 66, 45), (False, True), 1, 1, of(64, 8, 32, loaders=2)),
    (np.float16, (5, 130, 333), (False, True), 3, 1, of(64, 8, 64, global_splits=2, loaders=2)),
    (np.float16, (16, 70, 333), (False, True), 1, 0, of(64, 16, 64, splits=2, loaders=2)),
    (np.float16, (3, 64, 128), (False, True), 0, 0, of(64, 8, 64)),
    (np.float16, (1, 1, 1), (False, True), 0, 1, of(64, 8, 64)),
)


@pytest.mark.each_value(1)
@pytest.mark.sampled(5)
@pytest.mark.parametrize(("dtype", "shape", "transposed", "gap", "start", "schedule"), PRODUCTS)
def test_rows_may_begin_anywhere(dtype, shape, transposed, gap, start, schedule):
    m, n, k = shape
    a = matrix(*((k, m) if transposed[0] else (m, k)), dtype, gap, start)
    b = matrix(*((n, k) if transposed[1] else (k, n)), dtype, gap + 1, start)
    left, right = (x.astype(np.float64) for x in (a.T if transposed[0] else a, b.T if transposed[1] else b))
    options = {"transpose_a": transposed[0], "transpose_b": transposed[1], "arch": "sm_90a"}
    assert (weft.matmul(a, b, schedule=schedule, **options) == left @ right).all()


OF_B = (
    ((65, 133, 205), (False, True), of(64, 72, 64, loaders=2, copies_a=True)),
    ((33, 130, 77), (True, True), of(128, 48, 64, warpgroups=2, loaders=2, copies_a=True)),
    ((40, 64, 61), (False, False), of(64, 64, 64, swap=False, copies_a=True)),
    ((20, 130, 333), (False, True), of(128, 24, 64, warpgroups=2, global_splits=2, loaders=2, copies_a=True)),
)


@pytest.mark.each_value(1)
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("shape", "transposed", "schedule"), OF_B)
def test_b_alone_is_loaded(shape, transposed, schedule):
    """A is copied to rows that TMA takes, unless it has such rows."""
    m, n, k = shape
    kernel = product_kernel.plain(
        replace(BF16_TYPES, transposed=(transposed[0], not transposed[1])), schedule, "sm_90a"
    )
    assert kernel.launch.aligned == (16, 1, 1)
    for gap in (0, -(m if transposed[0] else k) % 8):
        a = matrix(*((k, m) if transposed[0] else (m, k)), BF16, gap, gap)
        b = matrix(*((n, k) if transposed[1] else (k, n)), BF16, 1, 3)
        left, right = (
            x.astype(np.float64) for x in (a.T if transposed[0] else a, b.T if transposed[1] else b)
        )
        options = {"transpose_a": transposed[0], "transpose_b": transposed[1], "arch": "sm_90a"}
        found = weft.matmul(a, b, schedule=schedule, out_dtype="f32", **options)
        assert (found == left @ right).all()


@pytest.mark.slow
def test_a_batch_has_an_epilogue():
    a = np.stack([matrix(5, 67, np.float16) for _ in range(2)])
    b = np.stack([matrix(41, 67, np.float16) for _ in range(2)])
    bias = np.arange(41, dtype=np.float32)
    found = weft.matmul(
        *(a, b),
        transpose_b=True,
        schedule=of(64, 8, 64, loaders=2),
        epilogue=weft.Epilogue(bias=bias),
        alpha=2,
    )
    product = a.astype(np.float64) @ b.transpose(0, 2, 1).astype(np.float64)
    assert (found == 2 * product + bias).all()


BF16_TYPES = Types("bf16", "bf16", "bf16")
REFUSED = (
    (
        BF16_TYPES,
        of(64, 8, 64, loaders=2, stages=5),
        r"^stages must be a multiple of loaders 2, at least 6, got 5$",
    ),
    (BF16_TYPES, of(64, 8, 64, loaders=4), r"^loaders must be in 0..3, got 4$"),
    (BF16_TYPES, of(64, 8, 64, loaders=-1), r"^loaders must be at least 1, got -1$"),
    (
        BF16_TYPES,
        of(64, 16, 64, cluster=(2, 1)),
        r"^loaders must be 0 with a cluster that shares copies, got 1$",
    ),
    (BF16_TYPES, of(64, 8, 64, stream_k=True), r"^loaders must be 0 with stream_k, got 1$"),
    (
        BF16_TYPES,
        of(64, 8, 64, loaders=0, copies_a=True),
        r"^loaders must be at least 1 with copies_a, got 0$",
    ),
    (
        Types("f8E4M3FN", "f8E4M3FN", "bf16", promoted=True),
        of(64, 8, 128),
        r"^loaders must be 0 with promoted sums, got 1$",
    ),
    (Types("bf16", "bf16", "bf16", grouped=True), of(64, 8, 64), r"^loaders must be 0 with groups, got 1$"),
    # A stage holds the tiles twice, the second time with 16 bytes more for each row; D is staged, too.
    (
        BF16_TYPES,
        of(128, 64, 128, warpgroups=2),
        r"^shared memory must be at most 232448 bytes on sm_90a, got 320560 \(3 stages of 101376\)$",
    ),
)


@pytest.mark.parametrize(("types", "schedule", "complaint"), REFUSED)
def test_a_refused_schedule_names_its_rule(types, schedule, complaint):
    assert re.search(complaint, schedule.complaint(types, Target.of("sm_90a")) or "")


def test_a_schedule_is_written_with_loaders_where_it_has_some():
    schedule = of(64, 8, 64, loaders=2)
    with weft.Module():
        text = str(schedule.attribute())
        assert "loaders = 2" in text
        assert "loaders" not in str(of(64, 8, 64, loaders=0).attribute())
    assert read_schedule(text) == schedule
    assert str(schedule).endswith("2 loaders, swapped")
    assert str(replace(schedule, copies_a=True)).endswith("2 loaders of B, swapped")


def test_other_kernels_still_need_aligned_rows():
    with pytest.raises(WeftError):
        read_schedule("{block = array<i64: 64, 8, 64>, warpgroups = 1, stages = 3, loaders = true}")
