"""Kernels of `wgmma` as columns, many at once, and what a schedule alone determines of their time.

Times are cycles of a multiprocessor; `h200` has the numbers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from weft.dialects.product_types import Types, ceil_div
from weft.dialects.schedule import OTHER_REGISTERS, Staging, WarpgroupSchedule, added_pieces, barrier_bytes
from weft.dialects.tile_limits import MOST_PARTIES, STAGE_BARRIER_BYTES
from weft.isa import wgmma
from weft.isa.chips import LINE_BYTES, WARPGROUP, Chip, register_share
from weft.schedules.h200 import FittedGpu

Array = Any  # of numpy


class _Column(cached_property[Array]):
    """What a function returns for the tile of each of some kernels. It is called once for each tile."""

    def __init__(self, value: Callable[[WarpgroupSchedule, "Kernels"], float]) -> None:
        def column(kernels: "Kernels") -> Array:
            name = str(self.attrname)
            if name not in kernels.of_tiles:
                kernels.of_tiles[name] = np.array([value(tile, kernels) for tile in kernels.tiles])
            return kernels.of_tiles[name][kernels.tile]

        super().__init__(column)


@dataclass(frozen=True)
class Kernels:
    """Schedules as columns. `tiles` has the schedules whose blocks, warpgroups and swap the kernels have;
    `tile` is the index of each kernel's.
    """

    types: Types
    gpu: FittedGpu
    tiles: Sequence[WarpgroupSchedule]
    tile: Array
    stages: Array
    splits: Array
    global_splits: Array
    height: Array  # of a cluster, in tiles
    width: Array
    of_tiles: dict[str, Array] = field(default_factory=dict)
    """What was computed for all tiles, by name. Parts of these kernels share it."""

    @classmethod
    def of(cls, schedules: Sequence[WarpgroupSchedule], types: Types, gpu: FittedGpu) -> "Kernels":
        """The columns of some schedules."""
        return cls(
            types,
            gpu,
            schedules,
            np.arange(len(schedules)),
            stages=np.array([s.stages for s in schedules]),
            splits=np.array([s.splits for s in schedules]),
            global_splits=np.array([s.global_splits for s in schedules]),
            height=np.array([s.cluster[0] for s in schedules]),
            width=np.array([s.cluster[1] for s in schedules]),
        )

    def __len__(self) -> int:
        return len(self.tile)

    def __getitem__(self, index: Array) -> "Kernels":
        """Some of them."""
        names = ("tile", "stages", "splits", "global_splits", "height", "width")
        return replace(self, **{name: vars(self)[name][index] for name in names})

    rows = _Column(lambda s, _: s.block[0])
    columns = _Column(lambda s, _: s.block[1])
    stored_columns = _Column(lambda s, kernels: s.stored(kernels.types)[1])
    depth = _Column(lambda s, _: s.block[2])
    swap = _Column(lambda s, _: s.swap)
    joined = _Column(lambda s, _: s.joined)
    stream_k = _Column(lambda s, _: s.stream_k)
    overlaps = _Column(lambda s, _: int(s.overlaps))
    turns = _Column(lambda s, _: s.warpgroups if s.alternating else 0)
    """The warpgroups that compute tiles in turns; 0 where they share tiles."""
    rows_of_warpgroups = _Column(lambda s, _: s.rows)
    stage_bytes = _Column(lambda s, kernels: s.stage_bytes(kernels.types))
    products = _Column(lambda s, kernels: product_cycles(s, kernels.types, kernels.gpu))
    """Cycles of a tile's products for one K block, and of adding them where they are promoted."""
    _whole = _Column(lambda s, kernels: s.staging(kernels.types).whole)
    _strip = _Column(lambda s, kernels: s.staging(kernels.types).strip)
    _unit = _Column(lambda s, kernels: s.staging(kernels.types).unit)
    _sums_bytes = _Column(lambda s, _: 4 * s.rows_of_d * s.sums_stride)
    _registers_of_two_fit = _Column(lambda s, kernels: _two_have_registers(s, kernels.types))

    def swapped(self, m: Array, n: Array) -> tuple[Array, Array]:
        """What the rows and the columns of tiles cover."""
        return np.where(self.swap, n, m), np.where(self.swap, m, n)

    @cached_property
    def ctas(self) -> Array:
        """CTAs of a cluster."""
        return self.splits * self.height * self.width

    @cached_property
    def resident(self) -> Array:
        """CTAs that run at a time."""
        of_size = np.zeros(max(self.gpu.resident) + 1, int)
        of_size[list(self.gpu.resident)] = list(self.gpu.resident.values())
        return of_size[self.ctas]

    @cached_property
    def staged(self) -> Array:
        """Whether D is staged in shared memory."""
        return (self.types.output_bytes <= 2) & (self.splits == 1) & (self.global_splits == 1)

    @cached_property
    def staging(self) -> Staging:
        """How tiles of D are staged."""
        barriers = barrier_bytes(self.stages, self.turns)
        room = self.gpu.facts.shared_bytes - self.stages * self.stage_bytes - barriers
        whole, strip = (np.where(self.staged, each, 0) for each in (self._whole, self._strip))
        return Staging(whole, room, self.columns, self._unit, strip, LINE_BYTES // self.types.output_bytes)

    @cached_property
    def staging_parts(self) -> Array:
        """In how many parts a tile of D is staged."""
        return self.staging.parts

    @cached_property
    def in_strips(self) -> Array:
        """Whether a tile of D is staged in strips."""
        return self.staging.slots > 0

    @cached_property
    def added_share(self) -> Array:
        """With global splits, the largest share of a tile's columns whose sums one CTA adds up."""
        if "added_shares" not in self.of_tiles:
            of = ((s.block[1] // 8, s.vectors, s.added_at_once) for s in self.tiles)
            self.of_tiles["added_shares"] = np.array([_added_shares(*each) for each in of])
        return self.of_tiles["added_shares"][self.tile, self.global_splits]

    @cached_property
    def two_fit(self) -> Array:
        """Whether a multiprocessor holds two such CTAs: their shared memory, and their registers."""
        stages = self.stages * self.stage_bytes
        sums = np.where(self.splits > 1, self._sums_bytes, 0)
        staging = np.where(self.staged, self.rows * self.columns * self.types.output_bytes, 0)
        shared = np.maximum(stages, sums) + self.stages * STAGE_BARRIER_BYTES + staging
        return self._registers_of_two_fit & (shared <= room_of_two(self.gpu.facts))

    @cached_property
    def panels(self) -> Array:
        """The panels after the first that 128 bytes of a row of D lie in while it is staged."""
        more = LINE_BYTES // np.gcd(LINE_BYTES, self.columns * self.types.output_bytes) - 1
        return np.where(self.staged & ~self.swap & ~self.in_strips, more, 0)


@cache
def _added_shares(across: int, vectors: int, most: int) -> list[float]:
    """The largest share for each number of global splits, from 0 on."""

    def share(splits: int) -> float:
        width, ctas = added_pieces(across, vectors, splits, most)
        return float(ceil_div(across // width, ctas) * width / across)

    return [1.0, *(share(splits) for splits in range(1, MOST_PARTIES + 1))]


def room_of_two(chip: Chip) -> int:
    """The most shared memory of a CTA of which a multiprocessor holds two; it reserves some for each."""
    return chip.sm_shared_bytes // 2 - (chip.sm_shared_bytes - chip.shared_bytes)


def _two_have_registers(s: WarpgroupSchedule, types: Types) -> bool:
    registers = (s.rows + s.products(types) * wgmma.M) * s.block[1] // WARPGROUP + OTHER_REGISTERS
    return registers <= register_share(2 * s.threads)


def product_cycles(s: WarpgroupSchedule, types: Types, gpu: FittedGpu) -> float:
    """Cycles of a tile's products for one K block, and of adding them where they are promoted."""
    rows, columns, depth = s.block
    parts, steps = rows // wgmma.M, depth * types.input_bytes // 32
    one = steps * max(columns / 2, gpu.read_a + gpu.read_b * columns) * _factor(types, gpu)
    if not types.promoted:
        return parts * one
    scale = (gpu.scale_swapped if s.swap else gpu.scale) if types.scaled else 0.0
    added = gpu.promoted_drain + columns * scale
    if s.warpgroups == 1:
        return parts * (one + added)
    return parts * (one + gpu.exposed * added / s.warpgroups) + gpu.promote


def _factor(types: Types, gpu: FittedGpu) -> float:
    if types.promoted:
        return gpu.factor_promoted
    if types.input_bytes == 1:
        return gpu.factor_s8 if types.sums == "i32" else gpu.factor_fp8
    return gpu.factor_tf32 if types.input_bytes == 4 else gpu.factor_16
