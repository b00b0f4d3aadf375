"""The numbers of an H200, whose kernels were measured: each with its source."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

from weft.errors import WeftError
from weft.schedules.gpu import Gpu, rates, row

FIT = "fit: benchmarks/h200-schedules.jsonl"
"""The source of the numbers that `benchmarks/model/fit_model.py --fit` writes into this file."""


@dataclass(frozen=True)
class MmaTile:
    """A tile that `mma.sync` multiplies, with 128 bytes of K in a stage that TMA copies, and the microseconds
    in which a multiprocessor multiplies 1024 bytes along K: where A, B or both are MN-major. None where the
    kernel wasn't measured, or can't read A.
    """

    rows: int
    columns: int
    consumers: tuple[int, int]
    stages: int
    us: tuple[float | None, float | None, float | None]


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedGpu(Gpu):
    """A GPU whose kernels of `wgmma` have a model that was fitted to measured times. Times are cycles of a
    multiprocessor, rates are bytes a cycle. The defaults are those of an H200.
    """

    resident: Mapping[int, int]  # CTAs that run at a time, in clusters of each size

    # A product of 64 rows that isn't bound by its multiplications reads A once, and B, from shared memory.
    read_a: float = 13.59
    read_b: float = 0.3915  # for each column
    # Time of products relative to that of the tensor cores alone.
    factor_16: float = 1.061
    factor_tf32: float = 1.145
    factor_fp8: float = 1.082
    factor_s8: float = 1.175
    factor_promoted: float = 1.0

    promoted_drain: float = 99.01  # between two products, while sums are promoted
    scale: float = 0.9185  # for each column of 64 rows of sums that is scaled
    scale_swapped: float = 5.789  # the same, where each column has a scale of its own
    promote: float = 63.02  # for each K block that several warpgroups promote
    exposed: float = 0.562  # share of a warpgroup's additions that the others' products don't hide

    fill: float = 92.16  # rate at which a multiprocessor receives copies
    ask: float = 225.0  # rate at which a multiprocessor asks for them
    l2: float = 25190.0  # and at which L2 delivers to all of them
    rare: float = 7.206  # additional share of a copy's time for data that few other tiles read
    # Additional shares for rows that begin at odd multiples of 16, 32 and 64 bytes.
    rows_16: float = 2.668
    rows_32: float = 1.066
    rows_64: float = 0.6814
    crowded: float = 0.5  # for rows of an MN-major operand that one tile spans: all CTAs read them at once
    copy_latency: float = 1071.0
    memory_latency: float = 448.1  # in addition, of data that few tiles read
    k_block: float = 30.94  # for each K block, in addition to its products
    memory: float = 2127.0  # rate of the chip's memory
    again: float = 0.1674  # share of a K slice's data that is read twice if rows begin inside lines of L2

    first: float = 0.4798  # share of a K block's time before the first product
    start: float = 1615.0  # for each product, in addition to its tiles
    start_all: float = 1632.0  # the same where all multiprocessors take part
    scales_copied: float = 5218.0  # the same where scales are copied to rows that TMA can read
    tile: float = 0.0001404  # for each tile, in addition to its K blocks
    store: float = 81.04  # rate at which a multiprocessor writes
    store_16: float = 0.3638  # additional share for rows of D that begin at odd multiples of 16 bytes
    narrow: float = 0.1394  # the same for each panel after the first in 128 bytes of a row
    store_wait: float = 3.225  # share of a tile's stores that it waits for
    staged_part: float = 700.0  # for each part after the first in which a tile of D is staged
    stored_part: float = 2000.0  # in addition, where threads store it, since TMA can't write the rows of D
    written_beside: float = 2.0  # share of a tile's stores by which they slow down copies of the next tile
    launch_gap: float = 400.0  # between launches with clusters, or where a CTA of each doesn't fit

    cluster: float = 1300.0  # for a cluster, whose CTAs start and end together
    cluster_both: float = 600.0  # in addition, where its CTAs share copies of A and of B
    cluster_sums: float = 15.61  # rate at which a CTA of a cluster writes sums and reads those of others
    claim: float = 2494.0  # from a CTA's arrival at a counter to the first sums of other CTAs
    sums_written: float = 12.9  # rate at which a multiprocessor writes sums to global memory
    slices: float = 0.025  # additional share of that time for each further CTA whose sums a CTA waits for
    streamed: float = 4816.0  # for a product whose last wave's K blocks all CTAs divide

    corrections: Mapping[str, float]  # by the names of `wgmma_cycles.Case.terms`
    brief: int  # cycles of a product, up to which room for a CTA of the next launch gains more than stages
    turns_depth: int  # elements of a row of A, up to which turns pay,
    turns_bytes: int  # and bytes where D is written from registers
    far_bytes: int  # of which L2 keeps too little from one group of tiles to the next
    short_row: int  # bytes of a row of A, up to which whole rows of D gain more than fewer reads,
    written_row: int  # and up to which a product writes more than it reads

    mma_launch_us: float  # of a product by mma.sync, in addition to its tiles
    mma_read: float  # bytes of A and B that are read in a microsecond
    mma_tiles: Mapping[str, tuple[MmaTile, ...]]  # with copies by TMA, by the elements
    mma_us: Mapping[str, tuple[float, float, float]]  # the same without TMA, in tiles of 128 x 128

    # A product whose loaders load B alone.
    loaded_us: float  # for 64 columns of B,
    loaded_wide_us: float  # and for many rows of A
    loaded_start_us: float
    loaded_slices_us: float  # in addition, with K slices

    padded_copy: float  # bytes that copies to padded rows read and write in a microsecond
    copy_us: float  # of a copy of an operand before a product, whatever its size,
    copy: float  # and the bytes of a matrix that it copies in another microsecond
    two_launches_us: float  # in which a CPU queues a copy and a product


_LARGE = 128, 128, (2, 4), 5
_HALF = 128, 64, (4, 2), 6
_SMALL = 64, 64, (2, 2), 8
_LOW = 16, 64, (1, 4), 8
_LOW_AND_WIDE = 16, 128, (1, 8), 8
_MMA_TILES = {
    "i32": (
        MmaTile(*_LARGE, (6.5, 5.4, 7.8)),
        MmaTile(*_SMALL, (2.1, 2.15, 2.7)),
        MmaTile(*_LOW, (None, 1.25, None)),
        MmaTile(*_LOW_AND_WIDE, (None, 2.1, None)),
    ),
    "f32": (
        MmaTile(*_LARGE, (6.0, 4.9, 7.1)),
        MmaTile(*_SMALL, (1.9, 1.9, 2.45)),
        MmaTile(*_LOW, (1.15, 1.15, 1.35)),
        MmaTile(*_LOW_AND_WIDE, (1.9, 1.9, 2.4)),
    ),
    "fp8": (
        MmaTile(*_HALF, (6.0, 5.7, 6.6)),
        MmaTile(*_SMALL, (3.3, 3.3, 3.65)),
        MmaTile(*_LOW, (None, 1.6, None)),
        MmaTile(*_LOW_AND_WIDE, (None, 2.7, None)),
    ),
}
_CORRECTIONS = {
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
_DRIVER = "as the driver reports it"
_REPORTS = "fit: benchmarks/h200-*.json"
_MEASURED = "measured on an H200"
_LOADED = "measured on an H100: 256 x 7168 x 4096 with rows of 4098 elements"

H200 = row(
    FittedGpu,
    *("H200", "sm_90a", "wgmma"),
    multiprocessors=(132, _DRIVER),
    clock_ghz=(1.98, f"{_DRIVER}: the highest"),
    flops=(rates(tf32=2048, bf16=4096, f16=4096, fp8=8192, s8=8192), "NVIDIA's data sheet"),
    caps=(rates(tf32=355, bf16=715, f16=695, fp8=1385, fp8_promoted=1300, s8=1490), _REPORTS),
    burst_caps=(rates(tf32=405, bf16=830, f16=795, fp8=1600, fp8_promoted=1490, s8=1590), _REPORTS),
    idle_power=(0.3, _REPORTS),
    resident=(MappingProxyType({1: 132, 2: 132, 4: 120, 8: 120}), _DRIVER),
    **{f.name: (f.default, FIT) for f in fields(FittedGpu) if type(f.default) is float},
    corrections=(MappingProxyType(_CORRECTIONS), "fit: docs/tune.md#corrections"),
    brief=(20_000, _MEASURED),
    turns_depth=(1536, _MEASURED),
    turns_bytes=(1280, _MEASURED),
    far_bytes=(32 << 20, _MEASURED),
    short_row=(1024, _MEASURED),
    written_row=(640, _MEASURED),
    mma_launch_us=(1.8, _MEASURED),
    mma_read=(4.0e6, _MEASURED),
    mma_tiles=(MappingProxyType(_MMA_TILES), _MEASURED),
    mma_us=(
        MappingProxyType({"i32": (5.9, 6.2, 7.0), "f32": (6.0, 6.0, 8.7), "fp8": (13.2, 13.2, 15.0)}),
        _MEASURED,
    ),
    loaded_us=(0.5, _LOADED),
    loaded_wide_us=(0.71, _LOADED),
    loaded_start_us=(6.0, _LOADED),
    loaded_slices_us=(4.0, _LOADED),
    padded_copy=(2.7e6, _MEASURED),
    copy_us=(0.8, _MEASURED),
    copy=(1.9e6, _MEASURED),
    two_launches_us=(22.0, f"{_MEASURED}; a single launch takes 6 to 8"),
)
FITTED_GPUS = {gpu.chip: gpu for gpu in (H200,)}


def fitted_gpu(chip: str) -> FittedGpu:
    """The GPU of a chip that has a fitted model. Raises WeftError where there is none."""
    if (gpu := FITTED_GPUS.get(chip)) is None:
        raise WeftError(f"chip must be one with a chip model, {', '.join(FITTED_GPUS)}, got {chip}")
    return gpu
