"""fp8 with float32 scales of each row of A and each column of B, in the emulator with its sanitizer."""

import ml_dtypes
import numpy as np
import pytest

import weft
from weft import reference
from weft.dialects import tile
from weft.dialects.schedule import Schedule, TensorMemorySchedule, TmaMmaSchedule, Types, WarpgroupSchedule
from weft.passes.kernels.matrices import StagedMatrix

CHIPS = {
    WarpgroupSchedule: "sm_90a",
    TensorMemorySchedule: "sm_100a",
    TmaMmaSchedule: "sm_120a",
    Schedule: "sm_89",
}
RNG = np.random.default_rng(9)
F8 = ml_dtypes.float8_e4m3fn
TYPES = Types("f8E4M3FN", "f8E4M3FN", "f32", promoted=True, scaled=True, scale_columns=True)


def of(m, n, warpgroups=1, stages=3, **fields):
    return WarpgroupSchedule((m, n, 128), warpgroups, stages, **fields)


def small(*shape):
    """Integers whose sums are exact."""
    return RNG.integers(-2, 3, shape).astype(F8)


def scales(*shape):
    """Powers of two, by which sums stay exact, with contiguous columns."""
    return (
        np.exp2(RNG.integers(-1, 2, (*shape[:-2], shape[-1], shape[-2]))).astype(np.float32).swapaxes(-1, -2)
    )


def scaled(x, of_rows):
    """A matrix in float64, each element times its scale."""
    return x.astype(np.float64) * np.repeat(of_rows, 128, -1)[..., : x.shape[-1]]


def kernel(schedule):
    with weft.Module() as module:
        kinds = [weft.memref("?x?", t) for t in ("f8E4M3FN", "f8E4M3FN", "f32", "f32", "f32")]
        with module.func("scaled", kinds) as (a, b, d, scale_a, scale_b):
            given = {"scale_a": scale_a, "scale_b": scale_b, "scale_columns": True}
            tile.matmul(a, b, d, transpose_b=True, schedule=schedule, **given)
    return weft.compile(module, arch=CHIPS[type(schedule)])


SCHEDULES = [
    of(64, 64),
    of(64, 24, swap=True),
    of(128, 64),  # two products of 64 rows in turn
    of(128, 96, warpgroups=2),
    of(256, 64, warpgroups=2, stages=2),
    of(192, 64, warpgroups=3, stages=2),
    of(128, 16, warpgroups=2, swap=True),
    of(128, 128, warpgroups=2, cluster=(2, 1)),
    of(64, 64, cluster=(1, 2)),
    of(64, 64, splits=2),
    of(64, 64, global_splits=2),
    TensorMemorySchedule((128, 64, 128), 2, 2),
    TensorMemorySchedule((128, 32, 128), 1, 2, swap=True),
    TensorMemorySchedule((256, 64, 128), 2, 2, cta_group=2),
    TensorMemorySchedule((128, 96, 128), 1, 2, epilogues=2),
    Schedule((64, 64, 128), (2, 2), 3),
    Schedule((16, 96, 128), (1, 2), 2),
    TmaMmaSchedule((64, 64, 128), (2, 2), 2),
    TmaMmaSchedule((16, 64, 128), (1, 4), 3),
    TmaMmaSchedule((128, 64, 128), (4, 2), 3, unit_scales=True),
]


@pytest.mark.each_value(1)  # that in which a fault is planted below
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_rows_and_columns_are_scaled_in_every_schedule(schedule):
    compiled = kernel(schedule)
    assert compiled.resources.spill_stores <= 8 and "serialized" not in compiled.compiled.assembled.log
    for m, n, k in ((schedule.block[0] + 8, schedule.block[1] + 72, 400), (8, 24, 144)):
        a, b, of_a, of_b = small(m, k), small(n, k), scales(m, -(-k // 128)), scales(n, -(-k // 128))
        d = np.full((m, n), np.nan, np.float32)
        report = compiled.emulate(a, b, d, np.ascontiguousarray(of_a.T), np.ascontiguousarray(of_b.T))
        assert not report.findings, report.findings[0]
        assert (d == scaled(a, of_a) @ scaled(b, of_b).T).all(), (m, n, k)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", [None, *SCHEDULES[:4], SCHEDULES[-2]], ids=str)
def test_gradients_of_weights_in_fp8(schedule):
    ends = reference.ends([256, 0, 100, 128], 128)
    depth = int(ends[-1])
    a, b = small(72, depth), small(40, depth)
    a[:, 356:384] = b[:, 356:384] = 0  # from the end of a group on
    of_a, of_b = scales(72, depth // 128), scales(40, depth // 128)
    before = RNG.integers(-9, 9, (4, 72, 40)).astype(np.float32)
    out, options = before.copy(), {"scales": (of_a, of_b), "k_ends": ends, "schedule": schedule}
    weft.matmul(a, b, transpose_b=True, out=out, beta=1.0, **options)
    left, right = scaled(a, of_a), scaled(b, of_b)
    for number, span in enumerate(reference.spans(ends, 128)):
        assert (out[number] == before[number] + left[:, span] @ right[:, span].T).all(), number


@pytest.mark.each_value(1)
@pytest.mark.parametrize("of_columns", [True, False])
@pytest.mark.parametrize(
    "schedule", [SCHEDULES[2], SCHEDULES[6], *SCHEDULES[-9:-7], SCHEDULES[-5], *SCHEDULES[-3:]], ids=str
)
def test_groups_of_rows_begin_inside_of_16_bytes_of_scales(schedule, of_columns):
    ends = reference.ends([1, 0, 63, 7, 130])
    a, b, of_a = small(208, 200), small(5, 40, 200), scales(208, 2)
    of_b = scales(5, 40, 2) if of_columns else scales(5, 1, 2)
    d, given = np.full((208, 40), 99, np.float32), {"transpose_b": True, "row_ends": ends}
    given |= {"scales": (of_a, of_b), "schedule": schedule, "arch": CHIPS[type(schedule)]}
    weft.matmul(a, b, out=d, **given)
    left, right = scaled(a, of_a), b.astype(np.float64) * np.repeat(of_b, 128, -1)[..., :200]
    for number, span in enumerate(reference.spans(ends)):
        assert (d[span] == left[span] @ right[number].T).all()
    assert (d[ends[-1] :] == 99).all()


def test_the_reference_has_scales_of_columns():
    a, b, of_a, of_b = small(8, 200), small(16, 200), scales(8, 2), scales(16, 2)
    found = reference.product(a, b, transpose_b=True, scale_a=of_a.T, scale_b=of_b.T)
    assert (found.values == scaled(a, of_a) @ scaled(b, of_b).T).all()


@pytest.mark.slow
def test_scales_of_another_tile_are_caught(monkeypatch):
    """Planted: the scales of the first tile for all."""
    copy = StagedMatrix.copy
    planted = lambda self, index, row, column, *rest: copy(self, index, row, 0, *rest)  # noqa: E731
    monkeypatch.setattr(StagedMatrix, "copy", planted)
    with pytest.raises(AssertionError):
        test_rows_and_columns_are_scaled_in_every_schedule(SCHEDULES[0])


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        (of(64, 64), None),
        (TensorMemorySchedule((128, 80, 128), 1, 2), "at most 64 promoted sums with as many factors in its"),
        (of(384, 16, 3, swap=True), "a tile must have at most 256 columns of D"),
        (of(256, 128, 2), "with 128 x 128 factors"),
    ],
    ids=str,
)  # fmt: skip
def test_schedules_with_scales_of_columns(schedule, said):
    found = schedule.complaint(TYPES)
    assert found is None if said is None else said in (found or ""), found


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch", ["sm_89", "sm_120a"])
def test_chips_with_mma_sync_scale_columns(arch):
    a, b, of_a, of_b = small(40, 200), small(24, 200), scales(40, 2), scales(24, 2)
    options = {"transpose_b": True, "scales": (of_a, of_b), "out_dtype": "f32", "arch": arch}
    assert (weft.matmul(a, b, **options) == scaled(a, of_a) @ scaled(b, of_b).T).all()


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["sm_89", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("transposed", [(False, True), (False, False), (True, True), (True, False)], ids=str)
def test_chosen_schedules_of_mma_sync_do_not_spill(chip, transposed):
    with weft.Module() as module:
        kinds = [weft.memref("?x?", t) for t in ("f8E4M3FN", "f8E4M3FN", "bf16", "f32", "f32", "f32")]
        with module.func("scaled", kinds) as (a, b, d, scale_a, scale_b, c):
            given = {"scale_a": scale_a, "scale_b": scale_b, "scale_columns": True, "c": c, "beta": 0.5}
            given |= dict(zip(("transpose_a", "transpose_b"), transposed, strict=True))
            tile.matmul(a, b, d, activation="gelu", **given)
    found = weft.compile(module, arch=chip).resources
    assert found.spill_stores == found.stack_bytes == 0


def test_chips_without_fp8_refuse_scales_of_columns():
    a, b = small(16, 128), small(16, 128)
    options = {"transpose_b": True, "scales": (scales(16, 1), scales(16, 1)), "arch": "sm_80"}
    with pytest.raises(weft.WeftError, match="it needs sm_89 or later"):
        weft.matmul(a, b, **options)
