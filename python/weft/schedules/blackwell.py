"""The numbers of GPUs whose kernels haven't been measured: from published rates and times."""

from collections.abc import Mapping
from dataclasses import dataclass

from weft.schedules.gpu import Gpu, like, rates, row


@dataclass(frozen=True, eq=False, kw_only=True)
class PublishedGpu(Gpu):
    """A GPU whose kernels' times `predict` computes from these rates. Where no unit is named, cycles."""

    l2_bytes: int
    l2_gb_s: float
    dram_gb_s: float
    copy_gb_s: float  # that a multiprocessor receives
    latency_us: float  # from a copy's start to its data, in a loaded chip
    launch_us: float  # of a kernel, its first copies and its last stores
    commit: float  # from the last product of a tile to its commit's arrival
    set_up: float  # of a CTA that computes one tile, until its first copy
    epilogue: float
    split_us: float  # from a CTA's arrival at a counter to the first sums of other CTAs
    # With tcgen05:
    pair_reads: tuple[float, float] = (0.0, 0.0)  # that a pair's reads take more, with M = 128 and M = 256
    epilogue_column: float = 0.0  # for each column that a warpgroup reads
    early_share: float = 0.0  # of the latter, until all sums are read
    scale_copy: float = 0.0  # in which 512 bytes of scales are copied to tensor memory
    promote: float = 0.0  # in which an epilogue adds a K block's sums,
    promote_column: float = 0.0  # and for each column
    # With mma.sync:
    adds: int = 0  # promoted sums that a multiprocessor adds in a cycle
    exposed_reads: float = 0.0  # share of the reads of operands that products don't hide
    k_block: float = 0.0  # of a K block in addition
    store: float = 0.0  # bytes that a multiprocessor stores in a cycle from registers


def _flops(f16: float, *, f8: float | None = None, f4: float = 0.0, s8: bool = True) -> Mapping[str, float]:
    """The rates of all kinds, from those of 16, 8 and 4 bits. Kinds with block scales run at the rate of 8
    bits (mxfp8, mxfp6) or of 4 bits.
    """
    scaled = 2 * f16 if f8 is None else f8
    integers = {"s8": scaled} if s8 else {}
    narrow = {"mxfp8": scaled, "mxfp6": scaled, "mxfp4": f4, "nvfp4": f4} if f4 else {}
    return rates(tf32=f16 / 2, bf16=f16, f16=f16, fp8=scaled, **integers, **narrow)


def _limits(f16: float, f8: float, f4: float, **others: float) -> Mapping[str, float]:
    """Limits by kind; that of tf32 is half of f16's."""
    wide, narrow = {"tf32": f16 / 2, "bf16": f16, "f16": f16}, {"mxfp4": f4, "nvfp4": f4}
    return rates(**wide, fp8=f8, s8=f8, mxfp8=f8, mxfp6=f8, **narrow, **others)


_UMMA = "SemiAnalysis microbench-blackwell, umma_throughput (B200)"
_TMA = "SemiAnalysis microbench-blackwell, tma2d (B200)"
_CUDNN = "NVIDIA cudnn-frontend, benchmark_single_sdpa.py"
_DATA_SHEET = "NVIDIA's data sheet"
_INFERRED = "inferred"
_OF_B200 = "inferred: as on a B200"
_OF_H200 = "inferred: as on an H200"

B200 = row(
    PublishedGpu,
    *("B200", "sm_100a", "tcgen05"),
    multiprocessors=(148, _DATA_SHEET),
    clock_ghz=(1.9, "inferred from the hand-checked points; the highest is 1.965 GHz"),
    flops=(_flops(8192, f4=32768), f"{_CUDNN}; {_UMMA}"),
    caps=(
        _limits(1580, 3000, 6500),
        "fit: rows 1, 3 (bf16, f16), 8 (fp8), 5 (nvfp4); tf32 inferred as half of f16",
    ),
    l2_bytes=(126 << 20, "a survey of 8 B200"),
    l2_gb_s=(21000, "a survey of 8 B200: 21.2 TB/s; Chips and Cheese: 21 TB/s"),
    dram_gb_s=(6900, f"{_TMA}: 7.0 to 7.3 TB/s; 6.75 TB/s in the survey"),
    copy_gb_s=(155, "fit: rows 4, 11 and 14; the L2 cache's rate for each multiprocessor is 143"),
    latency_us=(0.62, f"fit: rows 11 and 14; {_TMA}: 0.7 to 0.8 us for one box"),
    launch_us=(3.1, "fit: rows 4 and 7"),
    idle_power=(0.4, "fit: rows 1 and 3"),
    commit=(180, "measured: 132 to 185"),
    set_up=(2500.0, "fit: rows 11 and 14"),
    epilogue=(256.0, _INFERRED),
    split_us=(2.5, _OF_H200),
    pair_reads=((1.0, 4.0), _INFERRED),
    epilogue_column=(6.0, _INFERRED),
    early_share=(0.3, _INFERRED),
    scale_copy=(11.0, "fit: rows 5 and 24"),
    promote=(100.0, _INFERRED),
    promote_column=(1.5, _INFERRED),
)
GB200 = like(
    B200,
    "GB200",
    multiprocessors=(152, _DATA_SHEET),
    caps=(
        _limits(1730, 3280, 6970),
        "inferred: a B200's by NVIDIA's data sheets, 2500 against 2250 TFLOP/s, for 1200 W",
    ),
)
GB300 = like(
    B200,
    "GB300",
    "sm_103a",
    multiprocessors=(152, _DATA_SHEET),
    flops=(_flops(8192, f4=32768, s8=False), f"{_OF_B200}; K = 96 takes as many cycles as K = 64 (inferred)"),
    caps=(
        _limits(1730, 3280, 7450, mxfp4_k96=9250.0, nvfp4_k96=9250.0),
        "fit: row 24 (K = 96) and the K = 64 points of row 28; others inferred: as on a GB200",
    ),
)
B300 = like(
    GB300,
    "B300",
    multiprocessors=(148, _DATA_SHEET),
    caps=(
        _limits(1640, 3110, 6900, mxfp4_k96=8600.0, nvfp4_k96=8600.0),
        "inferred: between a B200's and a GB300's, for 1100 W",
    ),
)
THOR = like(
    B200,
    "Thor",
    "sm_110a",
    multiprocessors=(20, "NVIDIA cutlass, issue 2784"),
    clock_ghz=(1.575, "inferred: 1035 TFLOP/s in dense fp4 = 20 x 32768 x 1.58 GHz"),
    flops=(B200.flops, _OF_B200),
    caps=(rates(), "none published: no limit is modeled"),
    l2_bytes=(32 << 20, "NVIDIA cutlass, issue 2784"),
    l2_gb_s=(2300, "inferred: a B200's for each multiprocessor, at Thor's clock"),
    dram_gb_s=(250, "273 GB/s nominal"),
    copy_gb_s=(B200.copy_gb_s, _OF_B200),
    latency_us=(0.9, "inferred: LPDDR5"),
    launch_us=(B200.launch_us, _OF_B200),
    idle_power=(B200.idle_power, _OF_B200),
)
RTX_5090 = row(
    PublishedGpu,
    *("RTX 5090", "sm_120a", "mma.sync"),
    multiprocessors=(170, _DATA_SHEET),
    clock_ghz=(2.6, "NVIDIA forum and gau-nernst/learn-cuda: under mma"),
    # GeForce halves plain 16- and 8-bit floats with f32 sums, not those with block scales.
    flops=(
        rates(tf32=256, bf16=512, f16=512, fp8=1024, s8=2048, mxfp8=2048, mxfp6=2048, mxfp4=4096, nvfp4=4096),
        f"{_CUDNN}; nvfp4: 4095 measured (ninfer, issue 160); gau-nernst/learn-cuda 02c",
    ),
    caps=(
        rates(bf16=208, f16=208, fp8=450, s8=524, mxfp8=700, mxfp6=700, mxfp4=1475, nvfp4=1475),
        "fit: the figures for 8192 cubed",
    ),
    l2_bytes=(96 << 20, _DATA_SHEET),
    l2_gb_s=(20000, "inferred: 64 bytes a cycle and multiprocessor"),
    dram_gb_s=(1620, "NVIDIA's data sheet, less a tenth"),
    copy_gb_s=(160, "inferred: 64 bytes a cycle"),
    latency_us=(0.62, _OF_B200),
    launch_us=(3.1, _OF_B200),
    idle_power=(0.4, _OF_B200),
    commit=(B200.commit, _OF_B200),
    set_up=(B200.set_up, _OF_B200),
    epilogue=(B200.epilogue, _INFERRED),
    split_us=(B200.split_us, _OF_H200),
    adds=(128, _INFERRED),
    exposed_reads=(0.25, _INFERRED),
    k_block=(60.0, "inferred, from an H200's 62.8"),
    store=(32.0, _INFERRED),
)
RTX_PRO_6000 = like(
    RTX_5090,
    "RTX PRO 6000",
    multiprocessors=(188, _DATA_SHEET),
    clock_ghz=(2.617, _CUDNN),
    flops=(_flops(1024, f4=4096), RTX_5090.sources["flops"]),
    caps=(rates(bf16=438, f16=438, tf32=219), "fit: bf16 at 8192 cubed (torch, 417 TFLOP/s)"),
    l2_bytes=(128 << 20, _DATA_SHEET),
    l2_gb_s=(22000, RTX_5090.sources["l2_gb_s"]),
)
GB10 = like(
    RTX_5090,
    "GB10",
    "sm_121a",
    multiprocessors=(48, _DATA_SHEET),
    clock_ghz=(2.5, "inferred: 500 TFLOP/s in dense fp4"),
    flops=(_flops(1024, f4=4096), RTX_5090.sources["flops"]),
    caps=(rates(fp8=190, mxfp8=190, mxfp6=190, mxfp4=388, nvfp4=388), "fit: CUTLASS, NVIDIA forum 359960"),
    l2_bytes=(24 << 20, _DATA_SHEET),
    l2_gb_s=(5500, RTX_5090.sources["l2_gb_s"]),
    dram_gb_s=(245, "273 GB/s nominal"),
)
