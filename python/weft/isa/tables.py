"""The registry of the instruction tables: their modules, in order, and which family reads an opcode."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from weft.isa import mma, tcgen05, wgmma, wmma
from weft.isa.chips import CHIPS
from weft.isa.family import Family
from weft.isa.unpublished import Unpublished


@dataclass(frozen=True)
class Table:
    """What one module of tables offers: its families, and what ptxas takes and it leaves out."""

    name: str
    summary: str
    families: tuple[Family[Any], ...]
    unpublished: tuple[Unpublished, ...]


TABLES = tuple(
    Table(name, summary, module.FAMILIES, module.UNPUBLISHED)
    for name, summary, module in (
        (
            "wmma",
            "warp-level products and moves of matrices in fragments, whose layout PTX doesn't specify",
            wmma,
        ),
        (
            "mma",
            "warp-level products of matrices in registers (dense, sparse, block-scaled), and matrix moves",
            mma,
        ),
        ("wgmma", "asynchronous products of a warpgroup, with operands in shared memory", wgmma),
        (
            "tcgen05",
            "fifth-generation tensor cores: tensor memory, its management, and products in it",
            tcgen05,
        ),
    )
)
FAMILIES = tuple(family for table in TABLES for family in table.families)

HEADS: dict[str, tuple[Family[Any], ...]] = {
    head: tuple(family for family in FAMILIES if family.name.split(".")[0] == head)
    for head in dict.fromkeys(family.name.split(".")[0] for family in FAMILIES)
}
"""The families by the first word of their opcodes."""


def read(opcode: str, operands: Sequence[str] = ()) -> tuple[Family[Any], Any] | None:
    """The family and the form that a PTX opcode and its operands spell, legal or not; None where no family
    reads them.
    """
    # `parse` looks only at an operand's bracket or brace, and at a list's commas.
    outlines = ("{" + "," * o.count(",") if o[:1] == "{" else "[" if o[:1] == "[" else "" for o in operands)
    return _read(opcode, tuple(outlines))


@lru_cache(maxsize=1 << 14)
def _read(opcode: str, operands: tuple[str, ...]) -> tuple[Family[Any], Any] | None:
    for family in HEADS.get(opcode.partition(".")[0], ()):
        if (form := family.parse(opcode, operands)) is not None:
            return family, form
    return None


def unpublished(family: Family[Any], form: Any, chip: str) -> Unpublished | None:
    """Why a table leaves out a form that ptxas takes on `chip`; None where that isn't known of it."""
    excuses = (u for table in TABLES for u in table.unpublished if u.family == family.name)
    return next((u for u in excuses if u.holds(form, chip)), None)


def left_to_ptx(family: Family[Any], form: Any, chip: str | None = None) -> Unpublished | None:
    """Why Weft's dialects lack a form that PTX has on `chip` (on some chip); None where they don't."""
    if form in family.table:
        return None
    for name in (chip,) if chip else reversed(CHIPS):
        known = unpublished(family, form, name)
        if known is not None and known.since is not None:
            return known
    return None
