"""Products with block scales, or scales of 1, for `mma.sync` with copies by TMA in the emulator: every kind
and mixture of formats. A finding of the sanitizer ends a run; ptxas must not spill.
"""

from dataclasses import replace

import numpy as np
import pytest
from machine_code import local_memory

import weft
from weft import reference
from weft.dialects import tile
from weft.dialects.schedule import TmaMmaSchedule, Types
from weft.launch import arrays
from weft.launch.kernel_arguments import packed_copy
from weft.passes.builders import warp_products
from weft.schedules import choice
from weft.target import Target

MLIR = {"e4m3": "f8E4M3FN", "e5m2": "f8E5M2", "e2m3": "f6E2M3FN", "e3m2": "f6E3M2FN", "e2m1": "f4E2M1FN"}
GROUPS = {"f8E8M0FNU": 32, "f8E4M3FN": 16}
MXFP8, MXFP8_WIDE = ("mxfp8", "e4m3"), ("mxfp8", "e5m2")
MXFP6, MXFP6_WIDE = ("mxfp6", "e2m3"), ("mxfp6", "e3m2")
MXFP4, NVFP4 = ("mxfp4", "e2m1"), ("nvfp4", "e2m1")
PAIRS = (
    *((MXFP8, MXFP8), (MXFP8_WIDE, MXFP8), (MXFP8, MXFP6), (MXFP8_WIDE, MXFP4), (MXFP6_WIDE, MXFP8)),
    *((MXFP6, MXFP6_WIDE), (MXFP6, MXFP4), (MXFP4, MXFP8), (MXFP4, MXFP4), (NVFP4, NVFP4)),
)
TILES = (
    *((64, 64, (2, 2), 2, (72, 80)), (32, 128, (1, 4), 2, (40, 136)), (128, 64, (4, 2), 2, (200, 72))),
    (64, 128, (2, 4), 2, (136, 264)),
)


def quantized(kind: tuple[str, str], rows: int, depth: int, seed: int = 0) -> reference.Quantized:
    """Numbers whose rows and groups have scales of different sizes."""
    rng = np.random.default_rng((rows, depth, seed))
    sizes = np.exp2(rng.integers(-3, 4, (rows, -(-depth // 16)))).repeat(16, axis=1)[:, :depth]
    return reference.quantize(rng.standard_normal((rows, depth)) * sizes, kind[0], element=kind[1])


def array(elements: np.ndarray) -> object:
    view = arrays.view(elements)
    return packed_copy(view) if view.bits < 8 else elements


def element(matrix: reference.Quantized) -> str:
    return MLIR[reference.block_scales.element_type(matrix.elements)]


def types_of(a: tuple[str, str], b: tuple[str, str], scaled: bool = True) -> Types:
    scale = "f8E4M3FN" if a[0] == "nvfp4" else "f8E8M0FNU"
    return Types(MLIR[a[1]], MLIR[b[1]], "f32", scale=scale if scaled else "")


def compiled(types: Types, schedule: TmaMmaSchedule | None, chip: str = "sm_120a") -> weft.Kernel:
    """A kernel for the layout that the types have."""
    scales = [types.scale] * 2 if types.scale else []
    with weft.Module() as module:
        kinds = [weft.memref("?x?", kind) for kind in (types.a, types.b, types.d, *scales)]
        with module.func("product", kinds) as (a, b, d, *given):
            named = dict(zip(("scale_a", "scale_b"), given, strict=False))
            how = {"transpose_a": types.transposed[0], "transpose_b": not types.transposed[1]}
            tile.matmul(a, b, d, schedule=schedule, **how, **named)
    return weft.compile(module, arch=chip)


def error(
    kernel: weft.Kernel,
    a: reference.Quantized,
    b: reference.Quantized,
    group: int,
    mn_major: tuple[bool, bool] = (False, False),
) -> float:
    """The largest error of an element of D, relative to the sum of its products' magnitudes."""
    d = np.full((len(a.elements), len(b.elements)), np.nan, np.float32)
    scales = [a.tiled_scales, b.tiled_scales] if group else []
    stored = (
        np.ascontiguousarray(each.elements.T) if along else array(each.elements)
        for each, along in zip((a, b), mn_major, strict=True)
    )
    findings = kernel.emulate(*stored, d, *scales).findings
    assert not findings, findings[0]
    left, right = (
        reference.block_scales.dequantized(each.elements, each.scales, group)
        if group
        else each.elements.astype(np.float64)
        for each in (a, b)
    )
    return float((abs(d - left @ right.T) / (abs(left) @ abs(right).T)).max())


@pytest.mark.each_value(1)
@pytest.mark.sampled(20)
@pytest.mark.parametrize("tile_", TILES, ids=str)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: "-".join(f"{kind}_{name}" for kind, name in pair))
def test_a_product_is_right_for_every_pair_of_formats(pair, tile_):
    m, n, consumers, stages, (rows, columns) = tile_
    types = types_of(*pair)
    block_k = 128 * 8 // types.input_bits
    schedule = TmaMmaSchedule((m, n, block_k), consumers, stages)
    kernel = compiled(types, schedule)
    assert ".block_scale" in kernel.ptx and not local_memory(kernel)
    depth = 2 * block_k + 128
    a, b = quantized(pair[0], rows, depth), quantized(pair[1], columns, depth, 1)
    assert error(kernel, a, b, GROUPS[types.scale]) < 1e-6


@pytest.mark.slow
@pytest.mark.sampled(9)
@pytest.mark.parametrize("mn_major", [(True, True), (True, False), (False, True)], ids=str)
@pytest.mark.parametrize("pair", PAIRS[:3], ids=lambda pair: "-".join(name for _, name in pair))
def test_operands_of_8_bits_with_scales_may_be_mn_major(pair, mn_major):
    mn_major = mn_major[0], mn_major[1] and pair[1][0] == "mxfp8"
    types = replace(types_of(*pair), transposed=mn_major)
    for schedule in (TmaMmaSchedule((64, 64, 128), (2, 2), 2), None):
        kernel = compiled(types, schedule)
        assert not local_memory(kernel) and ("m16n16" in kernel.ptx) == any(mn_major)
        a, b = quantized(pair[0], 80, 384), quantized(pair[1], 96, 384, 1)
        assert error(kernel, a, b, 32, mn_major) < 1e-6


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "pair, depth", [((MXFP8, MXFP8), 208), ((MXFP4, MXFP4), 160), ((NVFP4, NVFP4), 288)], ids=str
)
def test_k_may_end_within_a_tile_of_scales(pair, depth):
    types = types_of(*pair)
    kernel = compiled(types, TmaMmaSchedule((64, 64, 128), (2, 2), 2))
    a, b = quantized(pair[0], 40, depth), quantized(pair[1], 16, depth, 1)
    assert error(kernel, a, b, GROUPS[types.scale]) < 1e-6


@pytest.mark.slow
def test_each_product_of_a_batch_has_scales_of_its_own():
    types = types_of(MXFP8, MXFP8)
    with weft.Module() as module:
        kinds = [weft.memref("?x?x?", kind) for kind in (types.a, types.b, types.d, types.scale, types.scale)]
        with module.func("product", kinds) as (a, b, d, scale_a, scale_b):
            schedule = TmaMmaSchedule((64, 64, 128), (2, 2), 2)
            tile.matmul(a, b, d, transpose_b=True, scale_a=scale_a, scale_b=scale_b, schedule=schedule)
    rng = np.random.default_rng(0)
    a, b = (reference.quantize(rng.standard_normal((3, rows, 160)), "mxfp8") for rows in (40, 24))
    d = np.full((3, 40, 24), np.nan, np.float32)
    kernel = weft.compile(module, arch="sm_120a")
    assert not kernel.emulate(a.elements, b.elements, d, a.tiled_scales, b.tiled_scales).findings
    wide = [reference.block_scales.dequantized(each.elements, each.scales, 32) for each in (a, b)]
    np.testing.assert_allclose(d, wide[0] @ wide[1].transpose(0, 2, 1), rtol=0, atol=1e-5)


def test_weft_matmul_multiplies_arrays_of_nvfp4():
    a, b = quantized(NVFP4, 40, 128), quantized(NVFP4, 24, 128, 1)
    given = a.packed.view(np.uint8), b.packed.view(np.uint8)
    d = weft.matmul(*given, scales=(a.tiled_scales, b.tiled_scales), kind="nvfp4", transpose_b=True)
    wide = [reference.block_scales.dequantized(each.elements, each.scales, 16) for each in (a, b)]
    np.testing.assert_allclose(
        d.astype(np.float64), wide[0] @ wide[1].T, rtol=2**-8, atol=1e-3 * abs(d).max()
    )


FORMATS = (MXFP8, MXFP8_WIDE, MXFP6, MXFP6_WIDE, MXFP4)


@pytest.mark.slow
@pytest.mark.sampled(20)
@pytest.mark.parametrize("tile_", TILES[:3:2], ids=str)
@pytest.mark.parametrize("first", FORMATS, ids=lambda kind: kind[1])
@pytest.mark.parametrize("second", FORMATS, ids=lambda kind: kind[1])
def test_formats_without_scales_get_scales_of_1(first, second, tile_):
    """In every mixture; those of 8 bits may be MN-major."""
    m, n, consumers, stages, _ = tile_
    schedule = TmaMmaSchedule((m, n, 128), consumers, stages, unit_scales=True)
    a, b = quantized(first, 80, 384), quantized(second, 96, 384, 1)
    for mn_major in {(False, False), (first[0] == "mxfp8", second[0] == "mxfp8")}:
        types = replace(types_of(first, second, scaled=False), transposed=mn_major)
        kernel = compiled(types, schedule)
        assert not local_memory(kernel) and error(kernel, a, b, 0, mn_major) < 1e-6


@pytest.mark.slow
@pytest.mark.sampled(20)
@pytest.mark.parametrize("chip", ["sm_120a", "sm_121a", "sm_120f", "sm_121f"])
@pytest.mark.parametrize(
    "pair, block, stages",
    [
        ((MXFP8, MXFP8), (128, 128, 128), 2),
        ((MXFP8, MXFP4), (128, 128, 128), 2),
        ((MXFP4, MXFP4), (256, 128, 128), 3),
        ((NVFP4, NVFP4), (128, 128, 256), 2),
        ((NVFP4, NVFP4), (256, 128, 128), 3),
    ],
)
def test_large_tiles_do_not_spill(pair, block, stages, chip):
    kernel = compiled(types_of(*pair), TmaMmaSchedule(block, (4, 2), stages), chip)
    assert not local_memory(kernel) and kernel.resources.registers == 168


@pytest.mark.slow
@pytest.mark.sampled(2)
def test_scales_of_exchanged_lanes_are_caught(monkeypatch):
    """Planted: each product has the scales of the other 16 rows of A."""
    found = warp_products._selectors

    def exchanged(layout, shape, name, *rest):
        return {
            at: (word, byte, 1 - lanes if name == "a" else lanes)
            for at, (word, byte, lanes) in found(layout, shape, name, *rest).items()
        }

    monkeypatch.setattr(warp_products, "_selectors", exchanged)
    kernel = compiled(types_of(MXFP8, MXFP8), TmaMmaSchedule((64, 64, 128), (2, 2), 2, group=7))
    a, b = quantized(MXFP8, 64, 128), quantized(MXFP8, 64, 128, 1)
    assert error(kernel, a, b, 32) > 0.1


@pytest.mark.parametrize("chip", ["sm_120a", "sm_121a", "sm_120f", "sm_121f"])
@pytest.mark.parametrize("pair", PAIRS[::3], ids=str)
def test_it_is_chosen_for_every_pair_of_formats(pair, chip):
    types = types_of(*pair)
    for mnk in ((4096, 4096, 4096), (1, 4096, 4096), (None, None, None)):
        chosen = choice.choose(*mnk, types, chip)
        assert isinstance(chosen, TmaMmaSchedule) and chosen.complaint(types, Target.of(chip)) is None
    plain = types_of(*pair, scaled=False)
    assert choice.choose(4096, 4096, 4096, plain, chip).unit_scales


@pytest.mark.parametrize(
    "types, block, message",
    [
        (
            types_of(MXFP8, MXFP8),
            (64, 64, 64),
            "block K must be a multiple of 128, which a tile of scales is for",
        ),
        (
            types_of(MXFP6, MXFP6),
            (64, 64, 64),
            "block K must be a multiple of 128, which TMA expands at once",
        ),
        (types_of(MXFP8, MXFP8), (192, 64, 128), "block M must divide 128 or be a multiple of it"),
        (types_of(MXFP8, MXFP8), (64, 192, 128), "block N must divide 128 or be a multiple of it"),
        (types_of(MXFP4, MXFP4), (64, 64, 128), None),
        (types_of(NVFP4, NVFP4), (64, 64, 64), None),
        (types_of(NVFP4, NVFP4), (16, 64, 64), "consumers must divide block M 16 in multiples of 16"),
        (
            types_of(NVFP4, NVFP4),
            (32, 64, 64),
            "rows and columns must be multiples of 32 with scales, got 16 x 32",
        ),
        (
            types_of(MXFP4, MXFP4, scaled=False),
            (64, 64, 128),
            "unit_scales must be true for elements of 4 and 6",
        ),
    ],
)
def test_what_a_schedule_must_satisfy(types, block, message):
    complaint = TmaMmaSchedule(block, (2, 2), 2).complaint(types, Target.of("sm_120a"))
    assert complaint is None if message is None else message in complaint


def test_unit_scales_are_refused_beside_scales():
    schedule = TmaMmaSchedule((64, 64, 128), (2, 2), 2, unit_scales=True)
    assert "unit_scales must be false" in schedule.complaint(types_of(MXFP8, MXFP8), Target.of("sm_120a"))
