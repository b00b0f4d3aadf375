"""`weft isa`: the instruction tables, readable in a terminal or as JSON."""

import io
import json
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from weft.errors import WeftError
from weft.tools import cli
from weft.tools.command import Command

if TYPE_CHECKING:
    from rich.console import RenderableType

    from weft.isa.family import Family, Form, Registers

# The width of tables where there is no terminal.
_WIDTH = 120
# JSON lists at most so many legal values of an operand; of more, it has the first, the last and the step.
_LISTED = 64


_OPTIONS = """
[family] FAMILY  wmma, mma, wgmma, tcgen05, or an instruction (mma.sync)
--arch CHIP  show only what this chip has
--matmul  show what tile.matmul multiplies on each chip, and how
--types TYPE  with --matmul: only products with this type of A or B, as MLIR names it
--json  print one line of JSON for each form
"""


def _run(options: Namespace) -> int:
    from weft.isa.chips import CHIPS, unknown_chip

    chip = options.arch
    if chip is not None and chip not in CHIPS:
        raise WeftError(f"--arch {unknown_chip(chip)}")
    if options.matmul:
        return _matmul(options)
    if options.types is not None:
        raise WeftError("--types needs --matmul")
    families = chosen(options.family)
    if not any(any(family.forms(chip)) for family in families):
        from weft.isa.chips import describe

        having = describe(frozenset().union(*(family.chips() for family in families)))
        raise WeftError(f"{chip} has no form of {options.family}, which needs {having}")
    if options.json:
        cli.say("\n".join(json.dumps(entry) for family in families for entry in entries(family, chip)))
        return 0
    if options.family is None:
        cli.say(_rendered([_overview(chip)]))
        return 0
    shown = [part for family in families if any(family.forms(chip)) for part in _table(family, chip)]
    cli.say(_rendered(shown).rstrip())
    return 0


def _matmul(options: Namespace) -> int:
    """Prints the matrix of `tile.matmul`."""
    from weft.schedules import matrix
    from weft.tools import isa_matmul

    if options.family is not None:
        raise WeftError(f"--matmul shows all families, got '{options.family}'")
    cells = matrix.cells(options.arch, options.types)
    if options.json:
        cli.say("\n".join(json.dumps(isa_matmul.entry(cell)) for cell in cells))
    else:
        cli.say(_rendered(list(isa_matmul.tables(cells))).rstrip())
    return 0


def chosen(name: str | None) -> "tuple[Family[Form], ...]":
    """The families of a table, or the one of an instruction. Raises WeftError for a name of neither."""
    from weft.isa.suggest import did_you_mean

    tables = _tables()
    families = tuple(family for each in tables.values() for family in each)
    if name is None:
        return families
    matching = tables.get(name) or tuple(family for family in families if family.name == name)
    if not matching:
        names = [*tables, *(family.name for family in families)]
        meant = did_you_mean(name, names)
        raise WeftError(
            f"family must be one of {', '.join(names)}, or an instruction of one, got '{name}'{meant}"
        )
    return matching


def _tables() -> "dict[str, tuple[Family[Form], ...]]":
    """The families of each table, and those of each dialect of an installed extension."""
    from weft.isa.tables import TABLES
    from weft.registry import extensions

    tables = {table.name: table.families for table in TABLES}
    if extensions.installed():  # only they need MLIR
        from weft.dialects import DIALECTS, dialects, instruction_ops

        for dialect in dialects():
            if dialect not in DIALECTS and (ops := instruction_ops([dialect])):
                tables[dialect.DIALECT_NAMESPACE] = tuple(dict.fromkeys(op.family for op in ops))
    return tables


def entries(family: "Family[Form]", chip: str | None = None) -> Iterator[cli.Record]:
    """The forms of a family as JSON has them."""
    from weft.isa.chips import CHIPS
    from weft.tools.isa_rows import version_text

    for form in family.forms(chip):
        support = family.table[form]
        yield {
            "family": family.name,
            "ptx": form.ptx,
            "axes": {axis: getattr(form, axis) for axis in family.axes},
            "operands": [_operand(operand) for operand in form.operands],
            "assembly": form.assembly.format(**{operand.name: operand.name for operand in form.operands}),
            "intrinsic": form.intrinsic,
            "chips": [name for name in CHIPS if name in support.chips],
            "ptx_version": version_text(support.ptx),
        }


def _operand(operand: "Registers") -> cli.Record:
    entry: cli.Record = {
        "name": operand.name,
        "count": operand.count,
        "type": operand.type,
        "role": operand.role,
    }
    if operand.shape:
        entry |= {"shape": list(operand.shape), "layout": operand.layout}
    values = operand.values
    if len(values) > _LISTED:
        entry["values"] = {"first": values[0], "last": values[-1], "step": values[1] - values[0]}
    elif values:
        entry["values"] = list(values)
    return entry


def _rendered(parts: "Sequence[RenderableType]") -> str:
    """Tables as text, as wide as the terminal; with colors where stdout is one."""
    from rich.console import Console

    terminal = sys.stdout is not None and sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else _WIDTH
    console = Console(
        file=io.StringIO(), force_terminal=terminal, no_color=not terminal, width=width, highlight=False
    )
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, str))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n"))


def _overview(chip: str | None) -> "RenderableType":
    """The instructions of all tables, or those that `chip` has."""
    from rich import box
    from rich.table import Table

    from weft.tools.isa_rows import chips_text, version_text

    overview = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("table", "instruction", "forms", "first in PTX", "chips"):
        overview.add_column(heading, justify="right" if heading == "forms" else "left")
    for name, families in _tables().items():
        for family in families:
            if count := sum(1 for _ in family.forms(chip)):
                first = version_text(min(family.table[form].ptx for form in family.forms(chip)))
                overview.add_row(name, family.name, str(count), first, chips_text(family.chips()))
    return overview


def _table(family: "Family[Form]", chip: str | None) -> "Iterator[RenderableType]":
    """One family: how it is spelled, what all rows share, and its rows."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    from weft.tools.isa_patterns import pattern
    from weft.tools.isa_rows import rows

    listed = rows(family, chip)
    forms = [form for row in listed for form in row.forms]
    yield f"[bold]{family.name}[/bold]  {len(forms)} form{'' if len(forms) == 1 else 's'}"
    yield f"  PTX   {escape(pattern(form.ptx for form in forms))}"
    intrinsics = [form.intrinsic for form in forms if form.intrinsic]
    yield f"  LLVM  {escape(pattern(intrinsics)) if intrinsics else 'none: inline PTX'}"
    operands, modifiers = (
        _common([row.operands for row in listed]),
        _common([row.modifiers for row in listed]),
    )
    cells = {
        "shape": [row.shape for row in listed],
        "types": [row.types for row in listed],
        "modifiers": ["; ".join(t for t in row.modifiers if t not in modifiers) for row in listed],
        "operands": [", ".join(t for t in row.operands if t not in operands) for row in listed],
        "chips": [row.chips for row in listed],
        "PTX": [row.ptx for row in listed],
        "LLVM": ["inline" if row.forms[0].intrinsic is None else "" for row in listed],
    }
    if not intrinsics:
        del cells["LLVM"]
    shared = {name: {*column}.pop() for name, column in cells.items() if len({*column}) == 1}
    shared["modifiers"] = "; ".join(filter(None, [*modifiers, shared.get("modifiers", "")]))
    shared["operands"] = ", ".join(filter(None, [*operands, shared.get("operands", "")]))
    for name, text in shared.items():
        if text:
            yield f"  {name if name != 'PTX' else 'since PTX':<9} {escape(text)}"
    varying = {name: column for name, column in cells.items() if len(set(column)) > 1}
    if varying:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for name in varying:
            table.add_column(name, no_wrap=name == "PTX", overflow="fold")
        for row in zip(*varying.values(), strict=True):
            table.add_row(*map(escape, row))
        yield table
    else:
        yield ""


def _common(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """What all rows say."""
    return [text for text in rows[0] if all(text in row for row in rows)]


ISA = Command("isa", "show the instruction tables: what each chip has, and its spelling", _OPTIONS, _run)
