"""Checks the instruction tables against ptxas: a form is legal exactly if ptxas assembles it in a kernel at
-O3.

`python test/certify/certify.py [MODULE ...] [--family NAME] [--sample N] [--chips sm_90a,…] [--jobs N]`
checks tables: on every chip, all combinations of the values of their axes and of the illegal values in
`NEAR`. With `--mutations N` it checks the reading of opcodes instead, on N changed spellings of each family.
With `--operands` it checks the reading of operands, on N instructions with changed operands.

A table module has `FAMILIES`, and `UNPUBLISHED`, the forms that ptxas accepts and the table leaves out.
"""

import argparse
import importlib
import os
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from itertools import islice, product
from types import ModuleType
from typing import Any

import assembler
from assembler import (
    SCREENED,
    VERSIONS,
    Entry,
    Point,
    Version,
    verdicts,
)
from compared import compare, processes, report
from near import NEAR

from weft.isa.chips import CHIPS, unknown_chip
from weft.isa.family import Family, Support, operand_text, ptx_registers

__all__ = ["Entry", "check", "disagreements", "operand_text", "ptx_registers", "sample", "verdicts"]


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
        changes = rng.sample(family.axes, min((0, 1, len(family.axes))[i % 3], len(family.axes)))
        base = legal[rng.randrange(len(legal))]
        fields = {a: rng.choice(values[a]) if a in changes else getattr(base, a) for a in family.axes}
        points.append((family.form(**fields), chips[rng.randrange(len(chips))]))
    return points


def disagreements(module: Any, family: Family[Any], points: Iterable[Point]) -> list[str]:
    """The differences between the table and ptxas, as text. UNPUBLISHED of `module` excuses forms that ptxas
    accepts.
    """
    excused = [u for u in getattr(module, "UNPUBLISHED", ()) if u.family == family.name]
    differing = []
    for (form, chip), complaint in verdicts(points).items():
        support = family.table.get(form)
        legal = support is not None and chip in support.chips
        if legal and complaint is not None:
            differing.append(f"{form.ptx} on {chip}: in the table, but ptxas reports {complaint}")
        elif not legal and complaint is None and not any(u.holds(form, chip) for u in excused):
            differing.append(f"{form.ptx} on {chip}: not in the table, but ptxas takes it")
        elif legal and (verdict := family.judge(form, chip)):
            differing.append(f"{form.ptx} on {chip}: in the table, but a rule refuses it: {verdict}")
    return differing


def version_faults(family: Family[Any]) -> list[str]:
    """Rows that fail in their PTX version, or assemble in the version before it, on the oldest chip that has
    them.
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
    """The chip of a row that PTX has supported the longest."""
    return min(support.chips, key=lambda name: (CHIPS[name].ptx, CHIPS[name].number, name))


def check(
    module: ModuleType, family: Family[Any], chips: Sequence[str], count: int | None, jobs: int | None = None
) -> bool:
    """Check one table on `chips` (`count` points of it, or all) with `jobs` processes (one for each core),
    print the differences, and return whether there are none.
    """
    checked, wrong = 0, 0
    if count is not None:
        points = sample(family, NEAR.get(family.name, {}), count, chips)
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


def check_spellings(
    family: Family[Any],
    chips: Sequence[str],
    count: int,
    seed: int = 0,
    jobs: int | None = None,
    *,
    operands: bool = False,
) -> bool:
    """Ask ptxas about `count` changed spellings of a family's forms on each chip (with changed modifiers; or
    with changed operands, on chips that have the family, of forms that the chip has), print those that it
    accepts and the tables lack, and the reverse, and return whether there are none.
    """
    jobs = jobs or os.cpu_count() or 1
    if operands:
        chips = [chip for chip in chips if chip in family.chips()]
    lines = list(report(compare(family, chips, count, seed, jobs, operands=operands)))
    for line in lines:
        print(line)
    print(f"{family.name}: {count} spellings on {len(chips)} chips, {len(lines)} differ", flush=True)
    return not lines


def _in_parts(module: str, family: str, chips: Sequence[str], jobs: int) -> Iterator[tuple[int, list[str]]]:
    parts = jobs * _PARTS_PER_JOB
    with processes(jobs) as pool:
        futures = [pool.submit(_check_part, module, family, chips, part, parts) for part in range(parts)]
        for done, future in enumerate(as_completed(futures), 1):
            yield future.result()
            print(f"{family}: part {done} of {parts}", file=sys.stderr, flush=True)


_PARTS_PER_JOB = 8


def _check_part(
    module_name: str, family_name: str, chips: Sequence[str], part: int, parts: int
) -> tuple[int, list[str]]:
    """Check every `parts`-th batch of a cross-product, beginning with `part`: the number of points, the
    differences.
    """
    module = importlib.import_module(module_name)
    family = next(f for f in module.FAMILIES if f.name == family_name)
    checked, faults = 0, []
    for batch in islice(_batches(_values(family, NEAR.get(family.name, {}))), part, None, parts):
        points = list(product((family.form(*values) for values in batch), chips))
        checked += len(points)
        faults += disagreements(module, family, points)
    return checked, faults


def _batches(items: Iterable[Any]) -> Iterator[list[Any]]:
    rest = iter(items)
    while batch := list(islice(rest, SCREENED)):
        yield batch


_MODULES = ("wmma", "mma", "wgmma", "tcgen05")


def count_of(text: str) -> int:
    """An option's number, from 1."""
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, got '{text}'")
    return number


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command. The exit status is 1 if a table and ptxas differ."""
    parser = argparse.ArgumentParser(prog="certify", description=__doc__)
    parser.add_argument(
        "modules", nargs="*", metavar="MODULE", help=f"of weft.isa: {', '.join(_MODULES)}; all if left out"
    )
    parser.add_argument("--family", action="append", help="only this one (may be repeated)")
    parser.add_argument("--sample", type=count_of, help="so many points, not the whole cross-product")
    parser.add_argument(
        "--mutations", type=count_of, help="so many changed spellings of each family, not points"
    )
    parser.add_argument("--operands", action="store_true", help="with --mutations: change operands")
    parser.add_argument("--seed", type=int, default=0, help="of the changes; 0 if left out")
    parser.add_argument("--chips", default=",".join(CHIPS), help="names with commas; every chip if left out")
    parser.add_argument("--jobs", type=count_of, help="processes; one for each core if left out")
    options = parser.parse_args(arguments)
    chips = options.chips.split(",")
    for wrong in (name for name in options.modules if name not in _MODULES):
        parser.error(f"module must be one of {', '.join(_MODULES)}, got '{wrong}'")
    for wrong in (chip for chip in chips if chip not in CHIPS):
        parser.error(f"--chips {unknown_chip(wrong)}")
    if options.operands and options.mutations is None:
        parser.error("--operands needs --mutations")
    modules = [importlib.import_module(f"weft.isa.{name}") for name in options.modules or _MODULES]
    families = [(module, family) for module in modules for family in module.FAMILIES]
    names = [family.name for _, family in families]
    for wrong in (name for name in options.family or () if name not in names):
        parser.error(f"--family must be one of {', '.join(names)}, got '{wrong}'")
    try:
        for chip in chips:
            assembler.ptxas(CHIPS[chip].volta)
        return 0 if _all_agree(families, chips, options) else 1
    except FileNotFoundError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        print(f"{parser.prog}: interrupted", file=sys.stderr)
        return 130


def _all_agree(
    families: Iterable[tuple[ModuleType, Family[Any]]], chips: Sequence[str], options: argparse.Namespace
) -> bool:
    """Checks the families that the options name."""
    right = True
    for module, family in families:
        if options.family and family.name not in options.family:
            continue
        if options.mutations is None:
            right &= check(module, family, chips, options.sample, options.jobs)
        else:
            count, seed, jobs = options.mutations, options.seed, options.jobs
            right &= check_spellings(family, chips, count, seed, jobs, operands=options.operands)
    return right


if __name__ == "__main__":
    sys.exit(main())
