"""Copies of tiles from global to shared memory through registers, for chips without `cp.async`: vectors of 16
bytes, which are loaded before the products of the previous K block and stored after them.
"""

from dataclasses import dataclass

from weft.dialects import tile
from weft.dialects.tile import FragmentType
from weft.isa.chips import LANES
from weft.layout import Layout
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
        """The fragment that a warp holds: each lane has vectors of a row."""
        columns, vector, across = self.buffer.type.shape[2], self._vector, self._lanes_of_row
        at_once, panels = LANES // across, columns // self.width
        layout = (
            f"S[({self._rows // at_once},{at_once},{panels},{across},{vector}):"
            f"({panels * vector},{across}@laneid,{vector},1@laneid,1)]"
        )
        shape = self._rows, columns
        return FragmentType.of(shape, self.matrix.type.element_type, Layout.parse(layout))

    def load(self, row: ir.Value, column: ir.Value, warp: ir.Value) -> ir.Value:
        """The warp's part of the tile at (`row`, `column`) of the matrix. What is outside is zero."""
        start = emit.value(emit.add(row, emit.mul(warp, self._rows)))
        return tile.load(self.matrix, start, emit.value(column), self._fragment, vector_bytes=VECTOR_BYTES)

    def store(self, loaded: ir.Value, stage: ir.Value | int, warp: ir.Value) -> None:
        """Stores a loaded part to its rows of a stage. Warps beyond the last row store nothing."""
        row, rows = emit.mul(warp, self._rows), self.buffer.type.shape[1]
        target = tile.stage(self.buffer, emit.value(stage))

        def write() -> None:
            tile.store(loaded, target, emit.value(row), emit.value(0), vector_bytes=VECTOR_BYTES)

        if self.warps * self._rows == rows:
            write()
            return
        with emit.when(emit.less(row, rows)):
            write()
