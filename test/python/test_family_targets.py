"""Products for the `f` targets, which several chips of a family run: they multiply in the emulator as on the
`a` targets, and what an `f` target lacks is refused.
"""

import re
from dataclasses import replace

import pytest
from gemm_async_case import Case, check
from launches import complaint
from products import Case as Sizes
from products import Product
from test_tcgen05_block_scales import PAIRS as FORMATS
from test_tcgen05_block_scales import SCHEDULES as SCALED
from test_tcgen05_block_scales import Case as ScaledCase
from test_tcgen05_kernels import CLUSTERS, DYNAMIC, EPILOGUES, PAIRS, SINGLE, SPLIT, SWAPPED, product, sized
from test_tma_mma_block_scales import GROUPS, MXFP4, MXFP8, NVFP4, compiled, error, quantized, types_of
from test_tma_mma_schedules import BF16, E4M3, INTEGERS, MIXED, TF32
from test_tma_mma_schedules import EPILOGUES as TMA_EPILOGUES
from test_tma_mma_schedules import of as tma_mma

import weft
from weft.dialects.schedule import Schedule, TmaMmaSchedule
from weft.errors import WeftError
from weft.isa.tcgen05 import tensor_layouts
from weft.schedules import choice
from weft.target import Target

WITH_TENSOR_MEMORY = ("sm_100f", "sm_103f", "sm_110f")
WITHOUT = ("sm_120f", "sm_121f")
CASES = (
    (PAIRS[0], ("bf16", "bf16", "f32")),
    (SINGLE[0], ("f16", "f16", "f16")),
    (SINGLE[1], ("f8E4M3FN", "f8E5M2", "bf16")),
    (PAIRS[1], ("f32", "f32", "f32")),
    (CLUSTERS[2], ("f16", "f16", "f8E4M3FN")),
    (SWAPPED[0], ("bf16", "bf16", "bf16")),
    (SPLIT[1], ("f8E5M2", "f8E4M3FN", "f32")),
    (DYNAMIC[1], ("bf16", "bf16", "f32")),
)


@pytest.mark.each_value(1)
@pytest.mark.sampled(9)
@pytest.mark.parametrize("chip", WITH_TENSOR_MEMORY)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_every_kind_of_schedule_multiplies(number: int, chip: str) -> None:
    schedule, types = CASES[number]
    made = product(types, schedule, (False, True), EPILOGUES[number % len(EPILOGUES)])
    kernel = weft.compile(made.module(), chip)
    assert f".target {chip}" in kernel.ptx and kernel.resources.spill_stores == 0
    assert (
        complaint(made, Sizes(sized(schedule, (3, 5, -8), types[0]), "integers"), kernel, "emulator") is None
    )


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.sampled(8)
@pytest.mark.parametrize("chip", WITH_TENSOR_MEMORY)
@pytest.mark.parametrize(
    "case",
    [
        ScaledCase(FORMATS[0], "bf16", SCALED[6], (300, 144, 384)),
        ScaledCase(FORMATS[1], "f32", SCALED[0], (130, 80, 128)),
        ScaledCase(FORMATS[2], "f32", SCALED[10], (5, 48, 640)),
        ScaledCase(FORMATS[3], "f16", SCALED[12], (130, 80, 384)),
        ScaledCase(FORMATS[4], "bf16", SCALED[15], (257, 272, 256)),
    ],
    ids=str,
)
def test_block_scales_multiply(case: ScaledCase, chip: str, patch: pytest.MonkeyPatch) -> None:
    patch.setattr("test_tcgen05_block_scales.CHIP", chip)
    assert f".target {chip}" in case.kernel(*case.operands()).ptx
    assert case.complaint() is None


PACKED = {"a_type": "f4E2M1FN", "k": 256, "n": 64, "scale_type": "f8E4M3FN", "scale_size": 16}
TILES = (
    Case(**PACKED, m=256, group=2),
    Case(m=256, n=64, group=2),
    Case(a_type="f8E4M3FN", b_type="f8E5M2", k=128),
    Case(a_type="f32", k=32),
    Case(a_type="f8E4M3FN", scale_type="f8E8M0FNU", k=128),
    Case(**{**PACKED, "scale_type": "f8E8M0FNU", "scale_size": 32}),
    Case(
        m=64,
        n=128,
        c_layout=tensor_layouts.accumulator(64, 128, weight_stationary=True),
        attributes={"weight_stationary": True, "collector": "b1::fill"},
    ),
)


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.sampled(7)
@pytest.mark.parametrize("chip", WITH_TENSOR_MEMORY)
@pytest.mark.parametrize("case", TILES, ids=str)
def test_gemm_async_multiplies(case: Case, chip: str) -> None:
    check(replace(case, arch=chip))


@pytest.mark.each_value(1)
@pytest.mark.parametrize(("chip", "instructions"), [("sm_103a", 3), ("sm_103f", 4), ("sm_100f", 4)])
def test_only_an_a_target_has_the_longer_k(chip: str, instructions: int) -> None:
    ptx = weft.compile(Case(**PACKED).module(), arch=chip).ptx
    assert len(re.findall(r"tcgen05\.mma", ptx)) == instructions


@pytest.mark.parametrize("chip", WITH_TENSOR_MEMORY)
def test_integers_have_no_tcgen05(chip: str) -> None:
    reason = f"tcgen05.mma kind i8 is legal on sm_100a, sm_110a only, got {chip}"
    with pytest.raises(WeftError, match=re.escape(f"(form: {reason}")):
        weft.compile(Case(a_type="i8", sums="i32", k=128).module(), arch=chip)
    types = Product("i8", "ui8", "i32").types
    assert isinstance(choice.choose(100, 72, 144, types, chip), Schedule)
    wrong = SINGLE[0].complaint(types, Target.of(chip))
    assert wrong is not None and reason in wrong


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.sampled(6)
@pytest.mark.parametrize("chip", WITHOUT)
@pytest.mark.parametrize("made", [BF16, E4M3, INTEGERS, TF32, MIXED, TMA_EPILOGUES[1]], ids=str)
def test_kernels_without_tensor_memory_multiply(made: object, chip: str) -> None:
    schedule = tma_mma(64, 64, 32 if made is TF32 else 64)
    kernel = made.compiled(schedule, chip)
    assert f".target {chip}" in kernel.ptx and "cp.async.bulk.tensor" in kernel.ptx
    assert made.wrong(kernel, (72, 80, 160)) == 0


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.sampled(3)
@pytest.mark.parametrize("chip", WITHOUT)
@pytest.mark.parametrize("kind", [NVFP4, MXFP8, MXFP4], ids=str)
def test_kernels_without_tensor_memory_multiply_block_scales(kind: tuple[str, str], chip: str) -> None:
    types = types_of(kind, kind)
    kernel = compiled(types, TmaMmaSchedule((64, 64, 128), (2, 2), 2), chip)
    a, b = quantized(kind, 72, 384), quantized(kind, 80, 384, 1)
    assert ".block_scale" in kernel.ptx and error(kernel, a, b, GROUPS[types.scale]) < 1e-6
