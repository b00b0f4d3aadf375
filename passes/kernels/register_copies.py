"""Copies of tiles from global to shared memory through registers, for chips without `cp.async`: vectors of 16
bytes, which are loaded before the products of the previous K block and stored after them.
"""

from contextlib import nullcontext
from dataclasses import dataclass

from weft.dialects import tile
from weft.dialects.tile import FragmentType
from weft.isa.chips import LANES
from weft.mlir import ir
from weft.passes.builders import emit
from weft.passes.kernels.matrices import VECTOR_BYTES, element_bytes


@dataclass(frozen=True)
class RegisterCopy:
    """How the warps of a CTA copy tiles of a matrix into the stages of a buffer, each warp some rows.

    `width` is how many elements of a row are contiguous in the buffer: a power of two, at least 16 bytes.
    """

    matrix: ir.Value
    buffer: ir.Value
    width: int
    warps: int

    @property
    def _vector(self) -> int:
        """Elements that a lane moves at once."""
        return VECTOR_BYTES // element_bytes(self.matrix)

    @property
    def _lanes_of_row(self) -> int:
        return self.width // self._vector

    @property
    def _rows(self) -> int:
        """Rows that a warp copies: as few as let the warps cover the tile."""
        total, at_once = self.buffer.type.shape[1], LANES // self._lanes_of_row
        units = total // at_once
        return at_once * next(n for n in range(1, units + 1) if units % n == 0 and n * self.warps >= units)

    @property
    def _fragment(self) -> ir.Type:
        """The fragment that a warp holds."""
        return self._in_vectors(self._vector)

    def _in_vectors(self, width: int) -> ir.Type:
        """A fragment of vectors of a row: each lane has as many as in the tile, of so many elements."""
        panels, across = self.buffer.type.shape[2] // self.width, self._lanes_of_row
        at_once = LANES // across
        layout = (
            f"S[({self._rows // at_once},{at_once},{panels},{across},{width}):"
            f"({panels * width},{across}@laneid,{width},1@laneid,1)]"
        )
        return FragmentType.of((self._rows, panels * across * width), self.matrix.type.element_type, layout)

    def load(self, row: ir.Value, column: ir.Value, warp: ir.Value) -> ir.Value:
        """The warp's part of the tile at (`row`, `column`) of the matrix. What is outside is zero."""
        start = emit.value(emit.add(row, emit.mul(warp, self._rows)))
        return tile.load(self.matrix, start, emit.value(column), self._fragment, vector_bytes=VECTOR_BYTES)

    def store(self, loaded: ir.Value, stage: ir.Value | int, warp: ir.Value) -> None:
        """Stores a loaded part to its rows of a stage. Warps beyond the last row store nothing."""
        row, rows = emit.mul(warp, self._rows), self.buffer.type.shape[1]
        target, covered = tile.stage(self.buffer, emit.value(stage)), self.warps * self._rows == rows
        with nullcontext() if covered else emit.when(emit.less(row, rows)):
            tile.store(loaded, target, emit.value(row), emit.value(0), vector_bytes=VECTOR_BYTES)
