"""Holds what Weft states about ptxas, LLVM and MLIR to the installed ones, and prints what changed since the
last time: `python test/certify/recertify.py`.

- chips, PTX versions, intrinsics, operations, enumerations: gained and lost since docs/isa/releases.json
- rows: forms of the tables that ptxas refuses (lost), and forms that it takes and they lack (gained);
  with --all every form on every chip that has it, and whether its first PTX version is still that
- spellings: intrinsics that LLVM prints as another instruction than the table's

The status is 1 where anything changed. After the tables have been brought up to date, `--write` writes
docs/isa/releases.json and the pages made from the tables: a new release is one commit.
"""

import argparse
import enum
import json
import mmap
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import assembler
import certify
import form_kernels
from near import NEAR

from weft import mlir
from weft.compiler import codegen
from weft.errors import WeftError
from weft.isa import tables
from weft.isa.chips import CHIPS
from weft.isa.family import Family
from weft.system import processes
from weft.target import Target

RECORD = Path("docs/isa/releases.json")
Facts = dict[str, list[str]]
Version = tuple[int, int]

_KERNELS = 256  # in one module
_SHOWN = 3  # examples of a change


@dataclass(frozen=True)
class Change:
    """Something gained, lost or printed otherwise: `where` groups what changed alike."""

    kind: str
    where: str
    what: str


# What is recorded


def releases() -> dict[str, str]:
    """What is installed, and in which version."""
    code = "import llvmlite, llvmlite.binding as b; print(*b.llvm_version_info, sep='.', end=' ')"
    done = processes.run(
        processes.python("-c", f"{code}; print(f'(llvmlite {{llvmlite.__version__}})')"), timeout=60
    )
    return {
        "ptxas": _ptxas_release(volta=False),
        "ptxas of CUDA 12": _ptxas_release(volta=True),
        "LLVM": done.stdout.strip(),
        "MLIR": mlir.version(),
    }


def _ptxas_release(*, volta: bool) -> str:
    match = re.search(r"\bV(\d+\.\d+\.\d+)", _said(volta, "--version"))
    return match[1] if match else "unknown"


def facts() -> Facts:
    """What the installed releases have, by what it is."""
    return {
        "chips of ptxas": sorted(_chips(volta=False)),
        "chips of ptxas of CUDA 12": sorted(_chips(volta=True)),
        "PTX versions of ptxas": [_text(_newest(volta=False))],
        "PTX versions of ptxas of CUDA 12": [_text(_newest(volta=True))],
        "chips of LLVM": [name for name in CHIPS if _llvm_knows(name)],
        "intrinsics of LLVM": intrinsics(),
        "operations of MLIR": operations(),
        "enumerations of MLIR": enumerations(),
    }


def _text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def _said(volta: bool, *arguments: str) -> str:
    done = subprocess.run(
        [assembler.ptxas(volta), *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


@cache
def _chips(*, volta: bool) -> frozenset[str]:
    """The chips that a ptxas assembles for."""
    return frozenset(re.findall(r"'(sm_\w+)'", _said(volta, "--help")))


@cache
def _newest(*, volta: bool) -> Version:
    """The newest PTX version that a ptxas reads."""
    with tempfile.TemporaryDirectory(prefix="weft-") as directory:
        path = Path(directory, "k.ptx")
        path.write_text(".version 99.9\n.target sm_75\n.address_size 64\n", encoding="utf-8")
        said = _said(volta, "-arch=sm_75", str(path), "-o", os.devnull)
    match = re.search(r"current version is '(\d+)\.(\d+)'", said)
    if match is None:
        raise WeftError(f"ptxas doesn't say which PTX version it reads: {said.strip()}")
    return int(match[1]), int(match[2])


def _llvm_knows(chip: str) -> bool:
    version = min(Target.of(chip).ptx, codegen.LAST_PTX)
    try:
        codegen.to_ptx("define ptx_kernel void @k() { ret void }", chip, version, instead=False)
    except WeftError:
        return False
    return True


def intrinsics() -> list[str]:
    """The intrinsics of tensor-core instructions, as the library of llvmlite has their names."""
    spec = find_spec(codegen.LIBRARY)
    folders = [Path(folder, "binding") for folder in (spec and spec.submodule_search_locations) or ()]
    libraries = [path for folder in folders for path in folder.glob("*llvmlite*") if path.suffix != ".py"]
    if not libraries:
        raise WeftError("llvmlite isn't installed: pip install llvmlite==0.50.0")
    heads = "|".join(tables.HEADS)
    name = re.compile(rb"\0(llvm\.nvvm\.(?:%s)\.[\w.]+)(?=\0)" % heads.encode())
    # A name ends where the next begins: what lies between two is found by one search that overlaps.
    return sorted({match[1].decode() for match in name.finditer(_names_of(libraries[0]))})


def _names_of(library: Path) -> bytes:
    """The part of LLVM's library that holds the names of NVPTX's intrinsics."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start, end = data.find(b"\0llvm.nvvm.abs"), data.rfind(b"\0llvm.nvvm.")
        return data[max(start, 0) : end + 256]


def operations() -> list[str]:
    """The operations of upstream's nvvm dialect with their operands, attributes and results."""
    return [f"{name}: {', '.join(fields)}" for name, fields in sorted(_classes())]


def _classes() -> Iterator[tuple[str, list[str]]]:
    for each in vars(mlir.nvvm).values():
        if isinstance(each, type) and hasattr(each, "OPERATION_NAME"):
            fields = sorted(name for name, kind in vars(each).items() if isinstance(kind, property))
            yield each.OPERATION_NAME, fields


def enumerations() -> list[str]:
    """The words that attributes of upstream's nvvm dialect may be."""
    kinds = [e for e in vars(mlir.nvvm).values() if isinstance(e, type) and issubclass(e, enum.Enum)]
    return sorted(f"{kind.__name__}.{member}" for kind in kinds for member in kind.__members__)


def changed_facts(before: Mapping[str, Sequence[str]], now: Mapping[str, Sequence[str]]) -> Iterator[Change]:
    """What was gained and lost between two records."""
    for where in dict.fromkeys((*before, *now)):
        then, today = set(before.get(where, ())), set(now.get(where, ()))
        yield from (Change("gained", where, each) for each in sorted(today - then))
        yield from (Change("lost", where, each) for each in sorted(then - today))


# What the tables state


def rows(family: Family[Any], near: Mapping[str, Sequence[object]], count: int | None) -> Iterator[Change]:
    """Where ptxas and a table differ: at `count` of its forms, each on one of its chips at random, or at all
    forms on every chip that has them; and at as many points around the forms.
    """
    known = _chips(volta=False) | _chips(volta=True)
    chips = [name for name in CHIPS if name in known]
    legal = {
        form: on
        for form, support in family.table.items()
        if (on := [c for c in chips if c in support.chips and support.ptx <= _newest(volta=CHIPS[c].volta)])
    }
    for form in family.table:
        if form not in legal:
            yield Change("not tried", f"rows of {family.name}", f"{form.ptx}: no chip or PTX of ptxas has it")
    if count is None:
        some = [(form, chip) for form, on in legal.items() for chip in on]
    else:
        rng = random.Random(0)
        forms = rng.sample(list(legal), min(count, len(legal)))
        some = [(form, rng.choice(legal[form])) for form in forms]
    around = certify.sample(family, near, len({form for form, _ in some}), chips)
    for (form, chip), complaint in _verdicts([*some, *around]).items():
        support = family.table.get(form)
        if support is not None and chip in support.chips and support.ptx > _newest(volta=CHIPS[chip].volta):
            continue
        if family.judge(form, chip) is None and complaint is not None:
            yield Change("lost", f"rows of {family.name} on {chip}", f"{form.ptx}: ptxas reports {complaint}")
        elif complaint is None and not _expected(family, form, chip):
            yield Change("gained", f"rows of {family.name} on {chip}", form.ptx)


def _expected(family: Family[Any], form: Any, chip: str) -> bool:
    """Whether ptxas may take a form: it is legal, or left out of the table for a reason."""
    return family.judge(form, chip) is None or tables.unpublished(family, form, chip) is not None


def _verdicts(points: Iterable[tuple[Any, str]]) -> dict[tuple[Any, str], str | None]:
    """What ptxas reports of each point, in the newest PTX version that it reads."""
    apart: dict[bool, list[tuple[Any, str]]] = {False: [], True: []}
    for form, chip in points:
        apart[CHIPS[chip].volta].append((form, chip))
    verdicts: dict[tuple[Any, str], str | None] = {}
    for volta, part in apart.items():
        newest = min(_newest(volta=volta), assembler.LAST[volta])
        if part:
            verdicts |= assembler.verdicts(part, version=newest)
    return verdicts


def spellings(family: Family[Any], count: int | None) -> Iterator[Change]:
    """Forms whose intrinsic LLVM doesn't print as the table has them, at `count` of them, or all."""
    where = f"spellings of {family.name}"
    if family.name not in form_kernels.OPERATIONS:
        yield Change("lost", where, "no operation has this family")
        return
    legal = [
        (form, chip, max(Target.of(chip).ptx, support.ptx))
        for form, support in family.table.items()
        if form.intrinsic and (chip := next((c for c in CHIPS if c in support.chips and CHIPS[c].llvm), None))
    ]
    some = legal if count is None or count >= len(legal) else random.Random(0).sample(legal, count)
    groups: dict[tuple[str, Version], list[Any]] = defaultdict(list)
    for form, chip, version in some:
        groups[chip, version].append(form)
    for (chip, version), forms in groups.items():
        for first in range(0, len(forms), _KERNELS):
            yield from _misprinted(where, family, forms[first : first + _KERNELS], chip, version)


def _misprinted(
    where: str, family: Family[Any], forms: Sequence[Any], chip: str, version: Version
) -> Iterator[Change]:
    module = form_kernels.module(chip, [(family, form) for form in forms])
    try:
        printed = form_kernels.kernels(form_kernels.to_ptx(module, chip, version))
    except WeftError as error:
        if len(forms) == 1:
            yield Change("lost", where, f"{forms[0].ptx} on {chip}: {error}")
            return
        middle = len(forms) // 2  # each half has the forms at fault that it has
        for part in (forms[:middle], forms[middle:]):
            yield from _misprinted(where, family, part, chip, version)
        return
    for form, text in zip(forms, printed, strict=True):
        read, wanted = form_kernels.printed(text, form), form_kernels.wanted(form)
        if read != wanted:
            yield Change("printed otherwise", where, f"{'; '.join(wanted)} is {'; '.join(read) or 'nothing'}")


# The command


def shown(changes: Iterable[Change]) -> Iterator[str]:
    """The changes as lines: facts in full, of rows and spellings a few examples of each group."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for change in changes:
        groups[change.where, change.kind].append(change.what)
    for (where, kind), changes_of in groups.items():
        yield f"{where}: {kind} {len(changes_of)}"
        most = _SHOWN if where.startswith(("rows", "spellings")) else len(changes_of)
        yield from (f"  {each}" for each in changes_of[:most])
        if len(changes_of) > most:
            yield f"  and {len(changes_of) - most} more"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its status is 1 where something changed."""
    parser = argparse.ArgumentParser(
        prog="recertify",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--forms", type=certify.count_of, default=60, help="of each table that are tried (60)"
    )
    parser.add_argument("--all", action="store_true", help="try all forms of each table on all their chips")
    parser.add_argument("--family", action="append", help="only this table (may be repeated)")
    parser.add_argument("--facts", action="store_true", help="compare only what is recorded")
    parser.add_argument("--write", action="store_true", help=f"write {RECORD} and the pages of docs/")
    options = parser.parse_args(arguments)
    if not RECORD.exists():
        parser.error(f"run it in a checkout: there is no {RECORD} here")
    names = [family.name for family in tables.FAMILIES]
    for wrong in (name for name in options.family or () if name not in names):
        parser.error(f"family must be one of {', '.join(names)}, got '{wrong}'")
    try:
        return _compare(options)
    except (WeftError, FileNotFoundError) as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        print(f"{parser.prog}: interrupted", file=sys.stderr)
        return 130


def _compare(options: argparse.Namespace) -> int:
    """Prints what changed, and writes it where the options say so; 1 where anything did."""
    before = json.loads(RECORD.read_text("utf-8"))
    installed, current = releases(), facts()
    for name, version in installed.items():
        then = before["releases"].get(name, "none")
        print(f"{name}: {version}" if then == version else f"{name}: {then} before, now {version}")
    changes = list(changed_facts(before["facts"], current))
    if not options.facts:
        changes += _table_changes(options.family, None if options.all else options.forms)
    print(*(list(shown(changes)) or ["nothing changed"]), sep="\n")
    if options.write:
        write({"releases": installed, "facts": current})
    return 1 if changes else 0


def _table_changes(names: Sequence[str] | None, count: int | None) -> list[Change]:
    changes = list[Change]()
    for table in tables.TABLES:
        for family in table.families:
            if not names or family.name in names:
                print(f"trying {family.name}", file=sys.stderr, flush=True)
                changes += rows(family, NEAR.get(family.name, {}), count)
                if count is None:
                    where = f"rows of {family.name}"
                    changes += (
                        Change("PTX version", where, fault) for fault in certify.version_faults(family)
                    )
                changes += spellings(family, count)
    return changes


def write(now: Mapping[str, Any]) -> None:
    """Writes the record and the pages."""
    RECORD.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
    for name in ("isa_docs", "op_docs", "editor_grammars"):
        subprocess.run([sys.executable, f"docs/generate/{name}.py"], check=True)


if __name__ == "__main__":
    sys.exit(main())
