"""`benchmarks/measure` runs all that it states, and goes on after a failure."""

import os
import subprocess
from pathlib import Path

import pytest

from weft.bench import problem, suites

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "measure"


def commands(name: str) -> list[str]:
    """The commands of a dry run, from another folder."""
    done = subprocess.run([SCRIPT, "--dry-run", name], cwd="/", capture_output=True, text=True, check=True)
    assert not done.stdout
    return [line.removeprefix("+ ") for line in done.stderr.splitlines()]


@pytest.mark.parametrize("name", ["h200", "b200"])
def test_a_dry_run_names_commands_that_exist(name: str) -> None:
    listed = commands(name)
    assert listed[-2:] == ["python docs/generate/figures_docs.py .", f"weft predict --measured {name}-*.json"]
    benches = [line.split() for line in listed if line.startswith("weft bench")]
    for words in benches:
        at = words.index("--types")
        assert set(words[2:at]) <= set(suites.suites())
        assert words[at + 1] in problem.INPUTS


def test_a_blackwell_gpu_is_tested_before_it_is_measured_with_block_scales() -> None:
    first, *rest = commands("b200")
    files = [word for word in first.split() if word.endswith(".py")]
    assert len(files) == 2 and all((SCRIPT.parent / file).is_file() for file in files)
    for types in ("mxfp8", "mxfp6", "mxfp4", "nvfp4"):
        assert any(f"--types {types} " in line for line in rest)
        assert not any(f"--types {types} " in line for line in commands("h200"))


def test_integers_are_measured_where_the_chip_multiplies_them() -> None:
    assert any("--types s8 " in line for line in commands("b200"))
    assert not any("--types s8 " in line for line in commands("b300"))


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the script, and tools beside it whose `weft bench` of nvfp4 and whose tests fail."""
    folder, tools = tmp_path / "benchmarks", tmp_path / "tools"
    folder.mkdir()
    tools.mkdir()
    (folder / "measure").write_bytes(SCRIPT.read_bytes())
    for name, fails in (("weft", "*nvfp4*"), ("python", "*pytest*")):
        (tools / name).write_text(f'#!/bin/sh\necho "{name} $*"\ncase $* in {fails}) exit 1 ;; esac\n')
    for each in (folder / "measure", *tools.iterdir()):
        each.chmod(0o755)
    return folder


@pytest.mark.parametrize(("name", "status"), [("b200", 1), ("h200", 0)])
def test_all_runs_are_made_where_some_fail(copied: Path, name: str, status: int) -> None:
    path = os.pathsep.join([str(copied.parent / "tools"), os.environ["PATH"]])
    done = subprocess.run(
        [copied / "measure", name],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status
    assert ("a run failed" in done.stderr) == bool(status)
    assert (copied / f"{name}-predicted.txt").read_text().startswith("weft predict --measured")
    assert (copied / f"{name}-tests.txt").exists() == (name == "b200")
