"""The figures of the emulator in benchmarks/emulator: they meet their bars, and the page shows them."""

import json
import re
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SECTION = (BENCHMARKS / "README.md").read_text().partition("\n## The emulator\n")[2].partition("\n## ")[0]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in SECTION.splitlines()]
NAMES = {"e4m3-block": "e4m3 with f32 scales"}
LOOPS = {
    "global memory": "load and store in global memory",
    "shared memory": "load and store in shared memory",
}


def figures(name):
    return [json.loads(line) for line in (BENCHMARKS / "emulator" / f"{name}.json").read_text().splitlines()]


def seconds(arch, size):
    (found,) = (
        each["all_s"]
        for each in figures("products")
        if (each["arch"], each["type"], each["size"]) == (arch, "bf16", size)
    )
    return found


def numbers(cells):
    """The numbers that cells begin with; None where one is empty."""
    return [float(re.sub(" .*|,", "", cell)) if cell else None for cell in cells]


def near(cells, exact):
    """Whether cells show these numbers, each rounded to the digits that it shows."""
    for cell, shown, number in zip(cells, numbers(cells), exact, strict=True):
        places = len(cell.partition(" ")[0].partition(".")[2])
        if shown is None or number is None:
            assert shown is number, (cells, exact)
        else:
            # JSON has more digits than the page, but they are rounded, too.
            assert shown == pytest.approx(number, abs=0.51 * 10**-places + 0.001 * number), (cells, exact)


def test_large_products_take_less_than_a_minute():
    assert seconds("sm_90a", 4096) < 60 and seconds("sm_90a", 512) < 0.3
    for size in (512, 4096):
        assert seconds("sm_100a", size) <= 1.5 * seconds("sm_90a", size)


def test_every_type_has_half_the_speed_of_bf16():
    ratios = [each["ratio"] for each in figures("products") if each["type"] != "bf16"]
    assert len(ratios) >= 8 and min(ratios) >= 0.5


def test_scalar_code_is_50_times_as_fast_and_20_times_in_many_warps():
    for each in figures("scalar"):
        assert each["times"] >= (50 if each["warps"] == "one warp" else 20), each


def test_3000_instructions_are_compiled_in_half_a_second():
    totals = [each["total"] for each in figures("compiling") if each["instructions"] > 3000]
    assert len(totals) == 3 and max(totals) < 0.5


def test_the_page_shows_products():
    shown = {(row[0], row[1], row[2].split(" ")[0]): row[3:] for row in ROWS if row[0].startswith("sm_")}
    assert len(shown) == len(figures("products"))
    for each in figures("products"):
        cells = shown[each["arch"], NAMES.get(each["type"], each["type"]), str(each["size"])]
        ratio = each["ratio"] if each["type"] != "bf16" else None
        near(cells, [*(each.get(name) for name in ("interpreter_s", "one_s", "all_s", "all_macs")), ratio])


def test_the_page_shows_loops():
    shown = {row[0]: row[1:] for row in ROWS if len(row) == 5}
    for name in {each["kernel"] for each in figures("scalar")}:
        one, many = (each for each in figures("scalar") if each["kernel"] == name)
        exact = [each[f"{way}_ns"] for each in (one, many) for way in ("interpreter", "compiled")]
        near(shown[LOOPS.get(name, name)], exact)


def test_the_page_shows_what_is_compiled():
    shown = [numbers(row[1:]) for row in ROWS if len(row) == 6 and re.fullmatch(r"[\d,]+", row[1])]
    found = figures("compiling")
    assert len(shown) == len(found)
    for row, each in zip(shown, found, strict=True):
        parts = each["planning"], each["parsing"], each["generating"], each["total"]
        assert row == pytest.approx([each["instructions"], *parts], abs=0.0051)
