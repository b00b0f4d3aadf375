"""What all pipelines have: stages of shared memory, and agents that divide the tiles of a kernel."""

from collections.abc import Sequence
from typing import Any

from weft import mlir
from weft.dialects import launch_contract as contract
from weft.dialects import tile
from weft.dialects.op import as_attribute
from weft.dialects.schedule import SWIZZLES
from weft.dialects.tile import (
    BufferType,
    CoordinateOp,
    FragmentType,
    GemmOp,
    LoadOp,
    LoadRowOp,
    StoreOp,
    StoreRowOp,
)
from weft.isa.chips import WARPGROUP
from weft.isa.family import Registers
from weft.isa.tensor_map import ROW_BYTES
from weft.mlir import arith, ir, nvvm, scf, tensor
from weft.passes.builders import emit, registers
from weft.passes.kernels.fragments import of_atoms
from weft.passes.kernels.matrices import map_of_member, panels
from weft.passes.pipelines.loop import Load, Loop, tiles_of

Values = dict[ir.Value, ir.Value]
_PLACED = (LoadOp, LoadRowOp, StoreOp, StoreRowOp, CoordinateOp)


def stages_of(shape: Sequence[int], element: Any, count: int) -> ir.Type:
    """The type of `count` buffers of this shape, one after the other."""
    rows, columns = shape
    return BufferType.of((count, rows, columns), element, panels(rows, columns, element.width // 8, count))


class Pipeline:
    """How a loop is pipelined: by `down` x `across` agents, of which each has a part of all tiles of sums."""

    atom: Registers
    """The sums of an instruction."""
    row: ir.Value | int
    column: ir.Value | int

    def __init__(self, loop: Loop, down: int, across: int, warpgroups: int) -> None:
        self.loop, self.down, self.across, self.warpgroups = loop, down, across, warpgroups
        m, n, _ = loop.products[0].mnk
        self.rows, self.columns = m // down, n // across
        self.staging = list[tuple[ir.Operation, ir.Value]]()
        """The stores after the loop, and the buffers through which they go."""

    def begin_part(self, agent: ir.Value) -> None:
        """Computes where an agent's part of tiles begins, by its number."""
        self.row = emit.mul(emit.div(agent, self.across), self.rows)
        self.column = emit.mul(emit.rem(agent, self.across), self.columns)

    def allocate(self) -> None:
        """Builds the stages, and buffers for tiles that are stored: in the same memory, unless stages are
        filled meanwhile.
        """
        first, *_ = loads = list(self.loop.loads.values())
        for each in loads:
            each.buffer = tile.alloc(stages_of(each.shape, each.element, self.loop.stages))
        for store in self.loop.stores if self.loop.reserved or not self.loop.around else ():
            kind = store.fragment.type
            row_bits = kind.shape[1] * kind.element_type.width
            if row_bits % (8 * min(SWIZZLES)) == 0 and kind.shape[0] * row_bits <= 8 * self.loop.room:
                one = tile.stage_type(stages_of(kind.shape, kind.element_type, 1))
                assert one is not None
                over = None if self.loop.around else first.buffer
                self.staging.append((store.operation, tile.alloc(one, over=over)))

    def divide(self, ops: Sequence[ir.Operation]) -> None:
        """Leaves the part of an agent of each tile in these operations."""
        for op in (inner for each in ops for inner in mlir.within(each)):
            for value in (each for each in tiles_of(op) if each not in self.loop.loads):
                emit.retype(value, self._part(value))
            view = op.opview
            if isinstance(view, _PLACED) and view.fragment not in self.loop.loads:
                with ir.InsertionPoint(op), op.location:
                    self._move(view)

    def _part(self, value: ir.Value) -> ir.Type:
        """The type of an agent's part of a tile."""
        kind, of_rows = value.type, value in self.loop.of_rows
        columns = self.atom.shape[1] if of_rows else kind.shape[-1] // self.across
        part = of_atoms(self.atom, (self.rows, columns), kind.element_type)
        if len(kind.shape) > 1:
            return part
        layout = registers.without_axis(part.layout, part.shape, int(of_rows))
        return FragmentType.of((part.shape[1 - of_rows],), kind.element_type, layout)

    def _move(self, op: Any) -> None:
        """Adds where an agent's part begins to the coordinates of an operation."""
        kind, start = op.fragment.type, [self.row, self.column]
        if len(kind.shape) == 1:
            start = start[:1] if op.fragment in self.loop.of_rows else start[1:]
        if isinstance(op, CoordinateOp):
            with ir.InsertionPoint.after(op.operation):
                whole = arith.addi(op.fragment, tensor.splat(kind, emit.value(start[op.axis.value]), []))
            op.fragment.replace_all_uses_except(whole, whole.owner.operation)
            return
        for buffer in [buffer for store, buffer in self.staging if store == op.operation]:
            self._store_through(op, buffer)
            op.operation.erase()
            return
        start = start[-1:] if isinstance(op, LoadRowOp | StoreRowOp) else start
        for number, offset in enumerate(start, len(op.operands) - len(start)):
            op.operation.operands[number] = emit.add(op.operands[number], offset)
        if not isinstance(op, StoreRowOp):
            op.attributes["vector_bytes"] = as_attribute(registers.access_bytes(kind))

    def _store_through(self, op: StoreOp, buffer: ir.Value) -> None:
        """Stores a tile through shared memory, from which each warpgroup stores whole rows."""
        rows, columns = buffer.type.shape
        rows //= self.warpgroups
        first = emit.mul(emit.rem(emit.div(emit.thread(), WARPGROUP), self.warpgroups), rows)
        barrier = {"barrierId": emit.value(1), "numberOfThreads": emit.value(self.warpgroups * WARPGROUP)}
        nvvm.BarrierOp(**barrier)  # stages, or an earlier tile, are read
        tile.store(op.fragment, buffer, emit.value(self.row), emit.value(self.column))
        nvvm.BarrierOp(**barrier)
        part = tile.slice_(buffer, emit.value(first), emit.value(0), (rows, columns))
        tile.copy_out(part, op.destination, emit.add(op.row, first), op.column)

    def rebuild(
        self, position: Sequence[ir.Value | int], begin: Any, multiply: Any, end: Any
    ) -> list[ir.Value]:
        """Rebuilds the loop, to carry a position in the stages, too. For a number and a position, `begin`
        builds the start of the body, `multiply` a product, and `end` the next position. Returns the results.
        """
        old = self.loop.op
        *body, last = [each.operation for each in old.body.operations]
        with ir.InsertionPoint(old):
            new = scf.ForOp(*old.operands[:3], [*old.operands[3:], *map(emit.value, position)])
        carried = list(new.inner_iter_args)[-len(position) :]
        with ir.InsertionPoint(new.body):
            begin(new.induction_variable, *carried)
            for before, after in zip(old.body.arguments, new.body.arguments, strict=False):
                before.replace_all_uses_with(after)
            for op in body:
                new.body.append(op)
                if isinstance(op.opview, GemmOp):
                    op.results[0].replace_all_uses_with(multiply(op.opview, carried[0]))
                    op.erase()
            scf.yield_([*last.operands, *end(*carried)])
        for value in self.loop.loads:
            value.owner.erase()
        for before, after in zip(old.results, new.results, strict=False):
            before.replace_all_uses_with(after)
        old.operation.erase()
        return list(new.results)

    def set_launch(self, threads: int) -> None:
        """Sets the block size, and the alignment that copies by vectors need."""
        kernel, read = self.loop.kernel, [each.matrix for each in self.loop.loads.values()]
        kernel.attributes["known_block_size"] = ir.DenseI32ArrayAttr.get([threads, 1, 1])
        if not contract.ALIGNED.on(kernel):
            bytes_ = [ROW_BYTES if each in read else 1 for each in kernel.body.blocks[0].arguments]
            contract.ALIGNED.set(kernel, ir.DenseI32ArrayAttr.get(bytes_))


class FilledByTma(Pipeline):
    """A pipeline with rings of stages that one thread fills by TMA, each with tiles of its own."""

    rings: list[tuple[ir.Value, list[Load]]]
    cta_group = 1

    def allocate(self) -> None:
        super().allocate()
        for each in self.loop.loads.values():
            each.map = tile.tensor_map(each.matrix, tile.stage_type(each.buffer.type))

    def carry_position(self) -> Any:
        """Rebuilds the loop around, if there is one, to carry two numbers, but without its end."""
        old = self.loop.around
        if old is None:
            return None
        with ir.InsertionPoint(old), old.location:
            new = scf.ForOp(*old.operands[:3], [emit.value(0), emit.value(0)])
        old.induction_variable.replace_all_uses_with(new.induction_variable)
        for op in [each.operation for each in old.body.operations][:-1]:
            new.body.append(op)
        old.operation.erase()
        return new

    def fill(self, k: ir.Value, position: list[ir.Value], outer: Values) -> list[ir.Value]:
        """Copies the tiles of an iteration to their stages, by one thread. Returns the next position."""
        places = dict(self.loop.places(k, outer))
        for ring, loads in self.rings:
            tile.acquire(ring, *position)
            tile.expect(ring, position[0], sum(each.bytes for each in loads))
            full = tile.full_barrier(ring, position[0])
            for each in loads:
                _, row, column, *indices = places[each]
                numbers = (emit.as_i32(index) if isinstance(index, ir.Value) else index for index in indices)
                matrix = map_of_member(each.matrix, each.map, *numbers)
                row, column = (emit.value(emit.add(at, each.first[n])) for n, at in enumerate((row, column)))
                into = each.stage(position[0])
                tile.copy_async(matrix, row, column, into, barrier=full, cta_group=self.cta_group)
        return list(tile.advance(ring, *position))
