"""Products by `wmma.mma`, in every layout, on chips that have it."""

from dataclasses import replace
from itertools import product

import pytest
from launches import complaint
from products import Case, Product

import weft
from weft.dialects.schedule import Schedule, Types, WmmaSchedule
from weft.schedules import choice
from weft.target import Target

HALVES = ("f16", "f16", "f16")
TYPES = {
    "sm_70": (HALVES, ("f16", "f16", "f32")),
    "sm_72": (("i8", "i8", "i32"), ("ui8", "ui8", "i32")),
    "sm_75": (HALVES, ("i8", "i8", "i32")),
    "sm_80": (("bf16", "bf16", "f32"), ("f32", "f32", "bf16"), ("f16", "f16", "f32")),
    "sm_90a": (("f32", "f32", "f32"), ("ui8", "ui8", "i32")),
}
LAYOUTS = tuple(product((False, True), repeat=2))
CASES = [
    (chip, Product(*types, transposed=layout, rows=rows, many=many, members=2))
    for rows, many in (("aligned", ""), ("shifted", ""), ("dense", "batch"))
    for chip, all_types in TYPES.items()
    for types in all_types
    for layout in LAYOUTS
]
WIDE = WmmaSchedule((128, 128, 32), (2, 4), 2)


def scheduled(chip: str, made: Product, m: int = 300) -> Product:
    """The product with the schedule of `wmma` that it gets on the chip."""
    schedule = choice.choose(m, 300, 300, made.types, chip, any_rows=True, family="wmma")
    assert isinstance(schedule, WmmaSchedule)
    return replace(made, schedule=schedule)


@pytest.mark.each_value(1)
@pytest.mark.sampled(60)
@pytest.mark.parametrize(("chip", "made"), CASES, ids=str)
def test_products(chip: str, made: Product) -> None:
    made = scheduled(chip, made)
    kernel = weft.compile(made.module(), chip)
    assert kernel.ptx.count("bar.warp.sync") >= 2  # sums are exchanged between lanes
    assert "wmma.mma" in kernel.ptx and "mma.sync.aligned.m" not in kernel.ptx
    for case in (Case((131, 70, 41), "integers"), Case((40, 56, 80), made.regimes[0])):
        assert complaint(made, case, kernel, "emulator") is None
    # ptxas makes room for a second CTA on each multiprocessor, with which products of tf32 are 1.6 times as
    # fast: worth three spills, and the eight of a batch with both operands MN-major.
    most = 0 if made.a != "f32" else 32 if made.many and all(made.transposed) else 16
    resources = kernel.resources
    assert resources.spill_stores <= most and resources.stack_bytes <= most
    assert not resources.spill_stores or resources.registers <= 128


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["aligned", "shifted"])
@pytest.mark.parametrize("many", ["rows", "masked"])
@pytest.mark.parametrize(
    ("chip", "made"), [("sm_70", Product(*HALVES)), ("sm_72", Product("i8", "i8", "i32"))], ids=str
)
def test_groups(chip: str, made: Product, many: str, rows: str) -> None:
    made = scheduled(chip, replace(made, many=many, rows=rows))
    kernel = weft.compile(made.module(), chip)
    assert complaint(made, Case((300, 41, 80), "integers"), kernel, "emulator") is None


EPILOGUES = {
    "all": {
        "alpha": 2.0,
        "added": (("c", "f16"), ("bias", "f16"), ("residual", "f16")),
        "beta": 1.0,
        "activation": "relu",
    },
    "scaled and added": {"alpha": 0.5, "beta": 2.0, "added": (("c", "f16"),)},
    "bias and activation": {"added": (("bias", "f16"),), "activation": "gelu"},
}


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("extra", EPILOGUES.values(), ids=EPILOGUES)
@pytest.mark.parametrize("m", [7, pytest.param(60, marks=pytest.mark.slow)])
def test_epilogues(m: int, extra: dict[str, object]) -> None:
    made = scheduled("sm_70", Product(*HALVES, **extra), m)  # type: ignore[arg-type]
    kernel = weft.compile(made.module(), "sm_70")
    assert complaint(made, Case((m, 90, 72), made.regimes[0]), kernel, "emulator") is None
    assert complaint(made, Case((m, 45, 33), made.regimes[0]), kernel, "emulator") is None


@pytest.mark.parametrize(
    ("types", "chip", "expected"),
    [
        (Types(*HALVES), "sm_70", WmmaSchedule),
        (Types("i8", "i8", "i32"), "sm_72", WmmaSchedule),
        (Types(*HALVES), "sm_75", Schedule),
        (Types("bf16", "bf16", "bf16"), "sm_80", Schedule),
    ],
)
def test_wmma_is_the_default_where_no_other_family_multiplies(
    types: Types, chip: str, expected: type
) -> None:
    assert type(choice.choose(512, 512, 512, types, chip)) is expected


@pytest.mark.parametrize("chip", TYPES)
@pytest.mark.parametrize("m", [5, 100, 4096])
def test_chosen_schedules_are_legal(chip: str, m: int) -> None:
    for (a, b, d), layout in product(TYPES[chip], LAYOUTS):
        types = Types(a, b, d, layout)
        chosen = choice.choose(m, 4096, 4096, types, chip, family="wmma")
        assert chosen.complaint(types, Target.of(chip)) is None


@pytest.mark.parametrize(
    ("types", "chip", "message"),
    [
        (Types("bf16", "bf16", "f32"), "sm_70", "needs sm_80 or later, or A and B of f16"),
        (Types("f64", "f64", "f64"), "sm_72", "needs sm_80 or later, or A and B of f16"),
        (Types("i8", "i8", "i32"), "sm_70", "needs sm_72 or later, or A and B of f16"),
        (Types("i8", "ui8", "i32"), "sm_72", "needs sm_75 or later, or A and B of i8"),
    ],
)
def test_types_that_a_chip_lacks_name_the_chips_and_a_type(types: Types, chip: str, message: str) -> None:
    with pytest.raises(weft.WeftError, match=message):
        choice.choose(512, 512, 512, types, chip)


@pytest.mark.parametrize(
    ("changes", "types", "message"),
    [
        (
            {"block": (120, 128, 32)},
            HALVES,
            "warp_grid must divide block M 120 and block N 128 in multiples of 16",
        ),
        ({"block": (128, 192, 32)}, HALVES, "the columns of a warp, .* must be a power of two, got 48"),
        ({"block": (512, 256, 32), "warp_grid": (1, 1)}, HALVES, "a warp must hold at most .* sums"),
        ({"warp_grid": (8, 8)}, HALVES, "warp_grid must have at most 32 warps, got 8 x 8"),
        ({"block": (128, 128, 48)}, HALVES, "block K must be 32 or 64 .*got 48"),
        ({"stages": 1}, HALVES, "stages must be at least 2, got 1"),
        ({"stages": 9}, HALVES, "shared memory must be at most .* on sm_70"),
        ({}, ("bf16", "bf16", "f32"), "wmma.mma needs sm_80 or later"),
        ({}, ("f64", "f64", "f64"), "wmma.mma must multiply elements of 8 to 32 bits, got f64 and f64"),
    ],
)
def test_illegal_schedules_name_their_rule(
    changes: dict[str, object], types: tuple[str, str, str], message: str
) -> None:
    schedule = replace(WIDE, **changes)  # type: ignore[arg-type]
    found = schedule.complaint(Types(*types), Target.of("sm_70"))
    with pytest.raises(weft.WeftError, match=message):
        raise weft.WeftError(found or "no complaint")


def test_blocks_that_no_copy_covers_are_refused_where_mn_major() -> None:
    complaint = replace(WIDE, block=(96, 128, 32)).complaint(
        Types(*HALVES, (True, False)), Target.of("sm_70")
    )
    assert complaint == "block M must be a power of two of up to 512 bytes where MN-major, got 96"
    assert replace(WIDE, block=(96, 128, 32)).complaint(Types(*HALVES), Target.of("sm_70")) is None


@pytest.mark.slow
def test_a_stage_has_padded_rows() -> None:
    kernel = weft.compile(Product(*HALVES, schedule=WIDE).module(), "sm_70")
    assert WIDE.stage_bytes(Types(*HALVES, (False, True))) == 2 * (128 * 32 * 2) + 2 * 128 * 16 - 96 * 16
    assert WIDE.shared_bytes(Product(*HALVES).types) >= kernel.resources.shared_bytes
