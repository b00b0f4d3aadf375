"""Which schedule for `tcgen05` a product gets: the one that is predicted to be the fastest."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import islice, product, takewhile

from weft.dialects.product_types import PROMOTED, Types, ceil_div
from weft.dialects.schedule import TensorMemorySchedule
from weft.dialects.schedule.tcgen05 import CTA_ROWS
from weft.dialects.schedule.tcgen05_scales import LEAST_ROWS, column_unit
from weft.isa.wgmma.descriptors import WIDEST
from weft.schedules.gpu import Gpu
from weft.schedules.gpus import gpu_of, has_model
from weft.schedules.predict import predict_schedule
from weft.target import Target

_ROW_BITS = 8 * WIDEST.width  # of a row of an operand in one stage: as wide as the widest swizzle
_COLUMNS = (8, *range(16, 257, 16))
_CLUSTERS = ((2, 1), (1, 2), (2, 2))
_SPLITS = (2, 3, 4, 6, 8, 12, 16)
_FEWER = 2  # numbers of K slices that are tried for a tile
_GROUPS = (4, 8, 16)
_MOST_STAGES = 12
_SWAPPED_ROWS = 256  # products of more rows gain nothing from swapped operands
_EXPANDED = 16  # schedules of the least time, which clusters are tried for
_NEAR = 1.01  # within this factor of the least time, the model can't tell schedules apart


def choose(
    m: int, n: int, k: int, types: Types, chip: str, *, members: int = 1
) -> TensorMemorySchedule | None:
    """The schedule of the least predicted time for `members` products of M x N x K; None if none is legal, or
    the chip has no model of its time.
    """
    if not has_model(chip):
        return None
    target, timed = Target.of(chip), _timed(m, n, k, types, gpu_of(chip), members)
    first = next((at for at, (_, s) in enumerate(timed) if s.complaint(types, target) is None), None)
    if first is None:
        return None
    # Of hundreds that may be near, few have to be checked: those that are preferred to the chosen one.
    near = list(takewhile(lambda each: each[0] <= timed[first][0] * _NEAR, islice(timed, first, None)))
    near.sort(key=lambda each: _preferred(*each), reverse=True)
    return next(s for _, s in near if s.complaint(types, target) is None)


def ranked(m: int, n: int, k: int, types: Types, chip: str) -> list[TensorMemorySchedule]:
    """The legal candidates by their predicted time, each in both orders of tiles."""
    target = Target.of(chip)
    orders = (
        replace(s, dynamic=d) for _, s in _timed(m, n, k, types, gpu_of(chip), 1) for d in (False, True)
    )
    return [s for s in orders if s.complaint(types, target) is None]


def _preferred(time: float, s: TensorMemorySchedule) -> tuple[float, ...]:
    """Of those that the model can't tell apart: fewest CTAs for a tile or cluster, then the largest tile."""
    clustered = s.cluster[0] * s.cluster[1] * s.global_splits
    return -clustered, s.accumulators, s.block[0] * s.block[1], -s.epilogues, -time


@lru_cache(maxsize=32)  # a chip's variants have one GPU; the product types of the matrix fit
def _timed(
    m: int, n: int, k: int, types: Types, gpu: Gpu, members: int
) -> list[tuple[float, TensorMemorySchedule]]:
    """Candidates and their predicted times, in the order of these. Not all are legal."""

    def time(s: TensorMemorySchedule) -> float:
        return predict_schedule(s, m, n, k, types, gpu, members=members).microseconds

    def by_time(each: tuple[float, TensorMemorySchedule]) -> float:
        return each[0]

    whole = list(_tiles(m, n, types, gpu))
    tiles = [(time(s), s) for s in (*whole, *(each for s in whole for each in _split(s, m, n, k, gpu)))]
    tiles.sort(key=by_time)
    clustered = [(time(s), s) for _, tile in tiles[:_EXPANDED] for s in _clustered(tile, m, n)]
    return sorted(tiles + clustered, key=by_time)


def _tiles(m: int, n: int, types: Types, gpu: Gpu) -> Iterator[TensorMemorySchedule]:
    """A schedule for each tile that is worth trying, with as many stages and accumulators as fit."""
    lowest, narrowest = LEAST_ROWS if types.scale else CTA_ROWS[0], max(column_unit(types), 16)
    groups: dict[tuple[int, int, int, bool], int] = {}
    for tile in _all_tiles(types, gpu.facts.shared_bytes):
        (height, columns, _), (down, across) = tile.block, tile.swapped(m, n)
        if tile.swap and m > _SWAPPED_ROWS:
            continue
        if height >= 2 * max(down, lowest) or columns >= 2 * max(across, narrowest):
            continue
        shape = height, columns, tile.cta_group, tile.swap
        if shape not in groups:
            groups[shape] = _group(tile, down, across, gpu)
        yield replace(tile, group=groups[shape])


@lru_cache(maxsize=32)
def _all_tiles(types: Types, room: int) -> list[TensorMemorySchedule]:
    """A schedule for each tile, with as many stages and accumulators as fit in the room of shared memory."""
    depth = PROMOTED if types.promoted else _ROW_BITS // types.input_bits
    widths = [columns for columns in _COLUMNS if columns % column_unit(types) == 0]
    fields = product((1, 2), CTA_ROWS, widths, (False, True), (1, 2), (1, 2))
    tiles = []
    for cta_group, rows, columns, swap, epilogues, accumulators in fields:
        tile = TensorMemorySchedule(
            (rows * cta_group, columns, depth),
            *(accumulators, 2),
            cta_group=cta_group,
            swap=swap,
            epilogues=epilogues,
        )
        if (stages := min(tile.most_stages(types, room), _MOST_STAGES)) >= 2:
            tiles.append(replace(tile, stages=stages))
    return tiles


def _split(s: TensorMemorySchedule, m: int, n: int, k: int, gpu: Gpu) -> Iterator[TensorMemorySchedule]:
    """The schedule with K slices, as many as leave no multiprocessor without a tile, and fewer."""
    down, across = s.swapped(m, n)
    ctas = ceil_div(down, s.block[0]) * ceil_div(across, s.block[1]) * s.cta_group
    most = min(gpu.multiprocessors // ctas, ceil_div(k, s.block[2]) // 2)
    for splits in [splits for splits in _SPLITS if splits <= most][-_FEWER:]:
        yield replace(s, global_splits=splits)


def _clustered(s: TensorMemorySchedule, m: int, n: int) -> Iterator[TensorMemorySchedule]:
    """The schedule in each cluster that a product has tiles for."""
    down, across = s.swapped(m, n)
    for cluster in _CLUSTERS:
        if cluster[0] * s.block[0] < 2 * down and cluster[1] * s.block[1] < 2 * across:
            yield replace(s, cluster=cluster)


def _group(s: TensorMemorySchedule, down: int, across: int, gpu: Gpu) -> int:
    """The rows of tiles in a group: as many as let the tiles that are computed at a time read the least."""
    height, width = s.block[:2]
    at_a_time, below = max(gpu.multiprocessors // s.cta_group, 1), ceil_div(down, height)

    def read(group: int) -> int:
        rows = min(group, below)
        return rows * height + min(ceil_div(at_a_time, rows) * width, across)

    return min(_GROUPS, key=read)
