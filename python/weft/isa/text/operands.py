"""Judges the operands of an instruction as PTX text has them: how many there are, braces and brackets,
constants, and the registers that the text declares.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

from weft.isa.computed import make_room
from weft.isa.family import Registers, Verdict, number_choice, ptx_registers
from weft.isa.text import scope as scopes
from weft.isa.text.constants import value_of
from weft.isa.text.identifiers import NAME
from weft.isa.text.reader import listed, split_operands
from weft.isa.text.register_types import Accepted, accepted
from weft.isa.text.scope import Scope

_NAME = re.compile(rf"(?:{NAME})(?:\.\w+)?", re.ASCII)
_BASE = re.compile(r"([^+.]*?)\s*(?:\+(.+))?", re.DOTALL)
_NEXT_LINE = re.compile(r"\n\s*([a-z][\w.:]*)")
NOTHING_DECLARED = Scope()
"""The scope of a text without declarations."""

# ptxas accepts braces around these, although the ISA has no list there.
_BRACED = ("metadata", "scale_a", "scale_b", "reduced")
# ptxas packs a list of several types word by word: neighbors must be alike; what has no type is like all.
_UNTYPED = {".b16", ".b32", ".b64", scopes.UNKNOWN}
_SPECIAL = {scopes.SPECIAL, scopes.LONG_SPECIAL}
_INTEGER = "="
_REALS = {scopes.SINGLE, scopes.REAL}
_CONSTANTS = {_INTEGER, *_REALS}
_WHOLE = {_INTEGER, ".u8", ".s8", ".u16", ".s16", ".u32", ".s32", ".u64", ".s64"}
_FLOATS = {*_REALS, ".f32", ".f64"}
_ALIKE = {".u8": ".s8", ".u16": ".s16", ".u32": ".s32", ".u64": ".s64"}


@dataclass(frozen=True, eq=False)
class Slot:
    """One operand in the list `form.assembly`: its bracket or brace, the form's operands inside, and what may
    be written for each. Equal slots are shared by all forms.
    """

    bracket: str
    wanted: tuple[Registers, ...]
    accepted: tuple[Accepted, ...]
    known: dict[str, bool] = field(default_factory=dict)
    """Whether an operand fits, by its signature."""


def operands_verdict(
    family: str, form: Any, operands: Sequence[str], scope: Scope | None = None, *, chip: str | None = None
) -> Verdict | None:
    """Why the operands of a form that is legal on `chip` (None: on some chip) are wrong: their number, braces
    and brackets, the lengths of lists, the values of constants, or the types of registers in `scope`. None if
    they are right.
    """
    slots = _slots(family, form, chip)
    if len(operands) != len(slots):
        return Verdict(
            "operands", f"must have {_counted(len(slots), 'operand')}, got {len(operands)}", _shown(form)
        )
    for slot, operand in zip(slots, operands, strict=True):
        if not _fits(form, slot, operand, scope or NOTHING_DECLARED):
            return _slot_verdict(form, slot, operand, scope or NOTHING_DECLARED)
    return None


def fits(
    family: str, form: Any, at: int, operand: str, scope: Scope | None = None, *, chip: str | None = None
) -> bool:
    """Whether an operand may be the n-th, from 0, of a form that is legal on `chip` (None: on some chip)."""
    return _fits(form, _slots(family, form, chip)[at], operand, scope or NOTHING_DECLARED)


def _fits(form: Any, slot: Slot, operand: str, scope: Scope) -> bool:
    kind = signature(operand, scope)
    known = slot.known.get(kind)
    if known is None:
        make_room(slot.known)
        known = slot.known[kind] = _slot_verdict(form, slot, operand, scope) is None
    return known


def distinct(family: str, form: Any, chip: str | None) -> tuple[bool, ...]:
    """For each operand, as written, of a form that is legal on `chip`: whether all its registers must be
    different.
    """
    return tuple(any(one.distinct for one in slot.accepted) for slot in _slots(family, form, chip))


def signature(operand: str, scope: Scope) -> str:
    """What the verdict on an operand depends on: operands with equal signatures are right or wrong alike."""
    kind = scope.signatures.get(operand)
    if kind is None:
        kinds, inside = scope.kinds, operand[1:-1]
        if operand[:1] == "{" and operand[-1] == "}":
            words = inside.split(", ")
            try:
                kind = "{" + ",".join(map(kinds.__getitem__, words))
            except KeyError:
                words = [part.strip() for part in inside.split(",")]
                kind = "{" + ",".join(map(scope.kind, words))
            if len(set(words)) < len(words):
                kind += " twice"
        elif operand[:1] == "[" and operand[-1] == "]":
            kind = "[broken"
            if base := _BASE.fullmatch(inside.strip()):
                offset = base[2] and ("+" if value_of(base[2].strip()) is not None else "?")
                kind = f"[{scope.kind(base[1])}{offset or ''}"
        else:
            kind = scope.kind(operand)
        make_room(scope.signatures)
        scope.signatures[operand] = kind
    return kind


@lru_cache(maxsize=1 << 14)
def _slots(family: str, form: Any, chip: str | None) -> tuple[Slot, ...]:
    named = {operand.name: operand for operand in form.operands}
    slots = []
    for text in split_operands(form.assembly.format(**{name: f"\0{name}\0" for name in named})):
        wanted = tuple(named[name] for name in re.findall("\0(\\w+)\0", text))
        bracket = text[0] if text[0] in "[{" else ""
        slots.append(_slot(bracket, wanted, tuple(accepted(family, form, one, chip) for one in wanted)))
    return tuple(slots)


_slot = lru_cache(maxsize=1 << 12)(Slot)


def _shown(form: Any) -> tuple[str, ...]:
    """The form with the names of its operands."""
    names = {operand.name: operand.name for operand in form.operands}
    return (f"{form.ptx} {form.assembly.format(**names)}".strip(),)


def _slot_verdict(form: Any, slot: Slot, operand: str, scope: Scope) -> Verdict | None:
    wanted = slot.wanted
    if not _is_whole(operand):
        said = f"has an operand that can't be read: '{' '.join(operand.split())}'"
        begun = _NEXT_LINE.search(operand)
        return Verdict("syntax", f"{said} (is a ';' missing before {begun[1]}?)" if begun else said)
    if (slot.bracket == "[") != operand.startswith("["):
        inside = "an address in brackets" if slot.bracket else "without brackets"
        return Verdict("operands", f"{wanted[0].name} must be {inside}, got {operand}", _shown(form))
    if slot.bracket == "[":
        return _address_verdict(wanted[0], slot.accepted[0], operand, scope)
    if len(wanted) > 1:
        parts = listed(operand)
        if not operand.startswith("{") or len(parts) != len(wanted):
            names = ", ".join(o.name for o in wanted)
            return Verdict("operands", f"{names} must be a list in braces, got {operand}", _shown(form))
        each = zip(wanted, slot.accepted, parts, strict=True)
        verdicts = (v for one, takes, part in each if (v := _words_verdict(one, takes, [part], scope, True)))
        return next(verdicts, None) or _together_verdict(wanted[0], slot.accepted[0], parts, scope, True)
    (one,), (takes,) = wanted, slot.accepted
    if verdict := _list_verdict(form, one, operand, slot.bracket == "{", scope):
        return verdict
    return _registers_verdict(one, takes, operand, scope)


def _list_verdict(form: Any, wanted: Registers, operand: str, braced: bool, scope: Scope) -> Verdict | None:
    """Why the braces or the number of registers of an operand are wrong; None if they are right."""
    count = 1 if wanted.role == "immediate" else ptx_registers(wanted)[1]
    if not operand.startswith("{"):
        # A bare name may stand for so many registers where it is a vector.
        kind = scope.kind(operand)
        is_vector = kind.startswith(f".v{count}.") or (count in (2, 4) and kind == scopes.UNKNOWN)
        if (braced or count > 1) and not is_vector:
            return Verdict("operands", f"{wanted.name} must be a list in braces, got {operand}", _shown(form))
        return None
    got = len(listed(operand))
    if got != count:
        return Verdict(
            "registers", f"{wanted.name} must have {_counted(count, 'register')}, got {got}", _shown(form)
        )
    if not braced and count == 1 and (wanted.role == "immediate" or wanted.name not in _BRACED):
        return Verdict("operands", f"{wanted.name} must be without braces, got {operand}", _shown(form))
    return None


def _registers_verdict(wanted: Registers, takes: Accepted, operand: str, scope: Scope) -> Verdict | None:
    """The registers and constants of an operand, one by one and together."""
    parts, braced = listed(operand), operand.startswith("{")
    if verdict := _words_verdict(wanted, takes, parts, scope, braced):
        return verdict
    if wanted.role == "immediate":
        return None
    if all(part == scopes.DISCARDED for part in parts):
        return Verdict("register", f"{wanted.name} must have a register, got only {scopes.DISCARDED}")
    vector = next((part for part in parts if scope.kind(part)[:2] == ".v"), None)
    if vector and (braced or ptx_registers(wanted)[1] == 1):
        return Verdict("register", f"{wanted.name} must be a register, got the vector {vector}")
    if takes.distinct and (twice := next((part for part in parts if parts.count(part) > 1), None)):
        return Verdict("register", f"{wanted.name} must have different registers, got {twice} twice")
    return _together_verdict(wanted, takes, parts, scope, braced)


def _words_verdict(
    wanted: Registers, takes: Accepted, parts: Sequence[str], scope: Scope, braced: bool
) -> Verdict | None:
    """Why one of these words is wrong, independently of the others; judges the first word of each kind."""
    kinds: dict[str, str] = {}
    for part in parts:
        kinds.setdefault(scope.kind(part), part)
    for kind, part in kinds.items():
        if verdict := _word_verdict(wanted, takes, kind, part, scope, braced):
            return verdict
    return None


def _together_verdict(
    wanted: Registers, takes: Accepted, parts: Sequence[str], scope: Scope, braced: bool
) -> Verdict | None:
    """Whether registers may be declared as they are. A list of one type keeps it; one of several has none."""
    named = {_class(scope.kind(part)): part for part in reversed(parts)}
    named.pop(scopes.DISCARDED, None)
    size = _bits(takes.types[0])
    if len(named) == 1:
        ((kind, part),) = named.items()
        return _type_verdict(wanted, takes, kind, part, braced)
    if takes.apart:
        each = (_type_verdict(wanted, takes, kind, part, braced) for kind, part in named.items())
        return next(filter(None, each), None)
    for kind, part in named.items():
        if kind[0] == "." and _bits(kind) != size:
            return _wrong_type(wanted, takes, part, kind)
        if kind in _SPECIAL and size != (64 if kind == scopes.LONG_SPECIAL else 32):
            return _no_register(wanted, part)
    if scope.kind(parts[0]) == scopes.SINGLE and scopes.REAL in named and not takes.real:
        after = f"after {parts[0]}, got {named[scopes.REAL]}"
        return Verdict("register", f"{wanted.name} must have floats of 32 bits only {after}")
    if (special := named.keys() & _SPECIAL) and (constant := named.keys() & _CONSTANTS):
        both = f"{named[special.pop()]} and {named[constant.pop()]}"
        return Verdict("register", f"{wanted.name} must not have constants and special registers, got {both}")
    words = [part for part in parts if part != scopes.DISCARDED]
    for pair in pairwise(words):
        kinds = {_class(scope.kind(word)) for word in pair}
        if len(kinds) > 1 and not (kinds & (_UNTYPED | _SPECIAL) or kinds <= _WHOLE or kinds <= _FLOATS):
            shown = ((word, scope.kind(word)) for word in pair)
            both = " and ".join(f"{word} of {kind}" if kind[0] == "." else word for word, kind in shown)
            return Verdict(
                "register", f"adjacent registers of {wanted.name} must have one type or none, got {both}"
            )
    return None


def _type_verdict(wanted: Registers, takes: Accepted, kind: str, part: str, braced: bool) -> Verdict | None:
    """Whether a register, or all of a list, may be of this type; or constants, or special registers."""
    if kind == scopes.UNKNOWN:
        return None
    if kind in _SPECIAL:
        right = braced and _bits(takes.types[0]) == (64 if kind == scopes.LONG_SPECIAL else 32)
        return None if right else _no_register(wanted, part)
    if kind in _CONSTANTS:
        right = takes.constant if kind == _INTEGER else takes.real or kind[1:] in takes.types
        return None if right else _no_register(wanted, part)
    if kind[0] == "." and _ALIKE.get(kind, kind) not in {_ALIKE.get(one, one) for one in takes.types}:
        return _wrong_type(wanted, takes, part, kind)
    return None


def _class(kind: str) -> str:
    """The kind without a constant's value and a vector's width."""
    if kind[0] == "=":
        return kind if kind in _REALS else _INTEGER
    return kind[3:] if kind[:2] == ".v" else kind


def _bits(kind: str) -> int:
    """The size of a register of a type; of a predicate 0."""
    size = re.search(r"\d+", kind)
    return int(size[0]) * (2 if kind.endswith("x2") else 1) if size else 0


def _word_verdict(
    wanted: Registers, takes: Accepted, kind: str, word: str, scope: Scope, braced: bool
) -> Verdict | None:
    """Why one register or constant is wrong, apart from the type of a register."""
    constant = kind[0] == "="
    if constant and kind not in _REALS and (verdict := _constant_verdict(wanted, word, int(kind[1:]))):
        return verdict
    if kind.endswith(scopes.UNDECLARED):
        return _undeclared(word, scope)
    if wanted.role == "immediate":
        if constant and kind not in _REALS:
            return None
        must = f"{wanted.name} must be a constant, {number_choice(wanted.values)}"
        return Verdict(wanted.name, f"{must}, got {word}")
    if constant:
        right = wanted.role == "in" and (takes.double or kind != scopes.REAL)
    elif kind in _SPECIAL:
        right = wanted.role == "in" and takes.special
    elif kind == scopes.DISCARDED:
        right = takes.discard
    elif kind[0] == "!":
        right = kind in ("!.pred", f"!{scopes.UNKNOWN}") and takes.types == (".pred",)
    elif kind[0] == "+":
        right = takes.sum and not braced and wanted.role == "in" and _adds(takes, kind[1:])
    else:
        right = kind[0] == "." or kind == scopes.UNKNOWN
    return None if right else _no_register(wanted, word)


def _adds(takes: Accepted, kind: str) -> bool:
    """Whether ptxas adds a constant to a register or a variable of this kind for an operand."""
    if kind[0] == "@":
        return ".b32" in takes.types
    whole = kind in takes.types and kind in _WHOLE | _UNTYPED
    return whole or kind == scopes.UNKNOWN


def _address_verdict(wanted: Registers, takes: Accepted, operand: str, scope: Scope) -> Verdict | None:
    """What is wrong with an address in brackets: a register or, outside tensor memory, a variable; and what
    is added to it.
    """
    address = _BASE.fullmatch(operand[1:-1].strip())
    if address is None:
        return Verdict("syntax", f"an address must be a register or a variable, and an offset, got {operand}")
    word, offset = address.groups()
    kind = scope.kind(word)
    if kind == scopes.UNDECLARED:
        return _undeclared(word, scope)
    if offset and value_of(offset.strip()) is None:
        return Verdict("operands", f"the offset of an address must be a constant, got {operand}")
    if kind == scopes.UNKNOWN or kind in takes.types:
        return None
    if kind[0] == ".":
        return _wrong_type(wanted, takes, word, kind)
    space = {"!llvm.ptr<1>": "global", "!llvm.ptr<3>": "shared", "!llvm.ptr": ""}.get(wanted.type)
    if kind[0] == "@" and space is not None:
        if kind[1:] in ((space,) if space else ("shared", "global", "const", "local")):
            return None
        where = f"{space} memory" if space else "memory"
        return Verdict("operands", f"{wanted.name} must be an address in {where}, got {word} in {kind[1:]}")
    return _no_register(wanted, word)


def _wrong_type(wanted: Registers, takes: Accepted, word: str, kind: str) -> Verdict:
    *others, last = takes.types[:6]
    legal = f"{', '.join(others)} or {last}" if others else last
    return Verdict("register", f"{wanted.name} must be {legal}, got {word} of {kind}")


def _no_register(wanted: Registers, word: str) -> Verdict:
    return Verdict("register", f"{wanted.name} must be a register, got {word}")


def _undeclared(word: str, scope: Scope) -> Verdict:
    name = word.lstrip("!").strip()
    if (many := scope.range_of(name)) and many[1]:
        stem, count = many
        declared = f"{stem}<{count}> declares {stem}0 to {stem}{count - 1}"
        return Verdict("undeclared", f"{name} must be declared: {declared}")
    hint = scope.suggestion(name)
    return Verdict("undeclared", f"{name} must be declared before it is used{hint}")


# The most that a constant can be in place of a register of few bits.
_MOST = {"i1": 1, "i16": (1 << 16) - 1}


def _constant_verdict(wanted: Registers, operand: str, value: int) -> Verdict | None:
    if not wanted.values:
        most = (1 << 32) - 1 if (wanted.name, wanted.type) == ("mask", "i32") else _MOST.get(wanted.type)
        if most is None or 0 <= value <= most:
            return None
        return Verdict(wanted.name, f"{wanted.name} must be in 0..{most}, got {operand}", (str(most),))
    if value in wanted.values:
        return None
    reason = f"{wanted.name} must be {number_choice(wanted.values)}, got {operand}"
    return Verdict(wanted.name, reason, nearest_values(wanted, value))


def _is_whole(operand: str) -> bool:
    """Whether braces and brackets are closed and not empty, and no element of a list is missing."""
    for opening, closing in ("{}", "[]"):
        if operand.startswith(opening) != operand.endswith(closing):
            return False
    inside = operand[1:-1] if operand[:1] in ("{", "[") else operand
    return not set(inside) & set("{}[]") and all(part.strip() for part in inside.split(","))


def nearest_values(wanted: Registers, value: int) -> tuple[str, ...]:
    """Up to two of the constants that an operand may be, those nearest to `value` first."""
    values = wanted.values
    if len(values) > 1 << 10:  # a range that is no list
        return (str(min(max(value, values[0]), values[-1])),)
    return tuple(str(v) for v in sorted(values, key=lambda v: (abs(v - value), v))[:2])


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
