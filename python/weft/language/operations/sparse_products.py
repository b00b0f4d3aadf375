"""Products of a sparse A, of which two in four elements are there, by `mma.sp` (PTX ISA, "mma.sp")."""

from collections.abc import Callable
from functools import partial

from weft.dialects import mma, tile
from weft.dialects.element_types import PTX_INPUTS
from weft.dialects.tile import FragmentType
from weft.isa.chips import CHIPS, describe
from weft.isa.mma.sparse import SPARSE, Sparse
from weft.language.messages.mistakes import mistake
from weft.language.operations import gathers
from weft.language.values.buffers import Buffer, Memory
from weft.language.values.coordinates import column, row
from weft.language.values.dtypes import bf16, e4m3, e5m2, f16, i8, i32, u8, u16
from weft.language.values.fragments import Fragment
from weft.language.values.matrices import Place
from weft.language.values.scalars import Scalar
from weft.layout import Layout
from weft.mlir import arith, ir
from weft.passes.builders import emit, thread_ids
from weft.passes.builders.warp_products import nest

TYPES = (f16, bf16, e4m3, e5m2, i8, u8)
_ROWS, _DEPTH = 16, 64  # of A in one step: four words of metadata in each row
_WORD = 16  # columns of A that a word describes, four bits for every four of them
_FIRST_TWO = 0x4444  # the first two of every four elements: legal metadata for rows that aren't there
# Which lane has which words: of A in 16 bits the same of two rows, in 8 bits two of one row.
_WORDS = {16: "S[(2,8,4):(1,4@laneid,1@laneid)]", 8: "S[(2,8,2,2):(1@laneid,4@laneid,2@laneid,1)]"}


def check(a: Buffer | Fragment, b: Memory | Fragment, metadata: object) -> None:
    """Raises WeftError for operands that no sparse product has."""
    if isinstance(a, Fragment):
        raise mistake(f"a of a sparse product must be a buffer, got {a}")
    if not isinstance(metadata, Place) or metadata.element is None or metadata.dtype != u16:
        raise mistake(
            f"metadata must be an element of a matrix of {u16}, as meta[row, k // {_WORD}], got {metadata}"
        )
    metadata.check_matrix("metadata has a row of words for each row of a")
    for name, each in (("a", a), ("b", b)):
        if each.dtype not in TYPES:
            legal = ", ".join(map(str, TYPES))
            raise mistake(f"{name} of a sparse product must be of {legal}, got {each.dtype}")
    if b.shape[0] % _DEPTH:
        raise mistake(f"b of a sparse product must have a multiple of {_DEPTH} rows, got {b.shape[0]}")


def form(a: Buffer | Fragment, b: Buffer, kind: ir.Type, chip: str) -> Sparse:
    """The instruction for operands of these types."""
    of_a, of_b = (PTX_INPUTS.get(each.dtype.name, each.dtype.name) for each in (a, b))
    sums = {"i32": "s32"}.get(name := str(kind.element_type), name)
    one = Sparse(f"m16n8k{512 // a.dtype.bits}", of_a, of_b, sums, sums)
    if SPARSE.judge(one, chip) is not None:
        needed = frozenset(each for each in CHIPS if SPARSE.judge(one, each) is None)
        raise mistake(f"sparse products of {a.dtype} and {b.dtype} need {describe(needed)}, got {chip}")
    return one


def multiply(
    form: Sparse, metadata: Place, rows: list[int], of_warp: int, depth: int
) -> Callable[[ir.Value, ir.Value, ir.Value, tuple[int, int]], ir.Value]:
    """Multiplies a warp's parts of operands and adds sums. The metadata of all rows is loaded at once."""
    bits = 8 if form.mnk[2] == _DEPTH else 16
    warp = emit.mul(thread_ids.warp(), of_warp)
    words = {
        (first, k): _word(metadata, emit.value(emit.add(warp, first)), k // _WORD, bits)
        for first in rows
        for k in range(0, depth, _DEPTH)
    }

    def multiplied(a: ir.Value, b: ir.Value, sums: ir.Value, at: tuple[int, int]) -> ir.Value:
        first, k = at
        word, selector = words[first, k - k % _DEPTH], k % _DEPTH // form.mnk[2]
        build = partial(mma.sp_sync, selector=selector)
        return nest(a, b, tile.to_lane(sums), sums.type, form, build, lambda i, j, p: {"metadata": [word]})

    return multiplied


def _word(metadata: Place, first: ir.Value, word: int, bits: int) -> ir.Value:
    """A lane's register of the metadata of 16 rows and 64 columns of A."""
    kind = FragmentType.of((_ROWS, _DEPTH // _WORD), i32.type, Layout.parse(_WORDS[bits]))
    like = Fragment(tile.from_lane(emit.constant(kind.lane_type, 0), kind))
    *others, down, across = metadata.indices
    indices = row(like) + down + Scalar(first), column(like) + across + word
    loaded = gathers.load(gathers.checked(metadata.matrix, [*others, *indices]), None, None)
    words = [arith.extui(emit.i32(), emit.signless(each)) for each in loaded.elements()]
    low, high = (emit.select(emit.equal(each, 0), _FIRST_TWO, each) for each in words)
    return arith.ori(low, arith.shli(high, emit.value(_WORD)))
