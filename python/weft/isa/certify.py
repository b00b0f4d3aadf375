"""Holds the instruction tables to ptxas: what it assembles, in whole kernels at -O3, is legal, and no more.

`python -m weft.isa.certify [MODULE ...] [--family NAME] [--sample N] [--chips sm_90a,…] [--jobs N]` checks
tables: the whole cross-product of their axes' values with the near misses that the module names, on every
chip.

A table module offers `FAMILIES`; `NEAR`, the values in no row that are tried on each axis, by family and
axis; and `UNPUBLISHED`, what ptxas takes and the table leaves out.
"""

import argparse
import importlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from itertools import islice, product
from pathlib import Path
from types import ModuleType
from typing import Any

from weft.isa.chips import CHIPS
from weft.isa.family import Family, Form, Registers, Support

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
    """What ptxas says of each form on its chip: None where it assembles, else its first complaint.

    Operands are written as `Form.assembly` has them: `{a}` is a bare register where there is one and a list
    where there are more, `{{{a}}}` a list in any case. The PTX version is the newest that the chip's ptxas
    knows unless `version` is given. `immediates` gives operands constant values by name (else immediates have
    their first legal one), `prologue` is PTX that runs before the instruction in each kernel, `directives`
    stand between a kernel's parameters and its body.
    """
    by_chip: dict[str, list[Form]] = defaultdict(list)
    for form, chip in dict.fromkeys(points):
        by_chip[chip].append(form)
    entries: dict[Form, Entry] = {}

    def judge(chunk: tuple[str, list[Form]]) -> dict[Point, str | None]:
        chip, forms = chunk
        texts = [entries.get(form) or entries.setdefault(form, Entry.of(form, immediates)) for form in forms]
        found = assemble(texts, chip, version, prologue, directives)
        return {(form, chip): verdict for form, verdict in zip(forms, found, strict=True)}

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


def operand_text(form: Form, names: Mapping[str, Sequence[str]]) -> str:
    """The operand list of `form.assembly` with these registers: `{{{a}}}` is always a list in braces, `{a}`
    where it has several registers.
    """
    listed = set(re.findall(r"\{\{\{(\w+)\}\}\}", form.assembly))
    texts = {name: ", ".join(registers) for name, registers in names.items()}
    bare = {name for name, registers in names.items() if len(registers) == 1 or name in listed}
    return form.assembly.format(**{n: text if n in bare else f"{{{text}}}" for n, text in texts.items()})


_PTX_TYPES = {"f32": "f32", "f64": "f64", "i1": "pred", "i128": "b128"}


def ptx_registers(operand: Registers) -> tuple[str, int]:
    """The PTX type and number of an operand's registers: a vector of up to 32 bits shares one."""
    count, kind = operand.count, operand.type
    if vector := re.fullmatch(r"vector<(\d+)x(\w+)>", kind):
        bits = int(vector[1]) * int(re.sub(r"\D", "", vector[2]))
        if bits <= 32:
            return f"b{bits}", count
        count, kind = count * int(vector[1]), vector[2]
    if pointer := re.fullmatch(r"(?:!llvm\.)?ptr(?:<(\d+)>)?", kind):
        # Tensor memory has 32-bit addresses; LLVM's pointers to the other spaces have 64.
        return ("b32" if pointer[1] == "6" else "b64"), count
    if kind in _PTX_TYPES:
        return _PTX_TYPES[kind], count
    if bits := int(re.sub(r"\D", "", kind) or 0):
        return f"b{max(bits, 16)}", count
    raise ValueError(f"no PTX register holds {operand.name} of type {kind}")


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
    """ptxas's verdict on each instruction: None where it assembles in a kernel, else its first complaint."""
    major, minor = version or LAST[CHIPS[chip].number < 75]
    head = f".version {major}.{minor}\n.target {chip}\n.address_size 64\n"
    found: dict[int, str | None] = {}
    if len(entries) > KERNELS:
        found.update(_screen(entries, chip, head, prologue, directives))
    left = [i for i in range(len(entries)) if i not in found]
    todo = [left[i : i + KERNELS] for i in range(0, len(left), KERNELS)]
    while todo:
        part = todo.pop()
        kernels = (kernel_text(entries[i], prologue, directives) for i in part)
        status, log = _run(head + "".join(f".visible .entry k{i}{k}" for i, k in enumerate(kernels)), chip)
        refused = {part[i]: text for i, text in _complaints(log)} if status else {}
        if status == 0:
            found.update(dict.fromkeys(part))
        elif refused:
            found.update(refused)
            rest = [i for i in part if i not in refused]
            todo += [rest] if rest else []
        elif len(part) == 1:
            found[part[0]] = log.strip() or f"ptxas ended with status {status}"
        else:
            # A complaint about no line: an internal error, which ends the others' judgement too.
            todo += [part[: len(part) // 2], part[len(part) // 2 :]]
    return [found[i] for i in range(len(entries))]


def _screen(
    entries: Sequence[Entry], chip: str, head: str, prologue: str, directives: str
) -> dict[int, str | None]:
    """What ptxas refuses as soon as it has read it, from one kernel with all the instructions: much faster
    than a kernel each. Its last line is wrong, so that nothing is compiled.
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
    found = ((int(m["line"]) - first, m["text"]) for m in _COMPLAINT.finditer(log) if m["line"])
    return {i: text for i, text in reversed(list(found)) if 0 <= i < len(entries)}


_COMPLAINT = re.compile(
    r"^ptxas (?:.*?, line (?P<line>\d+); )?(?:error|fatal)\s*: (?P<text>.*)$", re.MULTILINE
)


# ptxas makes library calls of some wmma; where there is no such function, its lines are another text's.
_LIBRARY = re.compile(r"Unknown symbol|Parsing error|formal parameter|requires call prototype")


def _complaints(log: str) -> Iterator[tuple[int, str]]:
    """The numbers of the kernels that ptxas complains about and why, their first complaint last."""
    if _LIBRARY.search(log):
        return
    for match in reversed(list(_COMPLAINT.finditer(log))):
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
        command = [_ptxas(CHIPS[chip].number < 75), f"-arch={chip}", "-O3", "k.ptx", "-o", "k.cubin"]
        try:
            done = subprocess.run(
                command, cwd=directory, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return -1, f"ptxas didn't finish within {TIMEOUT_SECONDS} s"
        return done.returncode, done.stdout + done.stderr


@cache
def _ptxas(volta: bool) -> str:
    """The ptxas of CUDA 13, or that of CUDA 12 for the chips that 13 dropped: the one that $WEFT_PTXAS (for
    12, $WEFT_PTXAS_12) names, in this virtual environment, or on the path.
    """
    variable, folder = ("WEFT_PTXAS_12", "cuda_nvcc") if volta else ("WEFT_PTXAS", "cu13")
    here = Path(sys.prefix).glob(f"lib/python*/site-packages/nvidia/{folder}/bin/ptxas")
    found = os.environ.get(variable) or next((str(path) for path in here), None)
    if found is None and not volta:
        found = shutil.which("ptxas")
    if found is None:
        version, package = (
            ("12 (for sm_70 and sm_72)", "nvidia-cuda-nvcc-cu12") if volta else ("13", "nvidia-cuda-nvcc")
        )
        raise FileNotFoundError(f"no ptxas of CUDA {version}: install {package}, or set {variable}")
    return found


def cross(family: Family[Any], near: Mapping[str, Sequence[object]]) -> Iterator[Any]:
    """Every combination of the values that the axes have in the table, and of those in `near`."""
    return (family.form(*values) for values in _values(family, near))


def _values(family: Family[Any], near: Mapping[str, Sequence[object]]) -> Iterator[tuple[object, ...]]:
    return product(*(tuple(dict.fromkeys((*family.values(a), *near.get(a, ())))) for a in family.axes))


def sample(
    family: Family[Any], near: Mapping[str, Sequence[object]], count: int, chips: Sequence[str], seed: int = 0
) -> list[Point]:
    """`count` points: a third legal forms, a third forms that differ from a legal one on one axis, a third of
    the whole cross-product; each on a chip at random.
    """
    rng = random.Random(seed)
    legal = list(family.table)
    values = {a: tuple(dict.fromkeys((*family.values(a), *near.get(a, ())))) for a in family.axes}
    points = []
    for i in range(count):
        changes = rng.sample(family.axes, (0, 1, len(family.axes))[i % 3])
        base = legal[rng.randrange(len(legal))]
        fields = {a: rng.choice(values[a]) if a in changes else getattr(base, a) for a in family.axes}
        points.append((family.form(**fields), chips[rng.randrange(len(chips))]))
    return points


def disagreements(module: Any, family: Family[Any], points: Iterable[Point]) -> list[str]:
    """Where the table and ptxas differ, in words; `module` (or whatever has its UNPUBLISHED) may excuse what
    ptxas takes.
    """
    excused = [u for u in getattr(module, "UNPUBLISHED", ()) if u.family == family.name]
    found = []
    for (form, chip), complaint in verdicts(points).items():
        support = family.table.get(form)
        legal = support is not None and chip in support.chips
        if legal and complaint is not None:
            found.append(f"{form.ptx} on {chip}: in the table, but ptxas says {complaint}")
        elif not legal and complaint is None and not any(u.holds(form, chip) for u in excused):
            found.append(f"{form.ptx} on {chip}: not in the table, but ptxas takes it")
        elif legal and (verdict := family.judge(form, chip)):
            found.append(f"{form.ptx} on {chip}: in the table, but a rule refuses it: {verdict}")
    return found


def version_faults(family: Family[Any]) -> list[str]:
    """Rows that their PTX version doesn't assemble, or that the version before it does, on the oldest chip
    that has them.
    """
    first: dict[Version, list[Point]] = defaultdict(list)
    before: dict[Version, list[Point]] = defaultdict(list)
    for form, support in family.table.items():
        chip = oldest(support)
        version = max(support.ptx, CHIPS[chip].ptx)
        first[version].append((form, chip))
        if support.ptx > CHIPS[chip].ptx:
            before[VERSIONS[VERSIONS.index(support.ptx) - 1]].append((form, chip))
    refused = [
        f"{form.ptx} on {chip}: PTX {version[0]}.{version[1]} doesn't have it: {complaint}"
        for version, points in first.items()
        for (form, chip), complaint in verdicts(points, version=version).items()
        if complaint is not None
    ]
    early = [
        f"{form.ptx} on {chip}: PTX {version[0]}.{version[1]} has it already"
        for version, points in before.items()
        for (form, chip), complaint in verdicts(points, version=version).items()
        if complaint is None
    ]
    return refused + early


def oldest(support: Support) -> str:
    """The chip of a row that PTX has had for longest."""
    return min(support.chips, key=lambda name: (CHIPS[name].ptx, CHIPS[name].number, name))


def first_version(points: Iterable[Point]) -> dict[Point, Version | None]:
    """The first PTX version in which each form assembles on its chip; None where none does."""
    left = list(dict.fromkeys(points))
    found: dict[Point, Version | None] = dict.fromkeys(left)
    for version in VERSIONS:
        fits = [
            (form, chip) for form, chip in left if CHIPS[chip].ptx <= version <= LAST[CHIPS[chip].number < 75]
        ]
        taken = {point for point, complaint in verdicts(fits, version=version).items() if complaint is None}
        found.update(dict.fromkeys(taken, version))
        left = [point for point in left if point not in taken]
    return found


def check(
    module: ModuleType, family: Family[Any], chips: Sequence[str], count: int | None, jobs: int | None = None
) -> bool:
    """Check one table on `chips` (`count` points of it, or all) with `jobs` processes (one for each core),
    print what differs, and say whether all agreed.
    """
    checked, wrong = 0, 0
    if count is not None:
        points = sample(family, _near(module, family), count, chips)
        results: Iterable[tuple[int, list[str]]] = [(len(points), disagreements(module, family, points))]
    else:
        results = _in_parts(module.__name__, family.name, chips, jobs or os.cpu_count() or 1)
    for points_checked, faults in results:
        checked, wrong = checked + points_checked, wrong + len(faults)
        for line in faults:
            print(line, flush=True)
    versions = version_faults(family)
    for line in versions:
        print(line)
    print(f"{family.name}: {len(family.table)} forms, {checked} points, {wrong} disagree", flush=True)
    return not wrong and not versions


def _near(module: ModuleType, family: Family[Any]) -> Mapping[str, Sequence[object]]:
    found: Mapping[str, Sequence[object]] = getattr(module, "NEAR", {}).get(family.name, {})
    return found


def _in_parts(module: str, family: str, chips: Sequence[str], jobs: int) -> Iterator[tuple[int, list[str]]]:
    parts = jobs * _PARTS_PER_JOB
    with ProcessPoolExecutor(jobs) as pool:
        futures = [pool.submit(_check_part, module, family, chips, part, parts) for part in range(parts)]
        for done, future in enumerate(as_completed(futures), 1):
            yield future.result()
            print(f"{family}: part {done} of {parts}", file=sys.stderr, flush=True)


_PARTS_PER_JOB = 8


def _check_part(
    module_name: str, family_name: str, chips: Sequence[str], part: int, parts: int
) -> tuple[int, list[str]]:
    """Check every `parts`-th batch of a cross-product from `part` on: how many points, what differs."""
    module = importlib.import_module(module_name)
    family = next(f for f in module.FAMILIES if f.name == family_name)
    checked, faults = 0, []
    for batch in islice(_batches(_values(family, _near(module, family))), part, None, parts):
        points = list(product((family.form(*values) for values in batch), chips))
        checked += len(points)
        faults += disagreements(module, family, points)
    return checked, faults


def _batches(items: Iterable[Any]) -> Iterator[list[Any]]:
    rest = iter(items)
    while batch := list(islice(rest, SCREENED)):
        yield batch


_MODULES = ("wmma", "mma", "wgmma", "tcgen05")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its status is 1 where a table and ptxas differ."""
    parser = argparse.ArgumentParser(prog="python -m weft.isa.certify", description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="of weft.isa: mma, …; all if left out")
    parser.add_argument("--family", action="append", help="only this one (may be repeated)")
    parser.add_argument("--sample", type=int, help="so many points, not the whole cross-product")
    parser.add_argument("--chips", default=",".join(CHIPS), help="names with commas; every chip if left out")
    parser.add_argument("--jobs", type=int, help="processes; one for each core if left out")
    options = parser.parse_args(arguments)
    right = True
    for name in options.modules or _MODULES:
        module = importlib.import_module(f"weft.isa.{name}")
        for family in module.FAMILIES:
            if not options.family or family.name in options.family:
                right &= check(module, family, options.chips.split(","), options.sample, options.jobs)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
