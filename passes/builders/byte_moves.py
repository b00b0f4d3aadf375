"""Moves of bytes from a buffer in shared memory to a fragment whose registers are along the other direction:
by the `ldmatrix` that transposes bytes where the chip has it, otherwise by the one that transposes pairs of
bytes, which `prmt` takes apart.

Of pairs, lane 4j + t receives bytes 2j and 2j + 1 of the rows. The buffer's layout gives them the coordinates
j and j + 8, which a fragment has in that lane (`interleaved`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from weft.dialects import mma, tile
from weft.dialects.tile import LoadOp
from weft.isa.mma.fragments import LANES_OF_ROW, REGISTER_BITS
from weft.isa.mma.matrix_moves import LDMATRIX, Ldmatrix
from weft.layout import LayoutError
from weft.mlir import ir, llvm, nvvm, vector
from weft.passes.analysis import uniformity
from weft.passes.analysis.uniformity import Scope
from weft.passes.builders import addresses, emit, fragment_coordinates, matrix_moves, thread_ids
from weft.passes.builders.matrix_moves import MATRIX
from weft.passes.builders.shared_tiles import SharedTile, split_point
from weft.target import Target

_BYTES = REGISTER_BITS // 8
_UNIT = 2 * MATRIX
"""Bytes of a matrix's row."""
_EVEN, _ODD = 0x6420, 0x7531
_WIDE = Ldmatrix("m16n16", 1, True, "b8")
"""Transposes bytes: the register of columns 0 to 7 and that of 8 to 15, of 16 rows."""
_Pair = tuple[int, int]


def transposes_bytes(target: Target | None) -> bool:
    """Whether a chip has the `ldmatrix` that transposes bytes."""
    return target is not None and target.chip.name in LDMATRIX.table[_WIDE].chips


def _is_whole(op: LoadOp) -> bool:
    """Whether this `ldmatrix` reads the buffer."""
    return transposes_bytes(op.target) and SharedTile(op.source.type).run_complaint(_UNIT) is None


def unit(op: LoadOp) -> str:
    """What the `ldmatrix` of a load transposes."""
    return "bytes" if _is_whole(op) else "pairs of bytes"


def interleaved(width: int) -> tuple[str, str]:
    """The digits and the strides of so many contiguous bytes whose halves of 8 alternate."""
    return f"{width // _UNIT},2,{MATRIX}", f"{_UNIT},1,2"


def complaint(op: LoadOp, kind: ir.Type) -> str | None:
    """Why these moves don't load a fragment."""
    if kind.element_type.width != 8:
        return f"needs elements of 8 bits, got {kind.element_type}"
    if op.source.type.space != "shared":
        return f"needs a buffer in the CTA's own shared memory, got {op.source.type.space} memory"
    if kind.warps != 1:
        return f"needs a fragment of one warp, got {kind}"
    try:
        _, by_column = fragment_coordinates.matrices(kind.layout, kind.shape, _BYTES)
    except LayoutError as error:
        return f"needs lanes that hold as many elements each: {error.diagnostics[0].message}"
    if by_column is None or by_column == matrix_moves.transposes(op):
        return f"needs registers that hold columns of the buffer, got {kind.layout}"
    inner = SharedTile(op.source.type).groups[1][-2:]
    if not _is_whole(op) and [(it.extent, it.stride) for it in inner] != [(2, 1), (MATRIX, 2)]:
        return "needs a buffer whose contiguous bytes alternate between columns c and c + 8"
    try:
        pairs(op, kind)
    except KeyError:
        return f"needs columns c and c + 8 in the fragment for each c, got {kind.layout}"
    return None


@dataclass(frozen=True)
class Registers:
    """Two registers of a fragment, of columns c and c + 8 of the buffer from a row on."""

    row: int
    column: int
    numbers: _Pair


def pairs(op: LoadOp, kind: ir.Type) -> list[Registers]:
    """The registers of a fragment in pairs. Raises KeyError where one has no partner."""
    origins, _ = fragment_coordinates.matrices(kind.layout, kind.shape, _BYTES)
    if matrix_moves.transposes(op):
        origins = tuple((column, row) for row, column in origins)
    numbers = {origin: i for i, origin in enumerate(origins)}
    # Each register has its partner, on either side.
    both = {(at, number): numbers[at[0], at[1] ^ MATRIX] for at, number in numbers.items()}
    return [Registers(*at, (number, other)) for (at, number), other in both.items() if at[1] % _UNIT == 0]


def load(op: LoadOp) -> ir.Value:
    """The vector of the words of a lane's fragment."""
    kind, buffer = op.fragment.type, op.source
    thread_ids.threads_of(op)
    uniformity.require(op, Scope.WARP)
    both = pairs(op, kind)
    words: list[Any] = [None] * (2 * len(both))
    for registers, low, high in _loaded(op, both, SharedTile(buffer.type), tile.address(buffer)):
        if _is_whole(op):
            words[registers.numbers[0]], words[registers.numbers[1]] = low, high
            continue
        for number, selector in zip(registers.numbers, (_EVEN, _ODD), strict=True):
            words[number] = nvvm.prmt(low, emit.value(selector), nvvm.PermuteMode.DEFAULT, hi=high)
    return vector.from_elements(ir.VectorType.get([len(words)], emit.i32()), words)


def _loaded(
    op: LoadOp, both: list[Registers], shared: SharedTile, base: ir.Value
) -> Iterator[tuple[Registers, ir.Value, ir.Value]]:
    """Each pair with the two words that ldmatrix returns of it: its registers; of pairs of bytes, those of a
    lane's first two of four rows, and of the other two.
    """
    extents = op.fragment.type.shape[:: -1 if matrix_moves.transposes(op) else 1]
    lane, word, whole = thread_ids.lane(), emit.i32(), _is_whole(op)
    if whole:
        row = emit.bit_and(lane, _UNIT - 1)
    else:
        # Of matrix m, row r is the buffer's row 4 * (r / 2) + r % 2 + 2 * m.
        r = emit.bit_and(lane, MATRIX - 1)
        row = emit.add(emit.mul(emit.div(r, 2), _BYTES), emit.bit_and(r, 1))
        row = emit.add(row, emit.mul(emit.bit_and(emit.shift_right(lane, 3), 1), 2))
    done = 0
    while done < len(both):
        first, *rest = both[done : done + 2]
        at, column, rows, columns = row, 0, {*range(LANES_OF_ROW * _BYTES)}, {0}
        if rest:
            further = emit.bit_and(emit.shift_right(lane, 4), 1)
            down, across = rest[0].row - first.row, rest[0].column - first.column
            if down < 0 or across < 0:
                rest = []
            else:
                at, column = emit.add(row, emit.mul(further, down)), emit.mul(further, across)
                rows, columns = rows | {each + down for each in rows}, {0, across}
        row_digits, column_digits = shared.groups
        offset = shared.offset(
            split_point(emit.add(op.row, at), first.row, rows, extents[0], row_digits),
            split_point(emit.add(op.column, column), first.column, columns, extents[1], column_digits),
        )
        count = 2 * (1 + len(rest))
        form: dict[str, Any] = {"shape": _WIDE.shape, "num": count // 2, "type": _WIDE.type}
        form = form if whole else {"shape": "m8n8", "num": count}
        result = mma.ldmatrix(address=addresses.offset(base, offset), trans=True, **form)
        loaded = [llvm.extractvalue(word, result, [i]) for i in range(count)]
        for number, registers in enumerate((first, *rest)):
            yield registers, loaded[2 * number], loaded[2 * number + 1]
        done += 1 + len(rest)
