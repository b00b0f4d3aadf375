"""`ldmatrix`, `stmatrix` and `movmatrix`: small matrices between shared memory and the fragments of a warp
(PTX ISA, "Warp-level matrix load instruction: ldmatrix" and the sections beside it).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from weft.isa.chips import ChipSet, only, since
from weft.isa.family import Family, Registers, Support

# The byte formats came with sm_100 and are for one chip or one family only.
BYTES = only(
    *("sm_100a", "sm_100f", "sm_103a", "sm_103f", "sm_107a", "sm_107f", "sm_110a", "sm_110f"),
    *("sm_120a", "sm_120f", "sm_121a", "sm_121f"),
)
_POINTERS = {"shared": "!llvm.ptr<3>", "generic": "!llvm.ptr"}


@dataclass(frozen=True)
class Ldmatrix:
    """One form of `ldmatrix`: `num` matrices from shared memory, each lane's address giving one row.

    `type` is `b16`, `b8`, or what bytes are made from: `b8x16.b6x16_p32` and `b8x16.b4x16_p64`. `space` is
    how the address is given: `shared` or `generic`.
    """

    shape: str
    num: int
    trans: bool
    type: str = "b16"
    space: str = "shared"

    @property
    def ptx(self) -> str:
        return f"ldmatrix.{_modifiers(self.shape, self.num, self.trans, self.type, self.space)}"

    @property
    def intrinsic(self) -> str:
        return f"llvm.nvvm.ldmatrix.{_signature(self.shape, self.num, self.trans, self.type, self.space)}"

    @property
    def operands(self) -> tuple[Registers, ...]:
        """D and the address of a row; D's layout is one matrix's, and the next follow in the registers."""
        matrix = _matrix(self.shape, self.trans)
        count = max(matrix.registers * self.num, 1)
        return (
            Registers("d", count, "i32", matrix.layout, matrix.shape, role="out"),
            Registers("address", 1, _POINTERS[self.space]),
        )

    @property
    def assembly(self) -> str:
        return "{{{d}}}, [{address}]"


@dataclass(frozen=True)
class Stmatrix:
    """One form of `stmatrix`: `num` matrices to shared memory, each lane's address giving one row."""

    shape: str
    num: int
    trans: bool
    type: str = "b16"
    space: str = "shared"

    @property
    def ptx(self) -> str:
        return f"stmatrix.{_modifiers(self.shape, self.num, self.trans, self.type, self.space)}"

    @property
    def intrinsic(self) -> str:
        return f"llvm.nvvm.stmatrix.{_signature(self.shape, self.num, self.trans, self.type, self.space)}"

    @property
    def operands(self) -> tuple[Registers, ...]:
        """The address of a row, and the registers; the layout is one matrix's, and the next follow."""
        matrix = _matrix(self.shape, self.trans)
        count = max(matrix.registers * self.num, 1)
        return (
            Registers("address", 1, _POINTERS[self.space]),
            Registers("a", count, "i32", matrix.layout, matrix.shape),
        )

    @property
    def assembly(self) -> str:
        return "[{address}], {{{a}}}"


@dataclass(frozen=True)
class Movmatrix:
    """One form of `movmatrix`: an 8x8 matrix of a warp, transposed. LLVM has no intrinsic for it."""

    shape: str = "m8n8"
    trans: bool = True
    type: str = "b16"

    @property
    def ptx(self) -> str:
        return f"movmatrix.sync.aligned.{self.shape}{'.trans' if self.trans else ''}.{self.type}"

    @property
    def intrinsic(self) -> None:
        return None

    @property
    def operands(self) -> tuple[Registers, ...]:
        """D and A, both in the layout of an untransposed matrix."""
        matrix = _matrix("m8n8", False)
        return (
            Registers("d", 1, "i32", matrix.layout, matrix.shape, role="out"),
            Registers("a", 1, "i32", matrix.layout, matrix.shape),
        )

    @property
    def assembly(self) -> str:
        return "{d}, {a}"


def _modifiers(shape: str, num: int, trans: bool, kind: str, space: str) -> str:
    transposed = ".trans" if trans else ""
    shared = ".shared" if space == "shared" else ""
    return f"sync.aligned.{shape}.x{num}{transposed}{shared}.{kind}"


def _signature(shape: str, num: int, trans: bool, kind: str, space: str) -> str:
    transposed = ".trans" if trans else ""
    return f"sync.aligned.{shape}.x{num}{transposed}.{kind}.p{3 if space == 'shared' else 0}"


class _Matrix(NamedTuple):
    """One matrix in a warp: its registers per lane, its layout in elements of `type`, and its shape."""

    registers: int
    layout: str
    shape: tuple[int, int]


# Lane 4g + t has row g and, of 8 rows of 16 bytes, the t-th four; transposed, column g. A 16x16 matrix is two
# of these, rows (transposed: columns) 8 to 15 in the second register.
_MATRICES = {
    ("m8n8", False): _Matrix(1, "S[(8,4,2):(4@laneid,1@laneid,1)]", (8, 8)),
    ("m8n8", True): _Matrix(1, "S[(4,2,8):(1@laneid,1,4@laneid)]", (8, 8)),
    ("m8n16", False): _Matrix(1, "S[(8,4,4):(4@laneid,1@laneid,1)]", (8, 16)),
    ("m16n16", True): _Matrix(2, "S[(4,4,2,8):(1@laneid,1,4,4@laneid)]", (16, 16)),
    ("m16n8", True): _Matrix(1, "S[(4,4,8):(1@laneid,1,4@laneid)]", (16, 8)),
}


def _matrix(shape: str, trans: bool) -> _Matrix:
    """The layout of a matrix; of one that no row has, only the registers that it would take."""
    if found := _MATRICES.get((shape, trans)):
        return found
    rows, columns = (int(extent) for extent in re.findall(r"\d+", shape))
    return _Matrix(2 if rows * columns == 256 else 1, "", (rows, columns))


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


def _ldmatrix_forms() -> Iterator[tuple[Ldmatrix, Support]]:
    return ((Ldmatrix(*values), support) for values, support in _points(_LDMATRIX))


def _stmatrix_forms() -> Iterator[tuple[Stmatrix, Support]]:
    return ((Stmatrix(*values), support) for values, support in _points(_STMATRIX))


def _movmatrix_forms() -> Iterator[tuple[Movmatrix, Support]]:
    yield Movmatrix(), Support(since("sm_75"), (7, 8))


_SPACES = {"shared", "shared::cta"}


def _read(opcode: str, name: str) -> tuple[str, int, bool, str, str] | None:
    """The fields of an `ldmatrix` or `stmatrix`, whose modifiers ptxas takes in any order."""
    head, *tokens = opcode.split(".")
    shapes = [t for t in tokens if re.fullmatch(r"m\d+n\d+", t)]
    nums = [t for t in tokens if re.fullmatch(r"x\d+", t)]
    types = [t for t in tokens if re.fullmatch(r"b\d+(x\d+(_p\d+)?)?", t)]
    known = {"sync", "aligned", "trans", *_SPACES, *shapes, *nums, *types}
    if head != name or len(shapes) != 1 or len(nums) != 1 or not types:
        return None
    if not {"sync", "aligned"} <= set(tokens) or not known.issuperset(tokens):
        return None
    space = "shared" if _SPACES & set(tokens) else "generic"
    return shapes[0], int(nums[0][1:]), "trans" in tokens, ".".join(types), space


def parse_ldmatrix(opcode: str, operands: Sequence[str] = ()) -> Ldmatrix | None:
    """The form that a PTX opcode spells, legal or not; None where it isn't an `ldmatrix`."""
    found = _read(opcode, "ldmatrix")
    return Ldmatrix(*found) if found else None


def parse_stmatrix(opcode: str, operands: Sequence[str] = ()) -> Stmatrix | None:
    """The form that a PTX opcode spells, legal or not; None where it isn't an `stmatrix`."""
    found = _read(opcode, "stmatrix")
    return Stmatrix(*found) if found else None


def parse_movmatrix(opcode: str, operands: Sequence[str] = ()) -> Movmatrix | None:
    """The form that a PTX opcode spells, legal or not; None where it isn't a `movmatrix`."""
    head, *tokens = opcode.split(".")
    shapes = [t for t in tokens if re.fullmatch(r"m\d+n\d+", t)]
    types = [t for t in tokens if re.fullmatch(r"b\d+", t)]
    known = {"sync", "aligned", "trans", *shapes, *types}
    if head != "movmatrix" or len(shapes) != 1 or len(types) != 1 or not known.issuperset(tokens):
        return None
    if not {"sync", "aligned"} <= set(tokens):
        return None
    return Movmatrix(shapes[0], "trans" in tokens, types[0])


LDMATRIX = Family("ldmatrix", Ldmatrix, _ldmatrix_forms, parse_ldmatrix)
STMATRIX = Family("stmatrix", Stmatrix, _stmatrix_forms, parse_stmatrix)
MOVMATRIX = Family("movmatrix", Movmatrix, _movmatrix_forms, parse_movmatrix)

FAMILIES = (LDMATRIX, STMATRIX, MOVMATRIX)

NEAR = {
    "ldmatrix": {"shape": ("m16n8", "m8n32"), "num": (3, 8), "type": ("b32", "b8x16")},
    "stmatrix": {"shape": ("m8n16", "m16n16"), "num": (3, 8), "type": ("b32", *_FP6_FP4.split())},
    "movmatrix": {"shape": ("m16n8", "m8n16", "m16n16"), "trans": (False,), "type": ("b8", "b32")},
}
