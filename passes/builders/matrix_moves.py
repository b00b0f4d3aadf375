"""The moves by `ldmatrix` and `stmatrix` between a fragment's registers and a buffer in shared memory: each
register holds 32 bits of a row of an 8x8 matrix of 16-bit elements, or what such a row has of other
elements.

Bytes may go to a fragment whose registers are along the other direction: by the `ldmatrix` that transposes
bytes where the chip has it, otherwise by the one that transposes pairs of bytes, which `prmt` takes apart.
Of pairs, lane 4j + t receives bytes 2j and 2j + 1 of the rows. The buffer's layout gives them the
coordinates j and j + 8, which a fragment has in that lane (`interleaved`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from weft.dialects import mma, tile
from weft.dialects.op import refuse
from weft.dialects.tile import LoadOp, StoreOp
from weft.isa.mma.fragments import LANES_OF_ROW, REGISTER_BITS
from weft.isa.mma.matrix_moves import LDMATRIX, UNPACKED, UNPACKED_SHIFT, Ldmatrix
from weft.layout import LayoutError
from weft.mlir import ir, llvm, nvvm, vector
from weft.passes.analysis import uniformity
from weft.passes.analysis.uniformity import Scope
from weft.passes.builders import addresses, emit, fragment_registers, thread_ids
from weft.passes.builders.shared_tiles import SharedTile, split_point
from weft.target import Target

MATRIX = 8  # rows of the matrix that one register's move brings
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
    """The matrices that the `ldmatrix` of a load transposes."""
    return "bytes" if _is_whole(op) else "pairs of bytes"


def interleaved(width: int) -> tuple[str, str]:
    """The digits and the strides of so many contiguous bytes whose halves of 8 alternate."""
    return f"{width // _UNIT},2,{MATRIX}", f"{_UNIT},1,2"


def transposing_complaint(op: LoadOp, kind: ir.Type) -> str | None:
    """Why these moves don't load a fragment."""
    if kind.element_type.width != 8:
        return f"needs elements of 8 bits, got {kind.element_type}"
    if op.source.type.space != "shared":
        return f"needs a buffer in the CTA's own shared memory, got {op.source.type.space} memory"
    if kind.warps != 1:
        return f"needs a fragment of one warp, got {kind}"
    try:
        _, by_column = fragment_registers.matrices(kind.layout, kind.shape, _BYTES)
    except LayoutError as error:
        return f"needs lanes that hold as many elements each: {error.diagnostics[0].message}"
    if by_column is None or by_column == transposes(op):
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
    origins, _ = fragment_registers.matrices(kind.layout, kind.shape, _BYTES)
    if transposes(op):
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
    extents = op.fragment.type.shape[:: -1 if transposes(op) else 1]
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


def form_of(op: LoadOp) -> dict[str, str]:
    """The shape and the type of the matrices that ldmatrix loads."""
    if not _unpacks(op):
        return {"shape": "m8n8"}
    return {"shape": "m8n16", "type": UNPACKED[op.source.type.element_type.width]}


def shift_of(op: LoadOp) -> int:
    """By how many bits mma.sync reads bytes further left than ldmatrix unpacks them."""
    return UNPACKED_SHIFT.get(op.source.type.element_type.width, 0) if _unpacks(op) else 0


def _unpacks(op: LoadOp | StoreOp) -> bool:
    """Whether a load unpacks elements of 4 or 6 bits to bytes."""
    return isinstance(op, LoadOp) and op.source.type.element_type != op.fragment.type.element_type


def transposes(op: LoadOp | StoreOp) -> bool:
    """Whether a load or store transposes."""
    return bool(op.attribute("transpose"))


def complaint(op: LoadOp, kind: ir.Type) -> str | None:
    """Why ldmatrix doesn't load a fragment whose elements don't have 16 bits."""
    bits = kind.element_type.width
    if op.source.type.space != "shared":
        return f"needs a buffer in the CTA's own shared memory, got {op.source.type.space} memory"
    if REGISTER_BITS % bits or kind.registers % (REGISTER_BITS // bits):
        return f"needs registers of {REGISTER_BITS} bits, got {kind.registers} elements of {bits} bits"
    try:
        _, by_column = fragment_registers.matrices(kind.layout, kind.shape, REGISTER_BITS // bits)
    except LayoutError as error:
        return f"needs lanes that hold as many elements each: {error.diagnostics[0].message}"
    if by_column is None:
        return f"needs registers that hold rows of 8x8 matrices, got {kind.layout}"
    if by_column != transposes(op):
        return f"needs rows of the buffer in a register: it transposes elements of 16 bits only, got {bits}"
    inner = fragment_registers.elements_of_row(bits)
    wrong = SharedTile(op.source.type).run_complaint(inner)
    return wrong and wrong.replace("expects", "needs")


def moves(op: LoadOp | StoreOp, buffer: ir.Value, kind: ir.Type) -> Iterator[tuple[int, ir.Value, bool]]:
    """The ldmatrix or stmatrix that move a fragment, four registers at a time where they form a grid: the
    number of registers, the lane's address, and whether the matrices are transposed.
    """
    matrices, transposed = _matrices(op, kind)
    swap = transposes(op)
    thread_ids.threads_of(op)
    uniformity.require(op, Scope.WARP)
    shared, base = SharedTile(buffer.type), tile.address(buffer)
    if wrong := shared.run_complaint(fragment_registers.elements_of_row(kind.element_type.width)):
        raise refuse(op, wrong)
    extents = kind.shape[::-1] if swap else kind.shape
    warps, warp_rows, warp_columns = _warp_parts(kind, swap)
    lane = thread_ids.lane()
    inner = emit.bit_and(lane, MATRIX - 1)
    done = 0
    while done < len(matrices):
        count = _at_once(matrices[done:])
        origins = matrices[done : done + count]
        if swap:
            origins = [(column, row) for row, column in origins]
        row, column = _lane_origin(lane, origins)
        row, column = emit.add(row, warps[0]), emit.add(column, warps[1])
        rows = {at - origins[0][0] + i + w for at, _ in origins for i in range(MATRIX) for w in warp_rows}
        columns = {at - origins[0][1] + w for _, at in origins for w in warp_columns}
        (first_row, first_column), (row_digits, column_digits) = origins[0], shared.groups
        offset = shared.offset(
            split_point(emit.add(op.row, row, inner), first_row, rows, extents[0], row_digits),
            split_point(emit.add(op.column, column), first_column, columns, extents[1], column_digits),
        )
        yield count, addresses.offset(base, offset), transposed
        done += count


def _warp_parts(
    kind: ir.Type, swap: bool
) -> tuple[tuple[ir.Value | int, ir.Value | int], set[int], set[int]]:
    """The coordinates in the buffer of a warp's part of a warpgroup's fragment, and their possible values."""
    if kind.warps == 1:
        return (0, 0), {0}, {0}
    digits = fragment_registers.lane_digits(kind.layout, kind.shape) or ((), ())
    of_warps = [tuple(d for d in each if d.axis == "warpid") for each in digits]
    possible = [
        {sum(w // d.stride % d.extent * d.weight for d in each) for w in range(kind.warps)}
        for each in of_warps
    ]
    starts = [fragment_registers.lane_coordinate(each) for each in of_warps]
    order = (1, 0) if swap else (0, 1)
    return (starts[order[0]], starts[order[1]]), possible[order[0]], possible[order[1]]


def _matrices(op: LoadOp | StoreOp, kind: ir.Type) -> tuple[Sequence[tuple[int, int]], bool]:
    """The first row and column of each register's matrix, and whether ldmatrix transposes."""
    pack = REGISTER_BITS // kind.element_type.width
    if kind.registers % pack:
        raise refuse(op, f"expects a fragment of 16-bit elements in pairs, got {kind}")
    try:
        origins, by_column = fragment_registers.matrices(kind.layout, kind.shape, pack)
    except LayoutError as error:
        raise refuse(op, f"expects a fragment that ldmatrix moves: {error.diagnostics[0].message}") from None
    if by_column is None:
        raise refuse(
            op, f"expects registers that hold 8x8 matrices as ldmatrix loads them, got {kind.layout}"
        )
    return origins, by_column != transposes(op)


def _at_once(matrices: Sequence[tuple[int, int]]) -> int:
    """The number of next matrices that one ldmatrix can load: four on a parallelogram, two, or one."""
    if len(matrices) >= 4:
        a, b, c, d = matrices[:4]
        if all(a[i] + d[i] == b[i] + c[i] and b[i] >= a[i] and c[i] >= a[i] for i in range(2)):
            return 4
    pair = len(matrices) >= 2 and all(b >= a for a, b in zip(*matrices[:2], strict=True))
    return 2 if pair else 1


def _lane_origin(lane: ir.Value, origins: Sequence[tuple[int, int]]) -> tuple[ir.Value | int, ir.Value | int]:
    """The origin of the matrix of which a lane addresses a row, relative to the first matrix."""
    origin: list[ir.Value | int] = [0, 0]
    for step, bit in ((1, 3), (2, 4)):
        if step < len(origins):
            digit = emit.bit_and(emit.shift_right(lane, bit), 1)
            for i in range(2):
                origin[i] = emit.add(origin[i], emit.mul(digit, origins[step][i] - origins[0][i]))
    return origin[0], origin[1]
