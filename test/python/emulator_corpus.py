"""PTX of other compilers, for the emulator's tests."""

import functools
import json
import lzma
from pathlib import Path

import numpy as np
import pytest

from weft import emulator

PTX = Path(__file__).resolve().parents[1] / "emulator" / "ptx"
CHIPS = ("sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")


def number(chip):
    return int(chip.removeprefix("sm_").rstrip("a"))


@functools.cache
def text(name, chip):
    return lzma.decompress((PTX / f"{name}.{chip}.ptx.xz").read_bytes()).decode()


def module(name, chip):
    """A fresh module, so that no test sees another's global variables."""
    return emulator.Module(text(name, chip))


def chips(name):
    """The chips that a file was compiled for."""
    found = [path.name.split(".")[-3] for path in PTX.glob(f"{name}.sm_*.ptx.xz")]
    return sorted(found, key=number)


def facts(name, chip):
    """Triton's description of a kernel: its name, warps, shared memory, descriptors and scratch."""
    return json.loads(text(name, chip).splitlines()[0].removeprefix("// "))


def since(first):
    """For each chip of nvcc's from `first` on."""
    return pytest.mark.parametrize("chip", [chip for chip in CHIPS if number(chip) >= first])


def everywhere(test):
    """For each chip of nvcc's, one in five of them by default."""
    return pytest.mark.sampled(5)(since(0)(test))


def launch(file, chip, kernel, args, grid=1, block=32, **more):
    """Runs a kernel, in which the sanitizer must find nothing."""
    report = module(file, chip).launch(kernel, grid=grid, block=block, args=args, **more)
    assert not report.findings, report.findings
    return report


def rng():
    return np.random.default_rng(7)


def words(count, bits=32):
    """Unsigned integers, the edges among them."""
    most = np.iinfo(f"u{bits // 8}").max
    values = rng().integers(0, most, count, dtype=f"u{bits // 8}", endpoint=True)
    values[:4] = [0, 1, most, 1 << (bits - 1)]
    return values


def reals(kind, count=64):
    """Two arrays of numbers around zero; those of the second can be divided by."""
    values = (rng().standard_normal(2 * count) * 4).astype(kind)
    return values[:count].copy(), np.where(np.abs(values[count:]) < 0.01, kind(0.5), values[count:])
