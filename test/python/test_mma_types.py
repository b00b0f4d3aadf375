"""Products by `mma.sync` of all types of 8 to 64 bits, in every layout, on chips that have one."""

import itertools
import re
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from launches import complaint
from products import Case, Product

import weft
from weft.dialects.schedule import Schedule, TmaMmaSchedule
from weft.schedules import choice
from weft.target import Target

DOUBLES = ("f64", "f64", "f64")
TYPES = {
    "sm_75": (("f16", "f16", "f16"), ("f16", "f16", "f32"), ("i8", "ui8", "i32")),
    "sm_80": (
        ("f16", "f16", "f16"),
        ("bf16", "bf16", "f32"),
        ("f32", "f32", "bf16"),
        ("i8", "ui8", "i32"),
        DOUBLES,
    ),
    "sm_89": (("f8E4M3FN", "f8E5M2", "bf16"), ("f8E5M2", "f8E5M2", "f8E4M3FN")),
    "sm_90a": (("i8", "i8", "i32"), ("f32", "f32", "f32"), ("f8E4M3FN", "f8E4M3FN", "f16"), DOUBLES),
    "sm_120": (DOUBLES,),
}
LAYOUTS = tuple(product((False, True), repeat=2))
CASES = [
    (chip, Product(*types, transposed=layout, rows=rows, many=many, members=2))
    for rows, many in (("aligned", ""), ("shifted", ""), ("dense", "batch"))
    for chip, all_types in TYPES.items()
    for types in all_types
    for layout in LAYOUTS
]


def scheduled(chip: str, made: Product) -> Product:
    """The product with the schedule of `mma.sync` that it gets on the chip."""
    schedule = choice.choose(300, 300, 300, made.types, chip, any_rows=True)
    assert isinstance(schedule, Schedule)
    return replace(made, schedule=schedule)


@pytest.mark.each_value(1)
@pytest.mark.sampled(29)
@pytest.mark.parametrize(("chip", "made"), CASES, ids=str)
def test_products(chip: str, made: Product) -> None:
    made = scheduled(chip, made)
    kernel = weft.compile(made.module(), chip)
    assert "mma.sync" in kernel.ptx
    for case in (Case((131, 70, 41), "integers"), Case((40, 56, 80), made.regimes[0])):
        assert complaint(made, case, kernel, "emulator") is None
    assert kernel.resources.spill_stores == kernel.resources.stack_bytes == 0


@pytest.mark.slow
def test_bytes_are_transposed_by_ldmatrix() -> None:
    for chip, types in (("sm_89", ("f8E4M3FN", "f8E4M3FN", "f32")), ("sm_80", ("i8", "i8", "i32"))):
        ptx = weft.compile(Product(*types, transposed=(True, False)).module(), chip).ptx
        assert "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16" in ptx
        assert "ld.shared.b8" not in ptx


@pytest.mark.slow
def test_tiles_go_through_registers_without_cp_async() -> None:
    for types, instruction in (
        (("f16", "f16", "f32"), "m16n8k8.row.col.f32.f16.f16.f32"),
        (("ui8", "i8", "i32"), "m8n8k16.row.col.s32.u8.s8.s32"),
    ):
        ptx = weft.compile(Product(*types).module(), "sm_75").ptx
        assert f"mma.sync.aligned.{instruction}" in ptx
        assert "cp.async" not in ptx
        assert "ld.global.v4.b32" in ptx
        # What was loaded is stored after the products of the previous K block.
        moves = re.findall(r"mma\.sync|st\.shared\.v(?:4\.b32|2\.b64)|bar\.sync", ptx)
        stored = {after for before, after in itertools.pairwise(moves) if before == "mma.sync"}
        assert stored & {"st.shared.v4.b32", "st.shared.v2.b64"}


@pytest.mark.slow
@pytest.mark.parametrize("warps", [(1, 3), (4, 1), (2, 6)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_any_warps_copy_tiles_through_registers(warps: tuple[int, int], layout: tuple[bool, bool]) -> None:
    schedule = Schedule((64, 96, 32), warps, 2)
    made = Product(
        "f16", "f16", "bf16", schedule, layout, beta=1.0, added=(("c", "bf16"), ("bias", "f32")), alpha=0.5
    )
    kernel = weft.compile(made.module(), "sm_75")
    for mnk in ((104, 136, 72), (65, 97, 1), (33, 40, 50)):
        assert complaint(made, Case(mnk, "integers"), kernel, "emulator") is None


@pytest.mark.each_value(1)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_f64_has_an_epilogue_of_f64(layout: tuple[bool, bool]) -> None:
    added = (("c", "f64"), ("bias", "f64"), ("residual", "f64"))
    made = Product(
        *DOUBLES, transposed=layout, alpha=0.3, beta=-0.7, added=added, activation="relu", many="batch"
    )
    made = replace(made, schedule=Schedule((32, 32, 16), (2, 2), 3), members=2)
    kernel = weft.compile(made.module(), "sm_90")
    for mnk in ((67, 70, 41), (64, 66, 16)):
        assert complaint(made, Case(mnk, "normal"), kernel, "emulator") is None
    assert kernel.resources.spill_stores == kernel.resources.stack_bytes == 0


@pytest.mark.slow
def test_f64_has_k_blocks_of_64_bytes_with_small_instructions() -> None:
    kernel = weft.compile(Product(*DOUBLES, Schedule((32, 32, 8), (2, 2), 4)).module(), "sm_80")
    assert complaint(Product(*DOUBLES), Case((33, 34, 21), "normal"), kernel, "emulator") is None


@pytest.mark.slow
def test_f64_takes_the_largest_instruction_of_the_chip() -> None:
    for chip, shape in (("sm_80", "m8n8k4"), ("sm_90", "m16n8k16"), ("sm_100a", "m16n8k16")):
        ptx = weft.compile(Product(*DOUBLES).module(), chip).ptx
        assert set(re.findall(r"mma\.sync\S+", ptx)) == {f"mma.sync.aligned.{shape}.row.col.f64.f64.f64.f64"}


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"d": "f32"}, "D and what is added to it to be f64 if and only if A and B are f64"),
        ({"a": "f32", "b": "f32"}, "D and what is added to it to be f64 if and only if A and B are f64"),
        ({"b": "f32"}, "expects A and B of one element type"),
        ({"activation": "silu"}, "activation must be relu where D is f64, got 'silu'"),
        ({"factors": "one"}, "expects alpha a number where A and B are f64"),
        ({"alpha": float("inf")}, "alpha must be finite in f64"),
        (
            {"schedule": Schedule((64, 64, 8), (2, 2), 2)},
            "block K must be a multiple of 16, the K of m16n8k16",
        ),
        (
            {"schedule": TmaMmaSchedule((64, 64, 16), (2, 2), 2)},
            "f64 needs a schedule of mma.sync without TMA",
        ),
    ],
    ids=str,
)
def test_f64_is_refused(how: dict[str, Any], message: str) -> None:
    given = {"a": "f64", "b": "f64", "d": "f64", **how}
    with pytest.raises(weft.WeftError, match=message):
        weft.compile(Product(**given).module(), "sm_90a")


@pytest.mark.parametrize(
    ("types", "chip", "message"),
    [
        (DOUBLES, "sm_75", "it needs sm_80 or later"),
        (("i8", "ui8", "i32"), "sm_72", "it needs sm_75 or later"),
        (("bf16", "bf16", "f32"), "sm_75", "it needs sm_80 or later"),
    ],
    ids=str,
)
def test_older_chips_are_refused(types: tuple[str, str, str], chip: str, message: str) -> None:
    with pytest.raises(weft.WeftError, match=message):
        weft.compile(Product(*types).module(), chip)


def test_a_named_schedule_is_refused_by_its_instruction() -> None:
    types = Product("f16", "f16", "f32").types
    schedule = Schedule((64, 64, 64), (2, 2), 2)
    assert schedule.complaint(types, Target.of("sm_75")) is None
    assert "needs sm_75 or later" in (schedule.complaint(types, Target.of("sm_70")) or "")
