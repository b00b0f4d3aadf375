"""The kernel that copies matrices whose rows begin anywhere to rows that TMA takes: two in one launch, each
as it is or transposed.
"""

import weft.language as w
from weft.isa.chips import LANES, WARPGROUP
from weft.isa.tensor_map import ROW_BYTES
from weft.language.operations import runs
from weft.language.values.coordinates import of_lanes
from weft.language.values.fragments import Fragment
from weft.layout import Layout
from weft.multiply.kernels import blocks
from weft.multiply.kernels.blocks import THREADS, Blocks
from weft.passes.builders import registers

_VECTORS = 4  # that a thread copies
_ROWS = _WIDTH = 128  # that a CTA transposes, and their bytes
_AT_ONCE = 4  # rows of which a thread loads a vector, to transpose them


def _ctas(source, element, transposes, number=lambda number: number):
    """The CTAs that copy a matrix with elements of so many bytes. `number` makes a number of those that i32
    may not hold.
    """
    if transposes:
        tiles = w.ceil_div(source.rows, _ROWS) * w.ceil_div(source.columns, _WIDTH // element)
        return source.matrices * tiles
    vectors = number(w.ceil_div(source.columns, ROW_BYTES // element))
    return w.ceil_div(number(source.matrices * source.rows) * vectors, THREADS * _VECTORS)


def _grid(a, b, *, elements, transposed):
    return sum(map(_ctas, (a, b), elements, transposed))


def _copy(cta, source, to, batched, wide):
    """Copies the vectors of this CTA. With `wide`, i32 can't number them."""
    vector, kind = ROW_BYTES // source.dtype.bytes, w.u64 if wide else w.u32
    shape = _VECTORS * WARPGROUP, vector
    layout = Layout.parse(f"S[({_VECTORS},4,{LANES},{vector}):({vector},1@warpid,1@laneid,1)]")
    own = of_lanes(Fragment.of_layout(shape[:1], registers.without_axis(layout, shape, 1)))
    number = own.to(kind) + (cta.to(kind) * (THREADS * _VECTORS) + (blocks.warpgroup() * shape[0]).to(kind))
    per_row = w.ceil_div(source.columns, vector).to(kind)
    row = number // per_row
    column = (number - row * per_row).to(w.i32) * vector
    row, member = row.to(w.i32), 0
    if batched:
        member, row = blocks.divided(row, source.rows)
    runs.store(runs.load(source[member, row, column], shape, layout), to[member, row, column])


def blocks_of(size):
    """The blocks in which a matrix with elements of so many bytes is transposed."""
    return Blocks(_AT_ONCE, ROW_BYTES // size, _WIDTH // ROW_BYTES, size)


def _transpose(cta, source, to, tile, memory):
    width = tile.shape[1]
    down, across = w.ceil_div(source.rows, _ROWS), w.ceil_div(source.columns, width)
    member, cta = blocks.divided(cta, down * across)
    i, j = blocks.divided(cta, across)
    row, column = i * _ROWS, j * width
    own = tile.load(source[member, row + blocks.warpgroup() * tile.shape[0], column])
    rows, first = tile.transposed(own, memory)
    runs.store(rows, to[member, column + first, row])


@w.kernel(grid=_grid, threads=THREADS, dependent=True)
def copy_rows(
    a: w.In["a_members a_rows a_columns"],
    a_copy: w.Out["a_copy_members a_copy_rows a_pitch"],
    b: w.In["b_members b_rows b_columns"],
    b_copy: w.Out["b_copy_members b_copy_rows b_pitch"],
    *,
    elements,
    transposed,
    batched,
    wide,
):
    """Copies a, and b if there are two `elements`, their bytes, to rows of whole vectors, as they are or
    `transposed`.
    """
    pairs, tiles = ((a, a_copy), (b, b_copy)), [*map(blocks_of, elements)]
    memory = [tiles[n].shared(pairs[n][0].dtype) if each else None for n, each in enumerate(transposed)]

    def copy(cta, n):
        if transposed[n]:
            _transpose(cta, *pairs[n], tiles[n], memory[n])
        else:
            _copy(cta, *pairs[n], batched, wide)

    cta = w.cta(0)
    if len(elements) == 1:
        copy(cta, 0)
    else:
        first = _ctas(a, elements[0], transposed[0], lambda number: number.to(w.i64)).to(w.i32)
        if cta < first:
            copy(cta, 0)
        else:
            copy(cta - first, 1)
