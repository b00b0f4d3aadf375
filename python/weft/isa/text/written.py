"""Judges instructions as PTX text has them: opcode and operands, on a chip and in a version of PTX."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache, lru_cache, partial
from threading import Lock
from typing import Any

from weft.isa import availability, illegal, tables
from weft.isa.availability import needs_version
from weft.isa.family import Verdict
from weft.isa.suggest import did_you_mean
from weft.isa.text import lenient_spelling
from weft.isa.text.alike import Alike
from weft.isa.text.nearest import Standard, nearest
from weft.isa.text.operands import NOTHING_DECLARED, distinct, fits, operands_verdict, signature
from weft.isa.text.other_opcodes import OTHER
from weft.isa.text.reader import Instruction, Statement, split_operands
from weft.isa.text.scope import Scope
from weft.isa.types import ELEMENT_TYPES


def judge(
    instruction: Instruction, chip: str | None, version: tuple[int, int] | None = None
) -> Verdict | None:
    """Why an instruction is illegal on `chip` (None: on any chip) in PTX `version` (None: in any version),
    with the nearest legal instructions; None if it is legal. Operands are judged as far as the text shows
    them.
    """
    verdict = complaint(instruction, chip, version)
    if verdict is None:
        return None
    near = nearest(instruction, verdict, chip, version, _judge_on(chip, version))
    absent = "" if near or verdict.rule == "instruction" else _absence(instruction, verdict, chip, version)
    return replace(verdict, reason=verdict.reason + absent, nearest=near)


@cache
def _judge_on(chip: str | None, version: tuple[int, int] | None) -> Standard:
    return Standard(
        legal=lambda instruction: complaint(instruction, chip, version) is None,
        has=lambda family, form: _judge_form(family.name, form, chip, version) is None,
        fits=partial(fits, chip=chip),
    )


def _absence(
    instruction: Instruction, verdict: Verdict, chip: str | None, version: tuple[int, int] | None
) -> str:
    """The end of a verdict's message where a chip or PTX version lacks an instruction in all forms, or ""."""
    spelled = tables.read(instruction.opcode, instruction.operands)
    families = (spelled[0],) if spelled else tables.HEADS[instruction.opcode.partition(".")[0]]
    name = families[0].name if spelled else instruction.opcode.partition(".")[0]
    first = min(filter(None, (family.since(chip) for family in families)), default=None)
    if first is None:
        return "" if verdict.rule == "chip" else f"; {chip} has no form of {name}"
    if version is None or version >= first:
        return ""
    lacking = needs_version(first, version)
    return "" if lacking == verdict else f"; {name} needs PTX {first[0]}.{first[1]}"


def complaint(
    instruction: Instruction, chip: str | None, version: tuple[int, int] | None = None
) -> Verdict | None:
    """As `judge`, except that the verdict's `nearest` are opcodes, which may be illegal here."""
    if not instruction.ended:
        return Verdict("syntax", "must end with a semicolon")
    if instruction.opcode.partition(".")[0] not in tables.HEADS:
        return no_instruction(instruction.opcode)
    opcode = lenient_spelling.once(instruction.opcode)
    spelled = tables.read(opcode, _vectors_listed(instruction))
    if spelled is None:
        return unread(instruction.opcode, chip)
    family, form = spelled
    verdict = _judge_form(family.name, form, chip, version) or operands_verdict(
        family.name, form, instruction.operands, instruction.scope, chip=chip
    )
    if verdict is None and (twice := _twice(opcode)):
        return Verdict("modifiers", f"has .{twice} twice", (form.ptx,))
    return verdict or needs_version(lenient_spelling.since(opcode), version)


def _vectors_listed(instruction: Instruction) -> tuple[str, ...]:
    """The operands, with each vector replaced by the list of its elements."""
    scope = instruction.scope or NOTHING_DECLARED
    operands = list(instruction.operands)
    for i, operand in enumerate(operands):
        if operand[:1] not in "[{" and (kind := scope.kind(operand))[:2] == ".v":
            operands[i] = f"{{{', '.join(f'{operand}.{part}' for part in 'xyzw'[: int(kind[2])])}}}"
    return tuple(operands)


class Judge:
    """`judge` on one chip and in one version, for many instructions. Those that differ only in the names of
    registers are judged once.
    """

    def __init__(self, chip: str | None, version: tuple[int, int] | None = None) -> None:
        self._chip, self._version = chip, version
        self._legal = _legal_on(chip, version)
        self._refused: dict[tuple[str, tuple[str, ...], Scope | None], Verdict] = {}
        self._alike: dict[tuple[str, Scope], Alike] = {}
        self._grouped: dict[int, tuple[str, Statement]] = {}

    def __call__(self, statement: Statement) -> Verdict | None:
        """The verdict on one instruction, after those before it in its function."""
        return self._alone(statement) or self._other_group(statement)

    def _other_group(self, statement: Statement) -> Verdict | None:
        """A complaint about another `.cta_group` than that of the function's first `tcgen05` instruction."""
        head, _, group = statement.opcode.partition(".cta_group::")
        if not (statement.function and group and head.startswith("tcgen05.")):
            return None
        wanted, first = self._grouped.setdefault(statement.function, (group[0], statement))
        if group[0] == wanted:
            return None
        reason = f"cta_group must be {wanted}, as that of the function's '{first.opcode}', got {group[0]}"
        related = first.line, first.column, f"'{first.opcode}' has cta_group {wanted}"
        return Verdict("cta-group", reason, related=related)

    def _alone(self, statement: Statement) -> Verdict | None:
        _, _, opcode, rest, ended, scope, _ = statement
        if opcode.partition(".")[0] in OTHER:
            return _of_other(opcode, split_operands(rest), self._chip, self._version)
        if (alike := self._alike.get((opcode, scope))) is None:
            alike = self._alike[opcode, scope] = Alike(scope)
        if ended and rest in alike:
            return None
        instruction = statement.instruction()
        verdict = self._judge(instruction)
        if verdict is None and alike.is_wanted():
            spelled = tables.read(lenient_spelling.once(instruction.opcode), _vectors_listed(instruction))
            assert spelled is not None
            differ = distinct(spelled[0].name, spelled[1], self._chip)
            alike.add(rest, instruction.operands, differ)
        return verdict

    def _judge(self, instruction: Instruction) -> Verdict | None:
        _, _, opcode, operands, ended, scope = instruction
        seen = (scope or NOTHING_DECLARED).signatures
        try:
            kinds = (opcode, ended, *map(seen.__getitem__, operands))
        except KeyError:
            kinds = (opcode, ended, *(signature(one, scope or NOTHING_DECLARED) for one in operands))
        if kinds in self._legal:
            return None
        # What is refused is named as it is written.
        verdict = self._refused.get((opcode, operands, scope))
        if verdict is None:
            verdict = judge(instruction, self._chip, self._version)
            if verdict:
                self._refused[opcode, operands, scope] = verdict
            else:
                self._legal.add(kinds)
        return verdict


@lru_cache(maxsize=1 << 14)
def _of_other(
    opcode: str, operands: tuple[str, ...], chip: str | None, version: tuple[int, int] | None
) -> Verdict | None:
    """Why an instruction outside of the tables is illegal, or the chip or the version lacks it or one of its
    registers.
    """
    needs = [availability.need(opcode, len(operands))]
    needs += filter(None, map(availability.need_of_register, operands))
    lacking = next(filter(None, (need.complaint(chip, version) for need in needs)), None)
    wrong = None if lacking else illegal.complaint(opcode, len(operands))
    return lacking if wrong is None else Verdict("modifiers", wrong)


@lru_cache(maxsize=1 << 10)
def no_instruction(opcode: str) -> Verdict:
    """The complaint about a statement that no instruction of PTX begins like."""
    hint = did_you_mean(opcode.partition(".")[0], [*tables.HEADS, *OTHER])
    return Verdict("instruction", f"isn't an instruction of PTX{hint}")


@lru_cache(maxsize=1 << 14)
def _twice(opcode: str) -> str:
    """A modifier that an opcode repeats, where it isn't one of several types or layouts; "" where none is."""
    seen = Counter(opcode.split(".")[1:])
    return next((name for name, count in seen.items() if count > 1 and name not in _SEVERAL), "")


_SEVERAL = {"row", "col", *ELEMENT_TYPES}


@lru_cache(maxsize=1 << 14)
def _judge_form(name: str, form: Any, chip: str | None, version: tuple[int, int] | None) -> Verdict | None:
    family = _FAMILIES[name]
    if elsewhere := tables.left_to_ptx(family, form, chip):
        assert elsewhere.since is not None
        return needs_version(elsewhere.since, version)
    if verdict := family.judge(form, chip):
        known = tables.unpublished(family, form, chip) if chip is not None else None
        taken = f" (ptxas assembles it: {known.reason})" if known else ""
        return replace(verdict, reason=verdict.reason + taken, nearest=tuple(dict.fromkeys(verdict.nearest)))
    return needs_version(family.table[form].ptx, version)


@lru_cache(maxsize=1 << 14)
def remark(opcode: str, chip: str | None) -> str:
    """A remark on a legal instruction, such as that Weft's dialects lack it, or ""."""
    spelled = tables.read(lenient_spelling.once(opcode))
    known = tables.left_to_ptx(*spelled, chip) if spelled else None
    return f"is legal; {known.reason}" if known else ""


class _Legal:
    """Signatures of legal instructions, the latest of them; any thread may add one."""

    def __init__(self) -> None:
        self._lock, self._known = Lock(), set[tuple[object, ...]]()

    def __contains__(self, kinds: tuple[object, ...]) -> bool:
        return kinds in self._known

    def add(self, kinds: tuple[object, ...]) -> None:
        with self._lock:
            if len(self._known) >= _MOST_KNOWN:
                self._known = set()
            self._known.add(kinds)


_MOST_KNOWN = 1 << 15


@lru_cache(maxsize=64)
def _legal_on(chip: str | None, version: tuple[int, int] | None) -> _Legal:
    return _Legal()


_FAMILIES = {family.name: family for family in tables.FAMILIES}


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
            for bit, plane in enumerate(planes):
                planes[bit], carry = plane ^ carry, plane & carry
        best = (1 << len(self.opcodes)) - 1
        for plane in reversed(planes):
            best = best & plane or best
        opcodes: list[str] = []
        while best and len(opcodes) < most:
            opcodes.append(self.opcodes[(best & -best).bit_length() - 1])
            best &= best - 1
        return opcodes


def _bag(opcode: str) -> list[tuple[str, int]]:
    """The modifiers of an opcode; a second one of the same name is another."""
    seen: Counter[str] = Counter()
    modifiers = []
    for token in opcode.split(".")[1:]:
        modifiers.append((token, seen[token]))
        seen[token] += 1
    return modifiers


@cache
def _spellings(head: str, chip: str | None) -> _Spellings:
    return _Spellings(head, chip)


@lru_cache(maxsize=1 << 14)
def unread(opcode: str, chip: str | None) -> Verdict:
    """Why no family reads an opcode whose first word is right: unknown, missing or extra modifiers."""
    head = opcode.partition(".")[0]
    everywhere = _spellings(head, None)
    here = _spellings(head, chip)
    if not here.opcodes:
        here = everywhere
    nearest = tuple(here.nearest(opcode))
    bag = _bag(opcode)
    if unknown := [token for token, _ in bag if (token, 0) not in everywhere.having]:
        reason = f"has modifiers that no {head} instruction has: {_named(dict.fromkeys(unknown))}"
        joined = _joined(opcode, everywhere)
        meant = (joined,) if joined != opcode and tables.read(joined) is not None else ()
        return Verdict("modifier", reason + _ignored(opcode), meant + nearest)
    closest = _bag(everywhere.nearest(opcode, 1)[0])
    differences = [
        f"{what} {_named(token for token, _ in tokens)}"
        for what, tokens in (
            ("lacks", [token for token in closest if token not in set(bag)]),
            ("has the extra", [token for token in bag if token not in closest]),
        )
        if tokens
    ]
    how = f": compared with {nearest[0]} it {' and '.join(differences)}" if differences and nearest else ""
    return Verdict("spelling", f"isn't the spelling of an instruction{how}{_ignored(opcode)}", nearest)


_MOST_NAMED, _LONGEST = 8, 80


def _named(modifiers: Iterable[str]) -> str:
    """Modifiers in a message: the first ones, and of long ones the beginning."""
    every = list(modifiers)
    names = [f".{name}" if len(name) <= _LONGEST else f".{name[:_LONGEST]} ..." for name in every]
    more = [f"and {len(every) - _MOST_NAMED} more"] if len(every) > _MOST_NAMED else []
    return ", ".join(names[:_MOST_NAMED] + more)


def _joined(opcode: str, known: _Spellings) -> str:
    """The opcode with dots replaced by `::` wherever that gives a known modifier."""
    words: list[str] = []
    for word in opcode.split("."):
        if words and (f"{words[-1]}::{word}", 0) in known.having:
            words[-1] += f"::{word}"
        else:
            words.append(word)
    return ".".join(words)


def _ignored(opcode: str) -> str:
    """A remark on the modifiers that ptxas ignores, if the opcode is legal without them; otherwise ""."""
    tokens = [token for token in lenient_spelling.ignored(opcode) if token in opcode.split(".")]
    rest = lenient_spelling.once(lenient_spelling.without(opcode, tokens))
    if not tokens or (spelled := tables.read(rest)) is None or spelled[1] not in spelled[0].table:
        return ""
    return f" (ptxas ignores {', '.join(f'.{token}' for token in tokens)})"
