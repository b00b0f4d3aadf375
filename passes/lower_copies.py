"""`--lower-copies`: copies between memories and registers become cp.async, `mma.ldmatrix`, `tcgen05.ld`,
`st` and `cp`, and plain loads and stores.
"""

from weft.dialects import tile
from weft.dialects.op import refuse
from weft.dialects.tile import (
    CopyAsyncOp,
    CopyOp,
    CopyOutOp,
    CopyTmemOp,
    LoadOp,
    LoadRowOp,
    StoreOp,
    StoreRowOp,
    is_free,
    is_map,
)
from weft.dialects.tile_copies import ANY, BOTH, INSIDE, ZERO
from weft.dialects.tile_roles import RoleOp
from weft.isa.async_copy import CP_ASYNC
from weft.isa.chips import WARPGROUP, WARPS
from weft.mlir import arith, ir, llvm, nvvm, operations, scf
from weft.passes.analysis import active_threads, uniformity
from weft.passes.analysis.uniformity import Scope
from weft.passes.builders import (
    addresses,
    emit,
    fragment_moves,
    shared_tiles,
    tensor_memory_copies,
    thread_ids,
)
from weft.passes.builders.addresses import Matrix
from weft.passes.builders.row_copies import RowStores
from weft.passes.builders.shared_tiles import Point, SharedTile
from weft.passes.registry import remarks
from weft.passes.registry.pass_ import Pass


def run(module: ir.Operation) -> None:
    """Lowers every copy, load and store of a tile."""
    lowerings = {
        CopyAsyncOp: _copy_async,
        CopyOp: _copy,
        CopyOutOp: _copy_out,
        CopyTmemOp: tensor_memory_copies.copy,
        LoadOp: fragment_moves.load,
        LoadRowOp: fragment_moves.load_row,
        StoreRowOp: fragment_moves.store_row,
        StoreOp: fragment_moves.store,
    }
    kinds = list(lowerings)
    with uniformity.remembered():
        for op in sorted(operations(module, *kinds), key=lambda op: kinds.index(type(op))):
            if isinstance(op, CopyAsyncOp) and is_map(op.source):
                raise refuse(op, "expects a memref, got a tile.map: run --lower-tma before --lower-copies")
            if isinstance(op, (LoadOp, LoadRowOp, StoreOp, StoreRowOp)):
                _check_warps(op)
            with ir.InsertionPoint(op), op.location:
                result = lowerings[type(op)](op)
            if result is not None:
                op.results[0].replace_all_uses_with(result)
            op.operation.erase()


def _check_warps(op: LoadOp | LoadRowOp | StoreOp | StoreRowOp) -> None:
    """Raises WeftError where the fragment is a warpgroup's and some of its warps can't reach the op."""
    if is_free(op.fragment):
        raise refuse(op, f"expects a tensor with a #tile.layout, got {op.fragment.type}")
    if op.fragment.type.warps == 1:
        return
    warps = active_threads.warps_in_warpgroups(op)
    if warps is not None and len(warps) < WARPS:
        numbers = ", ".join(map(str, warps))
        got = f"warp{'s' * (len(warps) > 1)} {numbers} only" if warps else "none"
        raise refuse(
            op,
            f"expects all {WARPS} warps of a warpgroup, which hold the fragment, got {got}: move it out of "
            "the branch that the others don't take",
        )


def _copy_async(op: CopyAsyncOp) -> None:
    """Each thread takes every `threads`-th vector of the tile, row by row."""
    source, shared = Matrix(op.source), SharedTile(op.tile.type)
    (rows, columns), (threads, thread) = op.tile.type.shape, _copying_threads(op)
    width = op.attribute("vector_bytes")
    elements = width // source.bytes
    if columns % elements:
        raise refuse(op, f"expects tile rows of a multiple of {width} bytes, got {columns * source.bytes}")
    per_row = columns // elements
    if wrong := shared.run_complaint(elements):
        raise refuse(op, wrong)
    remarks.explain(op, lambda: _path_of_copy(op))
    base = tile.address(op.tile)
    rows_at_once = threads // per_row
    even = threads % per_row == 0 and rows % rows_at_once == 0
    split = even and shared_tiles.carry_free(shared.groups[0], rows_at_once)

    edges = op.attribute("rows"), op.attribute("columns")

    def copy(row: Point, column: ir.Value) -> None:
        from_row, from_column = emit.add(op.row, row.value, row.constant), emit.add(op.column, column)
        has_row, inside = None, elements
        # In place of what is undefined, the nearest vector of the matrix is read.
        if edges[0] == ANY:
            from_row = emit.minimum(from_row, emit.sub(source.rows, 1))
        elif edges[0] in (ZERO, BOTH):
            has_row = source.has_row(from_row)
        if edges[0] == BOTH:
            has_row = arith.andi(has_row, emit.less(-1, from_row))
        if edges[1] == ANY:
            last = emit.mul(emit.div(emit.sub(source.columns, 1), elements), elements)
            from_column = emit.minimum(from_column, last)
        if edges[1] != INSIDE:
            inside = emit.maximum(emit.minimum(emit.sub(source.columns, from_column), elements), 0)
        if edges[1] == BOTH:
            inside = emit.select(emit.less(-1, from_column), inside, 0)
        address = source.element_of(source.row(from_row), from_column)
        inside = inside if has_row is None else emit.select(has_row, inside, 0)
        bytes_ = None if isinstance(inside, int) else emit.mul(inside, source.bytes)
        target = addresses.offset(base, shared.offset(row, Point(column)))
        cache = nvvm.LoadCacheModifierKind[op.form.cache.upper()]
        nvvm.CpAsyncOp(target, address, width, cache, cpSize=bytes_)

    if split:
        row, column = emit.div(thread, per_row), emit.mul(emit.rem(thread, per_row), elements)
        for first in range(0, rows, rows_at_once):
            copy(Point(row, first), column)
        return
    for first in range(0, rows * per_row, threads):
        number = emit.add(thread, first)
        row, column = emit.div(number, per_row), emit.mul(emit.rem(number, per_row), elements)
        if first + threads <= rows * per_row:
            copy(Point(row), column)
            continue
        with emit.when(emit.less(number, rows * per_row)):
            copy(Point(row), column)


def _copying_threads(op: CopyAsyncOp) -> tuple[int, ir.Value]:
    """How many threads copy together, and the number of each: those of the CTA, or of a role's warpgroup."""
    threads, role = thread_ids.threads_of(op), op.operation.parent
    while role.name not in ("gpu.func", RoleOp.OPERATION_NAME):
        role = role.parent.operation
    if role.name == "gpu.func" or role.opview.by_warps:
        uniformity.require(op, Scope.CTA)
        return threads, emit.thread()
    uniformity.require(op, Scope.WARPGROUP)
    return WARPGROUP, emit.rem(emit.thread(), WARPGROUP)


def _path_of_copy(op: CopyAsyncOp) -> remarks.Path:
    """How threads copy a tile, and why not faster."""
    form, widest = op.form, max(each.bytes for each in CP_ASYNC.forms())
    notes = [f"cp.async.bulk.tensor (TMA) needs a tile.map, got {op.source.type}"]
    if form.bytes < widest:
        notes.insert(0, f"cp.async of {widest} bytes needs vector_bytes = {widest}, got {form.bytes}")
    return f"cp.async.{form.cache} of {form.bytes} bytes", notes


def _copy(op: CopyOp) -> None:
    """Each thread takes every `threads`-th element of the tile, in a loop."""
    source, shared = Matrix(op.source), SharedTile(op.tile.type)
    (rows, columns), threads = op.tile.type.shape, thread_ids.threads_of(op)
    uniformity.require(op, Scope.CTA)
    refused = "cp.async needs a tile.copy_async, whose rows are aligned to at least 4 bytes"
    remarks.explain(op, lambda: ("loads and stores of single elements", [refused]))
    base, thread = tile.address(op.tile), emit.thread()
    loop = scf.ForOp(thread, emit.value(rows * columns), emit.value(threads))
    with ir.InsertionPoint(loop.body):
        row, column = (emit.div(loop.induction_variable, columns), emit.rem(loop.induction_variable, columns))
        row_column = emit.add(op.row, row), emit.add(op.column, column)
        element = _guarded_load(source, *row_column, source.element, op.attribute("any_start"))
        llvm.store(element, addresses.offset(base, shared.offset(Point(row), Point(column))))
        scf.yield_([])


def _copy_out(op: CopyOutOp) -> None:
    uniformity.require(op, Scope.WARPGROUP)
    RowStores(op).emit()


def _guarded_load(
    source: Matrix, row: ir.Value, column: ir.Value, kind: ir.Type, any_start: bool = False
) -> ir.Value:
    """The element or vector at (`row`, `column`), zero outside of the matrix: then (0, 0) is read instead. A
    vector must be wholly inside or outside, and the matrix at least as wide. Both numbers must be at least 0,
    unless they have `any_start`.
    """
    inside = arith.andi(source.has_row(row), source.has_column(column))
    if any_start:
        inside = arith.andi(inside, emit.less(-1, emit.minimum(row, column)))
    return fragment_moves.guarded(source, source.element_of(source.row(row), column), inside, kind)


LOWER_COPIES = Pass(
    "lower-copies",
    "lower tile copies, loads and stores to cp.async, ldmatrix, tcgen05.ld, st and cp, and memory",
    run,
    lowers=(CopyAsyncOp, CopyOp, CopyOutOp, CopyTmemOp, LoadOp, LoadRowOp, StoreOp, StoreRowOp),
)
