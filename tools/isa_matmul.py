"""What `tile.matmul` multiplies on each chip: `weft isa --matmul`."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from weft.schedules import matrix
from weft.schedules.matrix import Cell

if TYPE_CHECKING:
    from rich.console import RenderableType

HEADINGS = ("A and B", "family", "instruction", "layouts", "D", "extras", "rows", "measured")
_ALL = "all"


def cells_of(cell: Cell) -> tuple[str, ...]:
    """A row of a table."""
    return (
        str(cell.inputs),
        ", ".join(cell.families),
        cell.instruction,
        _ALL if len(cell.layouts) == len(matrix.LAYOUTS) else " ".join(cell.layouts),
        ", ".join(cell.results),
        ", ".join(cell.extras),
        cell.rows,
        "yes" if cell.measured else "no",
    )


def entry(cell: Cell) -> dict[str, object]:
    """A cell as JSON has it. `complaint` is None where the chip multiplies the product."""
    return {
        "chip": cell.chip,
        "a": cell.inputs.a,
        "b": cell.inputs.b,
        "scale": cell.inputs.scale or None,
        "bit_op": cell.inputs.bit_op or None,
        "families": list(cell.families),
        "instruction": cell.instruction or None,
        "layouts": list(cell.layouts),
        "d": list(cell.results),
        "extras": list(cell.extras),
        "rows": cell.rows or None,
        "measured": cell.measured,
        "complaint": cell.complaint,
    }


def tables(cells: Sequence[Cell]) -> "Iterator[RenderableType]":
    """The matrix in a terminal: a table for chips that are alike, and why they lack the other products."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    for chips, of_chip in matrix.groups(cells):
        yield f"[bold]{', '.join(chips)}[/bold]"
        able = [cell for cell in of_chip if cell.complaint is None]
        if able:
            table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
            for heading in HEADINGS:
                table.add_column(heading)
            for cell in able:
                table.add_row(*map(escape, cells_of(cell)))
            yield table
        reasons: dict[str, list[str]] = {}
        for cell in of_chip:
            if cell.complaint is not None:
                reason = cell.complaint.rpartition(": ")[2].removeprefix("it ")
                reasons.setdefault(reason, []).append(str(cell.inputs))
        for reason, inputs in reasons.items():
            yield f"  no {escape('; '.join(inputs))}: {escape(reason)}"
        yield ""
