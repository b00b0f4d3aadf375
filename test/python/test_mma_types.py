"""Products by `mma.sync` of all types of 8 to 32 bits, in every layout, on chips that have one."""

from dataclasses import replace
from itertools import product

import pytest
from launches import complaint
from products import Case, Product

import weft
from weft.dialects.schedule import Schedule
from weft.schedules import choice

TYPES = {
    "sm_80": (("f16", "f16", "f16"), ("bf16", "bf16", "f32"), ("f32", "f32", "bf16"), ("i8", "ui8", "i32")),
    "sm_89": (("f8E4M3FN", "f8E5M2", "bf16"), ("f8E5M2", "f8E5M2", "f8E4M3FN")),
    "sm_90a": (("i8", "i8", "i32"), ("f32", "f32", "f32"), ("f8E4M3FN", "f8E4M3FN", "f16")),
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


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("chip", "made"), CASES, ids=str)
def test_products(chip: str, made: Product) -> None:
    made = scheduled(chip, made)
    kernel = weft.compile(made.module(), chip)
    assert "mma.sync" in kernel.ptx
    for case in (Case((151, 133, 73), "integers"), Case((40, 56, 80), made.regimes[0])):
        assert complaint(made, case, kernel, "emulator") is None
    assert kernel.resources.spill_stores == kernel.resources.stack_bytes == 0


def test_bytes_are_transposed_by_ldmatrix() -> None:
    for chip, types in (("sm_89", ("f8E4M3FN", "f8E4M3FN", "f32")), ("sm_80", ("i8", "i8", "i32"))):
        ptx = weft.compile(Product(*types, transposed=(True, False)).module(), chip).ptx
        assert "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16" in ptx
        assert "ld.shared.b8" not in ptx
