"""Writes docs/isa from the instruction tables: `python docs/generate/isa_docs.py [DIRECTORY]`."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from math import prod
from pathlib import Path
from runpy import run_path
from typing import Any

from claims import CLAIMS, Claim

from weft.isa import tables
from weft.isa.chips import CHIPS
from weft.isa.family import Family, Verdict
from weft.isa.tables import TABLES, Table
from weft.isa.text import written
from weft.tools.isa_patterns import pattern
from weft.tools.isa_rows import Row, chips_text, rows, version_text

_NEAR = run_path(str(Path(__file__).resolve().parents[2] / "test/certify/near.py"))["NEAR"]
_HOW = """\
A *form* is one legal combination of shape, types and modifiers. Each row of a table stands for all
combinations of the values in its cells:

- `|` separates choices. Text in brackets is optional: only some forms of the row have it.
- If a row doesn't name an axis, the axis has its default value.
- An operand is given as its number of registers per lane and their LLVM type: `4 f16x2` is four registers of
  type `<2 x half>`. If an operand must be a constant, its legal values are listed.
- In opcodes, braces enclose choices, and a word in capitals stands for a list of choices. In operand lists,
  braces are PTX's vectors of registers.
"""

_ABOUT = """\
# Instructions

These pages list every form of PTX's tensor-core instructions, and the chips that support it. A form is one
legal combination of shape, types and modifiers. `weft lint` checks PTX and MLIR against these tables, and
`weft isa` prints them:

```sh
weft isa
```

| column | contents |
| --- | --- |
| forms | the number of forms |
| intrinsics | how many of them LLVM 22.1 has an intrinsic for |
| rows | the number of rows of the table on the page |
| points | the number of combinations, legal or not, that were tried with ptxas on all chips |
"""
_DETAILS = """\
## Which forms are legal

A form is legal on a chip if and only if ptxas assembles a kernel that contains it, at -O3. ptxas 12.9 decides
for sm_70 and sm_72, and ptxas 13.5 for the other chips. `python test/certify/certify.py` checks both
directions: ptxas must accept each form of the tables, and reject each combination that they lack. It tries
all combinations of the values of the axes, and some values that no form has, on each of the {count} chips
from {first} on. The tables agree with ptxas 12.9.86 and 13.5.37 in all of these combinations.

Each page lists the forms that ptxas accepts but the PTX ISA doesn't specify, and the reason why the table
omits them. `python docs/generate/isa_docs.py` writes the pages from the tables in `python/weft/isa`, and a
test checks that they agree.

## What `weft lint` reports in addition

ptxas ignores some modifiers that an instruction doesn't have, such as `.b8x16` on any `tcgen05` instruction.
`weft lint` reports them. It also reports four mistakes that ptxas accepts:

- a predicate in a fragment or as metadata;
- a special register as a result or an address;
- a vector where one register is needed;
- selectors 2 and 3 of `mma.sp` m16n8k32 with f16 inputs and f32 sums, which allows only selectors 0 and 1.

Like ptxas, it checks the types of operands by the declarations of their registers.

## How forms are lowered

Weft lowers a form to an intrinsic if LLVM 22.1 has one that prints the form, and to inline PTX otherwise.
Each page lists the forms that are lowered to inline PTX. LLVM 22.1 doesn't support sm_107. For this chip,
LLVM generates code for sm_103, and Weft replaces the name of the target in the PTX. Forms that sm_103 has,
too, are lowered as on sm_103; forms that only sm_107 has are lowered to inline PTX.
"""


def pages() -> dict[str, str]:
    """The text of each page by its file's name."""
    texts = {"index.md": _index()}
    return texts | {f"{table.name}.md": "\n".join(_page(table)) for table in TABLES}


def points(family: Family[Any]) -> int:
    """How many points the checker tries: all values of the axes, and some that no form has, on every chip."""
    near = _NEAR.get(family.name, {})
    axes = ({*family.values(axis), *near.get(axis, ())} for axis in family.axes)
    return prod(map(len, axes)) * len(CHIPS)


def intrinsics(family: Family[Any]) -> int:
    """How many forms LLVM has an intrinsic for."""
    return sum(form.intrinsic is not None for form in family.table)


def _index() -> str:
    lines = [
        _ABOUT,
        *_markdown(
            ("table", "instruction", "forms", "intrinsics", "rows", "since PTX", "chips", "points"),
            [
                (
                    f"[{table.name}]({table.name}.md)",
                    f"`{family.name}`",
                    f"{len(family.table):,}",
                    f"{intrinsics(family):,}",
                    str(len(rows(family))),
                    version_text(min(support.ptx for support in family.table.values())),
                    chips_text(family.chips()),
                    f"{points(family):,}",
                )
                for table in TABLES
                for family in table.families
            ],
        ),
        "",
        f"Together {sum(len(f.table) for f in tables.FAMILIES):,} forms, "
        f"{sum(map(intrinsics, tables.FAMILIES)):,} of them with an intrinsic, and "
        f"{sum(map(points, tables.FAMILIES)):,} points.",
        "",
        _DETAILS.format(count=len(CHIPS), first=next(iter(CHIPS))).rstrip(),
        "",
    ]
    return "\n".join(lines)


def _page(table: Table) -> Iterator[str]:
    yield from (f"# {table.name}", "", f"{table.summary[0].upper()}{table.summary[1:]}.", "", _HOW)
    for family in table.families:
        yield from _family(family)
    yield from _section("Without an LLVM intrinsic", _inline(table))
    yield from _section("What ptxas accepts and the tables leave out", _left_out(table))
    yield from _section("Where documents and ptxas disagree", _claims(table))


def _section(title: str, lines: Sequence[str]) -> Iterator[str]:
    yield from (f"## {title}", "", *(lines or ["None."]), "")


def _family(family: Family[Any]) -> Iterator[str]:
    listed = rows(family)
    forms = [form for row in listed for form in row.forms]
    yield from (f"## {family.name}", "", " ".join((family.form.__doc__ or "").split()), "")
    operands = dict.fromkeys(_operands(form) for form in forms)
    yield from (f"{_counted(forms)}; operands:", "")
    yield from (f"- `{text}`" if text else "- none" for text in operands)
    yield ""
    heads = ("#", "shape", "types", "modifiers", "operands", "chips", "PTX")
    yield from _columns(heads, [_cells(number, row) for number, row in enumerate(listed, 1)])
    yield ""
    spelled = [(str(number), *_spelled(row)) for number, row in enumerate(listed, 1)]
    yield from _markdown(("#", "PTX", "LLVM"), spelled)
    yield ""
    if rules := list(_rules(family)):
        yield from _markdown(("rule", "for example", "message"), rules)
        yield ""


def _counted(forms: Sequence[Any]) -> str:
    return f"{len(forms):,} form{'' if len(forms) == 1 else 's'}"


def _operands(form: Any) -> str:
    return str(form.assembly.format(**{operand.name: operand.name for operand in form.operands}))


def _cells(number: int, row: Row) -> tuple[str, ...]:
    return (
        str(number),
        row.shape,
        row.types,
        "; ".join(row.modifiers),
        ", ".join(row.operands),
        row.chips,
        row.ptx,
    )


def _spelled(row: Row) -> tuple[str, str]:
    ptx, llvm = pattern(f.ptx for f in row.forms), [f.intrinsic for f in row.forms if f.intrinsic]
    return f"`{ptx}`", f"`{pattern(llvm)}`" if llvm else "inline PTX"


def _rules(family: Family[Any]) -> Iterator[tuple[str, str, str]]:
    """A case of each of the family's own rules, and its message."""
    own, of_chips = family.rules, getattr(family, "chip_rules", ())
    found: dict[int, tuple[str, str, str]] = {}
    chips = [chip for chip in CHIPS if of_chips and chip in family.chips()]
    for form in _near_misses(family, _NEAR.get(family.name, {})):
        for number, rule in enumerate(own):
            if number not in found and (verdict := rule(form)):
                found[number] = _rule(form, verdict)
        for number, chip_rule in enumerate(of_chips, len(own)):
            if number not in found:
                judged = ((chip_rule(form, chip), chip) for chip in chips)
                if (case := next(((v, chip) for v, chip in judged if v), None)) is not None:
                    found[number] = _rule(form, *case)
        if len(found) == len(own) + len(of_chips):
            break
    yield from (found[number] for number in sorted(found))


def _rule(form: Any, verdict: Verdict, chip: str = "") -> tuple[str, str, str]:
    return verdict.rule, f"`{form.ptx}`{f' on {chip}' if chip else ''}", verdict.reason


def _near_misses(family: Family[Any], near: Mapping[str, Sequence[object]]) -> Iterator[Any]:
    """The first form of each row, and those that differ from it on one axis, then on two."""
    names = family.axes
    tried = [dict.fromkeys((*near.get(axis, ()), *family.values(axis))) for axis in names]
    firsts = [(form := row.forms[0], [getattr(form, axis) for axis in names]) for row in rows(family)]
    seen = set()
    for count in range(3):
        for form, own in firsts:
            for axes in combinations(range(len(own)), count):
                for values in product(*(tried[axis] for axis in axes)):
                    changed = list(own)
                    for axis, value in zip(axes, values, strict=True):
                        changed[axis] = value
                    if (key := tuple(changed)) not in seen:
                        seen.add(key)
                        yield replace(form, **dict(zip(names, changed, strict=True)))


def _inline(table: Table) -> list[str]:
    lines = []
    for family in table.families:
        forms = [form for form in family.table if form.intrinsic is None]
        if forms:
            numbers = [i for i, row in enumerate(rows(family), 1) if row.forms[0].intrinsic is None]
            which = f"row{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"
            lines.append(
                f"- `{family.name}`, {_counted(forms)} "
                f"({'all' if len(forms) == len(family.table) else which}): `{pattern(f.ptx for f in forms)}`"
            )
    return ["These are inline PTX after lowering:", "", *lines] if lines else []


def _left_out(table: Table) -> list[str]:
    return [f"- `{entry.family}`: {entry.reason}." for entry in table.unpublished]


def _claims(table: Table) -> list[str]:
    own = [claim for claim in CLAIMS if claim.table == table.name]
    cases = [
        (c.said, f"`{' '.join((c.opcode, ', '.join(c.operands))).strip()}` on {c.chip}", truth(c))
        for c in own
    ]
    return _markdown(("claim", "example", "result"), cases) if cases else []


def truth(claim: Claim) -> str:
    """What the tables say of a claim's instruction."""
    verdict = claim_verdict(claim)
    return "legal" if verdict is None else f"illegal: {verdict.reason}"


def claim_verdict(claim: Claim) -> Verdict | None:
    """The tables' judgment of a claim's instruction, as far as its opcode goes."""
    read = tables.read(claim.opcode, claim.operands)
    return read[0].judge(read[1], claim.chip) if read else written.unread(claim.opcode, claim.chip)


def _columns(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    """A table without the columns that have nothing to say."""
    used = [i for i in range(len(heads)) if any(line[i] for line in cells)]
    return _markdown([heads[i] for i in used], [[line[i] for i in used] for line in cells])


def _markdown(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    lines = [[text.replace("|", "\\|") for text in line] for line in cells]
    return [f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), *lines)]


def main(arguments: Sequence[str]) -> int:
    """Writes the pages into a directory, docs/isa of the checkout unless another is given."""
    directory = Path(arguments[0]) if arguments else Path("docs/isa")
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (directory / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
