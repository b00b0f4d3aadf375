"""The cycles of `wgmma` kernels, of many at once: the model of their time.

It was fitted to times of all products. Which schedule a product gets depends only on the differences between
its schedules, to which small corrections were fitted. `h200` has the numbers of both.
"""

from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from weft.dialects.product_types import Types, ceil_div
from weft.isa import tensor_map
from weft.isa.chips import LINE_BYTES
from weft.schedules.wgmma_kernels import Array, Kernels

_READERS = 16  # tiles that are computed at a time and read the same data
_UNEVEN = 3  # exponents of norms: where several resources take about as long, none hides the others wholly
_EVEN = 8
_WIDE = 32  # bytes at whose multiples rows begin that L2 reads without neighbors
_BOUND = 3
"""The exponent of memory's share of a product's time: the larger it is, the less a share below 1 counts."""
LEVEL = "level"
"""The correction that is the same for all kernels: with it, the others change no time in the mean."""


def cycles(kernels: Kernels, m: Array, n: Array, k: Array, members: int = 1) -> Array:
    """The cycles that a batch of products takes with each kernel. Sizes may be columns, too."""
    return Case(kernels, m, n, k, members).corrected


def are_corrected(types: Types) -> bool:
    """Whether times of products of these types are corrected: others weren't measured often enough."""
    return types.input_bytes == 2


@dataclass(frozen=True)
class Case:
    """Kernels, and `members` products of M x N x K that each multiplies: their times in cycles of a
    multiprocessor, and what these depend on.
    """

    kernels: Kernels
    m: Array
    n: Array
    k: Array
    members: int = 1

    @cached_property
    def ctas(self) -> Array:
        """CTAs that compute all tiles, if each computes one."""
        kernels, (down, across) = self.kernels, self.kernels.swapped(self.m, self.n)
        rows, columns = kernels.rows * kernels.height, kernels.columns * kernels.width
        clusters = ceil_div(down, rows) * ceil_div(across, columns)
        return clusters * kernels.ctas * kernels.global_splits * self.members

    @cached_property
    def blocks(self) -> Array:
        """K blocks of a tile that one CTA multiplies."""
        kernels = self.kernels
        return ceil_div(self.k, kernels.depth * (kernels.splits * kernels.global_splits))

    @cached_property
    def active(self) -> Array:
        """CTAs that run at a time."""
        return np.minimum(self.ctas, self.kernels.resident)

    @property
    def pitches(self) -> tuple[Array, Array]:
        """Elements of a row of A and of B as they are stored."""
        mn_major_a, mn_major_b = self.kernels.types.transposed
        return self.m if mn_major_a else self.k, self.n if mn_major_b else self.k

    @cached_property
    def asked(self) -> tuple[Array, Array]:
        """Bytes of a stage that a CTA asks for, those of slow copies counted more than once; and of which few
        other tiles need the same. A row of a narrow panel takes as long as one of the widest.
        """
        kernels, types, gpu = self.kernels, self.kernels.types, self.kernels.gpu
        size, depth = types.input_bytes, kernels.depth * types.input_bytes
        down, across = kernels.swapped(self.m, self.n)
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
            kernels.swapped(*self.pitches),
            kernels.swapped(*types.transposed),
            strict=True,
        ):
            extent = stored / ctas
            # MN-major tiles begin at multiples of their extent in a row.
            apart = (pitch | np.where(mn_major & (tile < whole), tile, 0)) * size
            shares = (gpu.rows_16, gpu.rows_32, gpu.rows_64)
            slower = np.select([apart % 32 != 0, apart % 64 != 0, apart % 128 != 0], shares, 0.0)
            one_by_one = mn_major & np.logical_not(joined)
            wide = np.where(one_by_one, np.maximum(stored, LINE_BYTES / size) / ctas, extent)
            crowded = np.where(one_by_one & (tile >= whole), gpu.crowded, 0.0)
            asked = asked + wide * depth * (1 + np.where(joined, 0.0, slower)) * (1 + crowded)
            rare = rare + extent * depth / np.sqrt(readers)
        return asked, rare

    def copies(self, active: Array) -> tuple[Array, Array]:
        """Cycles in which a stage is filled, and from one copy's arrival to the next's by their latency, with
        so many multiprocessors `active`. Data that few tiles read at a time comes from memory for each of
        them, or for each cluster; what many read is in the L2 cache.
        """
        kernels, gpu, (asked, rare) = self.kernels, self.kernels.gpu, self.asked
        issue = asked * np.maximum(1 / gpu.ask, active / gpu.l2) + gpu.rare * rare * active / gpu.l2
        fill = _norm(_UNEVEN, issue, kernels.stage_bytes / gpu.fill)
        # A warpgroup that leaves products in flight releases a stage one block late.
        late = 0 if kernels.types.promoted else kernels.overlaps
        latency = gpu.copy_latency + gpu.memory_latency * (rare / kernels.stage_bytes)
        return fill, (latency + fill + kernels.products) / (kernels.stages - late)

    def block(self, active: Array) -> Array:
        """Cycles of a K block, where so many multiprocessors are `active`."""
        fill, latency = self.copies(active)
        return np.maximum(_norm(_UNEVEN, self.kernels.products, fill), latency) + self.kernels.gpu.k_block

    @cached_property
    def moved_bytes(self) -> Array:
        """Bytes of A, B and D that memory moves. L2 doesn't keep the data of K slices: a line of which a copy
        needs a part is read again for the next.
        """
        kernels, types = self.kernels, self.kernels.types
        total: Array = 0
        for extent, pitch in zip((self.m, self.n), self.pitches, strict=True):
            partial = pitch * types.input_bytes % LINE_BYTES != 0
            again = kernels.gpu.again * partial * (kernels.global_splits > 1)
            total = total + extent * self.k * types.input_bytes * (1 + again)
        return self.members * (total + self.m * self.n * types.output_bytes)

    @cached_property
    def moved(self) -> Array:
        """Cycles in which memory moves all data."""
        return self.moved_bytes / self.kernels.gpu.memory

    @cached_property
    def written(self) -> Array:
        """Cycles in which a tile of D is written."""
        kernels, gpu, size = self.kernels, self.kernels.gpu, self.kernels.types.output_bytes
        slower = 1 + gpu.narrow * kernels.panels + np.where(self.n * size % 32 != 0, gpu.store_16, 0.0)
        return kernels.rows * kernels.columns * size / kernels.splits / gpu.store * slower

    @cached_property
    def end(self) -> Array:
        """Cycles of the launch, the first copy and the last stores."""
        kernels, gpu, alone = self.kernels, self.kernels.gpu, self.kernels.ctas == 1
        used = self.active / gpu.multiprocessors
        end = self.written + np.where(alone, 0.0, gpu.cluster) + gpu.start + gpu.start_all * used
        end = end + np.where((kernels.height > 1) & (kernels.width > 1), gpu.cluster_both, 0.0)
        end = end + np.where(kernels.two_fit & alone, 0.0, gpu.launch_gap)
        fill, _ = self.copies(self.active)
        end = end + gpu.first * (fill + kernels.products)
        if kernels.types.scaled:  # a kernel of its own copies scales that TMA can't read
            end = end + np.where(self.m * 4 % tensor_map.ROW_BYTES != 0, gpu.scales_copied, 0.0)
        return end

    @cached_property
    def waiting(self) -> Array:
        """Cycles in which a tile waits for its stores."""
        kernels = self.kernels
        share = np.where(kernels.global_splits > 1, kernels.added_share, 1)
        return kernels.gpu.store_wait * self.written * share

    @cached_property
    def tile(self) -> Array:
        """Cycles of a tile in addition to its K blocks."""
        kernels, gpu, sums = self.kernels, self.kernels.gpu, self.kernels.rows * self.kernels.columns * 4
        added = gpu.claim + sums / gpu.sums_written * (1 + gpu.slices * (kernels.global_splits - 1))
        tile = gpu.tile + self.waiting + np.where(kernels.global_splits > 1, added, 0.0)
        row = self.n * kernels.types.output_bytes
        stored = np.where(row % tensor_map.ROW_BYTES != 0, gpu.stored_part, 0.0)
        part = np.where(kernels.turns > 0, 0.0, gpu.staged_part) + stored
        tile = tile + part * (kernels.staging_parts - 1)
        return tile + np.where(kernels.splits > 1, sums / gpu.cluster_sums, 0.0)

    @cached_property
    def cycles(self) -> Array:
        """Cycles of the products, without corrections."""
        kernels, gpu, blocks, tile = self.kernels, self.kernels.gpu, self.blocks, self.tile
        whole = self.ctas // kernels.resident
        rest = self.ctas - whole * kernels.resident
        full, last = self.block(kernels.resident), self.block(np.maximum(rest, 1))
        tiles = whole * (blocks * full + tile) + np.where(rest > 0, blocks * last + tile, 0.0)
        count = ceil_div(self.ctas, kernels.resident)
        if (turns := kernels.turns).any():
            own = kernels.rows / kernels.width + kernels.columns / kernels.height
            beside = gpu.written_beside * self.written * (own / (kernels.rows + kernels.columns))
            each = _norm(_EVEN, blocks * full + beside, (blocks * full + tile) / np.maximum(turns, 1))
            one = blocks * np.where(rest > 0, last, full) + tile
            tiles = np.where(turns > 0, (count - 1) * each + one, tiles)
        if kernels.stream_k.any():
            even = self.ctas / kernels.resident * blocks * full + count * gpu.tile + whole * self.waiting
            even = even + gpu.streamed + 2 * (kernels.rows * kernels.columns * 4) / gpu.sums_written
            tiles = np.where(kernels.stream_k & (rest > 0), even, tiles)
        return _norm(_EVEN, tiles, self.moved) + self.end

    @cached_property
    def parts(self) -> dict[str, Array]:
        """Cycles that the products would take if one resource alone were limited. `tail`: those in which some
        multiprocessors have no tile.
        """
        turns = self.ctas / self.kernels.resident
        idle = ceil_div(self.ctas, self.kernels.resident) - turns
        return {
            "tensor cores": self.kernels.products * self.blocks * turns,
            "TMA": np.maximum(*self.copies(self.active)) * self.blocks * turns,
            "DRAM": self.moved,
            "epilogue": self.tile * turns,
            "tail": (self.blocks * self.block(self.active) + self.tile) * idle,
            "launch": self.end,
        }

    def of_size(self, ctas: int) -> Array:
        """Whether so many CTAs share copies."""
        return (self.kernels.ctas == ctas) & (self.kernels.splits == 1)

    def cost(self, which: Array) -> Array:
        """A thousand cycles of some kernels, as a share of their times."""
        return which * 1000 / self.cycles

    @property
    def terms(self) -> dict[str, Array]:
        """What corrections are in proportion to: logarithms of times, or shares of a time."""
        kernels, types, size = self.kernels, self.kernels.types, self.kernels.types.output_bytes
        clustered, (of_a, _), (rows, _) = kernels.ctas > 1, self.pitches, kernels.swapped(self.m, self.n)
        # The pieces of rows of D that a multiprocessor's warpgroups write at a time through shared memory.
        parts = np.where(kernels.in_strips, LINE_BYTES // size, kernels.columns // kernels.staging_parts)
        width = np.where(kernels.swap, kernels.rows_of_warpgroups, parts) * size
        pieces = kernels.staged * self.m * self.n * size / width / kernels.gpu.multiprocessors
        beside = np.where(kernels.swap, kernels.height, kernels.width)  # written at the same time
        written = self.m * self.n * size / kernels.gpu.memory
        # Where memory bounds a product, fewer multiprocessors that have a CTA read more slowly.
        able = ceil_div(self.ctas, kernels.resident) * kernels.gpu.multiprocessors
        return {
            "parted": kernels.staging_parts > 1,
            "of_4": self.of_size(4),
            "of_4_cycles": self.cost(self.of_size(4)),
            "of_8": self.of_size(8),
            "clusters_of_odd_rows": clustered & (of_a * types.input_bytes % _WIDE != 0),
            "clusters_of_mn_major_a": clustered & types.transposed[0],
            "beyond_the_rows": np.log(ceil_div(rows, kernels.rows) * kernels.rows / rows),
            "blocks": np.log(self.blocks),
            "splits_cycles": self.cost(kernels.splits > 1),
            "global_splits_cycles": self.cost(kernels.global_splits > 1),
            "stages": np.log(kernels.stages),
            "of_2_stages": kernels.stages == 2,
            "of_3_stages": kernels.stages == 3,
            "clusters_cycles": self.cost(clustered & (kernels.splits == 1)),
            "global_splits": np.log(kernels.global_splits),
            "pieces_of_lines": self.cost(pieces * (width % LINE_BYTES != 0)),
            "pieces_of_sectors": self.cost(pieces / beside * (self.n * size % _WIDE != 0)),
            "written_by_clusters": written / self.cycles * np.log(kernels.ctas),
            "idle": (self.moved / self.cycles) ** _BOUND * np.log(self.ctas / able),
        }

    @property
    def factor(self) -> Array:
        """What corrections multiply the cycles by. Only aligned rows were measured often enough."""
        numbers, types = self.kernels.gpu.corrections, self.kernels.types
        if not numbers or not are_corrected(types):
            return 1.0
        total: Array = numbers[LEVEL]
        for name, term in self.terms.items():
            total = total + numbers[name] * term
        of_a, of_b = self.pitches
        wide = (of_a * types.input_bytes, of_b * types.input_bytes, self.n * types.output_bytes)
        aligned = np.logical_and.reduce([size % tensor_map.ROW_BYTES == 0 for size in wide])
        return np.where(aligned, np.exp(total), 1.0)

    @property
    def corrected(self) -> Array:
        """Cycles of the products."""
        return self.cycles * self.factor


def _norm(exponent: int, *times: Array) -> Array:
    """A smooth maximum."""
    most = reduce(np.maximum, times)
    total: Array = 0.0
    for time in times:
        total = total + (time / most) ** exponent
    return most * total ** (1 / exponent)
