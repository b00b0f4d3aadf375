"""Accumulators that share columns of tensor memory, in the emulator with its sanitizer: every CTA computes
several tiles, so that the products of one overlap with the epilogue of another.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle

import pytest
from test_tcgen05_block_scales import PAIRS, RESULTS, Case, of

from weft.passes.kernels.tensor_epilogue import Epilogue

ALONE, PAIR = of(128, 256), of(256, 256, cta_group=2)
NVFP4, MXFP8 = PAIRS[:2]
SCHEDULES = (
    ALONE,
    PAIR,
    of(128, 256, epilogues=2),
    of(256, 256, cta_group=2, epilogues=2),
    of(128, 256, swap=True),
    of(128, 256, global_splits=2),
    of(128, 256, cluster=(2, 1)),
    of(256, 256, cta_group=2, cluster=(1, 2)),
    of(128, 256, dynamic=True),
    of(256, 256, cta_group=2, dynamic=True),
)


def few(case: Case) -> dict[str, object]:
    """Options with which as few CTAs as possible compute all tiles."""
    schedule = case.schedule
    return {} if schedule.dynamic else {"grid": (schedule.ctas * schedule.global_splits, 1, 1)}


def cases() -> Iterator[tuple[Case, int | None]]:
    """Every schedule with formats, types of D and seeds in turn; tiles are ragged along M, N and K."""
    results, seeds = cycle(RESULTS), cycle((None, 1, 2))
    for schedule in SCHEDULES:
        height = schedule.block[0]
        for formats, k in ((NVFP4, 288), (MXFP8, 160), (NVFP4, 544), (MXFP8, 416)):
            n, m = (2 * height + 16, 208) if schedule.swap else (208, 2 * height + 5)
            yield Case(formats, next(results), schedule, (m, n, k)), next(seeds)
        shape = (height - 3, 528, 128) if not schedule.swap else (515, height, 128)
        yield Case(MXFP8, next(results), schedule, shape), next(seeds)


THREE_TILES = Case(MXFP8, "bf16", ALONE, (260, 208, 128))
OF_A_PAIR = Case(NVFP4, "f32", PAIR, (260, 208, 128))


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("case", "seed"),
    [(THREE_TILES, 1), (OF_A_PAIR, 2), *(pytest.param(*each, marks=pytest.mark.slow) for each in cases())],
    ids=str,
)
def test_products(case: Case, seed: int | None) -> None:
    assert case.complaint(seed=seed, **few(case)) is None


TWO_TILES = replace(THREE_TILES, shape=(130, 208, 128))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "seed"),
    [(TWO_TILES, None), *(pytest.param(OF_A_PAIR, seed, marks=pytest.mark.slow) for seed in range(3))],
    ids=str,
)
@pytest.mark.usefixtures("fresh_kernels")
def test_an_early_release_is_found(case: Case, seed: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Epilogue, "_in_order", lambda self, number, slot: number)
    assert "tmem-race" in (case.complaint(seed=seed, **few(case)) or "")
