"""The versions of Weft and of what it compiles with, as `--version` prints them."""

from argparse import Action, ArgumentParser
from collections.abc import Callable
from typing import Any

from weft import __version__
from weft.errors import WeftError
from weft.system import processes
from weft.tools import cli

_PATIENCE_SECONDS = 60.0


def llvm() -> tuple[str, str]:
    """The version of LLVM that generates code, and of llvmlite, which has it. Raises WeftError."""
    # In a process of its own: this LLVM isn't the one that MLIR's bindings have loaded here.
    code = "import llvmlite, llvmlite.binding as b; print(llvmlite.__version__, *b.llvm_version_info)"
    done = processes.run(processes.python("-c", code), timeout=_PATIENCE_SECONDS)
    if done.returncode:
        raise WeftError("llvmlite doesn't load: pip install llvmlite==0.50.0")
    wheel, *version = done.stdout.split()
    return ".".join(version), wheel


def _mlir() -> str:
    from weft import mlir

    return mlir.version()


def _llvm() -> str:
    version, wheel = llvm()
    return f"{version} (llvmlite {wheel})"


def _ptxas() -> str:
    from weft.compiler import ptxas

    return ptxas.version()


_PARTS: dict[str, Callable[[], str]] = {"MLIR": _mlir, "LLVM": _llvm, "ptxas": _ptxas}


def text() -> str:
    """Weft's version, and a line for each part, with the reason where one is missing."""
    lines = [f"weft {__version__}"]
    for name, version in _PARTS.items():
        try:
            found = version()
        except WeftError as error:
            found = f"missing: {error.diagnostics[0].message}"
        lines.append(f"  {name:<5}  {found}")
    return "\n".join(lines)


class PrintVersions(Action):
    """The option `--version` of argparse, which looks for the versions only if it is given."""

    def __init__(self, option_strings: list[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print versions, and stop")

    def __call__(self, parser: ArgumentParser, *_: Any) -> None:
        """Prints them, and ends the tool."""
        cli.say(text())
        parser.exit()
