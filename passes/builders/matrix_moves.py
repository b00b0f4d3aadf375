"""The moves by `ldmatrix` and `stmatrix` between a fragment's registers and a buffer in shared memory: each
register holds 32 bits of a row of an 8x8 matrix of 16-bit elements, or what such a row has of other elements.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from weft.dialects import tile
from weft.dialects.op import refuse
from weft.dialects.tile import LoadOp, StoreOp
from weft.isa.mma.fragments import REGISTER_BITS
from weft.isa.mma.matrix_moves import UNPACKED, UNPACKED_SHIFT
from weft.layout import LayoutError
from weft.mlir import ir
from weft.passes.analysis import uniformity
from weft.passes.analysis.uniformity import Scope
from weft.passes.builders import addresses, emit, fragment_coordinates, thread_ids
from weft.passes.builders.shared_tiles import SharedTile, split_point

MATRIX = 8  # rows of the matrix that one register's move brings


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
        _, by_column = fragment_coordinates.matrices(kind.layout, kind.shape, REGISTER_BITS // bits)
    except LayoutError as error:
        return f"needs lanes that hold as many elements each: {error.diagnostics[0].message}"
    if by_column is None:
        return f"needs registers that hold rows of 8x8 matrices, got {kind.layout}"
    if by_column != transposes(op):
        return f"needs rows of the buffer in a register: it transposes elements of 16 bits only, got {bits}"
    inner = fragment_coordinates.elements_of_row(bits)
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
    if wrong := shared.run_complaint(fragment_coordinates.elements_of_row(kind.element_type.width)):
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
    digits = fragment_coordinates.lane_digits(kind.layout, kind.shape) or ((), ())
    of_warps = [tuple(d for d in each if d.axis == "warpid") for each in digits]
    possible = [
        {sum(w // d.stride % d.extent * d.weight for d in each) for w in range(kind.warps)}
        for each in of_warps
    ]
    starts = [fragment_coordinates.lane_coordinate(each) for each in of_warps]
    order = (1, 0) if swap else (0, 1)
    return (starts[order[0]], starts[order[1]]), possible[order[0]], possible[order[1]]


def _matrices(op: Any, kind: ir.Type) -> tuple[Sequence[tuple[int, int]], bool]:
    """The first row and column of each register's matrix, and whether ldmatrix transposes."""
    pack = REGISTER_BITS // kind.element_type.width
    if kind.registers % pack:
        raise refuse(op, f"expects a fragment of 16-bit elements in pairs, got {kind}")
    try:
        origins, by_column = fragment_coordinates.matrices(kind.layout, kind.shape, pack)
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
    origin: list[Any] = [0, 0]
    for step, bit in ((1, 3), (2, 4)):
        if step < len(origins):
            digit = emit.bit_and(emit.shift_right(lane, bit), 1)
            for i in range(2):
                origin[i] = emit.add(origin[i], emit.mul(digit, origins[step][i] - origins[0][i]))
    return origin[0], origin[1]
