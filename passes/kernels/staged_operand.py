"""A or B in a kernel for `wgmma`: the stages that hold it, and how TMA fills them."""

from dataclasses import dataclass, field
from typing import Any

from weft.dialects import tile
from weft.dialects.tile import BufferType
from weft.passes.builders import emit
from weft.passes.kernels.product import element_bytes, map_of_member, panels


@dataclass
class StagedOperand:
    """A or B as the kernel has it: its stages, and the map that fills them."""

    matrix: Any
    k_inside: bool
    extent: int
    block_k: int
    stages: int
    parts: int  # in which the CTAs of a cluster copy a block, each one for all
    parts_of_k: int  # that take turns
    buffer: Any = field(init=False)
    map: Any = field(init=False)

    @property
    def buffer_type(self) -> Any:
        """The stages: tiles of rows of K, or with K outside of columns of it."""
        rows, columns = (self.extent, self.block_k) if self.k_inside else (self.block_k, self.extent)
        element = self.matrix.type.element_type
        layout = panels(rows, columns, int(element.width) // 8, self.stages)
        return BufferType.of((self.stages, rows, columns), element, layout)

    def place(self) -> None:
        """Writes its buffer and its map at the insertion point."""
        self.buffer = tile.alloc(self.buffer_type)
        copied = tile.slice_type(tile.stage_type(self.buffer.type), self._shape)
        # CTAs that read the same of it do so at the same time: what should stay in L2 are the parts' sums.
        eviction = "evict_first" if self.parts_of_k > 1 else None
        self.map = tile.tensor_map(self.matrix, copied, l2_promotion=self._l2_promotion, l2_eviction=eviction)

    @property
    def _l2_promotion(self) -> str:
        """What L2 reads of memory at once: 256 bytes where half of them are the beginning of this CTA's next
        block. In longer rows, in turns and with K outside another copy asks for them at about the same time.
        """
        row = self.block_k * element_bytes(self.matrix)
        return "256B" if self.k_inside and row <= 128 and self.parts_of_k == 1 else "128B"

    @property
    def _shape(self) -> tuple[int, int]:
        """What one CTA copies of a block, as it lies in memory."""
        extent = self.extent // self.parts
        return (extent, self.block_k) if self.k_inside else (self.block_k, extent)

    def copy(self, start: Any, k: Any, member: Any, stage: Any, barrier: Any, part: Any, mask: Any) -> None:
        """Starts to copy the block at (`start`, `k`) into a stage, or the part of it that is this CTA's: of
        number `member`, where the operand is a batch.
        """
        inside = emit.mul(part, self.extent // self.parts)
        start = emit.add(start, inside)
        row, column = (emit.value(x) for x in ((start, k) if self.k_inside else (k, start)))
        source = map_of_member(self.matrix, self.map, member)
        if self.parts == 1:
            tile.copy_async(source, row, column, tile.stage(self.buffer, stage), barrier=barrier)
            return
        tile.copy_multicast(
            source, row, column, self.part(stage, inside, self.extent // self.parts), barrier, mask
        )

    def part(self, stage: Any, start: Any, extent: int) -> Any:
        """Rows of a block from `start` on."""
        whole = tile.stage(self.buffer, stage)
        if extent == self.extent:
            return whole
        zero, start = emit.value(0), emit.value(start)
        if self.k_inside:
            return tile.slice_(whole, start, zero, (extent, self.block_k))
        return tile.slice_(whole, zero, start, (self.block_k, extent))
