"""Groups, promoted sums and float32 scales of `mma.sync` without TMA: in the emulator with its sanitizer."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from launches import complaint
from products import Case, Product

import weft
from weft.dialects.schedule import Schedule, Types
from weft.passes.kernels import scale_factors, tile_order
from weft.schedules import choice

FP8 = ("f8E4M3FN", "f8E4M3FN", "bf16")
LAYOUTS = tuple(product((False, True), repeat=2))
FP8_CHIPS = ("sm_89", "sm_90", "sm_100", "sm_120")
ALL = (("c", "f32"), ("bias", "f32"), ("residual", "f32"))
GROUPED = [
    ("sm_75", Product("f16", "f16", "f32")),
    ("sm_75", Product("i8", "ui8", "i32")),
    ("sm_80", Product("bf16", "bf16", "f32", transposed=(True, False))),
    ("sm_80", Product("f32", "f32", "bf16")),
    ("sm_80", Product("f64", "f64", "f64")),
    ("sm_89", Product("f16", "f16", "f32", alpha=0.5, beta=-0.5, added=ALL, activation="relu")),
    ("sm_89", Product("f8E4M3FN", "f8E5M2", "f8E4M3FN")),
    ("sm_90a", Product(*FP8, transposed=(True, False), promote=True)),
    ("sm_120a", Product("f8E5M2", "f8E4M3FN", "f32", scaled=True)),
]
PROMOTED = [
    (chip, Product(*FP8, transposed=layout, **{how: True}))
    for how in ("promote", "scaled")
    for chip in FP8_CHIPS
    for layout in LAYOUTS
]


def compiled(chip: str, made: Product) -> tuple[Product, weft.Kernel]:
    """A product with the schedule of `mma.sync` that it gets on a chip, and its kernel."""
    schedule = choice.choose(300, 300, 300, made.types, chip, any_rows=True, family="mma")
    assert isinstance(schedule, Schedule)
    made = replace(made, schedule=schedule)
    kernel = weft.compile(made.module(), chip)
    assert "mma.sync" in kernel.ptx
    assert kernel.resources.spill_stores == kernel.resources.stack_bytes == 0
    return made, kernel


def check(chip: str, made: Product, *shapes: tuple[int, int, int]) -> None:
    """The product is what NumPy computes, from integers and from one of the regimes."""
    made, kernel = compiled(chip, made)
    for shape, regime in product(shapes, ("integers", made.regimes[0])):
        assert complaint(made, Case(shape, regime), kernel, "emulator") is None


@pytest.mark.each_value(1)
@pytest.mark.sampled(7)
@pytest.mark.parametrize("rows", ["aligned", "shifted"])
@pytest.mark.parametrize("many", ["rows", "masked"])
@pytest.mark.parametrize(("chip", "made"), GROUPED, ids=str)
def test_groups(chip: str, made: Product, many: str, rows: str) -> None:
    check(chip, replace(made, many=many, rows=rows), (300, 41, 144))


@pytest.mark.slow
@pytest.mark.sampled(9)
@pytest.mark.parametrize("rows", ["aligned", "shifted"])
@pytest.mark.parametrize(("chip", "made"), PROMOTED, ids=str)
def test_promoted_sums(chip: str, made: Product, rows: str) -> None:
    check(chip, replace(made, rows=rows), (133, 139, 272))


@pytest.mark.slow
def test_an_epilogue_of_promoted_sums() -> None:
    check(
        "sm_89", Product(*FP8, alpha=0.5, beta=-0.5, added=ALL, activation="gelu", scaled=True), (70, 66, 272)
    )


PROMOTED_TYPES = Types(*FP8, promoted=True, scaled=True)


@pytest.mark.parametrize(
    ("schedule", "types", "said"),
    [
        (
            Schedule((64, 64, 64), (2, 2), 2),
            PROMOTED_TYPES,
            "block K must be 128, after which sums are promoted",
        ),
        (Schedule((128, 64, 128), (2, 2), 2), PROMOTED_TYPES, "at most 1024 promoted sums, got 64 x 32"),
        (Schedule((16, 96, 128), (1, 2), 2), PROMOTED_TYPES, "columns of a warp must divide 128"),
        (Schedule((16, 96, 128), (1, 2), 2), replace(PROMOTED_TYPES, scale_columns=True), None),
        (
            Schedule((192, 64, 32), (4, 2), 2),
            Types("bf16", "bf16", "f32", grouped=True),
            "block M must divide 128 with groups, got 192",
        ),
    ],
    ids=str,
)
def test_schedules_are_refused(schedule: Schedule, types: Types, said: str | None) -> None:
    found = schedule.complaint(types)
    assert found is None if said is None else said in (found or ""), found


def test_promoted_sums_need_fp8() -> None:
    with pytest.raises(weft.WeftError, match="it needs sm_89 or later"):
        weft.compile(Product(*FP8, promote=True).module(), "sm_80")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "name", "first", "made"),
    [
        (scale_factors, "_element", (0, 0), Product(*FP8, scaled=True)),
        (tile_order, "element", (0,), Product("bf16", "bf16", "f32", many="rows")),
    ],
    ids=["scale", "group"],
)
def test_another_group_or_scale_is_caught(
    where: Any, name: str, first: tuple[int, ...], made: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: all read what comes first."""
    found = getattr(where, name)
    monkeypatch.setattr(where, name, lambda array, *_: found(array, *first))
    with pytest.raises(AssertionError):
        check("sm_89", made, (300, 72, 272))
