"""Which schedule for `wgmma` a product of known sizes gets: the one that a model of the chip says is fastest.

The model counts cycles of a multiprocessor. Its numbers were fitted to times on an H200 (benchmarks/).
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import gcd, hypot, sqrt

from weft.dialects.schedule import OTHER_REGISTERS, PROMOTED, Types, WarpgroupSchedule, ceil_div
from weft.errors import WeftError
from weft.isa import wgmma
from weft.isa.chips import CHIPS, WARPGROUP, Chip, register_share
from weft.target import Target

_MOST_STAGES = 12
_BLOCK_ROWS = ((1, 64), (2, 128), (2, 256), (3, 192))
_BLOCK_COLUMNS = (*range(8, 64, 8), *range(64, 257, 16))
_CLUSTERS = (
    *((splits, (1, 1)) for splits in (1, 2, 4, 8)),
    *((1, cluster) for cluster in ((2, 1), (1, 2), (4, 1), (1, 4), (2, 2))),
)
_GLOBAL_SPLITS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
_MOST_SUMS = 128 * 128  # of a warpgroup: with more, too few stages are left
_SWAPPED_ROWS = 256  # products of more rows gain nothing from swapped operands
_SCALED_COLUMNS = 64  # of swapped blocks: the scales of more don't fit in registers beside the sums
GROUPS = (4, 8, 16)
_FEWEST_STAGES = 4  # that leave room for a CTA of the next launch
_SHORT = 1024  # bytes of a row of A, up to which a product writes more than it reads
_READERS = 16  # tiles, of those under way at a time, that read the same

# The chip that the numbers were fitted to, and how many of an H200's multiprocessors hold clusters of so many
# CTAs, as its driver says.
_CHIP = "sm_90a"
_RESIDENT = {1: 132, 2: 132, 4: 120, 8: 96}

# Cycles, and bytes a cycle. The first two say what a product of 64 rows costs that isn't bound by its
# multiplications: it reads A once, and B, from shared memory.
_READ_A = 21.02
_READ_B = 0.3551
_PRODUCTS = 1.066  # by how much products take longer than the tensor cores alone
_DRAIN = 117.2  # from a product's end to the next one's start, where nothing else is under way
_SCALE = 0.1292  # of a column of 64 rows of sums that is scaled
_SCALE_SWAPPED = 2.976  # of one that has a scale of its own
_PROMOTE = 42.91  # of a block of K that several warpgroups promote
_UNEVEN = 24.58  # of a run of columns, but for one, that has another scale of B than the one before
_SHARED = 0.9732  # what remains of that block's time where two CTAs share rows, of which a warpgroup has 128
_SHOWS = 0.5508  # the share of what a warpgroup adds up that the others' products don't hide
_FILL = 138.5  # what a multiprocessor takes in
_RARE = 33.82  # and of what others don't read
_LATENCY = 1361.0  # of a copy, from asking to having
_BLOCK = 62.82  # of a block of K beside its products
_STORE = 27.99  # what a multiprocessor writes
_NARROW = 0.1807  # by how much that takes longer for each panel more that 128 bytes of a row lie in
_MEMORY = 2349.0  # what the chip gets from memory
_NEAR = 1.01  # what the model takes for as fast
_TILE = 939.8  # of a tile beside its blocks
_OVERLAP = 0.668  # the share of a tile's stores that it waits for
_ADD = 13.09  # the bytes that a cluster's CTA writes, and reads of others, to add up
_CLUSTER = 1976.0  # of a cluster that begins and ends together
_APART = 900.0  # between launches, where a multiprocessor can't hold a CTA of each
_CLAIM = 6670.0  # of CTAs that tell each other through a counter, to the first sums of others
_PUT = 26.38  # the bytes of sums that a multiprocessor writes to global memory
_GET = 70.92  # and reads from there


@lru_cache(maxsize=4096)
def choose(m: int, n: int, k: int, types: Types, chip: str = "sm_90a", members: int = 1) -> WarpgroupSchedule:
    """The schedule of the least modelled time for `members` products of M x N x K; WeftError where none is
    legal.
    """
    found = [(modelled(s, m, n, k, types, members), s) for s in candidates(m, n, k, types, Target.of(chip))]
    if not found:
        inside = "" if not any(types.transposed) else ", with K outside"
        raise WeftError(f"no schedule of wgmma multiplies {types.a} and {types.b} on {chip}{inside}")
    least = min(cycles for cycles, _ in found)

    def preferred(cycles: float, s: WarpgroupSchedule) -> tuple[float, ...]:
        """Of those that the model can't tell apart: the one alone, that moves least for what it makes."""
        down, across = s.swapped(m, n)
        rows, columns = min(s.block[0], down), min(s.block[1], across)
        return -s.ctas * s.global_splits, rows * columns, -s.block[2], -s.warpgroups, -cycles

    return max((each for each in found if each[0] <= least * _NEAR), key=lambda each: preferred(*each))[1]


def ranked(m: int, n: int, k: int, types: Types, chip: str) -> list[WarpgroupSchedule]:
    """The candidates, the fastest first as the model has it."""
    every = candidates(m, n, k, types, Target.of(chip))
    return sorted(every, key=lambda s: modelled(s, m, n, k, types))


def candidates(m: int, n: int, k: int, types: Types, target: Target) -> Iterator[WarpgroupSchedule]:
    """The schedules that are worth trying."""
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
        for splits, cluster, parts in _divisions(whole, down, across, k):
            made = replace(whole, splits=splits, cluster=cluster, global_splits=parts)
            made = replace(made, group=_group(made, down, across, k * types.input_bytes))
            for stages in _stages(made, types, target.chip):
                if (staged := replace(made, stages=stages)).complaint(types, target) is None:
                    yield staged


def _stages(s: WarpgroupSchedule, types: Types, chip: Chip) -> list[int]:
    """As many stages as fit, and as many as leave room for a CTA of the next launch."""
    most = min(s.most_stages(types, chip.shared_bytes), _MOST_STAGES)
    beside = s.most_stages(types, _room_of_two(chip))
    fits = _FEWEST_STAGES <= beside < most and _two_fit(replace(s, stages=beside), types, chip)
    return [most, beside] if fits else [most]


def _room_of_two(chip: Chip) -> int:
    """The shared memory of a CTA of which a multiprocessor holds two; it keeps some for each."""
    return chip.sm_shared_bytes // 2 - (chip.sm_shared_bytes - chip.shared_bytes)


def _two_fit(s: WarpgroupSchedule, types: Types, chip: Chip) -> bool:
    """Whether a multiprocessor holds two such CTAs: their shared memory, and their registers."""
    registers = (s.rows + s.products(types) * wgmma.M) * s.block[1] // WARPGROUP + OTHER_REGISTERS
    return registers <= register_share(2 * s.threads) and s.shared_bytes(types) <= _room_of_two(chip)


def _divisions(
    whole: WarpgroupSchedule, down: int, across: int, k: int
) -> Iterator[tuple[int, tuple[int, int], int]]:
    """The splits, clusters and global splits that such blocks of a product may be divided among."""
    rows, columns, depth = whole.block
    tiles, blocks = (ceil_div(down, rows), ceil_div(across, columns)), ceil_div(k, depth)
    for splits, cluster in _CLUSTERS:
        if cluster[0] > tiles[0] or cluster[1] > tiles[1] or (splits > 1 and blocks < 2 * splits):
            continue
        sharing = cluster[0] * cluster[1]
        ctas = splits * sharing * ceil_div(tiles[0], cluster[0]) * ceil_div(tiles[1], cluster[1])
        for parts in _GLOBAL_SPLITS if splits == 1 else (1,):
            # Parts that come one after the other only add to what there is to add up.
            if parts == 1 or (blocks >= 2 * parts and ctas * parts <= _RESIDENT[sharing]):
                yield splits, cluster, parts


def _group(s: WarpgroupSchedule, down: int, across: int, row: int) -> int:
    """How many rows of blocks are best gone through together, with `row` bytes in a row of A: so many that
    what is under way at a time reads the least.
    """
    height, width = s.block[0] * s.cluster[0], s.block[1] * s.cluster[1]
    under_way = _RESIDENT[s.ctas] // (s.ctas * s.global_splits)
    if row <= _SHORT and under_way // GROUPS[0] * width >= across:
        return GROUPS[0]  # more is written than read: then D is best written in whole rows
    below = ceil_div(down, height)

    def read(group: int) -> int:
        rows = min(group, below)
        return rows * height + min(ceil_div(under_way, rows) * width, across)

    return min(GROUPS[1:], key=read)


def modelled(s: WarpgroupSchedule, m: int, n: int, k: int, types: Types, members: int = 1) -> float:
    """The cycles that a batch of products takes."""
    rows, columns, depth = s.block
    down, across = s.swapped(m, n)
    ctas = ceil_div(down, rows * s.cluster[0]) * ceil_div(across, columns * s.cluster[1])
    ctas *= s.splits * s.global_splits * s.cluster[0] * s.cluster[1] * members
    products, fill = _products(s, types), _fill(s, down, across, types)
    # A warpgroup that leaves products under way releases a stage one block late.
    stages = s.stages - int(s.overlaps and not types.promoted)
    block = max(products, fill, (_LATENCY + fill + products) / stages)
    if types.promoted and s.cluster == (1, 2) and s.rows > wgmma.M:
        block *= _SHARED
    tile = ceil_div(k, depth * s.splits * s.global_splits) * (block + _BLOCK) + _TILE
    written = rows * columns * types.output_bytes / s.splits / _STORE * (1 + _NARROW * _panels(s, types))
    sums = rows * columns * 4
    moved = members * ((m * k + n * k) * types.input_bytes + m * n * types.output_bytes)
    end = written + (_CLUSTER if s.ctas > 1 else 0.0)
    end += 0.0 if _two_fit(s, types, CHIPS[_CHIP]) else _APART
    if s.global_splits > 1:
        written /= s.shares
        moved += 2 * ctas * sums
        tile += _CLAIM + sums / _PUT + sums * s.global_splits / s.shares / _GET
    if s.splits > 1:
        tile += sums / _ADD
    tiles = ceil_div(ctas, _RESIDENT[s.ctas]) * (tile + _OVERLAP * written)
    # Where both take about as long neither hides the other wholly.
    return sqrt(hypot(tiles**2, (moved / _MEMORY) ** 2)) + end


def _products(s: WarpgroupSchedule, types: Types) -> float:
    """Cycles of a tile's products for one block of K, and of adding them up where they are promoted."""
    rows, columns, depth = s.block
    parts, steps = rows // wgmma.M, depth * types.input_bytes // 32
    one = steps * max(columns / 2, _READ_A + _READ_B * columns) * _PRODUCTS
    if not types.promoted:
        return parts * one + (_DRAIN if s.warpgroups == 1 and not s.overlaps else 0.0)
    scale = (_SCALE_SWAPPED if s.swap else _SCALE) if types.scaled else 0.0
    added = _DRAIN + columns * scale
    if types.scaled and not s.swap:
        added += _UNEVEN * (columns // gcd(columns, PROMOTED) - 1)
    if s.warpgroups == 1:
        return parts * (one + added)
    return parts * (one + _SHOWS * added / s.warpgroups) + _PROMOTE


def _fill(s: WarpgroupSchedule, down: int, across: int, types: Types) -> float:
    """Cycles in which a stage is filled. What few tiles at a time read comes from memory for each of them, if
    not for a whole cluster; what many do is in L2.
    """
    rows, columns, depth = s.block
    of_rows, of_columns = min(ceil_div(across, columns), _READERS), min(ceil_div(down, rows), _READERS)
    rare = rows / s.cluster[1] / sqrt(of_rows) + columns / s.cluster[0] / sqrt(of_columns)
    return s.stage_bytes(types) / _FILL + rare * depth * types.input_bytes / _RARE


def _panels(s: WarpgroupSchedule, types: Types) -> int:
    """The panels, but for one, that 128 bytes of a row of D lie in on its way."""
    if s.swap or not s.staged(types):
        return 0
    return 128 // gcd(128, s.block[1] * types.output_bytes) - 1
