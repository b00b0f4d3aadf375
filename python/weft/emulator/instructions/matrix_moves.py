"""`ldmatrix`, `stmatrix` and `movmatrix`: small matrices between shared memory and the lanes of a warp."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from weft.emulator.decoding.decode import AddressOf, Op
from weft.emulator.decoding.table import Collective, Table, computing
from weft.emulator.instructions.fragments import Index, fragment_index, matrix_index
from weft.emulator.instructions.mma import legal_form
from weft.emulator.instructions.shared_operand import PACKED, unpacked
from weft.emulator.reading.syntax import STORAGE, U32, Array, Bools
from weft.emulator.running.lanes import Lanes
from weft.emulator.watch import ROWS, Marks
from weft.isa.mma import matrix_moves

table = Table()
_EVERY = np.uint32(0xFFFFFFFF)
_ROW = 16
"""Bytes of a row of a matrix in memory, padding included."""
_PARTS = {0: ((0, _ROW),), 4: ((0, 8),), 6: ((0, 8), (8, 4))}
"""Where a row is read and how many bytes there, by the bits of packed elements: what follows these may never
have been written.
"""


@table.collective("ldmatrix")
def ldmatrix(op: Op) -> Collective:
    form = legal_form(op, (matrix_moves.LDMATRIX,))
    op.count(2)
    address, line = op.address(1, form.space), op.line
    matrices = form.operands[0]
    slots = op.registers(0, U32, matrices.count, writes=True)
    held = fragment_index(*_one(form))
    rows = _rows(op, address, matrices.shape[0] * matrices.shape[1])
    packed = PACKED.get(form.type.removeprefix("b8x16."))
    bits = packed[0] if packed else 0
    parts = _PARTS[bits]
    in_order = np.array_equal(held, np.arange(len(held))) and not bits
    used = np.arange(32) < rows
    storage = np.uint16 if form.type == "b16" else np.uint8

    def run(lanes: Lanes) -> None:
        reading = lanes if rows == 32 else lanes.narrowed(lanes.enabled() & used)
        memory, start = lanes.wave.memory, address(lanes)
        if bits:
            memory.check_alignment(reading, address.space, start, _ROW, line)
        loaded = [
            memory.load(reading, address.space, start + np.uint64(at), width, line)
            .view(np.uint8)
            .reshape(lanes.warps, 32, width)[:, :rows]
            for at, width in parts
        ]
        octets: Array = loaded[0] if len(loaded) == 1 else np.concatenate(loaded, axis=2)
        if bits:
            # In the low bits of its byte, although mma.sync reads it from bits 2 to 5 (e2m1).
            octets = unpacked(np.pad(octets, ((0, 0), (0, 0), (0, _ROW - octets.shape[2]))), bits)
        for slot, words in arranged(octets).items():
            lanes.write(slot, words)

    def arranged(octets: Array) -> dict[int, Array]:
        """The registers of rows `[warps, rows, 16]`."""
        if not in_order:
            elements = octets.reshape(len(octets), -1).view(storage)
            octets = elements.reshape(len(octets), form.num, -1).take(held, axis=2)
        # A lane's registers of one matrix are adjacent.
        words = np.ascontiguousarray(octets).view(np.uint32).reshape(len(octets), form.num, 32, -1)
        places = (divmod(at, words.shape[3]) for at in range(len(slots)))
        return {
            slot: np.ascontiguousarray(words[:, matrix, :, part])
            for slot, (matrix, part) in zip(slots, places, strict=True)
        }

    def spread(marks: Callable[[int], Bools]) -> Marks:
        octets = np.repeat(marks(ROWS)[:, :rows, None].astype(np.uint8), _ROW, axis=2)
        return {slot: words != 0 for slot, words in arranged(octets).items()}

    op.spread = spread
    return Collective(run)


def _one(form: Any) -> tuple[str, tuple[int, ...]]:
    """Layout and shape of one matrix in the registers."""
    alone = next(o for o in replace(form, num=1).operands if o.name != "address")
    return alone.layout, alone.shape[1:]


@cache
def _positions(layout: str, shape: tuple[int, ...]) -> Index:
    return matrix_index(layout, shape, shape[0] * shape[1] // 32)


def _rows(op: Op, address: AddressOf, rows: int) -> int:
    """The number of rows, whose addresses as many lanes have."""
    lane = np.arange(32)
    op.sources.append((address.base, lambda _: np.where(lane < rows, lane, -1)))
    return rows


@table.collective("stmatrix")
def stmatrix(op: Op) -> Collective:
    """The inverse of `ldmatrix`."""
    form = legal_form(op, (matrix_moves.STMATRIX,))
    op.count(2)
    address, line = op.address(0, form.space), op.line
    slots = op.registers(1, U32, form.operands[1].count)
    order = _positions(*_one(form))
    rows = _rows(op, address, form.num * 8)
    used = np.arange(32) < rows
    storage = np.uint16 if form.type == "b16" else np.uint8

    def run(lanes: Lanes) -> None:
        value = arranged([lanes.read(slot) for slot in slots]).view(STORAGE[128])[..., 0]
        writing = lanes if rows == 32 else lanes.narrowed(lanes.enabled() & used)
        lanes.wave.memory.store(writing, address.space, address(lanes), value, _ROW, line)

    def arranged(registers: list[Array]) -> Array:
        """The rows of registers, `[warps, 32, 16]`."""
        words = np.stack(registers, axis=1)
        elements = words.reshape(len(words), form.num, 32).view(storage).take(order, axis=2)
        octets = np.zeros((len(words), 32, _ROW), np.uint8)
        octets[:, :rows] = elements.view(np.uint8).reshape(len(words), rows, _ROW)
        return octets

    def spread(marks: Callable[[int], Bools]) -> Marks:
        octets = arranged([np.where(marks(slot), _EVERY, np.uint32(0)) for slot in slots])
        return {ROWS: np.logical_or.reduce(octets, axis=2) != 0}

    op.spread = spread
    return Collective(run)


@table.collective("movmatrix")
def movmatrix(op: Op) -> Collective:
    """Transposes the 8x8 matrix in the lanes."""
    legal_form(op, (matrix_moves.MOVMATRIX,))
    plain, transposed = (matrix_moves.Ldmatrix("m8n8", 1, trans) for trans in (False, True))
    order = _positions(*_one(plain))[fragment_index(*_one(transposed))]

    def function(words: Array) -> Array:
        return words.view(np.uint16).take(order, axis=1).view(np.uint32)

    return Collective(computing(op, function, U32, U32))
