"""Products whose sums are of f16 (`accumulate = "f16"`), by each family of instructions."""

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from launches import complaint
from products import Case, Product

import weft
from weft.dialects.schedule import (
    Schedule,
    TensorMemorySchedule,
    TmaMmaSchedule,
    WarpgroupSchedule,
    WmmaSchedule,
)

HALF, FP8 = ("f16", "f16"), ("f8E4M3FN", "f8E5M2")
SCHEDULES: tuple[tuple[str, Any, tuple[tuple[str, str], ...]], ...] = (
    ("sm_70", WmmaSchedule((64, 64, 32), (2, 2), 2), (HALF,)),
    ("sm_75", Schedule((64, 64, 32), (2, 2), 2), (HALF,)),
    ("sm_80", Schedule((64, 128, 64), (2, 2), 3), (HALF,)),
    ("sm_80", WmmaSchedule((64, 64, 32), (2, 2), 2), (HALF,)),
    ("sm_89", Schedule((64, 64, 64), (2, 2), 3), (HALF, FP8)),
    ("sm_90", Schedule((64, 64, 64), (2, 2), 3), (FP8,)),
    ("sm_90a", WarpgroupSchedule((128, 64, 64), 2, 3), (HALF, FP8)),
    ("sm_90a", WarpgroupSchedule((64, 128, 64), 1, 3), (HALF,)),  # products in flight
    ("sm_90a", WarpgroupSchedule((64, 32, 64), 1, 3, swap=True), (HALF, FP8)),
    ("sm_90a", WarpgroupSchedule((128, 64, 64), 2, 3, splits=2), (HALF,)),
    ("sm_90a", WarpgroupSchedule((128, 64, 64), 2, 3, global_splits=2), (HALF,)),
    ("sm_90a", WarpgroupSchedule((128, 64, 64), 2, 3, stream_k=True), (HALF,)),
    ("sm_90a", TmaMmaSchedule((64, 64, 64), (2, 2), 3), (HALF,)),
    ("sm_100a", TensorMemorySchedule((128, 64, 64), 2, 3), (HALF, FP8)),
    ("sm_100a", TensorMemorySchedule((256, 64, 64), 2, 3, cta_group=2), (HALF,)),
    ("sm_100a", TensorMemorySchedule((128, 64, 64), 2, 3, swap=True), (HALF,)),
    ("sm_100a", TensorMemorySchedule((128, 64, 64), 2, 3, global_splits=2), (HALF,)),
    ("sm_100a", TensorMemorySchedule((64, 64, 64), 2, 3), (HALF,)),
    ("sm_120a", TmaMmaSchedule((64, 64, 64), (2, 2), 3), (HALF, FP8)),
    ("sm_120", Schedule((64, 64, 64), (2, 2), 3), (FP8,)),
)
CASES = [
    (chip, Product(*types, "f32", schedule, transposed=layout, accumulate="f16"))
    for chip, schedule, all_types in SCHEDULES
    for types in all_types
    for layout in product((False, True), repeat=2)
    if schedule.layout_complaint(Product(*types, "f32", transposed=layout).types) is None
]


@pytest.mark.slow
@pytest.mark.parametrize(("chip", "made"), CASES, ids=str)
def test_products(chip: str, made: Product) -> None:
    kernel = weft.compile(made.module(), chip)
    for case in (Case((151, 136, 80), "integers"), Case((40, 56, 208), "normal")):
        assert complaint(made, case, kernel, "emulator") is None
    assert kernel.resources.spill_stores == kernel.resources.stack_bytes == 0


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("chip", "element"), [("sm_90a", "f16"), ("sm_89", "f8E4M3FN"), ("sm_80", "f16"), ("sm_70", "f16")]
)
def test_sums_are_of_f16(chip: str, element: str) -> None:
    # Sums up to 2048 are exact in f16; from there on only even ones are, so that adding 1 changes nothing.
    kind = np.float16 if element == "f16" else ml_dtypes.float8_e4m3fn
    a, b = np.ones((16, 192), kind), np.ones((192, 16), kind)
    a[:, :64] = 32
    options = {"out_dtype": "f32", "arch": chip}
    assert (weft.matmul(a, b, accumulate="f16", **options) % 2 == 0).all()
    a[0, -1] = 2
    exact = weft.matmul(a, b, **options)
    assert exact[0, 0] == 64 * 32 + 128 + 1 and exact[1, 0] == 64 * 32 + 128
    assert (weft.matmul(a, b, accumulate="f32", **options) == exact).all()
    assert weft.matmul(a, b, accumulate="f16", **options)[0, 0] != exact[0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("many", ["batch", "rows", "masked"])
@pytest.mark.parametrize(
    ("chip", "schedule"), [SCHEDULES[number][:2] for number in (0, 2, 6, 13, 18)], ids=str
)
def test_epilogues_and_groups(chip: str, schedule: Any, many: str) -> None:
    added = (("c", "f16"), ("bias", "f16"), ("residual", "f16"))
    made = Product(
        *HALF,
        "f16",
        schedule,
        alpha=0.5,
        beta=2.0,
        added=added,
        activation="gelu",
        accumulate="f16",
        many=many,
    )
    kernel = weft.compile(made.module(), chip)
    assert complaint(made, Case((151, 136, 80), "normal"), kernel, "emulator") is None


@pytest.mark.parametrize(
    ("inputs", "d", "options", "wanted"),
    [
        (("bf16", "bf16"), "f32", {}, "expects A and B of f16 or fp8 where accumulate is f16, got bf16"),
        (("i8", "i8"), "i32", {}, "expects A and B of f16 or fp8 where accumulate is f16, got i8"),
        (FP8, "f32", {"promote": True}, "accumulate must be f32 with promote, got f16"),
        (FP8, "f32", {"scaled": True}, "accumulate must be f32 with scales, got f16"),
        (HALF, "f32", {"accumulate": "bf16"}, "accumulate must be f32 or f16 for A and B of f16, got bf16"),
        (("f32", "f32"), "f32", {"accumulate": "f64"}, "accumulate must be f32 for A and B of f32, got f64"),
    ],
    ids=str,
)
def test_other_sums_are_refused(
    inputs: tuple[str, str], d: str, options: dict[str, Any], wanted: str
) -> None:
    with pytest.raises(weft.WeftError, match=wanted):
        Product(*inputs, d, **{"accumulate": "f16", **options}).module()


def test_chips_without_such_sums_are_refused() -> None:
    with pytest.raises(weft.WeftError, match=r"with sums of f16: it needs sm_89 or later, or A and B of f16"):
        weft.compile(Product(*FP8, "f32", accumulate="f16").module(), "sm_80")
