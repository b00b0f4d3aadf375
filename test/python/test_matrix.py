"""The matrix of `tile.matmul`: its page, every product that it states, and every refusal."""

import json
import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import matrix_docs
import pytest
from matrix_cases import FAMILY_NAMES, ROWS_OF, SIZES, Stated, every
from products import Product

import weft
from weft.dialects.element_types import PTX_INPUTS
from weft.errors import WeftError
from weft.isa.chips import CHIPS
from weft.passes.kernels.tile_order import Ends
from weft.schedules import choice, matrix
from weft.schedules.matrix import Cell
from weft.target import Target

ROOT = Path(__file__).parents[2]
ROWS = tuple(matrix.inputs())
EVERY = list(every())
# What a message names in the place of a product with an extra.
NEAREST = (
    "sums of f32",
    "sums without promote",
    "sums without scales",
    "a product without groups",
    "a product without groups along K",
    "scales in the 128x4 layout (weft.tiled_scales)",
)
# An extra of products of other types.
FOREIGN: dict[str, dict[str, Any]] = {
    "accumulate": {"accumulate": "f16"},
    "promote": {"promote": True},
    "k_ends": {"many": "k ends"},
}


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    return matrix.cells()


@pytest.mark.slow
def test_the_page_is_current(cells: list[Cell], patch: pytest.MonkeyPatch) -> None:
    patch.setattr(matrix, "cells", lambda: cells)  # the other tests read what has been computed for these
    assert matrix_docs.PAGE.read_text() == matrix_docs.page(), "run python docs/generate/matrix_docs.py"


def test_each_refusal_names_the_product_and_what_works(cells: list[Cell]) -> None:
    legal = {(cell.chip, cell.inputs.a, cell.inputs.b) for cell in cells if cell.complaint is None}
    somewhere = {(a, b) for _, a, b in legal}
    for cell in cells:
        if (said := cell.complaint) is None:
            continue
        assert cell.inputs.a in said and cell.inputs.b in said, said
        if (other := re.search(r"A and B of (\w+)$", said)) is not None:
            pair = other[1], other[1]
            assert (cell.chip, *pair) in legal if ", or " in said else pair in somewhere, said
        if "has no schedule that" in said:
            assert other is not None, said
            continue
        assert cell.chip in said and (" it needs sm_" in said or "name a schedule of " in said), said


def test_no_refusal_needs_a_chip_that_refuses_too(cells: list[Cell]) -> None:
    legal = {(cell.chip, cell.inputs) for cell in cells if cell.complaint is None}
    for cell in cells:
        needed = re.search(r"it needs (sm_\w+)", cell.complaint or "")
        assert needed is None or (needed[1], cell.inputs) in legal, cell.complaint


def test_measured_products_are_those_of_the_reports() -> None:
    names = {ptx: name for name, ptx in PTX_INPUTS.items()}
    found: dict[str, set[str]] = {}
    for path in (ROOT / "benchmarks").glob("*.json"):
        report = json.loads(path.read_text())
        types = {result["problem"]["inputs"].split("-")[0] for result in report["results"]}
        found.setdefault(report["device"]["chip"], set()).update(names[each] for each in types)
    assert found == matrix.MEASURED


def refusal(stated: Stated, chip: str) -> str:
    """What is said of a product that a chip lacks."""
    family = stated.what if stated.what in FAMILY_NAMES else ""
    any_rows = stated.what in ROWS_OF
    with pytest.raises(WeftError) as caught:
        choice.choose(4096, 4096, 4096, stated.made.types, chip, any_rows=any_rows, family=family)
    return caught.value.diagnostics[0].message


def has_more(cell: Cell, stated: Stated) -> bool:
    """Whether a cell states more than the product: rows anywhere rather than those of D, or the family as its
    default.
    """
    return stated.what in cell.families or (cell.rows == "any" and stated.what in ROWS_OF)


def test_each_layout_result_and_extra_that_a_chip_lacks_is_refused(cells: list[Cell]) -> None:
    of = {(cell.chip, cell.inputs): cell for cell in cells}
    for stated, chip in product(every(), CHIPS):
        cell = of[chip, stated.inputs]
        if cell.complaint is not None or stated.is_of(cell) or has_more(cell, stated):
            continue
        said, types = refusal(stated, chip), stated.made.types
        if stated.what in ROWS_OF:
            assert re.match("rows (of A and B )?must begin at multiples of 16 bytes", said), said
            continue
        if stated.what in FAMILY_NAMES:
            assert said.startswith("family must be ") and f" on {chip}, got {stated.what}: " in said, said
            assert any(name in said.partition(" for ")[0] for name in cell.families), said
            continue
        assert types.a in said or types.b in said or f"scales of {types.scale}" in said, said
        needed = re.search(r"it needs (sm_\w+)", said)
        assert needed is None or stated.is_of(of[needed[1], stated.inputs]), said
        if stated.what in matrix.LAYOUTS:
            side = said[0]
            assert said.startswith(f"{side} must be K-major") and types.transposed["AB".index(side)], said
            assert f"an MN-major one on {chip}" in said, said
            elsewhere = any(stated.is_of(of[other, stated.inputs]) for other in CHIPS)
            assert (needed is not None) == elsewhere, said
            continue
        assert chip in said or "has no schedule that" in said, said
        near = re.search(r"(?:, or |: use )([^,]+)$", said)
        assert near is not None, said
        assert near[1] in NEAREST or re.sub("^D of ", "", near[1]) in cell.results, said


@pytest.mark.each_value(8)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_what_no_chip_has_is_refused(row: matrix.Inputs) -> None:
    plain = Product(row.a, row.b, row.d, scale=row.scale, bit_op=row.bit_op or None)
    wrong = [{"d": d} for d in ("f32", "i32", "f64") if d not in row.results]
    wrong += [made for name, made in FOREIGN.items() if name not in row.extras]
    for made in wrong:
        with pytest.raises(WeftError) as caught:
            weft.compile(replace(plain, **made).module(), "sm_100a")
        said = caught.value.diagnostics[0].message
        assert any(word in said for word in (row.a, row.b, "integers", "scales", *made)), said


def test_chips_with_each_product_are_those_of_the_page(cells: list[Cell]) -> None:
    for stated in EVERY[::7]:
        able = [cell for cell in cells if cell.inputs == stated.inputs and stated.is_of(cell)]
        assert stated.chips == tuple(cell.chip for cell in able)
    assert {stated.inputs for stated in EVERY} == set(ROWS)
    stated_of = {*matrix.LAYOUTS, *matrix.EXTRAS, *FAMILY_NAMES, *ROWS_OF, "f16", "f8E5M2"}
    assert {stated.what for stated in EVERY} >= stated_of


def test_each_family_of_each_cell_is_stated(cells: list[Cell]) -> None:
    stated = {(each.inputs, each.what): each.chips for each in EVERY}
    for cell in cells:
        for family in cell.families[1:]:
            assert cell.chip in stated[cell.inputs, family], f"{cell.inputs} on {cell.chip}: {family}"
        if cell.rows in ROWS_OF:
            assert cell.chip in stated[cell.inputs, cell.rows], f"{cell.inputs} on {cell.chip}: {cell.rows}"


@pytest.mark.each_value(1)
@pytest.mark.sampled(6)
@pytest.mark.parametrize("chip", CHIPS)
def test_the_schedule_of_each_product_is_legal(chip: str) -> None:
    """No verifier sees what is chosen: with an illegal K block, a group gets elements of the next one."""
    for stated in EVERY:
        types = stated.made.types
        if chip in stated.chips:
            chosen = choice.choose(*SIZES[0], types, chip)
            assert chosen.complaint(types, Target.of(chip)) is None, f"{stated}: {chosen}"


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("stated", EVERY[::149], ids=str)
def test_some_products_are_right(stated: Stated) -> None:
    assert stated.wrong("emulator", stated.chips[-1:]) is None


@pytest.mark.slow
@pytest.mark.parametrize("stated", EVERY, ids=str)
def test_each_product_is_right(stated: Stated) -> None:
    """On each chip; chips with the same PTX, except for the version and the chip in front, share a run."""
    assert stated.wrong("emulator", stated.chips) is None


@pytest.mark.slow
def test_a_wrong_kernel_of_one_chip_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    stated = next(each for each in EVERY if each.made.many == "k ends")
    monkeypatch.setattr(Ends, "begin", lambda self, group: self.end(group))
    assert "wrong" in (stated.wrong("emulator", ["sm_80"]) or "")
