"""The command line of `weft tune`, and what its page shows."""

import json
import re
import shlex
from argparse import Namespace
from pathlib import Path

import fit_model
import pytest

from weft.bench import gpu
from weft.schedules import database, tuned_files
from weft.tools import tune, weft

SHAPES = (
    "shape must be MxNxK, three sizes in 1..2**31 - 1 (such as 4096x4096x4096), "
    "or one of square, llm, deepgemm, odd, random"
)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("512x512", f"{SHAPES}, got '512x512'\n"),
        ("4@0x1x1", f"{SHAPES}, got '4@0x1x1'\n"),
        ("256/4096x1x1", f"{SHAPES}, got '256/4096x1x1'\n"),
        ("square --limit 0", "--limit must be at least 1; got 0"),
        ("square --samples 1", "--samples must be at least 2; got 1"),
        ("square --jobs 0", "--jobs must be at least 1; got 0"),
        ("square --limit 3 --exhaustive", "--exhaustive can't be used with --limit: it tries all schedules"),
        ("square --types bf17", "--types must be among bf16,"),
        ("square", "$WEFT_SCHEDULES is empty, which means no file: use --database FILE"),
        ("square --database kept", "weft tune needs a GPU: none"),
        (
            "64x64x64 4@256/4096x4096x7168",
            "weft tune searches single products, got the groups '4@256/4096x4096x7168'",
        ),
        ("64x64x64 8x8x8+1", "weft tune searches dense, aligned products, got '8x8x8+1'"),
    ],
)
def test_mistakes_are_told(
    line: str, message: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "unavailable", lambda: "weft bench needs a GPU: none")
    if message[0] != "$":
        monkeypatch.setenv(tuned_files.VARIABLE, "kept")
    assert weft.main(["tune", *line.split()]) == 1
    assert capfd.readouterr().err.startswith(f"weft: error: {message}")


def test_the_commands_of_the_page_are_understood() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tune.md").read_text("utf-8")
    commands = re.findall(r"^(?:\w+=\S* )?weft (tune.*)$", page, re.MULTILINE)
    assert len(commands) == 5
    for line in commands:
        given: Namespace = weft._parser().parse_args(shlex.split(line, comments=True))
        tune._check(given)
        assert tune.problems(given)
    scripts = re.findall(r"^python benchmarks/model/fit_model.py (.*)$", page, re.MULTILINE)
    assert len(scripts) == 4 and all(fit_model._options(shlex.split(each, comments=True)) for each in scripts)


def test_an_entry_of_the_page_is_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tune.md").read_text("utf-8")
    (shown,) = re.findall(r"^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    entry = database.Entry.read(json.dumps(json.loads(shown)))
    database.checked(entry, entry.product)
