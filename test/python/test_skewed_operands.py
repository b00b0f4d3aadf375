"""Kernels of `wgmma` that copy matrices by TMA that begin at any element."""

from dataclasses import replace
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import weft
from weft import emulator
from weft.dialects.schedule import Types, WarpgroupSchedule, read_schedule
from weft.launch import runtime
from weft.launch.arrays import Planned
from weft.launch.kernel import Kernel
from weft.launch.kernel_arguments import checked, map_of, map_parameter
from weft.multiply import product_kernel
from weft.multiply.operands import Operands
from weft.multiply.product import Product
from weft.target import Target

BF16 = Types("bf16", "bf16", "bf16")
RNG = np.random.default_rng(5)


def of(*block: int, **fields: object) -> WarpgroupSchedule:
    return WarpgroupSchedule(block, **{"warpgroups": 1, "stages": 2, "skewed": True, **fields})  # type: ignore


def placed(rows: int, columns: int, skew: int, gap: int) -> tuple[np.ndarray, np.ndarray]:
    """Small integers, and their memory, which begins `skew` elements earlier at a multiple of 16 bytes and
    ends with the last row. What isn't the matrix's is NaN.
    """
    pitch = columns + gap
    size = skew + (rows - 1) * pitch + columns
    memory = np.full(size + 8, np.nan, ml_dtypes.bfloat16)
    start = -memory.ctypes.data % 16 // 2
    memory = memory[start : start + size]
    matrix = np.lib.stride_tricks.as_strided(memory[skew:], (rows, columns), (pitch * 2, 2))
    matrix[...] = RNG.integers(-2, 3, (rows, columns)).astype(memory.dtype)
    return matrix, memory


CASES = (
    ((70, 72, 136), 3, 0, of(64, 64, 64)),
    ((70, 264, 131), 7, 5, of(128, 256, 64, warpgroups=2)),
    ((9, 130, 64), 1, 8, of(128, 16, 128, swap=True, warpgroups=2, global_splits=2)),
    ((300, 72, 72), 4, 8, of(192, 64, 64, warpgroups=3, cluster=(2, 1))),
    ((64, 64, 57), 7, 15, of(64, 64, 64)),  # the elements before the rows take one more K block
    ((64, 64, 64), 0, 0, of(64, 64, 64)),
)


@pytest.mark.each_value(1)
@pytest.mark.parametrize(("shape", "skew", "gap", "schedule"), CASES)
def test_matrices_may_begin_anywhere(monkeypatch, shape, skew, gap, schedule):
    """The emulator aligns an array's memory, so that memory begins where the maps do."""
    m, n, k = shape
    (a, of_a), (b, of_b) = placed(m, k, skew, gap), placed(n, k, skew, gap)
    arguments = Kernel._emulator_arguments

    def skewed(kernel, views, *given):
        args, maps = arguments(kernel, views, *given), kernel.launch.maps
        for number, want in enumerate(maps, len(args) - len(maps)):
            if want.skewed:
                fields = map_of(views[want.matrix], want, 2 * skew)
                args[number] = emulator.TensorMap(fields, (of_a, of_b)[want.matrix])
        return args

    monkeypatch.setattr(Kernel, "_emulator_arguments", skewed)
    d = np.zeros((m, n), ml_dtypes.bfloat16)
    report = product_kernel.plain(BF16, schedule, "sm_90a").emulate(a, b, d)
    right = a.astype(np.float64) @ b.astype(np.float64).T
    assert not report.findings and (d == right.astype(d.dtype)).all()


def test_other_maps_are_as_before():
    """A map's distance from the array is only that of its rows."""
    a = np.zeros((16, 64), ml_dtypes.bfloat16)
    kernel = product_kernel.plain(BF16, of(64, 64, 64, skewed=False), "sm_90a")
    (view, *_), _ = checked(kernel.launch, [a, np.zeros((64, 64), a.dtype), np.zeros((16, 64), a.dtype)])
    view = replace(view, address=1 << 20 | 6)
    assert map_parameter(view, kernel.launch.maps[0], 0).distance == 0


@pytest.mark.parametrize(("skew", "distance"), [(0, 0), (1, -2), (7, -14), (8, 0)])
def test_a_launch_moves_the_address_of_a_map(skew, distance):
    kernel = product_kernel.plain(BF16, of(64, 64, 64), "sm_90a")
    a = np.zeros((16, 64), ml_dtypes.bfloat16)
    (view, *_), _ = checked(kernel.launch, [a, np.zeros((64, 64), a.dtype), np.zeros((16, 64), a.dtype)])
    view = replace(view, address=(1 << 20) + 2 * skew)
    want = kernel.launch.maps[0]
    assert map_parameter(view, want, 3).distance == distance
    fields = map_of(view, want, view.address)
    assert fields.address % 16 == 0 and fields.dims == (64 + skew % 8, 16)


REFUSED = (
    (BF16, of(64, 64, 64, loaders=1), "skewed must be false with loaders"),
    (BF16, of(64, 64, 64, stream_k=True), "skewed must be false with stream_k"),
    (replace(BF16, grouped=True), of(64, 64, 64), "skewed must be false with groups"),
    (
        replace(BF16, transposed=(True, False)),
        of(64, 64, 64),
        "skewed must be false with MN-major operands",
    ),
    (
        Types("f8E4M3FN", "f8E4M3FN", "bf16"),
        of(64, 64, 128),
        "skewed must be false with elements of f8E4M3FN",
    ),
)


@pytest.mark.parametrize(("types", "schedule", "complaint"), REFUSED)
def test_a_refused_schedule_names_its_rule(types, schedule, complaint):
    assert schedule.complaint(types, Target.of("sm_90a")) == complaint


def test_a_schedule_is_written_with_its_skew():
    schedule = of(64, 64, 64)
    with weft.Module():
        text = str(schedule.attribute())
    assert read_schedule(text) == schedule and str(schedule).endswith("skewed")
    assert not schedule.same_results(replace(schedule, skewed=False))


@pytest.mark.parametrize(
    ("starts", "gap", "chosen"),
    [((6, 6), 0, 1), ((6, 22), 8, 1), ((6, 4), 0, 0), ((6, 6), 1, 0), ((0, 0), 0, 0), ((16, 32), 0, 0)],
)
def test_matrices_at_equal_distances_are_copied_by_tma(monkeypatch, starts, gap, chosen):
    """Of other matrices, copies are made."""
    m, n, k = 2048, 1024, 512
    views = [
        Planned((number << 30) + start, shape, (shape[1] + gap, 1), "bf16", "cuda", 0, False, None)
        for number, (shape, start) in enumerate((((m, k), starts[0]), ((n, k), starts[1]), ((m, n), 2)), 1)
    ]
    monkeypatch.setattr(runtime, "device", lambda _: SimpleNamespace(chip="sm_90a"))
    monkeypatch.setattr(runtime, "available", lambda: None)
    made = []
    monkeypatch.setattr(product_kernel, "compiled", lambda *given: made.append(given[-2]))
    asked = Operands.of(*views[:2], views[2], {}, Product(transpose_b=True))
    product_kernel.of(asked, product_kernel.chip_of(asked))
    assert made[0].skewed == chosen
