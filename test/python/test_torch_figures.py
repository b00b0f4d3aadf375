"""The figures of training in benchmarks/torch: what was measured meets its bars, and the page shows it."""

import json
import re
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PAGE = (BENCHMARKS / "README.md").read_text()


def figures(name):
    lines = (BENCHMARKS / "torch" / f"h200-{name}.json").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("each", figures("gpt"), ids=lambda x: f"{x['mode']} {x['batch']}x{x['tokens']}")
def test_a_gpt_trains_as_fast_and_as_well_as_with_cublas(each):
    assert each["ratio"] <= 1.0
    assert abs(each["weft_loss"] - each["torch_loss"]) <= each["noise"]
    assert len(each["losses"]) >= 2 and each["losses"][-1][0] < each["losses"][0][0] / 2


def test_a_block_of_llama_takes_at_most_97_hundredths():
    eager = [each for each in figures("llama-block") if each["mode"] == "eager"]
    assert {each["batch"] * each["tokens"] for each in eager} == {8192}
    assert all(each["ratio"] <= 0.97 for each in eager)


def rows():
    """The rows of the table of training by size and mode. A row without a size has that of the row above."""
    found, size = {}, None
    for line in PAGE.partition("## Training in PyTorch")[2].partition("##")[0].splitlines():
        cells = [each.strip(" `") for each in line.strip("|").split("|")]
        if len(cells) == 5 and re.fullmatch(r"[\d.]+", cells[-1]):
            named = re.search(r"\d+ x \d+ tokens", cells[0])
            size = named.group() if named else size
            found[size, cells[1].removeprefix("torch.")[:5]] = [float(each) for each in cells[2:]]
    return found


@pytest.mark.parametrize("name", ["gpt", "llama-block"])
def test_the_page_shows_the_figures(name):
    shown = rows()
    for each in figures(name):
        exact = [each["weft_ms"], each["torch_ms"], each["ratio"]]
        printed = shown[f"{each['batch']} x {each['tokens']} tokens", each["mode"][:5]]
        assert printed == pytest.approx(exact, abs=0.006) and printed[2] == pytest.approx(exact[2], abs=6e-4)
