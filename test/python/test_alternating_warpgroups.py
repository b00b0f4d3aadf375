"""Kernels of `wgmma` whose warpgroups compute tiles in turns, in the emulator with its sanitizer."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from launches import complaint
from machine_code import local_memory
from products import Case, Product
from test_warpgroup_schedules import of

import weft
from weft.dialects import context as new_context
from weft.dialects.schedule import Types, WarpgroupSchedule, read_schedule
from weft.emulator.errors import Deadlock
from weft.multiply import product_kernel
from weft.passes.builders import emit
from weft.passes.kernels import accumulator

BF16 = ("bf16", "bf16", "bf16")
NT = Types(*BF16)
SMALL = of(64, 32, 64, stages=3, alternating=True)
CLUSTER = of(64, 64, 64, stages=5, cluster=(2, 1), swap=True, alternating=True)
THREE = of(64, 32, 64, warpgroups=3, stages=4, alternating=True)
PARTS = of(128, 192, 64, stages=5, cluster=(2, 1), swap=True, alternating=True)
WIDE = of(64, 256, 64, stages=5, cluster=(4, 1), alternating=True)
# The emulator runs eight CTAs: one tile for all, and tiles for some.
ONE, FEW = (60, 24, 200), (130, 72, 136)


def many(schedule: WarpgroupSchedule, k: int = 200) -> tuple[int, int, int]:
    """A shape with several tiles for each warpgroup of eight CTAs, but not equally many."""
    m, n, _ = schedule.block
    return 7 * m - 16, 5 * n + 8, k


def kernel(schedule: WarpgroupSchedule, types: Types = NT) -> weft.Kernel:
    return product_kernel.plain(types, schedule, "sm_90a")


def multiplied(given: weft.Kernel, shape: tuple[int, int, int], types: Types = NT) -> tuple[bool, bool]:
    """Whether the sanitizer finds something, and whether a product is right."""
    m, n, k = shape
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-2, 3, size).astype(ml_dtypes.bfloat16) for size in ((m, k), (k, n)))
    d = np.full((m, n), 7, a.dtype)
    of_a, of_b = types.transposed
    sides = (x.T if turned else x for x, turned in ((a, of_a), (b, not of_b)))
    report = given.emulate(*map(np.ascontiguousarray, sides), d)
    right = (a.astype(np.float64) @ b.astype(np.float64)).astype(d.dtype)
    return bool(report.findings), bool((d == right).all())


@pytest.mark.each_value(1)
@pytest.mark.parametrize("schedule", [SMALL, CLUSTER, THREE, PARTS, WIDE], ids=str)
def test_tiles_are_right(schedule: WarpgroupSchedule) -> None:
    made = kernel(schedule)
    assert not local_memory(made)
    assert made.resources.shared_bytes == schedule.shared_bytes(NT)
    for shape in (ONE, FEW, *(many(schedule, k) for k in (40, 64 * schedule.stages))):
        assert multiplied(made, shape) == (False, True)


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("transposed", [(False, True), (True, True), (True, False)])
def test_every_layout_is_right(transposed: tuple[bool, bool]) -> None:
    types = replace(NT, transposed=transposed)
    assert multiplied(kernel(SMALL, types), many(SMALL), types) == (False, True)


MORE = (
    Product(*BF16, SMALL, beta=2.0, added=(("c", "bf16"), ("bias", "f32")), activation="silu"),
    Product(*BF16, SMALL, added=(("residual", "bf16"),)),
    Product(*BF16, CLUSTER, added=(("residual", "bf16"), ("bias", "bf16")), activation="relu"),
    Product(*BF16, PARTS, added=(("residual", "bf16"),)),
    Product(*BF16, THREE, many="batch"),
    Product("bf16", "bf16", "f32", THREE, added=(("residual", "f32"),)),
    Product("f16", "f16", "f16", CLUSTER),
    Product("f32", "f32", "f32", of(64, 32, 32, stages=3, alternating=True)),
    Product("f8E4M3FN", "f8E4M3FN", "bf16", of(64, 32, 128, stages=3, alternating=True)),
    Product("i8", "i8", "i32", of(64, 32, 128, stages=3, alternating=True)),
    Product(*BF16, SMALL, rows="dense d"),
)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("made", MORE, ids=str)
def test_other_types_and_epilogues_are_right(made: Product) -> None:
    compiled = weft.compile(made.module(), "sm_90a")
    for shape in (many(made.schedule), (67, 40, 72)):
        case = Case(shape, "integers")
        assert complaint(made, case, compiled, "emulator") is None


@pytest.mark.usefixtures("fresh_kernels")
def test_a_turn_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """All begin at once: a stage is taken to be full whose first contents aren't there yet."""
    monkeypatch.setattr(
        accumulator.Turns,
        "begin",
        lambda self, number: [emit.value(0), *self._skip([emit.value(0)] * 2, number)],
    )
    with pytest.raises(Deadlock, match="is never filled"):
        multiplied(kernel(SMALL), many(SMALL))


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_kernels")
def test_a_turn_that_is_not_passed_on_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulator.Turns, "_pass_on", lambda self, number: None)
    with pytest.raises(Deadlock, match="is never released"):
        multiplied(kernel(SMALL), many(SMALL))


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_kernels")
def test_a_wrong_stage_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warpgroups that don't skip the stages of the others."""
    monkeypatch.setattr(accumulator.Turns, "_skip", lambda self, position, tiles: position)
    try:
        found, right = multiplied(kernel(SMALL), many(SMALL))
    except Deadlock:
        return
    assert found or not right


@pytest.mark.parametrize(
    ("types", "schedule", "message"),
    [
        (NT, replace(SMALL, warpgroups=1), "alternating must be false with warpgroups = 1"),
        (NT, replace(SMALL, splits=2), "alternating must be false with splits"),
        (NT, replace(SMALL, global_splits=2), "alternating must be false with splits"),
        (NT, replace(SMALL, stream_k=True), "alternating must be false with stream_k"),
        (NT, replace(SMALL, loaders=1), "alternating must be false with loaders"),
        (NT, replace(SMALL, skewed=True), "alternating must be false with skewed"),
        (replace(NT, grouped=True), SMALL, "alternating must be false with groups"),
        (
            Types("f8E4M3FN", "f8E4M3FN", "bf16", promoted=True),
            replace(SMALL, block=(64, 32, 128)),
            "alternating must be false with promoted sums",
        ),
        (NT, of(256, 192, 64, alternating=True), "a warpgroup must hold at most 25600 sums"),
    ],
)
def test_what_cannot_alternate_is_refused(types: Types, schedule: WarpgroupSchedule, message: str) -> None:
    assert (schedule.complaint(types) or "").startswith(message)


def test_a_schedule_is_written_and_read() -> None:
    with new_context():
        text = str(SMALL.attribute())
    assert read_schedule(text) == SMALL and "alternating" in str(SMALL)


def test_results_are_those_of_warpgroups_that_share_tiles() -> None:
    assert SMALL.same_results(replace(SMALL, alternating=False))
