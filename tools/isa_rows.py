"""The instruction tables in few rows: forms that differ on independent axes share one."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from fractions import Fraction
from functools import cache
from typing import Any

from weft.isa.chips import CHIPS, ChipSet, describe, since
from weft.isa.family import Family, Registers, Support, ptx_registers
from weft.isa.mma.fragments import mnk

# A fragment whose register count takes more values than this has it shown as a multiple of N or of `num`.
_MANY = 4


@dataclass(frozen=True)
class Row:
    """Forms of one family, all that the values of its axes combine to; `values` are in the axes' order."""

    family: Family[Any]
    forms: tuple[Any, ...]
    values: tuple[tuple[object, ...], ...]
    support: Support

    @property
    def shape(self) -> str:
        """Shapes and counts."""
        values_of = {axis: values for axis, values in self._axes() if axis in _SHAPES}
        cells = [" ".join(shapes(map(str, values_of["shape"])))] if "shape" in values_of else []
        if "num" in values_of:
            cells.append(" ".join(f"x{n}" for n in values_of["num"]))
        return " ".join(cells)

    @property
    def types(self) -> str:
        """Types, operands that have the same choice together, and the kind of element."""
        alike: dict[tuple[object, ...], list[str]] = defaultdict(list)
        for axis, values in self._axes():
            if axis.endswith("_type"):
                operand = axis.removesuffix("_type")
                alike[values].append(operand.upper() if len(operand) == 1 else operand)
        cells = [f"{','.join(sorted(names))} {_choice(values)}" for values, names in alike.items()]
        cells += [_choice(values) for axis, values in self._axes() if axis == "type"]
        cells += [f"kind {_choice(v)}" for axis, v in self._axes() if axis == "kind" and v != ("",)]
        return "; ".join(cells)

    @property
    def modifiers(self) -> tuple[str, ...]:
        """The other axes, where they say more than the form's default: `[satfinite]` may be there or not."""
        defaults = {f.name: f.default for f in fields(self.family.form)}
        cells = []
        for axis, values in self._axes():
            shown = axis in _SHAPES or axis.endswith("type") or axis == "kind"
            usual = values == (defaults[axis],) or (defaults[axis] is MISSING and values in ((False,), ("",)))
            if shown or usual:
                continue
            if all(isinstance(value, bool) for value in values):
                cells.append(f"[{axis}]" if len(values) > 1 else axis if values[0] else f"no {axis}")
            else:
                cells.append(f"{axis} {_choice(values)}")
        return tuple(cells)

    @property
    def operands(self) -> tuple[str, ...]:
        """Registers of each operand, in PTX's order, and their LLVM type; one in brackets isn't in every
        form.
        """
        texts: dict[str, dict[str, None]] = {}
        seen: dict[str, int] = defaultdict(int)
        scales = _scales(self.family)
        for form in self.forms:
            for operand in form.operands:
                name, count, kind = _count(form, operand, scales)
                kind = _short(kind)
                text = kind if count == "1" else f"{count} {kind}"
                if operand.role == "immediate":
                    text = numbers(operand.values)
                elif operand.values:
                    text += f" ({numbers(operand.values)})"
                texts.setdefault(name, {})[text] = None
                seen[name] += 1
        order = list(dict.fromkeys(o.name for form in self.forms for o in form.operands))
        shown = {name: f"{name} {'|'.join(texts[name])}" for name in sorted(texts, key=order.index)}
        return tuple(t if seen[name] == len(self.forms) else f"[{t}]" for name, t in shown.items())

    @property
    def chips(self) -> str:
        """The chips that have the forms."""
        return chips_text(self.support.chips)

    @property
    def ptx(self) -> str:
        """The first PTX version with the forms."""
        return version_text(self.support.ptx)

    def _axes(self) -> Iterator[tuple[str, tuple[object, ...]]]:
        return zip(self.family.axes, self.values, strict=True)


_SHAPES = ("shape", "num")


def _choice(values: Iterable[object]) -> str:
    return "|".join(str(value) if value or value is False else "none" for value in values)


def shapes(names: Iterable[str]) -> list[str]:
    """Shapes in words: many that differ only in N are one, `m64nNk16 (N 8…256 by 8)`."""
    columns: dict[tuple[int, int], list[int]] = defaultdict(list)
    listed = list(names)
    for name in listed:
        m, n, k = mnk(name) if "k" in name else (0, 0, 0)
        columns[m, k].append(n)
    texts = []
    for name in listed:
        m, n, k = mnk(name) if "k" in name else (0, 0, 0)
        if len(columns[m, k]) <= _MANY or not k:
            texts.append(name)
        elif n == columns[m, k][0]:
            texts.append(f"m{m}nNk{k} (N {numbers(columns[m, k])})")
    return texts


def numbers(values: Sequence[int]) -> str:
    """Numbers in ascending order in words, runs of one step as `32…256 by 16`."""
    runs, left = [], values
    while left:
        run = 1
        if isinstance(left, range):
            run = len(left)
        while run < len(left) and left[run] - left[run - 1] == left[1] - left[0]:
            run += 1
        if run > _MANY:
            step = left[1] - left[0]
            runs.append(f"{left[0]}…{left[run - 1]}" + (f" by {step}" if step > 1 else ""))
        else:
            run = 1
            runs.append(str(left[0]))
        left = left[run:]
    return "|".join(runs)


def version_text(version: tuple[int, int]) -> str:
    """A PTX version as `.version` writes it."""
    return f"{version[0]}.{version[1]}"


def chips_text(chips: ChipSet) -> str:
    """A chip set in words: `sm_80 or later`, or a row of chips, variants with theirs: `sm_100(a/f)`."""
    if chips and chips == since(next(name for name in CHIPS if name in chips)):
        return describe(chips)
    groups: dict[str, list[str]] = defaultdict(list)
    for name in CHIPS:
        if name in chips:
            base = name.rstrip("af")
            groups[base].append(name.removeprefix(base))
    return " ".join(
        base + (variants[0] if len(variants) == 1 else f"({'/'.join(v or '-' for v in sorted(variants))})")
        for base, variants in groups.items()
    )


@cache
def rows(family: Family[Any], chip: str | None = None) -> tuple[Row, ...]:
    """The table of `family`, or what `chip` has of it, in as few rows as were found."""
    scales = _scales(family)
    groups: dict[Any, list[Any]] = defaultdict(list)
    for form in family.forms(chip):
        fragments = tuple(_count(form, operand, scales) for operand in form.operands if operand.shape)
        groups[fragments, family.table[form], form.intrinsic is None].append(form)
    order = {form: number for number, form in enumerate(family.table)}
    merged = []
    for (_, support, _), forms in groups.items():
        points = [tuple(frozenset([getattr(form, axis)]) for axis in family.axes) for form in forms]
        axes = len(family.axes)
        orders = [[*range(first, axes), *range(first)] for first in range(max(axes, 1))]
        orders += [order[::-1] for order in orders]
        for box in min((_merged(points, order) for order in orders), key=len):
            inside = tuple(
                form
                for form in forms
                if all(getattr(form, a) in values for a, values in zip(family.axes, box, strict=True))
            )
            values = tuple(tuple(dict.fromkeys(getattr(f, axis) for f in inside)) for axis in family.axes)
            merged.append(Row(family, inside, values, support))
    return tuple(sorted(merged, key=lambda row: order[row.forms[0]]))


Box = tuple[frozenset[object], ...]


def _merged(points: Sequence[Box], order: Sequence[int]) -> list[Box]:
    boxes = list(points)
    while True:
        before = len(boxes)
        for axis in order:
            alike: dict[Box, list[frozenset[object]]] = defaultdict(list)
            for box in boxes:
                alike[box[:axis] + box[axis + 1 :]].append(box[axis])
            boxes = [
                (*rest[:axis], frozenset().union(*values), *rest[axis:]) for rest, values in alike.items()
            ]
        if len(boxes) == before:
            return boxes


def _extents(form: Any) -> dict[str, int]:
    """What the number of an operand's registers may grow with."""
    extents = {}
    if "k" in getattr(form, "shape", ""):
        extents["N"] = mnk(form.shape)[1]
    if hasattr(form, "num"):
        extents["num"] = form.num
    return extents


@cache
def _scales(family: Family[Any]) -> dict[str, str]:
    """The operands whose count is shown as a multiple of something, and of what."""
    counts: dict[tuple[str, str], set[tuple[int, Fraction]]] = defaultdict(set)
    for form in family.table:
        for operand in form.operands:
            count = ptx_registers(operand)[1]
            for name, extent in _extents(form).items():
                counts[operand.name, name].add((count, Fraction(count, extent)))
    scales = {}
    for (operand, name), pairs in counts.items():
        different, ratios = len({count for count, _ in pairs}), len({ratio for _, ratio in pairs})
        if ratios < different and (name == "num" or different > _MANY):
            scales[operand] = name
    return scales


def _count(form: Any, operand: Registers, scales: dict[str, str]) -> tuple[str, str, str]:
    """An operand's name, how many registers it has, and their type."""
    count, kind = ptx_registers(operand)[1], operand.type
    if count != operand.count:
        kind = kind.partition("x")[2].rstrip(">")
    if (scale := scales.get(operand.name)) is None:
        return operand.name, str(count), kind
    ratio = Fraction(count, _extents(form)[scale])
    factor = "" if ratio.numerator == 1 else f"{ratio.numerator} "
    divisor = "" if ratio.denominator == 1 else f"/{ratio.denominator}"
    return operand.name, f"{factor}{scale}{divisor}", kind


@cache
def _short(kind: str) -> str:
    """An LLVM type as pages and tables show it."""
    return re.sub(r"vector<(\d+)x(\w+)>", r"\2x\1", kind.replace("!llvm.", ""))
