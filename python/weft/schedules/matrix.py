"""What `tile.matmul` multiplies on each chip, as the registered families of schedules state it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product as combinations
from typing import Any

from weft.dialects import element_types as elements
from weft.dialects.operand_roles import OUTPUT_TYPES
from weft.dialects.product_types import BIT, Types
from weft.dialects.schedule import FAMILIES, AnySchedule
from weft.dialects.schedule.families import family_name
from weft.errors import WeftError
from weft.isa.chips import CHIPS
from weft.isa.mma import BIT_OPS
from weft.schedules import choice

LAYOUTS = {"nt": (False, False), "nn": (False, True), "tt": (True, False), "tn": (True, True)}
"""Which of A and B are MN-major, by BLAS's letters of A (M x K is n) and B (K x N is n)."""
MEASURED = {"sm_90a": frozenset({"f16", "bf16", "f32", "i8", "f8E4M3FN"})}
"""The chips and types of A and B whose products were timed on a GPU: those of the reports in benchmarks/."""
_INTEGERS = (*elements.BYTE_TYPES, *elements.PTX_PACKED)
_SCALES = {"mx": "f8E8M0FNU", "nv": "f8E4M3FN"}


@dataclass(frozen=True)
class Inputs:
    """The types of A and B, and of their block scales: a row of the matrix."""

    a: str
    b: str
    scale: str = ""
    bit_op: str = ""

    def __str__(self) -> str:
        name = self.a if self.a == self.b else f"{self.a} x {self.b}"
        name = f"{name}, {self.bit_op}" if self.bit_op else name
        return f"{name}, scales {self.scale}" if self.scale else name

    @property
    def d(self) -> str:
        """The type of D that holds the sums."""
        return "i32" if self.a in _INTEGERS else "f64" if self.a == "f64" else "f32"

    @property
    def types(self) -> Types:
        """The product with the type of the sums, and K-major operands."""
        return Types(self.a, self.b, self.d, scale=self.scale, bit_op=self.bit_op)

    @property
    def results(self) -> tuple[str, ...]:
        """The types that D may have, on whichever chip."""
        return tuple(d for d in OUTPUT_TYPES if d not in ("i32", "f64")) if self.d == "f32" else (self.d,)

    @property
    def extras(self) -> tuple[str, ...]:
        """The extras that products of such types may have, on whichever chip."""
        return tuple(filter(self._fits, EXTRAS))

    def _fits(self, extra: str) -> bool:
        """Whether an extra is one of products of such types."""
        fp8 = {self.a, self.b} <= set(elements.FP8_TYPES) and not self.scale
        if extra in ("promote", "scales"):
            return fp8
        if extra == "accumulate":
            return fp8 or self.a == self.b == "f16"
        if extra == "words":
            return self.scale == _SCALES["mx"]
        return extra != "k_ends" or not self.scale


def inputs() -> Iterator[Inputs]:
    """The rows of the matrix."""
    floats = [name for name in elements.PTX_INPUTS if name not in (*_INTEGERS, *elements.NARROW_TYPES)]
    yield from (Inputs(name, name) for name in (*floats, *_INTEGERS) if name != BIT)
    yield from (Inputs(*pair) for pair in (elements.BYTE_TYPES, elements.NIBBLE_TYPES))
    yield from (Inputs(BIT, BIT, bit_op=each) for each in BIT_OPS)
    for a, b in combinations(elements.NARROW_TYPES, repeat=2):
        if elements.NARROW_TYPES.index(a) <= elements.NARROW_TYPES.index(b):
            yield Inputs(a, b)
    for a, scale in combinations(elements.NARROW_TYPES, _SCALES.values()):
        row = Inputs(a, a, scale)
        if row.types.block_scaling is not None:
            yield row


@dataclass(frozen=True)
class Cell:
    """What a chip multiplies of some types."""

    chip: str
    inputs: Inputs

    @property
    def types(self) -> Types:
        """The plain product of the cell."""
        return self.inputs.types

    @cached_property
    def _choice(self) -> AnySchedule | str:
        try:
            return choice.choose(4096, 4096, 4096, self.types, self.chip)
        except WeftError as error:
            return error.diagnostics[0].message

    @property
    def complaint(self) -> str | None:
        """Why the chip multiplies no such product, as `tile.matmul` refuses it; None where it does."""
        return self._choice if isinstance(self._choice, str) else None

    @property
    def default(self) -> AnySchedule | None:
        """The schedule that a large product gets; None where there is none."""
        return None if isinstance(self._choice, str) else self._choice

    @cached_property
    def families(self) -> tuple[str, ...]:
        """The names of the families that multiply, that of the default first."""
        if self.default is None:
            return ()
        able = (family for family in reversed(tuple(FAMILIES)) if self._is_able(family, self.types))
        return tuple(dict.fromkeys(map(family_name, (type(self.default), *able))))

    @property
    def instruction(self) -> str:
        """The instructions of the default, as messages name them."""
        return self.default.instruction if self.default else ""

    @cached_property
    def layouts(self) -> tuple[str, ...]:
        """The layouts of A and B that some family reads."""
        return tuple(name for name, layout in LAYOUTS.items() if self._takes(transposed=layout))

    @cached_property
    def results(self) -> tuple[str, ...]:
        """The types of D."""
        return tuple(d for d in self.inputs.results if self._takes(d=d))

    @cached_property
    def extras(self) -> tuple[str, ...]:
        """What else the product may have, by the names of `EXTRAS`."""
        return tuple(name for name in self.inputs.extras if self._takes(**EXTRAS[name]))

    @cached_property
    def rows(self) -> str:
        """Where rows may begin: "any", "any in D" or "16 bytes"; empty if there are no products."""
        if self.complaint:
            return ""
        able = [family for family in FAMILIES if self._is_able(family, self.types)]
        if any(family.takes_any_rows for family in able):
            return "any"
        return "any in D" if any(family.takes_any_result for family in able) else "16 bytes"

    @property
    def measured(self) -> bool:
        """Whether such products were timed on a GPU."""
        types = {self.inputs.a, self.inputs.b}
        return not self.inputs.scale and types <= MEASURED.get(self.chip, frozenset())

    def _takes(self, **fields: Any) -> bool:
        """Whether the product is multiplied, and by some family with some fields of its types changed."""
        types = replace(self.types, **fields)
        return self.complaint is None and any(self._is_able(family, types) for family in FAMILIES)

    def _is_able(self, family: type[AnySchedule], types: Types) -> bool:
        return self.chip in family.chips(types) and family.layout_complaint(types) is None


EXTRAS: Mapping[str, Mapping[str, Any]] = {
    "accumulate": {"half_sums": True},
    "promote": {"promoted": True},
    "scales": {"promoted": True, "scaled": True},
    "words": {"words": 32},
    "groups": {"grouped": True},
    "k_ends": {"grouped": True, "k_groups": True},
}
"""What a product may have in addition, by its name in the matrix: fields of its types."""


def cells(chip: str | None = None, element: str | None = None) -> list[Cell]:
    """The cells of the matrix: of all chips, or one; of all types, or those with an element type of A or B.

    Raises WeftError for a chip or a type that the matrix doesn't have.
    """
    rows = list(inputs())
    known = list(dict.fromkeys(name for row in rows for name in (row.a, row.b)))
    if element is not None and element not in known:
        raise WeftError(f"--types must be one of {', '.join(known)}, got '{element}'")
    chosen = [row for row in rows if element in (None, row.a, row.b)]
    return [Cell(name, row) for name in CHIPS if chip in (None, name) for row in chosen]


def groups(chosen: Sequence[Cell]) -> Iterator[tuple[list[str], list[Cell]]]:
    """Chips whose cells are alike, and the cells of the first one of them."""
    by_chip: dict[str, list[Cell]] = {}
    for cell in chosen:
        by_chip.setdefault(cell.chip, []).append(cell)
    alike: dict[tuple[object, ...], list[str]] = {}
    for chip, of_chip in by_chip.items():
        alike.setdefault(tuple(map(_facts, of_chip)), []).append(chip)
    for chips in alike.values():
        yield chips, by_chip[chips[0]]


def _facts(cell: Cell) -> tuple[object, ...]:
    """What the matrix states of a cell, except for its chip's name."""
    return (
        *(bool(cell.complaint), cell.families, cell.instruction, cell.layouts),
        *(cell.results, cell.extras, cell.rows, cell.measured),
    )
