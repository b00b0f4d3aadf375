"""What the `tcgen05` tables share: the chips that have the instructions, common modifiers, and rules that
depend on the chip.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from weft.isa.chips import describe, only
from weft.isa.family import Family, Form, Verdict
from weft.isa.template import NUMBER, Field, Part, Template, Values, Word

SM_107 = only("sm_107a", "sm_107f")
NOT_SM_100 = only("sm_103a", "sm_103f", "sm_110a", "sm_110f") | SM_107
ALL = only("sm_100a", "sm_100f") | NOT_SM_100
ARCH_SPECIFIC = only("sm_100a", "sm_103a", "sm_107a", "sm_110a")
LONG_ROWS = only("sm_103a", "sm_107a")
"""Chips where a row of K may be 48 bytes, for which shared-memory descriptors may be absolute."""

CTA_GROUPS = (1, 2)
TENSOR_ADDRESS = "!llvm.ptr<6>"
"""Tensor memory: a 32-bit address, lane in the high half, column in the low one."""

SYNC, ALIGNED, B32 = Word("sync"), Word("aligned"), Word("b32")
CTA_GROUP = Field("cta_group", ("cta_group::{}", NUMBER), default=0, number=True)


def template(
    head: str,
    *parts: Part,
    lead: Part | None = None,
    when: Callable[[Any], bool] | None = None,
    fixed: Values | None = None,
) -> Template:
    """As `Template`, for opcodes in which no modifier is repeated."""
    return Template(f"tcgen05.{head}", *parts, lead=lead, when=when, fixed=fixed, repeats=False)


def on_chip(chip: str | None) -> Verdict | None:
    """The complaint about a chip, if one is given, that has no `tcgen05`."""
    if chip is None or chip in ALL:
        return None
    return Verdict("target", f"is on {describe(ALL)} only, got {chip}")


def takes_long_rows(used: bool, what: str, chip: str | None) -> Verdict | None:
    """The complaint about `what`, if it is used, on a chip that has no rows of 48 bytes."""
    if not used or chip is None or chip in LONG_ROWS:
        return None
    return Verdict(what, f"{what} is legal on {describe(LONG_ROWS)} only, got {chip}")


F = TypeVar("F", bound=Form)


@dataclass(frozen=True)
class Tcgen05Family(Family[F]):
    """A table with rules that depend on the chip too; every rule's verdict lists the nearest forms there."""

    chip_rules: tuple[Callable[[F, str], Verdict | None], ...] = ()

    def judge(self, form: F, chip: str | None = None) -> Verdict | None:
        """As `Family.judge`; the rules of the chip come after those of the form."""
        if chip is not None and chip in self.chips() and not any(rule(form) for rule in self.rules):
            for rule in self.chip_rules:
                if verdict := rule(form, chip):
                    return replace(verdict, nearest=self.nearest(form, chip))
        return super().judge(form, chip)

    def nearest(self, form: F, chip: str | None, most: int = 3) -> tuple[str, ...]:
        """As `Family.nearest`, with the operands where the opcodes don't distinguish forms."""
        near = self.closest(form, chip, most)
        opcodes = [f.ptx for f in near]
        if len({form.ptx, *opcodes}) == len(near) + 1:
            return tuple(opcodes)
        return tuple(f"{f.ptx} {re.sub('[{}]', '', f.assembly)}".strip() for f in near)


def vector(count: int, element: str) -> str:
    """LLVM's type of so many registers in one operand: the bare element for one."""
    return element if count == 1 else f"vector<{count}x{element}>"
