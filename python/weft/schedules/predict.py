"""The predicted time of a kernel, what bounds it, and its parts: docs/predict.md explains the models.

Where a GPU has published rates only, it's the launch, followed by the slowest of: the tiles of the busiest
multiprocessor, the L2 cache, the memory. Kernels of `wgmma` on an H200 have a model that was fitted to
measured times (`wgmma_cycles`). In both cases, it's the time at the power limit where that is longer.
"""

from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from weft.dialects.product_types import Types, ceil_div
from weft.dialects.schedule import AnySchedule
from weft.dialects.schedule.mma_sync import STEP_BYTES
from weft.dialects.schedule.work import Kernel, Kind, Work
from weft.errors import WeftError
from weft.isa.block_scales import ROWS, spanned
from weft.schedules.blackwell import PublishedGpu
from weft.schedules.gpu import Gpu
from weft.schedules.h200 import FittedGpu
from weft.schedules.wgmma_cycles import Case
from weft.schedules.wgmma_kernels import Kernels

_READ = 128  # bytes of shared memory that a multiprocessor reads in a cycle


@dataclass(frozen=True)
class Counts:
    """What a kernel does for a product: tiles, waves of them, K blocks of a tile, instructions, and bytes."""

    tiles: int
    waves: int
    k_blocks: int
    instructions: int
    l2_bytes: float
    dram_bytes: float


@dataclass(frozen=True)
class Prediction:
    """The predicted time in microseconds, what bounds it, and its parts: the times that the product would
    take if one resource alone were limited. `tail` is the time in which some multiprocessors have no tile.
    """

    microseconds: float
    bound: str
    parts: dict[str, float]
    counts: Counts
    flops: int

    @property
    def tflops(self) -> float:
        """TFLOP/s: multiplications and additions."""
        return self.flops / self.microseconds / 1e6


@dataclass(frozen=True)
class _Tile:
    """Cycles of one tile. `limits` are those of a K block by resource. `exposed`: those of the epilogue in
    which the next tile's products wait.
    """

    limits: dict[str, float]
    k_blocks: int
    epilogue: float
    exposed: float
    other: float

    @property
    def each(self) -> float:
        """Cycles from one tile to the next."""
        main = self.k_blocks * max(self.limits.values()) + self.other
        return max(main + self.exposed, self.epilogue)


def predict_schedule(
    schedule: AnySchedule,
    m: int,
    n: int,
    k: int,
    types: Types,
    gpu: Gpu,
    *,
    members: int = 1,
    burst: bool = False,
) -> Prediction:
    """The predicted time of `members` products of M x N x K. `burst`: after a rest, where the GPU has such
    limits. Raises WeftError where there is no model of the family on the GPU.
    """
    if schedule.family != gpu.family:
        found = f"got one of {schedule.instruction}: compile for {gpu.chip}"
        raise WeftError(f"schedule must be of {gpu.instruction} for a model of {gpu.name}, {found}")
    kernel = schedule.kernel(types, gpu.chip)
    work = Work(m, n, k, schedule.element_kind(types), types.output_bytes, members)
    if isinstance(gpu, PublishedGpu):
        return predict(kernel, work, gpu, burst=burst)
    assert isinstance(gpu, FittedGpu)
    return _of_wgmma(schedule, kernel, work, types, gpu, burst)


def predict(
    kernel: Kernel, work: Work, gpu: PublishedGpu, *, burst: bool = False, power: float = 1.0
) -> Prediction:
    """The predicted time of a kernel's work, from a GPU's published rates.

    `burst`: after a rest, where the GPU has such limits. `power`: a factor of the power limit, for a machine
    that is known to be faster or slower. Raises WeftError for a kind that the GPU doesn't multiply.
    """
    if work.kind.name not in gpu.flops:
        legal = ", ".join(gpu.flops)
        raise WeftError(f"types must be of a kind that {gpu.name} multiplies, {legal}, got {work.kind.name}")
    tile, units = _tile(kernel, work, gpu), _units(kernel, gpu)
    counts = _counts(kernel, work, units, _read_bytes(kernel, work, gpu, units))
    launch = gpu.launch_us + gpu.latency_us + (tile.epilogue - tile.exposed) / gpu.clock_mhz
    share = counts.tiles / units / gpu.clock_mhz
    parts = {name: limit * tile.k_blocks * share for name, limit in tile.limits.items()}
    parts["epilogue"] = parts.get("epilogue", 0.0) + tile.exposed * share
    parts |= {"tail": (counts.waves - counts.tiles / units) * tile.each / gpu.clock_mhz, "launch": launch}
    memory = {"L2": counts.l2_bytes / gpu.l2_gb_s / 1e3, "DRAM": counts.dram_bytes / gpu.dram_gb_s / 1e3}
    busy = launch + counts.waves * tile.each / gpu.clock_mhz
    times = {max(parts, key=lambda each: parts[each]): busy}
    times |= {name: launch + value for name, value in memory.items()}
    bound = max(times, key=lambda each: times[each])
    ordered = {name: parts[name] for name in tile.limits} | memory | parts
    predicted = Prediction(times[bound], bound, ordered, counts, work.flops)
    return _limited(predicted, busy, kernel, work.kind, gpu, burst, power)


def _of_wgmma(
    schedule: Any, kernel: Kernel, work: Work, types: Types, gpu: FittedGpu, burst: bool
) -> Prediction:
    """The cycles by which schedules are chosen, and their parts."""
    case = Case(Kernels.of([schedule], types, gpu), work.m, work.n, work.k, work.members)
    parts = {name: float(each[0]) / gpu.clock_mhz for name, each in case.parts.items()}
    counts = _counts(kernel, work, gpu.resident[kernel.ctas], float(case.moved_bytes[0]))
    time = float(case.corrected[0]) / gpu.clock_mhz
    bound = max(parts, key=lambda name: parts[name])
    predicted = Prediction(time, bound, parts, counts, work.flops)
    return _limited(predicted, time, kernel, work.kind, gpu, burst)


def _limited(
    predicted: Prediction, busy: float, kernel: Kernel, kind: Kind, gpu: Gpu, burst: bool, power: float = 1.0
) -> Prediction:
    """A prediction with the time at the power limit, where one is known: tensor cores that have work for a
    part of the `busy` time run faster.
    """
    name = f"{kind.name}_promoted" if kernel.promoted else kind.name
    limit = gpu.cap(name, burst=burst) or gpu.cap(kind.name, burst=burst)
    if limit is None:
        return predicted
    if kernel.k_96 and (of_96 := gpu.cap(f"{kind.name}_k96", burst=burst)) is not None:
        limit = 1 / (kernel.k_96 / of_96 + (1 - kernel.k_96) / limit)
    peak = gpu.flops[kind.name] / (1 - kernel.k_96 / 3)  # of a multiprocessor in a cycle
    ideal = predicted.flops / (gpu.multiprocessors * peak) / gpu.clock_mhz
    time = predicted.flops / (limit * power * 1e6) / (ideal / busy) ** gpu.idle_power
    longer: dict[str, Any] = {}
    if time > predicted.microseconds:
        longer = {"microseconds": time, "bound": "power"}
    return replace(predicted, parts={**predicted.parts, "power": time}, **longer)


def _units(kernel: Kernel, gpu: PublishedGpu) -> int:
    """Tiles that are computed at a time."""
    return max(gpu.multiprocessors // kernel.ctas * kernel.ctas // kernel.cta_group, 1) * kernel.resident


def _steps(kernel: Kernel, kind: Kind) -> float:
    """The instructions along a K block. Each multiplies 32 bytes of a row, or 48 with a K of 96."""
    return kernel.k_block * kind.shared_bits / 8 / STEP_BYTES * (1 - kernel.k_96 / 3)


def _tile(kernel: Kernel, work: Work, gpu: PublishedGpu) -> _Tile:
    """The cycles of one tile on a multiprocessor, or on a pair of them."""
    kind = work.kind
    tcgen05 = gpu.instruction == "tcgen05"
    math, reads = (_tcgen05_block if tcgen05 else _mma_sync_block)(kernel, kind, gpu)
    rows, columns = kernel.tile[0] // kernel.cta_group, kernel.tile[1] // kernel.cta_group
    copied = (rows + columns) * kernel.k_block * kind.bits / 8
    if kind.group:  # each CTA of a pair has the scales of all columns
        scales = sum(map(spanned, (rows, kernel.tile[1]))) * ROWS * kernel.k_block / kind.group
        copied += scales
        if tcgen05:
            math, reads = (each + scales / 512 * gpu.scale_copy for each in (math, reads))
    fill = copied / gpu.copy_gb_s * gpu.clock_ghz
    latency, busy = gpu.latency_us * gpu.clock_ghz * 1e3, max(math, reads)
    limits = {
        "tensor cores": math * kernel.resident,
        "shared memory": reads * kernel.resident,
        "TMA": max(fill * kernel.resident, (latency + fill + busy + gpu.commit) / kernel.stages),
    }
    on_each = kernel.tile[1] * kernel.parts / kernel.epilogues
    if kernel.promoted:
        adding = gpu.promote + gpu.promote_column * on_each if tcgen05 else rows * columns / gpu.adds
        limits["epilogue"] = adding
    if tcgen05:
        epilogue = gpu.epilogue + gpu.epilogue_column * on_each * (gpu.early_share if kernel.early else 1.0)
    else:
        epilogue = gpu.epilogue + rows * columns * work.output_bytes / gpu.store
    exposed = epilogue
    if kernel.accumulators > 1 and not kernel.promoted:
        exposed = gpu.epilogue + gpu.epilogue_column * kernel.shared if kernel.shared else 0.0
    other = gpu.commit + (0.0 if kernel.persistent else gpu.set_up + latency)
    if kernel.splits > 1:
        sums = 4 * rows * kernel.tile[1]
        other += (gpu.split_us + 2 * sums / gpu.copy_gb_s / 1e3) * gpu.clock_ghz * 1e3
    return _Tile(limits, _k_blocks(kernel, work), epilogue, exposed, other)


def _tcgen05_block(kernel: Kernel, kind: Kind, gpu: PublishedGpu) -> tuple[float, float]:
    """Cycles in which tcgen05.mma multiplies a K block, and reads it from shared memory."""
    m, n = kernel.part
    reads = (m + n) / kernel.cta_group * STEP_BYTES / _READ
    reads += gpu.pair_reads[m == 256] if kernel.cta_group == 2 else 0.0
    steps = kernel.parts * _steps(kernel, kind)
    wide = kernel.cta_group == 1 or m == 256  # those of a pair with 64 rows each take half of the time
    rate = gpu.flops["bf16"] / 8192
    return steps * n / (2 if wide else 4) / rate, steps * reads


def _mma_sync_block(kernel: Kernel, kind: Kind, gpu: PublishedGpu) -> tuple[float, float]:
    """Cycles in which mma.sync multiplies a K block, and in which warps read it from shared memory."""
    (m, n), (down, across) = kernel.tile, kernel.warps
    math = 2 * m * n * kernel.k_block / gpu.flops[kind.name]
    reads = (m * across + n * down) * kernel.k_block * kind.shared_bits / 8 / _READ
    # Loads and products share issue slots, so that neither hides the other wholly.
    return math + gpu.exposed_reads * reads + gpu.k_block, reads


def _k_blocks(kernel: Kernel, work: Work) -> int:
    """The K blocks of a tile, or of a K slice of it."""
    return ceil_div(ceil_div(work.k, kernel.k_block), kernel.slices)


def _counts(kernel: Kernel, work: Work, units: int, read: float) -> Counts:
    """What a kernel does that computes `units` tiles at a time, and reads and writes some bytes of memory."""
    (down, across), kind = kernel.tiles(work.m, work.n), work.kind
    height, width = kernel.tile
    tiles = down * across * work.members
    shared = height / kernel.cluster[1] + width / kernel.cluster[0]
    sums = 2 * 4 * work.m * work.n * kernel.splits * work.members if kernel.splits > 1 else 0
    copied = tiles * kind.bytes_of(shared * work.k) + sums
    k_blocks, steps = _k_blocks(kernel, work), ceil(_steps(kernel, kind))
    instructions = tiles * kernel.slices * k_blocks * kernel.parts * steps
    if kernel.warps != (0, 0):
        instructions = tiles * k_blocks * steps * (height // 16) * (width // 8)
    waves = ceil_div(tiles * kernel.slices, units)
    return Counts(tiles * kernel.slices, waves, k_blocks, instructions, copied, read)


def _read_bytes(kernel: Kernel, work: Work, gpu: PublishedGpu, units: int) -> float:
    """Bytes of memory for A, B and D. An operand that fits half of the L2 cache is read once. Otherwise, the
    rows of a group of tiles are read once if they fit, and the columns for each group.
    """
    kind, k, half = work.kind, work.k, gpu.l2_bytes / 2
    heights, widths = kernel.swapped(work.m, work.n)
    down, across = kernel.tiles(work.m, work.n)
    rows = min(max(kernel.group, ceil(units / across)), down)
    of_rows, of_columns = (kind.bytes_of(extent * k) for extent in (heights, widths))
    if of_rows > half and kind.bytes_of(rows * kernel.tile[0] * k) > half:
        of_rows *= ceil(rows * across / units)
    if of_columns > half:
        of_columns *= ceil(down / rows)
    return work.members * (of_rows + of_columns + work.m * work.n * work.output_bytes)
