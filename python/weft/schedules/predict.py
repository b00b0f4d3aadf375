"""The predicted time of a schedule of any family, by `predict_model` or by the fitted model of `wgmma`."""

from dataclasses import replace
from math import ceil

from weft.dialects.product_types import Types, ceil_div
from weft.dialects.schedule import AnySchedule, TmaMmaSchedule, WarpgroupSchedule
from weft.errors import WeftError
from weft.isa.wgmma import M
from weft.schedules import time_model, wgmma_cycles
from weft.schedules.chip_models import CHIP_MODELS
from weft.schedules.predict_gpus import KINDS, Gpu
from weft.schedules.predict_kernels import kernel_of, kind_of
from weft.schedules.predict_model import Counts, Prediction, Work, predict
from weft.schedules.wgmma_kernels import Kernels


def predict_schedule(
    schedule: AnySchedule,
    m: int,
    n: int,
    k: int,
    types: Types,
    gpu: Gpu,
    *,
    members: int = 1,
    burst: bool = False,
) -> Prediction:
    """The predicted time of `members` products of M x N x K. `burst`: after a rest, where the GPU has such
    limits. Raises WeftError where there is no model of the family on the GPU.
    """
    if isinstance(schedule, WarpgroupSchedule) and gpu.chip in CHIP_MODELS:
        return _of_wgmma(schedule, (m, n, k), types, gpu, members, burst)
    if gpu.instruction == "wgmma":
        raise WeftError(f"schedule must be of wgmma for a model of {gpu.name}, got {type(schedule).__name__}")
    kind = kind_of(types)
    if isinstance(schedule, TmaMmaSchedule) and schedule.unit_scales:
        kind = replace(KINDS["mxfp8"], bits=kind.bits, group=0)  # at its rate, without scales to copy
    work = Work(m, n, k, kind, types.output_bytes, members)
    return predict(kernel_of(schedule, types, gpu.chip), work, gpu, burst=burst)


def _of_wgmma(
    s: WarpgroupSchedule, mnk: tuple[int, int, int], types: Types, gpu: Gpu, members: int, burst: bool
) -> Prediction:
    """The cycles that `time_model` chooses schedules by, and the power limit."""
    (m, n, k), chip, kind = mnk, CHIP_MODELS[gpu.chip], kind_of(types)
    clock, flops = gpu.clock_ghz * 1e3, 2 * m * n * k * members
    counts = _counts(s, mnk, types, gpu, members)
    kernels = Kernels.of([s], types, chip)
    active = min(counts.tiles, chip.resident[s.ctas])
    fill = float(wgmma_cycles.fill_cycles(kernels, *mnk, active)[0])
    products = float(kernels.products[0])
    limits = {"tensor cores": products, "TMA": max(fill, (chip.copy_latency + fill + products) / s.stages)}
    busy = time_model.modeled(s, m, n, k, types, chip, members=members) / clock + gpu.launch_us
    tiles_at_a_time = chip.resident[s.ctas]
    share = counts.tiles / tiles_at_a_time * counts.k_blocks / clock
    parts = {name: cycles * share for name, cycles in limits.items()}
    parts["DRAM"] = counts.dram_bytes / chip.memory / clock
    stored = s.block[0] * s.block[1] * types.output_bytes / s.splits / chip.store
    parts["epilogue"] = (chip.tile + chip.store_wait * stored) * counts.tiles / tiles_at_a_time / clock
    block = max(limits.values()) + chip.k_block
    idle = counts.waves - counts.tiles / tiles_at_a_time
    parts["tail"] = idle * (counts.k_blocks * block + chip.tile) / clock
    parts["launch"] = (chip.start + chip.start_all) / clock + gpu.launch_us
    bound, time = max(parts, key=lambda name: parts[name]), busy
    if (limit := gpu.cap(kind.name + ("_promoted" if types.promoted else ""), burst=burst)) is not None:
        ideal = flops / (gpu.multiprocessors * gpu.flops[kind.name]) / clock
        parts["power"] = flops / (limit * 1e6) / (ideal / busy) ** gpu.idle_power
        if parts["power"] > busy:
            bound, time = "power", parts["power"]
    return Prediction(time, bound, parts, counts, flops)


def _counts(s: WarpgroupSchedule, mnk: tuple[int, int, int], types: Types, gpu: Gpu, members: int) -> Counts:
    """What a kernel does for a product."""
    (m, n, k), (height, width) = mnk, s.cluster
    down, across = s.swapped(m, n)
    tiles = ceil_div(down, s.block[0] * height) * ceil_div(across, s.block[1] * width) * height * width
    parts = tiles * s.splits * s.global_splits * members
    k_blocks = ceil_div(k, s.block[2] * s.splits * s.global_splits)
    steps = ceil(s.block[2] * types.input_bytes / 32)
    copied = tiles * members * (s.block[0] / width + s.block[1] / height) * k * types.input_bytes
    moved = members * ((m + n) * k * types.input_bytes + m * n * types.output_bytes)
    waves = ceil_div(parts, CHIP_MODELS[gpu.chip].resident[s.ctas])
    return Counts(parts, waves, k_blocks, parts * k_blocks * steps * (s.block[0] // M), copied, moved)
