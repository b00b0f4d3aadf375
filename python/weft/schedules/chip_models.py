"""The numbers of the time model of `wgmma` kernels, fitted to measured times: one row for each chip.

`weft tune --fit` fits them, and prints a row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from weft.errors import WeftError
from weft.isa.chips import CHIPS, Chip


@dataclass(frozen=True, eq=False)
class ChipModel:
    """One chip. Times are cycles of a multiprocessor, rates are bytes a cycle. Those without a default were
    fitted to measured times unless the comment names another source.
    """

    chip: str
    gpu: str  # that the numbers were fitted to
    multiprocessors: int
    clock_mhz: int  # the highest, as the driver reports it
    resident: Mapping[int, int]  # CTAs that run at a time, in clusters of each size, as the driver reports it

    # A product of 64 rows that isn't bound by its multiplications reads A once, and B, from shared memory.
    read_a: float
    read_b: float  # for each column
    factor_16: float  # time of products relative to that of the tensor cores alone, for elements of 16 bits,
    factor_tf32: float
    factor_fp8: float
    factor_s8: float
    factor_promoted: float  # and for promoted sums
    drain: float  # from the end of a product to the start of the next, where nothing else is in flight

    promoted_drain: float  # the same before sums are promoted
    scale: float  # for each column of 64 rows of sums that is scaled
    scale_swapped: float  # the same, where each column has a scale of its own
    promote: float  # for each K block that several warpgroups promote
    exposed: float  # share of a warpgroup's additions that the others' products don't hide

    fill: float  # rate at which a multiprocessor receives copies
    ask: float  # rate at which a multiprocessor asks for them
    l2: float  # and at which L2 delivers to all of them
    rare: float  # additional share of a copy's time for data that few other tiles read
    # Additional shares for rows that begin at odd multiples of 16, 32 and 64 bytes
    rows_16: float
    rows_32: float
    rows_64: float
    # and for copies of MN-major panels of 32 and 64 bytes.
    panels_32: float
    panels_64: float
    copy_latency: float
    k_block: float  # for each K block, in addition to its products
    memory: float  # rate of the chip's memory
    again: float  # share of a K slice's data that memory delivers twice if rows begin inside lines of L2

    start: float  # for each product, in addition to its tiles
    start_all: float  # the same where all multiprocessors take part
    scales_copied: float  # the same where scales are copied to rows that TMA can read
    tile: float  # for each tile, in addition to its K blocks
    store: float  # rate at which a multiprocessor writes
    store_16: float  # additional share of that time for rows of D that begin at odd multiples of 16 bytes
    narrow: float  # the same for each panel after the first in 128 bytes of a row
    store_wait: float  # share of a tile's stores that it waits for
    launch_gap: float  # between launches, where a multiprocessor can't hold a CTA of each

    cluster: float  # for a cluster, which starts and ends together
    cluster_start: float  # for a cluster whose CTAs add their sums
    cluster_sums: float  # rate at which a CTA of a cluster writes sums and reads those of others
    claim: float  # from a CTA's arrival at a counter to the first sums of other CTAs
    sums_written: float  # rate at which a multiprocessor writes sums to global memory
    streamed: float  # for a product whose last wave's K blocks all CTAs divide

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
    read_a=19.17,
    read_b=0.3497,
    factor_16=1.022,
    factor_tf32=1.062,
    factor_fp8=1.057,
    factor_s8=1.082,
    factor_promoted=1.015,
    drain=90.59,
    promoted_drain=111.3,
    scale=0.8228,
    scale_swapped=4.653,
    promote=0.01395,
    exposed=0.642,
    fill=85.12,
    ask=152.3,
    l2=16940.0,
    rare=5.007,
    rows_16=1.774,
    rows_32=0.5853,
    rows_64=0.3794,
    panels_32=2.422,
    panels_64=0.9566,
    copy_latency=1310.0,
    k_block=24.91,
    memory=2158.0,
    again=0.1583,
    start=1689.0,
    start_all=1802.0,
    scales_copied=5239.0,
    tile=1.7,
    store=42.94,
    store_16=0.3197,
    narrow=0.1277,
    store_wait=1.761,
    launch_gap=230.1,
    cluster=589.2,
    cluster_start=720.6,
    cluster_sums=12.57,
    claim=2459.0,
    sums_written=12.52,
    streamed=6463.0,
)

CHIP_MODELS = {row.chip: row for row in (H200,)}


def chip_model(chip: str) -> ChipModel:
    """The row of a chip. Raises WeftError for a chip without one."""
    if (row := CHIP_MODELS.get(chip)) is None:
        raise WeftError(f"chip must be one with a chip model, {', '.join(CHIP_MODELS)}, got {chip}")
    return row
