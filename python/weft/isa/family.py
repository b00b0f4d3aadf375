"""What all instruction tables share: forms, rows, and the judgment of a form against the rows.

A *form* is one spelling of an instruction: a frozen dataclass whose fields are the axes on which the
instruction varies. A *row* is one line of a table: the fields that it fixes, and the chips and PTX version
that have it. A `Family` holds the rows of one instruction and answers for all of its readers (verifier,
lowering, emulator, lint, docs, tests).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, lru_cache
from itertools import islice
from typing import ClassVar, Generic, Self, TypeVar

from weft.isa.chips import ChipSet, describe
from weft.isa.computed import computed
from weft.isa.template import Template, Values

Version = tuple[int, int]


@dataclass(frozen=True)
class Registers:
    """One operand of an instruction: `count` registers of LLVM type `type` per lane.

    `role` is what the instruction does with it: `out`, `in`, `inout`, or `immediate` (then `values` are the
    legal values, and `type` is its LLVM type). `layout` maps the operand's logical coordinates to laneid and
    register element (notation of `weft.layout`); it is empty where the operand isn't a matrix fragment.
    """

    name: str
    count: int
    type: str
    layout: str = ""
    shape: tuple[int, ...] = ()
    role: str = "in"
    values: tuple[int, ...] = ()


@dataclass(frozen=True)
class Support:
    """Where a form is legal: the chips, and the first PTX version that spells it."""

    chips: ChipSet
    ptx: tuple[int, int]


@dataclass(frozen=True)
class Verdict:
    """Why a form is illegal: the rule that it breaks, what must hold, and the nearest legal forms.

    `related` is a note about another instruction that it doesn't fit to: line, column and text.
    """

    rule: str
    reason: str
    nearest: tuple[str, ...] = ()
    related: tuple[int, int, str] | None = None

    def __str__(self) -> str:
        if not self.nearest:
            return self.reason
        whole = self.nearest[0].endswith(";")  # instructions, which have commas of their own
        return f"{self.reason}; nearest legal: {(' or ' if whole else ', ').join(self.nearest)}"


def must_be(what: str, legal: Iterable[object], got: object, where: str = "") -> str:
    """The message about a value that isn't legal: `shape must be m16n8k4 or m16n8k8, got m16n8k16`.

    `where` is when that holds, such as ` for kind f16`.
    """
    return f"{what} must be {choice(map(_shown, legal))}{where}, got {_shown(got)}"


def choice(texts: Iterable[str]) -> str:
    """The legal values in a message: `a`, `a or b`, `one of a, b, c`."""
    legal = tuple(texts)
    return " or ".join(legal) if len(legal) < 3 else f"one of {', '.join(legal)}"


def number_choice(values: Sequence[int]) -> str:
    """The legal numbers in a message, with evenly spaced ones as a range: `in 0..3`, `in 8..256 by 8`.

    The values increase. A range may be too long to examine each of them.
    """
    if len(values) < 3:
        return choice(map(str, values))
    step = values[1] - values[0]
    if step <= 0 or values[-1] != values[0] + step * (len(values) - 1):
        return choice(map(str, values))
    return f"in {values[0]}..{values[-1]}" + (f" by {step}" if step > 1 else "")


def _shown(value: object) -> str:
    return (value or "none") if isinstance(value, str) else str(value).lower()


class Form:
    """One spelling of an instruction: a frozen dataclass whose fields are the axes, most important first."""

    templates: ClassVar[tuple[Template, ...]]
    """Where there are several, the first that prints a form is that form's."""
    misspelled: ClassVar[tuple[Template, ...]] = ()
    """What is read too, though no form is printed so: a rule can say what is wrong with such a form."""

    _readers: ClassVar[tuple[Template, ...]]
    """The templates without those that are read as one before them."""

    def __init_subclass__(cls) -> None:
        readers: list[Template] = []
        for template in getattr(cls, "templates", ()):
            if not any(template.is_read_as(other) for other in readers):
                readers.append(template)
        cls._readers = tuple(readers)

    @property
    def ptx(self) -> str:
        """The opcode with its modifiers, as LLVM prints it."""
        return self._template.spell(self)

    @property
    def _template(self) -> Template:
        if len(self.templates) == 1:
            return self.templates[0]
        return next(template for template in self.templates if template.prints(self))

    @classmethod
    def parse(cls, opcode: str, operands: Sequence[str] = ()) -> Self | None:
        """The form that a PTX opcode and its operands spell, legal or not; None for another instruction.

        Of an operand's text only the first character and the number of commas matter.
        """
        for template in cls._readers:
            form = cls._read(template, opcode, operands)
            if form is not None and form._template.is_read_as(template):
                return form
        misspelled = (cls._read(template, opcode, operands) for template in cls.misspelled)
        return next((form for form in misspelled if form is not None), None)

    @classmethod
    def _read(cls, template: Template, opcode: str, operands: Sequence[str]) -> Self | None:
        if (values := template.read(opcode)) is None:
            return None
        others = cls.operand_values(values, operands)
        return None if others is None else cls(**values, **others)

    @classmethod
    def operand_values(cls, values: Values, operands: Sequence[str]) -> Values | None:
        """The values of the axes that the operands show, given those of the others; None where the operands
        are another instruction's.
        """
        return {}

    @property
    def intrinsic(self) -> str | None:
        """The LLVM intrinsic that becomes this form; None where LLVM has none."""
        return None

    @property
    def operands(self) -> tuple[Registers, ...]:
        """Results first, then inputs, in PTX's order."""
        return ()

    @property
    def assembly(self) -> str:
        """PTX's operand list as a text to `format`: `{d}` is a register, or a list in braces where there are
        several; `{{{d}}}` is a list in any case.
        """
        return ""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the input operands in the order of the intrinsic's arguments."""
        return tuple(o.name for o in self.operands if o.role != "out")

    @property
    def immediates(self) -> tuple[tuple[str, int], ...]:
        """The flags that follow the arguments in the intrinsic: LLVM type and value of each."""
        return ()


def operand_text(form: Form, names: Mapping[str, Sequence[str]]) -> str:
    """The operand list of `form.assembly` with these registers: `{{{a}}}` is always a list in braces, `{a}`
    where it has several registers.
    """
    listed = set(re.findall(r"\{\{\{(\w+)\}\}\}", form.assembly))
    texts = {name: ", ".join(registers) for name, registers in names.items()}
    bare = {name for name, registers in names.items() if len(registers) == 1 or name in listed}
    return form.assembly.format(**{n: text if n in bare else f"{{{text}}}" for n, text in texts.items()})


F = TypeVar("F", bound=Form)


_PTX_TYPES = {"f32": "f32", "f64": "f64", "i1": "pred", "i128": "b128"}


def ptx_registers(operand: Registers) -> tuple[str, int]:
    """The PTX type and number of an operand's registers: a vector of up to 32 bits shares one."""
    if (found := _ptx_type(operand.type)) is None:
        raise ValueError(f"no PTX register holds {operand.name} of type {operand.type}")
    return found[0], operand.count * found[1]


@cache
def _ptx_type(kind: str) -> tuple[str, int] | None:
    """The type and number of the PTX registers that hold a value of an LLVM type."""
    count = 1
    if vector := re.fullmatch(r"vector<(\d+)x(\w+)>", kind):
        bits = int(vector[1]) * int(re.sub(r"\D", "", vector[2]))
        if bits <= 32:
            return f"b{bits}", 1
        count, kind = int(vector[1]), vector[2]
    if pointer := re.fullmatch(r"(?:!llvm\.)?ptr(?:<(\d+)>)?", kind):
        # Tensor memory has 32-bit addresses; LLVM's pointers to the other spaces have 64.
        return ("b32" if pointer[1] == "6" else "b64"), count
    if kind in _PTX_TYPES:
        return _PTX_TYPES[kind], count
    bits = int(re.sub(r"\D", "", kind) or 0)
    return (f"b{max(bits, 16)}", count) if bits else None


class _Index(Generic[F]):
    """Forms by the values of their axes: a set of forms is an integer whose bit i represents the i-th."""

    def __init__(self, forms: Iterable[F], axes: Sequence[str]) -> None:
        self.forms, self.axes = tuple(forms), axes
        self.having: dict[str, dict[object, int]] = {axis: {} for axis in axes}
        for i, form in enumerate(self.forms):
            for axis, having in self.having.items():
                value = getattr(form, axis)
                having[value] = having.get(value, 0) | 1 << i

    def members(self, members: int) -> Iterator[F]:
        """The forms of a set, in the table's order."""
        while members:
            yield self.forms[(members & -members).bit_length() - 1]
            members &= members - 1

    def but(self, form: F, axis: str) -> list[F]:
        """The forms that agree with `form` on every other axis."""
        members = (1 << len(self.forms)) - 1
        for other in self.axes:
            if other != axis:
                members &= self.having[other].get(getattr(form, other), 0)
        return list(self.members(members))

    def by_distance(self, form: F) -> Iterator[F]:
        """All forms: first those that agree with `form` on most axes, among equals those that differ on the
        last, and of those the ones whose numbers are nearest.
        """
        agreeing = [self.having[axis].get(getattr(form, axis), 0) for axis in self.axes]
        # Bit i of the planes, the lowest first, is the number of axes on which the i-th form agrees.
        planes = [0] * len(self.axes).bit_length()
        for carry in agreeing:
            for bit, plane in enumerate(planes):
                planes[bit], carry = plane ^ carry, plane & carry
        for count in range(len(self.axes), -1, -1):
            level = (1 << len(self.forms)) - 1
            for bit, plane in enumerate(planes):
                level &= plane if count >> bit & 1 else ~plane
            for alike in _split(level, agreeing):
                yield from sorted(
                    self.members(alike),
                    key=lambda near: [_apart(getattr(near, axis), getattr(form, axis)) for axis in self.axes],
                )


def _split(members: int, sets: Sequence[int]) -> Iterator[int]:
    """The parts of a set that are in the same of `sets`, those that are in the first of them first."""
    if members and sets:
        yield from _split(members & sets[0], sets[1:])
        yield from _split(members & ~sets[0], sets[1:])
    elif members:
        yield members


@lru_cache(maxsize=1 << 16)
def _apart(a: object, b: object) -> int:
    """How far the numbers in two values of an axis are apart, as in m16n8k8 and m16n8k16."""
    mine, others = ([int(n) for n in re.findall(r"\d+", str(value))] for value in (a, b))
    return sum(abs(m - o) for m, o in zip(mine, others, strict=False)) + abs(len(mine) - len(others))


@dataclass(frozen=True)
class Family(Generic[F]):
    """The table of one instruction: every legal form and where it is legal.

    `legal` generates the table. `rules` are checked before it: they explain what a list of an axis's legal
    values can't.
    """

    name: str
    form: type[F]
    legal: Callable[[], Iterable[tuple[F, Support]]]
    rules: tuple[Callable[[F], Verdict | None], ...] = ()

    def parse(self, opcode: str, operands: Sequence[str] = ()) -> F | None:
        """As `Form.parse`."""
        return self.form.parse(opcode, operands)

    @computed
    def table(self) -> dict[F, Support]:
        """Every legal form."""
        return dict(self.legal())

    @computed
    def axes(self) -> tuple[str, ...]:
        """The names of the fields in which forms vary."""
        return tuple(f.name for f in fields(self.form))  # type: ignore[arg-type]

    def forms(self, chip: str | None = None) -> Iterator[F]:
        """The legal forms, those of one chip where it is given."""
        return (f for f, s in self.table.items() if chip is None or chip in s.chips)

    def values(self, axis: str, chip: str | None = None) -> tuple[object, ...]:
        """Every value that some legal form has on `axis`, in the order of the table."""
        return tuple(self._index(chip).having[axis])

    def chips(self) -> ChipSet:
        """The chips that have the instruction at all."""
        return self._chips

    @computed
    def _chips(self) -> ChipSet:
        return frozenset().union(*(s.chips for s in self.table.values()))

    def since(self, chip: str | None = None) -> Version | None:
        """The first PTX version with a form for a chip (for any chip); None where the chip has none."""
        if chip not in self._since:
            self._since[chip] = min((self.table[form].ptx for form in self.forms(chip)), default=None)
        return self._since[chip]

    @computed
    def _since(self) -> dict[str | None, Version | None]:
        return {}

    @computed
    def _indices(self) -> dict[tuple[str | None, Version | None], _Index[F]]:
        return {}

    def _index(self, chip: str | None, version: Version | None = None) -> _Index[F]:
        if (chip, version) not in self._indices:
            forms = (f for f in self.forms(chip) if version is None or self.table[f].ptx <= version)
            self._indices[chip, version] = _Index(forms, self.axes)
        return self._indices[chip, version]

    def alternatives(self, form: F, axis: str, chip: str | None = None) -> tuple[object, ...]:
        """The values of `axis` that are legal with the form's values on all other axes."""
        return tuple(dict.fromkeys(getattr(near, axis) for near in self._index(chip).but(form, axis)))

    def closest(self, form: F, chip: str | None, most: int = 3, version: Version | None = None) -> list[F]:
        """The legal forms (in PTX `version`) that differ from `form` on the fewest, least important axes."""
        return list(islice(self._index(chip, version).by_distance(form), most))

    def nearest(self, form: F, chip: str | None, most: int = 3) -> tuple[str, ...]:
        """The opcodes of the closest legal forms; forms that differ only in their operands count once."""
        spelled: dict[str, None] = {}
        for near in self._index(chip).by_distance(form):
            spelled.setdefault(near.ptx)
            if len(spelled) == most:
                break
        return tuple(spelled)

    def closest_with(self, operand: str, form: F, chip: str | None) -> F | None:
        """The closest legal form that has an operand of this name."""
        near = self._index(chip).by_distance(form)
        return next((each for each in near if any(o.name == operand for o in each.operands)), None)

    def judge(self, form: F, chip: str | None = None) -> Verdict | None:
        """None if `form` is legal on `chip` (without one: on some chip), otherwise why it isn't.

        A verdict that names no choices gets the nearest legal forms.
        """
        support = self.table.get(form)
        if support is not None and (chip is None or chip in support.chips):
            return None
        if chip is not None and chip not in self.chips():
            return Verdict("chip", f"needs {describe(self.chips())}: {chip} has no form of {self.name}")
        for rule in self.rules:
            if verdict := rule(form):
                near = tuple(opcode for opcode in verdict.nearest if self._has(opcode, chip))
                return replace(verdict, nearest=near or self.nearest(form, chip))
        if support is None:
            return self._refuse_form(form, chip)
        reason = f"needs {describe(support.chips)}: {chip} has no {form.ptx}"
        return Verdict("chip", reason, self.nearest(form, chip))

    def _has(self, opcode: str, chip: str | None) -> bool:
        """Whether a chip has a form of this family that is spelled so."""
        form = self.parse(opcode, ())
        return form in self.table and (chip is None or chip in self.table[form].chips)

    def _refuse_form(self, form: F, chip: str | None) -> Verdict:
        """Names the first axis whose value no form has; otherwise the first axis whose change makes the form
        legal.
        """
        where = f" on {chip}" if chip else ""
        for axis in self.axes:
            value, known = getattr(form, axis), self.values(axis, chip)
            if value not in known:
                if type(value) is int and value == 0:
                    value = ""  # a number that the opcode leaves out
                return Verdict(axis, must_be(axis, known, value, where), self.nearest(form, chip))
        for axis in self.axes:
            rest = [a for a in self.axes if a != axis]
            if fits := self._index(chip).but(form, axis):
                legal = tuple(getattr(f, axis) for f in fits)
                others = f"{where} with {self._given(form, rest)}"
                reason = must_be(axis, legal, getattr(form, axis), others)
                return Verdict(axis, reason, self.nearest(form, chip))
        given = self._given(form, self.axes)
        return Verdict("combination", f"has no form{where} with {given}", self.nearest(form, chip))

    def _given(self, form: F, axes: Iterable[str]) -> str:
        """The form's values on some axes, in words, without those that are left at their defaults."""
        defaults = {f.name: f.default for f in fields(self.form)}  # type: ignore[arg-type]
        values = {axis: getattr(form, axis) for axis in axes}
        return ", ".join(f"{a} {_shown(value)}" for a, value in values.items() if value != defaults[a])
