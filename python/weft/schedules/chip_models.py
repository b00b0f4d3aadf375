"""The numbers of the time model of `wgmma` kernels, measured and fitted: one row for each chip."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from weft.errors import WeftError
from weft.isa.chips import CHIPS, Chip


@dataclass(frozen=True, eq=False)
class ChipModel:
    """One chip. Times are cycles of a multiprocessor, rates are bytes a cycle; both were fitted to measured
    times unless the comment names another source.
    """

    chip: str
    gpu: str  # that the numbers were fitted to
    multiprocessors: int
    clock_mhz: int  # the highest, as the driver reports it
    resident: Mapping[int, int]  # CTAs that run at a time, in clusters of each size, as the driver reports it

    # A product of 64 rows that isn't bound by its multiplications reads A once, and B, from shared memory.
    read_a: float
    read_b: float  # for each column
    product_factor: float  # time of products relative to that of the tensor cores alone
    drain: float  # from the end of a product to the start of the next, where nothing else is in flight

    scale: float  # for each column of 64 rows of sums that is scaled
    scale_swapped: float  # the same, where each column has a scale of its own
    promote: float  # for each K block that several warpgroups promote
    other_scale: float  # for each run of columns with another scale of B than the one before
    shared_rows: float  # factor of a K block's time where two CTAs share rows, 128 a warpgroup
    exposed: float  # share of a warpgroup's additions that the others' products don't hide

    fill: float  # rate at which a multiprocessor receives copies
    fill_unshared: float  # the same, for data that no other multiprocessor reads
    copy_latency: float
    k_block: float  # for each K block, in addition to its products
    memory: float  # rate of the chip's memory

    tile: float  # for each tile, in addition to its K blocks
    store: float  # rate at which a multiprocessor writes
    narrow: float  # additional share of that time for each panel after the first in 128 bytes of a row
    store_wait: float  # share of a tile's stores that it waits for
    launch_gap: float  # between launches, where a multiprocessor can't hold a CTA of each

    cluster: float  # for a cluster, which starts and ends together
    cluster_sums: float  # rate at which a CTA of a cluster writes sums and reads those of others
    claim: float  # from a CTA's arrival at a counter to the first sums of other CTAs
    sums_written: float  # rate at which a multiprocessor writes sums to global memory
    sums_read: float  # and reads them

    @property
    def facts(self) -> Chip:
        """The chip's limits."""
        return CHIPS[self.chip]


H200 = ChipModel(
    chip="sm_90a",
    gpu="NVIDIA H200",
    multiprocessors=132,
    clock_mhz=1980,
    resident=MappingProxyType({1: 132, 2: 132, 4: 120, 8: 96}),
    read_a=21.02,
    read_b=0.3551,
    product_factor=1.066,
    drain=117.2,
    scale=0.1292,
    scale_swapped=2.976,
    promote=42.91,
    other_scale=24.58,
    shared_rows=0.9732,
    exposed=0.5508,
    fill=138.5,
    fill_unshared=33.82,
    copy_latency=1361.0,
    k_block=62.82,
    memory=2349.0,
    tile=939.8,
    store=27.99,
    narrow=0.1807,
    store_wait=0.668,
    launch_gap=900.0,
    cluster=1976.0,
    cluster_sums=13.09,
    claim=6670.0,
    sums_written=26.38,
    sums_read=70.92,
)

CHIP_MODELS = {row.chip: row for row in (H200,)}


def chip_model(chip: str) -> ChipModel:
    """The row of a chip. Raises WeftError for a chip without one."""
    if (row := CHIP_MODELS.get(chip)) is None:
        raise WeftError(f"chip must be one with a chip model, {', '.join(CHIP_MODELS)}, got {chip}")
    return row
