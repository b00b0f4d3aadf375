"""The element types of a product, and how its operands are stored: what a schedule must be legal for."""

from dataclasses import dataclass

from weft.dialects.tile_types import PTX_INPUTS
from weft.isa.types import ELEMENT_TYPES

PROMOTED = 128
"""Elements along K, after which promoted sums leave the tensor cores. A scale of B is for as many rows and
columns of B.
"""
GROUP_ROWS = 128
"""All rows of D from a multiple of this number up to the next one are of one group."""
BYTES = {name: ELEMENT_TYPES[ptx].bits // 8 for name, ptx in {**PTX_INPUTS, "i32": "s32"}.items()}
"""Bytes of an element, by MLIR's name of its type."""


@dataclass(frozen=True)
class Types:
    """The element types of A, B and D, as MLIR names them, and which of A and B are MN-major.

    `promoted`: sums leave the tensor cores every `PROMOTED` elements along K, and are added in f32. `scaled`:
    each of these sums is multiplied by scales of A and B first. `grouped`: rows of D have different matrices
    B, or products of a batch have different numbers of rows.
    """

    a: str
    b: str
    d: str
    transposed: tuple[bool, bool] = (False, False)
    promoted: bool = False
    scaled: bool = False
    grouped: bool = False

    @property
    def input_bytes(self) -> int:
        """Bytes of an element of A, and of B."""
        return BYTES[self.a]

    @property
    def output_bytes(self) -> int:
        """Bytes of an element of D."""
        return BYTES[self.d]

    @property
    def sums(self) -> str:
        """The element type of the sums: f32, or i32 for integers."""
        return "f32" if ELEMENT_TYPES[PTX_INPUTS[self.a]].kind == "float" else "i32"


def ceil_div(a: int, b: int) -> int:
    """How many of size `b` cover `a`."""
    return -(-a // b)
