"""`--assign-layouts`: gives each tile without a layout one.

Tiles that an operation by elements, a loop or a branch connects have one layout. Reductions and broadcasts
connect tiles and vectors to a group. If `tile.convert_layout` converts a tile of a group from or to a layout,
such as that of the sums of a product, the group follows it. Otherwise its tiles are divided for memory: each
lane accesses as many bytes at once as it can, neighboring lanes neighboring bytes, and a row is within a
warp, so that reductions of rows need no shared memory.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from weft import mlir
from weft.dialects import tile
from weft.dialects.op import as_attribute, refuse
from weft.dialects.tile import (
    BroadcastOp,
    ConvertLayoutOp,
    CoordinateOp,
    FragmentType,
    GemmOp,
    LoadOp,
    LoadRowOp,
    ReduceOp,
    StoreOp,
    StoreRowOp,
    is_fragment,
    is_free,
)
from weft.dialects.tile_roles import RoleOp
from weft.ir import instrumentation
from weft.isa.chips import LANES, THREAD_REGISTERS, WARPS
from weft.isa.mma.fragments import REGISTER_BITS
from weft.layout import Iter, Layout
from weft.mlir import arith, gpu, ir, operations, scf, tensor
from weft.passes.builders import emit, registers
from weft.passes.lower_fragments import BY_ELEMENT
from weft.passes.registry import remarks
from weft.passes.registry.pass_ import Pass, replace

Shape = tuple[int, ...]
_Key = TypeVar("_Key")
_MEMORY = (LoadOp, LoadRowOp, StoreOp, StoreRowOp)
_PURE = (*BY_ELEMENT, LoadRowOp.OPERATION_NAME, CoordinateOp.OPERATION_NAME)
"""The beginnings of the names of operations that may be built again in the same place."""
_COLUMNS = 8
"""The columns of sums are a multiple of this."""


def run(module: ir.Operation) -> None:
    """Gives the tiles of each kernel layouts."""
    for kernel in operations(module, gpu.GPUFuncOp):
        if any(_free(op) for op in operations(kernel, *_MEMORY, ConvertLayoutOp, CoordinateOp)):
            _assign(kernel)


def _free(op: ir.OpView) -> list[ir.Value]:
    """The tiles without a layout that an operation takes or returns."""
    values = (*op.operation.operands, *op.operation.results)
    return [each for each in values if is_free(each)]


@dataclass(eq=False)
class _Class:
    """Tiles that have one layout, and what determines it."""

    values: list[ir.Value]
    wanted: list[Layout] = field(default_factory=list)
    """Layouts from or to which the tiles are converted."""
    bits: int = 0
    """The bits of the narrowest element that is loaded or stored; 0 for none."""
    along: list[tuple["_Class", int]] = field(default_factory=list)
    """Of vectors: the tiles of which they are reductions or parts, and the dimension that they lack."""
    layout: Layout | None = None
    for_memory: bool = False

    @property
    def shape(self) -> Shape:
        """The extents of the tiles."""
        return tuple(self.values[0].type.shape)


def _assign(kernel: gpu.GPUFuncOp) -> None:
    _divide_constants(kernel)
    _divide_vectors(kernel)
    found = [op.opview for op in mlir.within(kernel) if _free(op.opview)]
    sets = {each: [each] for op in found for each in (*_free(op), *_arguments(op))}
    for op in found:
        _check(op)
        for values in same_layout(op):
            _join(sets, [each for each in values if each in sets])
    classes = {id(values): _Class(values) for values in sets.values()}
    groups = {each: [each] for each in classes.values()}
    for op in found:
        _describe(op, lambda value: classes[id(sets[value])])
    for one in classes.values():
        _join(groups, [one, *(of for of, _ in one.along)])
    for group in {id(each): each for each in groups.values()}.values():
        _choose(group)
    for one in classes.values():
        assert one.layout is not None, "each group has layouts"
        for value in one.values:
            kind = FragmentType.of(one.shape, value.type.element_type, one.layout)
            emit.retype(value, kind)
    for op in found:
        if isinstance(op, _MEMORY):
            _explain(op, classes[id(sets[op.fragment])])
    for op in found:
        _settle(op)


def _join(sets: dict[_Key, list[_Key]], members: list[_Key]) -> None:
    """Makes one set of those that have the members."""
    for each in members[1:]:
        whole, other = sets[members[0]], sets[each]
        if other is not whole:
            whole += other
            sets.update(dict.fromkeys(other, whole))


def _divide_constants(kernel: gpu.GPUFuncOp) -> None:
    """Gives each use of a constant tile, or of coordinates, one of its own: uses may need other layouts."""
    for op in operations(kernel, arith.ConstantOp, tensor.SplatOp, CoordinateOp):
        if _free(op):
            for use in list(op.result.uses)[1:]:
                with ir.InsertionPoint(op):
                    use.owner.operands[use.operand_number] = op.operation.clone().result


def _divide_vectors(kernel: gpu.GPUFuncOp) -> None:
    """Gives vectors that are of rows and also of columns, as CSE merges these, one operation for each."""
    broadcasts = [op for op in operations(kernel, BroadcastOp) if is_free(op.vector)]
    axes, made = dict[ir.Value, set[int]](), dict[ir.Value, ir.Value]()

    def note(value: ir.Value, axis: int) -> None:
        is_pure = not isinstance(value.owner, ir.Block) and value.owner.name.startswith(_PURE)
        if is_free(value) and is_pure and axis not in axes.setdefault(value, set()):
            axes[value].add(axis)
            for each in value.owner.operands:
                note(each, axis)

    def of_columns(value: ir.Value) -> ir.Value:
        if value not in axes or value in made:
            return made.get(value, value)
        op = value.owner
        if len(axes[value]) > 1:
            with ir.InsertionPoint.after(op):
                op = op.clone()
        made[value] = op.result
        for number, each in enumerate(op.operands):
            op.operands[number] = of_columns(each)
        return made[value]

    for op in broadcasts:
        note(op.vector, op.attribute("axis"))
    for op in broadcasts:
        if op.attribute("axis") == 0:
            op.operation.operands[0] = of_columns(op.vector)


def same_layout(op: ir.OpView) -> list[Iterable[ir.Value]]:
    """The values around an operation that have one layout: several sets of them."""
    if isinstance(op, scf.ForOp):
        ends = op.body.operations[-1].operands
        return list(zip(op.initArgs, op.inner_iter_args, ends, op.results, strict=True))
    if isinstance(op, scf.IfOp):
        ends = [block.operations[-1].operands for region in op.regions for block in region.blocks]
        return list(zip(op.results, *ends, strict=True)) if op.results else []
    if isinstance(op, scf.WhileOp):
        before, after = op.before.blocks[0], op.after.blocks[0]
        passed = list(before.operations[-1].operands)[1:]
        again = after.operations[-1].operands
        return [
            *zip(op.inits, before.arguments, again, strict=True),
            *zip(passed, after.arguments, op.results, strict=True),
        ]
    by_element = op.operation.name.startswith(BY_ELEMENT)
    return [(*op.operation.operands, *op.operation.results)] if by_element else []


def _arguments(op: ir.OpView) -> list[ir.Value]:
    """The arguments of an operation's blocks that are tiles without a layout."""
    blocks = [block for region in op.operation.regions for block in region.blocks]
    return [a for block in blocks for a in block.arguments if is_free(a)]


def _check(op: ir.OpView) -> None:
    """Raises WeftError for tiles that other passes must have given layouts."""
    if isinstance(op, GemmOp):
        raise refuse(op, "expects tiles with layouts: run --pipeline-loops first")


def _describe(op: ir.OpView, class_of: Callable[[ir.Value], _Class]) -> None:
    """Adds what an operation requires of the layouts of its tiles."""
    if isinstance(op, ConvertLayoutOp):
        for value, other in ((op.source, op.fragment), (op.fragment, op.source)):
            if not is_fragment(value) and is_fragment(other):
                class_of(value).wanted.append(other.type.layout)
    elif isinstance(op, ReduceOp | BroadcastOp):
        tile_, vector = (op.source, op.vector) if isinstance(op, ReduceOp) else (op.fragment, op.vector)
        class_of(vector).along.append((class_of(tile_), op.attribute("axis")))
    elif isinstance(op, _MEMORY):
        one, bits = class_of(op.fragment), op.fragment.type.element_type.width
        one.bits = min(one.bits or bits, bits)


def _choose(classes: list[_Class]) -> None:
    """Chooses the layouts of a group."""
    tiles = [each for each in classes if len(each.shape) > 1]
    vectors = [each for each in classes if len(each.shape) == 1]
    follows = any(each.wanted for each in classes)
    for each in (*tiles, *vectors):
        each.layout = each.wanted[0] if each.wanted else None
    for each in tiles:
        if follows and each.layout is None:
            each.layout = _following(each, vectors)
    rest = [each for each in tiles if each.layout is None]
    for each in rest:
        each.layout, each.for_memory = _for_memory(each.shape, *_divided(rest)), True
    for each in vectors:
        found = _layouts_of_tiles(each)
        each.layout = each.layout or (found[0] if found else _alone(each.shape[0]))


def _layouts_of_tiles(vector: _Class) -> list[Layout]:
    """The layouts of a vector that follow from those of its tiles."""
    along = ((of, axis) for of, axis in vector.along if of.layout is not None)
    return [registers.without_axis(of.layout, of.shape, axis) for of, axis in along]


def _following(one: _Class, vectors: list[_Class]) -> Layout | None:
    """A layout of sums whose rows and columns are where the group's vectors already are; None without one."""
    if one.shape[0] % registers.WGMMA_ROWS or one.shape[1] % _COLUMNS:
        return None
    for block in (registers.WGMMA_ROWS, registers.LANE_ROWS):
        layout = registers.sums(one.shape, block)
        if all(
            registers.same(registers.without_axis(layout, one.shape, axis), other, vector.shape)
            for vector in vectors
            for of, axis in vector.along
            if of is one
            for other in (*vector.wanted, *_layouts_of_tiles(vector))
        ):
            return layout
    return None


def _divided(tiles: list[_Class]) -> tuple[int, int]:
    """The elements that a lane accesses at once, and the lanes of a warp that share a row, of tiles whose
    vectors are in one layout.
    """
    builders, threads = [_builder(each) for each in tiles], WARPS * LANES
    bits = min((each.bits for each in tiles if each.bits), default=REGISTER_BITS)
    run_ = min(_power(each.shape[1], registers.MOST_BYTES * 8 // bits) for each in tiles)
    while True:
        lanes = min(_power(each.shape[1] // run_, LANES) for each in tiles)
        unfit = [n for n, each in enumerate(tiles) if each.shape[0] % (threads // lanes)]
        if not unfit:
            return run_, lanes
        if run_ == 1:
            break
        run_ //= 2
    (rows, columns), of = tiles[unfit[0]].shape, builders[unfit[0]]
    raise refuse(
        of,
        f"can't divide {rows} rows of {columns} among {threads} threads: use a multiple of "
        f"{threads // lanes} rows",
    )


def _builder(one: _Class) -> ir.OpView:
    """An operation that returns one of the tiles. Raises WeftError if they need too many registers."""
    owners = [each.owner for each in one.values if not isinstance(each.owner, ir.Block)]
    op, holder = owners[0].opview, owners[0]
    while holder is not None and holder.name != RoleOp.OPERATION_NAME:
        holder = holder.parent and holder.parent.operation
    most = (holder and holder.opview.attribute("registers")) or THREAD_REGISTERS
    (rows, columns), width = one.shape, max(each.type.element_type.width for each in one.values)
    needed = rows * columns * width // (REGISTER_BITS * WARPS * LANES)
    if needed > most:
        fit = columns * most // needed // _COLUMNS * _COLUMNS
        raise refuse(
            op,
            f"has a tile of {rows} x {columns} that needs {needed} registers of a thread, which has {most}: "
            f"loop over parts of its columns, at most {fit} at once",
        )
    return op


def _power(number: int, most: int) -> int:
    """The largest power of two that divides a number, up to another one."""
    return min(number & -number, most)


def _for_memory(shape: Shape, run_: int, lanes: int) -> Layout:
    """The layout of a tile of a warpgroup in which lanes access neighboring runs of elements of a row."""
    (rows, columns), apart = shape, WARPS * LANES // lanes
    steps = columns // (run_ * lanes)
    of_rows = (
        Iter(rows // apart, steps * run_),
        Iter(WARPS, 1, "warpid"),
        Iter(LANES // lanes, lanes, "laneid"),
    )
    return _layout((*of_rows, Iter(steps, run_), Iter(lanes, 1, "laneid"), Iter(run_, 1)))


def _alone(count: int) -> Layout:
    """The layout of a vector without a tile, whose elements as many threads of a warpgroup share as divide
    them.
    """
    lanes = _power(count, LANES)
    warps = _power(count // lanes, WARPS)
    shard = Iter(count // (warps * lanes), 1), Iter(warps, 1, "warpid"), Iter(lanes, 1, "laneid")
    return _layout(shard, (Iter(WARPS // warps, warps, "warpid"), Iter(LANES // lanes, lanes, "laneid")))


def _layout(shard: tuple[Iter, ...], replica: tuple[Iter, ...] = ()) -> Layout:
    """The layout of these parts, without those of one element."""
    whole, copies = (tuple(each for each in parts if each.extent > 1) for parts in (shard, replica))
    return Layout(whole, copies)


def _explain(op: ir.OpView, one: _Class) -> None:
    """Reports the layout of a tile that is loaded or stored, if remarks are enabled."""
    why = "for memory: a row is in one warp" if one.for_memory else "that of a tile that it meets"
    instrumentation.explain(lambda: remarks.remark(op, f"gets the layout {one.layout}", [why]))


def _settle(op: ir.OpView) -> None:
    """Adjusts an operation to the layouts of its tiles."""
    if isinstance(op, ConvertLayoutOp) and op.source.type == op.fragment.type:
        replace(op, lambda op: op.source)
    elif isinstance(op, LoadOp) and op.attribute("transpose"):
        replace(op, _transposed)
    elif isinstance(op, _MEMORY) and "vector_bytes" in op.operation.attributes:
        width = min(registers.access_bytes(op.fragment.type), op.attribute("vector_bytes"))
        op.operation.attributes["vector_bytes"] = as_attribute(width)


def _transposed(op: LoadOp) -> ir.Value:
    """A transposed tile of a matrix, loaded as it is there, by the lanes that get its elements."""
    kind = op.fragment.type
    layout = registers.transposed(kind.layout, kind.shape)
    there = FragmentType.of(tuple(kind.shape[::-1]), kind.element_type, layout)
    loaded = tile.load(op.source, op.row, op.column, there, vector_bytes=op.attribute("vector_bytes"))
    _settle(loaded.owner.opview)
    return tile.from_lane(tile.to_lane(loaded), kind)


ASSIGN_LAYOUTS = Pass("assign-layouts", "give tiles without a layout one", run)
