"""The element types of a product, and how its operands are stored: what a schedule must be legal for."""

from dataclasses import dataclass, replace

from weft.dialects.element_types import FP8_TYPES, PTX_INPUTS, PTX_OPERANDS, PTX_PACKED, PTX_SCALES
from weft.errors import shown
from weft.isa.block_scales import BlockScaling, multiple_of_k, scaling_of
from weft.isa.computed import computed
from weft.isa.tensor_map import ROW_BYTES
from weft.isa.types import ELEMENT_TYPES

PROMOTED = 128
"""Elements along K, after which promoted sums leave the tensor cores. A scale of B is for as many rows and
columns of B.
"""
GROUP_ROWS = 128
"""All rows of D from a multiple of this number up to the next one are of one group if `groups` selects it.
Other groups begin at a `Types.group_unit`.
"""
BITS = {name: ELEMENT_TYPES[ptx].bits for name, ptx in {**PTX_OPERANDS, "i32": "s32"}.items()}
"""Bits of an element in global memory, by MLIR's name of its type."""
BYTES = {name: bits // 8 for name, bits in BITS.items() if bits % 8 == 0}
"""Bytes of an element, by MLIR's name of its type."""


@dataclass(frozen=True)
class Types:
    """The element types of A, B and D, as MLIR names them, and which of A and B are MN-major.

    `promoted`: sums leave the tensor cores every `PROMOTED` elements along K, and are added in f32. `scaled`:
    each of these sums is multiplied by scales of A and B first. `grouped`: rows of D have different matrices
    B, or products of a batch have different numbers of rows, or, with `k_groups`, different parts of K.
    `scale`: the type of block scales, which tensor cores apply (`block_scaling`); empty without. `words`: how
    many elements share one of these scales where they come as words of four
    (`weft.isa.block_scales.WORD_BLOCKS`); 0 where they are in the 128x4 layout. `scale_columns`: where sums
    are `scaled`, each column of B has scales of its own, not each 128. `half_sums`: tensor cores add in f16.
    `bit_op`: how bits of i1 are multiplied, by PTX's name; empty for other types.
    """

    a: str
    b: str
    d: str
    transposed: tuple[bool, bool] = (False, False)
    promoted: bool = False
    scaled: bool = False
    grouped: bool = False
    scale: str = ""
    words: int = 0
    k_groups: bool = False
    scale_columns: bool = False
    half_sums: bool = False
    bit_op: str = ""

    @computed
    def block_scaling(self) -> BlockScaling | None:
        """How tensor cores multiply A and B with their block scales; None without such scales."""
        if self.scale not in PTX_SCALES or not {self.a, self.b} <= set(PTX_INPUTS):
            return None
        return scaling_of(PTX_INPUTS[self.a], PTX_INPUTS[self.b], PTX_SCALES[self.scale])

    @computed
    def input_bits(self) -> int:
        """Bits of an element of A, and of B, in shared memory, where a float of 4 or 6 bits takes a byte
        except under block scales of its own (`BlockScaling.packed`). In global memory it has `BITS`.
        """
        if self.packs_integers:
            return BITS[self.a]
        scaling = self.block_scaling
        return scaling.bits if scaling else max(BITS[self.a], 8)

    @property
    def input_bytes(self) -> int:
        """Bytes of an element of A, and of B, in shared memory, if whole: see `input_bits`."""
        assert self.input_bits % 8 == 0, self
        return self.input_bits // 8

    @property
    def group_unit(self) -> int:
        """The number at whose multiples groups begin that are given by their ends: 1 unless scales, bytes or
        promoted sums would be of two groups.
        """
        of_k = self.k_groups and (self.promoted or self.has_packed_inputs)
        return GROUP_ROWS if self.scale or of_k else 1

    @property
    def group_steps(self) -> tuple[int, int]:
        """The numbers at whose multiples copies of A begin, and of f32 scales, where ends divide rows; and
        copies of A and B along K where they divide K. TMA and `cp.async` copy from multiples of 16 bytes on.
        """
        of_a, of_b = (8 * ROW_BYTES // BITS[each] for each in (self.a, self.b))
        mn_a, mn_b = self.transposed
        rows = max(of_a if mn_a else 1, ROW_BYTES // BYTES["f32"] if self.scaled else 1)
        return rows, max(1 if mn_a else of_a, 1 if mn_b else of_b)

    @property
    def divides_k_blocks(self) -> bool:
        """Whether a group along K may begin inside of a K block of the one before."""
        return self.k_groups and self.group_unit == 1

    @property
    def has_packed_inputs(self) -> bool:
        """Whether A or B has elements of 4 or 6 bits, which are packed in global memory."""
        return min(BITS.get(self.a, 8), BITS.get(self.b, 8)) < 8

    @property
    def packs_integers(self) -> bool:
        """Whether A and B have integers of less than a byte, in shared memory and registers too."""
        return self.a in PTX_PACKED

    @property
    def repacks(self) -> bool:
        """Whether A or B is packed along M or N in global memory, and along K in shared memory."""
        return self.packs_integers and any(self.transposed)

    @property
    def multiple_of_k(self) -> int:
        """The number of which K must be a multiple."""
        if not self.has_packed_inputs:
            return 1
        if not PTX_INPUTS.keys() >= {self.a, self.b}:
            return max(8 // BITS[each] for each in (self.a, self.b))  # integers that fill bytes
        return multiple_of_k(PTX_INPUTS[self.a], PTX_INPUTS[self.b], self.block_scaling)

    @property
    def multiples_of_mn(self) -> tuple[int, int]:
        """The numbers of which M and N must be multiples: integers that are packed along them fill bytes."""
        whole = 8 // BITS[self.a] if self.packs_integers else 1
        of_m, of_n = (whole if mn_major else 1 for mn_major in self.transposed)
        return of_m, of_n

    @property
    def output_bytes(self) -> int:
        """Bytes of an element of D."""
        return BYTES[self.d]

    @property
    def sums(self) -> str:
        """The element type of the epilogue's sums: f32, or f64 for f64 and i32 for integers."""
        if ELEMENT_TYPES[PTX_OPERANDS[self.a]].kind != "float":
            return "i32"
        return "f64" if self.a == "f64" else "f32"

    @property
    def instruction_sums(self) -> str:
        """The element type of the sums that instructions add to: f16 with `half_sums`, otherwise `sums`."""
        return "f16" if self.half_sums else self.sums

    @property
    def ptx_sums(self) -> str:
        """PTX's name of `instruction_sums`."""
        return {"i32": "s32"}.get(self.instruction_sums, self.instruction_sums)


BIT = "i1"
"""The type of elements that a bit operation multiplies."""
HALF = "f16"
"""The type of sums that a product may ask for instead of the usual one."""


def accumulate_complaint(accumulate: str | None, types: Types) -> str | None:
    """Why products of these types can't be added up in the type that `accumulate` names."""
    if accumulate is None or types.a not in PTX_OPERANDS:
        return None
    usual = replace(types, half_sums=False).sums
    if accumulate == usual:
        return None
    able = ("f16", *FP8_TYPES)
    if accumulate != HALF:
        others = f" or {HALF}" if {types.a, types.b} <= set(able) else ""
        kinds = " and ".join(dict.fromkeys((types.a, types.b)))
        return f"accumulate must be {usual}{others} for A and B of {kinds}, got {accumulate}"
    if not {types.a, types.b} <= set(able):
        got = types.a if types.a not in able else types.b
        return f"expects A and B of f16 or fp8 where accumulate is {HALF}, got {got}: omit it for {usual}"
    if types.promoted or types.scale:
        what = "scales" if types.scaled or types.scale else "promote"
        return f"accumulate must be {usual} with {what}, got {HALF}"
    return None


def bit_op_complaint(bit_op: str | None, types: Types) -> str | None:
    """Why elements of these types can't be multiplied by a bit operation, or without one."""
    bits = {types.a, types.b} == {BIT}
    if not bits and not bit_op:
        return None
    from weft.isa.mma import BIT_OPS

    if bits and bit_op not in BIT_OPS:
        legal = " or ".join(BIT_OPS)
        return f"bit_op must be {legal} for A and B of {BIT}, got {shown(bit_op) if bit_op else 'none'}"
    if not bits:
        kinds = " and ".join(dict.fromkeys((types.a, types.b)))
        return f"bit_op must be omitted unless A and B are {BIT}, got {shown(bit_op)} with {kinds}"
    return None


def ceil_div(a: int, b: int) -> int:
    """How many of size `b` cover `a`."""
    return -(-a // b)
