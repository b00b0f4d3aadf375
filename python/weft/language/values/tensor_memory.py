"""Tiles in tensor memory (PTX ISA, "Tensor Memory"), which products that one thread starts read and write."""

from typing import NoReturn

from weft.dialects import tile
from weft.dialects.tile import BufferType
from weft.errors import shown
from weft.isa.chips import describe
from weft.isa.tcgen05.control import ALLOC
from weft.isa.tcgen05.tensor_layouts import COLUMN_BITS, COLUMNS, LANES, ROWS, operand_a
from weft.language.capture import trace
from weft.language.messages.mistakes import mistake
from weft.language.values.buffers import Memory
from weft.language.values.dtypes import DType, checked_type, f32, i32
from weft.language.values.scalars import as_scalar
from weft.layout import Iter, Layout
from weft.mlir import ir
from weft.passes.builders import emit

_BITS = (8, 16, 32)
"""The bits of elements that instructions move between registers and tensor memory as they are."""


class TensorMemory(Memory):
    """A tile of rows x columns in tensor memory, or some of its columns."""

    noun = "tensor memory"
    instead = "choose by a branch of Python, or make a ring with a stage for each"

    def columns(self, first: object, count: int) -> "TensorMemory":
        """`count` columns from `first` on, a multiple of `count`."""
        rows, columns = self.shape
        step = COLUMN_BITS // self.dtype.bits
        if not isinstance(count, int) or count < 1 or columns % count or count % step:
            each = f", and a multiple of {step}" if step > 1 else ""
            raise mistake(f"a part must divide the {columns} columns of {self}{each}, got {shown(count)}")
        start = emit.value(0), as_scalar(first, i32).value
        return TensorMemory(tile.slice_(self.value, *start, (rows, count)), self.ring, self.slot)

    def _refuse(self, *_: object) -> NoReturn:
        raise mistake(
            f"{self} has no single elements, rows or transposed view: w.load and w.store move it, or .columns"
            "(first, count) of it, from and to registers, and w.gemm multiplies it"
        )

    rows = peer = __getitem__ = __setitem__ = __iter__ = _refuse
    T = property(_refuse)


def tensor_memory(rows: int, columns: int, dtype: DType) -> TensorMemory:
    """A tile in the tensor memory of the CTA (PTX ISA, "Tensor Memory"), for the whole kernel. Make it before
    the first role.

    Tensor memory has 128 lanes and 512 columns of 32 bits. A tile has 128 rows, or 64 of 32 or 16 bits, which
    take half of the lanes of as many columns. Elements of 16 and 8 bits are packed, as products read them.
    The kernel allocates the next power of two of the columns of all tiles, and frees them at its end (PTX
    ISA, "tcgen05.alloc").
    """
    current = trace.current()
    current.check_before_roles("tensor memory")
    return TensorMemory(allocated(rows, columns, dtype))


def allocated(
    rows: int, columns: int, dtype: DType, stages: int = 0, over: ir.Value | None = None
) -> ir.Value:
    """A buffer of one tile, or of `stages` tiles. They are in the memory of another buffer, and begin where
    its tiles do, if it is `over` one.
    """
    current = trace.current()
    if current.chip not in ALLOC.chips():
        raise mistake(
            f"tensor memory needs {describe(ALLOC.chips())}, got {current.chip}: use w.shared or w.ring, and "
            "products whose sums are in registers, x = w.wait(w.gemm(a, b))"
        )
    bits = checked_type(dtype).bits
    if bits not in _BITS:
        raise mistake(
            f"elements in tensor memory must have 8, 16 or 32 bits, got {dtype}: use {i32} or {f32}"
        )
    legal = ROWS if bits > min(_BITS) else (LANES,)
    if type(rows) is not int or rows not in legal:
        text = " or ".join(map(str, legal))
        raise mistake(f"a tile of {dtype} in tensor memory must have {text} rows, got {shown(rows)}")
    step = COLUMN_BITS // bits
    if not isinstance(columns, int) or columns < 1 or columns % step:
        each = f", a multiple of {step} for {dtype}" if step > 1 else ""
        raise mistake(f"columns must be a positive number that Python knows{each}, got {shown(columns)}")
    shape = (stages, rows, columns)[not stages :]
    if over is None:
        _check_room(shape, dtype, columns // step * max(stages, 1))
    layout = Layout.parse(operand_a(rows, columns))
    if stages:
        apart = columns if over is None else over.type.columns // stages * step
        layout = Layout((Iter(stages, apart, "TCol"), *layout.shard))
    buffer: ir.Value = current.multiplier.allocate(BufferType.of(shape, dtype.type, layout, "tmem"), over)
    return buffer


def _check_room(shape: tuple[int, ...], dtype: DType, columns: int) -> None:
    """Raises WeftError unless so many columns of tensor memory are left for tiles."""
    taken = trace.current().multiplier.columns
    if taken + columns <= COLUMNS:
        return
    others = f", of which others have {taken}" if taken else ""
    fitting = shape[-1] * (COLUMNS - taken) // columns // 8 * 8
    fewer = f"tiles of at most {fitting} columns" if fitting else "fewer tiles"
    raise mistake(
        f"{' x '.join(map(str, shape))} numbers of {dtype} take {columns} columns of tensor memory, and a "
        f"CTA has {COLUMNS}{others}: use {fewer}, or a ring over another one, whose memory it shares"
    )
