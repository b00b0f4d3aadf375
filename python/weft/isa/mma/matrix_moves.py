"""`ldmatrix`, `stmatrix` and `movmatrix`: small matrices between shared memory and the fragments of a warp
(PTX ISA, "Warp-level matrix load instruction: ldmatrix" and the sections next to it).

The shape of an operand is that in memory: matrices, rows as the lanes' addresses give them, and columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from weft.isa.chips import ChipSet, only, since
from weft.isa.family import Family, Form, Registers, Support
from weft.isa.mma import modifiers
from weft.isa.template import NUMBER, Field, Flag, Template
from weft.isa.unpublished import Unpublished

# The byte formats exist from sm_100 on, each for one chip or one family only.
BYTES = only(
    *("sm_100a", "sm_100f", "sm_103a", "sm_103f", "sm_107a", "sm_107f", "sm_110a", "sm_110f"),
    *("sm_120a", "sm_120f", "sm_121a", "sm_121f"),
)
_POINTERS = {"shared": "!llvm.ptr<3>", "generic": "!llvm.ptr"}

UNPACKED = {6: "b8x16.b6x16_p32", 4: "b8x16.b4x16_p64"}
"""The types of ldmatrix that unpack elements to bytes, by their bits: 16 are packed in the low bytes of 16.
"""
UNPACKED_SHIFT = {4: 2}
"""By how many bits `mma` reads elements further left than ldmatrix leaves them in bytes, by their bits."""

_SHAPE = Field("shape", ("{}", r"m\d+n\d+"))
_MODIFIERS = (
    *(modifiers.SYNC, modifiers.ALIGNED, _SHAPE, Field("num", ("x{}", NUMBER), number=True), Flag("trans")),
    Field("space", ("shared", "shared"), ("shared::cta", "shared"), default="generic", repeats=True),
    Field("type", ("{}", ".+"), each=r"b\d+(?:x\d+(?:_p\d+)?)?"),
)


@dataclass(frozen=True)
class _Move(Form):
    """The axes of `ldmatrix` and `stmatrix`."""

    shape: str
    num: int
    trans: bool
    type: str = "b16"
    space: str = "shared"

    mnemonic: ClassVar[str]

    @property
    def intrinsic(self) -> str:
        transposed = ".trans" if self.trans else ""
        matrices = f"{self.shape}.x{self.num}{transposed}.{self.type}"
        return f"llvm.nvvm.{self.mnemonic}.sync.aligned.{matrices}.p{3 if self.space == 'shared' else 0}"

    @property
    def _address(self) -> Registers:
        return Registers("address", 1, _POINTERS.get(self.space, "!llvm.ptr"))


@dataclass(frozen=True)
class Ldmatrix(_Move):
    """One form of `ldmatrix`: one warp loads `num` matrices from shared memory; each lane has the address of
    one row.

    `type` is `b16` or `b8`, or `b8x16.b6x16_p32` or `b8x16.b4x16_p64`, which unpack elements of 6 or 4 bits
    to bytes. `space` is the state space of the address: `shared` or `generic`.
    """

    mnemonic = "ldmatrix"
    templates = (Template(mnemonic, *_MODIFIERS),)
    assembly = "{{{d}}}, [{address}]"

    @property
    def operands(self) -> tuple[Registers, ...]:
        """D and the address of a row."""
        return _matrices("d", self.shape, self.trans, self.num, role="out"), self._address


@dataclass(frozen=True)
class Stmatrix(_Move):
    """One form of `stmatrix`: one warp stores `num` matrices to shared memory; each lane has the address of
    one row.
    """

    mnemonic = "stmatrix"
    templates = (Template(mnemonic, *_MODIFIERS),)
    assembly = "[{address}], {{{a}}}"

    @property
    def operands(self) -> tuple[Registers, ...]:
        """The address of a row, and A."""
        return self._address, _matrices("a", self.shape, self.trans, self.num)


@dataclass(frozen=True)
class Movmatrix(Form):
    """One form of `movmatrix`: an 8x8 matrix of a warp, transposed. LLVM has no intrinsic for it."""

    shape: str = "m8n8"
    trans: bool = True
    type: str = "b16"

    templates = (
        Template(
            "movmatrix",
            *(modifiers.SYNC, modifiers.ALIGNED, _SHAPE, Flag("trans"), Field("type", ("{}", r"b\d+"))),
        ),
    )
    assembly = "{d}, {a}"

    @property
    def operands(self) -> tuple[Registers, ...]:
        """D and A, both in the layout of an untransposed matrix."""
        return _matrices("d", "m8n8", False, 1, role="out"), _matrices("a", "m8n8", False, 1)


# Where one matrix lies: the rows and columns that it has in memory, the elements of a lane, and the layout's
# digits and strides. Lane 4g + t has row g and its t-th four bytes; transposed, column g of the t-th rows.
# 16x16 bytes are two of these, the second register with columns 8 to 15; m16n8's is that of an accumulator.
_MATRICES = {
    ("m8n8", False): ((8, 8), 2, "8,4,2", "4@laneid,1@laneid,1"),
    ("m8n8", True): ((8, 8), 2, "4,2,8", "1@laneid,1,4@laneid"),
    ("m8n16", False): ((8, 16), 4, "8,4,4", "4@laneid,1@laneid,1"),
    ("m16n16", True): ((16, 16), 8, "4,4,2,8", "1@laneid,1,4,4@laneid"),
    ("m16n8", True): ((8, 16), 4, "4,2,2,8", "1@laneid,1,2,4@laneid"),
}


def _matrices(name: str, shape: str, trans: bool, num: int, role: str = "in") -> Registers:
    """`num` matrices one after the other in the registers; for one in no row, only the count."""
    count = max(num * (2 if shape == "m16n16" else 1), 1)
    if (shape, trans) not in _MATRICES:
        return Registers(name, count, "i32", role=role)
    (rows, columns), elements, digits, strides = _MATRICES[shape, trans]
    layout = f"S[({num},{digits}):({elements},{strides})]"
    return Registers(name, count, "i32", layout, (num, rows, columns), role)


class _Row(NamedTuple):
    shape: str
    nums: tuple[int, ...]
    trans: tuple[bool, ...]
    types: str
    chips: ChipSet
    ptx: tuple[int, int]


_FP6_FP4 = "b8x16.b6x16_p32 b8x16.b4x16_p64"
_BOTH = (False, True)

# fmt: off
_LDMATRIX = (
    _Row("m8n8",   (1, 2, 4), _BOTH,    "b16",            since("sm_75"), (6, 5)),
    _Row("m8n16",  (1, 2, 4), (False,), _FP6_FP4,         BYTES,          (8, 6)),
    _Row("m16n16", (1, 2),    (True,),  f"b8 {_FP6_FP4}", BYTES,          (8, 6)),
)
_STMATRIX = (
    _Row("m8n8",   (1, 2, 4), _BOTH,    "b16",            since("sm_90"), (7, 8)),
    _Row("m16n8",  (1, 2, 4), (True,),  "b8",             BYTES,          (8, 6)),
)
# fmt: on


def _points(rows: Sequence[_Row]) -> Iterator[tuple[tuple[str, int, bool, str, str], Support]]:
    """The fields of each form and where it is legal."""
    for row in rows:
        for num in row.nums:
            for trans in row.trans:
                for kind in row.types.split():
                    for space in _POINTERS:
                        yield (row.shape, num, trans, kind, space), Support(row.chips, row.ptx)


LDMATRIX = Family("ldmatrix", Ldmatrix, lambda: ((Ldmatrix(*v), s) for v, s in _points(_LDMATRIX)))
STMATRIX = Family("stmatrix", Stmatrix, lambda: ((Stmatrix(*v), s) for v, s in _points(_STMATRIX)))
MOVMATRIX = Family("movmatrix", Movmatrix, lambda: [(Movmatrix(), Support(since("sm_75"), (7, 8)))])

FAMILIES = (LDMATRIX, STMATRIX, MOVMATRIX)


def _uncounted(form: Ldmatrix | Stmatrix, chip: str) -> bool:
    counted = replace(form, num=1)
    support = LDMATRIX.table.get(counted) if isinstance(counted, Ldmatrix) else STMATRIX.table.get(counted)
    return form.num in (8, 16, 32, 64, 128) and support is not None and chip in support.chips


UNPUBLISHED = tuple(
    Unpublished(
        family.name, _uncounted, "ptxas ignores the counts of tcgen05 here, and takes 1, 2 or 4 registers"
    )
    for family in (LDMATRIX, STMATRIX)
)
