"""The cycles of `wgmma` kernels, of many at once: what the time model computes.

Times are cycles of a multiprocessor; `chip_models` has the model's numbers for each chip.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from math import gcd
from typing import Any

import numpy as np

from weft.dialects.schedule import OTHER_REGISTERS, Types, WarpgroupSchedule, staging_parts
from weft.dialects.tile_rings import STAGE_BARRIER_BYTES
from weft.isa import tensor_map, wgmma
from weft.isa.chips import WARPGROUP, Chip, register_share
from weft.schedules.chip_models import ChipModel

Array = Any  # of numpy

_READERS = 16  # tiles that are computed at a time and read the same data
_WIDEST = 128  # bytes of a panel, and of a line of L2
_UNEVEN = 3  # exponents of norms: where several resources take about as long, none hides the others wholly
_EVEN = 8


@dataclass(frozen=True)
class Kernels:
    """Schedules as columns. `tiles` has the schedules whose blocks, warpgroups and swap the kernels have;
    `tile` is the index of each kernel's.
    """

    types: Types
    chip: ChipModel
    tiles: Sequence[WarpgroupSchedule]
    tile: Array
    stages: Array
    splits: Array
    global_splits: Array
    height: Array  # of a cluster, in tiles
    width: Array
    stream_k: Array
    of_tiles: dict[str, Array] = field(default_factory=dict)
    """What was computed for all tiles, by name. Parts of these kernels share it."""

    @classmethod
    def of(cls, schedules: Sequence[WarpgroupSchedule], types: Types, chip: ChipModel) -> "Kernels":
        """The columns of some schedules."""
        return cls(
            types,
            chip,
            schedules,
            np.arange(len(schedules)),
            stages=np.array([s.stages for s in schedules]),
            splits=np.array([s.splits for s in schedules]),
            global_splits=np.array([s.global_splits for s in schedules]),
            height=np.array([s.cluster[0] for s in schedules]),
            width=np.array([s.cluster[1] for s in schedules]),
            stream_k=np.array([s.stream_k for s in schedules]),
        )

    def __len__(self) -> int:
        return len(self.tile)

    def __getitem__(self, index: Array) -> "Kernels":
        """Some of them."""
        return replace(
            self,
            tile=self.tile[index],
            stages=self.stages[index],
            splits=self.splits[index],
            global_splits=self.global_splits[index],
            height=self.height[index],
            width=self.width[index],
            stream_k=self.stream_k[index],
        )

    def of_tile(self, name: str, value: Any) -> Array:
        """A column of what a function returns for each tile. It is called once for all columns of a name."""
        if name not in self.of_tiles:
            self.of_tiles[name] = np.array([value(tile) for tile in self.tiles])
        return self.of_tiles[name][self.tile]

    @cached_property
    def rows(self) -> Array:
        return self.of_tile("rows", lambda s: s.block[0])

    @cached_property
    def columns(self) -> Array:
        return self.of_tile("columns", lambda s: s.block[1])

    @cached_property
    def stored_columns(self) -> Array:
        return self.of_tile("stored_columns", lambda s: s.stored(self.types)[1])

    @cached_property
    def depth(self) -> Array:
        return self.of_tile("depth", lambda s: s.block[2])

    @cached_property
    def swap(self) -> Array:
        return self.of_tile("swap", lambda s: s.swap)

    @cached_property
    def joined(self) -> Array:
        return self.of_tile("joined", lambda s: s.joined)

    @cached_property
    def stage_bytes(self) -> Array:
        return self.of_tile("stage_bytes", lambda s: s.stage_bytes(self.types))

    @cached_property
    def ctas(self) -> Array:
        """CTAs of a cluster."""
        return self.splits * self.height * self.width

    @cached_property
    def resident(self) -> Array:
        """CTAs that run at a time."""
        of_size = np.zeros(max(self.chip.resident) + 1, int)
        of_size[list(self.chip.resident)] = list(self.chip.resident.values())
        return of_size[self.ctas]

    @cached_property
    def staged(self) -> Array:
        """Whether D is staged in shared memory."""
        return (self.types.output_bytes <= 2) & (self.splits == 1) & (self.global_splits == 1)

    @cached_property
    def staging_parts(self) -> Array:
        """In how many parts a tile of D is staged."""
        whole = np.where(self.staged, self.rows * self.columns * self.types.output_bytes, 0)
        stage = self.stage_bytes + STAGE_BARRIER_BYTES
        room = self.chip.facts.shared_bytes - self.stages * stage
        unit = self.of_tile("staging_unit", lambda s: s.staging_unit(self.types))
        return staging_parts(whole, room, self.columns, unit)

    @cached_property
    def products(self) -> Array:
        """Cycles of a tile's products for one K block, and of adding them where they are promoted."""
        return self.of_tile("products", lambda s: product_cycles(s, self.types, self.chip))

    @cached_property
    def two_fit(self) -> Array:
        """Whether a multiprocessor holds two such CTAs: their shared memory, and their registers."""
        facts, types = self.chip.facts, self.types
        room = room_of_two(facts)
        stages = self.stages * self.stage_bytes
        of_tile = self.of_tile("sums_bytes", lambda s: 4 * s.rows_of_d * s.sums_stride)
        sums = np.where(self.splits > 1, of_tile, 0)
        staging = np.where(self.staged, self.rows * self.columns * types.output_bytes, 0)
        shared = np.maximum(stages, sums) + self.stages * STAGE_BARRIER_BYTES + staging
        registers = self.of_tile("registers_of_two_fit", lambda s: _registers_of_two_fit(s, types))
        return registers & (shared <= room)

    @cached_property
    def panels(self) -> Array:
        """The panels after the first that 128 bytes of a row of D lie in while it is staged."""
        size = self.types.output_bytes
        more = self.of_tile("panels", lambda s: _WIDEST // gcd(_WIDEST, s.block[1] * size) - 1)
        return np.where(self.staged & ~self.swap, more, 0)


def room_of_two(chip: Chip) -> int:
    """The most shared memory of a CTA of which a multiprocessor holds two; it reserves some for each."""
    return chip.sm_shared_bytes // 2 - (chip.sm_shared_bytes - chip.shared_bytes)


def _registers_of_two_fit(s: WarpgroupSchedule, types: Types) -> bool:
    registers = (s.rows + s.products(types) * wgmma.M) * s.block[1] // WARPGROUP + OTHER_REGISTERS
    return registers <= register_share(2 * s.threads)


def product_cycles(s: WarpgroupSchedule, types: Types, chip: ChipModel) -> float:
    """Cycles of a tile's products for one K block, and of adding them where they are promoted."""
    rows, columns, depth = s.block
    parts, steps = rows // wgmma.M, depth * types.input_bytes // 32
    one = steps * max(columns / 2, chip.read_a + chip.read_b * columns) * _factor(types, chip)
    if not types.promoted:
        return parts * one
    scale = (chip.scale_swapped if s.swap else chip.scale) if types.scaled else 0.0
    added = chip.promoted_drain + columns * scale
    if s.warpgroups == 1:
        return parts * (one + added)
    return parts * (one + chip.exposed * added / s.warpgroups) + chip.promote


def _factor(types: Types, chip: ChipModel) -> float:
    if types.promoted:
        return chip.factor_promoted
    if types.input_bytes == 1:
        return chip.factor_s8 if types.sums == "i32" else chip.factor_fp8
    return chip.factor_tf32 if types.input_bytes == 4 else chip.factor_16


def fill_cycles(kernels: Kernels, m: Array, n: Array, k: Array, active: Array) -> Array:
    """Cycles in which a stage is filled, where so many multiprocessors are `active`. Data that few tiles read
    at a time comes from memory for each of them, or for each cluster; what many read is in the L2 cache.
    """
    chip = kernels.chip
    asked, rare = _asked_bytes(kernels, m, n, k)
    issue = asked * np.maximum(1 / chip.ask, active / chip.l2) + chip.rare * rare * active / chip.l2
    received = kernels.stage_bytes / chip.fill
    return _norm(_UNEVEN, issue, received)


def _asked_bytes(kernels: Kernels, m: Array, n: Array, k: Array) -> tuple[Array, Array]:
    """Bytes of a stage that a CTA asks for, those of slow copies counted more than once; and of which few
    other tiles need the same. A row of a narrow panel takes as long as one of the widest.
    """
    types, chip = kernels.types, kernels.chip
    size, depth = types.input_bytes, kernels.depth * types.input_bytes
    pitches = (m if types.transposed[0] else k), (n if types.transposed[1] else k)
    down, across = np.where(kernels.swap, n, m), np.where(kernels.swap, m, n)
    readers_down = np.minimum(ceil_div(down, kernels.rows * kernels.height), _READERS)
    readers_across = np.minimum(ceil_div(across, kernels.columns * kernels.width), _READERS)
    asked: Array = 0.0
    rare: Array = 0.0
    for stored, ctas, tile, of, readers, whole, joined in (
        (kernels.rows, kernels.width, kernels.rows, (0, 1), readers_across, down, False),
        (
            kernels.stored_columns,
            kernels.height,
            kernels.columns,
            (1, 0),
            readers_down,
            across,
            kernels.joined,
        ),
    ):
        extent = stored / ctas
        pitch = np.where(kernels.swap, pitches[of[1]], pitches[of[0]])
        mn_major = np.where(kernels.swap, types.transposed[of[1]], types.transposed[of[0]])
        # MN-major tiles begin at multiples of their extent in a row.
        apart = np.where(mn_major & (tile < whole), tile, 0)
        one_by_one = mn_major & np.logical_not(joined)
        slow = np.where(joined, 0.0, _slower((pitch | apart) * size, chip))
        wide = np.where(one_by_one, np.maximum(stored, _WIDEST / size) / ctas, extent)
        crowded = np.where(one_by_one & (tile >= whole), chip.crowded, 0.0)
        asked = asked + wide * depth * (1 + slow) * (1 + crowded)
        rare = rare + extent * depth / np.sqrt(readers)
    return asked, rare


def _slower(pitch: Array, chip: ChipModel) -> Array:
    """The additional share of a copy's time by the bytes from one row of a matrix to the next."""
    values = (chip.rows_16, chip.rows_32, chip.rows_64)
    return np.select([pitch % 32 != 0, pitch % 64 != 0, pitch % 128 != 0], values, 0.0)


def cycles(kernels: Kernels, m: Array, n: Array, k: Array, members: int = 1) -> Array:
    """The cycles that a batch of products takes with each kernel. Sizes may be columns, too."""
    types, chip = kernels.types, kernels.chip
    sums = kernels.rows * kernels.columns * 4
    ctas, blocks = counts(kernels, m, n, k, members)
    whole = ctas // kernels.resident
    rest = ctas - whole * kernels.resident
    written = _store_cycles(kernels, n)
    used = np.minimum(ctas, kernels.resident) / chip.multiprocessors
    alone = kernels.ctas == 1
    end = written + np.where(alone, 0.0, chip.cluster) + chip.start + chip.start_all * used
    end = end + np.where((kernels.height > 1) & (kernels.width > 1), chip.cluster_both, 0.0)
    end = end + np.where(kernels.two_fit & alone, 0.0, chip.launch_gap)
    end = end + chip.first * (
        fill_cycles(kernels, m, n, k, np.minimum(ctas, kernels.resident)) + kernels.products
    )
    if types.scaled:  # a kernel of its own copies scales that TMA can't read
        end = end + np.where(m * 4 % tensor_map.ROW_BYTES != 0, chip.scales_copied, 0.0)
    divided = kernels.global_splits > 1
    shares = np.gcd(kernels.global_splits, kernels.columns // 8)
    waiting = chip.store_wait * written / np.where(divided, shares, 1)
    added = chip.claim + sums / chip.sums_written * (1 + chip.slices * (kernels.global_splits - 1))
    tile = chip.tile + waiting + np.where(divided, added, 0.0)
    stored = np.where(n * types.output_bytes % tensor_map.ROW_BYTES != 0, chip.stored_part, 0.0)
    tile = tile + (chip.staged_part + stored) * (kernels.staging_parts - 1)
    tile = tile + np.where(kernels.splits > 1, sums / chip.cluster_sums, 0.0)
    full = block_cycles(kernels, m, n, k, kernels.resident)
    last = block_cycles(kernels, m, n, k, np.maximum(rest, 1))
    tiles = whole * (blocks * full + tile) + np.where(rest > 0, blocks * last + tile, 0.0)
    if kernels.stream_k.any():
        even = ctas / kernels.resident * blocks * full + ceil_div(ctas, kernels.resident) * chip.tile
        even = even + whole * waiting + chip.streamed + 2 * sums / chip.sums_written
        tiles = np.where(kernels.stream_k & (rest > 0), even, tiles)
    moved = members * (_read_bytes(kernels, m, n, k) + m * n * types.output_bytes)
    return _norm(_EVEN, tiles, moved / chip.memory) + end


def _read_bytes(kernels: Kernels, m: Array, n: Array, k: Array) -> Array:
    """Bytes of A and B that are read from memory. L2 doesn't keep the data of K slices: a line of which a
    copy needs a part is read again for the next.
    """
    types, size = kernels.types, kernels.types.input_bytes
    total: Array = 0
    for transposed, extent in zip(types.transposed, (m, n), strict=True):
        partial = ((extent if transposed else k) * size) % _WIDEST != 0
        again = kernels.chip.again * partial * (kernels.global_splits > 1)
        total = total + extent * k * size * (1 + again)
    return total


def counts(kernels: Kernels, m: Array, n: Array, k: Array, members: int = 1) -> tuple[Array, Array]:
    """The CTAs that compute all tiles, if each computes one, and the K blocks of each."""
    down, across = np.where(kernels.swap, n, m), np.where(kernels.swap, m, n)
    clusters = ceil_div(down, kernels.rows * kernels.height) * ceil_div(
        across, kernels.columns * kernels.width
    )
    slices = kernels.splits * kernels.global_splits
    return clusters * kernels.ctas * kernels.global_splits * members, ceil_div(k, kernels.depth * slices)


def block_cycles(kernels: Kernels, m: Array, n: Array, k: Array, active: Array) -> Array:
    """Cycles of a K block, where so many multiprocessors are `active`."""
    chip, products = kernels.chip, kernels.products
    fill = fill_cycles(kernels, m, n, k, active)
    # A warpgroup that leaves products in flight releases a stage one block late.
    late = 0 if kernels.types.promoted else kernels.of_tile("overlaps", lambda s: int(s.overlaps))
    _, rare = _asked_bytes(kernels, m, n, k)
    of_memory = rare / kernels.stage_bytes
    latency = chip.copy_latency + chip.memory_latency * of_memory
    latency = (latency + fill + products) / (kernels.stages - late)
    return np.maximum(_norm(_UNEVEN, products, fill), latency) + chip.k_block


def _store_cycles(kernels: Kernels, n: Array) -> Array:
    """Cycles in which a CTA's part of a tile of D is written."""
    chip, size = kernels.chip, kernels.types.output_bytes
    slower = 1 + chip.narrow * kernels.panels + np.where(n * size % 32 != 0, chip.store_16, 0.0)
    return kernels.rows * kernels.columns * size / kernels.splits / chip.store * slower


def _norm(exponent: int, *times: Array) -> Array:
    """A smooth maximum."""
    most = reduce(np.maximum, times)
    total: Array = 0.0
    for time in times:
        total = total + (time / most) ** exponent
    return most * total ** (1 / exponent)


def ceil_div(a: Array, b: Array) -> Array:
    """Of integers, rounded up."""
    return -(-a // b)
