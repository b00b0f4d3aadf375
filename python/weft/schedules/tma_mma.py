"""Which schedule for `mma.sync` with TMA a product gets: the one of the least estimated time."""

from collections.abc import Iterator
from dataclasses import dataclass

from weft.dialects.schedule import TmaMmaSchedule, Types, ceil_div
from weft.dialects.schedule.tma_mma import STEP_BYTES
from weft.isa.chips import CHIPS
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
_FEWEST_STAGES = 3  # with fewer, a stage's copies aren't hidden behind the products of the others


@dataclass(frozen=True)
class _Speed:
    """Estimates for a chip: its multiprocessors, and cycles of one of them. None of this was measured by us:
    multiprocessors and products are published figures, the rest follows from the widths of the memories.
    """

    multiprocessors: int
    product: float = 1 / 32  # for each sum and step of 32 bytes of K: 512 cycles for 128 x 128 sums
    shared: float = 128  # bytes that warps load from shared memory
    fill: float = 24  # bytes that copies bring from the L2 cache
    k_block: float = 60  # for each K block, in addition to its products
    tile: float = 2500  # for each tile, in addition to its K blocks: its first copies and its epilogue


_SPEEDS = {120: _Speed(multiprocessors=170), 121: _Speed(multiprocessors=48)}
"""By a chip's number: a GeForce RTX 5090, and a GB10."""


def choose(m: int, n: int, k: int, types: Types, chip: str, members: int = 1) -> TmaMmaSchedule | None:
    """The schedule for `members` products of M x N x K; None where no schedule is legal."""
    return next(iter(ranked(m, n, k, types, chip, members)), None)


def ranked(m: int, n: int, k: int, types: Types, chip: str, members: int = 1) -> list[TmaMmaSchedule]:
    """The schedules that are worth trying, by their estimated time."""
    every = _candidates(types, chip)
    return sorted(every, key=lambda s: estimated(s, m, n, k, types, chip, members))


def estimated(s: TmaMmaSchedule, m: int, n: int, k: int, types: Types, chip: str, members: int = 1) -> float:
    """The cycles that `members` products of M x N x K are estimated to take."""
    speed = _SPEEDS[CHIPS[chip].number]
    (rows, columns, depth), (warp_rows, warp_columns) = s.block, s.warp_tile
    steps = depth * types.input_bytes // STEP_BYTES
    products = rows * columns * steps * speed.product
    loads = s.warps * (warp_rows + warp_columns) * STEP_BYTES * steps / speed.shared
    fill = s.stage_bytes(types) / speed.fill
    # Both use the same issue slots and do not hide each other wholly.
    block = max(products + loads / 4, loads, fill) + speed.k_block
    tiles = ceil_div(m, rows) * ceil_div(n, columns) * members
    return ceil_div(tiles, speed.multiprocessors) * (ceil_div(k, depth) * block + speed.tile)


def _candidates(types: Types, chip: str) -> Iterator[TmaMmaSchedule]:
    target = Target.of(chip)
    for m, n, consumers in _TILES:
        for row in _ROW_BYTES:
            depth = row // types.input_bytes
            most = TmaMmaSchedule((m, n, depth), consumers, 2).most_stages(types, target.chip.shared_bytes)
            s = TmaMmaSchedule((m, n, depth), consumers, min(most, _MOST_STAGES))
            if s.stages >= _FEWEST_STAGES and s.complaint(types, target) is None:
                yield s
