"""Packed 4-bit weights in kernels: the stages of a ring that have them, and left operands of products."""

from collections.abc import Sequence
from typing import Any

from weft.errors import shown
from weft.isa.chips import WARPGROUP
from weft.language import registers
from weft.language.buffers import Buffer
from weft.language.dtypes import bf16, f16, f32, i32
from weft.language.fragments import Fragment, zeros
from weft.language.int4 import dequantize_int4
from weft.language.maths import minimum
from weft.language.matrices import Matrix
from weft.language.mistakes import mistake
from weft.language.prefetching import prefetch
from weft.language.products import warp_gemm
from weft.language.roles import thread
from weft.language.scalars import as_scalar
from weft.language.slots import Slot
from weft.language.tile_vectors import load_column
from weft.language.vectors import load_contiguous
from weft.layout.int4_layout import DEPTH, LINES, ROWS, WORDS
from weft.passes.builders import emit


class Int4Weights:
    """Packed weights of which each stage of a ring has `depth` columns of `tiles` tiles of `rows` rows."""

    def __init__(
        self,
        packed: Matrix,
        scales: Matrix,
        zeros: Matrix | None,
        *,
        columns: Any,
        group: int,
        tiles: int,
        depth: int,
        rows: int,
    ) -> None:
        self.packed, self.group, self.tiles, self.depth, self.rows = packed, group, tiles, depth, rows
        self.vectors = {"scale": scales} | ({} if zeros is None else {"zero": zeros})
        self.halves = ROWS // rows
        """Tiles of 64 rows of the array; also, blocks of 64 columns that a warpgroup multiplies at once."""
        self.groups = max(depth // group, 1) if group else 1
        """Groups in a stage."""
        self.lines = depth // DEPTH * LINES // self.halves
        """Lines of a tile in a stage."""
        self._blocks = (columns + (DEPTH - 1)) // DEPTH  # of a row of tiles

    @property
    def buffers(self) -> dict[str, Any]:
        """The buffers of a stage: `w.ring(…, **weights.buffers)`. They are called q, scale and zero."""
        vectors = (1, self.tiles * self.groups * ROWS, self.vectors["scale"].dtype)
        return dict.fromkeys(self.vectors, vectors) | {"q": (self.tiles * self.lines, WORDS, i32)}

    def places(self, tiles: Sequence[Any], number: Any) -> dict[str, Any]:
        """What fills a stage: `ring.fill(…, **weights.places(tiles, number))` copies the columns from
        `number` times the depth on, of tiles by their numbers.
        """
        if len(tiles) != self.tiles:
            raise mistake(f"stages have {self.tiles} tiles of weights, got {len(tiles)}")
        pieces = self.depth // DEPTH if self.halves > 1 else 1  # of a tile
        places: dict[str, Any] = {
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

    def prefetch(self, tiles: Sequence[Any], number: Any, count: Any, *, most: int) -> None:
        """Asks for `count` stages from `number` on in L2, at most `most`, as `w.prefetch` does."""
        for tile in tiles if most else ():
            lines = minimum(count, most) * (self.lines * self.halves)
            prefetch(self.packed[self._line(tile, number), 0], lines, WORDS)
            for each in self.vectors.values():
                prefetch(each[self._whole(tile), self._of_group(number)], 1, most * self.groups * ROWS)

    def operand(self, slot: Any, tile: Any = 0, block: Any = 0, blocks: int | None = None) -> "Int4Operand":
        """The `blocks` blocks of 64 columns from `block`, a multiple of `blocks`, on of a tile in a stage; by
        default all of them.
        """
        whole = self.depth // DEPTH
        blocks = whole if blocks is None else blocks
        if not isinstance(slot, Slot) or "q" not in slot.ring.kinds:
            raise mistake(f"expects a stage of a ring with weights.buffers, got {shown(slot)}")
        if not isinstance(blocks, int) or blocks < 1 or whole % blocks or blocks % self.halves:
            pairs = "" if self.halves == 1 else ", and be even"
            raise mistake(f"blocks must divide the {whole} of a stage{pairs}, got {shown(blocks)}")
        return Int4Operand(self, slot, tile, block, blocks)

    def _whole(self, tile: Any) -> Any:
        """The tile of the arrays, of 64 rows."""
        return tile // self.halves if self.halves > 1 else tile

    def _half(self, tile: Any) -> Any:
        return tile % self.halves if self.halves > 1 else 0

    def _line(self, tile: Any, number: Any) -> Any:
        return self._whole(tile) * self._blocks * LINES + number * (self.depth // DEPTH * LINES)

    def _of_group(self, number: Any) -> Any:
        """The column of scales of the first group of a stage."""
        return number * self.depth // self.group * ROWS if self.group else 0


class Int4Operand:
    """Weights of a tile in a stage, the left operand of products."""

    def __init__(self, weights: Int4Weights, slot: Slot, tile: Any, block: Any, blocks: int) -> None:
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
        return Fragment(emit.vector_of(elements), self.shape, registers.sums(self.shape))

    def warp_gemm(self, b: Any, sums: Fragment | None = None) -> Fragment:
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
    def _side(self) -> Any:
        """Which of two blocks a warp multiplies."""
        return thread() // (WARPGROUP // 2) % 2 if self._weights.halves > 1 else 0

    def _words(self, number: int) -> Fragment:
        lines = LINES // self._weights.halves
        line = self._tile * self._weights.lines + lines * (self._block + number)
        return load_contiguous(self._slot.q.rows(line, LINES))

    def _of_groups(self, number: int) -> tuple[list[Fragment], list[Any]]:
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
    columns: Any,
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
    columns = as_scalar(columns, i32)
    return Int4Weights(
        packed, scales, zeros, columns=columns, group=group, tiles=tiles, depth=depth, rows=rows
    )
