"""The numbers of the time model of `wgmma` kernels, fitted to measured times: one row for each chip.

`benchmarks/model/fit_model.py --fit` fits them, and prints a row.
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

    promoted_drain: float  # from the end of a product to the start of the next: between, sums are promoted
    scale: float  # for each column of 64 rows of sums that is scaled
    scale_swapped: float  # the same, where each column has a scale of its own
    promote: float  # for each K block that several warpgroups promote
    exposed: float  # share of a warpgroup's additions that the others' products don't hide

    fill: float  # rate at which a multiprocessor receives copies
    ask: float  # rate at which a multiprocessor asks for them
    l2: float  # and at which L2 delivers to all of them
    rare: float  # additional share of a copy's time for data that few other tiles read
    # Additional shares for rows that begin at odd multiples of 16, 32 and 64 bytes.
    rows_16: float
    rows_32: float
    rows_64: float
    crowded: float  # the same for rows of an MN-major operand that one tile spans: all CTAs read them at once
    copy_latency: float
    memory_latency: float  # in addition, of data that few tiles read
    k_block: float  # for each K block, in addition to its products
    memory: float  # rate of the chip's memory
    again: float  # share of a K slice's data that memory delivers twice if rows begin inside lines of L2

    first: float  # share of a K block's time before the first product
    start: float  # for each product, in addition to its tiles
    start_all: float  # the same where all multiprocessors take part
    scales_copied: float  # the same where scales are copied to rows that TMA can read
    tile: float  # for each tile, in addition to its K blocks
    store: float  # rate at which a multiprocessor writes
    store_16: float  # additional share of that time for rows of D that begin at odd multiples of 16 bytes
    narrow: float  # the same for each panel after the first in 128 bytes of a row
    store_wait: float  # share of a tile's stores that it waits for
    staged_part: float  # for each part after the first in which a tile of D is staged
    stored_part: float  # in addition, where threads store it, since TMA can't write the rows of D
    written_beside: float  # share of a tile's stores by which they slow down the copies of the next tile down
    launch_gap: float  # between launches with clusters, or where a multiprocessor can't hold a CTA of each

    cluster: float  # for a cluster, whose CTAs start and end together
    cluster_both: float  # in addition, where its CTAs share copies of A and of B
    cluster_sums: float  # rate at which a CTA of a cluster writes sums and reads those of others
    claim: float  # from a CTA's arrival at a counter to the first sums of other CTAs
    sums_written: float  # rate at which a multiprocessor writes sums to global memory
    slices: float  # additional share of that time for each further CTA whose sums a CTA waits for
    streamed: float  # for a product whose last wave's K blocks all CTAs divide

    corrections: Mapping[str, float]  # by the names of `wgmma_corrections`

    @property
    def facts(self) -> Chip:
        """The chip's limits."""
        return CHIPS[self.chip]


H200 = ChipModel(
    chip="sm_90a",
    gpu="NVIDIA H200",
    multiprocessors=132,
    clock_mhz=1980,
    resident=MappingProxyType({1: 132, 2: 132, 4: 120, 8: 120}),
    read_a=13.59,
    read_b=0.3915,
    factor_16=1.061,
    factor_tf32=1.145,
    factor_fp8=1.082,
    factor_s8=1.175,
    factor_promoted=1.0,
    promoted_drain=99.01,
    scale=0.9185,
    scale_swapped=5.789,
    promote=63.02,
    exposed=0.562,
    fill=92.16,
    ask=225.0,
    l2=25190.0,
    rare=7.206,
    rows_16=2.668,
    rows_32=1.066,
    rows_64=0.6814,
    crowded=0.5,
    copy_latency=1071.0,
    memory_latency=448.1,
    k_block=30.94,
    memory=2127.0,
    again=0.1674,
    first=0.4798,
    start=1615.0,
    start_all=1632.0,
    scales_copied=5218.0,
    tile=0.0001404,
    store=81.04,
    store_16=0.3638,
    narrow=0.1394,
    store_wait=3.225,
    staged_part=700.0,
    stored_part=2000.0,
    written_beside=2.0,
    launch_gap=400.0,
    cluster=1300.0,
    cluster_both=600.0,
    cluster_sums=15.61,
    claim=2494.0,
    sums_written=12.9,
    slices=0.025,
    streamed=4816.0,
    corrections=MappingProxyType(
        {
            "level": 0.0171,
            "parted": -0.00346,
            "of_4": -0.0116,
            "of_4_cycles": -0.0474,
            "of_8": -0.00493,
            "clusters_of_odd_rows": -0.0224,
            "clusters_of_mn_major_a": 0.0221,
            "beyond_the_rows": 0.0221,
            "blocks": -0.0127,
            "splits_cycles": -0.0503,
            "global_splits_cycles": -0.254,
            "stages": 0.02,
            "of_2_stages": 0.0401,
            "of_3_stages": 0.0151,
            "clusters_cycles": -1.46,
            "global_splits": 0.00989,
            "pieces_of_lines": 0.0031,
            "pieces_of_sectors": 0.000919,
            "written_by_clusters": 0.0493,
            "idle": -0.133,
        }
    ),
)

CHIP_MODELS = {row.chip: row for row in (H200,)}


def chip_model(chip: str) -> ChipModel:
    """The row of a chip. Raises WeftError for a chip without one."""
    if (row := CHIP_MODELS.get(chip)) is None:
        raise WeftError(f"chip must be one with a chip model, {', '.join(CHIP_MODELS)}, got {chip}")
    return row
