"""The linters find nothing: ruff in all files, mypy in strict mode in the package and what checks it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("dialects", "passes", "tools")
SCRIPTS = ("benchmarks/model", "docs/generate", "test/certify")


def run(*command, cwd=ROOT):
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff_finds_nothing():
    run("ruff", "check", "--quiet", ".")


def test_the_code_is_formatted():
    run("ruff", "format", "--check", "--quiet", ".")


@pytest.mark.cpu_seconds(90)  # without the results of an earlier run
def test_mypy_finds_nothing():
    # However Weft is installed, mypy gets the sources of this checkout: as a tree of links. The tree is kept,
    # so that mypy checks again only what has changed.
    package = ROOT / "build" / "mypy" / "weft"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    for path in (ROOT / "python" / "weft").iterdir():
        if path.name not in PACKAGES:
            (package / path.name).symlink_to(path)
    for name in PACKAGES:
        (package / name).symlink_to(ROOT / name)
    # A mistake that mypy doesn't find makes the comment an error.
    (package.parent / "mistakes.py").write_text(MISTAKES, "utf-8")
    modules = ["-p", "weft", "-m", "mistakes"]
    for script in (path for folder in SCRIPTS for path in (ROOT / folder).glob("*.py")):
        (package.parent / script.name).unlink(missing_ok=True)
        (package.parent / script.name).symlink_to(script)
        modules += ["-m", script.stem]
    run("mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), *modules, cwd=package.parent)


MISTAKES = """
from weft.dialects import mma, tile, wgmma
from weft.mlir import ir


def built(a: ir.Value, kind: ir.Type) -> ir.Value:
    mma.movmatrix(a=kind)  # type: ignore[arg-type]
    mma.movmatrix(a=a, shape=8)  # type: ignore[arg-type]
    mma.movmatrix(a=a, shapes="m8n8")  # type: ignore[call-arg]
    mma.ldmatrix(address=a, shape="m8n8")  # type: ignore[call-arg]
    a.type = a  # type: ignore[assignment]
    kind = wgmma.descriptor(a)  # type: ignore[assignment]
    return mma.movmatrix(a=a)


def source(op: tile.LoadOp) -> ir.Type:
    return op.source  # type: ignore[return-value]
"""


def test_pages_are_in_american_english():
    """As PTX and MLIR are, whose words these pages use."""
    british = re.compile(
        r"\w*(?:(?:itial|optim|ecogn|quant|nchron|ormal|erial|pecial|organ|inim|axim|vector|ummar)is(?!t)"
        r"|colour|aviour|eighbour|odell(?:ed|ing)|gnall|ancell(?:ed|ing)|abell|spelt|catalogue|judgement)\w*"
    )
    pages = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
    pages += [page for folder in ("docs", "benchmarks") for page in (ROOT / folder).rglob("*.md")]
    assert len(pages) > 50 and british.search("uninitialised-register") and not british.search("optimistic")
    found = {(page.name, word) for page in pages for word in british.findall(page.read_text("utf-8"))}
    assert not found
