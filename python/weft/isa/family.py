"""What all instruction tables share: forms, rows, and the judgement of a form against the rows.

A *form* is one spelling of an instruction: a frozen dataclass whose fields are the axes on which the
instruction varies. A *row* is one line of a table: the fields that it fixes, and the chips and PTX version
that have it. A `Family` holds the rows of one instruction and answers for all of its readers (verifier,
lowering, emulator, lint, docs, tests).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Generic, Protocol, TypeVar

from weft.isa.chips import CHIPS, ChipSet, describe


@dataclass(frozen=True)
class Registers:
    """One operand of an instruction: `count` registers of LLVM type `type` per lane.

    `role` says what the instruction does with it: `out`, `in`, `inout`, or `immediate` (then `values` are the
    legal ones, and `type` is its LLVM type). `layout` maps the operand's logical coordinates to laneid and
    register element (notation of `weft.layout`); an empty text means that the operand is no matrix fragment.
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
    """Why a form is illegal: the rule it breaks, what was found, and the nearest legal choices."""

    rule: str
    reason: str
    nearest: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.nearest:
            return self.reason
        return f"{self.reason}; nearest legal: {', '.join(self.nearest)}"


class Form(Protocol):
    """One spelling of an instruction; its dataclass fields are the axes, most important first."""

    @property
    def ptx(self) -> str:
        """The opcode with its modifiers, as LLVM prints it."""

    @property
    def intrinsic(self) -> str | None:
        """The LLVM intrinsic that becomes this form; None where LLVM has none."""

    @property
    def operands(self) -> tuple[Registers, ...]:
        """Results first, then inputs, in PTX's order."""

    @property
    def assembly(self) -> str:
        """PTX's operand list with a name in braces for each operand: `{d}, {a}, {b}, {c}`, `{d}, [{address}]`.

        An operand of several registers stands for a list in braces, `{{%r1, %r2}}` in PTX.
        """


F = TypeVar("F", bound=Form)


@dataclass(frozen=True)
class Family(Generic[F]):
    """The table of one instruction: every legal form and where it is legal.

    `legal` generates the table; `rules` are checked before it and speak of what a difference of axes can't
    say; `parse` gives the form that a PTX opcode and its operands (their text) spell, legal or not, and None
    for another instruction.
    """

    name: str
    form: type[F]
    legal: Callable[[], Iterable[tuple[F, Support]]]
    parse: Callable[[str, Sequence[str]], F | None]
    rules: tuple[Callable[[F], Verdict | None], ...] = ()

    @cached_property
    def table(self) -> dict[F, Support]:
        """Every legal form."""
        return dict(self.legal())

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the fields in which forms vary."""
        return tuple(f.name for f in fields(self.form))  # type: ignore[arg-type]

    def forms(self, chip: str | None = None) -> Iterator[F]:
        """The legal forms, those of one chip where it is given."""
        return (f for f, s in self.table.items() if chip is None or chip in s.chips)

    def values(self, axis: str, chip: str | None = None) -> tuple[object, ...]:
        """Every value that some legal form has on `axis`, in the order of the table."""
        return tuple(dict.fromkeys(getattr(f, axis) for f in self.forms(chip)))

    def chips(self) -> ChipSet:
        """The chips that have the instruction at all."""
        return frozenset().union(*(s.chips for s in self.table.values()))

    def nearest(self, form: F, chip: str | None, most: int = 3) -> tuple[str, ...]:
        """The spellings of the legal forms that differ from `form` on the fewest, least important axes."""
        axes = self.axes

        def distance(other: F) -> tuple[int, tuple[bool, ...]]:
            differs = tuple(getattr(form, a) != getattr(other, a) for a in axes)
            return sum(differs), differs

        return tuple(f.ptx for f in sorted(self.forms(chip), key=distance)[:most])

    def judge(self, form: F, chip: str | None = None) -> Verdict | None:
        """None where `form` is legal on `chip` (on some chip, with none given), else why it isn't.

        A rule that names no choices gets the nearest legal forms.
        """
        for rule in self.rules:
            if verdict := rule(form):
                nearest = verdict.nearest or self.nearest(form, chip)
                return replace(verdict, nearest=nearest)
        support = self.table.get(form)
        if support is None:
            return self._refuse_form(form, chip)
        if chip is not None and chip not in support.chips:
            place = f"no form of {self.name}" if chip not in self.chips() else f"no {form.ptx}"
            return Verdict(
                "chip", f"needs {describe(support.chips)}: {chip} has {place}", self.nearest(form, chip)
            )
        return None

    def _refuse_form(self, form: F, chip: str | None) -> Verdict:
        """Names the first axis whose value no form has, else the first whose change alone makes the form
        legal.
        """
        where = f" on {chip}" if chip else ""
        if chip is not None and chip not in self.chips():
            return Verdict("chip", f"needs {describe(self.chips())}: {chip} has no form of {self.name}")
        for axis in self.axes:
            known = self.values(axis, chip)
            if getattr(form, axis) not in known:
                return Verdict(
                    axis,
                    f"has no {axis} {_show(getattr(form, axis))}{where}: it is one of {_list(known)}",
                    self.nearest(form, chip),
                )
        for axis in self.axes:
            rest = [a for a in self.axes if a != axis]
            fits = [f for f in self.forms(chip) if all(getattr(f, a) == getattr(form, a) for a in rest)]
            if fits:
                given = ", ".join(f"{a} {_show(getattr(form, a))}" for a in rest)
                return Verdict(
                    axis,
                    f"has no {axis} {_show(getattr(form, axis))}{where} with {given}: "
                    f"it is one of {_list(tuple(getattr(f, axis) for f in fits))}",
                    self.nearest(form, chip),
                )
        given = ", ".join(f"{a} {_show(getattr(form, a))}" for a in self.axes)
        return Verdict("combination", f"has no form{where} with {given}", self.nearest(form, chip))


def _show(value: object) -> str:
    return value if isinstance(value, str) else str(value).lower()


def _list(values: tuple[object, ...]) -> str:
    return ", ".join(map(_show, values))


def unknown_chip(chip: str) -> str:
    """The complaint about a chip that no table knows."""
    return f"knows no chip '{chip}': it is one of {', '.join(CHIPS)}"
