"""What to write in place of an instruction that isn't legal: whole instructions, each held to the tables."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from weft.isa import tables
from weft.isa.certify.assembler import ptx_registers
from weft.isa.family import Family, Registers, Verdict, operand_text
from weft.isa.text.constants import value_of
from weft.isa.text.operands import nearest_values
from weft.isa.text.scan import Instruction, split_operands
from weft.isa.text.scope import Scope

Version = tuple[int, int]

_OFFSET = re.compile(r"(?<=[\w$])\s*-\s*(?=\d)")
"""Where an address has an offset below 0 with no `+`, which PTX wants before it."""
_MOST = 3
_TEXT = 400
"""Characters of all suggestions for one instruction; one is shown in any case."""
_FORMS = 6


@dataclass(frozen=True)
class Standard:
    """What is asked of an instruction in place of another: whether it is legal where that one stands, whether
    its form is, and whether an operand may be the n-th of a family's form.
    """

    legal: Callable[[Instruction], bool]
    has: Callable[[Family[Any], Any], bool]
    fits: Callable[[str, Any, int, str, Scope | None], bool]


def nearest(
    found: Instruction, verdict: Verdict, chip: str | None, version: Version | None, judge: Standard
) -> tuple[str, ...]:
    """Legal instructions near to `found`, of which `verdict` says why it isn't, in words of PTX with operands
    and semicolon. Operands of `found` are kept where they fit.
    """
    shown: list[str] = []
    spelled = tables.read(found.opcode, found.operands)
    for family, form in _forms(found, spelled, verdict, chip, version):
        text = _instruction(found, family, form, judge) if judge.has(family, form) else None
        if text is None or text in shown:
            continue
        if shown and sum(map(len, (*shown, text))) > _TEXT:
            break
        shown.append(text)
        if len(shown) == _MOST or (spelled is not None and spelled[1] == form):
            break
    return tuple(shown)


Spelled = tuple[Family[Any], Any]


def _forms(
    found: Instruction,
    spelled: Spelled | None,
    verdict: Verdict,
    chip: str | None,
    version: Version | None,
) -> Iterator[Spelled]:
    """Forms that may be meant, the likeliest first; not all are legal."""
    if spelled is not None:
        yield spelled
    opcodes = verdict.nearest
    if verdict.rule == "block-scale":  # an instruction of another table
        opcodes = (f"{found.opcode}.block_scale", *opcodes)
    named = [tables.read(opcode, found.operands) for opcode in opcodes]
    yield from (near for near in named if near is not None)
    for family, form in (near for near in (*named, spelled) if near is not None):
        yield from ((family, near) for near in family.closest(form, chip, _FORMS, version))


def _instruction(found: Instruction, family: Family[Any], form: Any, judge: Standard) -> str | None:
    """The legal form as a whole instruction, with the operands of `found` that fit; None where it can't be
    written so that it is read as this form.
    """
    own = _operands(form)
    given = found.operands[: len(own)]
    kept = tuple(_kept(found, family.name, form, at, own[at], judge) for at in range(len(given)))
    for operands in (kept + own[len(kept) :], own):
        for opcode in (_shortest(found, family, form, operands), form.ptx):
            # Registers of the form's own aren't declared.
            made = found._replace(opcode=opcode, operands=operands, ended=True, scope=None)
            if judge.legal(made):
                return f"{opcode} {', '.join(operands)}".strip() + ";"
    return None


def _shortest(found: Instruction, family: Family[Any], form: Any, operands: tuple[str, ...]) -> str:
    """The form's opcode without the modifiers that `found` lacks and that mean nothing but the default."""
    given, words = set(found.opcode.split(".")), form.ptx.split(".")
    for word in [word for word in words[1:] if word not in given]:
        rest = ".".join(other for other in words if other != word)
        read = tables.read(rest, operands)
        if read is not None and read[0] is family and read[1] == form:
            words = rest.split(".")
    return ".".join(words)


def _kept(found: Instruction, family: str, form: Any, at: int, own: str, judge: Standard) -> str:
    """The given operand, or what is made of it, where it may be the form's; otherwise the form's own."""
    given = found.operands[at]
    if judge.fits(family, form, at, given, found.scope):
        return given
    tried = (_OFFSET.sub("+-", given), *_bracketed(given, own), *_constants(form, at, given))
    return next((text for text in tried if judge.fits(family, form, at, text, found.scope)), own)


def _bracketed(given: str, wanted: str) -> tuple[str, ...]:
    """The operand in the brackets or braces that `wanted` has, or in none as that."""
    if given.startswith("["):
        return (given.strip("[]"),)
    if given.startswith("{") or wanted[0] not in "[{":
        return ()
    return (f"[{given}]",) if wanted.startswith("[") else (f"{{{given}}}",)


def _constants(form: Any, at: int, given: str) -> tuple[str, ...]:
    """Legal constants of the operand there, those nearest to what was given first."""
    if (value := value_of(given)) is None:
        return ()
    slot = split_operands(form.assembly.replace("{{", "").replace("}}", ""))[at : at + 1]
    wanted = [o for o in form.operands if o.values and slot and f"{{{o.name}}}" in slot[0]]
    if len(wanted) != 1 or slot[0] != f"{{{wanted[0].name}}}":
        return ()
    return nearest_values(wanted[0], value)


@lru_cache(maxsize=1 << 14)
def _operands(form: Any) -> tuple[str, ...]:
    """Operands of a form with registers that are named after them."""
    names = {operand.name: _names(operand) for operand in form.operands}
    return split_operands(operand_text(form, names))


def _names(operand: Registers) -> list[str]:
    if operand.role == "immediate":
        return [str(operand.values[0])]
    count = ptx_registers(operand)[1]
    return [f"%{operand.name}{i}" for i in range(count)] if count > 1 else [f"%{operand.name}"]
