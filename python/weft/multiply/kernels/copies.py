"""The kernel that copies matrices, whose rows begin anywhere, to rows that TMA takes: two in one launch, each
as it is or transposed. Matrices are batches of rows of bytes.
"""

from typing import NamedTuple

import weft.language as w
from weft.isa.tensor_map import ROW_BYTES
from weft.multiply.kernels import vectors
from weft.multiply.kernels.vectors import Bytes, ceil_div, quotient

THREADS = 256
_VECTORS = 4  # that a thread copies
_ROWS = _WIDTH = 128  # that a CTA transposes, and their bytes
_AT_ONCE = 4  # rows of which a thread loads a vector, to transpose them
_ACROSS = _WIDTH // ROW_BYTES  # vectors in a row of a tile


def _ctas(source, size):
    """The CTAs that copy a matrix, of the grid."""
    if size:
        return source.matrices * w.ceil_div(source.rows, _ROWS) * w.ceil_div(source.columns, _WIDTH)
    vectors_ = source.matrices * source.rows * w.ceil_div(source.columns, ROW_BYTES)
    return w.ceil_div(vectors_, THREADS * _VECTORS)


def _grid(a, b, *, sizes):
    return sum(_ctas(each, size) for each, size in zip((a, b), sizes, strict=False))


class _Rows(NamedTuple):
    """A matrix or batch, and the address of its copy: distances and addresses in bytes, as i64."""

    start: w.i64
    target: w.i64
    member_stride: w.i64
    stride: w.i64
    pitch: w.i64
    members: w.i32
    count: w.i32
    width: w.i32

    @staticmethod
    def of(source, target):
        """Those of two arrays."""
        addresses = vectors.address(source), vectors.address(target)
        strides = vectors.stride(source, 0), vectors.stride(source, 1), vectors.stride(target, 1)
        return _Rows(*addresses, *strides, source.matrices, source.rows, source.columns)

    def bytes(self, unit):
        """The bytes of the matrix."""
        end = (self.members - 1).to(w.i64) * self.member_stride + (self.count - 1).to(w.i64) * self.stride
        return Bytes(self.start, self.start + end + self.width.to(w.i64), unit)

    def ctas(self, size):
        """The CTAs that copy it."""
        if size:
            return self.members * ceil_div(self.count, _ROWS) * ceil_div(self.width, _WIDTH)
        number = (self.members * self.count).to(w.i64) * ceil_div(self.width, ROW_BYTES).to(w.i64)
        return quotient(number + (THREADS * _VECTORS - 1), w.i64(THREADS * _VECTORS)).to(w.i32)


@w.inline
def _copy(cta, rows, unit, batched, wide):
    """Copies the vectors of this CTA. A thread stores 16 bytes at a time. It loads the two aligned vectors
    that contain them, and shifts. With `wide`, i32 can't number the vectors.
    """
    kind, per_row, source = w.i64 if wide else w.i32, ceil_div(rows.width, ROW_BYTES), rows.bytes(unit)
    total = (rows.members * rows.count).to(kind) * per_row.to(kind)
    exist, sources, targets, sizes = [], [], [], []
    for number in range(_VECTORS):
        index = cta.to(kind) * (THREADS * _VECTORS) + (w.thread() + number * THREADS).to(kind)
        exist.append(index < total)
        index = w.minimum(index, total - 1)  # threads without a vector load the last one
        row = quotient(index, per_row.to(kind))
        column = (index - row * per_row.to(kind)).to(w.i32) * ROW_BYTES
        row, at = row.to(w.i32), rows.start
        targets.append(rows.target + row.to(w.i64) * rows.pitch + column.to(w.i64))
        if batched:
            member = quotient(row, rows.count)
            row, at = row - member * rows.count, at + member.to(w.i64) * rows.member_stride
        sources.append(at + row.to(w.i64) * rows.stride + column.to(w.i64))
        sizes.append(w.minimum(rows.width - column, ROW_BYTES))
    if source.has_vectors(*sources):
        words = source.vectors(sources)
        for number in range(_VECTORS):
            if exist[number]:
                vectors.store(words[number], vectors.pointer(targets[number]))
    else:
        for number in range(_VECTORS):
            if exist[number]:
                words = source.elements(sources[number], sizes[number], unit)
                vectors.store(words, vectors.pointer(targets[number]))


@w.inline
def _transpose(cta, rows, size, unit, batched, memory):
    """Copies a tile of 128 rows with 128 bytes each. A thread loads 16 bytes of each of four rows, transposes
    them in registers, and stores them to shared memory, column by column. Then each thread copies 16 bytes of
    a column at a time. A swizzle of 16-byte vectors keeps bank conflicts away from both.
    """
    across, source, start, first = ceil_div(rows.width, _WIDTH), rows.bytes(unit), rows.start, rows.target
    if batched:
        in_member = across * ceil_div(rows.count, _ROWS)
        member = quotient(cta, in_member)
        cta, start = cta - member * in_member, start + member.to(w.i64) * rows.member_stride
        first = first + member.to(w.i64) * (quotient(rows.width, w.i32(size)).to(w.i64) * rows.pitch)
    down = quotient(cta, across)
    row, column = down * _ROWS, (cta - down * across) * _WIDTH
    group, part = w.thread() >> 3, w.thread() & (_ACROSS - 1)
    # Beyond the matrix, a thread loads vectors of others.
    own = w.minimum(column + part * ROW_BYTES, (ceil_div(rows.width, ROW_BYTES) - 1) * ROW_BYTES)
    lines = [w.minimum(row + group * _AT_ONCE + i, rows.count - 1) for i in range(_AT_ONCE)]
    every = [start + own.to(w.i64) + line.to(w.i64) * rows.stride for line in lines]
    # Strides aren't negative: what the first and the last row have, those between have, too.
    if source.has_vectors(every[0], every[-1]):
        words = source.vectors(every)
    else:
        left = w.minimum(rows.width - own, ROW_BYTES)
        words = [source.elements(at, left, size) for at in every]
    columns = [list(column) for column in zip(*words, strict=True)]
    if size == 1:
        columns = [[word] for column in columns for word in vectors.transposed(*column)]
    per_vector, per_column = ROW_BYTES // size, _ROWS * size
    for number, words in enumerate(columns):
        at = (group * (_AT_ONCE * size)) ^ (part * ROW_BYTES)
        vectors.store(words, memory, part * (per_vector * per_column) + at + number * per_column)
    w.barrier()
    end = quotient(rows.width, w.i32(size))
    column = quotient(column, w.i32(size))
    for number in range(_ROWS * _ACROSS // THREADS):
        index = w.thread() + number * THREADS
        line, part = quotient(index, w.i32(per_column // ROW_BYTES)), index & (per_column // ROW_BYTES - 1)
        swizzled = part ^ quotient(line, w.i32(per_vector))
        to_row, to_byte = column + line, row * size + part * ROW_BYTES
        if (to_row < end) & (to_byte < rows.count * size):
            words = vectors.load(memory, line * per_column + swizzled * ROW_BYTES)
            vectors.store(words, vectors.pointer(first + to_row.to(w.i64) * rows.pitch + to_byte.to(w.i64)))


@w.kernel(grid=_grid, threads=THREADS, dependent=True)
def copy_rows(
    a: w.In["a_members a_rows a_width", w.u8],
    a_copy: w.Out["a_copy_members a_copy_rows a_pitch", w.u8],
    b: w.In["b_members b_rows b_width", w.u8],
    b_copy: w.Out["b_copy_members b_copy_rows b_pitch", w.u8],
    *,
    sizes,
    unit,
    batched,
    wide,
):
    """Copies a, and b if there are two `sizes`. A size of 0 is that of rows that stay as they are, another
    one that of the elements of a matrix that is transposed. Rows begin at multiples of `unit` bytes.
    """
    cta, rows, transposes = w.cta(0), _Rows.of(a, a_copy), sizes[0] > 0
    memory = vectors.shared(_ROWS * _WIDTH) if any(sizes) else None
    if len(sizes) > 1:
        first = rows.ctas(sizes[0])
        is_first = cta < first
        cta = w.where(is_first, cta, cta - first)
        pairs = zip(rows, _Rows.of(b, b_copy), strict=True)
        rows = _Rows(*(w.where(is_first, one, other) for one, other in pairs))
        if transposes != (sizes[1] > 0):
            transposes = is_first if transposes else ~is_first
    if transposes:
        _transpose(cta, rows, max(sizes), unit, batched, memory)
    else:
        _copy(cta, rows, unit, batched, wide)
