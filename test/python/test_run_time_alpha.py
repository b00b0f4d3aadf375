"""Products whose kernels read alpha from memory, in the emulator with its sanitizer: every family, with one
alpha for all products and one for each, and all that follows the multiplication by alpha.
"""

from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest
from launches import complaint
from products import Case, Product

import weft
from weft import reference
from weft.dialects.schedule import (
    AnySchedule,
    Schedule,
    TensorMemorySchedule,
    TmaMmaSchedule,
    Types,
    WarpgroupSchedule,
)
from weft.errors import WeftError
from weft.multiply import product_kernel
from weft.target import Target

BF16, F16, FP8 = ("bf16", "bf16", "bf16"), ("f16", "f16", "f32"), ("f8E4M3FN", "f8E5M2", "bf16")
TF32, BOTH_E4M3 = ("f32", "f32", "f32"), ("f8E4M3FN", "f8E4M3FN", "f32")
EVERYTHING = {
    "beta": -2.0,
    "added": (("c", "f32"), ("bias", "f32"), ("residual", "bf16")),
    "activation": "relu",
}
RAGGED = (-5, -3, 24), (3, 5, -8), (-1, 8, 136)
"""What M, N and K have in addition to one tile, or lack."""


def warps() -> AnySchedule:
    return Schedule((64, 64, 32), (2, 2), 2)


def wgmma(m: int = 64, n: int = 64, k: int = 64, warpgroups: int = 1, **fields: object) -> AnySchedule:
    return WarpgroupSchedule((m, n, k), warpgroups, 3, **fields)  # type: ignore[arg-type]


def tcgen05(m: int = 128, n: int = 32, k: int = 64, **fields: object) -> AnySchedule:
    return TensorMemorySchedule((m, n, k), 2, 2, **fields)  # type: ignore[arg-type]


def tma(k: int = 64, **fields: object) -> AnySchedule:
    return TmaMmaSchedule((64, 64, k), (2, 2), 2, **fields)  # type: ignore[arg-type]


# A chip, element types, a schedule, and what else a product has.
FAMILIES = (
    ("sm_80", BF16, warps(), {}),
    ("sm_80", F16, warps(), {"rows": "shifted"}),
    ("sm_90a", F16, warps(), {"transposed": (False, False)}),
    ("sm_90a", BF16, wgmma(128, warpgroups=2), {}),
    ("sm_90a", F16, wgmma(swap=True), {"transposed": (True, False)}),
    ("sm_90a", F16, wgmma(splits=2), {}),
    ("sm_90a", BF16, wgmma(cluster=(2, 1)), {}),
    ("sm_90a", F16, wgmma(global_splits=2), {}),
    ("sm_90a", F16, wgmma(stream_k=True), {}),
    ("sm_90a", TF32, wgmma(k=32), {}),
    ("sm_90a", FP8, wgmma(k=128), {"promote": True}),
    ("sm_90a", BOTH_E4M3, wgmma(k=128), {"scaled": True}),
    ("sm_100a", BF16, tcgen05(), {}),
    ("sm_100a", F16, tcgen05(64, 96, epilogues=2), {}),
    ("sm_100a", BF16, tcgen05(256, cta_group=2), {"transposed": (True, False)}),
    ("sm_100a", BF16, tcgen05(128, 64, cta_group=2), {}),
    ("sm_100a", F16, tcgen05(128, 16, swap=True), {}),
    ("sm_100a", F16, tcgen05(global_splits=2), {}),
    ("sm_100a", BF16, tcgen05(cluster=(2, 1)), {}),
    ("sm_100a", BF16, tcgen05(dynamic=True), {}),
    ("sm_100a", TF32, tcgen05(k=32), {}),
    ("sm_100a", FP8, tcgen05(k=128), {"promote": True}),
    ("sm_100a", BOTH_E4M3, tcgen05(k=128), {"scaled": True}),
    ("sm_120a", BF16, tma(), {}),
    ("sm_120a", FP8, tma(), {}),
    ("sm_120a", BOTH_E4M3, tma(128, unit_scales=True), {}),
    ("sm_120a", TF32, tma(32), {}),
)
GROUPED = tuple(
    (chip, types, schedule, {"many": many, "scaled": scaled})
    for many in ("rows", "masked")
    for chip, types, schedule, scaled in (
        ("sm_90a", BF16, wgmma(128, warpgroups=2), False),
        ("sm_90a", F16, wgmma(swap=True), False),
        ("sm_90a", BOTH_E4M3, wgmma(k=128), True),
        ("sm_100a", BF16, tcgen05(), False),
        ("sm_100a", BF16, tcgen05(128, 64, cta_group=2), False),
        ("sm_100a", BOTH_E4M3, tcgen05(k=128, swap=True), True),
        ("sm_120a", BF16, tma(), False),
    )
)


def cases() -> list[tuple[str, Product, tuple[int, int, int]]]:
    """Every family alone and as a batch, with and without an epilogue."""
    sizes, batches, found = cycle(RAGGED), cycle(("batch", "one a", "one b")), []
    for number, (chip, types, schedule, how) in enumerate(FAMILIES):
        shape = *schedule.swapped(*schedule.block[:2]), schedule.block[2]  # type: ignore[attr-defined]
        one = Product(*types, schedule, factors="one", **how)
        each = replace(one, factors="each", many=next(batches), members=2)
        for product in (one, each, replace(each, factors="one")):
            if (number + len(found)) % 2 and "scaled" not in how:
                product = replace(product, **EVERYTHING)
            m, n, k = (max(sum(each), 1) for each in zip(shape, next(sizes), strict=True))
            found.append((chip, product, (m, n, k)))
    for chip, types, schedule, how in GROUPED:
        for factors in ("each", "one"):
            found.append((chip, Product(*types, schedule, factors=factors, members=3, **how), (300, 72, 136)))
    return found


@pytest.mark.each_value(1)
@pytest.mark.sampled(11)
@pytest.mark.parametrize(("chip", "product", "shape"), cases(), ids=lambda each: str(each))
def test_products(chip: str, product: Product, shape: tuple[int, int, int]) -> None:
    assert product.schedule.complaint(product.types, Target.of(chip)) is None
    kernel = weft.compile(product.module(), chip)
    assert complaint(product, Case(shape, "integers"), kernel, "emulator") is None


@pytest.mark.each_value(1)
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("chip", "schedule"),
    [
        ("sm_100a", tcgen05(128, 64, 256)),
        ("sm_100a", tcgen05(256, 128, 256, cta_group=2)),
        ("sm_100a", tcgen05(128, 32, 256, swap=True)),
        ("sm_100a", tcgen05(128, 64, 256, global_splits=2)),
        ("sm_120a", tma(128)),
        ("sm_120a", tma(256)),
    ],
    ids=str,
)
def test_the_factors_of_nvfp4(chip: str, schedule: AnySchedule) -> None:
    """Each member of a batch has its own pair of factors, whose product is its alpha."""
    m, n, k = 140, 72, 256
    chance = np.random.default_rng(3)
    pairs = [
        [reference.quantize(chance.standard_normal((rows, k)) * size, "nvfp4") for rows in (m, n)]
        for size in (0.01, 30.0)
    ]
    types = Types("f4E2M1FN", "f4E2M1FN", "f32", scale="f8E4M3FN")
    assert schedule.complaint(types, Target.of(chip)) is None
    roles = ("scale_a", "f8E4M3FN", 3), ("scale_b", "f8E4M3FN", 3), ("alpha", "f32", 1)
    asked = product_kernel.Asked(types, (3, 3, 3), roles, (False, True))
    kernel = product_kernel.compiled(asked, schedule, chip)
    a, b = (np.stack([pair[side].elements for pair in pairs]) for side in (0, 1))
    tiles = [np.stack([pair[side].tiled_scales for pair in pairs]) for side in (0, 1)]
    alpha = np.array([x.factor * y.factor for x, y in pairs], np.float32)
    d = np.full((2, m, n), np.nan, np.float32)
    assert not kernel.emulate(a, b, d, *tiles, alpha).findings
    for number, (x, y) in enumerate(pairs):
        scales = {"scale_a": x.tiled_scales, "scale_b": y.tiled_scales}
        expected = reference.product(x.elements, y.elements, transpose_b=True, alpha=alpha[number], **scales)
        assert expected.compare(d[number]).passed
        want = x.values @ y.values.T
        assert np.abs(d[number] - want).max() < 1e-5 * np.abs(want).max()


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("chip", ["sm_90a", "sm_100a", "sm_120a"])
def test_alpha_is_read_after_the_launch_before(chip: str) -> None:
    """The kernel before may have computed it."""
    schedule = {"sm_90a": wgmma(), "sm_100a": tcgen05(), "sm_120a": tma()}[chip]
    kernel = weft.compile(Product(*F16, schedule, factors="one").module(), chip)
    before, load, _ = kernel.ptx.partition("ld.global")
    assert load and "griddepcontrol.wait" in before
    assert "ld.global" not in weft.compile(Product(*F16, schedule).module(), chip).ptx


@pytest.mark.slow
def test_large_tiles_spill_nothing() -> None:
    schedule = TensorMemorySchedule((256, 256, 64), 2, 5, cta_group=2)
    resources = weft.compile(Product(*BF16, schedule, factors="one").module(), "sm_100a").resources
    assert resources.spill_stores == resources.stack_bytes == 0


def test_a_launch_with_too_few_is_refused() -> None:
    module = Product(*F16, warps(), factors="each", many="batch").module()
    kernel = weft.compile(module, "sm_80")
    a, d = np.zeros((3, 32, 32), np.float16), np.zeros((3, 32, 32), np.float32)
    with pytest.raises(WeftError, match="the shapes of its arguments don't fit together"):
        kernel.emulate(a, a, d, np.ones(2, np.float32))
