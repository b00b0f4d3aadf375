"""What the instruction tables know, as Markdown for hovers."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import MISSING, fields
from typing import Any

from weft.isa import tables
from weft.isa.chips import CHIPS, describe
from weft.isa.family import Family, must_be, number_choice, ptx_registers

_MOST_VALUES = 40


def family_named(name: str) -> Family[Any] | None:
    """The family of the tables with this name; None for another, such as an extension's."""
    return next((family for family in tables.FAMILIES if family.name == name), None)


def nearest_chip(now: str | None, having: Container[str]) -> str | None:
    """The chip nearest to `now` among some; later ones first. None where there is none."""
    number = CHIPS[now].number if now in CHIPS else 0
    known = (chip for chip in CHIPS.values() if chip.name in having)
    near = min(known, key=lambda chip: (chip.number < number, abs(chip.number - number)), default=None)
    return near.name if near else None


def chip_text(name: str) -> str:
    """What is known of a chip; "" for an unknown one."""
    if (chip := CHIPS.get(name)) is None:
        return ""
    families = ", ".join(family.name for family in tables.FAMILIES if name in family.chips())
    return (
        f"**{name}**: since PTX {_version(chip.ptx)}; {chip.shared_bytes // 1024} KiB of shared memory a CTA"
        f", {chip.sm_threads} threads a multiprocessor\n\ninstructions: {families}"
    )


def form_text(family: Family[Any], form: Any, chip: str | None) -> str:
    """A form: its spelling, the chips that have it, its operands, and what is wrong with it on `chip`."""
    lines = [f"**{family.name}**", "", f"```ptx\n{form.ptx}\n```", ""]
    if verdict := family.judge(form, chip):
        lines += [f"Illegal{f' on {chip}' if chip else ''}: {verdict}", ""]
    if support := family.table.get(form):
        lines += [f"{describe(support.chips)}; PTX {_version(support.ptx)} or later", ""]
        if form.intrinsic:
            lines += [f"LLVM: `{form.intrinsic}`", ""]
        lines += _operands(form)
    else:
        lines += [f"The tables have {family.name} on {describe(family.chips())}.", ""]
    return "\n".join(lines).strip()


def _operands(form: Any) -> Iterator[str]:
    if not form.operands:
        return
    yield from ("| operand | registers | role |", "|---|---|---|")
    for operand in form.operands:
        what = f"{ptx_registers(operand)[1]} of `{operand.type}`"
        if operand.role == "immediate" and operand.values:
            what = f"a number: {number_choice(operand.values)}"
        elif operand.shape:
            what += f", a fragment of {'x'.join(map(str, operand.shape))}"
        yield f"| {operand.name} | {what} | {operand.role} |"


def axis_text(family: Family[Any], form: Any, axis: str, chip: str | None) -> str:
    """The legal values of an axis: those with the form's other values, and all."""
    known, chosen = family.values(axis, chip), getattr(form, axis)
    where = f" on {chip}" if chip else ""
    lines = [f"**{axis}** of {family.name}: `{shown(chosen)}`", ""]
    if chosen not in known:
        lines += [f"Illegal: {must_be(axis, known, chosen, where)}", ""]
    if alternatives := family.alternatives(form, axis, chip):
        lines += [f"With the other values as here{where}: {_listed(alternatives)}", ""]
    lines.append(f"All{where}: {_listed(known)}")
    return "\n".join(lines)


def values_text(family: Family[Any], axis: str, chip: str | None) -> str:
    """The legal values of an axis, where the other values aren't known."""
    return f"**{axis}** of {family.name}\n\nLegal{f' on {chip}' if chip else ''}: " + _listed(
        family.values(axis, chip)
    )


def default_of(family: Family[Any], axis: str) -> object:
    """The value of an axis in a form that doesn't mention it; None where there is none."""
    field = next(f for f in fields(family.form) if f.name == axis)
    if field.default is not MISSING:
        return field.default
    return False if field.type in (bool, "bool") else None


def shown(value: object) -> str:
    """A value as messages have it."""
    return (value or "none") if isinstance(value, str) else str(value).lower()


def _listed(values: Sequence[object]) -> str:
    texts = [f"`{shown(value)}`" for value in values]
    more = f" and {len(texts) - _MOST_VALUES} more" if len(texts) > _MOST_VALUES else ""
    return ", ".join(texts[:_MOST_VALUES]) + more


def _version(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
