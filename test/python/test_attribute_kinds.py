"""Attributes of every kind are answered in every place that takes text, in processes of their own."""

import subprocess
from pathlib import Path

import pytest
import warm_tools
from attribute_kinds import KINDS, PLACES

PROGRAM = Path(__file__).with_name("attribute_kinds.py")
PARTS = 36


def _said(place: str, every: int, first: int) -> list[str]:
    command = [warm_tools.folder() / "warm-python", PROGRAM, place, str(every), str(first)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert not run.returncode, run.stdout.splitlines()[-1:] + run.stderr.splitlines()[-4:]
    return run.stdout.splitlines()


@pytest.mark.sampled(73)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("place", PLACES)
def test_attributes_of_every_kind_are_answered(place: str, part: int) -> None:
    said = _said(place, PARTS, part)
    assert [line for line in said if not line.endswith(" answered")] == []
    assert len(said) == len(KINDS[part::PARTS])


def test_a_schedule_of_a_kind_without_a_class_is_answered_first() -> None:
    """Nothing else has made a context in this process."""
    code = (
        "import numpy, weft; a = numpy.ones((64, 64), numpy.float16)\n"
        "schedule = '{block = array<si32: 64, 64, 64>, warps = array<i64: 2, 2>, stages = 3}'\n"
        "try: weft.matmul(a, a, schedule=schedule)\n"
        "except weft.WeftError as error: print(error)"
    )
    command = [warm_tools.folder() / "warm-python", "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    wanted = "schedule field 'block' must be an array<i64> of 3, got array<si32: 64, 64, 64>"
    assert run.stdout.startswith(wanted), run.stderr
