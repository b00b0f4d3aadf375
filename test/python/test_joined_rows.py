"""Kernels of `wgmma` whose MN-major A has at most eight columns, of which TMA copies eight rows at a time."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.compiler.launch_record import MapParameter
from weft.dialects.schedule import Types, WarpgroupSchedule, read_schedule
from weft.distributed import products
from weft.errors import WeftError
from weft.launch import arrays
from weft.launch.kernel_arguments import map_of
from weft.multiply import product_kernel
from weft.schedules import choice, wgmma
from weft.schedules.h200 import fitted_gpu
from weft.target import Target

TN = Types("bf16", "bf16", "bf16", (True, False))
TT = Types("bf16", "bf16", "bf16", (True, True))
RNG = np.random.default_rng(6)


def of(*block: int, **fields: object) -> WarpgroupSchedule:
    given = {"warpgroups": 1, "stages": 3, "swap": True, "joined": True, **fields}
    return WarpgroupSchedule(block, **given)  # type: ignore


def product(types: Types, m: int, n: int, k: int, pitch: int, schedule: WarpgroupSchedule) -> None:
    """Asserts that a product is right, in the emulator; what follows the rows of A in memory is NaN."""
    memory = np.full((k, pitch), np.nan, ml_dtypes.bfloat16)
    a = memory[:, :m]
    a[...] = RNG.integers(-2, 3, (k, m))
    b = RNG.integers(-2, 3, (k, n) if types.transposed[1] else (n, k)).astype(a.dtype)
    d = np.zeros((m, n), a.dtype)
    report = product_kernel.plain(types, schedule, "sm_90a").emulate(a, b, d)
    right = a.astype(np.float64).T @ (b if types.transposed[1] else b.T).astype(np.float64)
    assert not report.findings and (d == right.astype(d.dtype)).all()


CASES = (
    (TN, (8, 136, 200), 8, of(64, 8, 64)),
    (TT, (8, 136, 200), 8, of(64, 8, 64)),
    (TT, (8, 136, 200), 16, of(64, 8, 64)),
    (TN, (5, 136, 200), 8, of(64, 8, 64)),
    (TN, (8, 520, 328), 8, of(128, 8, 128, warpgroups=2, cluster=(4, 1))),
    (TT, (8, 136, 520), 8, of(64, 8, 64, global_splits=3)),
    (TT, (8, 200, 520), 8, of(192, 8, 64, warpgroups=3, splits=1, stages=4)),
)


@pytest.mark.each_value(2)
@pytest.mark.parametrize(("types", "shape", "pitch", "schedule"), CASES)
def test_rows_are_copied_together(types, shape, pitch, schedule):
    product(types, *shape, pitch, schedule)


def test_each_product_of_a_batch_is_right():
    schedule = of(64, 8, 64)
    a = RNG.integers(-2, 3, (3, 72, 8)).astype(ml_dtypes.bfloat16)
    b = RNG.integers(-2, 3, (3, 72, 80)).astype(a.dtype)
    right = np.matmul(a.astype(np.float64).transpose(0, 2, 1), b.astype(np.float64))
    d = weft.matmul(a.transpose(0, 2, 1), b, transpose_b=False, schedule=schedule)
    assert (d == right.astype(d.dtype)).all()


MAP = MapParameter(0, (64, 8), "none", "128B", joined=True)


@pytest.mark.parametrize(
    ("shape", "pitch", "dims", "strides", "box"),
    [
        ((200, 8), 8, (64, 1, 25), (128, 128), (64, 1, 8)),
        ((200, 8), 24, (8, 8, 25), (48, 384), (8, 8, 8)),
        ((200, 5), 8, (5, 8, 25), (16, 128), (8, 8, 8)),
    ],
)
def test_rows_that_follow_each_other_are_one_row_of_the_map(shape, pitch, dims, strides, box):
    """Where they have other columns beside them, the map reads none of those."""
    view = arrays.view(np.zeros((shape[0], pitch), ml_dtypes.bfloat16)[:, : shape[1]])
    fields = map_of(view, MAP, 0)
    assert (fields.dims, fields.strides, fields.box) == (dims, strides, box)
    assert fields.element_strides == (1, 1, 1)


def test_a_batch_has_one_more_dimension():
    fields = map_of(arrays.view(np.zeros((3, 64, 8), ml_dtypes.bfloat16)), MAP, 0)
    assert (fields.dims, fields.strides, fields.box) == ((64, 1, 8, 3), (128, 128, 1024), (64, 1, 8, 1))


def test_rows_that_are_left_over_are_refused():
    view = arrays.view(np.zeros((201, 8), ml_dtypes.bfloat16))
    with pytest.raises(WeftError, match="argument 0: rows must be a multiple of 8, got 201"):
        map_of(view, MAP, 0)


@pytest.mark.parametrize(("m", "k"), [(16, 72), (8, 76)])
def test_a_launch_refuses_other_sizes(m, k):
    a, b = np.zeros((k, m), ml_dtypes.bfloat16), np.zeros((k, 72), ml_dtypes.bfloat16)
    with pytest.raises(WeftError, match="shapes of its arguments"):
        product_kernel.plain(TT, of(64, 8, 64), "sm_90a").emulate(a, b, np.zeros((m, 72), a.dtype))


REFUSED = (
    (Types("bf16", "bf16", "bf16"), of(64, 8, 64), "a K-major A"),
    (replace(TT, grouped=True), of(64, 8, 64), "groups"),
    (TT, of(64, 16, 64), "tiles of more than 8 rows of A"),
    (TT, of(64, 8, 64, swap=False), "tiles of more than 8 rows of A"),
    (TT, of(64, 8, 64, loaders=1, stages=4), "loaders"),
    (Types("f8E4M3FN", "f8E4M3FN", "bf16", (True, False)), of(64, 8, 128), "elements of f8E4M3FN"),
)


@pytest.mark.parametrize(("types", "schedule", "what"), REFUSED)
def test_a_refused_schedule_names_its_rule(types, schedule, what):
    assert schedule.complaint(types, Target.of("sm_90a")) == f"joined must be false with {what}"


def test_a_schedule_is_written_with_it():
    schedule = of(64, 8, 64)
    with weft.Module():
        text = str(schedule.attribute())
    assert read_schedule(text) == schedule and ", joined" in str(schedule)
    assert not schedule.same_results(replace(schedule, joined=False))


def test_a_stage_has_no_more_columns_than_a_tile():
    joined = of(64, 8, 64)
    assert joined.stored(TT) == (64, 8) and replace(joined, joined=False).stored(TT) == (64, 16)


@pytest.mark.parametrize("types", [TN, TT])
@pytest.mark.parametrize(
    ("m", "k", "joined"),
    [(8, 760, True), (8, None, False), (8, 764, False), (None, 760, False), (16, 760, False)],
)
def test_narrow_products_are_chosen_with_joined_rows(types, m, k, joined):
    """Where K may leave over rows, they aren't."""
    assert choice.choose(m, 7096, k, types, "sm_90a").joined == joined


def test_rows_from_other_gpus_are_not_joined():
    chosen = products._chosen(TT, "sm_90a", (1, 8, 7096, 760), False)
    assert isinstance(chosen, WarpgroupSchedule) and not chosen.joined


def test_k_major_operands_have_no_such_candidates():
    chip, types = fitted_gpu("sm_90a"), Types("bf16", "bf16", "bf16", (False, True))
    assert not any(s.joined for s in wgmma.ranked(8, 1024, 760, types, chip))


def test_the_model_charges_joined_rows_less():
    """Copies of eight rows at once are eight requests for a K block of 64."""
    times = wgmma.modeled(
        (of(64, 8, 64, stages=11), of(64, 8, 64, stages=11, joined=False)),
        8,
        7096,
        760,
        TT,
        fitted_gpu("sm_90a"),
    )
    assert times[0] < times[1]
