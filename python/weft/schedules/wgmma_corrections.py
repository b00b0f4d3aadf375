"""Corrections of the times that the model of `wgmma` kernels has, by what schedules of one product differ in.

The model was fitted to times of all products. Which schedule a product gets depends only on the differences
between its schedules, to which these small terms were fitted. Each is a share of a kernel's time, or cycles.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from weft.dialects.product_types import Types, ceil_div
from weft.isa import tensor_map
from weft.isa.chips import LINE_BYTES
from weft.schedules.wgmma_kernels import Array, Kernels, row_elements

_WIDE = 32  # bytes at whose multiples rows begin that L2 reads without neighbors
_BOUND = 3
"""The exponent of memory's share of a product's time: the larger it is, the less a share below 1 counts."""


@dataclass(frozen=True)
class Case:
    """Kernels and the sizes that they multiply; the `cycles` that the model has for them, and those that
    memory takes to move all data (`moved`); `ctas`, if each computes one tile; `blocks`, the K blocks of a
    tile that one CTA multiplies; and the cycles of a `tile` beside these, and of the start and `end`.
    """

    kernels: Kernels
    m: Array
    n: Array
    k: Array
    cycles: Array
    moved: Array
    ctas: Array
    blocks: Array
    tile: Array
    end: Array

    @property
    def clustered(self) -> Array:
        return self.kernels.ctas > 1

    def of_size(self, ctas: int) -> Array:
        """Whether so many CTAs share copies."""
        return (self.kernels.ctas == ctas) & (self.kernels.splits == 1)

    def cost(self, which: Array) -> Array:
        """A thousand cycles of some kernels, as a share of their times."""
        return which * 1000 / self.cycles


def _of_odd_rows(case: Case) -> Array:
    types = case.kernels.types
    of_a, _ = row_elements(types, case.m, case.n, case.k)
    return case.clustered & (of_a * types.input_bytes % _WIDE != 0)


def _beyond_the_rows(case: Case) -> Array:
    rows, _ = case.kernels.swapped(case.m, case.n)
    return np.log(ceil_div(rows, case.kernels.rows) * case.kernels.rows / rows)


def _pieces(case: Case) -> tuple[Array, Array]:
    """The pieces of rows of D that a multiprocessor's warpgroups write at a time through shared memory, and
    the bytes of each.
    """
    kernels, size = case.kernels, case.kernels.types.output_bytes
    parts = np.where(kernels.in_strips, LINE_BYTES // size, kernels.columns // kernels.staging_parts)
    width = np.where(kernels.swap, kernels.rows_of_warpgroups, parts) * size
    return kernels.staged * case.m * case.n * size / width / kernels.gpu.multiprocessors, width


def _pieces_of_lines(case: Case) -> Array:
    count, width = _pieces(case)
    return case.cost(count * (width % LINE_BYTES != 0))


def _pieces_of_sectors(case: Case) -> Array:
    count, _ = _pieces(case)
    beside = np.where(case.kernels.swap, case.kernels.height, case.kernels.width)  # written at the same time
    return case.cost(count / beside * (case.n * case.kernels.types.output_bytes % _WIDE != 0))


def _written_by_clusters(case: Case) -> Array:
    written = case.m * case.n * case.kernels.types.output_bytes / case.kernels.gpu.memory
    return written / case.cycles * np.log(case.kernels.ctas)


def _idle(case: Case) -> Array:
    """The logarithm of the share of multiprocessors that have a CTA, where memory bounds a product: fewer
    read more slowly.
    """
    kernels = case.kernels
    turns = ceil_div(case.ctas, kernels.resident) * kernels.gpu.multiprocessors
    return (case.moved / case.cycles) ** _BOUND * np.log(case.ctas / turns)


TERMS: Mapping[str, Callable[[Case], Array]] = {
    "parted": lambda case: case.kernels.staging_parts > 1,
    "of_4": lambda case: case.of_size(4),
    "of_4_cycles": lambda case: case.cost(case.of_size(4)),
    "of_8": lambda case: case.of_size(8),
    "clusters_of_odd_rows": _of_odd_rows,
    "clusters_of_mn_major_a": lambda case: case.clustered & case.kernels.types.transposed[0],
    "beyond_the_rows": _beyond_the_rows,
    "blocks": lambda case: np.log(case.blocks),
    "splits_cycles": lambda case: case.cost(case.kernels.splits > 1),
    "global_splits_cycles": lambda case: case.cost(case.kernels.global_splits > 1),
    "stages": lambda case: np.log(case.kernels.stages),
    "of_2_stages": lambda case: case.kernels.stages == 2,
    "of_3_stages": lambda case: case.kernels.stages == 3,
    "clusters_cycles": lambda case: case.cost(case.clustered & (case.kernels.splits == 1)),
    "global_splits": lambda case: np.log(case.kernels.global_splits),
    "pieces_of_lines": _pieces_of_lines,
    "pieces_of_sectors": _pieces_of_sectors,
    "written_by_clusters": _written_by_clusters,
    "idle": _idle,
}
"""The terms by name: logarithms of times, or shares of a time. `h200` has their numbers."""
LEVEL = "level"
"""The number that is the same for all kernels: with it, the others change no time in the mean."""


def are_corrected(types: Types) -> bool:
    """Whether times of products of these types are corrected: others weren't measured often enough."""
    return types.input_bytes == 2


def factor(case: Case, numbers: Mapping[str, float]) -> Array:
    """What the cycles of kernels are multiplied by. Only products with aligned rows were measured often
    enough.
    """
    if not numbers or not are_corrected(case.kernels.types):
        return 1.0
    total: Array = numbers[LEVEL]
    for name, term in TERMS.items():
        total = total + numbers[name] * term(case)
    types = case.kernels.types
    of_a, of_b = row_elements(types, case.m, case.n, case.k)
    wide = (of_a * types.input_bytes, of_b * types.input_bytes, case.n * types.output_bytes)
    aligned = np.logical_and.reduce([size % tensor_map.ROW_BYTES == 0 for size in wide])
    return np.where(aligned, np.exp(total), 1.0)
