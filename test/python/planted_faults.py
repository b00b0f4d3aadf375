"""The planted faults in test/emulator/faults: correct kernels, and changes that the sanitizer must find."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from weft import emulator

FOLDER = Path(__file__).resolve().parents[1] / "emulator" / "faults"
KERNELS = tuple(sorted(path.stem for path in FOLDER.glob("*.ptx")))


@dataclass(frozen=True)
class Fault:
    """A change of a kernel, of `old` text into `new`, and the rules that name it. `without` is another text
    that it lacks. If `seeds` isn't 0, they name it with one of so many seeds and `strict`.
    """

    kernel: str
    what: str
    old: str
    new: str
    rules: tuple[str, ...]
    without: str = ""
    seeds: int = 0

    def __str__(self) -> str:
        return f"{self.kernel}: {self.what}"

    def text(self) -> str:
        """The kernel with the fault."""
        text = source(self.kernel)
        for old in filter(None, (self.old, self.without)):
            assert text.count(old) == 1, f"{self}: the text stands there {text.count(old)} times"
        text = text.replace(self.old, self.new)
        return text.replace(self.without, "") if self.without else text


@cache
def source(kernel: str) -> str:
    """The PTX of a kernel without a fault."""
    return (FOLDER / f"{kernel}.ptx").read_text()


@cache
def _described(kernel: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / f"{kernel}.toml").read_text())


def launch_options(kernel: str) -> dict[str, Any]:
    """How the kernel is launched."""
    options: dict[str, Any] = _described(kernel)["launch"]
    return options


def arguments(kernel: str) -> list[Any]:
    """An array that the kernel may write, and tensor maps of the f16 matrices that it reads."""
    rng, maps = np.random.default_rng(0), []
    for each in _described(kernel).get("map", ()):
        rows, columns = each["shape"]
        matrix = rng.integers(-4, 5, (rows, columns)).astype(np.float16)
        box = each["box"][::-1]
        maps.append(
            emulator.TensorMap.tiled(
                matrix,
                dtype="FLOAT16",
                dims=(columns, rows),
                strides_bytes=(2 * columns,),
                box=box,
                swizzle="32B",
            )
        )
    return [np.arange(1792 * 32 if maps else 4096, dtype=np.uint32), *maps]


def faults() -> list[Fault]:
    """All faults of all kernels."""
    return [
        Fault(
            kernel,
            each["what"],
            each["old"],
            each["new"],
            tuple(each["rules"]),
            each.get("without", ""),
            each.get("seeds", 0),
        )
        for kernel in KERNELS
        for each in _described(kernel)["fault"]
    ]
