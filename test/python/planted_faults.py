"""The planted faults in test/emulator/faults: correct kernels, and changes that the sanitizer must find."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "emulator" / "faults"
KERNELS = tuple(sorted(path.stem for path in FOLDER.glob("*.ptx")))


@dataclass(frozen=True)
class Fault:
    """A change of a kernel, of `old` text into `new`, and the rules that name it."""

    kernel: str
    what: str
    old: str
    new: str
    rules: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kernel}: {self.what}"

    def text(self) -> str:
        """The kernel with the fault."""
        text = source(self.kernel)
        assert text.count(self.old) == 1, f"{self}: the text stands there {text.count(self.old)} times"
        return text.replace(self.old, self.new)


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


def faults() -> list[Fault]:
    """All faults of all kernels."""
    return [
        Fault(kernel, each["what"], each["old"], each["new"], tuple(each["rules"]))
        for kernel in KERNELS
        for each in _described(kernel)["fault"]
    ]
