"""The products of the matrix of `tile.matmul`: each layout, each type of D and each extra once, the chips
that have them, and the sizes at which they are tried.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf
from typing import Any

from launches import complaint
from products import GROUPED, Case, Product

import weft
from weft.dialects.schedule import FAMILIES
from weft.dialects.schedule.families import family_name
from weft.isa.chips import CHIPS
from weft.schedules import choice, matrix
from weft.schedules.gpus import has_model
from weft.schedules.matrix import LAYOUTS, Cell, Inputs

SIZES = ((33, 35, 37), (40, 56, 64), (96, 144, 80))
"""M, N and K, the first of them odd, rounded up to what elements of less than a byte need."""
_ROWS_OF_GROUPS = (131, 140, 300)
_PAIRS_OF_16_BYTES = 32
_MORE_OF_K = 128  # so that scales and promoted sums have a second block
ROWS_OF = {"any": "dense", "any in D": "dense d"}
FAMILY_NAMES = tuple(dict.fromkeys(map(family_name, FAMILIES)))
_ALIKE = "sm_100a"  # whose schedules of tcgen05 a chip without a model of its time gets
_EXTRAS: dict[str, tuple[dict[str, Any], ...]] = {
    "accumulate": ({"accumulate": "f16"},),
    "promote": ({"promote": True},),
    "scales": ({"scaled": True},),
    "words": ({"words": 32}, {"words": 128}),
    "groups": tuple({"many": name} for name, role in GROUPED.items() if role != "k_ends"),
    "k_ends": ({"many": "k ends"},),
}


@dataclass(frozen=True)
class Stated:
    """A product of a row of the matrix, and what of a cell states it: a layout, a type of D, an extra, where
    rows begin or a family that isn't the default; empty for what all cells have.
    """

    inputs: Inputs
    made: Product
    what: str

    def __str__(self) -> str:
        made = str(self.made).removesuffix(", chosen schedule")
        return f"{made}, {self.what}" if self.what in FAMILY_NAMES else made

    def is_of(self, cell: Cell) -> bool:
        """Whether a cell states the product."""
        stated = (*cell.layouts, *cell.results, *cell.extras, *cell.families[1:], cell.rows)
        return cell.complaint is None and self.what in ("", *stated)

    @property
    def chips(self) -> tuple[str, ...]:
        """The chips whose cells state it."""
        return tuple(chip for chip in CHIPS if self.is_of(_cell(chip, self.inputs)))

    @property
    def cases(self) -> Iterator[Case]:
        """The sizes, and how the operands are filled."""
        made, unit = self.made, self.made.types.multiple_of_k
        if "f4E2M1FN" in (made.a, made.b):  # packed before a launch, into rows of whole 16 bytes
            unit = max(unit, _PAIRS_OF_16_BYTES)
        regimes = "integers", "normal" if "normal" in made.regimes else "largest", "integers"
        for (m, n, k), rows, regime in zip(SIZES, _ROWS_OF_GROUPS, regimes, strict=True):
            depth = k + _MORE_OF_K if made.promote or made.scaled or made.words else k
            height = rows if made.many in GROUPED and made.many != "k ends" else m
            of_m, of_n = made.types.multiples_of_mn
            whole = ((height, of_m), (n, of_n), (depth, unit))
            m_, n_, k_ = (-(-size // of) * of for size, of in whole)
            yield Case((m_, n_, k_), regime)

    def wrong(
        self, on: str, chips: Sequence[str], ready: Callable[[weft.Kernel], None] = lambda kernel: None
    ) -> str | None:
        """What is wrong with the product on some chips at any size. Chips whose PTX is alike except for the
        version and the chip in front of it share a run. `ready` changes a kernel before it runs.
        """
        seen = set[str]()
        for chip in chips:
            kernel = weft.compile(self._made_for(chip).module(), chip)
            if self.what == "any":  # the kernel that such rows get
                kernel = kernel.for_any_rows
            if (body := kernel.ptx.partition(".visible")[2]) in seen:
                continue
            seen.add(body)
            ready(kernel)
            for case in self.cases:
                if (found := complaint(self.made, case, kernel, on)) is not None:
                    return f"{chip}: {found}"
        return None

    def _made_for(self, chip: str) -> Product:
        """The product on a chip: with a schedule of the family that states it, if one does."""
        if self.what not in FAMILY_NAMES:
            return self.made
        types = self.made.types
        known = chip if self.what != "tcgen05" or has_model(chip) else _ALIKE
        return replace(self.made, schedule=choice.choose(*SIZES[-1], types, known, family=self.what))


@cache
def _cell(chip: str, row: Inputs) -> Cell:
    return Cell(chip, row)


def every() -> Iterator[Stated]:
    """All products that a cell may state, in the order of the matrix."""
    for row in matrix.inputs():
        plain = Product(row.a, row.b, row.d, scale=row.scale, bit_op=row.bit_op or None)
        for name, (a, b) in LAYOUTS.items():
            yield Stated(row, replace(plain, transposed=(a, not b)), name)
        yield from (Stated(row, replace(plain, d=d), d) for d in row.results if d != row.d)
        for extra in row.extras:
            made = (replace(plain, **fields) for fields in _EXTRAS[extra])
            yield from (Stated(row, each, extra) for each in made if each.words <= _largest_block(each))
        yield from (Stated(row, replace(plain, rows=rows), what) for what, rows in ROWS_OF.items())
        yield from (Stated(row, plain, family) for family in FAMILY_NAMES)
        yield Stated(row, replace(plain, many="batch"), "")
        yield from (Stated(row, made, "") for made in _epilogues(plain))


def _largest_block(made: Product) -> float:
    """The most elements that share a scale in words."""
    scaling = made.types.block_scaling
    return scaling.group if scaling is not None and scaling.packed else inf


def _epilogues(plain: Product) -> Iterator[Product]:
    """All that is added, by every kind of sums, and for f32 a factor that the kernel reads."""
    sums = plain.d
    added = (("c", sums), ("bias", sums), ("residual", sums))
    factors = {"beta": 1.0} if sums == "i32" else {"alpha": 0.5, "beta": -2.0}
    yield replace(plain, added=added, activation="relu", **factors)
    if sums == "f32":
        yield replace(plain, added=(("bias", "f16"),), activation="silu", factors="one")
