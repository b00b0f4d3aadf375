"""Kernels that other compilers make on this machine, for tests that are skipped where these are missing."""

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "test" / "emulator"
MADE = ROOT / "build" / "other_compilers"
# The element types of tensor maps in the order of the driver's numbers, which aren't those of PTX.
DRIVER_TYPES = (
    *("UINT8", "UINT16", "UINT32", "INT32", "UINT64", "INT64", "FLOAT16", "FLOAT32", "FLOAT64", "BFLOAT16"),
    *("FLOAT32_FTZ", "TFLOAT32", "TFLOAT32_FTZ", "16U4_ALIGN8B", "16U4_ALIGN16B", "16U6_ALIGN16B"),
)


def nvcc() -> str:
    """The compiler. Skips the test without one."""
    found = os.environ.get("WEFT_NVCC") or shutil.which("nvcc")
    if found is None:
        pytest.skip("needs nvcc, in the path or as WEFT_NVCC")
    return found


@functools.cache
def python_with(package: str) -> str:
    """A Python that has a package: this one, or that of WEFT_<PACKAGE>_PYTHON. Skips the test without one."""
    variable = f"WEFT_{package.upper()}_PYTHON"
    if variable in os.environ:
        return os.environ[variable]
    found = find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"needs {package}, or {variable}, a Python that has it")
    return sys.executable


def _digest(script: str, tool: str) -> str:
    """A name for what a script makes with a tool, from the contents of its sources."""
    name = script.removeprefix("compile_").removesuffix(".py")
    sources = sorted(path for path in (SOURCES / name).glob("*.*") if path.is_file())
    text = b"".join(path.read_bytes() for path in [SOURCES / script, *sources])
    return hashlib.sha256(text + tool.encode()).hexdigest()[:16]


def made(script: str, name: str, file: str, python: str = sys.executable, tool: str = "") -> Path:
    """`file`, which test/emulator/`script` makes for the case `name`, now or in an earlier run."""
    folder = MADE / script.removeprefix("compile_").removesuffix(".py") / _digest(script, f"{python} {tool}")
    if not (folder / file).exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as work:
            ran = subprocess.run(
                [python, str(SOURCES / script), work, name], capture_output=True, text=True, check=False
            )
            assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]
            for path in Path(work).iterdir():
                path.rename(folder / path.name)
    return folder / file
