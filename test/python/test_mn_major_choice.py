"""What multiplies MN-major operands that `wgmma` reads K-major only: `mma.sync` with TMA."""

import pytest
from machine_code import local_memory

from weft.dialects.schedule import Schedule, TmaMmaSchedule, Types, WarpgroupSchedule
from weft.multiply import product_kernel
from weft.schedules import choice, tma_mma
from weft.schedules.h200 import H200
from weft.target import Target

NN, TN, TT = (False, True), (True, True), (True, False)
INPUTS = [("i8", "i8", "i32"), ("f32", "f32", "f32"), ("f8E4M3FN", "f8E5M2", "bf16")]
SIZES = [(4096, 4096, 4096), (16, 8192, 8192), (1, 256, 256), (64, 4096, 4096), (1000, 1001, 1003)]


def chosen(types, *mnk, **options):
    return choice.choose(*mnk, types, "sm_90a", **options)


@pytest.mark.parametrize("layout", [NN, TN, TT])
@pytest.mark.parametrize("inputs", INPUTS)
def test_schedules_are_legal_and_predicted(inputs, layout):
    types = Types(*inputs, layout)
    for mnk in SIZES:
        assert chosen(types, *mnk).complaint(types, Target.of("sm_90a")) is None
        assert 1 < tma_mma.measured_us(*mnk, types, H200) < 2000
    assert tma_mma.measured_us(*SIZES[0], types, H200, 3) > tma_mma.measured_us(*SIZES[0], types, H200)
    every = tma_mma.ranked(*SIZES[0], types, "sm_90a")
    assert choice.CHOOSERS[TmaMmaSchedule].candidates(choice.Request(*SIZES[0], types, "sm_90a")) == every


def test_large_products_have_large_tiles_and_few_rows_low_ones():
    s8 = Types(*INPUTS[0], NN)
    assert chosen(s8, *SIZES[0]) == TmaMmaSchedule((128, 128, 128), (2, 4), 5)
    assert chosen(s8, *SIZES[1]) == TmaMmaSchedule((16, 64, 128), (1, 4), 8)
    assert chosen(s8, 256, 4096, 4096) == TmaMmaSchedule((64, 64, 128), (2, 2), 8)
    assert isinstance(chosen(Types(*INPUTS[0], TN), *SIZES[0]), Schedule)  # which was faster


def test_other_products_keep_their_families():
    assert isinstance(chosen(Types("bf16", "bf16", "bf16", TN), *SIZES[0]), WarpgroupSchedule)
    assert isinstance(chosen(Types(*INPUTS[0]), *SIZES[0]), WarpgroupSchedule)
    assert isinstance(chosen(Types(*INPUTS[0]), *SIZES[0], family="mma"), Schedule)
    assert isinstance(chosen(Types(*INPUTS[0], NN), *SIZES[0], any_rows=True), Schedule)
    assert isinstance(chosen(Types(*INPUTS[2], NN, promoted=True), *SIZES[0]), Schedule)
    assert isinstance(chosen(Types("f64", "f64", "f64", NN), *SIZES[0]), Schedule)
    assert isinstance(chosen(Types("i4", "i4", "i32", NN), *SIZES[0]), Schedule)
    assert tma_mma.measured_us(*SIZES[0], Types("bf16", "bf16", "bf16", NN), H200) is None


@pytest.mark.slow
@pytest.mark.parametrize("layout", [NN, TN, TT])
@pytest.mark.parametrize("inputs", INPUTS)
def test_schedules_spill_nothing(inputs, layout):
    types = Types(*inputs, layout)
    for schedule in tma_mma.ranked(*SIZES[0], types, "sm_90a"):
        assert not local_memory(product_kernel.plain(types, schedule, "sm_90a")), schedule
