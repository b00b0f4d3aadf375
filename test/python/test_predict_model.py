"""The model of kernels' times: what it predicts for published kernels, and which resource bounds them."""

from dataclasses import fields, replace

import predict_docs
import pytest

from weft.dialects.schedule import Schedule, TensorMemorySchedule, Types, WarpgroupSchedule, WmmaSchedule
from weft.dialects.schedule.work import KINDS, Kernel, Work, kind_of
from weft.errors import WeftError
from weft.schedules.blackwell import B200, GB300, RTX_5090, PublishedGpu
from weft.schedules.gpu import Gpu
from weft.schedules.gpus import GPUS, gpu_of
from weft.schedules.predict import Prediction, predict, predict_schedule

POINTS = predict_docs.points()
ENDLESS = replace(B200, caps={}, l2_gb_s=1e6, dram_gb_s=1e6, copy_gb_s=1e4)
"""A GPU that only its multiprocessors limit."""
PAIR = Kernel((256, 256), 64, 6, cta_group=2, accumulators=2)
BF16 = Types("bf16", "bf16", "bf16")


def of(kernel: Kernel, m: int, n: int, k: int, kind: str = "bf16", gpu: PublishedGpu = B200) -> Prediction:
    return predict(kernel, Work(m, n, k, KINDS[kind]), gpu)


@pytest.mark.parametrize(
    "point", POINTS, ids=lambda p: f"{p.row}-{p.name}-{p.kind}-{p.shape}".replace(" ", "-")
)
def test_published_times_are_predicted_within_a_tenth(point: predict_docs.Point) -> None:
    """Except where the point says why not; a reason that isn't needed is a mistake, too."""
    assert (abs(point.error) > predict_docs.ALLOWED) == bool(point.exception)


@pytest.mark.parametrize("row", predict_docs.ladders())
def test_kernels_of_a_ladder_are_predicted_in_its_order(row: str) -> None:
    times = {p.name: p.predicted.microseconds for p in POINTS if p.row == row}
    assert list(times) == predict_docs.ladders()[row]
    # v7c differs from v6 by the cache policy of its stores alone.
    distinct = [time for name, time in times.items() if name != "learn-cuda v7c"]
    assert distinct == sorted(distinct, reverse=True) and len(set(distinct)) == len(distinct)
    assert sorted(times.values(), reverse=True) == list(times.values())


def test_constants_are_fitted_to_the_points_that_say_so_and_others_check_them() -> None:
    assert {p.row for p in POINTS if p.fit} >= {"1", "3", "4", "5", "7", "8", "24"}
    assert {p.row for p in POINTS if not p.fit} >= {"6", "15", "17", "25", "26", "29", "30", "31"}


@pytest.mark.parametrize(
    ("bound", "kernel", "shape", "kind", "gpu"),
    [
        ("power", PAIR, (8192, 8192, 8192), "bf16", B200),
        ("tensor cores", PAIR, (8192, 8192, 8192), "bf16", replace(B200, caps={})),
        ("shared memory", Kernel((128, 64), 64, 12), (8192, 8192, 8192), "bf16", ENDLESS),
        ("TMA", Kernel((128, 256), 64, 1, persistent=False), (8192, 8192, 8192), "bf16", B200),
        ("L2", PAIR, (8192, 8192, 8192), "bf16", replace(ENDLESS, l2_gb_s=5000)),
        ("DRAM", Kernel((128, 16), 64, 8, accumulators=2, swap=True), (16, 8192, 8192), "bf16", B200),
        ("tail", Kernel((256, 256), 64, 6, cta_group=2, accumulators=2), (256, 256, 65536), "bf16", B200),
        ("epilogue", Kernel((128, 256), 64, 4), (8192, 8192, 64), "bf16", ENDLESS),
        ("launch", PAIR, (256, 256, 64), "bf16", B200),
    ],
)  # fmt: skip
def test_each_resource_bounds_some_product(
    bound: str, kernel: Kernel, shape: tuple[int, int, int], kind: str, gpu: PublishedGpu
) -> None:
    predicted = of(kernel, *shape, kind, gpu)
    assert predicted.bound == bound
    assert predicted.microseconds >= predicted.parts[bound] > 0


def test_counts_are_those_of_the_kernel() -> None:
    counts = of(PAIR, 4000, 4096, 4090).counts
    assert (counts.tiles, counts.waves, counts.k_blocks) == (256, 4, 64)
    assert counts.instructions == 256 * 64 * 4
    assert counts.l2_bytes == 256 * 512 * 4090 * 2
    assert counts.dram_bytes == 2 * (4000 * 4090 + 4096 * 4090 + 4000 * 4096)


def test_multicast_and_splits_count_in_what_is_copied() -> None:
    shared = of(replace(PAIR, cluster=(2, 1)), 4096, 4096, 4096).counts.l2_bytes
    assert shared == of(PAIR, 4096, 4096, 4096).counts.l2_bytes * 3 / 4
    few = of(PAIR, 256, 256, 65536)
    split = of(replace(PAIR, splits=16), 256, 256, 65536)
    assert split.microseconds < few.microseconds and split.counts.k_blocks == few.counts.k_blocks / 16


def test_scales_take_bytes_and_cycles() -> None:
    kernel = Kernel((256, 256), 256, 4, cta_group=2)
    mx, nv = (of(kernel, 4096, 4096, 4096, kind) for kind in ("mxfp4", "nvfp4"))
    assert nv.counts.l2_bytes - mx.counts.l2_bytes == 256 * 512 * 4096 / 32
    assert nv.parts["tensor cores"] > mx.parts["tensor cores"]


def test_epilogues_are_hidden_except_for_columns_that_accumulators_share() -> None:
    kernel = Kernel((256, 256), 128, 4, cta_group=2)
    one, shared, two = (
        of(each, 8192, 8192, 8192, "mxfp8", ENDLESS)
        for each in (kernel, replace(kernel, accumulators=2, shared=64), replace(kernel, accumulators=2))
    )
    assert two.microseconds < shared.microseconds < one.microseconds
    tiles = 32 * 32 / (ENDLESS.multiprocessors // 2) / (ENDLESS.clock_ghz * 1e3)
    assert two.parts["epilogue"] == 0
    assert shared.parts["epilogue"] == pytest.approx(tiles * (256 + 6 * 64))
    assert one.parts["epilogue"] == pytest.approx(tiles * (256 + 6 * 256))


def test_promoted_sums_are_added_after_each_k_block() -> None:
    plain = Kernel((256, 128), 128, 6, cta_group=2)
    kernel = replace(plain, promoted=True)
    assert of(kernel, 8192, 8192, 8192, "fp8").microseconds >= of(plain, 8192, 8192, 8192, "fp8").microseconds
    # 100 cycles and 1.5 for each of 128 columns, in 64 K blocks; then the last sums are stored.
    shares = 32 * 64 / 74 / 1900
    parts = of(kernel, 8192, 8192, 8192, "fp8").parts
    assert parts["epilogue"] == pytest.approx(shares * (64 * (100 + 1.5 * 128) + 256 + 6 * 128))
    assert of(plain, 8192, 8192, 8192, "fp8").parts["epilogue"] == pytest.approx(shares * (256 + 6 * 128))


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
def test_every_constant_has_a_source(gpu: Gpu) -> None:
    named = {f.name for f in fields(gpu)} - {"name", "chip", "instruction", "sources"}
    assert {name for name in named if getattr(gpu, name) not in (0, (0, 0), {})} <= set(gpu.sources) <= named
    assert all(gpu.sources.values())
    assert {name.partition("_")[0] for name in (*gpu.caps, *gpu.burst_caps)} <= set(KINDS)


def test_gpus_are_found_by_chip_and_name() -> None:
    assert gpu_of("sm_100a") is gpu_of("sm_100f") is B200
    assert gpu_of("sm_103a", "gb300").name == "GB300"
    assert gpu_of("sm_120a") is RTX_5090
    with pytest.raises(WeftError, match="gpu must be B200 or GB200 for sm_100a, got 'B20'; did you mean"):
        gpu_of("sm_100a", "B20")
    with pytest.raises(
        WeftError, match=r"arch must be a chip with a model of its GPUs \(sm_100a, .*\), got sm_80"
    ):
        gpu_of("sm_80")


@pytest.mark.parametrize(
    ("types", "kind", "bits"),
    [
        (BF16, "bf16", 16),
        (Types("f32", "f32", "f32"), "tf32", 32),
        (Types("f8E4M3FN", "f8E5M2", "f16"), "fp8", 8),
        (Types("f8E4M3FN", "f8E5M2", "f16", scale="f8E8M0FNU"), "mxfp8", 8),
        (Types("f8E4M3FN", "f4E2M1FN", "f16", scale="f8E8M0FNU"), "mxfp8", 6),
        (Types("f6E3M2FN", "f6E2M3FN", "f16", scale="f8E8M0FNU"), "mxfp6", 6),
        (Types("f4E2M1FN", "f4E2M1FN", "f16", scale="f8E8M0FNU"), "mxfp4", 4),
        (Types("f4E2M1FN", "f4E2M1FN", "f16", scale="f8E4M3FN"), "nvfp4", 4),
    ],
)
def test_kinds_of_types(types: Types, kind: str, bits: int) -> None:
    found = kind_of(types)
    assert (found.name, found.bits) == (kind, bits)


def test_types_and_schedules_without_a_model_are_named() -> None:
    with pytest.raises(WeftError, match=r"types must be of a kind with a model, .*, got f64 and f64"):
        kind_of(Types("f64", "f64", "f64"))
    with pytest.raises(WeftError, match="schedule must be of a family with a model, got WmmaSchedule"):
        WmmaSchedule((128, 128, 32), (2, 4), 2).kernel(BF16)
    with pytest.raises(WeftError, match="schedule must be of tcgen05 for a model of B200, got one of wgmma"):
        predict_schedule(WarpgroupSchedule((64, 64, 64), 1, 2), 64, 64, 64, BF16, B200)
    with pytest.raises(WeftError, match=r"types must be of a kind that GB300 multiplies, .*, got s8"):
        of(PAIR, 64, 64, 64, "s8", GB300)


def test_schedules_are_described_as_kernels() -> None:
    schedule = TensorMemorySchedule((512, 256, 64), 1, 3, cta_group=2, epilogues=2, swap=True)
    kernel = schedule.kernel(BF16)
    assert (kernel.tile, kernel.parts, kernel.part, kernel.swap) == ((512, 256), 2, (256, 256), True)
    scaled = Types("f4E2M1FN", "f4E2M1FN", "bf16", scale="f8E4M3FN")
    pair = TensorMemorySchedule((256, 256, 256), 2, 4, cta_group=2)
    assert pair.kernel(scaled).shared == 64  # 48 columns, in a slice of 64
    assert pair.kernel(BF16).shared == 0
    warps = Schedule((128, 128, 64), (2, 2), 3).kernel(BF16)
    assert (warps.warps, warps.persistent) == ((2, 2), False)
