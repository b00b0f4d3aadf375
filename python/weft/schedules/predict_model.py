"""The model that predicts a kernel's time from its work and from a GPU's published rates.

It's the launch, followed by the slowest of: the tiles of the busiest multiprocessor, the L2 cache, the
memory; or, where that is longer, the time of the product at the power limit. docs/predict.md explains it.
"""

from dataclasses import dataclass
from math import ceil

from weft.dialects.product_types import ceil_div
from weft.errors import WeftError
from weft.isa.block_scales import ROWS, spanned
from weft.schedules.predict_gpus import Gpu, Kind
from weft.schedules.predict_kernels import Kernel

STEP_BYTES = 32
"""Bytes of a row of an operand that one instruction of tcgen05 multiplies; 48 with K = 96."""
_READ = 128  # bytes of shared memory that a multiprocessor reads in a cycle
_COMMIT = 180  # cycles from the last product of a tile to its commit's arrival: 132 to 185 measured
_PAIR_READ = {128: 1.0, 256: 4.0}  # cycles that a pair's reads take more, by M
_EPILOGUE = 256.0, 6.0  # cycles of an epilogue, and for each column that a warpgroup reads (inferred)
_EARLY = 0.3  # share of the latter until all sums are read (inferred)
_SCALE_COPY = 11.0  # cycles in which 512 bytes of scales are copied to tensor memory (fit: rows 5 and 24)
_SET_UP = 2500.0  # cycles of a CTA that computes one tile, until its first copy (fit: rows 11 and 14)
_PROMOTE = 100.0, 1.5  # cycles in which an epilogue adds a K block's sums, and for each column (inferred)
_ADDS = 128  # promoted sums that a multiprocessor adds in a cycle, with mma.sync
_SPLIT_US = 2.5  # from a CTA's arrival at a counter to the first sums of other CTAs (inferred from an H200's)
_ISSUED = 0.25  # share of the reads of mma.sync's operands that its products don't hide (inferred)
_K_BLOCK = 60.0  # cycles of a K block with mma.sync in addition (inferred, from an H200's 62.8)
_STORE = 32.0  # bytes that a multiprocessor stores in a cycle from registers, with mma.sync (inferred)


@dataclass(frozen=True)
class Work:
    """`members` products of M x N x K of elements of a kind. `output_bytes` are those of an element of D."""

    m: int
    n: int
    k: int
    kind: Kind
    output_bytes: int = 2
    members: int = 1

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.n * self.k * self.members


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
    def block(self) -> float:
        return max(self.limits.values())

    @property
    def main(self) -> float:
        return self.k_blocks * self.block + self.other


def predict(kernel: Kernel, work: Work, gpu: Gpu, *, burst: bool = False, power: float = 1.0) -> Prediction:
    """The predicted time of a kernel's work.

    `burst`: after a rest, where the GPU has such limits. `power`: a factor of the power limit, for a machine
    that is known to be faster or slower. Raises WeftError for a kind that the GPU doesn't multiply.
    """
    kind = work.kind
    if kind.name not in gpu.flops:
        legal = ", ".join(gpu.flops)
        raise WeftError(f"types must be of a kind that {gpu.name} multiplies, {legal}, got {kind.name}")
    if (gpu.instruction == "mma.sync") != (kernel.warps != (0, 0)):
        got = "tcgen05" if gpu.instruction == "mma.sync" else "mma.sync"
        raise WeftError(
            f"schedule must be of {gpu.instruction} for a model of {gpu.name}, got one of {got}: "
            f"compile for {gpu.chip}"
        )
    tile, cycles_a_us = _tile(kernel, work, gpu), gpu.clock_ghz * 1e3
    down, across = kernel.tiles(work.m, work.n)
    tiles, units = down * across * kernel.splits * work.members, _units(kernel, gpu)
    waves = ceil_div(tiles, units)
    each = max(tile.main + tile.exposed, tile.epilogue)
    launch = gpu.launch_us + gpu.latency_us + (tile.epilogue - tile.exposed) / cycles_a_us
    counts = _counts(kernel, work, gpu, (down, across, waves, tile.k_blocks))
    share = tiles / units / cycles_a_us
    parts = {name: limit * tile.k_blocks * share for name, limit in tile.limits.items()}
    parts["epilogue"] = parts.get("epilogue", 0.0) + tile.exposed * share
    parts |= {"tail": (waves - tiles / units) * each / cycles_a_us, "launch": launch}
    memory = {"L2": counts.l2_bytes / gpu.l2_gb_s / 1e3, "DRAM": counts.dram_bytes / gpu.dram_gb_s / 1e3}
    computed = waves * each / cycles_a_us
    times = {"": launch + computed} | {name: launch + value for name, value in memory.items()}
    if (limit := _power_limit(kernel, kind, gpu, burst)) is not None:
        peak = gpu.flops[kind.name] / (1 - kernel.k_96 / 3)  # of a multiprocessor in a cycle
        ideal = work.flops / (gpu.multiprocessors * peak) / cycles_a_us
        memory["power"] = work.flops / (limit * power * 1e6) / (ideal / times[""]) ** gpu.idle_power
        times["power"] = memory["power"]
    name = max(times, key=lambda each: times[each])
    bound = name or max(parts, key=lambda each: parts[each])
    ordered = {name: parts[name] for name in tile.limits} | memory | parts
    return Prediction(times[name], bound, ordered, counts, work.flops)


def _units(kernel: Kernel, gpu: Gpu) -> int:
    """Tiles that are computed at a time."""
    return max(gpu.multiprocessors // kernel.ctas * kernel.ctas // kernel.cta_group, 1) * kernel.resident


def _power_limit(kernel: Kernel, kind: Kind, gpu: Gpu, burst: bool) -> float | None:
    """TFLOP/s at the power limit; None where none is known."""
    limit, longer = (gpu.cap(kind.name + suffix, burst=burst) for suffix in ("", "_k96"))
    if limit is None or longer is None or not kernel.k_96:
        return limit
    return 1 / (kernel.k_96 / longer + (1 - kernel.k_96) / limit)


def _steps(kernel: Kernel, kind: Kind) -> float:
    """The instructions of tcgen05 along a K block."""
    return kernel.k_block * kind.shared_bits / 8 / STEP_BYTES * (1 - kernel.k_96 / 3)


def _tile(kernel: Kernel, work: Work, gpu: Gpu) -> _Tile:
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
            math, reads = (each + scales / 512 * _SCALE_COPY for each in (math, reads))
    fill = copied / gpu.copy_gb_s * gpu.clock_ghz
    latency, busy = gpu.latency_us * gpu.clock_ghz * 1e3, max(math, reads)
    limits = {
        "tensor cores": math * kernel.resident,
        "shared memory": reads * kernel.resident,
        "TMA": max(fill * kernel.resident, (latency + fill + busy + _COMMIT) / kernel.stages),
    }
    on_each = kernel.tile[1] * kernel.parts / kernel.epilogues
    if kernel.promoted:
        adding = _PROMOTE[0] + _PROMOTE[1] * on_each if tcgen05 else rows * columns / _ADDS
        limits["epilogue"] = adding
    if tcgen05:
        epilogue = _EPILOGUE[0] + _EPILOGUE[1] * on_each * (_EARLY if kernel.early else 1.0)
    else:
        epilogue = _EPILOGUE[0] + rows * columns * work.output_bytes / _STORE
    exposed = epilogue
    if kernel.accumulators > 1 and not kernel.promoted:
        exposed = _EPILOGUE[0] + _EPILOGUE[1] * kernel.shared if kernel.shared else 0.0
    other = _COMMIT + (0.0 if kernel.persistent else _SET_UP + latency)
    if kernel.splits > 1:
        sums = 4 * rows * kernel.tile[1]
        other += (_SPLIT_US + 2 * sums / gpu.copy_gb_s / 1e3) * gpu.clock_ghz * 1e3
    return _Tile(limits, ceil_div(ceil_div(work.k, kernel.k_block), kernel.splits), epilogue, exposed, other)


def _tcgen05_block(kernel: Kernel, kind: Kind, gpu: Gpu) -> tuple[float, float]:
    """Cycles in which tcgen05.mma multiplies a K block, and reads it from shared memory."""
    m, n = kernel.part
    reads = (m + n) / kernel.cta_group * STEP_BYTES / _READ
    reads += _PAIR_READ[m] if kernel.cta_group == 2 else 0.0
    steps = kernel.parts * _steps(kernel, kind)
    wide = kernel.cta_group == 1 or m == 256  # those of a pair with 64 rows each take half of the time
    rate = gpu.flops["bf16"] / 8192
    return steps * n / (2 if wide else 4) / rate, steps * reads


def _mma_sync_block(kernel: Kernel, kind: Kind, gpu: Gpu) -> tuple[float, float]:
    """Cycles in which mma.sync multiplies a K block, and in which warps read it from shared memory."""
    (m, n), (down, across) = kernel.tile, kernel.warps
    math = 2 * m * n * kernel.k_block / gpu.flops[kind.name]
    reads = (m * across + n * down) * kernel.k_block * kind.shared_bits / 8 / _READ
    # Loads and products share issue slots, so that neither hides the other wholly.
    return math + _ISSUED * reads + _K_BLOCK, reads


def _counts(kernel: Kernel, work: Work, gpu: Gpu, covered: tuple[int, int, int, int]) -> Counts:
    """What a kernel does for a product that `covered` tiles down and across, waves and K blocks cover."""
    (down, across, waves, k_blocks), kind, members = covered, work.kind, work.members
    tiles = down * across * members
    height, width = kernel.tile
    shared = height / kernel.cluster[1] + width / kernel.cluster[0]
    sums = 2 * 4 * work.m * work.n * kernel.splits * members if kernel.splits > 1 else 0
    copied = tiles * kind.bytes_of(shared * work.k) + sums
    read = members * (_read(kernel, work, gpu, down, across) + work.m * work.n * work.output_bytes)
    steps = ceil(_steps(kernel, kind))
    instructions = tiles * kernel.splits * k_blocks * kernel.parts * steps
    if kernel.warps != (0, 0):
        instructions = tiles * k_blocks * steps * (height // 16) * (width // 8)
    return Counts(tiles * kernel.splits, waves, k_blocks, instructions, copied, read)


def _read(kernel: Kernel, work: Work, gpu: Gpu, down: int, across: int) -> float:
    """Bytes of A and B that are read from memory. An operand that fits half of the L2 cache is read once.
    Otherwise, the rows of a group of tiles are read once if they fit, and the columns for each group.
    """
    kind, k = work.kind, work.k
    heights, widths = kernel.swapped(work.m, work.n)
    units, half = _units(kernel, gpu), gpu.l2_bytes / 2
    rows = min(max(kernel.group, ceil(units / across)), down)
    of_rows, of_columns = (kind.bytes_of(extent * k) for extent in (heights, widths))
    if of_rows > half and kind.bytes_of(rows * kernel.tile[0] * k) > half:
        of_rows *= ceil(rows * across / units)
    if of_columns > half:
        of_columns *= ceil(down / rows)
    return of_rows + of_columns
