"""Matrices in the registers of a warp's lanes. The layout defines which lane has which element.

The metadata of a sparse A, which gives the positions of the stored elements in their chunks.
"""

import math
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from operator import is_

import numpy as np
import numpy.typing as npt

from weft.emulator.decoding.decode import Op
from weft.emulator.instructions.shared_operand import gathered
from weft.emulator.reading.syntax import STORAGE, TYPES, U32, Array, Bools, Operand
from weft.emulator.running.function_code import Places, RegisterBlock, getter
from weft.emulator.running.lanes import Lanes
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
    """The index of each matrix element's first copy, row-major, among `per_lane` elements a lane."""
    parsed = Layout.parse(layout)
    assert math.prod(shape) == parsed.size and parsed.swizzle is None
    positions = parsed.first_positions()
    index = positions[:, AXES.index("laneid")] * per_lane + positions[:, AXES.index(MEMORY)]
    return index.astype(np.intp)


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
        self._key = tuple(self.slots)
        self._get = getter(self._key)

    def read(self, lanes: Lanes) -> Array:
        """The matrices of all warps, `[warps, *shape]`, as bits; elements smaller than a byte take one."""
        matrix = self._matrix(np.stack([lanes.read(slot) for slot in self.slots]))
        return matrix >> self._shift if self._shift else matrix

    def _matrix(self, registers: Array) -> Array:
        """The matrices in registers `[registers, warps, 32]`."""
        warps = registers.shape[1]
        octets = np.ascontiguousarray(registers).view(np.uint8).reshape(1, -1)
        return gathered(octets, self.places(warps, warps)).reshape(warps, *self.shape)

    def marked(self, marks: Callable[[int], Bools]) -> Bools:
        """The elements in registers that are marked, `[warps, *shape]`."""
        none = np.zeros((), self._words)
        found: Bools = self._matrix(np.stack([np.where(marks(at), ~none, none) for at in self.slots])) != 0
        return found

    def marks(self, matrix: Bools) -> Marks:
        """By register, the lanes that have one of these elements."""
        none = np.zeros((), self.storage)
        words = self._registers(np.where(matrix, ~none, none))
        return {slot: words[..., at] != 0 for at, slot in enumerate(self.slots)}

    def write(self, lanes: Lanes, matrix: Array) -> None:
        """Writes elements `[warps, *shape]`, in the form that `read` returns, to the registers."""
        words = self._registers(matrix)
        for at, slot in enumerate(self.slots):
            lanes.write(slot, np.ascontiguousarray(words[..., at]))

    def _registers(self, matrix: Array) -> Array:
        flat = np.ascontiguousarray(matrix).reshape(len(matrix), -1).take(self._held, axis=1)
        return _packed(flat, self._bits).view(self._words).reshape(len(matrix), 32, len(self.slots))

    def block(self, wave: Wave) -> RegisterBlock:
        """The registers of the whole wave, which nothing else has, so that code may change them in place."""
        known, regs = wave.blocks.get(self._key), wave.regs
        if known is None or not all(map(is_, known.registers, self._get(regs))) or known.is_shared:
            known = wave.blocks[self._key] = RegisterBlock(np.stack([regs[slot] for slot in self._key]))
            for slot, register in zip(self._key, known.registers, strict=True):
                regs[slot] = register
        return known

    def places(self, warps: int, count: int) -> Places:
        """Where elements of `count` warps' matrices, one below the other, are in `[registers, warps, 32]`."""
        return _places(self._layout, self.shape, self._bits, 8 * self._words.itemsize, warps, count)


@lru_cache(256)
def _places(layout: str, shape: tuple[int, ...], bits: int, word: int, warps: int, count: int) -> Places:
    each = word // bits
    registers = len(Layout.parse(layout).lane_elements(0, shape)) // each
    lane, place = np.divmod(matrix_index(layout, shape, registers * each), registers * each)
    register, part = np.divmod(place, each)
    first = (register * warps * 32 + lane) * each + part
    every = (np.arange(count)[:, None] * 32 * each + first) * (bits if bits < 8 else 1)
    return Places(every.reshape(count * shape[0], *shape[1:]), bits=bits)


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


_METADATA_BITS = 4


class Chosen:
    """A register of some lanes of each quad: `width` lanes, from number `chosen * width` on."""

    def __init__(self, op: Op, operand: Operand, registers: Registers, chosen: int, width: int) -> None:
        items = op.items(operand)
        if len(items) != 1:
            op.fail(f"expects one {registers.name} register, got {len(items)}", operand.location)
        self._slot = op.source(items[0], TYPES["b32"])
        self._registers, self._chosen, self._width = registers, chosen, width
        own = np.arange(32) & 3 < width
        op.sources.append((self._slot, lambda read: np.where(own, self._sources(read), -1)))

    def _sources(self, read: Callable[[int], Array]) -> Array:
        """The lane whose register each lane needs, if the first lanes of the quads need them."""
        first = read(self._chosen).astype(np.intp) * self._width
        lane = np.arange(32)
        sources: Array = (lane & ~3) | ((lane + first) & 3)
        return sources

    def words(self, lanes: Lanes) -> Array:
        """The register as if the first lanes of the quads provided it, `[warps, 32]`."""
        return np.take_along_axis(lanes.read(self._slot), self._sources(lanes.read), axis=1)

    def read(self, lanes: Lanes, bits: int) -> Array:
        """The matrix of elements of `bits`."""
        flat = elements(self.words(lanes), bits)
        order = matrix_index(self._registers.layout, self._registers.shape, 32 // bits)
        return flat.take(order, axis=1).reshape(lanes.warps, *self._registers.shape)


class Sparse:
    """Expands a sparse A of depth `k`, by chunks of `chunk` elements."""

    def __init__(
        self, op: Op, placed: Mapping[str, Operand], operands: Mapping[str, Registers], k: int, chunk: int
    ) -> None:
        self._k, self._chunk = k, chunk
        selector = op.source(placed["selector"], U32)
        width = 4 // len(operands["selector"].values)
        self._metadata = Chosen(op, placed["metadata"], operands["metadata"], selector, width)

    def expanded(self, lanes: Lanes, stored: Array) -> tuple[Array, Bools]:
        """The matrices with their zeros, `[warps, m, k]`, and the positions at which nothing is stored."""
        codes = self._metadata.read(lanes, _METADATA_BITS)[:, :, : self._k // self._chunk]
        return expanded(stored, codes, self._chunk)


def expanded(stored: Array, codes: Array, chunk: int) -> tuple[Array, Bools]:
    """Matrices with their zeros, `[n, m, k]`, and the positions at which nothing is stored, from `stored`,
    `[n, m, k / 2]`, and the codes of the chunks, `[n, m, k / chunk]`.
    """
    codes = codes.astype(np.intp)
    inside = np.stack([codes & 3, codes >> 2], axis=-1)  # the position of a stored element in its chunk
    if chunk == 2:
        inside = inside[..., 1:] >> 1
    elif chunk != 4:
        inside = np.stack([2 * inside, 2 * inside + 1], axis=-1).reshape(*codes.shape, 4)
    positions = (np.arange(codes.shape[2]) * chunk)[:, None] + inside
    count, rows = stored.shape[:2]
    dense = np.zeros((count, rows, codes.shape[2] * chunk), stored.dtype)
    absent = np.ones(dense.shape, np.bool_)
    positions = positions.reshape(count, rows, -1)
    np.put_along_axis(dense, positions, stored, axis=2)
    np.put_along_axis(absent, positions, False, axis=2)
    return dense, absent
