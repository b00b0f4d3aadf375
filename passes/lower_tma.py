"""`--lower-tma`: matrices that TMA copies become tensor maps among the kernel's arguments, and copies between
them and shared memory become `cp.async.bulk.tensor`.

The kernel's attribute `weft.tensor_maps` lists the tensor maps that a launch must pass after the arguments,
in order: `matrix` is the number of the memref, `box` the rows and columns of one copy, `swizzle` its layout
in shared memory, and `l2_promotion` the bytes that L2 reads at once. The eviction priority is part of the
copies.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from weft.dialects import tile
from weft.dialects.launch_contract import TENSOR_MAPS
from weft.dialects.op import as_attribute, refuse
from weft.dialects.schedule.family import SWIZZLES
from weft.dialects.tile import CopyAsyncOp, is_map
from weft.dialects.tile_copies import (
    AddAsyncOp,
    CopyMulticastOp,
    GatherAsyncOp,
    MemberOp,
    StoreAsyncOp,
    TensorMapOp,
)
from weft.isa.async_copy import CLUSTER_COPY_BY_CALL, AddTensor
from weft.isa.chips import LANES
from weft.isa.l2_cache import NORMAL, Policy
from weft.isa.tcgen05.pairs import PAIR
from weft.isa.tensor_map import (
    BOX_ALIGNMENT,
    EXPANDED_ROW,
    EXPANDED_SWIZZLES,
    EXPANDED_UNIT,
    GATHERED_ROWS,
    JOINED_ROWS,
    MOST_BOX,
    ROW_BYTES,
)
from weft.mlir import cast, constant, gpu, ir, llvm, nvvm, operations
from weft.passes.analysis import uniformity
from weft.passes.builders import addresses, emit, thread_ids
from weft.passes.builders.instructions import assembly
from weft.passes.registry import remarks
from weft.passes.registry.pass_ import Pass

_SWIZZLE_NAMES = {"128B_32B": "128B_ATOM_32B"}
"""The driver's names of swizzles, where layouts have another."""


def run(module: ir.Operation) -> None:
    """Lowers every matrix that TMA copies, and every copy of one."""
    for kernel in operations(module, gpu.GPUFuncOp):
        maps = {op.map: Map(_argument(kernel, op), op, _policy(op)) for op in operations(kernel, TensorMapOp)}
        for op in operations(kernel, MemberOp):
            if op.batch not in maps or not maps[op.batch].of_batch:
                raise refuse(op, "expects the map of a batch from tile.tensor_map")
            maps[op.map] = replace(maps[op.batch], member=(op.index, *maps[op.batch].member))
        for op in operations(kernel, CopyAsyncOp, CopyMulticastOp, GatherAsyncOp, *_WRITES):
            matrix = op.destination if isinstance(op, _WRITES) else op.source
            if not is_map(matrix):
                continue
            if matrix not in maps:
                raise refuse(op, "expects a map from tile.tensor_map")
            if maps[matrix].of_batch:
                raise refuse(op, "expects one matrix of a batch, got the whole batch: use tile.member")
            _check_indexed(op, maps[matrix].op)
            if isinstance(op, _WRITES) and maps[matrix].op.attribute("tf32"):
                raise refuse(op, "expects a map without tf32, which is for copies to shared memory")
            with ir.InsertionPoint(op), op.location:
                lower = _LOWERINGS.get(type(op), _load)
                chunk = maps[matrix].chunk
                pieces = _pieces(op, matrix.type, chunk)
                step = chunk or (EXPANDED_ROW if pieces.padded else 1)
                column = constant(op.column)
                if column is not None and column % step:
                    why = "the map's chunk" if chunk else "of which TMA expands rows"
                    raise refuse(op, f"column must be a multiple of {step}, {why}, got {column}")
                remarks.explain(op, partial(_path, op, maps[matrix], pieces))
                lower(op, maps[matrix], pieces)
            op.operation.erase()
        for op in operations(kernel, MemberOp, TensorMapOp)[::-1]:
            op.operation.erase()
    for op in operations(module, TensorMapOp, MemberOp):
        raise refuse(op, "expects a gpu.func around it")


def _check_indexed(op: ir.OpView, declared: TensorMapOp) -> None:
    indexed, gathers = declared.attribute("indexed"), isinstance(op, GatherAsyncOp)
    if indexed and not gathers:
        raise refuse(op, "expects a map that isn't indexed: tile.gather_async copies from an indexed one")
    if gathers and not indexed:
        raise refuse(op, "expects a map from a tile.tensor_map with indexed = true")


@dataclass(frozen=True)
class Map:
    """A tensor map as copies use it: the kernel's argument, the op that declares it, the copies' cache policy
    (None for L2's default), and the indices of a matrix of a batch, the innermost first.
    """

    argument: ir.Value
    op: TensorMapOp
    policy: ir.Value | None
    member: tuple[ir.Value, ...] = ()

    @property
    def chunk(self) -> int:
        """The columns that the map has a dimension of their own for; 0 without one."""
        return int(self.op.attribute("chunk"))

    @property
    def of_batch(self) -> bool:
        """Whether it is the map of a batch, not of one matrix."""
        return bool(self.op.matrix.type.rank > 2 + len(self.member))

    def coordinates(self, row: ir.Value, column: ir.Value) -> list[ir.Value]:
        """The coordinates of an element, the contiguous dimension first."""
        if self.chunk:
            return [emit.value(0), emit.value(emit.div(column, self.chunk)), emit.value(row), *self.member]
        if self.op.attribute("joined"):
            return [emit.value(column), emit.value(0), emit.value(emit.div(row, JOINED_ROWS)), *self.member]
        return [emit.value(column), emit.value(row), *self.member]


@dataclass(frozen=True)
class Pieces:
    """A tile as TMA copies it: boxes of `box` (rows, columns), each at a row, column and byte of the tile.
    With `padded`, TMA expands elements of 4 or 6 bits to bytes.
    """

    box: tuple[int, int]
    starts: Sequence[tuple[int, int, int]]
    padded: bool = False
    row_bytes: int = field(default=0, compare=False)
    """The bytes of a row of a box in shared memory."""


def pieces_of(kind: ir.Type, chunk: int = 0) -> Pieces | str:
    """The boxes by which TMA copies tiles of a map's type, or why it can't. Rows of a box are adjacent, and
    have any number of `chunk` elements if that isn't 0.
    """
    bits, swizzle = int(kind.buffer_type.element_bits), kind.layout.swizzle
    (rows, columns), (height, _) = kind.layout.group(kind.shape), kind.shape
    if not columns or columns[-1].stride != 1:
        return f"expects contiguous columns in a tile, got {kind.layout}"
    width, padded = columns[-1].extent, bool(kind.element_type.width == 6)
    if height == 1 and not chunk and not swizzle and width % MOST_BOX == 0:  # parts of a row
        width = MOST_BOX
    row_bytes = width * bits // 8
    if bits < 8 and width == EXPANDED_UNIT and len(columns) > 1:
        if columns[-2].stride != 2 * width:
            return f"expects 16 elements in 16 bytes, and these to be contiguous, got {kind.layout}"
        width, padded = columns[-2].extent * width, True
        row_bytes = width
    if len(rows) > 1 or (rows and height > 1 and rows[0].stride * bits != 8 * row_bytes):
        return f"expects rows of a tile to be {row_bytes * 8 // bits} elements apart, got {kind.layout}"
    if chunk and (swizzle or width % chunk or width // chunk > MOST_BOX):
        most = MOST_BOX * chunk
        return (
            f"expects contiguous rows of a multiple of {chunk} elements in {chunk}..{most}, without swizzle"
        )
    if wrong := None if chunk else _row_complaint(width, row_bytes, padded, swizzle):
        return wrong
    tall = next(h for h in range(min(height, MOST_BOX), 0, -1) if height % h == 0)
    period = swizzle.period if swizzle else 1
    if height > tall and tall * row_bytes % period:
        return f"expects tiles of at most {MOST_BOX} rows, or of a multiple of {MOST_BOX}, got {height}"
    starts = []
    for column in range(0, kind.shape[1], width):
        for row in range(0, height, tall):
            offset = replace(kind.layout, swizzle=None).apply((row, column), kind.shape)["m"]
            starts.append((row, column, offset * bits // 8))
    if misaligned := [offset for *_, offset in starts if offset % BOX_ALIGNMENT]:
        return f"expects boxes at multiples of {BOX_ALIGNMENT} bytes, got one at {misaligned[0]}"
    return Pieces((tall, width), starts, padded, row_bytes)


def _row_complaint(width: int, row_bytes: int, padded: bool, swizzle: Any) -> str | None:
    """Why TMA can't copy boxes with rows of this many elements and bytes."""
    size = row_bytes / width
    widest = swizzle.width if swizzle else int(MOST_BOX * size)
    if swizzle and row_bytes != widest:
        as_wide = f": swizzle {SWIZZLES[row_bytes]} has such rows" if row_bytes in SWIZZLES else ""
        return f"expects rows of {widest} bytes with swizzle {swizzle.name}, got {row_bytes}{as_wide}"
    if row_bytes > widest or width > MOST_BOX or row_bytes % ROW_BYTES:
        most = min(widest, int(MOST_BOX * size))
        legal = f"a multiple of {ROW_BYTES} bytes in {ROW_BYTES}..{most}"
        return f"expects contiguous rows of {legal}, got {row_bytes}"
    if padded and width != EXPANDED_ROW:
        return f"expects rows of {EXPANDED_ROW} elements that TMA expands to bytes, got {width}"
    name = swizzle.name if swizzle else "none"
    if padded and name not in EXPANDED_SWIZZLES:
        legal = " or ".join(EXPANDED_SWIZZLES)
        return f"expects a swizzle of {legal} where TMA expands elements to bytes, got {name}"
    return None


def _pieces(op: ir.OpView, kind: ir.Type, chunk: int) -> Pieces:
    pieces = pieces_of(kind, chunk)
    if isinstance(pieces, str):
        raise refuse(op, pieces)
    return pieces


def _argument(kernel: ir.OpView, op: TensorMapOp) -> ir.Value:
    """A new argument of the kernel: the map itself, by value."""
    matrix = cast(ir.BlockArgument, op.matrix)
    entry = kernel.body.blocks[0]
    if matrix is None or matrix.owner != entry:
        raise refuse(op, "expects the matrix to be an argument of the kernel")
    if len(entry.arguments) != len(kernel.function_type.value.inputs):
        raise refuse(op, "expects a kernel without workgroup or private memory attributions")
    chunk = int(op.attribute("chunk"))
    pieces, kind = _pieces(op, op.map.type, chunk), addresses.pointer_type(0)
    with op.location:
        added = entry.add_argument(kind, op.location)
    attributes = kernel.operation.attributes
    inputs = [*kernel.function_type.value.inputs, kind]
    attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, []))
    if "arg_attrs" in attributes:
        attributes["arg_attrs"] = ir.ArrayAttr.get([*attributes["arg_attrs"], ir.DictAttr.get({})])
    swizzle = op.map.type.layout.swizzle
    values = {
        "matrix": as_attribute(matrix.arg_number),
        # Indexed rows are copied one by one.
        "box": ir.DenseI64ArrayAttr.get([1 if op.attribute("indexed") else pieces.box[0], pieces.box[1]]),
        "l2_promotion": ir.StringAttr.get(str(op.attribute("l2_promotion"))),
        "swizzle": ir.StringAttr.get(_SWIZZLE_NAMES.get(swizzle.name, swizzle.name) if swizzle else "none"),
    }
    values |= {"padded": ir.UnitAttr.get()} if pieces.padded else {}
    values |= {"chunk": as_attribute(chunk)} if chunk else {}
    values |= {
        name: ir.UnitAttr.get() for name in ("any_rows", "skewed", "joined", "tf32") if op.attribute(name)
    }
    entry_of_map = ir.DictAttr.get(values)
    TENSOR_MAPS.set(kernel, ir.ArrayAttr.get([*(TENSOR_MAPS.of(kernel) or ()), entry_of_map]))
    if op.attribute("any_rows"):  # the launch may pass a map that isn't valid
        return added
    # At the kernel's own line: a debugger must not stop there for the line of the copies.
    with ir.InsertionPoint(op), kernel.location, emit.when(emit.equal(emit.thread(), 0)):
        nvvm.PrefetchOp(added, tensormap=True)
    return added


def _policy(op: TensorMapOp) -> ir.Value | None:
    """The cache policy of a map's copies, an i64; None for L2's default."""
    form = Policy(str(op.attribute("l2_eviction")))
    if form.priority == NORMAL:
        return None
    text = f"{form.ptx} {form.assembly.format(policy='$0')};"
    with ir.InsertionPoint(op), op.location:
        return assembly(text, ["=l"], [], ["i64"])[0]


def _load(op: ir.OpView, source: Map, pieces: Pieces) -> None:
    single = isinstance(op, CopyAsyncOp)
    barrier, mask = (op.barrier[0], None) if single else (op.barrier, op.mask)
    group = nvvm.CTAGroupKind.CTA_2 if op.attribute("cta_group") == PAIR else None
    base, own = tile.address(op.tile), single and _copies_to_own_memory(op)
    for row, column, bytes_ in pieces.starts:
        target = addresses.offset(base, bytes_)
        target = target if own else addresses.in_own_cta(target)
        coordinates = source.coordinates(emit.add(op.row, row), emit.add(op.column, column))
        nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp(
            *(target, source.argument, coordinates, barrier, []),
            multicastMask=mask,
            l2CacheHint=source.policy,
            isCTAOnly=own,
            group=group,
        )


def _path(op: ir.OpView, source: Map, pieces: Pieces) -> remarks.Path:
    """The copies of a tile, and why there aren't fewer."""
    writes, gathers = isinstance(op, _WRITES), isinstance(op, GatherAsyncOp)
    (rows, columns), kind = pieces.box, op.tile.type
    modifiers = [
        *([".tile::gather4"] if gathers else []),
        *([".multicast::cluster"] if isinstance(op, CopyMulticastOp) else []),
        *([".cta_group::2"] if not writes and op.attribute("cta_group") == PAIR else []),
    ]
    parts = kind.shape[0] * kind.shape[1] // (rows * columns)
    if gathers:
        rows, parts = GATHERED_ROWS, parts * rows // GATHERED_ROWS
    added = isinstance(op, AddAsyncOp)
    name = ("cp.reduce" if added else "cp") + ".async.bulk.tensor" + "".join(modifiers)
    notes = []
    if columns < kind.shape[1]:
        notes.append(f"a box of {kind.shape[1]} columns is wider than the layout's rows, {columns} elements")
    if rows < kind.shape[0]:
        most = GATHERED_ROWS if gathers else MOST_BOX
        notes.append(f"a box of {kind.shape[0]} rows is taller than that of one copy, {most} rows")
    return f"{parts} x {name} of {rows} x {columns} elements", notes


def _gather(op: GatherAsyncOp, source: Map, pieces: Pieces) -> None:
    """Each lane of a warp copies every 32nd group of rows, or one thread copies them all."""
    if GATHERED_ROWS * pieces.row_bytes % BOX_ALIGNMENT:
        least = BOX_ALIGNMENT // GATHERED_ROWS
        raise refuse(op, f"expects rows of a multiple of {least} bytes in a box, got {pieces.row_bytes}")
    by_warp = uniformity.complaint(op) is None
    first, step = (thread_ids.lane(), LANES) if by_warp else (0, 1)
    pair = op.attribute("cta_group") == PAIR
    base, indices = tile.address(op.tile), addresses.Vector(op.indices)
    panels = [(column, bytes_) for row, column, bytes_ in pieces.starts if row == 0]

    def group(number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        start = emit.add(op.first, emit.mul(number, GATHERED_ROWS))
        rows = [_index(indices, emit.add(start, row)) for row in range(GATHERED_ROWS)]
        inside = emit.mul(number, GATHERED_ROWS * pieces.row_bytes)
        for column, bytes_ in panels:
            target = addresses.offset(base, emit.value(emit.add(inside, bytes_)))
            nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp(
                addresses.in_own_cta(target) if pair else target,
                source.argument,
                [emit.value(emit.add(op.column, column)), *rows],
                *(op.barrier, []),
                l2CacheHint=source.policy,
                mode=nvvm.TMALoadMode.TILE_GATHER4,
                isCTAOnly=not pair,
                group=nvvm.CTAGroupKind.CTA_2 if pair else None,
            )
        return []

    emit.loop(first, op.tile.type.shape[0] // GATHERED_ROWS, step, [], group)


def _index(indices: addresses.Vector, at: ir.Value) -> ir.Value:
    """The number of a row, or -1, which no matrix has, beyond the end of the indices."""

    def load() -> list[ir.Value]:
        return [llvm.load(emit.i32(), indices.element_of(at))]

    return emit.either(indices.has(at), [emit.i32()], load, lambda: [emit.value(-1)])[0]


def _copies_to_own_memory(op: ir.OpView) -> bool:
    """Whether a copy must say that it is to the CTA's own memory: on some chips, one to the memory of any CTA
    of the cluster is a function call.
    """
    return op.target is not None and op.target.chip.name in CLUSTER_COPY_BY_CALL


def _store(op: StoreAsyncOp | AddAsyncOp, destination: Map, pieces: Pieces) -> None:
    if pieces.padded:
        raise refuse(op, f"expects elements that have a byte in memory, or are packed, got {op.tile.type}")
    base = tile.address(op.tile)
    for row, column, bytes_ in pieces.starts:
        coordinates = destination.coordinates(emit.add(op.row, row), emit.add(op.column, column))
        source = addresses.offset(base, bytes_)
        if isinstance(op, AddAsyncOp):
            # LLVM's intrinsic isn't the one that MLIR's operation becomes.
            policy = [] if destination.policy is None else [destination.policy]
            values = [destination.argument, source, *coordinates, *policy]
            first, *rest = (f"${number}" for number in range(1, len(values)))
            form = AddTensor(len(coordinates), hinted=bool(policy))
            text = form.assembly.format(
                map="$0", source=first, coordinates=", ".join(rest[: form.rank]), policy=rest[-1]
            )
            letters = ["l", "r", *"r" * form.rank, *("l" for _ in policy)]
            assembly(f"{form.ptx} {text};", [*letters, "~{memory}"], values, [])
            continue
        nvvm.CpAsyncBulkTensorSharedCTAToGlobalOp(
            destination.argument, source, coordinates, l2CacheHint=destination.policy
        )


_WRITES = (StoreAsyncOp, AddAsyncOp)
_LOWERINGS: dict[Any, Callable[[Any, Map, Pieces], None]] = {
    GatherAsyncOp: _gather,
    StoreAsyncOp: _store,
    AddAsyncOp: _store,
}

LOWER_TMA = Pass(
    "lower-tma",
    "turn matrices that TMA copies into tensor maps, and their copies into cp.async.bulk.tensor",
    run,
    lowers=(TensorMapOp, MemberOp, StoreAsyncOp, AddAsyncOp, CopyMulticastOp, GatherAsyncOp),
)
