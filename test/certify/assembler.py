"""Asks ptxas about single instructions: each in a kernel of its own, with registers of its own, at -O3."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path

from weft.isa.chips import CHIPS
from weft.isa.family import Form, operand_text, ptx_registers

Point = tuple[Form, str]
Version = tuple[int, int]

# The PTX versions since Volta; ptxas 12.9, the last for sm_70 and sm_72, knows those up to 8.8.
VERSIONS: tuple[Version, ...] = (
    *((6, minor) for minor in range(6)),
    *((7, minor) for minor in range(9)),
    *((8, minor) for minor in range(9)),
    *((9, minor) for minor in range(6)),
)
LAST = {False: (9, 5), True: (8, 8)}
THREADS = 2
KERNELS = 256
SCREENED = 8192
TIMEOUT_SECONDS = 300


def verdicts(
    points: Iterable[Point],
    *,
    version: Version | None = None,
    immediates: Mapping[str, int] | None = None,
    prologue: str = "",
    directives: str = "",
) -> dict[Point, str | None]:
    """ptxas's verdict on each form on its chip: None if it assembles, otherwise the first error.

    Operands are written as `Form.assembly` has them: `{a}` is a bare register where there is one and a list
    where there are more, `{{{a}}}` a list in any case. The PTX version is the newest that the chip's ptxas
    knows unless `version` is given. `immediates` gives operands constant values by name (else immediates have
    their first legal one), `prologue` is PTX that runs before the instruction in each kernel, `directives`
    are written between a kernel's parameters and its body.
    """
    by_chip: dict[str, list[Form]] = defaultdict(list)
    for form, chip in dict.fromkeys(points):
        by_chip[chip].append(form)
    entries: dict[Form, Entry] = {}

    def judge(chunk: tuple[str, list[Form]]) -> dict[Point, str | None]:
        chip, forms = chunk
        texts = [entries.get(form) or entries.setdefault(form, Entry.of(form, immediates)) for form in forms]
        complaints = assemble(texts, chip, version, prologue, directives)
        return {(form, chip): verdict for form, verdict in zip(forms, complaints, strict=True)}

    chunks = [
        (chip, forms[i : i + SCREENED])
        for chip, forms in by_chip.items()
        for i in range(0, len(forms), SCREENED)
    ]
    with ThreadPoolExecutor(THREADS) as pool:
        return {point: verdict for part in pool.map(judge, chunks) for point, verdict in part.items()}


@dataclass(frozen=True)
class Entry:
    """One instruction with registers of its own: its line of PTX, the registers by kind, those it reads, and
    those it writes.
    """

    line: str
    registers: Mapping[str, int]
    read: tuple[tuple[str, str], ...]
    written: tuple[tuple[str, str], ...]

    @staticmethod
    def of(form: Form, immediates: Mapping[str, int] | None = None) -> "Entry":
        """The instruction that `form` spells."""
        used: dict[str, int] = defaultdict(int)
        texts: dict[str, list[str]] = {}
        read, written = [], []
        for operand in form.operands:
            constant = (immediates or {}).get(operand.name)
            if constant is not None or operand.role == "immediate":
                texts[operand.name] = [str(operand.values[0] if constant is None else constant)]
                continue
            kind, count = ptx_registers(operand)
            names = [f"%{kind}_{used[kind] + i}" for i in range(count)]
            used[kind] += count
            texts[operand.name] = names
            if operand.role != "out":
                read += [(kind, name) for name in names]
            if operand.role in ("out", "inout"):
                written += [(kind, name) for name in names]
        return Entry(f"{form.ptx} {operand_text(form, texts)};", used, tuple(read), tuple(written))


def _declarations(registers: Mapping[str, int]) -> str:
    used = " ".join(f".reg .{kind} %{kind}_<{count}>;" for kind, count in registers.items())
    return f".reg .b64 %p; .reg .b32 %t; {used} ld.param.u64 %p, [p];"


def kernel_text(entry: Entry, prologue: str, directives: str) -> str:
    """A kernel without its name, in three lines: registers that are loaded, the instruction, results that are
    stored.
    """
    loads = (_load(kind, name, f"[%p+{8 * i}]") for i, (kind, name) in enumerate(entry.read))
    stores = (_store(kind, name, f"[%p+{8 * i}]") for i, (kind, name) in enumerate(entry.written))
    return (
        f"(.param .u64 p) {directives} {{ {_declarations(entry.registers)} {' '.join(loads)} {prologue}\n"
        f"{entry.line}\n"
        f"{' '.join(stores)} ret; }}\n"
    )


def _load(kind: str, name: str, at: str) -> str:
    if kind == "pred":
        return f"ld.global.b32 %t, {at}; setp.ne.b32 {name}, %t, 0;"
    return f"ld.global.{kind} {name}, {at};"


def _store(kind: str, name: str, at: str) -> str:
    if kind == "pred":
        return f"selp.b32 %t, 1, 0, {name}; st.volatile.global.b32 {at}, %t;"
    return f"st.volatile.global.{kind} {at}, {name};"


_HEAD, _LINES = 3, 3


def assemble(
    entries: Sequence[Entry],
    chip: str,
    version: Version | None = None,
    prologue: str = "",
    directives: str = "",
) -> list[str | None]:
    """ptxas's verdict on each instruction: None if it assembles in a kernel, otherwise the first error."""
    major, minor = version or LAST[CHIPS[chip].volta]
    head = f".version {major}.{minor}\n.target {chip}\n.address_size 64\n"
    complaints: dict[int, str | None] = {}
    if len(entries) > KERNELS:
        complaints.update(_screen(entries, chip, head, prologue, directives))
    left = [i for i in range(len(entries)) if i not in complaints]
    todo = [left[i : i + KERNELS] for i in range(0, len(left), KERNELS)]
    while todo:
        part = todo.pop()
        kernels = (kernel_text(entries[i], prologue, directives) for i in part)
        status, log = _run(head + "".join(f".visible .entry k{i}{k}" for i, k in enumerate(kernels)), chip)
        refused = {part[i]: text for i, text in _complaints(log)} if status else {}
        if status == 0:
            complaints.update(dict.fromkeys(part))
        elif refused:
            complaints.update(refused)
            rest = [i for i in part if i not in refused]
            todo += [rest] if rest else []
        elif len(part) == 1:
            complaints[part[0]] = f"ptxas ended with status {status}: {log.strip()}".rstrip(": ")
        elif (alone := _suspect(log)) is not None and alone < len(part):
            todo += [[part[alone]], part[:alone] + part[alone + 1 :]]
        else:
            # A complaint about no line: an internal error, which ends the others' judgment too.
            todo += [part[: len(part) // 2], part[len(part) // 2 :]]
    return [complaints[i] for i in range(len(entries))]


def _screen(
    entries: Sequence[Entry], chip: str, head: str, prologue: str, directives: str
) -> dict[int, str | None]:
    """The instructions that ptxas refuses while it parses, from one kernel with all of them. This is much
    faster than a kernel for each. The last line is wrong on purpose, so that nothing is compiled.
    """
    registers: dict[str, int] = defaultdict(int)
    for entry in entries:
        for kind, count in entry.registers.items():
            registers[kind] = max(registers[kind], count)
    lines = "".join(f"{entry.line}\n" for entry in entries)
    _, log = _run(
        f"{head}.visible .entry k(.param .u64 p) {directives} {{ {_declarations(registers)} {prologue}\n"
        f"{lines}mov.b32 %t, %p;\nret; }}\n",
        chip,
    )
    first = _HEAD + 2
    complaints = ((int(m["line"]) - first, m["text"]) for m in _ours(log) if m["line"])
    return {i: text for i, text in reversed(list(complaints)) if 0 <= i < len(entries)}


_COMPLAINT = re.compile(
    r"^ptxas (?:(?P<file>.*?), line (?P<line>\d+); )?(?:error|fatal)\s*: (?P<text>.*)$", re.MULTILINE
)


# ptxas makes library calls of some wmma; where there is no such function, its lines are another text's.
_BUILTIN = "<builtin>"
_LIBRARY = re.compile(r"Unknown symbol|Parsing error|formal parameter|requires call prototype")


def _suspect(log: str) -> int | None:
    """The number of the kernel of the first complaint, if its line is this text's and not a library's."""
    first = _COMPLAINT.search(log)
    line = int(first["line"] or 0) if first and first["file"] != _BUILTIN else 0
    return (line - _HEAD - 1) // _LINES if line > _HEAD else None


def _ours(log: str) -> Iterator[re.Match[str]]:
    """The complaints up to the first that may be about a library's text."""
    return takewhile(
        lambda match: match["file"] != _BUILTIN and not _LIBRARY.search(match["text"]),
        _COMPLAINT.finditer(log),
    )


def _complaints(log: str) -> Iterator[tuple[int, str]]:
    """The numbers of the kernels that ptxas complains about and why, their first complaint last; none from
    the first on that may be about a library's text.
    """
    for match in reversed(list(_ours(log))):
        named = re.search(r"\bk(\d+)\b", match["text"])
        if match["line"] and int(match["line"]) > _HEAD:
            yield (int(match["line"]) - _HEAD - 1) // _LINES, match["text"]
        elif match["line"]:
            raise ValueError(f"ptxas refuses the header: {match['text']}")
        elif named:
            yield int(named[1]), match["text"]


def _run(text: str, chip: str) -> tuple[int, str]:
    with tempfile.TemporaryDirectory(prefix="weft-") as directory:
        Path(directory, "k.ptx").write_text(text, encoding="utf-8")
        command = [ptxas(CHIPS[chip].volta), f"-arch={chip}", "-O3", "k.ptx", "-o", "k.cubin"]
        try:
            done = subprocess.run(
                command, cwd=directory, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return -1, f"ptxas didn't finish within {TIMEOUT_SECONDS} s"
        return done.returncode, done.stdout + done.stderr


@cache
def ptxas(volta: bool) -> str:
    """The ptxas of CUDA 13, or that of CUDA 12 for the chips that 13 dropped: the one that $WEFT_PTXAS (for
    12, $WEFT_PTXAS_12) names, in this virtual environment, or on the path.
    """
    variable, folder = ("WEFT_PTXAS_12", "cuda_nvcc") if volta else ("WEFT_PTXAS", "cu13")
    here = Path(sys.prefix).glob(f"lib/python*/site-packages/nvidia/{folder}/bin/ptxas")
    program = os.environ.get(variable) or next((str(path) for path in here), None)
    if program is None and not volta:
        program = shutil.which("ptxas")
    if program is None:
        version, package = (
            ("12 (for sm_70 and sm_72)", "nvidia-cuda-nvcc-cu12") if volta else ("13", "nvidia-cuda-nvcc")
        )
        raise FileNotFoundError(f"no ptxas of CUDA {version}: install {package}, or set {variable}")
    if shutil.which(program) is None:
        raise FileNotFoundError(f"no ptxas: '{program}', which {variable} names, is no program")
    return program
