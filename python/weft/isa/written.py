"""Judges instructions as PTX text has them: opcode and operands, on a chip and in a version of PTX."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

from weft.isa import spellings, tables
from weft.isa.assembler import ptx_registers
from weft.isa.family import Family, Registers, Verdict
from weft.isa.scan import Instruction, listed, split_operands
from weft.isa.types import ELEMENT_TYPES

_NUMBER = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?")
_FLOAT = re.compile(r"[-+]?(\d+\.\d*(e[-+]?\d+)?|0[fFdD][0-9a-fA-F]{8,16})")
_NAME = re.compile(r"[A-Za-z_$%][\w$%.]*")


def judge(found: Instruction, chip: str | None, version: tuple[int, int] | None = None) -> Verdict | None:
    """None where an instruction is legal on `chip` (on some chip, with none given) in PTX `version` (in some
    version), operands included as far as the text shows them; else why it isn't.
    """
    if not found.ended:
        return Verdict("syntax", "isn't ended by a semicolon")
    opcode = spellings.once(found.opcode)
    spelled = tables.read(opcode, found.operands)
    if spelled is None:
        return unread(found.opcode, chip)
    family, form = spelled
    verdict = _judge_form(family.name, form, chip, version) or operands_verdict(form, found.operands)
    if verdict is None and (twice := _twice(opcode)):
        return Verdict("modifiers", f"has .{twice} twice", (form.ptx,))
    return verdict or _version_verdict(spellings.since(opcode), version)


def _twice(opcode: str) -> str:
    """A modifier that an opcode repeats, where it isn't one of several types or layouts; "" where none is."""
    seen = Counter(opcode.split(".")[1:])
    may = {"row", "col", *ELEMENT_TYPES}
    return next((name for name, count in seen.items() if count > 1 and name not in may), "")


@lru_cache(maxsize=1 << 14)
def _judge_form(name: str, form: Any, chip: str | None, version: tuple[int, int] | None) -> Verdict | None:
    family = _family(name)
    if verdict := family.judge(form, chip):
        known = tables.unpublished(family, form, chip) if chip is not None else None
        taken = f" (ptxas assembles it: {known.reason})" if known else ""
        return replace(verdict, reason=verdict.reason + taken, nearest=tuple(dict.fromkeys(verdict.nearest)))
    return _version_verdict(family.table[form].ptx, version)


def _version_verdict(needed: tuple[int, int], version: tuple[int, int] | None) -> Verdict | None:
    if version is None or version >= needed:
        return None
    wanted, given = (f"{major}.{minor}" for major, minor in (needed, version))
    return Verdict("ptx", f"needs PTX {wanted}: the text's version is {given}", (f".version {wanted}",))


@cache
def _family(name: str) -> Family[Any]:
    return next(family for family in tables.FAMILIES if family.name == name)


# Operands


def operands_verdict(form: Any, operands: Sequence[str]) -> Verdict | None:
    """What is wrong with the operands of a legal form, as written: how many there are, braces and brackets,
    how many registers are in a list, which values constants have. None where nothing is.
    """
    slots = _slots(form)
    if len(operands) != len(slots):
        return Verdict(
            "operands", f"takes {_counted(len(slots), 'operand')}, got {len(operands)}", _shown(form)
        )
    for slot, operand in zip(slots, operands, strict=True):
        if verdict := _slot_verdict(form, slot, operand):
            return verdict
    return None


Slot = tuple[str, tuple[Registers, ...]]


@lru_cache(maxsize=1 << 14)
def _slots(form: Any) -> tuple[Slot, ...]:
    """What `form.assembly` lists: the bracket or brace around each, and the form's operands in it."""
    named = {operand.name: operand for operand in form.operands}
    text = form.assembly.format(**{name: f"\0{name}\0" for name in named})
    return tuple(
        (slot[0] if slot[0] in "[{" else "", tuple(named[n] for n in re.findall("\0(\\w+)\0", slot)))
        for slot in split_operands(text)
    )


def _shown(form: Any) -> tuple[str, ...]:
    """The form with the names of its operands."""
    names = {operand.name: operand.name for operand in form.operands}
    return (f"{form.ptx} {form.assembly.format(**names)}".strip(),)


def _slot_verdict(form: Any, slot: Slot, operand: str) -> Verdict | None:
    bracket, wanted = slot
    if not _is_whole(operand):
        return Verdict("syntax", f"has an operand that can't be read: '{operand}'")
    if (bracket == "[") != operand.startswith("["):
        inside = "an address in brackets" if bracket else "no address in brackets"
        return Verdict("operands", f"takes {inside} for {wanted[0].name}, got {operand}", _shown(form))
    if bracket == "[":
        return None
    if len(wanted) > 1:
        parts = listed(operand)
        if not operand.startswith("{") or len(parts) != len(wanted):
            names = ", ".join(o.name for o in wanted)
            return Verdict("operands", f"takes {{{names}}} in braces, got {operand}", _shown(form))
        pairs = zip(wanted, parts, strict=True)
        return next((v for one, part in pairs if (v := _constant_verdict(one, part))), None)
    (one,) = wanted
    return _list_verdict(form, one, operand, bracket == "{") or _constant_verdict(one, operand)


def _list_verdict(form: Any, wanted: Registers, operand: str, braced: bool) -> Verdict | None:
    count = 1 if wanted.role == "immediate" else ptx_registers(wanted)[1]
    if not operand.startswith("{"):
        # The name of a vector variable stands for its registers; it can't be seen here how many they are.
        if (braced or count > 1) and not (count in (2, 4) and _NAME.fullmatch(operand)):
            return Verdict(
                "operands", f"takes {wanted.name} as a list in braces, got {operand}", _shown(form)
            )
        return None
    got = len(listed(operand))
    if got != count:
        return Verdict(
            "registers", f"takes {_counted(count, 'register')} for {wanted.name}, got {got}", _shown(form)
        )
    return None


# The most that a constant can be in place of a register of few bits.
_MOST = {"i1": 1, "i16": (1 << 16) - 1}


def _constant_verdict(wanted: Registers, operand: str) -> Verdict | None:
    if not wanted.values:
        match, most = _NUMBER.fullmatch(operand), _MOST.get(wanted.type)
        if match is None or most is None or 0 <= _value(*match.groups()) <= most:
            return None
        return Verdict(wanted.name, f"takes {wanted.name} from 0 to {most}, got {operand}", (str(most),))
    if match := _NUMBER.fullmatch(operand):
        value = _value(*match.groups())
        if value in wanted.values:
            return None
        return Verdict(
            wanted.name,
            f"takes {wanted.name} {_one_of(wanted.values)}, got {operand}",
            _nearest(wanted, value),
        )
    if wanted.role == "immediate" and (_NAME.fullmatch(operand) or _FLOAT.fullmatch(operand)):
        return Verdict(
            wanted.name, f"takes a constant for {wanted.name}, {_one_of(wanted.values)}, got {operand}"
        )
    return None


def _is_whole(operand: str) -> bool:
    """Whether braces and brackets close, around something, and each part of a list is there."""
    for opening, closing in ("{}", "[]"):
        if operand.startswith(opening) != operand.endswith(closing):
            return False
    inside = operand.strip("{}[]")
    return not set(inside) & set("{}[]") and all(part.strip() for part in inside.split(","))


def _value(sign: str, digits: str) -> int:
    base = {"0x": 16, "0b": 2}.get(digits[:2].lower())
    octal = re.fullmatch("0[0-7]+", digits) is not None
    value = int(digits[2:], base) if base else int(digits, 8 if octal else 10)
    return -value if sign == "-" else value


def _one_of(values: Sequence[int]) -> str:
    if (
        len(values) < 3
        or (step := values[1] - values[0]) <= 0
        or values[-1] != values[0] + step * (len(values) - 1)
    ):
        return ", ".join(map(str, values))
    return f"{values[0]} to {values[-1]}" + (f" by {step}" if step > 1 else "")


def _nearest(wanted: Registers, value: int) -> tuple[str, ...]:
    values = wanted.values
    if len(values) > 1 << 10:  # a range that is no list
        return (str(min(max(value, values[0]), values[-1])),)
    return tuple(str(v) for v in sorted(values, key=lambda v: (abs(v - value), v))[:2])


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


# Opcodes that no family reads


class _Spellings:
    """The spellings of all legal forms whose opcodes begin with one word, as bags of modifiers.

    A set of forms is an integer with a bit each, shorter spellings first.
    """

    def __init__(self, head: str, chip: str | None) -> None:
        spelled = {form.ptx for family in tables.HEADS[head] for form in family.forms(chip)}
        self.opcodes = sorted(spelled, key=lambda opcode: (opcode.count("."), opcode))
        self.having: dict[tuple[str, int], int] = {}
        for i, opcode in enumerate(self.opcodes):
            for token in _bag(opcode):
                self.having[token] = self.having.get(token, 0) | 1 << i

    def nearest(self, opcode: str, most: int = 3) -> list[str]:
        """Those that share the most modifiers with `opcode`, the shortest first."""
        bag = _bag(opcode)
        planes = [0] * len(bag).bit_length()
        for token in bag:
            carry = self.having.get(token, 0)
            for place, plane in enumerate(planes):
                planes[place], carry = plane ^ carry, plane & carry
        best = (1 << len(self.opcodes)) - 1
        for plane in reversed(planes):
            best = best & plane or best
        found: list[str] = []
        while best and len(found) < most:
            found.append(self.opcodes[(best & -best).bit_length() - 1])
            best &= best - 1
        return found


def _bag(opcode: str) -> list[tuple[str, int]]:
    """The modifiers of an opcode; a second one of the same name is another."""
    seen: Counter[str] = Counter()
    found = []
    for token in opcode.split(".")[1:]:
        found.append((token, seen[token]))
        seen[token] += 1
    return found


@cache
def _spellings(head: str, chip: str | None) -> _Spellings:
    return _Spellings(head, chip)


@lru_cache(maxsize=1 << 14)
def unread(opcode: str, chip: str | None) -> Verdict:
    """Why no family reads an opcode, which begins as one's do: a modifier that none has, or the lack or
    excess of some.
    """
    head = opcode.partition(".")[0]
    everywhere = _spellings(head, None)
    here = _spellings(head, chip)
    if not here.opcodes:
        here = everywhere
    nearest = tuple(here.nearest(opcode))
    bag = _bag(opcode)
    if unknown := [token for token, _ in bag if (token, 0) not in everywhere.having]:
        names = ", ".join(f".{token}" for token in dict.fromkeys(unknown))
        reason = f"has modifiers that no {head} instruction has: {names}"
        return Verdict("modifier", reason + _ignored(opcode), nearest)
    closest = _bag(everywhere.nearest(opcode, 1)[0])
    differences = [
        f"{what} {', '.join(f'.{token}' for token, _ in tokens)}"
        for what, tokens in (
            ("lacks", [token for token in closest if token not in bag]),
            ("has too much", [token for token in bag if token not in closest]),
        )
        if tokens
    ]
    how = f": beside {nearest[0]} it {' and '.join(differences)}" if differences and nearest else ""
    return Verdict("spelling", f"isn't spelled as any instruction is{how}{_ignored(opcode)}", nearest)


def _ignored(opcode: str) -> str:
    """Which modifiers ptxas ignores, so that it assembles what would be legal without them."""
    tokens = [token for token in spellings.ignored(opcode) if token in opcode.split(".")]
    rest = spellings.once(spellings.without(opcode, tokens))
    if not tokens or (spelled := tables.read(rest)) is None or spelled[1] not in spelled[0].table:
        return ""
    return f" (ptxas ignores {', '.join(f'.{token}' for token in tokens)})"
