"""The table of `dp4a`: `d = c + a0 * b0 + a1 * b1 + a2 * b2 + a3 * b3` on bytes (PTX ISA, "dp4a")."""

from collections.abc import Iterator
from dataclasses import dataclass

from weft.isa.chips import since
from weft.isa.family import Family, Form, Registers, Support
from weft.isa.template import Field, Template


@dataclass(frozen=True)
class Dp4aForm(Form):
    """One form: the bytes of A and of B are signed (s32) or unsigned (u32)."""

    a_type: str
    b_type: str

    templates = (Template("dp4a", Field("a_type b_type", ("{}.{}", "[su]32"))),)
    assembly = "{d}, {a}, {b}, {c}"

    @property
    def operands(self) -> tuple[Registers, ...]:
        """D, A, B, C: a register each."""
        return Registers("d", 1, "i32", role="out"), *(Registers(name, 1, "i32") for name in "abc")


def _forms() -> Iterator[tuple[Dp4aForm, Support]]:
    for a in ("s32", "u32"):
        for b in ("s32", "u32"):
            yield Dp4aForm(a, b), Support(since("sm_70"), (5, 0))


DP4A = Family("dp4a", Dp4aForm, _forms)
