"""Tiles of matrices in blocks: a lane has neighbors in several rows and columns, so that it can transpose
them in its registers. Two warpgroups share a tile.
"""

from dataclasses import dataclass

import weft.language as w
from weft.dialects import tile
from weft.dialects.launch_contract import MIN_CTAS
from weft.dialects.tile import BufferType, FragmentType
from weft.isa.chips import LANES, WARPGROUP
from weft.isa.tensor_map import ROW_BYTES
from weft.language.operations import runs
from weft.language.values.buffers import Buffer
from weft.language.values.fragments import Fragment
from weft.layout import Layout
from weft.mlir import ir
from weft.passes.builders import emit

THREADS = 2 * WARPGROUP
_LINE = 128  # bytes of a panel of shared memory, whose 16-byte vectors its swizzle permutes


def hold_ctas(number):
    """Limits the registers of the kernel so that a multiprocessor holds so many CTAs."""
    kernel = ir.InsertionPoint.current.block.owner
    kernel.attributes[MIN_CTAS] = ir.IntegerAttr.get(w.i32.type, number)


def divided(number, by):
    """The quotient and the remainder of numbers that aren't negative."""
    quotient = (number.to(w.u32) // by.to(w.u32)).to(w.i32)
    return quotient, number - quotient * by


def warpgroup():
    """The number of the thread's warpgroup."""
    return w.thread() // WARPGROUP


@dataclass(frozen=True)
class Blocks:
    """Tiles of which a lane has `rows` x `columns`, and `across` neighboring lanes the columns. Elements that
    are transposed have `size` bytes.
    """

    rows: int
    columns: int
    across: int
    size: int = 1

    @property
    def shape(self):
        """That of a warpgroup's tile."""
        return WARPGROUP // self.across * self.rows, self.across * self.columns

    @property
    def layout(self):
        """Which lane has which element."""
        rows, columns, across = self.rows, self.columns, self.across
        text = f"4,{LANES // across},{rows},{across},{columns}"
        return Layout.parse(f"S[({text}):(1@warpid,{across}@laneid,{columns},1@laneid,1)]")

    @property
    def turned(self):
        """The layout of the transposed tile, with registers in its own order."""
        text = f"{self.across},{self.columns},4,{LANES // self.across},{self.rows}"
        strides = f"1@laneid,{self.rows},1@warpid,{self.across}@laneid,1"
        return Layout.parse(f"S[({text}):({strides})]")

    @property
    def memory(self):
        """The layout in shared memory of the transposed tile of both warpgroups. The swizzle depends on the
        lane across: 16 bytes of each of 8 lanes of a row, and of a column, are in all banks.
        """
        width, columns = _LINE // self.size, 2 * self.shape[0]
        text = f"{self.across // 8},8,{self.columns},{columns // width},{width}"
        strides = f"{8 * columns},{width},{columns * self.across},{8 * width},1"
        return Layout.parse(f"S[({text}):({strides})] xor 128B")

    @property
    def lines(self):
        """The layout of a warpgroup's half of the rows of the transposed tile, by which lanes copy them."""
        vector, lanes = ROW_BYTES // self.size, 2 * self.shape[0] * self.size // ROW_BYTES
        text = f"{self.shape[1] // 8 * lanes // LANES},4,{LANES // lanes},{lanes},{vector}"
        return Layout.parse(f"S[({text}):({vector},1@warpid,{lanes}@laneid,1@laneid,1)]")

    def load(self, first):
        """The tile of a warpgroup from an element of an array on, as `runs.load`."""
        return runs.load(first, self.shape, self.layout)

    def shared(self, dtype):
        """The buffer of a transposed tile."""
        return Buffer(tile.alloc(BufferType.of((self.shape[1], 2 * self.shape[0]), dtype.type, self.memory)))

    def transposed(self, t, memory):
        """The warpgroup's half of the rows of the transposed tile, and where it begins. Memory must not be in
        use.
        """
        (rows, columns), zero = self.shape, emit.value(0)
        turned = w.convert(t.T, like=Fragment.of_layout((columns, rows), self.turned))
        width = min(self.rows * self.size, ROW_BYTES)
        tile.store(turned.value, memory.value, zero, (warpgroup() * rows).value, vector_bytes=width)
        w.barrier()
        first = warpgroup() * (columns // 2)
        kind = FragmentType.of((columns // 2, 2 * rows), t.dtype.type, self.lines)
        return Fragment(tile.load(memory.value, first.value, zero, kind, vector_bytes=ROW_BYTES)), first
