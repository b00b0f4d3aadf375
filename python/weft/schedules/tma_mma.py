"""Which schedule for `mma.sync` with TMA a product gets: the one of the least time. On an H200, it multiplies
what `wgmma` can't read, and times were measured; elsewhere they are predicted.
"""

from collections.abc import Iterator
from dataclasses import replace

from weft.dialects.product_types import Types, ceil_div
from weft.dialects.schedule import TmaMmaSchedule, WarpgroupSchedule
from weft.schedules.gpus import gpu_of
from weft.schedules.h200 import FITTED_GPUS, FittedGpu
from weft.schedules.predict import predict_schedule
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
_UNIT = 1024
"""Bytes along K of a measured time."""

_Timed = tuple[float, TmaMmaSchedule]


def choose(m: int, n: int, k: int, types: Types, chip: str, members: int = 1) -> TmaMmaSchedule | None:
    """The schedule for `members` products of M x N x K; None where no schedule is legal, or another kernel of
    `mma.sync` is faster.
    """
    us, best = next(iter(_timed(m, n, k, types, chip, members)), (0.0, None))
    if best is None or (gpu := FITTED_GPUS.get(chip)) is None:
        return best
    return best if us <= _without_tma_us(m, n, k, types, gpu, members) else None


def ranked(m: int, n: int, k: int, types: Types, chip: str, members: int = 1) -> list[TmaMmaSchedule]:
    """The schedules that are worth trying, by their time."""
    return [s for _, s in _timed(m, n, k, types, chip, members)]


def measured_us(m: int, n: int, k: int, types: Types, gpu: FittedGpu, members: int = 1) -> float | None:
    """The time of `members` products by `mma.sync`; None where `wgmma` reads the operands."""
    if _kind(types, gpu) is None:
        return None
    other = _without_tma_us(m, n, k, types, gpu, members)
    return min([other, *(us for us, _ in _measured(m, n, k, types, gpu, members))])


def _timed(m: int, n: int, k: int, types: Types, chip: str, members: int) -> list[_Timed]:
    """The legal schedules that are worth trying and their times, in the order of these. Where memory is the
    limit, smaller tiles hide more of their other time.
    """
    if (gpu := FITTED_GPUS.get(chip)) is not None:
        timed = list(_measured(m, n, k, types, gpu, members))
    else:
        model, sizes = gpu_of(chip), (m, n, k)
        every = list(_candidates(types, chip))
        predicted = (predict_schedule(s, *sizes, types, model, members=members) for s in every)
        timed = [(p.microseconds, s) for p, s in zip(predicted, every, strict=True)]
    return sorted(timed, key=lambda each: (each[0], each[1].block[0] * each[1].block[1]))


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


def _measured(m: int, n: int, k: int, types: Types, gpu: FittedGpu, members: int) -> Iterator[_Timed]:
    """The legal schedules whose times were measured."""
    kind = _kind(types, gpu)
    if kind is None or types.promoted or types.half_sums:
        return
    read_us = (m + n) * k * types.input_bytes * members / gpu.mma_read
    for tile in gpu.mma_tiles[kind]:
        s = TmaMmaSchedule((tile.rows, tile.columns, 128 // types.input_bytes), tile.consumers, tile.stages)
        if (us := tile.us[_layout(types)]) is None or s.complaint(types, Target.of(gpu.chip)) is not None:
            continue
        tiles = ceil_div(m, tile.rows) * ceil_div(n, tile.columns) * members
        yield max(_us(us, tiles, k, types, gpu), gpu.mma_launch_us + read_us), s


def _without_tma_us(m: int, n: int, k: int, types: Types, gpu: FittedGpu, members: int) -> float:
    """The time of `members` products by `mma.sync` without TMA."""
    tiles = ceil_div(m, 128) * ceil_div(n, 128) * members
    return _us(gpu.mma_us[_kind(types, gpu) or ""][_layout(types)], tiles, k, types, gpu)


def _us(us: float, tiles: int, k: int, types: Types, gpu: FittedGpu) -> float:
    """The time of some tiles, of which each takes `us` for 1024 bytes along K."""
    waves = ceil_div(tiles, gpu.multiprocessors)
    return gpu.mma_launch_us + waves * us * k * types.input_bytes / _UNIT


def _kind(types: Types, gpu: FittedGpu) -> str | None:
    """The key of measured times for some types; None for those that `wgmma` reads, or doesn't multiply."""
    if gpu.chip not in WarpgroupSchedule.chips(types) or WarpgroupSchedule.layout_complaint(types) is None:
        return None
    return types.sums if types.sums == "i32" else types.a if types.a == "f32" else "fp8"


def _layout(types: Types) -> int:
    """Which of three times is for the operands of some types."""
    mn_major_a, mn_major_b = types.transposed
    return 2 if mn_major_a and mn_major_b else int(mn_major_b)
