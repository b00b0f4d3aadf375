"""Which schedule for `mma.sync` with TMA a product gets: the one of the least estimated time."""

from collections.abc import Iterator
from dataclasses import replace

from weft.dialects.product_types import Types
from weft.dialects.schedule import TmaMmaSchedule
from weft.schedules.predict import predict_schedule
from weft.schedules.predict_gpus import gpu_of
from weft.target import Target

#  M    N    warps along M and N
_TILES = (
    (128, 128, (4, 2)),
    (256, 128, (4, 2)),
    (128, 256, (2, 4)),
    (128, 64, (4, 2)),
    (64, 128, (2, 4)),
    (64, 64, (4, 2)),
    (64, 256, (2, 4)),
    (32, 128, (2, 4)),
    (32, 64, (2, 4)),
    (16, 128, (1, 8)),
    (16, 64, (1, 4)),
)
_ROW_BYTES = (128, 64)
"""Bytes of a row of a stage, the preferred first."""
_MOST_STAGES = 8
_FEWEST_STAGES = 3  # except with scales, whose tiles leave no room for more than two


def choose(m: int, n: int, k: int, types: Types, chip: str, members: int = 1) -> TmaMmaSchedule | None:
    """The schedule for `members` products of M x N x K; None where no schedule is legal."""
    return next(iter(ranked(m, n, k, types, chip, members)), None)


def ranked(m: int, n: int, k: int, types: Types, chip: str, members: int = 1) -> list[TmaMmaSchedule]:
    """The schedules that are worth trying, by their estimated time."""
    gpu = gpu_of(chip)
    timed = [
        (predict_schedule(s, m, n, k, types, gpu, members=members).microseconds, s)
        for s in _candidates(types, chip)
    ]
    # Where memory is the limit, smaller tiles hide more of their other time.
    return [s for _, s in sorted(timed, key=lambda each: (each[0], each[1].block[0] * each[1].block[1]))]


def _candidates(types: Types, chip: str) -> Iterator[TmaMmaSchedule]:
    target = Target.of(chip)
    for m, n, consumers in _TILES:
        for row in _ROW_BYTES:
            depth = row * 8 // types.input_bits
            most = TmaMmaSchedule((m, n, depth), consumers, 2).most_stages(types, target.chip.shared_bytes)
            s = TmaMmaSchedule((m, n, depth), consumers, min(most, _MOST_STAGES))
            for each in (replace(s, unit_scales=True), s):
                fewest = 2 if each.scaling(types) else _FEWEST_STAGES
                if each.stages >= fewest and each.complaint(types, target) is None:
                    yield each
