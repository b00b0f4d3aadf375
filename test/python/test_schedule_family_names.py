"""The name of a family selects which schedules a product's is chosen from."""

import pytest

import weft
from weft import passes
from weft.dialects import tile
from weft.dialects.schedule import (
    FAMILIES,
    Schedule,
    TensorMemorySchedule,
    TmaMmaSchedule,
    Types,
    WmmaSchedule,
)
from weft.dialects.schedule.families import families_named, family_name
from weft.mlir import operations
from weft.schedules import choice

BF16 = Types("bf16", "bf16", "bf16", (False, True))


@pytest.mark.parametrize(
    ("chip", "family", "expected"),
    [
        ("sm_90a", "mma", Schedule),
        ("sm_90a", "wmma", WmmaSchedule),
        ("sm_100a", "mma", Schedule),
        ("sm_100a", "tcgen05", TensorMemorySchedule),
        ("sm_120a", "mma", TmaMmaSchedule),
    ],
)
def test_a_name_selects_the_family(chip: str, family: str, expected: type) -> None:
    assert type(choice.choose(512, 512, 512, BF16, chip, family=family)) is expected


@pytest.mark.parametrize("family", tuple(FAMILIES), ids=lambda each: each.__name__)
def test_each_family_has_a_name(family: type) -> None:
    assert family in families_named(family_name(family))


@pytest.mark.parametrize(
    ("types", "chip", "family", "message"),
    [
        (
            BF16,
            "sm_80",
            "wgmma",
            "family must be mma or wmma for bf16 and bf16 on sm_80, got wgmma: wgmma needs sm_90a",
        ),
        (
            BF16,
            "sm_90a",
            "tcgen05",
            "family must be wgmma or mma or wmma for bf16 and bf16 on sm_90a, got tcgen05",
        ),
        (BF16, "sm_90a", "wgma", "family must be one of .*wgmma.*, got 'wgma'.*did you mean 'wgmma'"),
    ],
)
def test_a_refusal_names_the_families_that_could(types: Types, chip: str, family: str, message: str) -> None:
    with pytest.raises(weft.WeftError, match=message):
        choice.choose(512, 512, 512, types, chip, family=family)


def _selected(options: str, schedule: Schedule | None = None) -> object:
    with weft.Module() as module, module.func("product", [weft.memref("?x?", "bf16")] * 3) as (a, b, d):
        tile.matmul(a, b, d, transpose_b=True, schedule=schedule)
    passes.manager(f"select-schedule{{{options}}}", module.context).run(module.mlir.operation)
    (op,) = operations(module.mlir.operation, tile.MatmulOp)
    return op.schedule


def test_the_pass_takes_a_family() -> None:
    assert isinstance(_selected("chip=sm_90a family=mma"), Schedule)
    named = Schedule((64, 64, 64), (2, 2), 3)
    assert _selected("chip=sm_90a family=wgmma", named) == named
    with pytest.raises(
        weft.WeftError, match="family must be mma or wmma for bf16 and bf16 on sm_80, got wgmma"
    ):
        _selected("chip=sm_80 family=wgmma")
    with pytest.raises(weft.WeftError, match=r"--select-schedule: family must be one of .*got 'tensor'"):
        _selected("chip=sm_80 family=tensor")
