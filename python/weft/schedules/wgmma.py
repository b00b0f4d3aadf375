"""Which schedule for `wgmma` a product gets: the one that `wgmma_cycles` predicts to be the fastest."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import product

import numpy as np

from weft.dialects.product_types import PROMOTED, Types, ceil_div
from weft.dialects.schedule import STAGING_PARTS, WarpgroupSchedule
from weft.errors import WeftError
from weft.isa import wgmma
from weft.isa.chips import LINE_BYTES
from weft.isa.tensor_map import JOINED_ROWS, ROW_BYTES
from weft.schedules import wgmma_cycles, wgmma_kernels
from weft.schedules.h200 import FittedGpu
from weft.schedules.wgmma_kernels import Array, Kernels
from weft.target import Target

_MOST_STAGES = 12
_BLOCK_ROWS = ((1, 64), (2, 128), (2, 256), (3, 192))
_BLOCK_COLUMNS = range(8, 257, 8)
# Tiles that warpgroups compute in turns, with rows and columns.
_TURNS = (
    *((64, columns) for columns in range(128, 257, 32)),
    *((128, columns) for columns in range(96, 193, 16)),
)
_LEAST_TURNS = 3  # tiles of a CTA
_PARTS_IN_TURNS = (1, 2, 4)  # of D; the others leave room for a stage more, but gain nothing
_LONGEST = 4  # CTAs of a cluster in a line, whose warpgroups take turns: with 8, small products are slower
_CLUSTERS = ((1, 1), (2, 1), (1, 2), (4, 1), (1, 4), (2, 2))
_LARGE_CLUSTERS = ((4, 2), (2, 4), (8, 1), (1, 8))  # without global splits
_SPLITS = (2, 4, 8)
_GLOBAL_SPLITS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
_MOST_SUMS = 128 * 128  # of a warpgroup, up to which two stages beside a tile of D may be enough
_SCALED_COLUMNS = 64  # of swapped tiles; with the sums, more scales don't fit in registers
GROUPS = (1, 4, 8, 16)
_ENOUGH_STAGES = 4  # from which on more gain less than a tile of D loses that is staged in parts
_FEWEST_PARTED = 3  # stages beside a tile of D that is staged in parts: two are slower than a smaller tile
_FEWEST_STAGES = 4  # that leave room for a CTA of the next launch
_MORE_READ = 1.1  # from L2, for half the reads from memory of columns

_NEAR = 1.01  # within this factor of the least time, the model can't tell schedules apart
_FEW_ROWS = 16  # products of so few rows take about as long as their B is read,
_NEAR_READ = 1.02  # and the model tells fewer of their schedules apart


def choose(
    m: int, n: int, k: int, types: Types, gpu: FittedGpu, *, members: int = 1, known_k: bool = True
) -> WarpgroupSchedule:
    """The schedule of the least modeled time for `members` products of M x N x K; one for any K where that
    isn't known.

    Raises WeftError where none is legal.
    """
    few = m <= _FEW_ROWS
    near: list[tuple[float, WarpgroupSchedule]] = []
    for cycles, s in by_time(m, n, k, types, gpu, members, known_k=known_k):
        if near and cycles > near[0][0] * (_NEAR_READ if few else _NEAR):
            break
        near.append((cycles, s))
    if not near:
        layout = "" if not any(types.transposed) else ", with an operand that isn't K-major"
        raise WeftError(f"no schedule of wgmma multiplies {types.a} and {types.b} on {gpu.chip}{layout}")

    brief = near[0][0] < gpu.brief and types.input_bytes == 2  # as measured
    fits = Kernels.of([s for _, s in near], types, gpu).two_fit if brief else ()
    roomy = {s for (_, s), two in zip(near, fits, strict=brief) if two}

    def preferred(cycles: float, s: WarpgroupSchedule) -> tuple[float, ...]:
        """Of those that the model can't tell apart: fewest K slices, then, if the product is brief, room for
        a CTA of the next launch, then most stages. For few rows, B is read fastest while such a CTA fits
        beside this one's, in few long pieces.
        """
        if few:
            beside = s.shared_bytes(types) <= wgmma_kernels.room_of_two(gpu.facts)
            rows, _, depth = s.block
            mn_major, _ = s.swapped(*types.transposed)
            piece, pieces = (rows, depth) if mn_major else (depth, rows)
            return -s.ctas * s.global_splits, beside, piece, -pieces, -cycles
        return -s.splits * s.global_splits, s in roomy, s.stages, -cycles

    return max(near, key=lambda each: preferred(*each))[1]


def ranked(
    m: int, n: int, k: int, types: Types, gpu: FittedGpu, *, members: int = 1, known_k: bool = True
) -> Iterator[WarpgroupSchedule]:
    """The candidates by their modeled time."""
    return (s for _, s in by_time(m, n, k, types, gpu, members, known_k=known_k))


def modeled(
    schedules: tuple[WarpgroupSchedule, ...],
    m: int,
    n: int,
    k: int,
    types: Types,
    gpu: FittedGpu,
    *,
    members: int = 1,
) -> list[float]:
    """The cycles that a batch of products takes with each schedule."""
    kernels = _kernels_of(schedules, types, gpu)
    return [float(each) for each in wgmma_cycles.cycles(kernels, m, n, k, members)]


def microseconds(m: int, n: int, k: int, types: Types, gpu: FittedGpu, *, members: int = 1) -> float:
    """The time of `members` products with the chosen schedule. Raises WeftError where none is legal."""
    chosen = choose(m, n, k, types, gpu, members=members)
    return modeled((chosen,), m, n, k, types, gpu, members=members)[0] / gpu.clock_mhz


@lru_cache(maxsize=32)
def _kernels_of(schedules: tuple[WarpgroupSchedule, ...], types: Types, gpu: FittedGpu) -> Kernels:
    return Kernels.of(schedules, types, gpu)


def by_time(
    m: int, n: int, k: int, types: Types, gpu: FittedGpu, members: int = 1, *, known_k: bool = True
) -> Iterator[tuple[float, WarpgroupSchedule]]:
    """The candidates and their cycles, the fastest first. Only those that are asked for are checked."""
    every = _all_kernels(types, gpu)
    worthwhile = np.flatnonzero(_worthwhile(every, m, n, k, known_k=known_k))
    if not len(worthwhile):
        return
    cycles = wgmma_cycles.cycles(every[worthwhile], m, n, k, members)
    for position in np.argsort(cycles, kind="stable"):
        if (s := _legal(every, worthwhile[position], m, n, k)) is not None:
            yield float(cycles[position]), s


def _legal(every: Kernels, index: Array, m: int, n: int, k: int) -> WarpgroupSchedule | None:
    """The schedule of a kernel for a product, or None if it isn't legal."""
    s = replace(
        every.tiles[every.tile[index]],
        stages=int(every.stages[index]),
        splits=int(every.splits[index]),
        cluster=(int(every.height[index]), int(every.width[index])),
        global_splits=int(every.global_splits[index]),
    )
    down, across = s.swapped(m, n)
    s = replace(s, group=_group(s, down, across, k * every.types.input_bytes, every.gpu))
    return s if s.complaint(every.types, Target.of(every.gpu.chip)) is None else None


@lru_cache(maxsize=32)
def _all_kernels(types: Types, gpu: FittedGpu) -> Kernels:
    """All kernels for some types that a product may choose among, some of which aren't legal."""
    tiles = list(_tiles(types, gpu))
    divisions = [
        *((splits, (1, 1), 1) for splits in _SPLITS),
        *((1, cluster, 1) for cluster in _LARGE_CLUSTERS),
        *((1, cluster, slices) for cluster in _CLUSTERS for slices in _GLOBAL_SPLITS),
    ]
    every = np.array([(splits, slices, *cluster) for splits, cluster, slices in divisions])
    added = every[:, 0] * every[:, 1] > 1

    @cache
    def legal(columns: int, together: bool) -> Array:
        return every[(added == together) & (columns % (8 * every[:, 0]) == 0)]

    both = [replace(tile, splits=1 + together) for tile in tiles for together in (False, True)]
    rows = [
        ((number // 2, stages), legal(s.block[1], s.splits > 1))
        for (number, s), every_stages in zip(enumerate(both), _stages(both, types, gpu), strict=True)
        for stages in every_stages
    ]
    lengths = np.array([len(rest) for _, rest in rows], int)
    tile, stages = np.repeat(np.array([first for first, _ in rows], int).reshape(-1, 2), lengths, axis=0).T
    splits, slices, height, width = np.concatenate([every[:0], *(rest for _, rest in rows)]).T
    return Kernels(types, gpu, tiles, tile, stages, splits, slices, height, width)


def _tiles(types: Types, gpu: FittedGpu) -> Iterator[WarpgroupSchedule]:
    """The tiles that a CTA may compute."""
    target = Target.of(gpu.chip)
    rows_of_128 = 128 // types.input_bytes
    depths = (PROMOTED,) if types.promoted else (rows_of_128, 2 * rows_of_128)
    swaps = (False, True)
    for (warpgroups, rows), columns, depth, swap in product(_BLOCK_ROWS, _BLOCK_COLUMNS, depths, swaps):
        if swap and types.scaled and columns > _SCALED_COLUMNS:
            continue
        joins = (False, True) if swap and columns * types.input_bits == 8 * ROW_BYTES else (False,)
        for joined in joins:
            s = WarpgroupSchedule((rows, columns, depth), warpgroups, 2, swap=swap, joined=joined)
            if s.complaint(types, target) is None:
                yield s
    yield from _tiles_in_turns(types, target)


def _tiles_in_turns(types: Types, target: Target) -> Iterator[WarpgroupSchedule]:
    """Those that warpgroups may compute in turns, of types that were measured."""
    staged, direct = types.output_bytes == 2 and types.input_bytes <= 2, types.output_bytes == 4
    for (rows, columns), swap in product(_TURNS, (False, True)):
        s = WarpgroupSchedule((rows, columns, 128 // types.input_bytes), 2, 2, swap=swap, alternating=True)
        # From registers, a warpgroup writes 64 columns of D at a time the fastest.
        able = staged or (direct and swap and rows == wgmma.M)
        if able and s.complaint(types, target) is None:
            yield s


def _stages(schedules: Sequence[WarpgroupSchedule], types: Types, gpu: FittedGpu) -> Iterator[list[int]]:
    """For each schedule, the most stages that fit with a tile of D staged in any parts, and with a whole one,
    and the most that leave room for a CTA of the next launch.
    """
    alone = [_stages_alone(s, types, gpu) for s in schedules]
    beside = [replace(s, stages=half) for s, (_, half) in zip(schedules, alone, strict=True) if half]
    two_fit = iter(Kernels.of(beside, types, gpu).two_fit if beside else ())
    return (stages + [half] * bool(half and next(two_fit)) for stages, half in alone)


def _stages_alone(s: WarpgroupSchedule, types: Types, gpu: FittedGpu) -> tuple[list[int], int]:
    """The numbers of stages of a CTA, and one with which two CTAs may fit, or 0."""
    facts = gpu.facts
    if s.alternating:
        return _stages_in_turns(s, types, facts.shared_bytes), 0
    fitting = s.fitting(types)
    most = min(fitting(facts.shared_bytes, 1, 0), _MOST_STAGES)
    half = fitting(wgmma_kernels.room_of_two(facts), 1, 0)
    more = _more_stages(s, types, gpu, most)
    if s.rows * s.block[1] > _MOST_SUMS:
        whole = types.input_bytes == 2 and s.staged(types) and most >= _FEWEST_PARTED
        return ([*more, most] if whole else more), 0
    if most < 2:
        return more, 0
    fewest = _FEWEST_STAGES - (s.block[1] <= _FEW_ROWS)  # which wait for little but B
    return [*more, most], half if fewest <= half < most else 0


def _stages_in_turns(s: WarpgroupSchedule, types: Types, shared_bytes: int) -> list[int]:
    """The most stages that fit beside each warpgroup's tile of D in any parts that are whole lines."""
    if s.splits > 1:
        return []
    fitting = s.fitting(types)
    stages = {fitting(shared_bytes, parts, 0): parts for parts in reversed(_PARTS_IN_TURNS)}
    return [
        min(count, _MOST_STAGES)
        for count, parts in sorted(stages.items())
        if count >= _FEWEST_PARTED and (s.swap or s.block[1] // parts * types.output_bytes % LINE_BYTES == 0)
    ]


def _more_stages(s: WarpgroupSchedule, types: Types, gpu: FittedGpu, most: int) -> list[int]:
    """More stages than the `most` beside a whole tile of D, where that is staged in parts. Only measured for
    elements of 16 bits.
    """
    if most >= _ENOUGH_STAGES or types.input_bytes != 2 or not s.staged(types):
        return []
    room, fitting = gpu.facts.shared_bytes, s.fitting(types)
    stages = {fitting(room, parts, 0) for parts in STAGING_PARTS}
    if (staging := s.staging(types)).strip:
        stages |= {fitting(room, 1, slots) for slots in range(1, staging.strips)}
    return sorted(count for count in stages if count > most and count >= _FEWEST_PARTED)


def _worthwhile(kernels: Kernels, m: int, n: int, k: int, *, known_k: bool = True) -> Array:
    """Which kernels suit the sizes of a product."""
    if not len(kernels):
        return np.zeros(0, bool)
    down, across = kernels.swapped(m, n)
    tiles = ceil_div(down, kernels.rows), ceil_div(across, kernels.columns)
    blocks = ceil_div(k, kernels.depth)
    slices = kernels.splits * kernels.global_splits
    ctas = wgmma_cycles.Case(kernels, m, n, k).ctas
    joins = (m <= JOINED_ROWS) & (k % JOINED_ROWS == 0) if known_k else False
    aligned = n * kernels.types.output_bytes % ROW_BYTES == 0
    short = k <= kernels.gpu.turns_depth
    if kernels.types.output_bytes == 4:
        short = k * kernels.types.input_bytes <= kernels.gpu.turns_bytes
    turns = (ctas > (_LEAST_TURNS - 1) * kernels.resident) & known_k & short & aligned
    turns = turns & (np.maximum(kernels.height, kernels.width) <= _LONGEST)
    return (
        (kernels.rows < 2 * np.maximum(down, 64))
        & (kernels.columns < 2 * np.maximum(across, 16))
        & (kernels.height <= tiles[0])
        & (kernels.width <= tiles[1])
        & ((slices == 1) | (blocks >= 2 * slices))
        & (~kernels.joined | joins)
        & ((kernels.turns == 0) | turns)
        # More slices than run at a time only add sums.
        & ((kernels.global_splits == 1) | (ctas <= kernels.resident))
    )


def _group(s: WarpgroupSchedule, down: int, across: int, row: int, gpu: FittedGpu) -> int:
    """The rows of tiles in a group, with `row` bytes in a row of A: as many as let the tiles that are
    computed at a time read the least. Each group reads all columns: where these don't fit in L2, larger
    groups read them from memory less often, and a GPU at its limit of power runs faster.
    """
    height, width = s.block[0] * s.cluster[0], s.block[1] * s.cluster[1]
    at_a_time = gpu.resident[s.ctas] // (s.ctas * s.global_splits)
    single, short, usual, many = GROUPS
    if row <= gpu.written_row and at_a_time // short * width >= across:
        return short  # more is written than read: then D is best written in whole rows
    below, beside = ceil_div(down, height), ceil_div(across, width)
    if beside == 1 or (below * beside <= at_a_time and (down + across) * row <= gpu.far_bytes):
        return usual  # the order is the same, or L2 has all

    def read(group: int) -> int:
        rows = min(group, below)
        return rows * height + min(ceil_div(at_a_time, rows) * width, across)

    allowed = _MORE_READ if across * row > gpu.far_bytes and below > usual else 1.0
    rows = many if read(many) < read(usual) * allowed else usual
    return single if row > gpu.short_row and read(single) * _MORE_READ < read(rows) else rows
