"""Tiles of D that `wgmma` kernels store in strips as wide as a line of L2."""

import pytest
from test_warpgroup_schedules import BF16, SM_90A, Product, of

from weft.dialects.schedule import Types
from weft.passes.kernels import writer

STRIPS = (
    (of(128, 224, 64), 4, 1),  # all of a tile at once: the last strip is narrower
    (of(64, 80, 64, 1, 4), 2, 1),
    (of(128, 224, 64, stages=4), 3, 2),
    (of(256, 176, 64, cluster=(1, 2)), 2, 2),  # which has no equal parts
    (of(128, 256, 64, stages=4), 2, 2),
    (of(128, 112, 64, stages=7), 1, 2),
    (of(192, 176, 64, 3, 4), 1, 3),
)


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("beta", "shapes"), [(0.0, ((100, 264, 64), (300, 421, 72))), (1.0, ((305, 424, 136),))], ids=str
)
@pytest.mark.parametrize(("schedule", "slots", "parts"), STRIPS, ids=str)
def test_strips_wait_for_slots_that_tma_has_read(schedule, slots, parts, beta, shapes):
    staging, product = schedule.staging(BF16), Product(beta=beta)
    assert (staging.slots, staging.parts) == (slots, parts) and schedule.complaint(BF16, SM_90A) is None
    kernel = product.compiled(schedule)
    for shape in shapes:
        assert product.wrong(kernel, shape) == 0
    assert kernel.resources.spill_stores <= 16 and "serialized" not in kernel.compiled.assembled.log


def test_strips_are_lines_and_the_rest():
    boxes = [each.box for each in Product().compiled(of(128, 224, 64, stages=4)).launch.maps[2:]]
    assert boxes == [(64, 64), (64, 32)]


def test_a_slot_that_is_filled_too_early_is_a_finding(monkeypatch):
    monkeypatch.setattr(writer.nvvm, "cp_async_bulk_wait_group", lambda *_, **__: None)
    with pytest.raises(AssertionError, match="async-source-overwritten"):
        Product().wrong(Product().compiled(of(256, 176, 64)), (305, 424, 136))


def test_a_single_slot_is_used_only_without_equal_parts():
    """Its strips wait for each other: 256 x 192 takes 0.5% longer than with two parts of 96 columns."""
    staging = of(256, 192, 64).staging(BF16)
    assert (staging.slots, staging.parts) == (0, 2)
    assert staging.strip <= staging.room < 2 * staging.strip


def test_other_tiles_of_d_are_not_staged_in_strips():
    swapped, split = of(128, 224, 64, swap=True), of(128, 224, 64, splits=2)
    for schedule in (of(128, 128, 64), of(128, 64, 64), swapped, split):
        assert schedule.staging(BF16).slots == 0
    assert of(128, 160, 64, alternating=True).staging(BF16).slots == 0
    for types in (Types("f8E4M3FN", "f8E4M3FN", "bf16"), Types("bf16", "bf16", "f32")):
        assert of(128, 224, 128).staging(types).slots == 0


@pytest.mark.slow
def test_c_is_copied_where_the_tile_also_fits_in_equal_parts():
    """Into the memory of the staged D. Strips don't have one map for all of it."""
    c = 3
    for schedule, copied in ((of(128, 224, 64, stages=4), True), (of(256, 176, 64), False)):
        maps = Product(beta=1.0).compiled(schedule).launch.maps
        assert (c in {each.matrix for each in maps}) == copied
