"""Kernels of `mma.sync` with TMA on a GPU of sm_120a or sm_121a, or of sm_90a: it runs those that name such a
schedule, and has all plain types.
"""

from dataclasses import replace

import pytest
from gpu_marks import CHIP, TMA_MMA
from launches import complaint
from products import Case, Product
from test_tcgen05_kernels import EPILOGUES, LAYOUTS, SINGLE, TYPES, product

import weft
from weft.dialects.schedule.tma_mma import TmaMmaSchedule
from weft.target import Target

pytestmark = TMA_MMA

SCHEDULES = (
    TmaMmaSchedule((64, 64, 64), (2, 2), 3),
    TmaMmaSchedule((32, 128, 64), (1, 4), 3),
    TmaMmaSchedule((128, 64, 64), (4, 2), 3),
    TmaMmaSchedule((128, 128, 64), (4, 2), 3),
    TmaMmaSchedule((256, 128, 64), (4, 2), 3),
)
_TARGET = Target.of(CHIP) if CHIP else None
SHAPES = ((8, 72, 200), (300, 136, 1000), (1000, 1048, 520))
TILED = (*TYPES, ("f8E4M3FN", "f8E4M3FN", "f8E4M3FN"), ("ui8", "i8", "i32"))


def products() -> list[Product]:
    """Each type with each schedule, layout and epilogue that is legal for both."""
    found = []
    for number, schedule in enumerate(SCHEDULES):
        for turn, types in enumerate(TILED):
            for layout in LAYOUTS:
                epilogue = EPILOGUES[(number + turn) % len(EPILOGUES)]
                made = replace(
                    product(types, SINGLE[0], layout, epilogue), schedule=_deep(schedule, types[0])
                )
                if made.schedule is not None and made.schedule.complaint(made.types, _TARGET) is None:
                    found.append(made)
    return found


def _deep(schedule: TmaMmaSchedule, element: str) -> TmaMmaSchedule:
    """The schedule with K blocks of 128 bytes, or of 64 bytes for elements of 32 bits."""
    m, n, _ = schedule.block
    return replace(schedule, block=(m, n, {"f16": 64, "bf16": 64, "f32": 16}.get(element, 128)))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
@pytest.mark.parametrize("made", products(), ids=str)
def test_products(made: Product, shape: tuple[int, int, int]) -> None:
    assert complaint(made, Case(shape, "integers"), weft.compile(made.module(), CHIP), "gpu") is None


def promoted() -> list[Product]:
    """Promoted and scaled fp8 in all layouts, for one product and for groups."""
    kinds = [("f8E4M3FN", "f8E4M3FN", "bf16"), ("f8E5M2", "f8E4M3FN", "f32")]
    schedules = (
        TmaMmaSchedule((64, 64, 128), (2, 2), 3),
        TmaMmaSchedule((32, 128, 128), (1, 4), 3),
        TmaMmaSchedule((128, 64, 128), (4, 2), 4),
    )
    return [
        Product(*types, schedule, layout, many=many, **{how: True})
        for types in kinds
        for schedule in schedules
        for layout in ((False, True), (False, False), (True, True), (True, False))
        for how in ("promote", "scaled")
        for many in ("", "rows", "masked")
    ]


@pytest.mark.parametrize("regime", ["integers", "normal"])
@pytest.mark.parametrize("made", promoted(), ids=str)
def test_promoted_sums(made: Product, regime: str) -> None:
    made = replace(made, alpha=0.5, activation="relu")
    kernel = weft.compile(made.module(), CHIP)
    assert complaint(made, Case((300, 144, 1040), regime), kernel, "gpu") is None


@pytest.mark.parametrize("many", ["rows", "masked"])
@pytest.mark.parametrize("layout", [(False, False), (True, True), (True, False)], ids=str)
@pytest.mark.parametrize("types", [("i8", "ui8", "i32"), ("f32", "f32", "f32")], ids=str)
def test_groups_of_mn_major_operands(
    types: tuple[str, str, str], layout: tuple[bool, bool], many: str
) -> None:
    deep = _deep(SCHEDULES[0], types[0])
    made = Product(*types, replace(deep, block=(64, 64, 32 if types[0] == "f32" else 128)), layout, many=many)
    kernel = weft.compile(made.module(), CHIP)
    assert complaint(made, Case((300, 144, 272), "integers"), kernel, "gpu") is None
