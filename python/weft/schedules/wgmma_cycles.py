"""The cycles of `wgmma` kernels, of many at once: what the time model computes.

Times are cycles of a multiprocessor; `h200` has the numbers.
"""

from functools import reduce

import numpy as np

from weft.dialects.product_types import ceil_div
from weft.isa import tensor_map
from weft.isa.chips import LINE_BYTES
from weft.schedules import wgmma_corrections
from weft.schedules.h200 import FittedGpu
from weft.schedules.wgmma_corrections import Case
from weft.schedules.wgmma_kernels import Array, Kernels, row_elements

_READERS = 16  # tiles that are computed at a time and read the same data
_UNEVEN = 3  # exponents of norms: where several resources take about as long, none hides the others wholly
_EVEN = 8


def fill_cycles(kernels: Kernels, m: Array, n: Array, k: Array, active: Array) -> Array:
    """Cycles in which a stage is filled, where so many multiprocessors are `active`. Data that few tiles read
    at a time comes from memory for each of them, or for each cluster; what many read is in the L2 cache.
    """
    gpu = kernels.gpu
    asked, rare = _asked_bytes(kernels, m, n, k)
    issue = asked * np.maximum(1 / gpu.ask, active / gpu.l2) + gpu.rare * rare * active / gpu.l2
    received = kernels.stage_bytes / gpu.fill
    return _norm(_UNEVEN, issue, received)


def _asked_bytes(kernels: Kernels, m: Array, n: Array, k: Array) -> tuple[Array, Array]:
    """Bytes of a stage that a CTA asks for, those of slow copies counted more than once; and of which few
    other tiles need the same. A row of a narrow panel takes as long as one of the widest.
    """
    types, gpu = kernels.types, kernels.gpu
    size, depth = types.input_bytes, kernels.depth * types.input_bytes
    down, across = kernels.swapped(m, n)
    readers_down = np.minimum(ceil_div(down, kernels.rows * kernels.height), _READERS)
    readers_across = np.minimum(ceil_div(across, kernels.columns * kernels.width), _READERS)
    asked: Array = 0.0
    rare: Array = 0.0
    for stored, ctas, tile, readers, whole, joined, pitch, mn_major in zip(
        (kernels.rows, kernels.stored_columns),
        (kernels.width, kernels.height),
        (kernels.rows, kernels.columns),
        (readers_across, readers_down),
        (down, across),
        (False, kernels.joined),
        kernels.swapped(*row_elements(types, m, n, k)),
        kernels.swapped(*types.transposed),
        strict=True,
    ):
        extent = stored / ctas
        # MN-major tiles begin at multiples of their extent in a row.
        apart = np.where(mn_major & (tile < whole), tile, 0)
        one_by_one = mn_major & np.logical_not(joined)
        slow = np.where(joined, 0.0, _slower((pitch | apart) * size, gpu))
        wide = np.where(one_by_one, np.maximum(stored, LINE_BYTES / size) / ctas, extent)
        crowded = np.where(one_by_one & (tile >= whole), gpu.crowded, 0.0)
        asked = asked + wide * depth * (1 + slow) * (1 + crowded)
        rare = rare + extent * depth / np.sqrt(readers)
    return asked, rare


def _slower(pitch: Array, gpu: FittedGpu) -> Array:
    """The additional share of a copy's time by the bytes from one row of a matrix to the next."""
    values = (gpu.rows_16, gpu.rows_32, gpu.rows_64)
    return np.select([pitch % 32 != 0, pitch % 64 != 0, pitch % 128 != 0], values, 0.0)


def cycles(kernels: Kernels, m: Array, n: Array, k: Array, members: int = 1) -> Array:
    """The cycles that a batch of products takes with each kernel. Sizes may be columns, too."""
    return corrected(uncorrected(kernels, m, n, k, members))


def corrected(case: Case) -> Array:
    """The cycles with corrections."""
    return case.cycles * wgmma_corrections.factor(case, case.kernels.gpu.corrections)


def uncorrected(kernels: Kernels, m: Array, n: Array, k: Array, members: int = 1) -> Case:
    """The same without corrections, and what these depend on."""
    types, gpu = kernels.types, kernels.gpu
    sums = kernels.rows * kernels.columns * 4
    ctas, blocks = counts(kernels, m, n, k, members)
    whole = ctas // kernels.resident
    rest = ctas - whole * kernels.resident
    size = types.output_bytes
    slower = 1 + gpu.narrow * kernels.panels + np.where(n * size % 32 != 0, gpu.store_16, 0.0)
    written = kernels.rows * kernels.columns * size / kernels.splits / gpu.store * slower
    used = np.minimum(ctas, kernels.resident) / gpu.multiprocessors
    alone = kernels.ctas == 1
    end = written + np.where(alone, 0.0, gpu.cluster) + gpu.start + gpu.start_all * used
    end = end + np.where((kernels.height > 1) & (kernels.width > 1), gpu.cluster_both, 0.0)
    end = end + np.where(kernels.two_fit & alone, 0.0, gpu.launch_gap)
    end = end + gpu.first * (
        fill_cycles(kernels, m, n, k, np.minimum(ctas, kernels.resident)) + kernels.products
    )
    if types.scaled:  # a kernel of its own copies scales that TMA can't read
        end = end + np.where(m * 4 % tensor_map.ROW_BYTES != 0, gpu.scales_copied, 0.0)
    divided = kernels.global_splits > 1
    waiting = gpu.store_wait * written * np.where(divided, kernels.added_share, 1)
    added = gpu.claim + sums / gpu.sums_written * (1 + gpu.slices * (kernels.global_splits - 1))
    tile = gpu.tile + waiting + np.where(divided, added, 0.0)
    stored = np.where(n * types.output_bytes % tensor_map.ROW_BYTES != 0, gpu.stored_part, 0.0)
    part = np.where(kernels.turns > 0, 0.0, gpu.staged_part) + stored
    tile = tile + part * (kernels.staging_parts - 1)
    tile = tile + np.where(kernels.splits > 1, sums / gpu.cluster_sums, 0.0)
    full = block_cycles(kernels, m, n, k, kernels.resident)
    last = block_cycles(kernels, m, n, k, np.maximum(rest, 1))
    tiles = whole * (blocks * full + tile) + np.where(rest > 0, blocks * last + tile, 0.0)
    if (turns := kernels.turns).any():
        count = ceil_div(ctas, kernels.resident)
        own = kernels.rows / kernels.width + kernels.columns / kernels.height
        slowed = blocks * full + gpu.written_beside * written * (own / (kernels.rows + kernels.columns))
        each = _norm(_EVEN, slowed, (blocks * full + tile) / np.maximum(turns, 1))
        one = blocks * np.where(rest > 0, last, full) + tile
        tiles = np.where(turns > 0, (count - 1) * each + one, tiles)
    if kernels.stream_k.any():
        even = ctas / kernels.resident * blocks * full + ceil_div(ctas, kernels.resident) * gpu.tile
        even = even + whole * waiting + gpu.streamed + 2 * sums / gpu.sums_written
        tiles = np.where(kernels.stream_k & (rest > 0), even, tiles)
    moved = moved_bytes(kernels, m, n, k, members) / gpu.memory
    total = _norm(_EVEN, tiles, moved) + end
    return Case(kernels, m, n, k, total, moved, ctas, blocks, tile, end)


def parts(case: Case) -> dict[str, Array]:
    """The cycles that products would take if one resource alone were limited. `tail`: those in which some
    multiprocessors have no tile.
    """
    kernels, mnk = case.kernels, (case.m, case.n, case.k)
    turns, active = case.ctas / kernels.resident, np.minimum(case.ctas, kernels.resident)
    idle = ceil_div(case.ctas, kernels.resident) - turns
    return {
        "tensor cores": kernels.products * case.blocks * turns,
        "TMA": np.maximum(*_copy_cycles(kernels, *mnk, active)) * case.blocks * turns,
        "DRAM": case.moved,
        "epilogue": case.tile * turns,
        "tail": (case.blocks * block_cycles(kernels, *mnk, active) + case.tile) * idle,
        "launch": case.end,
    }


def moved_bytes(kernels: Kernels, m: Array, n: Array, k: Array, members: int) -> Array:
    """Bytes of A, B and D that memory moves. L2 doesn't keep the data of K slices: a line of which a copy
    needs a part is read again for the next.
    """
    types, size = kernels.types, kernels.types.input_bytes
    total: Array = 0
    for extent, row in zip((m, n), row_elements(types, m, n, k), strict=True):
        partial = row * size % LINE_BYTES != 0
        again = kernels.gpu.again * partial * (kernels.global_splits > 1)
        total = total + extent * k * size * (1 + again)
    return members * (total + m * n * types.output_bytes)


def counts(kernels: Kernels, m: Array, n: Array, k: Array, members: int = 1) -> tuple[Array, Array]:
    """The CTAs that compute all tiles, if each computes one, and the K blocks of each."""
    down, across = kernels.swapped(m, n)
    clusters = ceil_div(down, kernels.rows * kernels.height) * ceil_div(
        across, kernels.columns * kernels.width
    )
    slices = kernels.splits * kernels.global_splits
    return clusters * kernels.ctas * kernels.global_splits * members, ceil_div(k, kernels.depth * slices)


def block_cycles(kernels: Kernels, m: Array, n: Array, k: Array, active: Array) -> Array:
    """Cycles of a K block, where so many multiprocessors are `active`."""
    fill, latency = _copy_cycles(kernels, m, n, k, active)
    return np.maximum(_norm(_UNEVEN, kernels.products, fill), latency) + kernels.gpu.k_block


def _copy_cycles(kernels: Kernels, m: Array, n: Array, k: Array, active: Array) -> tuple[Array, Array]:
    """Cycles in which a stage is filled, and from one copy's arrival to the next's by their latency."""
    fill, gpu = fill_cycles(kernels, m, n, k, active), kernels.gpu
    # A warpgroup that leaves products in flight releases a stage one block late.
    late = 0 if kernels.types.promoted else kernels.overlaps
    _, rare = _asked_bytes(kernels, m, n, k)
    of_memory = rare / kernels.stage_bytes
    latency = gpu.copy_latency + gpu.memory_latency * of_memory
    return fill, (latency + fill + kernels.products) / (kernels.stages - late)


def _norm(exponent: int, *times: Array) -> Array:
    """A smooth maximum."""
    most = reduce(np.maximum, times)
    total: Array = 0.0
    for time in times:
        total = total + (time / most) ** exponent
    return most * total ** (1 / exponent)
