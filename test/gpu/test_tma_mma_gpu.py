"""Kernels of `mma.sync` with TMA on a GPU of sm_120a or sm_121a, or of sm_90a: it runs those that name such a
schedule, and has all plain types.
"""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from gpu_marks import CHIP, TMA_MMA
from launches import complaint
from products import Case, Product

import weft
from weft.dialects.schedule.tma_mma import TmaMmaSchedule

sys.path.append(str(Path(__file__).parents[1] / "python"))
from test_tcgen05_kernels import EPILOGUES, LAYOUTS, SINGLE, TYPES, product

pytestmark = TMA_MMA

SCHEDULES = (
    TmaMmaSchedule((64, 64, 64), (2, 2), 3),
    TmaMmaSchedule((32, 128, 64), (1, 4), 3),
    TmaMmaSchedule((128, 64, 64), (4, 2), 3),
    TmaMmaSchedule((128, 128, 64), (4, 2), 3),
    TmaMmaSchedule((256, 128, 64), (4, 2), 3),
)
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
                if made.schedule is not None and made.schedule.complaint(made.types) is None:
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
