"""The kernels that cast a matrix to fp8: one finds largest magnitudes, one casts and transposes.

Both process tiles of 128 x 128 elements. Scales of a tensor, of rows and of columns need two launches: the
first leaves partial maxima, which the CTAs of the second combine. So nothing has to be zero before, and
nothing is added atomically. Groups and blocks lie within a tile; they need only the second launch.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

from weft.construction.module import Module
from weft.dialects.launch_contract import MIN_CTAS
from weft.dialects.product_types import ceil_div
from weft.launch import kernel
from weft.mlir import arith, gpu, ir, llvm
from weft.multiply import cast_scales as scales
from weft.multiply.cast_tiles import OWN, SIDE, THREADS, Source, Square, Target, converted, own, shared
from weft.multiply.copied_bytes import i64
from weft.passes.builders import addresses, emit

_CTAS = 512
"""The CTAs that find maxima, about: what an H200 runs at once."""


@dataclass(frozen=True)
class Cast:
    """What a kernel does with a matrix with contiguous rows: of rows `row_bytes` apart at multiples of `unit`
    bytes. `scales` is "tensor", "row", "column", "group" or "block", of this matrix.
    """

    source: str
    unit: int
    element: str
    scales: str
    kept: bool
    transposed: bool
    powers_of_two: bool
    chip: str

    @property
    def has_partials(self) -> bool:
        """Whether a launch finds maxima first."""
        return self.scales in ("tensor", "row", "column")


@dataclass(frozen=True)
class Sizes:
    """The rows and columns of a matrix with contiguous rows."""

    rows: int
    columns: int

    @property
    def tiles(self) -> tuple[int, int]:
        """The tiles down and across."""
        return ceil_div(self.rows, SIDE), ceil_div(self.columns, SIDE)

    @property
    def grid(self) -> tuple[int, int, int]:
        """The grid of the cast."""
        down, across = self.tiles
        return down * across, 1, 1

    def per_cta(self, grain: str) -> int:
        """The tiles of a CTA that finds maxima: one after the other in a row or column."""
        down, across = self.tiles
        wanted = ceil_div(down * across, _CTAS)
        return max(min(wanted, {"tensor": down * across, "row": across, "column": down}[grain]), 1)

    def partials(self, grain: str) -> int:
        """The partial maxima of each number."""
        down, across = self.tiles
        return ceil_div({"tensor": down * across, "row": across, "column": down}[grain], self.per_cta(grain))

    def maxima_grid(self, grain: str) -> tuple[int, int, int]:
        """The grid that finds maxima."""
        down, across = self.tiles
        return self.partials(grain) * {"tensor": 1, "row": down, "column": across}[grain], 1, 1

    def partial_count(self, grain: str) -> int:
        """All partial maxima."""
        return self.partials(grain) * {"tensor": 1, "row": self.rows, "column": self.columns}[grain]


@functools.lru_cache(maxsize=64)
def maxima(source: str, unit: int, grain: str, chip: str) -> kernel.Kernel:
    """The kernel that finds partial maxima: `(x, partials, row_bytes, rows, columns, per_cta, count)`."""
    with Module() as module:
        pointer, i32, wide = ir.Type.parse("!llvm.ptr"), emit.i32(), ir.IntegerType.get_signless(64)
        kinds = [pointer, pointer, wide, i32, i32, i32, i32]
        with module.kernel("largest_magnitudes", kinds, block=(THREADS, 1, 1), writes=[1]) as values:
            x, partials, stride, rows, columns, per_cta, count = values
            matrix = Source(x, stride, rows, columns, source, unit)
            _Maxima(matrix, partials, per_cta, count).emit(grain)
    return kernel.compile_shared(module, chip)


def _hold(ctas: int) -> None:
    """Limits registers so that a multiprocessor holds this many CTAs: others load while one computes."""
    kernel = ir.InsertionPoint.current.block.owner
    kernel.attributes[MIN_CTAS] = ir.IntegerAttr.get(emit.i32(), ctas)


class _Maxima:
    def __init__(self, matrix: Source, partials: ir.Value, per_cta: ir.Value, count: ir.Value) -> None:
        self.matrix, self.partials, self.per_cta, self.count = matrix, partials, per_cta, count
        self.cta = emit.as_i32(gpu.block_id(gpu.Dimension.x))
        self.down, self.across = emit.ceil_div(matrix.rows, SIDE), emit.ceil_div(matrix.columns, SIDE)

    def emit(self, grain: str) -> None:
        {"tensor": self._of_tensor, "row": self._of_rows, "column": self._of_columns}[grain]()

    def _range(self, chunk: ir.Value, total: ir.Value) -> tuple[ir.Value, ir.Value]:
        first = emit.mul(chunk, self.per_cta)
        return first, emit.minimum(emit.add(first, self.per_cta), total)

    def _load(self, down: ir.Value, across: ir.Value) -> Square:
        return self.matrix.load(emit.mul(down, SIDE), emit.mul(across, SIDE))

    def _of_tensor(self) -> None:
        def body(tile: ir.Value) -> list[ir.Value]:
            down = emit.div(tile, self.across)
            values = self._load(down, emit.sub(tile, emit.mul(down, self.across)))
            return scales.row_maxima(values)

        buffer = shared()
        found = scales.loop(*self._range(self.cta, emit.mul(self.down, self.across)), OWN, body)
        total = scales.over_all(scales.largest(found), buffer)
        scales.put(total, self.partials, self.cta, emit.equal(emit.thread(), 0))

    def _of_rows(self) -> None:
        down = emit.div(self.cta, self.count)
        chunk = emit.sub(self.cta, emit.mul(down, self.count))
        first_and_end = self._range(chunk, self.across)
        found = scales.loop(*first_and_end, OWN, lambda tile: scales.row_maxima(self._load(down, tile)))
        total = scales.over_row(found)
        group, part = own()
        row = emit.add(emit.mul(down, SIDE), emit.add(emit.mul(group, OWN), emit.bit_and(part, OWN - 1)))
        exists = arith.andi(emit.less(part, OWN), emit.less(row, self.matrix.rows))
        scales.put(total, self.partials, emit.add(emit.mul(chunk, self.matrix.rows), row), exists)

    def _of_columns(self) -> None:
        chunk = emit.div(self.cta, self.across)
        across = emit.sub(self.cta, emit.mul(chunk, self.across))
        buffer, first_and_end = shared(), self._range(chunk, self.down)
        found = scales.loop(*first_and_end, OWN, lambda tile: scales.column_maxima(self._load(tile, across)))
        total = scales.over_columns(found, buffer)
        column = emit.add(emit.mul(across, SIDE), emit.thread())
        exists = arith.andi(emit.less(emit.thread(), SIDE), emit.less(column, self.matrix.columns))
        scales.put(total, self.partials, emit.add(emit.mul(chunk, self.matrix.columns), column), exists)


ARGUMENTS = ("x", "kept", "transposed", "partials", "scales", "transposed_scales")
"""The arrays of the kernel that casts, as far as it has them."""
NUMBERS = ("row_bytes", "kept_pitch", "transposed_pitch", "rows", "columns", "partial_count")
"""The numbers after them: three i64, then i32."""


def arrays_of(cast: Cast) -> tuple[str, ...]:
    """The arrays that its kernel takes."""
    tiled = not cast.has_partials
    exist = {
        "kept": cast.kept,
        "transposed": cast.transposed,
        "partials": not tiled,
        "scales": not tiled or cast.kept,
        "transposed_scales": tiled and cast.transposed,
    }
    return tuple(name for name in ARGUMENTS if exist.get(name, True))


@functools.lru_cache(maxsize=256)
def casting(cast: Cast) -> kernel.Kernel:
    """The kernel that casts: `arrays_of(cast)`, then `NUMBERS`."""
    names = arrays_of(cast)
    with Module() as module:
        pointer, i32, wide = ir.Type.parse("!llvm.ptr"), emit.i32(), ir.IntegerType.get_signless(64)
        kinds = [pointer] * len(names) + [wide] * 3 + [i32] * 3
        writes = [number for number, name in enumerate(names) if name not in ("x", "partials")]
        with module.kernel("cast_to_fp8", kinds, block=(THREADS, 1, 1), writes=writes) as values:
            if cast.scales == "group":
                _hold(2)
            _Casting(cast, dict(zip((*names, *NUMBERS), values, strict=True))).emit()
    return kernel.compile_shared(module, cast.chip)


class _Casting:
    def __init__(self, cast: Cast, given: dict[str, ir.Value]) -> None:
        self.cast, self.given = cast, given
        self.rows, self.columns = given["rows"], given["columns"]
        cta, across = emit.as_i32(gpu.block_id(gpu.Dimension.x)), emit.ceil_div(self.columns, SIDE)
        self.down, self.across = emit.div(cta, across), across
        self.part = emit.sub(cta, emit.mul(self.down, across))  # the tile in its row
        self.row, self.column = emit.mul(self.down, SIDE), emit.mul(self.part, SIDE)
        self.shared = shared()

    def emit(self) -> None:
        given, cast = self.given, self.cast
        source = Source(given["x"], given["row_bytes"], self.rows, self.columns, cast.source, cast.unit)
        values = source.load(self.row, self.column)
        if cast.scales == "group":
            self._groups(values)
            return
        factors: dict[str, Callable[[], Square]] = {
            "tensor": self._of_tensor,
            "row": self._of_rows,
            "column": self._of_columns,
            "block": lambda: self._of_block(values),
        }
        words = converted(values, factors[cast.scales](), cast.element)
        if cast.kept:
            self._keep(words)
        if cast.transposed:
            self._transpose(words)

    def _keep(self, words: list[list[ir.Value]]) -> None:
        target = Target(self.given["kept"], self.given["kept_pitch"], self.rows, self.columns)
        target.store(words, self.row, self.column)

    def _transpose(self, words: list[list[ir.Value]]) -> None:
        target = Target(self.given["transposed"], self.given["transposed_pitch"], self.columns, self.rows)
        target.store_transposed(words, self.shared, self.row, self.column)

    def _finish(self, maximum: ir.Value) -> tuple[ir.Value, ir.Value]:
        return scales.scale_and_factor(maximum, self.cast.element, self.cast.powers_of_two)

    def _partials(
        self, first: ir.Value | int, end: ir.Value, step: int, at: ir.Value | int, pitch: ir.Value
    ) -> ir.Value:
        base = llvm.addrspacecast(addresses.pointer_type(1), self.given["partials"])
        base = addresses.offset(base, arith.muli(i64(emit.value(at)), i64(4)))
        return scales.over_partials(base, first, end, step, pitch)

    def _of_tensor(self) -> Square:
        thread, count = emit.thread(), self.given["partial_count"]
        own_part = self._partials(thread, count, THREADS, 0, emit.value(1))
        scale, factor = self._finish(scales.over_all(own_part, self.shared))
        first = arith.andi(emit.equal(thread, 0), emit.equal(emit.add(self.row, self.column), 0))
        scales.put(scale, self.given["scales"], emit.value(0), first)
        return [[factor] * OWN] * OWN

    def _of_line(self, start: ir.Value, size: ir.Value, other: ir.Value, part: ir.Value) -> list[ir.Value]:
        """The factors of this thread's rows or columns: of the tile from `start` on, of `size`. The CTA whose
        coordinate `other` is 0 stores the scales.
        """
        at = emit.add(start, emit.thread())
        exists = arith.andi(emit.less(emit.thread(), SIDE), emit.less(at, size))
        inside = emit.minimum(at, emit.sub(size, 1))
        maximum = self._partials(0, self.given["partial_count"], 1, inside, size)
        scale, factor = self._finish(maximum)
        scales.put(scale, self.given["scales"], at, arith.andi(exists, emit.equal(other, 0)))
        return scales.shared_by(factor, self.shared, part)

    def _of_rows(self) -> Square:
        return [[each] * OWN for each in self._of_line(self.row, self.rows, self.column, own()[0])]

    def _of_columns(self) -> Square:
        return [self._of_line(self.column, self.columns, self.row, own()[1])] * OWN

    def _of_block(self, values: Square) -> Square:
        maximum = scales.over_all(scales.largest(scales.row_maxima(values)), self.shared)
        scale, factor = self._finish(maximum)
        first = emit.equal(emit.thread(), 0)
        if self.cast.kept:
            index = emit.add(emit.mul(self.down, self.across), self.part)
            scales.put(scale, self.given["scales"], index, first)
        if self.cast.transposed:
            index = emit.add(emit.mul(self.part, emit.ceil_div(self.rows, SIDE)), self.down)
            scales.put(scale, self.given["transposed_scales"], index, first)
        return [[factor] * OWN] * OWN

    def _groups(self, values: Square) -> None:
        group, part = own()
        if self.cast.kept:
            scale, factor = self._finish(scales.over_row(scales.row_maxima(values)))
            row = emit.add(self.row, emit.add(emit.mul(group, OWN), emit.bit_and(part, OWN - 1)))
            exists = arith.andi(emit.less(part, OWN), emit.less(row, self.rows))
            scales.put(
                scale, self.given["scales"], emit.add(emit.mul(self.part, _pitch(self.rows)), row), exists
            )
            factors = [[each] * OWN for each in scales.of_rows(factor)]
            self._keep(converted(values, factors, self.cast.element))
        if self.cast.transposed:
            maximum = scales.over_columns(scales.column_maxima(values), self.shared)
            scale, factor = self._finish(maximum)
            column = emit.add(self.column, emit.thread())
            exists = arith.andi(emit.less(emit.thread(), SIDE), emit.less(column, self.columns))
            index = emit.add(emit.mul(self.down, _pitch(self.columns)), column)
            scales.put(scale, self.given["transposed_scales"], index, exists)
            factors = [scales.shared_by(factor, self.shared, part)] * OWN
            self._transpose(converted(values, factors, self.cast.element))


PITCH = 4
"""Rows of scales of groups begin at multiples of this number of elements: of 16 bytes, as TMA requires."""


def _pitch(size: ir.Value) -> ir.Value:
    return emit.mul(emit.ceil_div(size, PITCH), PITCH)
