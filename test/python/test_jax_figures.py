"""The figures of JAX's calls in benchmarks: a jitted call costs the host at most 1.3 times an empty one."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "benchmarks" / "README.md").read_text(encoding="utf-8")
BAR = 1.3


def rows():
    """Microseconds by host and program: of Weft, an empty call, and an empty one that may be captured."""
    found, host = {}, None
    for line in PAGE.partition("## Calls of JAX")[2].partition("\n## ")[0].splitlines():
        cells = [each.strip() for each in line.strip("|").split("|")]
        if len(cells) == 5 and re.fullmatch(r"[\d.]+ us", cells[2]):
            host = cells[0] or host
            found[host, cells[1]] = [float(each.split()[0]) for each in cells[2:] if each]
    return found


@pytest.mark.parametrize("program", ["one call", "eight calls"])
def test_a_jitted_call_costs_little_more_than_an_empty_one(program):
    measured = rows()
    assert len(measured) == 4
    of_weft, empty = measured["of an H200", program]
    assert of_weft <= BAR * empty
    of_weft, _, captured = measured["of an H100", program]  # those of Weft may be captured, too
    assert of_weft <= BAR * captured
