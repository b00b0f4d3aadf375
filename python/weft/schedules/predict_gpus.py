"""The GPUs whose kernels' times can be predicted: rates and limits, each with its source.

A source "fit" names the published points (benchmarks/published/blackwell.json) or the measurements to which
the value was fitted; "inferred" marks a value that no source states.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from weft.errors import WeftError
from weft.isa.chips import CHIPS
from weft.isa.suggest import did_you_mean


@dataclass(frozen=True)
class Kind:
    """The elements that a product multiplies. Bits of an element in global and in shared memory; `group`: the
    elements along K that have one scale of 8 bits, 0 without scales.
    """

    name: str
    bits: float
    shared_bits: int
    group: int = 0

    def bytes_of(self, elements: float) -> float:
        """Bytes of that many elements in global memory, with their scales."""
        return elements * (self.bits / 8 + (1 / self.group if self.group else 0.0))


KINDS = {
    kind.name: kind
    for kind in (
        Kind("tf32", 32, 32),
        Kind("bf16", 16, 16),
        Kind("f16", 16, 16),
        Kind("fp8", 8, 8),
        Kind("s8", 8, 8),
        Kind("mxfp8", 8, 8, 32),
        Kind("mxfp6", 6, 8, 32),
        Kind("mxfp4", 4, 4, 32),
        Kind("nvfp4", 4, 4, 16),
    )
}


@dataclass(frozen=True)
class Gpu:
    """One GPU. `flops` has the multiplications and additions of a multiprocessor in a cycle, `caps` the
    TFLOP/s at the power limit, `burst_caps` those after a rest where they were measured; all by kind.
    `sources` has the source of every other field.
    """

    name: str
    chip: str
    instruction: str
    multiprocessors: int
    clock_ghz: float
    flops: Mapping[str, float]
    caps: Mapping[str, float]
    l2_bytes: int
    l2_gb_s: float
    dram_gb_s: float
    copy_gb_s: float  # that a multiprocessor receives
    latency_us: float  # from a copy's start to its data, in a loaded chip
    launch_us: float  # of a kernel, its first copies and its last stores
    idle_power: float  # exponent of the share of busy cycles in the speed at the power limit
    sources: Mapping[str, str]
    burst_caps: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def cap(self, kind: str, *, burst: bool = False) -> float | None:
        """TFLOP/s at the power limit; None where none is known."""
        return (self.burst_caps.get(kind) if burst else None) or self.caps.get(kind)


def _flops(f16: float, *, f8: float | None = None, f4: float = 0.0, s8: bool = True) -> Mapping[str, float]:
    """The rates of all kinds, from those of 16, 8 and 4 bits. Kinds with block scales run at the rate of 8
    bits (mxfp8, mxfp6) or of 4 bits.
    """
    scaled = 2 * f16 if f8 is None else f8
    rates = {"tf32": f16 / 2, "bf16": f16, "f16": f16, "fp8": scaled}
    rates |= {"s8": scaled} if s8 else {}
    rates |= {"mxfp8": scaled, "mxfp6": scaled, "mxfp4": f4, "nvfp4": f4} if f4 else {}
    return MappingProxyType(rates)


def _limits(f16: float, f8: float, f4: float, *, bf16: float | None = None, tf32: float | None = None,
          **others: float) -> Mapping[str, float]:  # fmt: skip
    """Limits by kind; those of bf16 are f16's and those of tf32 half of them where nothing else is given."""
    rates = {"tf32": tf32 or f16 / 2, "bf16": bf16 or f16, "f16": f16, "fp8": f8, "s8": f8}
    return MappingProxyType(rates | {"mxfp8": f8, "mxfp6": f8, "mxfp4": f4, "nvfp4": f4} | others)


def _but(sources: Mapping[str, str], **others: str) -> Mapping[str, str]:
    """Sources, some of them others."""
    return MappingProxyType({**sources, **others})


_UMMA = "SemiAnalysis microbench-blackwell, umma_throughput (B200)"
_TMA = "SemiAnalysis microbench-blackwell, tma2d (B200)"
_CUDNN = "NVIDIA cudnn-frontend, benchmark_single_sdpa.py"
_OF_B200 = "inferred: as on a B200"

_SOURCES_B200: Mapping[str, str] = MappingProxyType(
    {
        "multiprocessors": "NVIDIA's data sheet",
        "clock_ghz": "inferred from the hand-checked points; the highest is 1.965 GHz",
        "flops": f"{_CUDNN}; {_UMMA}",
        "caps": "fit: rows 1, 3 (bf16, f16), 8 (fp8), 5 (nvfp4); tf32 inferred as half of f16",
        "l2_bytes": "a survey of 8 B200",
        "l2_gb_s": "a survey of 8 B200: 21.2 TB/s; Chips and Cheese: 21 TB/s",
        "dram_gb_s": f"{_TMA}: 7.0 to 7.3 TB/s; 6.75 TB/s in the survey",
        "copy_gb_s": "fit: rows 4, 11 and 14; the L2 cache's rate for each multiprocessor is 143",
        "latency_us": f"fit: rows 11 and 14; {_TMA}: 0.7 to 0.8 us for one box",
        "launch_us": "fit: rows 4 and 7",
        "idle_power": "fit: rows 1 and 3",
    }
)
_B200_RATES = _flops(8192, f4=32768)
_B200_CAPS = _limits(1580, 3000, 6500)

B200 = Gpu(
    name="B200",
    chip="sm_100a",
    instruction="tcgen05",
    multiprocessors=148,
    clock_ghz=1.9,
    flops=_B200_RATES,
    caps=_B200_CAPS,
    l2_bytes=126 << 20,
    l2_gb_s=21000,
    dram_gb_s=6900,
    copy_gb_s=155,
    latency_us=0.62,
    launch_us=3.1,
    idle_power=0.4,
    sources=_SOURCES_B200,
)
GB200 = replace(
    B200,
    name="GB200",
    multiprocessors=152,
    caps=_limits(1730, 3280, 6970),
    sources=_but(
        _SOURCES_B200,
        caps="inferred: a B200's by NVIDIA's data sheets, 2500 against 2250 TFLOP/s, for 1200 W",
    ),
)
GB300 = replace(
    B200,
    name="GB300",
    chip="sm_103a",
    multiprocessors=152,
    flops=_flops(8192, f4=32768, s8=False),
    caps=_limits(1730, 3280, 7450, mxfp4_k96=9250.0, nvfp4_k96=9250.0),
    sources=_but(
        _SOURCES_B200,
        caps="fit: row 24 (K = 96) and the K = 64 points of row 28; others inferred: as on a GB200",
        flops=f"{_OF_B200}; K = 96 takes as many cycles as K = 64 (inferred)",
    ),
)
B300 = replace(
    GB300,
    name="B300",
    multiprocessors=148,
    caps=_limits(1640, 3110, 6900, mxfp4_k96=8600.0, nvfp4_k96=8600.0),
    sources=_but(GB300.sources, caps="inferred: between a B200's and a GB300's, for 1100 W"),
)
THOR = replace(
    B200,
    name="Thor",
    chip="sm_110a",
    multiprocessors=20,
    clock_ghz=1.575,
    caps=MappingProxyType({}),
    l2_bytes=32 << 20,
    l2_gb_s=2300,
    dram_gb_s=250,
    latency_us=0.9,
    sources=MappingProxyType(
        {
            "multiprocessors": "NVIDIA cutlass, issue 2784",
            "clock_ghz": "inferred: 1035 TFLOP/s in dense fp4 = 20 x 32768 x 1.58 GHz",
            "flops": _OF_B200,
            "caps": "none published: no limit is modeled",
            "l2_bytes": "NVIDIA cutlass, issue 2784",
            "l2_gb_s": "inferred: a B200's for each multiprocessor, at Thor's clock",
            "dram_gb_s": "273 GB/s nominal",
            "copy_gb_s": _OF_B200,
            "latency_us": "inferred: LPDDR5",
            "launch_us": _OF_B200,
            "idle_power": _OF_B200,
        }
    ),
)

_SM120 = MappingProxyType(
    {
        "multiprocessors": "NVIDIA's data sheet",
        "clock_ghz": "NVIDIA forum and gau-nernst/learn-cuda: under mma",
        "flops": f"{_CUDNN}; nvfp4: 4095 measured (ninfer, issue 160); gau-nernst/learn-cuda 02c",
        "caps": "fit: the figures for 8192 cubed",
        "l2_bytes": "NVIDIA's data sheet",
        "l2_gb_s": "inferred: 64 bytes a cycle and multiprocessor",
        "dram_gb_s": "NVIDIA's data sheet, less a tenth",
        "copy_gb_s": "inferred: 64 bytes a cycle",
        "latency_us": "inferred: as on a B200",
        "launch_us": _OF_B200,
        "idle_power": _OF_B200,
    }
)
RTX_5090 = Gpu(
    name="RTX 5090",
    chip="sm_120a",
    instruction="mma.sync",
    multiprocessors=170,
    clock_ghz=2.6,
    # GeForce halves plain 16- and 8-bit floats with f32 sums, not those with block scales.
    flops=MappingProxyType(
        {"tf32": 256, "bf16": 512, "f16": 512, "fp8": 1024, "s8": 2048}
        | {"mxfp8": 2048, "mxfp6": 2048, "mxfp4": 4096, "nvfp4": 4096}
    ),
    caps=MappingProxyType(
        {"bf16": 208, "f16": 208, "fp8": 450, "s8": 524, "mxfp8": 700, "mxfp6": 700}
        | {"mxfp4": 1475, "nvfp4": 1475}
    ),
    l2_bytes=96 << 20,
    l2_gb_s=20000,
    dram_gb_s=1620,
    copy_gb_s=160,
    latency_us=0.62,
    launch_us=3.1,
    idle_power=0.4,
    sources=_SM120,
)
RTX_PRO_6000 = replace(
    RTX_5090,
    name="RTX PRO 6000",
    multiprocessors=188,
    clock_ghz=2.617,
    flops=_flops(1024, f4=4096),
    caps=MappingProxyType({"bf16": 438, "f16": 438, "tf32": 219}),
    l2_bytes=128 << 20,
    l2_gb_s=22000,
    sources=_but(_SM120, clock_ghz=_CUDNN, caps="fit: bf16 at 8192 cubed (torch, 417 TFLOP/s)"),
)
GB10 = replace(
    RTX_5090,
    name="GB10",
    chip="sm_121a",
    multiprocessors=48,
    clock_ghz=2.5,
    flops=_flops(1024, f4=4096),
    caps=MappingProxyType({"fp8": 190, "mxfp8": 190, "mxfp6": 190, "mxfp4": 388, "nvfp4": 388}),
    l2_bytes=24 << 20,
    l2_gb_s=5500,
    dram_gb_s=245,
    sources=_but(
        _SM120,
        clock_ghz="inferred: 500 TFLOP/s in dense fp4",
        caps="fit: CUTLASS, NVIDIA forum 359960",
        dram_gb_s="273 GB/s nominal",
    ),
)
H200 = Gpu(
    name="H200",
    chip="sm_90a",
    instruction="wgmma",
    multiprocessors=132,
    clock_ghz=1.98,
    flops=MappingProxyType({"tf32": 2048, "bf16": 4096, "f16": 4096, "fp8": 8192, "s8": 8192}),
    caps=MappingProxyType(
        {"tf32": 355, "bf16": 715, "f16": 695, "fp8": 1385, "fp8_promoted": 1300, "s8": 1490}
    ),
    burst_caps=MappingProxyType(
        {"tf32": 405, "bf16": 830, "f16": 795, "fp8": 1600, "fp8_promoted": 1490, "s8": 1590}
    ),
    l2_bytes=60 << 20,
    l2_gb_s=9000,
    dram_gb_s=4273,
    copy_gb_s=85.12 * 1.98,
    latency_us=1310 / 1980,
    launch_us=0,
    idle_power=0.3,
    sources=MappingProxyType(
        {
            "multiprocessors": "as the driver reports it",
            "clock_ghz": "as the driver reports it",
            "flops": "NVIDIA's data sheet",
            "caps": "fit: benchmarks/h200-*.json",
            "l2_bytes": "NVIDIA's data sheet",
            "l2_gb_s": "not used: the fitted model of wgmma has rates of its own",
            "dram_gb_s": "fit: weft/schedules/chip_models.py",
            "copy_gb_s": "fit: weft/schedules/chip_models.py",
            "latency_us": "fit: weft/schedules/chip_models.py",
            "launch_us": "the fitted model of wgmma has a start of its own",
            "idle_power": "fit: benchmarks/h200-*.json",
        }
    ),
)

GPUS = {gpu.name: gpu for gpu in (B200, GB200, B300, GB300, THOR, RTX_5090, RTX_PRO_6000, GB10, H200)}
"""By name. Of those with the same chip the first one stands for it."""


def has_model(chip: str) -> bool:
    """Whether the times of kernels for a chip, by ptxas's name, can be predicted."""
    return any(CHIPS[gpu.chip].number == CHIPS[chip].number for gpu in GPUS.values())


def gpus_of(chip: str) -> list[Gpu]:
    """The GPUs that run kernels for a chip, by ptxas's name, whichever its variant. Raises WeftError where
    there is none.
    """
    number = CHIPS[chip].number
    if gpus := [gpu for gpu in GPUS.values() if CHIPS[gpu.chip].number == number]:
        return gpus
    legal = ", ".join(dict.fromkeys(gpu.chip for gpu in GPUS.values()))
    raise WeftError(f"arch must be a chip with a model of its GPUs ({legal}), got {chip}")


def gpu_of(chip: str, name: str | None = None) -> Gpu:
    """The GPU of a chip: the named one, or the first. Raises WeftError where there is none."""
    able = {gpu.name.lower(): gpu for gpu in gpus_of(chip)}
    if name is None:
        return next(iter(able.values()))
    if (gpu := able.get(name.lower())) is None:
        names = [gpu.name for gpu in able.values()]
        meant = did_you_mean(name, names)
        raise WeftError(f"gpu must be {' or '.join(names)} for {chip}, got '{name}'{meant}")
    return gpu
