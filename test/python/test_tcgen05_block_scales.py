"""Block-scaled products for `tcgen05` in the emulator, with its sanitizer: every format and schedule, at
sizes that nothing divides; what ptxas makes of them; and faults in what brings the scales.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import cycle
from math import gcd

import ml_dtypes
import numpy as np
import pytest
from machine_code import local_memory

import weft
from weft import emulator, reference
from weft.dialects.schedule import TensorMemorySchedule, Types
from weft.errors import WeftError
from weft.isa.block_scales import FORMATS, ROWS
from weft.launch import arrays, kernel
from weft.multiply import product_kernel
from weft.reference import Quantized
from weft.schedules import choice
from weft.target import Target

CHIP = "sm_100a"


def of(m: int, n: int, accumulators: int = 2, stages: int = 2, **fields: object) -> TensorMemorySchedule:
    """A schedule whose K blocks have 128 elements; `fitted` makes it one for other formats."""
    return TensorMemorySchedule((m, n, 128), accumulators, stages, **fields)  # type: ignore[arg-type]


SCHEDULES = (
    of(128, 128),
    of(128, 64, stages=3),
    of(128, 32),
    of(128, 256, 1),
    of(256, 64),
    of(256, 128, 1, epilogues=2),
    of(256, 128, cta_group=2),
    of(256, 256, 1, cta_group=2),
    of(256, 256, 2, cta_group=2),
    of(512, 64, 1, cta_group=2, epilogues=2),
    of(128, 32, swap=True),
    of(256, 64, cta_group=2, swap=True),
    of(128, 64, global_splits=2),
    of(128, 64, cluster=(2, 1)),
    of(128, 64, cluster=(1, 2)),
    of(256, 64, cta_group=2, cluster=(1, 2)),
    of(128, 96, swap=True),
    of(128, 192, cluster=(2, 1)),
    of(256, 160, 1, cta_group=2, epilogues=2),
)
# The formats of A and B, by their names and elements.
PAIRS = (
    (("nvfp4", "e2m1"), ("nvfp4", "e2m1")),
    (("mxfp8", "e4m3"), ("mxfp8", "e5m2")),
    (("mxfp4", "e2m1"), ("mxfp4", "e2m1")),
    (("mxfp6", "e2m3"), ("mxfp6", "e3m2")),
    (("mxfp8", "e4m3"), ("mxfp4", "e2m1")),
    (("mxfp4", "e2m1"), ("mxfp6", "e3m2")),
    (("mxfp8", "e5m2"), ("mxfp8", "e5m2")),
)
RESULTS = ("f32", "bf16", "f16", "f8E4M3FN")
# Rows of D of fp8 begin at multiples of 16 bytes.
SHAPES = ((300, 144, 384), (130, 80, 128), (5, 48, 640), (257, 272, 256), (128, 128, 512))


@dataclass(frozen=True)
class Case:
    """A product of sizes M, N, K of some formats, with a type of D and a schedule."""

    formats: tuple[tuple[str, str], tuple[str, str]]
    d: str
    schedule: TensorMemorySchedule
    shape: tuple[int, int, int]
    batch: tuple[int, ...] = ()

    @property
    def fitted(self) -> TensorMemorySchedule:
        """The schedule with K blocks of whole tiles of scales: two of them where elements are packed."""
        m, n, _ = self.schedule.block
        packed = {element for _, element in self.formats} == {"e2m1"}
        deep = 256 if packed and m * n <= 128 * 256 * self.schedule.cta_group else 128
        return replace(self.schedule, block=(m, n, deep))

    def operands(self) -> tuple[Quantized, Quantized]:
        """A and B, of different magnitudes in each group."""
        m, n, k = self.shape
        chance = np.random.default_rng(m + n)
        found = []
        for rows, (kind, element) in zip((m, n), self.formats, strict=True):
            group = FORMATS[kind].group
            size = np.exp2(chance.integers(-4, 5, (*self.batch, rows, k // group))).repeat(group, -1)
            values = chance.standard_normal((*self.batch, rows, k)) * size
            found.append(reference.quantize(values, kind, element=element, factor=1.0))
        return found[0], found[1]

    def kernel(self, a: Quantized, b: Quantized) -> kernel.Kernel:
        scale = arrays.mlir_type(a.scales.dtype)
        types = Types(*(arrays.mlir_type(x.elements.dtype) for x in (a, b)), self.d, scale=scale)
        assert self.fitted.complaint(types) is None
        rank = 2 + len(self.batch)
        roles = ("scale_a", scale, rank), ("scale_b", scale, rank)
        asked = product_kernel.Asked(types, (rank,) * 3, roles, (False, True))
        return product_kernel.compiled(asked, self.fitted, CHIP)

    def complaint(self, **options: object) -> str | None:
        """What is wrong with the product in the emulator."""
        a, b = self.operands()
        out = np.full((*self.batch, *self.shape[:2]), np.nan, arrays.numpy_dtype(self.d))
        given = a.elements, b.elements, out, a.tiled_scales, b.tiled_scales
        made = self.kernel(a, b)
        if spilled := local_memory(made):
            return f"registers are too few: {spilled}"
        report = made.emulate(*given, **options)
        if report.findings:
            return str(report.findings[0])
        for at in np.ndindex(*self.batch):
            expected = reference.product(
                *(a.elements[at], b.elements[at]),
                transpose_b=True,
                scale_a=a.tiled_scales[at],
                scale_b=b.tiled_scales[at],
                dtype=out.dtype,
            )
            if not (compared := expected.compare(out[at])).passed:
                return str(compared)
            if self.d == "f32" and compared.error > 1e-4 * np.abs(expected.values).max():
                return f"less exact than hardware: {compared}"
        return None


def cases() -> Iterator[Case]:
    """Every schedule with every pair of formats; results and sizes take turns."""
    results, shapes = cycle(RESULTS), cycle(SHAPES)
    for schedule in SCHEDULES:
        for formats in PAIRS:
            yield Case(formats, next(results), schedule, next(shapes))
    for schedule in SCHEDULES[::3]:
        for formats in PAIRS[:3]:
            yield Case(formats, next(results), schedule, (130, 80, 128), (2,))


@pytest.mark.each_value(1)
@pytest.mark.sampled(29)
@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_products(case):
    assert case.complaint() is None


@pytest.mark.each_value(1)
@pytest.mark.parametrize("formats", PAIRS[:2], ids=["nvfp4", "mxfp8"])
@pytest.mark.parametrize(
    "schedule",
    [
        of(128, 96),
        of(256, 160, 1, epilogues=2),
        of(256, 192, cta_group=2),
        of(256, 224, cta_group=2),
    ],
    ids=str,
)
def test_tiles_may_begin_in_the_middle_of_a_tile_of_scales(schedule, formats):
    # Four tiles have every distance from the start of a tile of 128 scales.
    shape = (schedule.block[0] - 3, 4 * schedule.block[1] - 16, 160)
    case = Case(formats, "f32", schedule, shape)
    starts = {tile * schedule.block[1] % ROWS for tile in range(4)}
    assert starts == set(range(0, ROWS, gcd(schedule.block[1], ROWS)))
    assert case.complaint() is None


SMALL = Case(PAIRS[0], "f32", of(128, 128), (130, 136, 512))
PAIR = Case(PAIRS[1], "f32", of(256, 64, cta_group=2), (260, 72, 256))


@pytest.mark.slow
@pytest.mark.parametrize("case", [SMALL, PAIR], ids=["alone", "pair"])
def test_any_order_of_warps_multiplies_the_same(case):
    assert case.complaint(seed=1) is None


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("kind", ["nvfp4", "mxfp4", "mxfp6", "mxfp8"])
def test_weft_matmul_multiplies_every_kind(kind):
    chance = np.random.default_rng(3)
    a, b = (reference.quantize(chance.standard_normal((rows, 256)), kind) for rows in (40, 72))
    scales, factor = (a.tiled_scales, b.tiled_scales), a.factor * b.factor
    schedule = of(128, 64) if kind.startswith("mxfp") else replace(of(128, 64), block=(128, 64, 256))
    found = weft.matmul(
        *(a.elements, b.packed if kind == "nvfp4" else b.elements),
        transpose_b=True,
        scales=scales,
        kind=kind,
        alpha=factor,
        schedule=schedule,
        out_dtype="f32",
    )
    wanted = a.values @ b.values.T
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.slow
def test_bias_and_activation_follow_block_scales():
    chance = np.random.default_rng(4)
    a, b = (reference.quantize(chance.standard_normal((rows, 128)), "mxfp8") for rows in (32, 64))
    bias = chance.standard_normal(64).astype(np.float32)
    found = weft.matmul(
        *(a.elements, b.elements),
        transpose_b=True,
        scales=(a.tiled_scales, b.tiled_scales),
        epilogue=weft.Epilogue(bias=bias, activation="relu"),
        schedule=of(128, 64),
    )
    assert found.dtype == ml_dtypes.bfloat16
    wanted = np.maximum(a.values @ b.values.T + bias, 0)
    assert np.abs(found.astype(np.float64) - wanted).max() < 0.01 * wanted.max()


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("case", "chip"),
    [
        (Case(PAIRS[0], "bf16", of(256, 256, 2, 3, cta_group=2), SHAPES[0]), "sm_100a"),
        (Case(PAIRS[4], "bf16", of(256, 192, 2, 3, cta_group=2), SHAPES[0]), "sm_100a"),
        (Case(PAIRS[1], "bf16", of(256, 128, 2, 3, cta_group=2), SHAPES[0]), "sm_103a"),
        (Case(PAIRS[3], "f32", of(128, 128, 2, 3), SHAPES[0]), "sm_110a"),
    ],
    ids=["nvfp4", "mxfp8 x mxfp4", "mxfp8", "mxfp6"],
)
def test_ptxas_takes_the_kernels_without_spills(case, chip, monkeypatch):
    monkeypatch.setattr(__import__(__name__), "CHIP", chip)
    made = case.kernel(*case.operands())
    assert made.chip == chip and not local_memory(made)
    assert "tcgen05.mma" in made.ptx and "block_scale" in made.ptx


FAULTS = {
    "scales at an address of others": (r"(tcgen05\.cp\S+ \t?\[)%r\d+", r"\g<1>0"),
    "fewer bytes expected": (r"(expect_tx\S+ \S+ \[\S+\], )%r\d+;", r"\g<1>32768;"),
    "a stage that isn't released": (r"tcgen05\.commit[^;]*;", ""),
    "scales that aren't copied": (r"tcgen05\.cp[^;]*;", ""),
}


@pytest.mark.each_value(1)
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_in_what_brings_scales_are_found(fault):
    pattern, new = FAULTS[fault]
    a, b = SMALL.operands()
    right = SMALL.kernel(a, b)
    text, count = re.subn(pattern, new, right.ptx, count=1)
    assert count
    wrong = kernel.Kernel(right.compiled, right.launch)
    wrong._module = emulator.Module(text)
    out = np.full(SMALL.shape[:2], np.nan, np.float32)
    expected = reference.product(
        a.elements, b.elements, transpose_b=True, scale_a=a.tiled_scales, scale_b=b.tiled_scales
    )
    given = a.elements, b.elements, out, a.tiled_scales, b.tiled_scales
    try:
        found = wrong.emulate(*given, max_instructions=200_000).findings
    except (emulator.Fault, emulator.Deadlock) as error:
        found = error.findings
    assert found or not expected.compare(out).passed


@pytest.mark.parametrize(
    ("schedule", "kind", "said"),
    [
        (of(64, 64), "mxfp8", "m must be 128 for kind mxf8f6f4"),
        (of(128, 80), "mxfp8", "block N must be a multiple of 32, .* such as 64 or 96, got 80"),
        (of(128, 16), "mxfp8", "block N must be a multiple of 32, .* such as 32, got 16"),
        (of(256, 128, 2), "mxfp8", "columns of tensor memory, got 524 .*12 of scales"),
        (replace(of(128, 64), block=(128, 64, 64)), "mxfp8", "block K must be a multiple of 128"),
        (replace(of(128, 64), block=(128, 64, 32)), "nvfp4", "block K must be a multiple of 64"),
    ],
)
def test_schedules_that_do_not_fit_scales_are_refused(schedule, kind, said):
    a = reference.quantize(np.ones((128, 256)), kind)
    with pytest.raises(WeftError, match=said):
        weft.matmul(
            *(a.elements, a.elements),
            transpose_b=True,
            scales=(a.tiled_scales, a.tiled_scales),
            schedule=schedule,
        )


@pytest.mark.each_value(4)
@pytest.mark.parametrize("chip", ["sm_100a", "sm_103a", "sm_110a"])
@pytest.mark.parametrize(
    "sizes",
    [(16, 8192, 8192), (1000, 1000, 1024), (8192, 8192, 8192), (64, 32, 256), (1, 1, 32), (64, 8, 8192)],
)
def test_each_kind_has_a_schedule_of_whole_tiles_of_scales(sizes, chip):
    for element, scale in (("f4E2M1FN", "f8E4M3FN"), ("f4E2M1FN", "f8E8M0FNU"), ("f8E4M3FN", "f8E8M0FNU")):
        types = Types(element, element, "bf16", scale=scale)
        schedule = choice.choose(*sizes, types, chip)
        assert isinstance(schedule, TensorMemorySchedule)
        assert schedule.complaint(types, Target.of(chip)) is None


@pytest.mark.parametrize(
    ("chip", "element", "scale", "n"),
    [
        ("sm_100a", "f8E4M3FN", "f8E8M0FNU", 224),
        # Instructions with K = 96 can't read the scales of 224 columns.
        ("sm_103a", "f4E2M1FN", "f8E4M3FN", 192),
    ],
)
def test_tiles_of_any_multiple_of_32_columns_are_chosen(chip, element, scale, n):
    schedule = choice.choose(4096, 7168, 2048, Types(element, element, "bf16", scale=scale), chip)
    assert isinstance(schedule, TensorMemorySchedule) and schedule.block[1] == n


@pytest.mark.slow
def test_weft_matmul_needs_no_schedule():
    chance = np.random.default_rng(5)
    a, b = (reference.quantize(chance.standard_normal((rows, 320)), "nvfp4") for rows in (24, 72))
    factor = a.factor * b.factor
    scales = a.tiled_scales.view(np.uint8).reshape(-1), b.tiled_scales.view(np.uint8).reshape(-1)
    given = {"transpose_b": True, "scales": scales, "kind": "nvfp4", "alpha": factor, "out_dtype": "f32"}
    found = weft.matmul(a.packed, b.packed, **given)
    wanted = a.values @ b.values.T
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())


def scaled(kind, *shape):
    chance = np.random.default_rng(len(shape))
    return reference.quantize(chance.standard_normal(shape), kind, factor=1.0)


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("chip", ["sm_100a", "sm_120a"])
@pytest.mark.parametrize(("kind", "k"), [("nvfp4", 34), ("mxfp4", 66), ("nvfp4", 2)])
def test_k_of_four_bits_may_be_any_multiple_of_two(kind, k, chip):
    a, b = (scaled(kind, rows, k) for rows in (5, 40))
    given = {"transpose_b": True, "scales": (a.tiled_scales, b.tiled_scales), "kind": kind, "arch": chip}
    close(weft.matmul(a.packed, b.packed, out_dtype="f32", **given), a.values @ b.values.T)


@pytest.mark.slow
def test_groups_have_scales_of_their_own():
    a, b = scaled("mxfp8", 256, 128), scaled("mxfp8", 3, 32, 128)
    given = {"transpose_b": True, "scales": (a.tiled_scales, b.tiled_scales), "out_dtype": "f32"}
    groups = np.repeat([2, 0], 128).astype(np.int32)
    found = weft.matmul(a.elements, b.elements, groups=groups, **given)
    for row, group in ((0, 2), (128, 0)):
        close(found[row : row + 128], a.values[row : row + 128] @ b.values[group].T)


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("transposed", [(False, False), (True, True), (True, False)])
def test_mxfp8_may_be_contiguous_along_m_or_n(transposed):
    a, b = scaled("mxfp8", 144, 128), scaled("mxfp8", 64, 128)
    given = (
        np.ascontiguousarray(a.elements.T) if transposed[0] else a.elements,
        b.elements if transposed[1] else np.ascontiguousarray(b.elements.T),
    )
    found = weft.matmul(
        *given,
        transpose_a=transposed[0],
        transpose_b=transposed[1],
        scales=(a.tiled_scales, b.tiled_scales),
        out_dtype="f32",
    )
    close(found, a.values @ b.values.T)


def test_packed_elements_must_be_k_major():
    a = scaled("mxfp4", 64, 64)
    with pytest.raises(
        WeftError, match=r"b must be N x K with contiguous rows .* read f4E2M1FN K-major only"
    ):
        weft.matmul(a.elements, a.elements, scales=(a.tiled_scales, a.tiled_scales))


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("n", "depths"), [(128, [96, 96, 64]), (192, [96, 96, 64]), (224, [64] * 4), (96, [64] * 4)]
)
@pytest.mark.parametrize("formats", PAIRS[:3:2], ids=["nvfp4", "mxfp4"])
def test_a_long_k_is_used_where_a_chip_and_the_scales_allow_it(n, depths, formats, monkeypatch):
    monkeypatch.setattr(__import__(__name__), "CHIP", "sm_103a")
    case = Case(formats, "f32", replace(of(256, n, cta_group=2), block=(256, n, 256)), (130, 2 * n - 16, 512))
    operands = case.operands()
    assert case.kernel(*operands).ptx.count("tcgen05.mma.") == len(depths)
    assert case.complaint() is None
    scale = arrays.mlir_type(operands[0].scales.dtype)
    described = case.fitted.kernel(Types("f4E2M1FN", "f4E2M1FN", "f32", scale=scale), "sm_103a")
    assert described.k_96 == 96 * depths.count(96) / sum(depths)


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("elements", [("e2m1", "e4m3"), ("e3m2", "e2m3")])
def test_narrow_elements_need_no_scales(elements):
    chance = np.random.default_rng(6)
    kinds = {each: kind for kind, format_ in FORMATS.items() for each in format_.elements}
    a, b = (
        reference.quantize(
            chance.standard_normal((rows, 256)), kinds[each], element=each, factor=1.0
        ).elements
        for rows, each in zip((136, 72), elements, strict=True)
    )
    found = weft.matmul(a, b, transpose_b=True, out_dtype="f32")
    close(found, a.astype(np.float64) @ b.astype(np.float64).T)
