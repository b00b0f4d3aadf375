"""Products of integers of less than a byte in the kernels of `mma.sync`: matrices, tiles and fragments are of
bytes there, since the integers are packed along K. Only the instruction multiplies others than bytes.

Matrices that are contiguous along M or N are packed along M or N in global memory. `PackedCopy` copies them
through registers to shared memory, where they are packed along K and the tile is an MN-major one of bytes.
"""

from dataclasses import dataclass, replace
from typing import Any

from weft.dialects import mma, tile
from weft.isa import mma as isa
from weft.isa.mma.fragments import REGISTER_BITS
from weft.isa.types import ELEMENT_TYPES, S8
from weft.mlir import arith, ir, memref, nvvm, vector
from weft.passes.builders import emit, warp_products
from weft.passes.builders.fragment_registers import words_of
from weft.passes.kernels.matrices import VECTOR_BYTES
from weft.passes.kernels.register_copies import RegisterCopy

BYTE = 8


def of_bytes(form: Any) -> Any:
    """The instruction of bytes with the registers of one of packed integers; other instructions as they
    are.
    """
    bits = ELEMENT_TYPES[form.a_type].bits
    if bits >= BYTE:
        return form
    m, n, k = form.mnk
    shape = f"m{m}n{n}k{k * bits // BYTE}"
    return replace(form, shape=shape, a_type=S8.name, b_type=S8.name, bit_op="")


def in_bytes(matrix: ir.Value) -> ir.Value:
    """A matrix of packed integers as the matrix of its bytes; other matrices as they are."""
    kind = matrix.type
    if kind.element_type.width >= BYTE:
        return matrix
    byte = ir.IntegerType.get_signless(BYTE)
    _, offset, rows, columns, stride, _ = memref.extract_strided_metadata(matrix)
    together = emit.as_index(BYTE // kind.element_type.width)
    offset, columns, stride = (arith.divui(each, together) for each in (offset, columns, stride))
    # The descriptor of the cast counts elements of the matrix, that of its result bytes.
    same = ir.MemRefType.get(kind.shape, byte, kind.layout, kind.memory_space)
    cast = ir.Operation.create("builtin.unrealized_conversion_cast", results=[same], operands=[matrix])
    return _reinterpreted(cast.result, offset, (rows, columns), stride)


def _reinterpreted(
    matrix: ir.Value, offset: ir.Value, sizes: tuple[ir.Value, ir.Value], stride: ir.Value
) -> ir.Value:
    """The matrix of these sizes and this stride of rows, in the memory of another one from an offset on."""
    kind, dynamic = matrix.type, ir.ShapedType.get_dynamic_stride_or_offset()
    layout = ir.StridedLayoutAttr.get(dynamic, [dynamic, 1])
    return memref.ReinterpretCastOp(
        ir.MemRefType.get([dynamic] * 2, kind.element_type, layout, kind.memory_space),
        matrix,
        offsets=[offset],
        sizes=list(sizes),
        strides=[stride],
        static_offsets=[dynamic],
        static_sizes=[dynamic] * 2,
        static_strides=[dynamic, 1],
    ).result


def multiply(a: ir.Value, b: ir.Value, sums: ir.Value, form: isa.Sync) -> ir.Value:
    """The sums plus the products of two fragments of bytes, read as packed integers."""

    def build(**of_bytes: Any) -> ir.Value:
        return mma.sync(**of_bytes | vars(form))

    return warp_products.nest(a, b, tile.to_lane(sums), sums.type, of_bytes(form), build)


_WORD = REGISTER_BITS // BYTE


@dataclass(frozen=True)
class PackedCopy(RegisterCopy):
    """As `RegisterCopy`, of the bytes of a packed matrix, K x M or K x N. A byte has `together` integers, so
    that as many of its rows become one row of the tile, as many times as wide.
    """

    together: int
    parts: tuple[ir.Value, ...]  # the matrices of each `together`-th row, from the first ones on
    aligned: bool = True  # whether rows begin at multiples of 16 bytes

    @classmethod
    def of(
        cls, matrix: ir.Value, buffer: ir.Value, width: int, warps: int, together: int, **how: bool
    ) -> "PackedCopy":
        """The copy of a matrix, whose parts are built at the insertion point."""
        parts = tuple(_rows_from(matrix, first, together) for first in range(together))
        return cls(matrix, buffer, width, warps, together, parts, **how)

    @property
    def _vector(self) -> int:
        return int(max(VECTOR_BYTES, _WORD * self.together))

    def load(self, row: ir.Value, column: ir.Value, warp: ir.Value) -> ir.Value:
        """The warp's part of the tile at (`row`, `column`), in elements of the tile."""
        start = emit.value(emit.add(row, emit.mul(warp, self._rows)))
        at, width = emit.value(emit.div(column, self.together)), self._vector // self.together
        width = width if self.aligned else 0
        loaded = (tile.load(part, start, at, self._packed, vector_bytes=width) for part in self.parts)
        rows = [words_of(tile.to_lane(each)) for each in loaded]
        words = [word for group in zip(*rows, strict=True) for word in _transposed(list(group))]
        kind = self._fragment
        lane = vector.from_elements(ir.VectorType.get([len(words)], emit.i32()), words)
        return tile.from_lane(vector.bitcast(kind.lane_type, lane), kind)

    @property
    def _packed(self) -> ir.Type:
        """The type that a warp loads of each part: the tile's fragment with fewer bytes in each row."""
        return self._in_vectors(self._vector // self.together)


def _rows_from(matrix: ir.Value, first: int, step: int) -> ir.Value:
    """Each `step`-th row of a matrix of bytes from the `first` on. Its rows are a multiple of `step`."""
    _, offset, rows, columns, stride, _ = memref.extract_strided_metadata(matrix)
    many = emit.as_index(step)
    start = arith.addi(offset, arith.muli(stride, emit.as_index(first)))
    return _reinterpreted(matrix, start, (arith.divui(rows, many), columns), arith.muli(stride, many))


def _transposed(words: list[ir.Value]) -> list[ir.Value]:
    """The integers of words of several rows: each byte of the result has those of one column, in the order of
    the rows, and the bytes are in the order of the columns.
    """
    count, bits = len(words), BYTE // len(words)
    step = count // 2
    while step:
        low = sum(((1 << bits) - 1) << (bits * i) for i in range(count) if not i & step)
        mask = int.from_bytes(bytes([low] * _WORD), "little")
        for i in (i for i in range(count) if not i & step):
            words[i], words[i + step] = _exchanged(words[i], words[i + step], mask, step * bits)
        step //= 2
    # Word i has a byte of every column i, i + count, ...
    return [_bytes_of(words, number) for number in range(count)]


def _exchanged(x: ir.Value, y: ir.Value, mask: int, shift: int) -> tuple[ir.Value, ir.Value]:
    """Two words after the higher parts of the first and the lower ones of the second changed places."""
    lower = emit.bit_and(emit.xor(emit.shift_right(x, shift), y), mask)
    return emit.xor(x, emit.mul(lower, 1 << shift)), emit.xor(y, lower)


def _bytes_of(words: list[ir.Value], number: int) -> ir.Value:
    """The bytes of columns 4 * `number` to 4 * `number` + 3."""
    columns = range(_WORD * number, _WORD * (number + 1))
    at = [(column % len(words), column // len(words)) for column in columns]
    if len(words) == 2:
        return _prmt(words[0], words[1], [_WORD * word + byte for word, byte in at])
    low, high = (_prmt(words[i], words[j], [x, _WORD + y]) for (i, x), (j, y) in (at[:2], at[2:]))
    return _prmt(low, high, [0, 1, _WORD, _WORD + 1])


def _prmt(low: ir.Value, high: ir.Value, bytes_: list[int]) -> ir.Value:
    """A word of these bytes of two words, the lowest first."""
    selector = sum(byte << (4 * number) for number, byte in enumerate(bytes_))
    return nvvm.prmt(low, emit.value(selector), nvvm.PermuteMode.DEFAULT, hi=high)
