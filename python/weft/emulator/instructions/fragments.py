"""Matrices in the registers of a warp's lanes. The layout defines which lane has which element."""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from weft.emulator.decoding.decode import Op
from weft.emulator.reading.syntax import Operand
from weft.emulator.reading.types import STORAGE, TYPES, Array, Bools
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.product_code import Places
from weft.emulator.running.register_block import RegisterBlock, getter
from weft.emulator.running.wave import Wave
from weft.emulator.watch import Marks
from weft.isa.family import Registers
from weft.layout import AXES, MEMORY, Layout

Index = npt.NDArray[np.intp]

_REGISTER = {"f64": "b64"}
# The bit of a byte at which a smaller element begins: e2m1 is in bits 5 to 2.
_SHIFT = {"e2m1": 2}


@cache
def fragment_index(layout: str, shape: tuple[int, ...]) -> Index:
    """The row-major matrix index of every element in the lanes, lane by lane in register order."""
    parsed = Layout.parse(layout)
    assert math.prod(shape) == parsed.size
    return np.concatenate([parsed.lane_indices(lane) for lane in range(32)]).astype(np.intp)


@cache
def matrix_index(layout: str, shape: tuple[int, ...], per_lane: int) -> Index:
    """The index of each matrix element (its first copy), in row-major order, among `per_lane` elements a
    lane.
    """
    parsed = Layout.parse(layout)
    assert math.prod(shape) == parsed.size and parsed.swizzle is None
    positions = parsed.first_positions()
    index = positions[:, AXES.index("laneid")] * per_lane + positions[:, AXES.index(MEMORY)]
    return index.astype(np.intp)


@cache
def _indices_by_register(layout: str, shape: tuple[int, ...], per_lane: int) -> tuple[Index, Index]:
    """As `fragment_index` and `matrix_index`, register by register, where an element is a register."""
    lane, register = np.divmod(matrix_index(layout, shape, per_lane), per_lane)
    return fragment_index(layout, shape).reshape(32, -1).T.reshape(-1), register * 32 + lane


class Fragment:
    """One operand of a matrix instruction: its registers, which contain a matrix of elements of `bits`.

    `name` is the elements' type, if their position in their `bits` depends on it; `layout` is used for an
    operand whose registers PTX leaves undefined.
    """

    def __init__(
        self,
        op: Op,
        operand: Operand,
        registers: Registers,
        bits: int,
        writes: bool,
        name: str = "",
        layout: str = "",
    ) -> None:
        items = op.items(operand)
        kind = TYPES[_REGISTER.get(registers.type, "b32")]
        if len(items) != registers.count:
            op.fail(
                f"expects {registers.count} {registers.name.upper()} registers, got {len(items)}",
                operand.location,
            )
        get = op.destination if writes else op.source
        self.slots = [get(item, kind) for item in items]
        self.shape = registers.shape
        self._words = kind.storage
        self._layout = layout or registers.layout
        self.storage = STORAGE[max(8, bits)]
        self._bits = bits
        self._shift = np.uint8(_SHIFT.get(name, 0) if bits == 8 else 0)
        self._held = fragment_index(self._layout, registers.shape)
        per_lane = registers.count * kind.bits // bits
        self._order = matrix_index(self._layout, registers.shape, per_lane)
        self._key = tuple(self.slots)
        self._get = getter(self._key)
        # An element is a register: then registers that were written together are read together.
        self._whole = bits == kind.bits == 32
        if self._whole:
            of_registers = _indices_by_register(self._layout, registers.shape, per_lane)
            self._held_by_register, self._order_by_register = of_registers

    def read(self, lanes: Lanes) -> Array:
        """The matrices of all warps, `[warps, *shape]`, as bits; elements smaller than a byte take one."""
        if self._whole and lanes.mask is None:
            return self._read_block(lanes)
        matrix = self._matrix([lanes.read(slot) for slot in self.slots])
        return matrix >> self._shift if self._shift else matrix

    def _matrix(self, registers: list[Array]) -> Array:
        stacked = np.stack(registers, axis=-1)
        flat = elements(stacked.reshape(len(stacked), -1), self._bits)
        return flat.take(self._order, axis=1).reshape(len(stacked), *self.shape)

    def marked(self, marks: Callable[[int], Bools]) -> Bools:
        """The elements in registers that are marked, `[warps, *shape]`."""
        none = np.zeros((), self._words)
        found: Bools = self._matrix([np.where(marks(slot), ~none, none) for slot in self.slots]) != 0
        return found

    def marks(self, matrix: Bools) -> Marks:
        """By register, the lanes that have one of these elements."""
        none = np.zeros((), self.storage)
        words = self._registers(np.where(matrix, ~none, none))
        return {slot: words[..., at] != 0 for at, slot in enumerate(self.slots)}

    def write(self, lanes: Lanes, matrix: Array) -> None:
        """Writes the elements of `[warps, *shape]` bits, in the form that `read` returns, to the
        registers.
        """
        if self._whole and lanes.mask is None:
            self._write_block(lanes, matrix)
            return
        words = self._registers(matrix)
        for at, slot in enumerate(self.slots):
            lanes.write(slot, np.ascontiguousarray(words[..., at]))

    def _registers(self, matrix: Array) -> Array:
        flat = np.ascontiguousarray(matrix).reshape(len(matrix), -1).take(self._held, axis=1)
        return _packed(flat, self._bits).view(self._words).reshape(len(matrix), 32, len(self.slots))

    def _block(self, lanes: Lanes) -> Array:
        """The registers of the wave, `[registers, all warps, 32]`."""
        regs, known = lanes.regs, lanes.wave.blocks.get(self._key)
        if known is not None and known.is_current(regs, self._get):
            return known.array
        return np.stack([regs[slot] for slot in self._key])

    def _read_block(self, lanes: Lanes) -> Array:
        block = self._block(lanes)
        if lanes.rows is not None:
            block = block[:, lanes.rows]
        flat = block.transpose(1, 0, 2).reshape(lanes.warps, -1)
        return flat.take(self._order_by_register, axis=1).reshape(lanes.warps, *self.shape)

    def _write_block(self, lanes: Lanes, matrix: Array) -> None:
        flat = np.ascontiguousarray(matrix).reshape(lanes.warps, -1).take(self._held_by_register, axis=1)
        words = flat.view(self._words).reshape(lanes.warps, len(self._key), 32).transpose(1, 0, 2)
        if lanes.rows is None:
            block = np.ascontiguousarray(words)
        else:
            block = self._block(lanes).copy()
            block[:, lanes.rows] = words
        self._put(lanes.wave, RegisterBlock(block))

    def _put(self, wave: Wave, block: RegisterBlock) -> None:
        for slot, register in zip(self._key, block.registers, strict=True):
            wave.regs[slot] = register
        wave.blocks[self._key] = block

    def block(self, wave: Wave) -> RegisterBlock:
        """The registers of the whole wave, which nothing else has, so that code may change them in place."""
        known, regs = wave.blocks.get(self._key), wave.regs
        if known is None or not known.is_current(regs, self._get) or known.is_shared:
            known = RegisterBlock(np.stack([regs[slot] for slot in self._key]))
            self._put(wave, known)
        return known

    def places(self, warps: int, count: int) -> Places:
        """Where the elements of the matrix of `count` warps, one below the other, are in an array
        `[registers, warps, 32]`, from the first of them on.
        """
        return _places(self._layout, self.shape, self._bits, 8 * self._words.itemsize, warps, count)


@cache
def _places(layout: str, shape: tuple[int, ...], bits: int, word: int, warps: int, count: int) -> Places:
    each = word // bits
    registers = len(Layout.parse(layout).lane_elements(0, shape)) // each
    lane, place = np.divmod(matrix_index(layout, shape, registers * each), registers * each)
    register, part = np.divmod(place, each)
    first = (register * warps * 32 + lane) * each + part
    every = (np.arange(count)[:, None] * 32 * each + first) * (bits if bits < 8 else 1)
    return Places(every.reshape(count * shape[0], *shape[1:]))


def elements(words: Array, bits: int) -> Array:
    """The elements of rows of words, the lowest bits first."""
    if bits >= 8:
        return words.view(STORAGE[bits])
    octets = words.view(np.uint8)
    if bits == 1:
        return np.unpackbits(octets, axis=1, bitorder="little")
    return np.stack([octets & np.uint8(15), octets >> np.uint8(4)], axis=-1).reshape(len(words), -1)


def _packed(items: Array, bits: int) -> Array:
    """The inverse of `elements`, for elements that are smaller than a byte."""
    if bits >= 8:
        return items
    if bits == 1:
        return np.packbits(items, axis=1, bitorder="little")
    packed: Array = items[:, ::2] | items[:, 1::2] << np.uint8(4)
    return packed
