"""The metadata of a sparse A, which gives the positions of the stored elements in their chunks."""

from collections.abc import Callable, Mapping

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.instructions.fragments import elements, matrix_index
from weft.emulator.reading.syntax import Operand
from weft.emulator.reading.types import TYPES, U32, Array, Bools
from weft.emulator.running.lanes import Lanes
from weft.isa.family import Registers

_METADATA_BITS = 4


class Chosen:
    """A register that only some lanes of each quad provide: `width` lanes, from number `chosen *
    width` on.
    """

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
    positions = (np.arange(codes.shape[2]) * chunk)[:, None] + _inside(codes, chunk)
    count, rows = stored.shape[:2]
    dense = np.zeros((count, rows, codes.shape[2] * chunk), stored.dtype)
    absent = np.ones(dense.shape, np.bool_)
    positions = positions.reshape(count, rows, -1)
    np.put_along_axis(dense, positions, stored, axis=2)
    np.put_along_axis(absent, positions, False, axis=2)
    return dense, absent


def _inside(codes: Array, chunk: int) -> Array:
    """The position of each stored element in its chunk, `[..., stored in a chunk]`."""
    pair = np.stack([codes & 3, codes >> 2], axis=-1)
    if chunk == 2:
        return pair[..., 1:] >> 1
    if chunk == 4:
        return pair
    return np.stack([2 * pair, 2 * pair + 1], axis=-1).reshape(*codes.shape, 4)
