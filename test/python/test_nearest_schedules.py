"""An illegal schedule is refused with the nearest legal ones, of every family."""

import pytest

import weft
from weft.dialects.product_types import Types
from weft.dialects.schedule import (
    DirectSchedule,
    Schedule,
    TensorMemorySchedule,
    TmaMmaSchedule,
    WarpgroupSchedule,
    WmmaSchedule,
)
from weft.dialects.schedule.nearest import refusal
from weft.target import Target

TYPES = Types("bf16", "bf16", "f32", (False, False))
WMMA = WmmaSchedule((64, 64, 32), (3, 2), 2)
MMA = Schedule((128, 128, 48), (2, 2), 4)
DIRECT = DirectSchedule((24, 32, 64), (1, 8))
TMA_MMA = TmaMmaSchedule((128, 128, 64), (3, 2), 3)
WGMMA = WarpgroupSchedule((64, 32, 64), 2, 3)
TENSOR_MEMORY = TensorMemorySchedule((128, 128, 64), accumulators=3, stages=30)

NEAREST = {
    (WMMA, "sm_80"): "warp_grid 4x2, block 48x64x32, warp_grid 2x2",
    (MMA, "sm_80"): "block 128x128x64, block 128x128x32",
    (Schedule((128, 128, 32), (2, 2), 99), "sm_80"): "stages 10, stages 9, stages 8",
    (Schedule((-128, 128, 32), (2, 2), 4), "sm_80"): "block 128x128x32, block 160x128x32, block 96x128x32",
    (DIRECT, "sm_80"): "block 32x32x64, block 16x32x64, block 48x32x64",
    (TMA_MMA, "sm_120a"): "consumers 4x2, consumers 2x2",
    (WGMMA, "sm_90a"): "warpgroups 1, block 128x32x64, alternating true",
}


@pytest.mark.parametrize(("schedule", "chip"), NEAREST, ids=str)
def test_the_nearest_legal_schedules_are_named(schedule, chip):
    target = Target.of(chip)
    complaint = schedule.complaint(TYPES, target)
    assert refusal(schedule, TYPES, target) == f"{complaint}; nearest legal: {NEAREST[schedule, chip]}"


def test_where_no_single_change_makes_it_legal_the_rule_is_all():
    target = Target.of("sm_100a")
    assert refusal(TENSOR_MEMORY, TYPES, target) == TENSOR_MEMORY.complaint(TYPES, target)
    assert refusal(WGMMA, TYPES, Target.of("sm_80")) == WGMMA.complaint(TYPES, Target.of("sm_80"))


def test_a_legal_schedule_is_not_refused():
    assert refusal(Schedule((128, 128, 32), (2, 2), 4), TYPES, Target.of("sm_80")) is None


def test_an_illegal_instruction_names_legal_ones_once():
    said = refusal(WarpgroupSchedule((64, 12, 64), 1, 3), TYPES, Target.of("sm_90a"))
    assert said.count("nearest legal") == 1


TEXT = """func.func @k(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xf32>) {
  "tile.matmul"(%a, %b, %d)
    {
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>,
    schedule = {block = array<i64: 128, 128, 32>, warps = array<i64: 2, 2>, stages = STAGES}}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xf32>) -> ()
  return
}"""


@pytest.mark.parametrize(("stages", "nearest"), [(15, (14, 13, 12)), (13, (10, 9, 8))])
def test_the_operation_says_so(stages, nearest):
    """Its verifier, where no chip could run it, and otherwise the pass that knows the chip."""
    said = f"nearest legal: {', '.join(f'stages {each}' for each in nearest)}"
    with pytest.raises(weft.WeftError, match=f"^-:2:3: error: 'tile.matmul' op .*; {said}$"):
        weft.compile(TEXT.replace("STAGES", str(stages)), arch="sm_80")
