"""PTX text to cubin with NVIDIA's ptxas, its complaints led back to the user's source, and cubin to SASS."""

import contextlib
import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.compiler import cubin as elf
from weft.compiler import resources_page
from weft.errors import Diagnostic, Location, WeftError
from weft.isa.chips import CHIPS
from weft.system import memory_files, processes
from weft.system.memory_files import MemoryFile

TIMEOUT_SECONDS = 600
_MOST_SHOWN = 20
_BINARY = (b"\x7fELF", b"MZ")  # the first bytes of programs of Linux and Windows
# ptxas takes 25 MB for a large kernel, and 5% of its time to map them page by page. With this, glibc asks for
# large pages, and for more at once.
_MEMORY = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "MALLOC_TOP_PAD_": str(64 << 20)}
_PACKAGES = {"ptxas": "nvidia-cuda-nvcc", "nvdisasm": "nvidia-cuda-nvdisasm"}


@dataclass(frozen=True)
class Resources:
    """The resources of a kernel: `shared_bytes` of a CTA (only static ones count), the rest of a thread."""

    registers: int
    shared_bytes: int
    spill_stores: int
    spill_loads: int
    stack_bytes: int

    def _repr_html_(self) -> str:
        return resources_page.page(self)


@dataclass(frozen=True)
class Assembled:
    """A cubin, the resources of each kernel in it by name, and all that ptxas printed, warnings included."""

    cubin: bytes
    kernels: Mapping[str, Resources]
    log: str


def find(tool: str) -> Path:
    """The program "ptxas" or "nvdisasm": from $WEFT_<TOOL>, PyPI's package, conda, CUDA_HOME or PATH.

    Raises WeftError where it isn't installed.
    """
    variable = f"WEFT_{tool.upper()}"
    if path := os.environ.get(variable):
        if not os.access(path, os.X_OK) or Path(path).is_dir():
            raise WeftError(f"{variable} is {path}, which isn't a program")
        return Path(path)
    program: str | None = None
    if sys.platform != "darwin":  # which the search doesn't support
        # 50 ms that only those who assemble should pay.
        with contextlib.suppress(ModuleNotFoundError):
            from cuda.pathfinder import find_nvidia_binary_utility  # type: ignore[import-untyped]

            program = find_nvidia_binary_utility(tool)
    if program := program or shutil.which(tool):
        return Path(program)
    if sys.platform == "darwin":
        raise WeftError(f"{tool} not found: NVIDIA has none for macOS; Weft needs Linux or Windows for this")
    raise WeftError(
        f"{tool} not found: `pip install {_PACKAGES[tool]}`, or set CUDA_HOME to a CUDA toolkit "
        f"or {variable} to the program"
    )


def version() -> str:
    """Version of the ptxas in use, as "13.5.37"."""
    return _version(find("ptxas"))


def assemble(ptx: str, chip: str, *, options: Sequence[str] = (), name: str = "<ptx>") -> Assembled:
    """Assembles `ptx` for `chip` ("sm_90a") with further ptxas `options`.

    Raises WeftError for what ptxas refuses, with the source line of the PTX's `.loc`, or the line in the PTX,
    which is called `name`.
    """
    programs = _assemblers()
    with memory_files.memory_file(ptx.encode("utf-8", "replace")) as source:
        for program in programs:
            # Each program gets a file of its own: none sees what another left.
            with memory_files.memory_file() as output:
                arguments = (f"-arch={chip}", "-v", *options, source.path, "-o", output.path)
                done = _run(program, *arguments, files=(source, output))
                cubin = output.content()
            if "not defined for option 'gpu-name'" not in done.stderr:
                break
        else:
            message = f"ptxas {_version(programs[0])} ({programs[0]}) doesn't know {chip}"
            if chip in CHIPS and CHIPS[chip].volta:
                message += ", which CUDA 13 dropped: `pip install nvidia-cuda-nvcc-cu12`"
            raise WeftError(message)
    log = (done.stdout + done.stderr).replace(source.path, "kernel.ptx")
    if done.returncode:
        raise WeftError(*_complaints(log, ptx, name, done.returncode))
    if (wrong := elf.complaint(cubin, chip, elf.entries(ptx))) is not None:
        raise WeftError(f"{program} reports success, but what it wrote is no cubin: {wrong}")
    return Assembled(cubin, _resources(log), log)


def identity() -> list[str]:
    """Identifies the programs that `assemble` may run, for the cache's keys."""
    return [part for program in _assemblers() for part in _identity(program)]


def disassemble(cubin: bytes) -> str:
    """The SASS of `cubin`. Raises WeftError where nvdisasm isn't installed or fails."""
    program = find("nvdisasm")
    with memory_files.memory_file(cubin) as source:
        done = _run(program, "--print-code", source.path, files=(source,))
        said = (done.stderr or done.stdout).strip().replace(source.path, "kernel.cubin")
    if done.returncode:
        raise WeftError(f"nvdisasm: {said or processes.death(done.returncode)}")
    if not done.stdout.strip():
        raise WeftError(f"{program} reports success, but prints nothing")
    return done.stdout


def _run(
    program: Path, *arguments: str, files: Sequence[MemoryFile] = ()
) -> subprocess.CompletedProcess[str]:
    inherited = [descriptor for file in files for descriptor in file.inherited]
    command: list[str | Path] = [program, *arguments]
    return processes.run(
        command, timeout=TIMEOUT_SECONDS, inherited=inherited, environment=_MEMORY | os.environ
    )


def _identity(program: Path) -> tuple[str, ...]:
    """The values of a file that change with it, for a script also its version: it may run any program."""
    try:
        resolved = program.resolve(strict=True)
        status = resolved.stat()
        with resolved.open("rb") as file:
            is_program = file.read(4).startswith(_BINARY)
    except OSError as error:
        raise processes.refusal(f"cannot read {program}", error) from None
    state = (str(resolved), str(status.st_size), str(status.st_mtime_ns), str(status.st_ctime_ns))
    return state if is_program else (*state, _version_of(program))


def _version(program: Path) -> str:
    return _version_once(program, program.stat().st_mtime_ns)


@functools.cache
def _version_once(program: Path, _: int) -> str:
    return _version_of(program)


def _version_of(program: Path) -> str:
    text = _run(program, "--version").stdout
    match = re.search(r"\bV(\d+\.\d+\.\d+)", text)
    if not match:
        raise WeftError(f"{program} isn't ptxas: its --version prints {text.strip()[:200]!r}")
    return match[1]


def _assemblers() -> list[Path]:
    """The ptxas to use, and that of CUDA 12 from PyPI, if installed, for chips that CUDA 13 dropped."""
    programs = [find("ptxas")]
    packages = importlib.util.find_spec("nvidia")
    if "WEFT_PTXAS" not in os.environ and packages is not None:
        name = "ptxas.exe" if sys.platform == "win32" else "ptxas"
        folders = packages.submodule_search_locations or []
        older = (Path(folder, "cuda_nvcc", "bin", name) for folder in folders)
        programs += [path for path in older if os.access(path, os.X_OK) and path.resolve() != programs[0]]
    return programs


def _resources(log: str) -> dict[str, Resources]:
    kernels = {}
    # Each part begins with its kernel's name and may contain other functions' properties.
    for part in log.split("Compiling entry function '")[1:]:
        kernel = part[: part.index("'")]
        own = part.partition(f"Function properties for {kernel}\n")[2]
        kernels[kernel] = Resources(
            registers=_number(r"Used (\d+) registers", part),
            shared_bytes=_number(r"(\d+) bytes smem", part),
            spill_stores=_number(r"(\d+) bytes spill stores", own),
            spill_loads=_number(r"(\d+) bytes spill loads", own),
            stack_bytes=_number(r"(\d+) bytes stack frame", own),
        )
    return kernels


def _number(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    return int(match[1]) if match else 0


_COMPLAINT = re.compile(r"^ptxas (?:.*, line (\d+); )?(?:error|fatal)\s*: (.*)$", re.MULTILINE)


def _complaints(log: str, ptx: str, name: str, status: int) -> list[Diagnostic]:
    complaints = [match.groups() for match in _COMPLAINT.finditer(log)]
    # The last one only counts the others.
    complaints = [
        item for item in complaints if item[1] != "Ptx assembly aborted due to errors"
    ] or complaints
    if not complaints:
        return [Diagnostic(f"ptxas {processes.death(status)}: {log.strip() or 'no message'}")]
    lines = ptx.splitlines()
    shown = complaints[:_MOST_SHOWN]
    diagnostics = [_complaint(message, int(line or 0), lines, name) for line, message in shown]
    if len(complaints) > _MOST_SHOWN:
        diagnostics.append(Diagnostic(f"and {len(complaints) - _MOST_SHOWN} more from ptxas"))
    return diagnostics


def _complaint(message: str, line: int, lines: Sequence[str], name: str) -> Diagnostic:
    if not 0 < line <= len(lines):
        return Diagnostic(f"ptxas: {message}")
    text = lines[line - 1]
    here = Location(name, line, len(text) - len(text.lstrip()) + 1)
    source = _source(lines, line)
    notes = (Diagnostic(f"the PTX is: {text.strip()}", here if source else None, "note"),)
    return Diagnostic(f"ptxas: {message}", source or here, notes=notes)


def _source(lines: Sequence[str], line: int) -> Location | None:
    """The source line of the last `.loc` above `line` in its function; 0 there is the compiler's own code."""
    for text in reversed(lines[:line]):
        if re.match(r"\s*(\.\w+\s+)*\.(entry|func)\b", text):
            return None
        if match := re.match(r"\s*\.loc\s+(\d+)\s+([1-9]\d*)\s+(\d+)", text):
            break
    else:
        return None
    file = next((m for m in map(re.compile(rf'\s*\.file\s+{match[1]}\s+"(.*?)"').match, lines) if m), None)
    return Location(file[1], int(match[2]), max(1, int(match[3]))) if file else None
