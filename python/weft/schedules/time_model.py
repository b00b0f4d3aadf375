"""A model of the time of `wgmma` kernels, and the schedule that it predicts to be the fastest for a product.

Times are cycles of a multiprocessor; `chip_models` has the model's numbers for each chip.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import gcd, hypot, sqrt

from weft.dialects.schedule import OTHER_REGISTERS, PROMOTED, Types, WarpgroupSchedule, ceil_div
from weft.errors import WeftError
from weft.isa import wgmma
from weft.isa.chips import WARPGROUP, Chip, register_share
from weft.schedules.chip_models import ChipModel
from weft.target import Target

_MOST_STAGES = 12
_BLOCK_ROWS = ((1, 64), (2, 128), (2, 256), (3, 192))
_BLOCK_COLUMNS = (*range(8, 64, 8), *range(64, 257, 16))
_CLUSTERS = (
    *((splits, (1, 1)) for splits in (1, 2, 4, 8)),
    *((1, cluster) for cluster in ((2, 1), (1, 2), (4, 1), (1, 4), (2, 2))),
)
_GLOBAL_SPLITS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
_MOST_SUMS = 128 * 128  # of a warpgroup; with more, too few stages fit
_SWAPPED_ROWS = 256  # products of more rows gain nothing from swapped operands
_SCALED_COLUMNS = 64  # of swapped tiles; with the sums, more scales don't fit in registers
GROUPS = (4, 8, 16)
_FEWEST_STAGES = 4  # that leave room for a CTA of the next launch
_SHORT = 1024  # bytes of a row of A, up to which a product writes more than it reads
_READERS = 16  # tiles that are computed at a time and read the same data

_NEAR = 1.01  # within this factor of the least time, the model can't tell schedules apart


def choose(m: int, n: int, k: int, types: Types, chip: ChipModel, *, members: int = 1) -> WarpgroupSchedule:
    """The schedule of the least modelled time for `members` products of M x N x K.

    Raises WeftError where none is legal.
    """
    timed = [
        (modelled(s, m, n, k, types, chip, members=members), s) for s in candidates(m, n, k, types, chip)
    ]
    if not timed:
        layout = "" if not any(types.transposed) else ", with an operand that isn't K-major"
        raise WeftError(f"no schedule of wgmma multiplies {types.a} and {types.b} on {chip.chip}{layout}")
    least = min(cycles for cycles, _ in timed)

    def preferred(cycles: float, s: WarpgroupSchedule) -> tuple[float, ...]:
        """Of those that the model can't tell apart: fewest CTAs for a tile, then the largest tile."""
        down, across = s.swapped(m, n)
        rows, columns = min(s.block[0], down), min(s.block[1], across)
        return -s.ctas * s.global_splits, rows * columns, -s.block[2], -s.warpgroups, -cycles

    return max((each for each in timed if each[0] <= least * _NEAR), key=lambda each: preferred(*each))[1]


def ranked(m: int, n: int, k: int, types: Types, chip: ChipModel) -> list[WarpgroupSchedule]:
    """The candidates by their modelled time."""
    every = candidates(m, n, k, types, chip)
    return sorted(every, key=lambda s: modelled(s, m, n, k, types, chip))


def candidates(m: int, n: int, k: int, types: Types, chip: ChipModel) -> Iterator[WarpgroupSchedule]:
    """The schedules that are worth trying."""
    target = Target.of(chip.chip)
    rows_of_128 = 128 // types.input_bytes
    depths = (PROMOTED,) if types.promoted else (rows_of_128, 2 * rows_of_128)
    swaps = (False, True) if m <= _SWAPPED_ROWS else (False,)
    for (warpgroups, rows), columns, depth, swap in product(_BLOCK_ROWS, _BLOCK_COLUMNS, depths, swaps):
        down, across = (n, m) if swap else (m, n)
        if rows >= 2 * max(down, 64) or columns >= 2 * max(across, 16):
            continue
        if swap and types.scaled and columns > _SCALED_COLUMNS:
            continue
        whole = WarpgroupSchedule((rows, columns, depth), warpgroups, 2, swap=swap)
        if warpgroups == 1 and not types.promoted and not whole.overlaps:
            continue  # slower than those that do
        if whole.rows * columns > _MOST_SUMS or whole.complaint(types, target) is not None:
            continue
        for splits, cluster, slices in _divisions(whole, down, across, k, chip):
            divided = replace(whole, splits=splits, cluster=cluster, global_splits=slices)
            divided = replace(divided, group=_group(divided, down, across, k * types.input_bytes, chip))
            for stages in _stages(divided, types, chip.facts):
                if (staged := replace(divided, stages=stages)).complaint(types, target) is None:
                    yield staged


def _stages(s: WarpgroupSchedule, types: Types, chip: Chip) -> list[int]:
    """The most stages that fit, and the most that leave room for a CTA of the next launch."""
    most = min(s.most_stages(types, chip.shared_bytes), _MOST_STAGES)
    half = s.most_stages(types, _room_of_two(chip))
    fits = _FEWEST_STAGES <= half < most and _two_fit(replace(s, stages=half), types, chip)
    return [most, half] if fits else [most]


def _room_of_two(chip: Chip) -> int:
    """The most shared memory of a CTA of which a multiprocessor holds two; it reserves some for each."""
    return chip.sm_shared_bytes // 2 - (chip.sm_shared_bytes - chip.shared_bytes)


def _two_fit(s: WarpgroupSchedule, types: Types, chip: Chip) -> bool:
    """Whether a multiprocessor holds two such CTAs: their shared memory, and their registers."""
    registers = (s.rows + s.products(types) * wgmma.M) * s.block[1] // WARPGROUP + OTHER_REGISTERS
    return registers <= register_share(2 * s.threads) and s.shared_bytes(types) <= _room_of_two(chip)


def _divisions(
    whole: WarpgroupSchedule, down: int, across: int, k: int, chip: ChipModel
) -> Iterator[tuple[int, tuple[int, int], int]]:
    """The splits, clusters and global splits that such tiles of a product may be divided among."""
    rows, columns, depth = whole.block
    tiles, blocks = (ceil_div(down, rows), ceil_div(across, columns)), ceil_div(k, depth)
    for splits, cluster in _CLUSTERS:
        if cluster[0] > tiles[0] or cluster[1] > tiles[1] or (splits > 1 and blocks < 2 * splits):
            continue
        sharing = cluster[0] * cluster[1]
        ctas = splits * sharing * ceil_div(tiles[0], cluster[0]) * ceil_div(tiles[1], cluster[1])
        for slices in _GLOBAL_SPLITS if splits == 1 else (1,):
            # More slices than run at a time only add sums.
            if slices == 1 or (blocks >= 2 * slices and ctas * slices <= chip.resident[sharing]):
                yield splits, cluster, slices


def _group(s: WarpgroupSchedule, down: int, across: int, row: int, chip: ChipModel) -> int:
    """The rows of tiles in a group, with `row` bytes in a row of A: as many as let the tiles that are
    computed at a time read the least.
    """
    height, width = s.block[0] * s.cluster[0], s.block[1] * s.cluster[1]
    at_a_time = chip.resident[s.ctas] // (s.ctas * s.global_splits)
    if row <= _SHORT and at_a_time // GROUPS[0] * width >= across:
        return GROUPS[0]  # more is written than read: then D is best written in whole rows
    below = ceil_div(down, height)

    def read(group: int) -> int:
        rows = min(group, below)
        return rows * height + min(ceil_div(at_a_time, rows) * width, across)

    return min(GROUPS[1:], key=read)


def modelled(
    s: WarpgroupSchedule, m: int, n: int, k: int, types: Types, chip: ChipModel, *, members: int = 1
) -> float:
    """The cycles that a batch of products takes."""
    rows, columns, depth = s.block
    down, across = s.swapped(m, n)
    ctas = ceil_div(down, rows * s.cluster[0]) * ceil_div(across, columns * s.cluster[1])
    ctas *= s.splits * s.global_splits * s.cluster[0] * s.cluster[1] * members
    products, fill = product_cycles(s, types, chip), fill_cycles(s, down, across, types, chip)
    # A warpgroup that leaves products in flight releases a stage one block late.
    stages = s.stages - int(s.overlaps and not types.promoted)
    block = max(products, fill, (chip.copy_latency + fill + products) / stages)
    if types.promoted and s.cluster == (1, 2) and s.rows > wgmma.M:
        block *= chip.shared_rows
    tile = ceil_div(k, depth * s.splits * s.global_splits) * (block + chip.k_block) + chip.tile
    narrow = 1 + chip.narrow * _panels(s, types)
    written = rows * columns * types.output_bytes / s.splits / chip.store * narrow
    sums = rows * columns * 4
    moved = members * ((m * k + n * k) * types.input_bytes + m * n * types.output_bytes)
    end = written + (chip.cluster if s.ctas > 1 else 0.0)
    end += 0.0 if _two_fit(s, types, chip.facts) else chip.launch_gap
    if s.global_splits > 1:
        written /= s.shares
        moved += 2 * ctas * sums
        tile += chip.claim + sums / chip.sums_written + sums * s.global_splits / s.shares / chip.sums_read
    if s.splits > 1:
        tile += sums / chip.cluster_sums
    tiles = ceil_div(ctas, chip.resident[s.ctas]) * (tile + chip.store_wait * written)
    # Where both take about as long neither hides the other wholly.
    return sqrt(hypot(tiles**2, (moved / chip.memory) ** 2)) + end


def product_cycles(s: WarpgroupSchedule, types: Types, chip: ChipModel) -> float:
    """Cycles of a tile's products for one K block, and of adding them where they are promoted."""
    rows, columns, depth = s.block
    parts, steps = rows // wgmma.M, depth * types.input_bytes // 32
    one = steps * max(columns / 2, chip.read_a + chip.read_b * columns) * chip.product_factor
    if not types.promoted:
        return parts * one + (chip.drain if s.warpgroups == 1 and not s.overlaps else 0.0)
    scale = (chip.scale_swapped if s.swap else chip.scale) if types.scaled else 0.0
    added = chip.drain + columns * scale
    if types.scaled and not s.swap:
        added += chip.other_scale * (columns // gcd(columns, PROMOTED) - 1)
    if s.warpgroups == 1:
        return parts * (one + added)
    return parts * (one + chip.exposed * added / s.warpgroups) + chip.promote


def fill_cycles(s: WarpgroupSchedule, down: int, across: int, types: Types, chip: ChipModel) -> float:
    """Cycles in which a stage is filled. Data that few tiles read at a time comes from memory for each of
    them, or for each cluster; data that many tiles read is in the L2 cache.
    """
    rows, columns, depth = s.block
    of_rows, of_columns = min(ceil_div(across, columns), _READERS), min(ceil_div(down, rows), _READERS)
    rare = rows / s.cluster[1] / sqrt(of_rows) + columns / s.cluster[0] / sqrt(of_columns)
    return s.stage_bytes(types) / chip.fill + rare * depth * types.input_bytes / chip.fill_unshared


def _panels(s: WarpgroupSchedule, types: Types) -> int:
    """The panels after the first that 128 bytes of a row of D lie in while it is staged."""
    if s.swap or not s.staged(types):
        return 0
    return 128 // gcd(128, s.block[1] * types.output_bytes) - 1
