"""The kernels that cast a matrix to fp8: one finds largest magnitudes, one casts and transposes.

Both process tiles of 128 x 128 elements, of which each of 256 threads has 8 rows x 8 columns. Scales of a
tensor, of rows and of columns need two launches: the first leaves partial maxima, which the CTAs of the
second combine. So nothing has to be zero before, and nothing is added atomically. Groups and blocks lie
within a tile; they need only the second launch.
"""

import weft.language as w
from weft.isa.chips import LANES
from weft.isa.tensor_map import ROW_BYTES
from weft.language.values.scalars import Scalar
from weft.mlir import ir, llvm, nvvm
from weft.multiply.cast_options import LARGEST
from weft.multiply.kernels import vectors
from weft.multiply.kernels.vectors import Bytes, quotient

THREADS, SIDE, OWN = 256, 128, 8  # of a CTA; rows and columns of a tile, and of a thread
ACROSS = SIDE // OWN  # neighboring lanes that have the columns of a row
LEAST = 2.0**-100  # scale, whose reciprocal is finite
# Shared memory has the transposed tile, then 16 x 128 maxima and 128 factors in f32.
_MAXIMA = SIDE * SIDE
_FACTORS = _MAXIMA + 4 * ACROSS * SIDE
_SHARED = _FACTORS + 4 * SIDE
_PIECE = 8  # bytes of a column that a thread has


def _tiles(x):
    return w.ceil_div(x.rows, SIDE), w.ceil_div(x.columns, SIDE)


def _own():
    """The numbers of this thread's group of rows, and of its group of columns."""
    return w.thread() >> 4, w.thread() & (ACROSS - 1)


@w.inline
def _load(x, row, column, unit):
    """This thread's elements, by rows, of the tile that begins here. Those outside of the matrix repeat
    others of the tile in the same row or column.
    """
    group, part = _own()
    row, column, size = row + group * OWN, column + part * OWN, x.dtype.bytes
    start, pitch, per_vector = vectors.address(x), vectors.stride(x, 0), ROW_BYTES // size
    end = start + (x.rows - 1).to(w.i64) * pitch + (x.columns * size).to(w.i64)
    source = Bytes(start, end, unit)
    last = quotient(x.columns - 1, w.i32(per_vector)) * per_vector
    parts = [w.minimum(column + i, last) for i in range(0, OWN, per_vector)]
    rows = [w.minimum(row + i, x.rows - 1).to(w.i64) * pitch for i in range(OWN)]
    starts = [start + (each * size).to(w.i64) for each in parts]
    every = [[each + of_row for each in starts] for of_row in rows]
    corners = every[0][0], every[0][-1], every[-1][0], every[-1][-1]
    if (x.columns - parts[-1] >= per_vector) & source.has_vectors(*corners):
        words = source.vectors([at for of_row in every for at in of_row])
    else:
        left = [w.minimum((x.columns - each) * size, ROW_BYTES) for each in parts]
        pairs = [pair for of_row in every for pair in zip(of_row, left, strict=True)]
        words = [source.elements(*pair, size) for pair in pairs]
    numbers = [number for each in words for number in _numbers(each, x.dtype)]
    return [numbers[i : i + OWN] for i in range(0, OWN * OWN, OWN)]


def _numbers(words, dtype):
    """The elements in some words, as f32."""
    if dtype == w.f32:
        return [word.bitcast(w.f32) for word in words]
    if dtype == w.bf16:
        return [half.bitcast(w.f32) for word in words for half in (word << 16, word & (-1 << 16))]
    return [half.to(w.f32) for word in words for half in vectors.bitcast([word], w.f16)]


def _larger(x, y):
    """The larger of two magnitudes; of NaN and a number, the number."""
    return Scalar(llvm.intr_maxnum(x.value, y.value))


def _largest(values):
    """The largest magnitude of some f32; 0 if all are NaN."""
    found = w.f32(0)
    for each in values:
        found = _larger(found, (each.bitcast(w.i32) & 0x7FFFFFFF).bitcast(w.f32))
    return found


def _columns_of(rows):
    return [list(column) for column in zip(*rows, strict=True)]


def _over_row(maxima):
    """The maximum over the lanes with the same 8 rows. A lane gets that of the row whose number are the low
    bits of the lane.
    """
    _, part = _own()
    for bit in (4, 2, 1):
        upper, pairs = part & bit != 0, list(zip(maxima[:bit], maxima[bit:], strict=True))
        kept = [w.where(upper, high, low) for low, high in pairs]
        sent = [w.where(upper, low, high) for low, high in pairs]
        maxima = [_larger(x, vectors.of_neighbor(y, bit)) for x, y in zip(kept, sent, strict=True)]
    return _larger(maxima[0], vectors.of_neighbor(maxima[0], OWN))


def _over_columns(maxima, memory):
    """The maximum of each column over all rows of a tile, of the first 128 threads in order. Shared memory
    must not be in use; it is free again after a barrier.
    """
    group, part = _own()
    for i in range(0, OWN, 4):
        vectors.store(maxima[i : i + 4], memory, group * (4 * SIDE) + part * (4 * OWN) + (_MAXIMA + 4 * i))
    w.barrier()
    at = (w.thread() & (SIDE - 1)) * 4
    rows = [vectors.load(memory, at + (_MAXIMA + 4 * SIDE * i), w.f32, 1) for i in range(ACROSS)]
    return _largest([each for (each,) in rows])


@w.inline
def _over_all(maximum, memory):
    """The maximum over all threads, in all of them. Shared memory must not be in use; it is free again after
    a barrier.
    """
    for bit in (16, 8, 4, 2, 1):
        maximum = _larger(maximum, vectors.of_neighbor(maximum, bit))
    if w.thread() & (LANES - 1) == 0:
        vectors.store([maximum], memory, (w.thread() >> 5) * 4 + _MAXIMA)
    w.barrier()
    found = [vectors.load(memory, _MAXIMA + 4 * i, w.f32, 1) for i in range(THREADS // LANES)]
    return _largest([each for (each,) in found])


@w.inline
def _shared_by(number, memory, part):
    """The numbers from 8 * part on of those that the first 128 threads have."""
    if w.thread() < SIDE:
        vectors.store([number], memory, w.thread() * 4 + _FACTORS)
    w.barrier()
    halves = [vectors.load(memory, part * (4 * OWN) + (_FACTORS + 4 * i), w.f32) for i in (0, 4)]
    return [*halves[0], *halves[1]]


def _maxima_grid(x, partials, *, by):
    down, across = _tiles(x)
    return partials.rows * {"tensor": 1, "row": down, "column": across}[by]


@w.kernel(grid=_maxima_grid, threads=THREADS)
def maxima(x: w.In["rows columns"], partials: w.Out["count lines", w.f32], per_cta: w.i32, *, by, unit):
    """Finds the largest magnitudes of the tensor, of rows or of columns, in each of `count` parts of a row or
    column of tiles, or of all tiles. A CTA processes `per_cta` tiles, one after the other.
    """
    if x.dtype == w.f32:
        vectors.hold_ctas(2)  # so that one loads while another computes
    memory, cta, (down, across) = vectors.shared(_SHARED), w.cta(0), _tiles(x)
    if by == "tensor":
        line, chunk, total = 0, cta, down * across
    elif by == "row":
        line, total = quotient(cta, partials.rows), across
        chunk = cta - line * partials.rows
    else:
        chunk, total = quotient(cta, across), down
        line = cta - chunk * across
    found = [w.f32(0) for _ in range(OWN)]
    for tile in w.range(chunk * per_cta, w.minimum(chunk * per_cta + per_cta, total)):
        if by == "tensor":
            i = quotient(tile, across)
            j = tile - i * across
        else:
            i, j = (line, tile) if by == "row" else (tile, line)
        rows = _load(x, i * SIDE, j * SIDE, unit)
        others = map(_largest, _columns_of(rows) if by == "column" else rows)
        found = [_larger(one, other) for one, other in zip(found, others, strict=True)]
    group, part = _own()
    if by == "tensor":
        maximum, at, exists = _over_all(_largest(found), memory), 0, w.thread() == 0
    elif by == "row":
        maximum, at = _over_row(found), line * SIDE + group * OWN + (part & (OWN - 1))
        exists = (part < OWN) & (at < x.rows)
    else:
        maximum, at = _over_columns(found, memory), line * SIDE + w.thread()
        exists = (w.thread() < SIDE) & (at < x.columns)
    if exists:
        partials[chunk, at] = maximum


def _scale_and_factor(largest, element, powers_of_two):
    """The scale for elements with this largest magnitude, and its reciprocal."""
    scale = _larger(largest / LARGEST[element], w.f32(LEAST))
    if powers_of_two:
        scale = ((scale.bitcast(w.i32) + ((1 << 23) - 1)) & (-1 << 23)).bitcast(w.f32)
    scale = w.where(largest == 0.0, 1.0, scale)
    return scale, 1.0 / scale


def _converted(rows, factors, element):
    """The products of values and factors in fp8: two words for each row. They round to nearest even and
    saturate.
    """
    nearest, finite = (
        ir.Attribute.parse(f"#nvvm.{mode}>") for mode in ("fp_rnd_mode<rn", "sat_mode<satfinite")
    )
    kind, result = ir.Type.parse(element), list[list[Scalar]]()
    for row, of_row in zip(rows, factors, strict=True):
        scaled = [(x * factor).value for x, factor in zip(row, of_row, strict=True)]
        halves = [
            nvvm.convert_f32x2_to_f8x2(w.i16.type, scaled[i + 1], scaled[i], kind, rnd=nearest, sat=finite)
            for i in range(0, OWN, 2)
        ]
        result.append(vectors.bitcast([Scalar(each) for each in halves], w.i32))
    return result


@w.inline
def _store(words, to, row, column, rows, columns):
    """Stores bytes of a row of an array if it exists. They may extend into its padding."""
    at = vectors.address(to) + (row.to(w.i64) * vectors.stride(to, 0) + column.to(w.i64))
    if (row < rows) & (column < columns):
        vectors.store(words, vectors.pointer(at))


def _keep(words, to, row, column, x):
    """Stores this thread's elements of the tile that begins here."""
    group, part = _own()
    for number, each in enumerate(words):
        _store(each, to, row + group * OWN + number, column + part * OWN, x.rows, x.columns)


def _transpose(words, to, row, column, x, memory):
    """Stores the transpose of the tile that begins here in x. Each thread permutes the bytes of its own
    elements. A swizzle of 8-byte pieces in shared memory keeps bank conflicts away.
    """
    group, part = _own()
    for across in range(OWN // 4):
        low, high = (vectors.transposed(*(row[across] for row in words[i : i + 4])) for i in (0, 4))
        for number, pieces in enumerate(zip(low, high, strict=True)):
            line = part * OWN + (4 * across + number)
            vectors.store(pieces, memory, line * SIDE + (group ^ part) * _PIECE)
    w.barrier()
    for number in range(SIDE * SIDE // ROW_BYTES // THREADS):
        index = w.thread() + number * THREADS
        line, vector = index >> 3, index & 7
        key = line >> 3
        found = vectors.load(memory, line * SIDE + (vector ^ (key >> 1)) * ROW_BYTES)
        found = [w.where(key & 1 == 1, found[i ^ 2], found[i]) for i in range(4)]
        _store(found, to, column + line, row + vector * ROW_BYTES, x.columns, x.rows)


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
    unit,
    element,
    keeps,
    transposes,
    powers_of_two,
):
    """Casts x, whose rows begin at multiples of `unit` bytes, to `kept` and `transposed`, whose rows begin at
    multiples of 16. Scales are `by` "tensor", "row", "column", "group" or "block" of x. Those of groups are
    by columns; those of tensors and lines are in one row.
    """
    memory, across = vectors.shared(_SHARED), _tiles(x)[1]
    i = quotient(w.cta(0), across)
    j = w.cta(0) - i * across
    row, column, (group, part) = i * SIDE, j * SIDE, _own()

    def finish(maximum):
        return _scale_and_factor(maximum, element, powers_of_two)

    def of_line(start, size, is_first, own):
        """The factors of this thread's rows or columns, of the tile that begins here."""
        at = start + w.thread()
        scale, factor = finish(_over_partials(partials, 0, 1, w.minimum(at, size - 1)))
        if (w.thread() < SIDE) & (at < size) & is_first:
            scales[0, at] = scale
        return _shared_by(factor, memory, own)

    if by == "group":
        vectors.hold_ctas(2)
    values = _load(x, row, column, unit)
    if by == "group":
        if keeps:
            scale, factor = finish(_over_row([*map(_largest, values)]))
            at = row + group * OWN + (part & (OWN - 1))
            if (part < OWN) & (at < x.rows):
                scales[j, at] = scale
            first = w.thread() & (LANES - ACROSS)
            factors = [[vectors.of_lane(factor, first + n)] * OWN for n in range(OWN)]
            _keep(_converted(values, factors, element), kept, row, column, x)
        if transposes:
            scale, factor = finish(_over_columns([*map(_largest, _columns_of(values))], memory))
            at = column + w.thread()
            if (w.thread() < SIDE) & (at < x.columns):
                transposed_scales[i, at] = scale
            factors = [_shared_by(factor, memory, part)] * OWN
            _transpose(_converted(values, factors, element), transposed, row, column, x, memory)
    else:
        if by == "row":
            factors = [[each] * OWN for each in of_line(row, x.rows, j == 0, group)]
        elif by == "column":
            factors = [of_line(column, x.columns, i == 0, part)] * OWN
        elif by == "tensor":
            scale, factor = finish(_over_all(_over_partials(partials, w.thread(), THREADS, 0), memory))
            if (w.thread() == 0) & (w.cta(0) == 0):
                scales[0, 0] = scale
        else:
            scale, factor = finish(_over_all(_largest([_largest(each) for each in values]), memory))
            if w.thread() == 0:
                if keeps:
                    scales[i, j] = scale
                if transposes:
                    transposed_scales[j, i] = scale
        if by in ("tensor", "block"):
            factors = [[factor] * OWN] * OWN
        words = _converted(values, factors, element)
        if keeps:
            _keep(words, kept, row, column, x)
        if transposes:
            _transpose(words, transposed, row, column, x, memory)
