"""The `tcgen05.ld` and `tcgen05.st` that move a fragment from and to a buffer in tensor memory: the fewest
that its layouts allow.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.dialects import tcgen05, tile
from weft.dialects.op import refuse
from weft.isa.chips import LANES
from weft.isa.tcgen05 import copy as isa
from weft.isa.tcgen05.copy import COUNTS
from weft.isa.tcgen05.tensor_layouts import COLUMN_BITS, LANE_SHIFT, PART
from weft.layout import AXES, Layout
from weft.layout.iterators import point_table
from weft.mlir import arith, ir, vector
from weft.passes.analysis import uniformity
from weft.passes.analysis.uniformity import Scope
from weft.passes.builders import addresses, emit, tensor_memory_tiles, thread_ids
from weft.passes.builders.instructions import assembly
from weft.passes.registry import remarks

Table = npt.NDArray[np.int64]

_LANE, _COLUMN = AXES.index("TLane"), AXES.index("TCol")
_AT_ONCE = 64
"""The most registers of one instruction. ptxas refuses 128 in a kernel of 512 threads, which have as many."""
_PACKABLE = 16  # the bits of elements that one register can take from two columns


@dataclass(frozen=True)
class Words:
    """How a lane's elements form registers, and the cells of each warp: lane and column.

    A register holds the elements of one column, with `packed` the low halves of two columns, and with
    `narrow` one element, the low bits of a column. `cells` is `[warps, 32, units, 2]`: one unit for each
    register, or for each half with `packed`.
    """

    cells: Table
    packed: bool = False
    narrow: bool = False

    @property
    def registers(self) -> int:
        """The registers of a lane."""
        units = int(self.cells.shape[2])
        return units // 2 if self.packed else units


@dataclass(frozen=True)
class Move:
    """One instruction: its first cell and the fragment's register for each of its registers. `offset` is that
    of 16x32bx2.
    """

    shape: str
    num: int
    lane: int
    column: int
    registers: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True)
class Plan:
    """The instructions that move a fragment, and why other shapes don't (or take more instructions)."""

    words: Words
    moves: tuple[Move, ...]
    others: tuple[tuple[str, str], ...]


def plan(fragment: ir.Type, buffer: ir.Type) -> Plan | str:
    """How a fragment is moved from or to a buffer of these types, at coordinates that are multiples of its
    shape; a complaint, to follow "expects", if no instruction does.
    """
    return _plan(fragment.layout, fragment.shape, buffer.layout, buffer.shape, buffer.element_bits)


@lru_cache(maxsize=256)
def _plan(
    fragment: Layout, shape: tuple[int, ...], buffer: Layout, outer: tuple[int, ...], bits: int
) -> Plan | str:
    if wrong := _copies_complaint(fragment, buffer):
        return wrong
    # The lane and column, in elements, that each row and each column of a buffer adds: `[extent, 2]`.
    rows, columns = (point_table(group)[:, [_LANE, _COLUMN]] for group in buffer.group(outer))
    if wrong := _uneven((rows, columns), shape, bits):
        return wrong
    points = point_table(fragment.shard)
    warp, lane, *_, register = points.T
    warps, registers = fragment.span("warpid"), fragment.span("m")
    held = np.zeros((warps, LANES, registers, 2), np.int64)
    row, column = np.unravel_index(np.arange(fragment.size), tuple(shape))
    held[warp, lane, register] = rows[row] + columns[column]
    words = _words(held, bits)
    if isinstance(words, str):
        return words
    if wrong := _foreign(words.cells):
        return wrong
    found, refused = dict[str, tuple[Move, ...]](), list[tuple[str, str]]()
    for name in isa.SHAPES:
        moves = _moves(name, words)
        if isinstance(moves, str):
            refused.append((name, moves))
        else:
            found[name] = moves
    if not found:
        reasons = "; ".join(f"{name} {reason}" for name, reason in refused)
        return f"a fragment that an instruction moves: {reasons}"
    best = min(found, key=lambda name: len(found[name]))
    more = [(name, f"takes {len(moves)} instructions") for name, moves in found.items() if name != best]
    return Plan(words, found[best], tuple(more + refused))


def _copies_complaint(fragment: Layout, buffer: Layout) -> str | None:
    """Why warps can't each have a copy of the buffer in their own lanes."""
    if not buffer.has_replica:
        return None
    if fragment.span("warpid") > 1:
        return f"a fragment of one warp for a buffer with copies, got layout {fragment}"
    if any(it.extent > 1 and (it.axis != "TLane" or it.stride % PART) for it in buffer.replica):
        return f"copies in the lanes of other warps, {PART} lanes apart or more, got layout {buffer}"
    return None


def _uneven(axes: tuple[Table, Table], shape: Sequence[int], bits: int) -> str | None:
    """A complaint if parts of this shape aren't alike, or don't begin at whole columns."""
    for table, extent in zip(axes, shape, strict=True):
        parts = table.reshape(-1, extent, 2)
        starts = parts[:, :1]
        if (parts - starts != parts[0] - starts[0]).any():
            return f"parts of shape {list(shape)} of one layout in the buffer"
        if (starts[..., 1] * bits % COLUMN_BITS).any():
            return f"parts of shape {list(shape)} that begin at whole columns of {COLUMN_BITS} bits"
    return None


def _words(held: Table, bits: int) -> Words | str:
    """How elements form registers: those of one column; halves of two columns; or one element."""
    cells = held.copy()
    cells[..., 1] = held[..., 1] * bits // COLUMN_BITS
    offset = held[..., 1] * bits % COLUMN_BITS
    per = COLUMN_BITS // bits
    if held.shape[2] % per == 0:
        groups = cells.reshape(*cells.shape[:2], -1, per, 2)
        inside = offset.reshape(*groups.shape[:4])
        if (groups == groups[..., :1, :]).all() and (inside == np.arange(per) * bits).all():
            return Words(groups[..., 0, :])
    if offset.any():
        return f"registers of {per} elements that are one column of the buffer"
    if bits == _PACKABLE and held.shape[2] % 2 == 0:
        pairs = cells.reshape(*cells.shape[:2], -1, 2, 2)
        if (pairs[..., 1, :] - pairs[..., 0, :] == (0, 1)).all():
            return Words(cells, packed=True)
    return Words(cells, narrow=True)


def _foreign(cells: Table) -> str | None:
    """A complaint where a warp needs lanes other than its own."""
    warps = cells.shape[0]
    own = cells[:1] + np.array([(PART * warp, 0) for warp in range(warps)])[:, None, None]
    if (own == cells).all():
        return None
    at = int((own != cells).any(axis=(1, 2, 3)).argmax())
    lane, column = cells[at, 0, 0]
    want = f"lane {own[at, 0, 0, 0]}, column {own[at, 0, 0, 1]}"
    return (
        f"warps whose parts are {PART} lanes apart, got that of warp {at} at lane {lane}, column {column} "
        f"instead of {want}"
    )


@lru_cache(maxsize=128)
def _form_cells(shape: str, num: int, packed: bool) -> Table | None:
    """The row, column and half (of 16x32bx2) of each lane's units: `[32, units, 3]`. None if there is no such
    form.
    """
    form = isa.Ld(shape, num, packed)
    if form not in isa.LD.table:
        return None
    data = form.operands[0]
    layout = Layout.parse(data.layout)
    points = point_table(layout.shard)
    lane, unit = points[:, AXES.index("laneid")], points[:, AXES.index("m")]
    coordinates = np.unravel_index(np.arange(layout.size), data.shape)
    half, row, column = coordinates if len(coordinates) == 3 else (np.zeros_like(lane), *coordinates)
    cells = np.zeros((LANES, int(unit.max()) + 1, 3), np.int64)
    cells[lane, unit] = np.stack([row, column, half], axis=-1)
    return cells


def _moves(shape: str, words: Words) -> tuple[Move, ...] | str:
    """The instructions of one shape that move all registers, each as wide as possible; or why it can't."""
    cells = words.cells[0]
    free = {(int(lane), int(column)): unit for unit, (lane, column) in enumerate(cells[0])}
    moves = list[Move]()
    while free:
        first = min(free)
        move = next((m for num in COUNTS[::-1] if (m := _move(shape, num, words, free, first))), None)
        if move is None:
            return _mismatch(shape, words, free, first)
        moves.append(move)
    return tuple(moves)


def _move(
    shape: str, num: int, words: Words, free: dict[tuple[int, int], int], first: tuple[int, int]
) -> Move | None:
    """The instruction whose first cell is `first`, if all of its registers are in the fragment; takes these
    from those that are `free`.
    """
    form, cells = _form_cells(shape, num, words.packed), words.cells[0]
    step = 2 if words.packed else 1
    if form is None or form.shape[1] > min(len(free), _AT_ONCE * step):
        return None
    at = [(first[0] + int(row), first[1] + int(column)) for row, column, _ in form[0]]
    if any(cell not in free for cell in at):
        return None
    units = [free[cell] for cell in at]
    offset = _offset(shape, cells, units[0], form)
    target = form[..., :2] + first
    target[..., 1] += form[..., 2] * offset
    if offset < 0 or (cells[:, units] != target).any():
        return None
    pairs = zip(units[::2], units[1::2], strict=True) if words.packed else ()
    if any(low % 2 or high != low + 1 for low, high in pairs):
        return None  # halves of two registers
    for lane, column in cells[0, units]:
        del free[int(lane), int(column)]
    return Move(shape, num, *first, tuple(unit // step for unit in units[::step]), offset)


def _offset(shape: str, cells: Table, unit: int, form: Table) -> int:
    """The columns between the halves of 16x32bx2: the distance of the same register in another half."""
    if not form[..., 2].any():
        return 0
    other = int(form[:, 0, 2].argmax())
    return int(cells[other, unit, 1] - cells[0, unit, 1])


def _mismatch(shape: str, words: Words, free: dict[tuple[int, int], int], first: tuple[int, int]) -> str:
    """Why the smallest instruction of a shape can't begin at a cell."""
    form, cells = _form_cells(shape, 1, words.packed), words.cells[0]
    if form is None:
        return "has no such form"
    for number, (row, column, _) in enumerate(form[0]):
        cell = first[0] + int(row), first[1] + int(column)
        if cell not in free:
            return f"needs lane {cell[0]}, column {cell[1]} in register {number} of thread 0"
    units = [free[first[0] + int(row), first[1] + int(column)] for row, column, _ in form[0]]
    offset = max(_offset(shape, cells, units[0], form), 0)
    target = form[..., :2] + first
    target[..., 1] += form[..., 2] * offset
    thread, number = np.argwhere((cells[:, units] != target).any(axis=-1))[0]
    want, got = target[thread, number], cells[thread, units[number]]
    return (
        f"needs lane {want[0]}, column {want[1]} in register {units[number]} of thread {thread}, which has "
        f"lane {got[0]}, column {got[1]}"
    )


def load(op: ir.OpView) -> ir.Value:
    """The fragment of a `tile.load` from tensor memory."""
    kind = op.fragment.type
    chosen = _chosen(op, op.source.type, kind, "ld")
    words: list[Any] = [None] * chosen.words.registers
    for move, address in _addressed(op, op.source, chosen, kind):
        data = tcgen05.ld(address=address, **_attributes(move), **_flag("pack", chosen))
        for register, word in zip(move.registers, emit.elements(data), strict=True):
            words[register] = word
    tcgen05.wait(kind="ld")
    # LLVM doesn't know that the registers are undefined before the wait.
    kinds = ["i32"] * len(words)
    letters = [*("=r" for _ in words), *(str(i) for i in range(len(words)))]
    return tile.from_lane(_elements(assembly("", letters, words, kinds), kind, chosen), kind)


def store(op: ir.OpView) -> None:
    """A `tile.store` to tensor memory."""
    kind = op.fragment.type
    chosen = _chosen(op, op.destination.type, kind, "st")
    lane = tile.to_lane(op.fragment)
    bits, stored = kind.element_type.width, stored_lane(kind)
    lane = lane if stored == kind.lane_type else arith.bitcast(stored, lane)
    count = kind.registers if chosen.words.narrow else kind.registers * bits // COLUMN_BITS
    word = ir.IntegerType.get_signless(bits if chosen.words.narrow else COLUMN_BITS)
    words = emit.elements(vector.bitcast(ir.VectorType.get([count], word), lane))
    words = [arith.extui(emit.i32(), each) for each in words] if chosen.words.narrow else words
    for move, address in _addressed(op, op.destination, chosen, kind):
        data = [words[register] for register in move.registers]
        packed = data[0] if len(data) == 1 else emit.vector_of(data)
        tcgen05.st(address=address, data=packed, **_attributes(move), **_flag("unpack", chosen))
    tcgen05.wait(kind="st")


def _chosen(op: ir.OpView, buffer: ir.Type, fragment: ir.Type, instruction: str) -> Plan:
    """The plan of a copy, which a remark names. Raises WeftError if there is none."""
    thread_ids.threads_of(op)
    uniformity.require(op, Scope.WARP)
    found = plan(fragment, buffer)
    if isinstance(found, str):
        raise refuse(op, f"expects {found}")
    remarks.explain(op, lambda: _path(found, instruction))
    return found


def _path(chosen: Plan, instruction: str) -> remarks.Path:
    """Which instructions move a fragment, and why there are no wider ones."""
    taken = Counter(f"tcgen05.{instruction}.{move.shape}.x{move.num}" for move in chosen.moves)
    notes = [f"{name} {reason}" for name, reason in chosen.others]
    shape, registers = chosen.moves[0].shape, chosen.words.registers
    if (wider := 2 * max(move.num for move in chosen.moves)) in COUNTS and isa.Ld(
        shape, wider
    ) in isa.LD.table:
        per = len(chosen.moves[0].registers) // chosen.moves[0].num
        reason = f"moves {per * wider} registers, the fragment has {registers}"
        if per * wider <= registers:
            reason = "needs more columns that follow each other"
            if per * wider > _AT_ONCE:
                reason = f"has more than {_AT_ONCE} registers"
        notes.insert(0, f"{shape}.x{wider} {reason}")
    listed = " and ".join(f"{count} x {name}" for name, count in taken.items())
    return listed, [f"tcgen05.{instruction}.{note}" for note in notes]


def _addressed(
    op: ir.OpView, buffer: ir.Value, chosen: Plan, fragment: ir.Type
) -> Iterator[tuple[Move, ir.Value]]:
    """Each instruction with its address. Warps of a warpgroup have lanes of their own, and copies in them."""
    groups = buffer.type.layout.group(buffer.type.shape)
    base = addresses.offset(
        tile.address(buffer),
        tensor_memory_tiles.offset(buffer.type, tuple(zip((op.row, op.column), groups, strict=True))),
    )
    part = PART << LANE_SHIFT
    if fragment.warps > 1:
        base = addresses.offset(base, emit.mul(thread_ids.warp(), part))
    for it in buffer.type.layout.canonical().replica:
        copy = emit.rem(emit.div(thread_ids.warp(), it.stride // PART), it.extent)
        base = addresses.offset(base, emit.mul(copy, it.stride // PART * part))
    for move in chosen.moves:
        yield move, addresses.offset(base, (move.lane << LANE_SHIFT) + move.column)


def _attributes(move: Move) -> dict[str, Any]:
    return {"shape": move.shape, "num": move.num, "offset": move.offset}


def _flag(name: str, chosen: Plan) -> dict[str, Any]:
    return {name: True} if chosen.words.packed else {}


def _elements(words: list[ir.Value], kind: ir.Type, chosen: Plan) -> ir.Value:
    """A lane's elements from its registers."""
    if chosen.words.narrow:
        narrow = ir.IntegerType.get_signless(kind.element_type.width)
        words = [arith.trunci(narrow, word) for word in words]
    stored = stored_lane(kind)
    lane = vector.bitcast(stored, emit.vector_of(words))
    return lane if stored == kind.lane_type else arith.bitcast(kind.lane_type, lane)


def stored_lane(kind: ir.Type) -> ir.Type:
    """A lane's elements as LLVM has them."""
    return ir.VectorType.get(kind.lane_type.shape, addresses.stored_type(kind.element_type))
