"""`weft doctor`: which tools Weft finds here, what is missing and how to get it."""

import os
import platform
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec

from weft import __version__
from weft.errors import WeftError
from weft.system import processes
from weft.tools import cli, versions
from weft.tools.command import Command

_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Finding:
    """What is there of one thing; `required` where Weft can't do its main job without it."""

    name: str
    present: bool
    text: str
    required: bool = True

    @property
    def mark(self) -> str:
        """One word for the state."""
        return "ok" if self.present else "MISSING" if self.required else "none"


def _mlir() -> str:
    from weft import mlir
    from weft.dialects import DIALECTS
    from weft.ir import bindings

    ours = ", ".join(sorted(dialect.DIALECT_NAMESPACE for dialect in DIALECTS))
    built = bindings.revision(mlir.DISTRIBUTION)
    version = f"{mlir.version()} (LLVM {built[:12]})" if built else mlir.version()
    return "; ".join([version, f"dialects {ours} beside upstream's", *mlir.LEFT])


def _llvm() -> str:
    from weft.isa.chips import CHIPS

    version, wheel = versions.llvm()
    chips = _chips(name for name, chip in CHIPS.items() if chip.llvm)
    return f"{version} (llvmlite {wheel}); generates code for {chips}"


def _ptxas() -> str:
    from weft.compiler import ptxas
    from weft.isa.chips import CHIPS

    program = ptxas.find("ptxas")
    version = ptxas.version()
    listed = processes.run([program, "--help"], timeout=_PATIENCE_SECONDS).stdout
    chips = set(re.findall(r"'(sm_\w+)'", listed))
    return f"{version} ({program}); assembles for {_chips(name for name in CHIPS if name in chips)}"


def _nvdisasm() -> str:
    from weft.compiler import ptxas

    return f"{ptxas.find('nvdisasm')}; for --emit sass"


def _emulator() -> str:
    from weft import emulator

    return f"{len(emulator.OPCODES)} PTX opcodes" if hasattr(emulator, "OPCODES") else "runs PTX on the CPU"


def _gpu() -> str:
    from weft.launch import runtime

    if (reason := runtime.available()) is not None:
        raise WeftError(f"{reason}; kernels run in the emulator")
    device = runtime.device()
    shared = f"{device.shared_bytes // 1024} KiB of shared memory per block"
    return f"{device.name} ({device.chip}), {device.memory_bytes >> 30} GiB, {shared}"


def _host_code() -> str:
    from weft.launch import host, host_in_python

    if host.functions is not host_in_python:
        return "host.c is compiled"
    state = "is older than host.c" if find_spec("weft.launch.compiled") else "is missing"
    raise WeftError(f"compiled host.c {state}: calls take longer; install Weft again, with a C compiler")


def _cache() -> str:
    from weft.cache import disk_cache as cache

    kept = cache.default()
    directory = kept.directory
    if directory is None:
        raise WeftError("switched off by WEFT_CACHE=0")
    try:
        kept.check()
        entries = kept.entries()
    except OSError as error:
        raise WeftError(f"{directory} can't be written, so nothing is kept: {error.strerror}") from None
    except WeftError as error:
        raise WeftError(f"nothing is kept: {error.diagnostics[0].message}") from None
    size = sum(entry.bytes for entry in entries)
    return f"{directory}: {len(entries)} entries, {size / 2**20:.1f} of at most {cache.LIMIT_BYTES >> 20} MiB"


def _extensions() -> str:
    from weft.registry import extensions

    if os.environ.get(extensions.OFF) == "0":
        return f"switched off by {extensions.OFF}=0"
    if not (installed := extensions.loaded()):
        return "none installed"
    entries = extensions.entries()
    return "; ".join(
        f"{each} ({', '.join(f'{e.kind} {e.name}' for e in entries if str(e.source) == str(each))})"
        for each in installed
    )


def _chips(names: Iterable[str]) -> str:
    """Chips in a row, variants with their chip: sm_90(a)."""
    groups: dict[str, str] = {}
    for name in names:
        base = name.rstrip("af")
        groups[base] = groups.get(base, "") + name.removeprefix(base)
    return " ".join(f"{base}({'/'.join(rest)})" if rest else base for base, rest in groups.items())


# Name, whether it is required, and what describes it or raises WeftError with the remedy.
_CHECKS: tuple[tuple[str, bool, Callable[[], str]], ...] = (
    ("MLIR", True, _mlir),
    ("LLVM", True, _llvm),
    ("ptxas", sys.platform != "darwin", _ptxas),  # there is none for macOS
    ("nvdisasm", False, _nvdisasm),
    ("GPU", False, _gpu),
    ("host code", False, _host_code),
    ("emulator", True, _emulator),
    ("cache", False, _cache),
    ("extensions", True, _extensions),
)


def examine() -> list[Finding]:
    """Looks at everything that Weft uses."""
    results = []
    for name, required, describe in _CHECKS:
        try:
            results.append(Finding(name, True, describe(), required))
        except WeftError as error:
            results.append(Finding(name, False, error.diagnostics[0].message, required))
    return results


def _run(options: Namespace) -> int:
    machine = f"{platform.system()} {platform.machine()}"
    findings = examine()
    missing = [f.name for f in findings if f.required and not f.present]
    if options.json:
        results = [
            {"name": f.name, "state": f.mark, "required": f.required, "text": f.text} for f in findings
        ]
        own = {"weft": __version__, "python": sys.version.split()[0]}
        cli.say_json({**own, "system": machine, "findings": results})
        return 1 if missing else 0
    cli.say(f"weft {__version__}, Python {sys.version.split()[0]}, {machine}")
    for finding in findings:
        cli.say(f"{finding.mark:<8} {finding.name:<10} {finding.text}")
    if missing:
        cli.say(f"Missing: {', '.join(missing)}.")
    return 1 if missing else 0


_SUMMARY = "show which tools are used, what is missing and how to get it"
DOCTOR = Command("doctor", _SUMMARY, "--json  print the findings as one JSON object", _run)
