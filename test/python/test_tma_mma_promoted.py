"""Promoted sums, float32 scales and MN-major operands of 8 and 32 bits in kernels of `mma.sync` with TMA: in
the emulator with its sanitizer, without spills.
"""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from launches import complaint
from machine_code import local_memory
from products import Case, Product

import weft
from weft.dialects import tile
from weft.dialects.schedule import TmaMmaSchedule, Types
from weft.passes.builders import matrix_moves
from weft.passes.kernels import scale_factors
from weft.passes.kernels.warp_accumulator import WarpAccumulator
from weft.schedules import choice, tma_mma
from weft.target import Target

FP8 = ("f8E4M3FN", "f8E4M3FN", "bf16")
ALL = (("c", "f32"), ("bias", "f32"), ("residual", "f32"))
LAYOUTS = tuple(product((False, True), repeat=2))


def of(
    m: int, n: int, k: int = 128, consumers: tuple[int, int] = (2, 2), stages: int = 2, **fields: Any
) -> TmaMmaSchedule:
    return TmaMmaSchedule((m, n, k), consumers, stages, **fields)


def check(chip: str, made: Product, *shapes: tuple[int, int, int]) -> None:
    """The product is what NumPy computes, from integers and from one of the regimes."""
    kernel = weft.compile(made.module(), chip)
    assert "cp.async.bulk.tensor" in kernel.ptx and "mma.sync" in kernel.ptx
    assert not local_memory(kernel)
    for shape, regime in product(shapes, ("integers", made.regimes[0])):
        assert complaint(made, Case(shape, regime), kernel, "emulator") is None


PROMOTED = [
    (chip, Product(*FP8, of(*tiles, unit_scales=unit), transposed=layout, **{how: True}))
    for how in ("scaled", "promote")
    for layout in LAYOUTS
    for chip, unit in (("sm_120a", True), ("sm_90a", False), ("sm_100a", False), ("sm_121f", False))
    for tiles in ((64, 64), (32, 128, 128, (1, 4), 3))
]


@pytest.mark.each_value(1)
@pytest.mark.sampled(32)
@pytest.mark.parametrize(("chip", "made"), PROMOTED, ids=str)
def test_promoted_sums(chip: str, made: Product) -> None:
    check(chip, made, (144, 160, 272), (16, 48, 128))


PLAIN = [
    ("sm_120a", Product("i8", "i8", "i32", of(64, 64))),
    ("sm_90a", Product("ui8", "i8", "i32", of(32, 64, 64, (1, 4), 3))),
    ("sm_120a", Product(*FP8, of(64, 64, unit_scales=True))),
    ("sm_100a", Product("f8E5M2", "f8E4M3FN", "f8E4M3FN", of(64, 128, 64, (2, 4), 3))),
    ("sm_120a", Product("f32", "f32", "f32", of(64, 64, 32))),
    ("sm_90a", Product("f32", "f32", "bf16", of(32, 64, 16, (1, 4), 3))),
    ("sm_120a", Product(*FP8, of(64, 64), alpha=0.5, beta=-0.5, added=ALL, activation="relu")),
]


@pytest.mark.slow
@pytest.mark.sampled(21)
@pytest.mark.parametrize("layout", [(True, False), (False, False), (True, True)], ids=str)
@pytest.mark.parametrize(("chip", "made"), PLAIN, ids=str)
def test_mn_major_operands_of_8_and_32_bits(chip: str, made: Product, layout: tuple[bool, bool]) -> None:
    check(chip, replace(made, transposed=layout), (144, 160, 272), (16, 48, 112))


GROUPED = [
    Product(*FP8, scaled=True),
    Product(*FP8, transposed=(True, False), scaled=True),
    Product("f8E5M2", "f8E4M3FN", "f32", promote=True),
    Product("i8", "ui8", "i32", transposed=(True, False)),
    Product("f32", "f32", "f32", transposed=(False, False)),
    Product(*FP8, alpha=0.5, beta=-0.5, added=ALL, activation="gelu", scaled=True),
]


@pytest.mark.slow
@pytest.mark.sampled(12)
@pytest.mark.parametrize("many", ["rows", "masked"])
@pytest.mark.parametrize("made", GROUPED, ids=str)
def test_groups(made: Product, many: str) -> None:
    k = 32 if made.a == "f32" else 128
    made = replace(made, many=many, schedule=of(64, 64, k, unit_scales=made.a == "f8E5M2"))
    check("sm_120a", made, (300, 48, 144))


@pytest.mark.slow
@pytest.mark.sampled(16)
@pytest.mark.parametrize("mnk", [(4096, 4096, 4096), (16, 4096, 4096)], ids=str)
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_chosen_schedules_of_scaled_products_do_not_spill(
    layout: tuple[bool, bool], columns: bool, mnk: tuple[int, int, int]
) -> None:
    mn_major = layout[0], not layout[1]
    types = Types(*FP8, mn_major, promoted=True, scaled=True, scale_columns=columns)
    schedule = choice.choose(*mnk, types, "sm_120a")
    assert isinstance(schedule, TmaMmaSchedule)
    with weft.Module() as module:
        kinds = [weft.memref("?x?", kind) for kind in (*FP8, "f32", "f32", "f32")]
        with module.func("product", kinds) as (a, b, d, of_a, of_b, c):
            how = dict(zip(("transpose_a", "transpose_b"), layout, strict=True))
            how |= {"scale_a": of_a, "scale_b": of_b, "scale_columns": columns, "c": c, "beta": 0.5}
            tile.matmul(a, b, d, activation="silu", schedule=schedule, **how)
    assert not local_memory(weft.compile(module, "sm_120a"))


def _largest() -> list[Product]:
    """Each kind of product with all schedules that are tried for it and hold the most sums."""
    kinds = [Product(*FP8, transposed=layout, scaled=True) for layout in LAYOUTS]
    kinds += [Product(*FP8, transposed=layout, promote=True) for layout in LAYOUTS]
    kinds += [
        Product(*types, transposed=layout)
        for types in (FP8, ("i8", "i8", "i32"), ("f32", "f32", "f32"))
        for layout in LAYOUTS
    ]
    return [
        replace(made, schedule=schedule)
        for made in kinds
        for schedule in tma_mma.ranked(4096, 4096, 4096, made.types, "sm_120a")
        if schedule.warp_tile[0] * schedule.warp_tile[1] >= 2048
        and schedule.block[2] * made.types.input_bits == 1024
    ]


@pytest.mark.slow
@pytest.mark.sampled(60)
@pytest.mark.parametrize("made", _largest(), ids=str)
def test_no_candidate_spills(made: Product) -> None:
    assert not local_memory(weft.compile(made.module(), "sm_120a"))


_SCALED = Types(*FP8, promoted=True, scaled=True)
_MN_MAJOR = Types("i8", "i8", "i32", (False, True))
_BOTH = Types("i8", "i8", "i32", (True, True))


@pytest.mark.parametrize(
    ("schedule", "types", "said"),
    [
        (of(64, 64, 64), _SCALED, "block K must be 128, after which sums are promoted, got 64"),
        (of(64, 96, consumers=(4, 1)), _SCALED, "columns of a warp must divide 128"),
        (of(64, 96, consumers=(4, 1)), replace(_SCALED, scale_columns=True), None),
        (of(256, 128, consumers=(4, 2)), _SCALED, "got 369 for a warp's 64 x 64 promoted sums"),
        (of(256, 128, consumers=(4, 2)), Types("i8", "i8", "i32"), None),
        (of(256, 128, consumers=(4, 2)), _MN_MAJOR, None),
        (of(256, 128, consumers=(4, 2)), _BOTH, "at most 232 registers, got 244 for a warp's 64 x 64 sums"),
        (of(64, 16, consumers=(4, 1)), _MN_MAJOR, "block N must be a multiple of 32 for an MN-major operand"),
        (
            of(64, 64, unit_scales=True),
            Types("f8E4M3FN", "f6E2M3FN", "f32", (True, True)),
            "B must be K-major (transpose_b = true), as ldmatrix expands f6E2M3FN, got an MN-major one",
        ),
    ],
    ids=str,
)  # fmt: skip
def test_schedules_are_refused(schedule: TmaMmaSchedule, types: Types, said: str | None) -> None:
    found = schedule.complaint(types, Target.of("sm_120a"))
    assert found is None if said is None else said in (found or ""), found


def test_only_some_chips_transpose_bytes_without_more_registers() -> None:
    schedule = of(256, 128, consumers=(4, 2))
    assert "got 244" in (schedule.complaint(_MN_MAJOR, Target.of("sm_90a")) or "")
    assert schedule.complaint(_MN_MAJOR, Target.of("sm_100a")) is None


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("chip", "where", "name", "fault", "made"),
    [
        ("sm_120a", scale_factors, "_element", lambda found: lambda each, *_: found(each, 0, 0), GROUPED[0]),
        ("sm_90a", WarpAccumulator, "_sorted", lambda _: lambda self, sums: sums, GROUPED[1]),
        ("sm_90a", WarpAccumulator, "_sorted", lambda _: lambda self, sums: sums, GROUPED[3]),
        ("sm_120a", matrix_moves, "pairs", lambda found: lambda *of: _exchanged(found(*of)), GROUPED[3]),
    ],
    ids=["first scale", "promoted sums not sorted", "sums not sorted", "registers exchanged"],
)  # fmt: skip
def test_faults_are_caught(
    chip: str, where: Any, name: str, fault: Any, made: Product, monkeypatch: Any
) -> None:
    """Planted: every lane reads the first scale; sums stay in the order of the fragments; the two registers
    that ldmatrix m16n16 loads are exchanged.
    """
    monkeypatch.setattr(where, name, fault(getattr(where, name)))
    with pytest.raises((AssertionError, weft.WeftError)):
        check(chip, replace(made, schedule=of(64, 64)), (80, 80, 272))


def _exchanged(both: list[matrix_moves.Registers]) -> list[matrix_moves.Registers]:
    return [replace(each, numbers=each.numbers[::-1]) for each in both]
