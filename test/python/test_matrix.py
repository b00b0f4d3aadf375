"""The matrix of `tile.matmul`: its page, every product that it states, and every refusal."""

import json
import re
from itertools import product
from pathlib import Path

import pytest
from launches import complaint
from products import Case, Product

import weft
from weft.dialects.tile_types import PTX_INPUTS, PTX_OPERANDS
from weft.isa.chips import CHIPS
from weft.schedules import matrix
from weft.schedules.matrix import Cell
from weft.tools import isa_matmul

ROOT = Path(__file__).parents[2]
ROWS = tuple(matrix.inputs())
# What `products.Product` has: integers, and floats of whole bytes, without block scales.
PLAIN = tuple(
    row
    for row in ROWS
    if not row.scale
    and row.a in PTX_OPERANDS
    and (row.types.packs_integers or not row.types.has_packed_inputs)
)
SIZES = ((33, 35, 37), (40, 56, 64), (96, 144, 80))
RUN = list(product(CHIPS, PLAIN, matrix.LAYOUTS))
ran = set[tuple[str, Product]]()


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    return matrix.cells()


def test_the_page_is_current() -> None:
    assert isa_matmul.PAGE.read_text() == isa_matmul.page(), "run python -m weft.tools.isa_matmul"


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


@pytest.mark.sampled(83)
@pytest.mark.parametrize(
    ("chip", "inputs", "layout"), RUN, ids=[f"{chip} {row} {layout}" for chip, row, layout in RUN]
)
def test_each_product_is_right(chip: str, inputs: matrix.Inputs, layout: str) -> None:
    cell = Cell(chip, inputs)
    if layout not in cell.layouts:
        assert cell.complaint is not None
        return
    a, b = matrix.LAYOUTS[layout]
    made = Product(inputs.a, inputs.b, inputs.d, transposed=(a, not b), bit_op=inputs.bit_op or None)
    kernel = weft.compile(made.module(), chip)
    body = kernel.ptx.partition(".visible")[2]
    if (body, made) in ran:  # chips share kernels, from the entry on
        return
    units = *made.types.multiples_of_mn, made.types.multiple_of_k
    for size, regime in zip(SIZES, ("integers", made.regimes[0], "integers"), strict=True):
        m, n, k = (-(-extent // unit) * unit for extent, unit in zip(size, units, strict=True))
        case = Case((m, n, k), regime)
        assert complaint(made, case, kernel, "emulator") is None
    ran.add((body, made))
