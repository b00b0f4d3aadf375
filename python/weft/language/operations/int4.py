"""Packed 4-bit weights: the stages of a ring that have them, and left operands of products."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft.errors import shown
from weft.isa.chips import WARPGROUP
from weft.language.capture import trace
from weft.language.messages.mistakes import mistake
from weft.language.operations.flat_vectors import load_contiguous
from weft.language.operations.loads import prefetch
from weft.language.operations.maths import minimum
from weft.language.operations.products import warp_gemm
from weft.language.operations.roles import thread
from weft.language.operations.tile_vectors import load_column
from weft.language.values.buffers import Buffer
from weft.language.values.dtypes import DType, bf16, f16, f32, i32
from weft.language.values.fragments import Fragment, zeros
from weft.language.values.matrices import Matrix
from weft.language.values.scalars import Scalar, as_scalar
from weft.language.values.stages import Slot
from weft.layout.int4_layout import DEPTH, LINES, ROWS, WORDS
from weft.mlir import arith, ir, vector
from weft.passes.builders import emit, registers
from weft.passes.kernels import matrices

Index = int | Scalar
_STEP = 16  # columns of a step of `wgmma`; a thread holds 8 elements of it, in 4 registers
_MASK = 0x000F000F
# A number whose last bits, those below its exponent's unit, are free to hold an integer: bits, value.
_BASES = {bf16: (0x43004300, 128.0), f16: (0x64006400, 1024.0)}


def dequantize_int4(
    words: Fragment,
    scale: Fragment | Sequence[Fragment] | None = None,
    zero: object = 8,
    *,
    dtype: DType | None = None,
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
    scales: list[Any] = list(scale) if isinstance(scale, (list, tuple)) else [scale] * len(zeros or [0])
    zeros = zeros or [zero] * len(scales)
    if len(zeros) != len(scales) or not scales or count % len(scales):
        raise mistake(
            f"scale and zero must have as many vectors, a divisor of the {count} words of a thread, got "
            f"{len(scales)} and {len(zeros)}"
        )
    dtype = _check_scales(scales) if scale is not None or dtype is None else dtype
    offsets = [_offsets(each, dtype) for each in zeros]
    factors = [None if one is None else [_pair(each) for each in one.elements()] for one in scales]
    registers_ = []
    for number, word in enumerate(words.elements()):
        part = number * len(scales) // count
        registers_ += _dequantized(word, factors[part], offsets[part], dtype)
    shape = registers.WGMMA_ROWS, _STEP * count
    lane = vector.bitcast(ir.VectorType.get([2 * len(registers_)], dtype.type), emit.vector_of(registers_))
    return Fragment.of_lane(lane, shape, registers.sums(shape))


def _words_of(words: Fragment) -> int:
    """The number of words of a thread."""
    if not isinstance(words, Fragment) or words.dtype != i32:
        raise mistake(f"words must be a fragment of w.i32, as w.load_contiguous loads it, got {words}")
    count = len(words.elements())
    if count * WARPGROUP != math.prod(words.shape):
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


def _offsets(zero: object, dtype: DType) -> list[ir.Value]:
    """The zeros to subtract from a register's two elements, for each of a thread's two rows."""
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
    registers_ = []
    for number in range(4):
        shifted = emit.shift_right(word, 4 * number)
        integer = arith.ori(arith.andi(shifted, mask), emit.value(bits))
        pair = vector.bitcast(kind, emit.vector_of([integer]))
        row = number % 2
        exact = arith.subf(pair, offsets[row])
        registers_ += emit.elements(vector.bitcast(one, arith.mulf(exact, scales[row]) if scales else exact))
    return registers_


@dataclass(frozen=True)
class Int4Weights:
    """Packed weights of which each stage of a ring has `depth` columns of `tiles` tiles of `rows` rows."""

    packed: Matrix
    vectors: dict[str, Matrix]
    """The scales, called scale, and the zeros, called zero, if there are any."""
    group: int
    tiles: int
    depth: int
    rows: int
    blocks: Index
    """Blocks of 64 columns of a row of tiles."""

    @property
    def halves(self) -> int:
        """Tiles of 64 rows of the array; also, blocks of 64 columns that a warpgroup multiplies at once."""
        return ROWS // self.rows

    @property
    def groups(self) -> int:
        """Groups in a stage."""
        return max(self.depth // self.group, 1) if self.group else 1

    @property
    def lines(self) -> int:
        """Lines of a tile in a stage."""
        return self.depth // DEPTH * LINES // self.halves

    @property
    def buffers(self) -> dict[str, tuple[int, int, DType]]:
        """The buffers of a stage: `w.ring(…, **weights.buffers)`. They are called q, scale and zero."""
        vectors = (1, self.tiles * self.groups * ROWS, self.vectors["scale"].dtype)
        return dict.fromkeys(self.vectors, vectors) | {"q": (self.tiles * self.lines, WORDS, i32)}

    def places(self, tiles: Sequence[Index], number: Index) -> dict[str, object]:
        """The elements that fill a stage: `ring.fill(…, **weights.places(tiles, number))` copies the columns
        from `number` times the depth on, of tiles by their numbers.
        """
        if len(tiles) != self.tiles:
            raise mistake(f"stages have {self.tiles} tiles of weights, got {len(tiles)}")
        pieces = self.depth // DEPTH if self.halves > 1 else 1  # of a tile
        places: dict[str, object] = {
            "q": tuple(
                self.packed[self._line(tile, number) + LINES * piece + self._half(tile) * LINES // 2, 0]
                for tile in tiles
                for piece in range(pieces)
            )
        }
        for name, each in self.vectors.items():
            places[name] = tuple(
                each[self._whole(tile), self._of_group(number) + self._half(tile) * self.rows]
                for tile in tiles
            )
        return places

    def prefetch(self, tiles: Sequence[Index], number: Index, count: Index, *, most: int) -> None:
        """Asks for `count` stages from `number` on in L2, at most `most`, as `w.prefetch` does."""
        for tile in tiles if most else ():
            lines = minimum(count, most) * (self.lines * self.halves)
            prefetch(self.packed[self._line(tile, number), 0], lines, WORDS)
            for each in self.vectors.values():
                prefetch(each[self._whole(tile), self._of_group(number)], 1, most * self.groups * ROWS)

    def operand(
        self, slot: object, tile: Index = 0, block: Index = 0, blocks: int | None = None
    ) -> "Int4Operand":
        """The `blocks` blocks of 64 columns from `block`, a multiple of `blocks`, on of a tile in a stage; by
        default all of them.
        """
        most = self.depth // DEPTH
        blocks = most if blocks is None else blocks
        if not isinstance(slot, Slot) or "q" not in slot.ring.kinds:
            raise mistake(f"expects a stage of a ring with weights.buffers, got {shown(slot)}")
        if not isinstance(blocks, int) or blocks < 1 or most % blocks or blocks % self.halves:
            pairs = "" if self.halves == 1 else ", and be even"
            raise mistake(f"blocks must divide the {most} of a stage{pairs}, got {shown(blocks)}")
        return Int4Operand(self, slot, tile, block, blocks)

    def _whole(self, tile: Index) -> Index:
        """The tile of the arrays, of 64 rows."""
        return tile // self.halves if self.halves > 1 else tile

    def _half(self, tile: Index) -> Index:
        return tile % self.halves if self.halves > 1 else 0

    def _line(self, tile: Index, number: Index) -> Index:
        return self._whole(tile) * self.blocks * LINES + number * (self.depth // DEPTH * LINES)

    def _of_group(self, number: Index) -> Index:
        """The column of scales of the first group of a stage."""
        return number * self.depth // self.group * ROWS if self.group else 0


class Int4Operand:
    """Weights of a tile in a stage, the left operand of products."""

    def __init__(self, weights: Int4Weights, slot: Slot, tile: Index, block: Index, blocks: int) -> None:
        self._weights, self._slot, self._tile, self._block, self._blocks = weights, slot, tile, block, blocks
        self.shape = weights.rows, DEPTH * blocks
        self.dtype = slot.ring.kinds["scale"][-1]

    def dequantized(self) -> Fragment:
        """The weights, rounded to 16 bits: `a` of `w.gemm`."""
        if self._weights.halves > 1:
            raise mistake(f"tiles must have {ROWS} rows to be a fragment, got {self._weights.rows}")
        elements = [
            element
            for number in range(self._blocks)
            for element in dequantize_int4(self._words(number), *self._of_groups(number)).elements()
        ]
        return Fragment.of_lane(emit.vector_of(elements), self.shape, registers.sums(self.shape))

    def warp_gemm(self, b: object, sums: Fragment | None = None) -> Fragment:
        """`a @ b`, or `sums + a @ b`, by `w.warp_gemm`, 64 x N. Sums of a group are scaled in f32, not its
        weights; of a group of 32 columns, the weights are scaled.

        Of a tile of 32 rows, two warps multiply every other block of 64 columns each: add rows 32 to 63 to
        the others after the last product.
        """
        if not isinstance(b, Buffer) or b.shape[0] != self.shape[1]:
            raise mistake(f"b must be a buffer of {self.shape[1]} x N, got {shown(b)}")
        total, partial = zeros((ROWS, b.shape[1])) if sums is None else sums, None
        step, group = self._weights.halves, self._weights.group
        several = 0 < group < DEPTH * self._blocks  # groups
        for number in range(0, self._blocks, step):
            if number == 0 or several:
                scales, of_zero = self._of_groups(number)
            words, right = self._words(number), b.rows(DEPTH * (number + self._side), DEPTH)
            if len(scales) > 1:
                total = warp_gemm(dequantize_int4(words, scales, of_zero), right, total)
                continue
            partial = warp_gemm(dequantize_int4(words, zero=of_zero[0], dtype=self.dtype), right, partial)
            if number + step == self._blocks or several:
                total, partial = total + partial * scales[0].to(f32), None
        return total

    @property
    def _side(self) -> Index:
        """Which of two blocks a warp multiplies."""
        return thread() // (WARPGROUP // 2) % 2 if self._weights.halves > 1 else 0

    def _words(self, number: int) -> Fragment:
        lines = LINES // self._weights.halves
        line = self._tile * self._weights.lines + lines * (self._block + number)
        return load_contiguous(self._slot.q.rows(line, LINES))

    def _of_groups(self, number: int) -> tuple[list[Fragment], Sequence[Fragment | int]]:
        """The scales and zeros of the groups of a block, vectors of 64 rows."""
        weights, block = self._weights, self._block + number
        if weights.group % (2 * DEPTH):  # the two blocks may be of different groups
            block = block + self._side
        first = self._tile * weights.groups + (block * DEPTH // weights.group if weights.groups > 1 else 0)
        numbers = [first + n for n in range(max(DEPTH // weights.group, 1) if weights.group else 1)]
        like = zeros(ROWS, self.dtype)

        def of(name: str) -> list[Fragment]:
            buffer, rows = getattr(self._slot, name), weights.rows
            return [load_column(buffer.columns(ROWS * each, rows), like=like) for each in numbers]

        return of("scale"), of("zero") if "zero" in weights.vectors else [8] * len(numbers)


def int4_weights(
    packed: Matrix,
    scales: Matrix,
    zeros: Matrix | None = None,
    *,
    columns: Index,
    group: int = 128,
    tiles: int = 1,
    depth: int = DEPTH,
    rows: int = ROWS,
) -> Int4Weights:
    """4-bit weights that `weft.quantize_int4` or `weft.Int4Weights.pack` made. `packed`, `scales` and
    `zeros` are theirs, as arguments of the kernel; without `zeros`, all are 8. `columns` is their K.

    A stage of a ring has `depth` columns of `tiles` tiles of 64 or 32 `rows`: `w.ring(…, **weights.buffers)`,
    filled by `ring.fill(…, **weights.places(tiles, number))`. `weights.operand(slot, tile)` is the left
    operand of products. Make them before the first role.
    """
    arrays = {"packed": packed, "scales": scales} | ({} if zeros is None else {"zeros": zeros})
    for name, array in arrays.items():
        legal = (i32,) if name == "packed" else (bf16, f16)
        if not isinstance(array, Matrix) or array.rank != 2 or array.dtype not in legal:
            kinds = " or ".join(map(str, legal))
            raise mistake(f"{name} must be a matrix of {kinds} that is an argument, got {shown(array)}")
    if zeros is not None and zeros.dtype != scales.dtype:
        raise mistake(f"zeros must have the type of scales, {scales.dtype}, got {zeros.dtype}")
    for name, value, unit in (("tiles", tiles, 1), ("depth", depth, DEPTH)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1 or value % unit:
            what = f"a multiple of {unit}" if unit > 1 else "a positive number that Python knows"
            raise mistake(f"{name} must be {what}, got {shown(value)}")
    if rows not in (ROWS, ROWS // 2) or (rows < ROWS and depth % (2 * DEPTH)):
        raise mistake(
            f"rows must be {ROWS}, or {ROWS // 2} if depth is a multiple of {2 * DEPTH}, got {shown(rows)}"
        )
    if group not in (0, 32) and (not isinstance(group, int) or group < DEPTH or group % DEPTH):
        raise mistake(
            f"group must be 32, a multiple of {DEPTH}, or 0 for one of each row, got {shown(group)}"
        )
    if group and group % depth and depth % group:
        raise mistake(
            f"a stage must have whole groups or be within one, got {depth} columns, groups of {group}"
        )
    vectors = {"scale": scales} | ({} if zeros is None else {"zero": zeros})
    blocks = (as_scalar(columns, i32) + (DEPTH - 1)) // DEPTH
    return Int4Weights(packed, vectors, group, tiles, depth, rows, blocks)
