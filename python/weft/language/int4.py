"""4-bit weights, dequantized in registers to the left operand of `w.gemm`."""

from collections.abc import Sequence
from typing import Any

from weft.isa.chips import WARPGROUP
from weft.language import registers, trace
from weft.language.dtypes import DType, bf16, f16, i32
from weft.language.fragments import Fragment
from weft.language.mistakes import mistake
from weft.mlir import arith, ir, vector
from weft.passes.builders import emit
from weft.passes.kernels import matrices

_STEP = 16  # columns of a step of `wgmma`; a thread holds 8 elements of it, in 4 registers
_MASK = 0x000F000F
# A number whose last bits, those below its exponent's unit, are free to hold an integer: bits, value.
_BASES = {bf16: (0x43004300, 128.0), f16: (0x64006400, 1024.0)}


def dequantize_int4(
    words: Fragment, scale: Any = None, zero: Any = 8, *, dtype: DType | None = None
) -> Fragment:
    """`(q - zero) * scale` in 16 bits, for integers q in 0..15 that are packed in words: a fragment of 64 x
    16 L in the layout of sums, which may be `a` of `w.gemm`.

    `words` is a fragment of i32 with L words for each thread of the warpgroup, in any layout. A thread's i-th
    word has its elements of the columns from 16 i on, each four bits: bits 4 r and 16 + 4 r those of its r-th
    register, the first element in the lower ones.

    `scale` is a vector of the 64 rows, in bf16 or f16, the type of the result. `zero` is such a vector or a
    number, an integer in 0..15. Both may be lists, of vectors or numbers for equal parts of the columns.
    Without `scale`, the result is `q - zero` in `dtype`, which is exact: sums of its products can be scaled.
    """
    if scale is None and dtype not in _BASES:
        raise mistake(f"dtype must be w.bf16 or w.f16 without scale, got {dtype}")
    count = _words_of(words)
    zeros = list(zero) if isinstance(zero, (list, tuple)) else None
    scales = list(scale) if isinstance(scale, (list, tuple)) else [scale] * len(zeros or [0])
    zeros = zeros or [zero] * len(scales)
    if len(zeros) != len(scales) or not scales or count % len(scales):
        raise mistake(
            f"scale and zero must have as many vectors, a divisor of the {count} words of a thread, got "
            f"{len(scales)} and {len(zeros)}"
        )
    dtype = _check_scales(scales) if scale is not None or dtype is None else dtype
    offsets = [_offsets(each, dtype) for each in zeros]
    factors = [None if one is None else [_pair(each) for each in one.elements()] for one in scales]
    made = []
    for number, word in enumerate(words.elements()):
        part = number * len(scales) // count
        made += _dequantized(word, factors[part], offsets[part], dtype)
    shape = registers.WGMMA_ROWS, _STEP * count
    lane = vector.bitcast(ir.VectorType.get([2 * len(made)], dtype.type), emit.vector_of(made))
    return Fragment(lane, shape, registers.sums(shape))


def _words_of(words: Fragment) -> int:
    """The number of words of a thread."""
    if not isinstance(words, Fragment) or words.dtype != i32:
        raise mistake(f"words must be a fragment of w.i32, as w.load_contiguous loads it, got {words}")
    count, total = len(words.elements()), 1
    for size in words.shape:
        total *= size
    if count * WARPGROUP != total:
        raise mistake(f"words must be different in all {WARPGROUP} threads of a warpgroup, got {words}")
    return count


def _check_scales(scales: Sequence[Any]) -> DType:
    """The type of the result. Raises WeftError for scales that aren't vectors of rows."""
    for each in scales:
        if not isinstance(each, Fragment) or each.dtype not in _BASES:
            raise mistake(f"scale must be a vector of 64 rows, of w.bf16 or w.f16, got {each}")
        _check_rows("scale", each)
        if each.dtype != scales[0].dtype:
            raise mistake(f"scales must have one type, got {scales[0].dtype} and {each.dtype}")
    return scales[0].dtype


def _check_rows(name: str, vector_: Fragment) -> None:
    shape = (registers.WGMMA_ROWS,)
    if vector_.shape != shape or not registers.same(vector_.layout, registers.sums(shape), shape):
        raise mistake(
            f"{name} must be a vector of the {shape[0]} rows of sums, as w.load_column with "
            f"like=w.zeros({shape[0]}) loads it, got {vector_}"
        )


def _offsets(zero: Any, dtype: DType) -> list[ir.Value]:
    """What is subtracted from a register's two elements, for each of a thread's two rows."""
    base = _BASES[dtype][1]
    if isinstance(zero, Fragment):
        if zero.dtype != dtype:
            raise mistake(f"zero must have the type of scale, {dtype}, got {zero}: convert it with .to")
        _check_rows("zero", zero)
        return [_pair(each) for each in (zero + base).elements()]
    if isinstance(zero, bool) or not isinstance(zero, int) or not 0 <= zero <= 15:
        raise mistake(f"zero must be an integer in 0..15, or a vector of the rows, got {zero}")
    return [emit.constant(ir.VectorType.get([2], dtype.type), base + zero)] * 2


def _mask() -> ir.Value:
    """The mask of a word's integers, plus the sign of an array's size, which is 0: for a constant that it
    knows, ptxas would write a register before each use.
    """
    current = trace.current()
    if "mask of integers" not in current.scratch:
        with current.at_entry():
            arrays = [
                each
                for each in current.function.body.blocks[0].arguments
                if isinstance(each.type, ir.MemRefType)
            ]
            sign = emit.shift_right(matrices.size(arrays[0], 0), 31) if arrays else 0
            current.scratch["mask of integers"] = emit.value(emit.add(sign, _MASK))
    return current.scratch["mask of integers"]


def _pair(element: ir.Value) -> ir.Value:
    return vector.broadcast(ir.VectorType.get([2], element.type), element)


def _dequantized(
    word: ir.Value, scales: Sequence[ir.Value] | None, offsets: Sequence[ir.Value], dtype: DType
) -> list[ir.Value]:
    """A word's elements in four registers: those of even number are in a thread's first row."""
    kind, one = ir.VectorType.get([2], dtype.type), ir.VectorType.get([1], i32.type)
    bits, mask = _BASES[dtype][0], _mask()
    made = []
    for number in range(4):
        shifted = emit.shift_right(word, 4 * number)
        integer = arith.ori(arith.andi(shifted, mask), emit.value(bits))
        pair = vector.bitcast(kind, emit.vector_of([integer]))
        row = number % 2
        exact = arith.subf(pair, offsets[row])
        made += emit.elements(vector.bitcast(one, arith.mulf(exact, scales[row]) if scales else exact))
    return made
