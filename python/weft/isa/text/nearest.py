"""Suggests whole legal instructions in place of an illegal one; each is checked against the tables."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from weft.isa import tables
from weft.isa.family import Family, Form, Verdict, operand_text, ptx_registers
from weft.isa.text.constants import value_of
from weft.isa.text.operands import NOTHING_DECLARED, nearest_values
from weft.isa.text.reader import Instruction, split_operands
from weft.isa.text.scope import UNDECLARED, UNKNOWN, Scope

Version = tuple[int, int]

_OFFSET = re.compile(r"(?<=[\w$])\s*-\s*(?=\d)")
"""A negative offset in an address without the `+` that PTX requires before it."""
_REGISTER = re.compile(r"%\w+")
_MOST = 3
_TEXT = 400
"""The most characters of all suggestions for one instruction; the first is always shown."""
_FORMS = 6


@dataclass(frozen=True)
class Standard:
    """How a candidate is judged: whether it is legal where the illegal instruction is, whether its form is,
    and whether an operand may be the n-th of a family's form.
    """

    legal: Callable[[Instruction], bool]
    has: Callable[[Family[Any], Form], bool]
    fits: Callable[[str, Form, int, str, Scope | None], bool]


def nearest(
    instruction: Instruction, verdict: Verdict, chip: str | None, version: Version | None, judge: Standard
) -> tuple[str, ...]:
    """Legal instructions near an illegal one, as PTX text with operands and semicolon. `verdict` returns why
    the instruction is illegal. Its operands are kept where they fit.
    """
    shown: list[str] = []
    spelled = tables.read(instruction.opcode, instruction.operands)
    for family, form in _forms(instruction, spelled, verdict, chip, version):
        text = _instruction(instruction, family, form, judge) if judge.has(family, form) else None
        if text is None or text in shown:
            continue
        if shown and sum(map(len, (*shown, text))) > _TEXT:
            break
        shown.append(text)
        if len(shown) == _MOST or (spelled is not None and spelled[1] == form):
            break
    return tuple(shown)


Spelled = tuple[Family[Any], Form]


def _forms(
    instruction: Instruction,
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
        opcodes = (f"{instruction.opcode}.block_scale", *opcodes)
    named = [tables.read(opcode, instruction.operands) for opcode in opcodes]
    yield from (near for near in named if near is not None)
    for family, form in (near for near in (*named, spelled) if near is not None):
        yield from ((family, near) for near in family.closest(form, chip, _FORMS, version))


def _instruction(instruction: Instruction, family: Family[Any], form: Form, judge: Standard) -> str | None:
    """The legal form as a whole instruction, with the given operands that fit; None where it can't be written
    so that it is read as this form.
    """
    own = _operands(form)
    registers = _REGISTER.findall(" ".join(own))
    scope = instruction.scope or NOTHING_DECLARED
    declared = any(scope.kind(name) not in (UNDECLARED, UNKNOWN) for name in registers)
    if declared or not {*registers}.isdisjoint(_REGISTER.findall(" ".join(instruction.operands))):
        own = tuple(operand.replace("%", "%new_") for operand in own)
    count = min(len(own), len(instruction.operands))
    kept = tuple(_kept(instruction, family.name, form, at, own[at], judge) for at in range(count))
    for operands in (kept + own[len(kept) :], own):
        for opcode in (_shortest(instruction, family, form, operands), form.ptx):
            # Registers that are named after the form's operands aren't declared.
            candidate = instruction._replace(opcode=opcode, operands=operands, ended=True, scope=None)
            if judge.legal(candidate):
                return f"{opcode} {', '.join(operands)}".strip() + ";"
    return None


def _shortest(instruction: Instruction, family: Family[Any], form: Form, operands: tuple[str, ...]) -> str:
    """The form's opcode without modifiers that only state the default and that `instruction` lacks."""
    written, words = set(instruction.opcode.split(".")), form.ptx.split(".")
    for word in [word for word in words[1:] if word not in written]:
        rest = ".".join(other for other in words if other != word)
        read = tables.read(rest, operands)
        if read is not None and read[0] is family and read[1] == form:
            words = rest.split(".")
    return ".".join(words)


def _kept(instruction: Instruction, family: str, form: Form, at: int, own: str, judge: Standard) -> str:
    """The given operand, corrected if that is enough; otherwise a new one of the form."""
    operand = instruction.operands[at]
    if judge.fits(family, form, at, operand, instruction.scope):
        return operand
    tried = (_OFFSET.sub("+-", operand), *_bracketed(operand, own), *_constants(form, at, operand))
    return next((text for text in tried if judge.fits(family, form, at, text, instruction.scope)), own)


def _bracketed(operand: str, wanted: str) -> tuple[str, ...]:
    """The operand with the same brackets or braces as `wanted`, or without any."""
    if operand.startswith("["):
        return (operand.strip("[]"),)
    if operand.startswith("{") or wanted[0] not in "[{":
        return ()
    return (f"[{operand}]",) if wanted.startswith("[") else (f"{{{operand}}}",)


def _constants(form: Form, at: int, operand: str) -> tuple[str, ...]:
    """Legal constants for this operand, the nearest to the given one first."""
    if (value := value_of(operand)) is None:
        return ()
    slot = split_operands(form.assembly.replace("{{", "").replace("}}", ""))[at : at + 1]
    wanted = [o for o in form.operands if o.values and slot and f"{{{o.name}}}" in slot[0]]
    if len(wanted) != 1 or slot[0] != f"{{{wanted[0].name}}}":
        return ()
    return nearest_values(wanted[0], value)


@lru_cache(maxsize=1 << 14)
def _operands(form: Form) -> tuple[str, ...]:
    """Operands of a form with registers that are named after them."""
    names: dict[str, list[str]] = {}
    for operand in form.operands:
        count = 1 if operand.role == "immediate" else ptx_registers(operand)[1]
        alone = str(operand.values[0]) if operand.role == "immediate" else f"%{operand.name}"
        names[operand.name] = [f"%{operand.name}{i}" for i in range(count)] if count > 1 else [alone]
    return split_operands(operand_text(form, names))
