"""The kernels that cast a matrix to fp8: one finds largest magnitudes, one casts and transposes.

Both process tiles of 128 x 128 elements, of which each of 256 threads has 8 rows x 8 columns. Scales of a
tensor, of rows and of columns need two launches: the first leaves partial maxima, which the CTAs of the
second combine. So nothing has to be zero before, and nothing is added atomically. Groups and blocks lie
within a tile; they need only the second launch.
"""

import weft.language as w
from weft.dialects import tile
from weft.isa.chips import LANES
from weft.language.operations import runs
from weft.language.values.fragments import Fragment
from weft.language.values.scalars import Scalar
from weft.layout import Layout
from weft.mlir import llvm, math, nvvm
from weft.multiply.cast_options import LARGEST
from weft.multiply.kernels import blocks
from weft.multiply.kernels.blocks import THREADS, Blocks
from weft.passes.builders import emit, registers

SIDE, OWN = 128, 8  # rows and columns of a tile, and of a thread
ACROSS = SIDE // OWN  # neighboring lanes that have the columns of a row
LEAST = 2.0**-100  # scale, whose reciprocal is finite
_BLOCKS = Blocks(OWN, OWN, ACROSS)
_ROWS = _BLOCKS.shape[0]  # of a tile, that a warpgroup has
_BY_ROW = registers.without_axis(_BLOCKS.layout, _BLOCKS.shape, 1)
_OF_GROUPS = Layout.parse(f"S[(4,2,{ACROSS},{OWN}):(1@warpid,{ACROSS}@laneid,1@laneid,1)]")


def _tiles(x):
    return w.ceil_div(x.rows, SIDE), w.ceil_div(x.columns, SIDE)


@w.inline
def _load(x, row, column):
    """The tile that begins here, as f32. Outside of the matrix, it has other elements of the same row and
    column.
    """
    t = _BLOCKS.load(x[row + blocks.warpgroup() * _ROWS, column])
    if (x.columns - column < SIDE) & (x.columns % OWN != 0):  # what follows the row in memory
        t = w.where(w.column(t) < x.columns - column, t, 0.0)
    return t.to(w.f32)


def _magnitudes(t):
    """Those of this thread's rows."""
    numbers = [Scalar(math.absf(each)) for each in t.elements()]
    return [numbers[i : i + OWN] for i in range(0, OWN * OWN, OWN)]


def _larger(x, y):
    return Scalar(llvm.intr_maxnum(x.value, y.value))


def _largest(magnitudes):
    """The largest of some magnitudes; 0 if all are NaN."""
    found = w.f32(0)
    for each in magnitudes:
        found = _larger(found, each)
    return found


def _of_each(rows, *, columns=False):
    """The largest magnitude of each of this thread's rows or columns."""
    return [_largest(each) for each in (zip(*rows, strict=True) if columns else rows)]


def _over_row(maxima, start, limit):
    """The maximum over the lanes with the same 8 rows, of which a lane gets that of one; the number of this
    row, where the tile begins at `start`, and whether the lane is the first one of a row before `limit`.
    """

    def of_neighbor(x, bit):
        return Scalar(emit.of_lane(x.value, bit, nvvm.ShflKind.bfly))

    part = w.thread() & (ACROSS - 1)
    for bit in (4, 2, 1):
        upper, pairs = part & bit != 0, list(zip(maxima[:bit], maxima[bit:], strict=True))
        kept = [w.where(upper, high, low) for low, high in pairs]
        sent = [w.where(upper, low, high) for low, high in pairs]
        maxima = [_larger(x, of_neighbor(y, bit)) for x, y in zip(kept, sent, strict=True)]
    at = start + w.thread() // ACROSS * OWN + (part & (OWN - 1))
    return _larger(maxima[0], of_neighbor(maxima[0], OWN)), at, (part < OWN) & (at < limit)


def _over_columns(maxima, memory, start, limit):
    """The maximum of a column over all rows of a tile, its number and whether it is before `limit`: of the
    first 128 threads in order. Memory must not be in use.
    """
    shape, elements = (memory.shape[0] // 2, SIDE), [each.value for each in maxima]
    part, first = Fragment.of_lane(emit.vector_of(elements), shape, _OF_GROUPS), blocks.warpgroup() * shape[0]
    tile.store(part.value, memory.value, first.value, emit.value(0), vector_bytes=16)
    w.barrier()
    groups = [memory[n, w.thread() & (SIDE - 1)].loaded() for n in range(memory.shape[0])]
    return _largest(groups), *_line(start, limit)


def _line(start, limit):
    """The row or column of one of the first 128 threads, and whether it is before `limit`."""
    at = start + w.thread()
    return at, (w.thread() < SIDE) & (at < limit)


@w.inline
def _share(number, memory):
    """Leaves the numbers of the first 128 threads in memory, which must not be in use."""
    if w.thread() < SIDE:
        memory[w.thread()] = number
    w.barrier()


def _maxima_grid(x, partials, *, by):
    down, across = _tiles(x)
    return {"tensor": 1, "row": down, "column": across}[by], partials.rows


@w.kernel(grid=_maxima_grid, threads=THREADS)
def maxima(x: w.In["rows columns"], partials: w.Out["count lines", w.f32], per_cta: w.i32, *, by):
    """Finds the largest magnitudes of the tensor, of rows or of columns, in each of `count` parts of a row or
    column of tiles, or of all tiles. A CTA processes `per_cta` tiles, one after the other.
    """
    if x.dtype == w.f32:
        blocks.hold_ctas(2)  # so that one loads while another computes
    memory = w.shared(ACROSS, SIDE, w.f32) if by == "column" else None
    line, chunk, (down, across) = w.cta(0), w.cta(1), _tiles(x)
    total = {"tensor": down * across, "row": across, "column": down}[by]
    found = [w.f32(0) for _ in range(OWN)]
    for number in w.range(chunk * per_cta, w.minimum(chunk * per_cta + per_cta, total)):
        i, j = blocks.divided(number, across) if by == "tensor" else (line, number)
        if by == "column":
            i, j = j, i
        others = _of_each(_magnitudes(_load(x, i * SIDE, j * SIDE)), columns=by == "column")
        found = [_larger(one, other) for one, other in zip(found, others, strict=True)]
    if by == "tensor":
        maximum, at, exists = w.max(_largest(found)), 0, w.thread() == 0
    elif by == "row":
        maximum, at, exists = _over_row(found, line * SIDE, x.rows)
    else:
        maximum, at, exists = _over_columns(found, memory, line * SIDE, x.columns)
    if exists:
        partials[chunk, at] = maximum


@w.inline
def _over_partials(partials, first, step, line):
    """The largest of the partial maxima `first`, `first + step`, ... of a line."""
    found = w.f32(0)
    for number in w.range(first, partials.rows, step):
        found = _larger(found, partials[number, line].loaded())
    return found


@w.kernel(grid=lambda x: w.ceil_div(x.rows, SIDE) * w.ceil_div(x.columns, SIDE), threads=THREADS)
def cast(
    x: w.In["rows columns"],
    kept: w.Out["kept_rows kept_columns"],
    transposed: w.Out["transposed_rows transposed_columns"],
    partials: w.In["count lines", w.f32],
    scales: w.Out["scale_rows scale_columns", w.f32],
    transposed_scales: w.Out["transposed_scale_rows transposed_scale_columns", w.f32],
    *,
    by,
    keeps,
    transposes,
    powers_of_two,
):
    """Casts x to `kept` and `transposed`, whose rows begin at multiples of 16 bytes. Scales are `by`
    "tensor", "row", "column", "group" or "block" of x. Those of groups are by columns; those of tensors and
    lines are in one row.
    """
    i, j = blocks.divided(w.cta(0), _tiles(x)[1])
    row, column, own = i * SIDE, j * SIDE, i * SIDE + blocks.warpgroup() * _ROWS
    memory = _BLOCKS.shared(kept.dtype) if transposes else None
    shared = w.shared(1, SIDE, w.f32) if by in ("row", "column", "group") else None
    of_groups = w.shared(ACROSS, SIDE, w.f32) if by == "group" and transposes else None

    def finish(largest):
        """The scale for elements with this largest magnitude, and its reciprocal."""
        scale = _larger(largest / LARGEST[str(kept.dtype.type)], w.f32(LEAST))
        if powers_of_two:
            scale = ((scale.bitcast(w.i32) + ((1 << 23) - 1)) & (-1 << 23)).bitcast(w.f32)
        scale = w.where(largest == 0.0, 1.0, scale)
        return scale, 1.0 / scale

    def keep(t):
        runs.store(t.to(kept.dtype), kept[own, column])

    def transpose(t):
        lines, first = _BLOCKS.transposed(t.to(kept.dtype), memory)
        runs.store(lines, transposed[column + first, row])

    blocks.hold_ctas(2 if by == "group" or x.dtype == w.f32 else 3)
    values = _load(x, row, column)
    if by == "group":
        magnitudes = _magnitudes(values)
        if keeps:
            largest, at, exists = _over_row(_of_each(magnitudes), row, x.rows)
            scale, factor = finish(largest)
            if exists:
                scales[j, at] = scale
            first = w.thread() & (LANES - ACROSS)
            lanes = [emit.of_lane(factor.value, (first + n).value) for n in range(OWN)]
            keep(values * Fragment.of_lane(emit.vector_of(lanes), (_ROWS,), _BY_ROW))
        if transposes:
            largest, at, exists = _over_columns(
                _of_each(magnitudes, columns=True), of_groups, column, x.columns
            )
            scale, factor = finish(largest)
            if exists:
                transposed_scales[i, at] = scale
            _share(factor, shared)
            transpose(values * w.load_row(shared, like=values))
        return
    if by in ("row", "column"):
        start, size, is_first = (row, x.rows, j == 0) if by == "row" else (column, x.columns, i == 0)
        at, exists = _line(start, size)
        scale, factor = finish(_over_partials(partials, 0, 1, w.minimum(at, size - 1)))
        if exists & is_first:
            scales[0, at] = scale
        _share(factor, shared)
        if by == "row":
            factors = w.load_column(shared.columns(blocks.warpgroup() * _ROWS, _ROWS), like=values)
        else:
            factors = w.load_row(shared, like=values)
    elif by == "tensor":
        scale, factors = finish(w.max(_over_partials(partials, w.thread(), THREADS, 0)))
        if (w.thread() == 0) & (w.cta(0) == 0):
            scales[0, 0] = scale
    else:
        scale, factors = finish(w.max(_largest(_of_each(_magnitudes(values)))))
        if w.thread() == 0:
            if keeps:
                scales[i, j] = scale
            if transposes:
                transposed_scales[j, i] = scale
    if keeps:
        keep(values * factors)
    if transposes:
        transpose(values * factors)
