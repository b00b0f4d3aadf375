"""Which schedule for `wgmma` a product of known sizes gets: the one that a model of the chip says is fastest.

The model counts cycles of a multiprocessor. Its numbers were fitted to times on an H200 (benchmarks/).
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product

from weft.dialects.schedule import Types, WarpgroupSchedule
from weft.errors import WeftError
from weft.target import Target

_MOST_STAGES = 12
_BLOCK_ROWS = ((1, 64), (2, 128), (2, 256), (3, 192))
_BLOCK_COLUMNS = (*range(8, 64, 8), *range(64, 257, 16))
_CLUSTERS = (
    *((splits, (1, 1)) for splits in (1, 2, 4, 8)),
    *((1, cluster) for cluster in ((2, 1), (1, 2), (4, 1), (1, 4), (2, 2))),
)
# How many CTAs may share a block through global memory: none until an H200 has said what that costs.
_GLOBAL_SPLITS: tuple[int, ...] = (1,)
_MOST_SUMS = 128 * 128  # of a warpgroup: with more, too few stages are left
_SWAPPED_ROWS = 256  # products of more rows gain nothing from swapped operands

# The multiprocessors that hold clusters of so many CTAs, as an H200's driver says.
_RESIDENT = {1: 132, 2: 132, 4: 120, 8: 96}

# Cycles, and bytes a cycle. The first two say what a product of 64 rows costs that isn't bound by its
# multiplications: it reads A once, and B, from shared memory.
_READ_A = 22.41
_READ_B = 0.158
_ALONE = 1.855  # of products that no other warpgroup's run beside
_PRODUCTS = 1.198  # by how much products take longer than the tensor cores alone
_FILL = 43.2  # what a multiprocessor gets from L2, of which others get theirs
_ARRIVE = 56.5  # what it takes in, also of what comes to several
_LATENCY = 2181.3  # of a copy, from asking to having
_BLOCK = 43.62  # of a block of K beside its products
_STORE = 17.39  # what a multiprocessor writes
_NEAR = 1.01  # what the model takes for as fast
_TILE = 2805.4  # of a tile beside its blocks
_OVERLAP = 0.704  # the share of a tile's stores that it waits for
_REDUCE = 489.2  # of a cluster that adds up
_ADD = 5.148  # the bytes that it writes, and reads of others, to add up
_CLUSTER = 4744.0  # of a cluster that begins and ends together
_MEMORY = 4283.0  # what the chip gets from memory and L2 at most
_ACTIVE = 0.904  # the share of it that all multiprocessors together can take

_ESTIMATED_CLAIM = 2000.0  # of CTAs that tell each other through a counter, to the first sums of others
_ESTIMATED_PUT = 17.0  # the bytes of sums that a multiprocessor writes to global memory
_ESTIMATED_GET = 43.0  # and reads from there


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
        rows, columns = min(s.block[0], n if s.swap else m), min(s.block[1], m if s.swap else n)
        return -s.ctas, rows * columns, -s.block[2], -s.warpgroups, -cycles

    return max((each for each in found if each[0] <= least * _NEAR), key=lambda each: preferred(*each))[1]


def candidates(m: int, n: int, k: int, types: Types, target: Target) -> Iterator[WarpgroupSchedule]:
    """The schedules that are worth trying, each with as many stages as fit."""
    rows_of_128 = 128 // types.input_bytes
    depths = (rows_of_128, 2 * rows_of_128)
    swaps = (False, True) if m <= _SWAPPED_ROWS else (False,)
    for (warpgroups, rows), columns, depth, swap in product(_BLOCK_ROWS, _BLOCK_COLUMNS, depths, swaps):
        down, across = (n, m) if swap else (m, n)
        if rows >= 2 * max(down, 64) or columns >= 2 * max(across, 16):
            continue
        for (splits, cluster), parts in product(_CLUSTERS, _GLOBAL_SPLITS):
            if splits * parts > 1 and -(-k // depth) < 2 * splits * parts:
                continue
            if cluster[0] > -(-down // rows) or cluster[1] > -(-across // columns):
                continue
            block = (rows, columns, depth)
            made = WarpgroupSchedule(
                block, warpgroups, 2, splits=splits, swap=swap, cluster=cluster, global_splits=parts
            )
            if made.rows * columns <= _MOST_SUMS and made.complaint(types, target) is None:
                yield _deepest(made, types, target)


def _deepest(schedule: WarpgroupSchedule, types: Types, target: Target) -> WarpgroupSchedule:
    """The schedule with as many stages as the shared memory holds."""
    return replace(schedule, stages=min(schedule.most_stages(types, target.chip), _MOST_STAGES))


def modelled(s: WarpgroupSchedule, m: int, n: int, k: int, types: Types, members: int = 1) -> float:
    """The cycles that a batch of products takes."""
    rows, columns, depth = s.block
    down, across = (n, m) if s.swap else (m, n)
    size = types.input_bytes
    ctas = _up(down, rows * s.cluster[0]) * _up(across, columns * s.cluster[1])
    ctas *= s.splits * s.global_splits * s.cluster[0] * s.cluster[1] * members
    steps = depth * size // 32
    products = rows // 64 * steps * max(columns / 2, _READ_A + _READ_B * columns) * _PRODUCTS
    shared = (rows / s.cluster[1] + columns / s.cluster[0]) * depth * size
    block = max(
        products * (_ALONE if s.warpgroups == 1 else 1.0),
        shared / _FILL,
        s.stage_bytes(types) / _ARRIVE,
        _LATENCY / max(s.stages - 1, 1),
    )
    written = rows * columns * types.output_bytes / _STORE
    tile = _up(k, depth * s.splits * s.global_splits) * (block + _BLOCK) + _TILE
    if s.global_splits > 1:
        sums, written = rows * columns * 4, written / s.shares
        tile += _ESTIMATED_CLAIM + sums / _ESTIMATED_PUT
        tile += sums * s.global_splits / s.shares / _ESTIMATED_GET
    tile += _OVERLAP * written
    end = written + (_CLUSTER if s.ctas > 1 else 0.0)
    if s.splits > 1:
        end += _REDUCE + rows * columns * 4 / _ADD
    moved = members * ((m * k + n * k) * size + m * n * types.output_bytes)
    memory = moved / (_MEMORY * min(1.0, _ACTIVE * ctas / _RESIDENT[1]))
    return max(_up(ctas, _RESIDENT[s.ctas]) * tile, memory) + end


def _up(a: int, b: int) -> int:
    return -(-a // b)
