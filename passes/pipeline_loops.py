"""`--pipeline-loops`: tiles that a loop loads for products go through stages of shared memory, which are
filled some iterations ahead.

Where the chip has `wgmma`, one or two warpgroups multiply, and another one fills a ring of stages by TMA.
Elsewhere, all warps multiply by `mma.sync`, and fill the stages by `cp.async`. Those that multiply,
warpgroups or warps, divide the sums, and so all tiles of the kernel: the pass decides their layouts, and the
block size. A kernel stays as it is if it does more than load, multiply, compute by element and store.
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from weft import mlir
from weft.dialects import launch_contract as contract
from weft.dialects import tile
from weft.dialects.element_types import PTX_INPUTS
from weft.dialects.schedule import SWIZZLES
from weft.dialects.tile import BufferType, GemmOp, LoadOp, LoadRowOp, StoreOp, is_fragment, is_tile
from weft.dialects.tile_copies import BOTH, ZERO
from weft.dialects.tile_types import is_memref
from weft.isa.async_copy import CP_ASYNC
from weft.isa.chips import CHIPS, LANES, WARPGROUP, WARPS
from weft.isa.family import Registers
from weft.isa.mma import SYNC, Sync
from weft.isa.tensor_map import ROW_BYTES
from weft.isa.wgmma import MMA_ASYNC, MmaAsync
from weft.isa.wgmma import M as WGMMA_ROWS
from weft.mlir import arith, gpu, ir, nvvm, operations, scf
from weft.passes.builders import emit, thread_ids
from weft.passes.kernels.fragments import PAIR, load_atoms, of_atoms, undefined
from weft.passes.kernels.matrices import panels
from weft.passes.registry.pass_ import Pass

_MOST_STAGES = 4
"""The stages of a loop without the attribute `stages`. Any loop has fewer where they don't fit."""
_OTHER_BYTES = 1024
"""Shared memory for barriers and alignment."""
_REGISTERS = {1: (0, 0), 2: (24, 240)}
"""Of a thread that fills stages, and of one that multiplies, by the warpgroups that do; 0: an equal share."""
_NO_ROW = 1 << 30
_SUMS_OF_FOUR_WARPS = 128 * 128
_STEP_BYTES = 32
"""Bytes of a row of A that an instruction multiplies."""
_DIVISIBLE = (
    *("arith.", "math.", "scf.", "tensor.splat", emit.SIGN_CAST, "tile.gemm", "tile.load", "tile.store"),
    *("memref.dim", "memref.load", "gpu.block_id", "gpu.grid_dim", "gpu.func", "gpu.return"),
)
"""Operations, or beginnings of their names, of which any number of agents can do a part each."""


def run(module: ir.Operation) -> None:
    """Pipelines the loop of each kernel that has one with products."""
    for loop in filter(None, map(_Loop.of, operations(module, gpu.GPUFuncOp))):
        for way in (_ByWarpgroups, _ByWarps):
            if grid := way.grid(loop):
                with loop.op.location:
                    way(loop, *grid).write()
                break


class _Load:
    """A load whose tiles are A or B of products, and go through stages."""

    buffer: ir.Value
    """The stages."""

    def __init__(self, op: LoadOp, is_b: bool) -> None:
        self.op, self.transposed = op, bool(op.attribute("transpose"))
        self.number, self.k_major = int(is_b), self.transposed == is_b
        self.element = op.fragment.type.element_type
        self.shape = op.fragment.type.shape[:: -1 if self.transposed else 1]  # in the matrix
        self.bytes = prod(self.shape) * self.element.width // 8
        self.edges = [ZERO if _is_natural(each) else BOTH for each in (op.row, op.column)]

    def may_stage(self, aligned: Sequence[ir.Value]) -> bool:
        """Whether tiles can be copied by vectors from one of the `aligned` matrices, and only products read
        them.
        """
        return (
            is_tile(self.op.fragment)
            and self.op.source in aligned
            and self.shape[1] * self.element.width % (8 * min(SWIZZLES)) == 0
            and all(isinstance(each.owner.opview, GemmOp) for each in self.op.fragment.uses)
            and all(each.operand_number == self.number for each in self.op.fragment.uses)
        )

    def stage(self, number: ir.Value) -> ir.Value:
        """The tile in a stage."""
        return tile.stage(self.buffer, number)


class _Loop:
    """A loop in a kernel, with its products and the loads for them."""

    def __init__(self, kernel: Any, op: Any, products: list[GemmOp]) -> None:
        self.kernel, self.op, self.products = kernel, op, products
        self.chip = products[0].target.chip.name if products[0].target else ""
        body, right = [each.operation for each in op.body.operations], {each.b for each in products}
        read = {each.a for each in products} | right
        found = [each.opview for each in body if isinstance(each.opview, LoadOp) and each.results[0] in read]
        self.loads = {each.fragment: _Load(each, each.fragment in right) for each in found}
        self.bytes = sum(each.bytes for each in self.loads.values())  # of a stage
        self.needed = {value for each in found for value in (each.row, each.column)}
        self.coordinates = list[ir.Operation]()
        """The operations of the body that compute where tiles are in their matrices."""
        for each in reversed(body):
            if self.needed & set(each.results):
                self.coordinates.insert(0, each)
                self.needed |= set(each.operands)

    @staticmethod
    def of(kernel: Any) -> "_Loop | None":
        """The loop of a kernel; None where no chip could pipeline it."""
        products = operations(kernel, GemmOp)
        op = products[0].operation.parent.opview if products else None
        if not isinstance(op, scf.ForOp) or op.operation.parent != kernel.operation:
            return None
        loop, arguments = _Loop(kernel, op, products), list(kernel.body.blocks[0].arguments)
        bytes_ = contract.ALIGNED.of(kernel) or [ROW_BYTES] * len(arguments)
        aligned = [each for each, known in zip(arguments, bytes_, strict=True) if known % ROW_BYTES == 0]
        fits = (
            op.induction_variable.type == emit.i32()
            and all(each.operation.parent == op.operation and each.b in loop.loads for each in products)
            and all(each.attribute("alpha") == 1.0 for each in products)
            and all(each.may_stage(aligned) for each in loop.loads.values())
            and not loop.needed & set(op.inner_iter_args)
            and not any(list(each.regions) for each in loop.coordinates)
            and all(map(loop._may_divide, mlir.within(kernel)))
            and loop.chip != ""
            and loop.stages > 1
        )
        return loop if fits else None

    def _may_divide(self, op: ir.Operation) -> bool:
        """Whether any number of threads can each do an operation for a part of its tiles."""
        view = op.opview
        if any(map(is_fragment, op.results)):
            return False
        if isinstance(view, arith.ConstantOp):
            return not is_tile(view.result) or view.value.is_splat
        if isinstance(view, StoreOp):
            read = [each.op.source for each in self.loads.values()]
            return is_memref(view.destination) and view.destination not in read
        if isinstance(view, LoadOp) and view.fragment not in self.loads:
            return is_memref(view.source) and not view.attribute("transpose")
        return op.name.startswith(_DIVISIBLE)

    def divides(self, m: int, n: int | None = None) -> bool:
        """Whether all tiles, except for those in stages, have m rows (and n columns)."""
        tiles = [each for op in mlir.within(self.kernel) for each in _tiles(op)]
        shapes = {tuple(each.type.shape) for each in tiles if each not in self.loads}
        return all(len(shape) == 2 and shape == (m, n or shape[1]) for shape in shapes)

    @property
    def room(self) -> int:
        """Bytes of shared memory for tiles."""
        return CHIPS[self.chip].shared_bytes - _OTHER_BYTES

    @property
    def stages(self) -> int:
        """How many stages there are."""
        asked = self.op.attributes["stages"].value if "stages" in self.op.attributes else _MOST_STAGES
        return int(min(asked, self.room // self.bytes))

    def places(self, k: ir.Value) -> list[tuple[_Load, ir.Value, ir.Value]]:
        """The loads in the iteration of a number, with their rows and columns there."""
        values = {self.op.induction_variable: k}
        for op in self.coordinates:
            mlir.clone(op, values)
        corners = ((each, each.op.row, each.op.column) for each in self.loads.values())
        return [(each, values.get(row, row), values.get(column, column)) for each, row, column in corners]


def _is_natural(number: ir.Value) -> bool:
    """Whether a number is known to be at least 0."""
    owner = number.owner
    if isinstance(owner, ir.Block):  # that of a loop is at least its first one
        loop, is_first = owner.owner.opview, ir.BlockArgument(number).arg_number == 0
        return isinstance(loop, scf.ForOp) and is_first and _is_natural(loop.operands[0])
    if (constant := mlir.constant(number)) is not None:
        return constant >= 0
    return owner.name in ("gpu.block_id", "memref.dim") or (
        owner.name in ("arith.addi", "arith.muli", "arith.divui", "arith.remui", "arith.index_cast")
        and all(map(_is_natural, owner.operands))
    )


def _tiles(op: ir.Operation) -> list[ir.Value]:
    """The tiles that an operation returns or passes to its regions."""
    passed = [each for region in op.regions for block in region.blocks for each in block.arguments]
    return [each for each in (*op.results, *passed) if is_tile(each)]


def _touches_tiles(op: ir.Operation) -> bool:
    """Whether an operation, or one in it, takes or returns tiles."""
    return any(any(map(is_tile, (*each.operands, *_tiles(each)))) for each in mlir.within(op))


def _types(product: GemmOp) -> tuple[str, str, str, int]:
    """The types of A, B and the sums of an instruction that multiplies such tiles, and its K."""
    a, b = (PTX_INPUTS.get(name, name) for name in product.elements)
    sums = str(product.d.type.element_type).replace("i32", "s32")
    return a, b, sums, 8 * _STEP_BYTES // product.a.type.element_type.width


def _stages(shape: Sequence[int], element: Any, count: int) -> ir.Type:
    """The type of `count` buffers of this shape, one after the other."""
    rows, columns = shape
    return BufferType.of((count, rows, columns), element, panels(rows, columns, element.width // 8, count))


class _Way:
    """How a loop is pipelined: by `down` x `across` agents, of which each has a part of all tiles of sums."""

    atom: Registers
    """The sums of an instruction."""
    row: ir.Value | int
    column: ir.Value | int

    def __init__(self, loop: _Loop, down: int, across: int, warpgroups: int) -> None:
        self.loop, self.down, self.across, self.warpgroups = loop, down, across, warpgroups
        m, n, _ = loop.products[0].mnk
        self.rows, self.columns = m // down, n // across
        self.staging = dict[ir.Operation, ir.Value]()
        """The buffers through which tiles are stored after the loop."""

    def place(self, agent: ir.Value) -> None:
        """Computes where an agent's part of tiles begins, by its number."""
        self.row = emit.mul(emit.div(agent, self.across), self.rows)
        self.column = emit.mul(emit.rem(agent, self.across), self.columns)

    def allocate(self, after: Sequence[ir.Operation]) -> None:
        """Builds the stages, and in the same memory buffers for tiles that are stored `after` the loop."""
        first, *_ = loads = list(self.loop.loads.values())
        for each in loads:
            each.buffer = tile.alloc(_stages(each.shape, each.element, self.loop.stages))
        for store in (store for op in after for store in operations(op, StoreOp)):
            kind = store.fragment.type
            row_bits = kind.shape[1] * kind.element_type.width
            if row_bits % (8 * min(SWIZZLES)) == 0 and kind.shape[0] * row_bits <= 8 * self.loop.room:
                one = tile.stage_type(_stages(kind.shape, kind.element_type, 1))
                assert one is not None
                self.staging[store.operation] = tile.alloc(one, over=first.buffer)

    def divide(self, ops: Sequence[ir.Operation]) -> None:
        """Leaves the part of an agent of each tile in these operations."""
        for op in (inner for each in ops for inner in mlir.within(each)):
            for value in (each for each in _tiles(op) if each not in self.loop.loads):
                part = self.rows, value.type.shape[1] // self.across
                value.set_type(of_atoms(self.atom, part, value.type.element_type))
            view = op.opview
            if isinstance(view, arith.ConstantOp) and is_fragment(view.result):
                splat = view.value.get_splat_value()
                op.attributes["value"] = ir.DenseElementsAttr.get_splat(view.result.type, splat)
            if isinstance(view, LoadOp | LoadRowOp | StoreOp) and view.fragment not in self.loop.loads:
                with ir.InsertionPoint(op), op.location:
                    self._move(view)

    def _move(self, op: Any) -> None:
        """Lets each agent load or store its part of a tile."""
        if op.operation in self.staging:
            self._store_through(op, self.staging[op.operation])
            op.operation.erase()
            return
        corner = (self.column,) if isinstance(op, LoadRowOp) else (self.row, self.column)
        for number, offset in enumerate(corner, len(op.operands) - len(corner)):
            op.operation.operands[number] = emit.add(op.operands[number], offset)
        width = PAIR * op.fragment.type.element_type.width // 8
        op.attributes["vector_bytes"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), width)

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

    def rebuild(self, position: Sequence[int], begin: Any, multiply: Any, end: Any) -> list[ir.Value]:
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
        kernel, read = self.loop.kernel, [each.op.source for each in self.loop.loads.values()]
        kernel.attributes["known_block_size"] = ir.DenseI32ArrayAttr.get([threads, 1, 1])
        if not contract.ALIGNED.on(kernel):
            bytes_ = [ROW_BYTES if each in read else 1 for each in kernel.body.blocks[0].arguments]
            contract.ALIGNED.set(kernel, ir.DenseI32ArrayAttr.get(bytes_))


class _ByWarpgroups(_Way):
    """Warpgroups multiply by `wgmma`, with one product in flight, and another one fills the stages by TMA."""

    atom = MmaAsync("m64n8k16", "f16", "f16", "f32").operands[0]

    @staticmethod
    def grid(loop: _Loop) -> tuple[int, int, int] | None:
        """How many warpgroups multiply, down and across, and in all; None where `wgmma` can't."""
        m = loop.products[0].mnk[0]
        for each in loop.products:
            (a, b, d, k), loads = _types(each), [loop.loads.get(value) for value in (each.a, each.b)]
            if each.mnk[2] % k or MMA_ASYNC.judge(MmaAsync(f"m64n{each.mnk[1]}k{k}", a, b, d), loop.chip):
                return None
            if each.a.type.element_type.width != 16 and not all(load and load.k_major for load in loads):
                return None
        count = 2 if m % (2 * WGMMA_ROWS) == 0 else 1
        return (count, 1, count) if m % WGMMA_ROWS == 0 and loop.divides(m) else None

    def write(self) -> None:
        """Moves what handles tiles to a role of the warpgroups that multiply, and builds the other role."""
        loop, (fills, multiplies) = self.loop, _REGISTERS[self.warpgroups]
        ops = [each.operation for each in loop.kernel.body.blocks[0].operations][:-1]
        at = ops.index(loop.op.operation)
        moved = [*filter(_touches_tiles, ops[:at]), *ops[at:]]
        self.set_launch((self.warpgroups + 1) * WARPGROUP)
        with ir.InsertionPoint(loop.op):
            self.allocate(ops[at + 1 :])
            staged = [(each, tile.stage_type(each.buffer.type)) for each in loop.loads.values()]
            self.maps = {each.buffer: tile.tensor_map(each.op.source, kind) for each, kind in staged}
            self.ring = tile.make_ring(loop.stages, self.warpgroups)
            gpu.barrier()
            with tile.role(0, self.warpgroups, registers=multiplies) as number:
                self.place(number)
                role = ir.InsertionPoint.current.block
            with tile.role(self.warpgroups, 1, registers=fills), thread_ids.one_thread():
                first, end, step = loop.op.operands[:3]
                emit.loop(first, end, step, [emit.value(0), emit.value(0)], self._fill)
        for op in moved:
            role.append(op)
        self.divide(moved)
        self.flying = list[int]()  # the numbers of carried sums of which a product is in flight
        results = self.rebuild((0, 0, 0), self._begin, self._multiply, self._end)
        for sums in (results[number] for number in self.flying):
            with ir.InsertionPoint.after(sums.owner):
                (done,) = tile.wait_gemm(sums)
            sums.replace_all_uses_except(done, done.owner.operation)

    def _fill(self, k: ir.Value, position: list[ir.Value]) -> list[ir.Value]:
        """Copies the tiles of an iteration to a stage; for one thread. Returns the next position."""
        tile.acquire(self.ring, *position)
        tile.expect(self.ring, position[0], self.loop.bytes)
        full = tile.full_barrier(self.ring, position[0])
        for each, row, column in self.loop.places(k):
            tile.copy_async(self.maps[each.buffer], row, column, each.stage(position[0]), barrier=full)
        return list(tile.advance(self.ring, *position))

    def _begin(self, number: ir.Value, stage: ir.Value, phase: ir.Value, late: ir.Value) -> None:
        tile.await_(self.ring, stage, phase)
        self.continues = arith.cmpi(arith.CmpIPredicate.ne, number, self.loop.op.operands[0])

    def _multiply(self, product: GemmOp, stage: ir.Value) -> ir.Value:
        """Starts a product. Waits for it, unless it is only added to sums that the loop carries."""
        a, left, right = product.a, self.loop.loads.get(product.a), self.loop.loads[product.b]
        turned = left is not None and left.transposed
        if left is not None:
            shape, row, column = (self.rows, product.mnk[2]), emit.value(self.row), emit.value(0)
            a = left.stage(stage)
            a = tile.slice_(a, column, row, shape[::-1]) if turned else tile.slice_(a, row, column, shape)
        number, adds = -1, product.attribute("beta") != 0.0
        c = product.c[0] if adds else undefined(product.d.type)
        accumulate = emit.constant(emit.i1(), int(adds))
        if isinstance(c.owner, ir.Block):  # C is carried
            number = ir.BlockArgument(c).arg_number - 1
            if mlir.splat(self.loop.op.operands[3 + number]) == 0:
                accumulate = self.continues  # rather than read zeros
        b = right.stage(stage)
        sums = tile.gemm_async(a, b, c, accumulate, transpose_a=turned, transpose_b=right.transposed)
        uses = [(use.owner.name, use.operand_number) for use in product.d.uses]
        if uses == [("scf.yield", number)] and len(list(c.uses)) == 2:
            self.flying.append(number)
            return sums
        return tile.wait_gemm(sums)[0]

    def _end(self, stage: ir.Value, phase: ir.Value, late: ir.Value) -> list[ir.Value]:
        if self.flying:
            tile.wait_gemm(pending=len(self.flying))
            with emit.when(self.continues):
                tile.release(self.ring, late)
        else:
            tile.release(self.ring, stage)
        return [*tile.advance(self.ring, stage, phase), stage]


class _ByWarps(_Way):
    """All warps multiply by `mma.sync`, and fill the stages by `cp.async`."""

    @staticmethod
    def grid(loop: _Loop) -> tuple[int, int, int] | None:
        """How many warps multiply, down and across, and in how many warpgroups they are; None where
        `mma.sync` can't. Their parts have the least rows and columns together.
        """
        m, n, _ = loop.products[0].mnk
        a, b, d, k = _types(loop.products[0])
        if SYNC.judge(Sync(f"m16n8k{k}", a, b, d, d), loop.chip) or loop.chip not in CP_ASYNC.chips():
            return None
        alike = all(each.a in loop.loads and _types(each) == (a, b, d, k) for each in loop.products)
        count = WARPS if m * n <= _SUMS_OF_FOUR_WARPS else 2 * WARPS
        grids = [(down, count // down) for down in (1, 2, 4, 8) if down <= count]
        legal = [each for each in grids if m % (16 * each[0]) == 0 and n % (8 * each[1]) == 0]
        whole = all(each.mnk[2] % k == 0 for each in loop.products)
        if not (legal and alike and whole and loop.divides(m, n)):
            return None
        return *min(legal, key=lambda each: m // each[0] + n // each[1]), count // WARPS

    def write(self) -> None:
        """Divides all tiles among the warps, which copy `ahead` iterations before they multiply."""
        a, b, d, self.step = _types(self.loop.products[0])
        self.atom, *self.inputs, _ = Sync(f"m16n8k{self.step}", a, b, d, d).operands
        self.ahead = self.loop.stages - 1
        loop, block, op = self.loop, self.loop.kernel.body.blocks[0], self.loop.op
        ops = [each.operation for each in block.operations]
        self.set_launch(self.warpgroups * WARPGROUP)
        with ir.InsertionPoint.at_block_begin(block):
            self.place(emit.div(emit.thread(), LANES))
        with ir.InsertionPoint(op):
            self.allocate(ops[ops.index(op.operation) + 1 :])
            first, end, step = op.operands[:3]
            for number in range(self.ahead):
                k = emit.add(first, emit.mul(step, number))
                with emit.when(emit.less(k, end)):
                    list(self._copies(loop.places(k), emit.value(number)))
                nvvm.cp_async_commit_group()
        self.divide(ops)
        results = self.rebuild((0, self.ahead), self._begin, self._multiply, self._end)
        with ir.InsertionPoint.after(results[0].owner):
            nvvm.cp_async_wait_group(0)  # for the zeros

    def _copies(
        self, places: list[tuple[_Load, ir.Value, ir.Value]], stage: ir.Value, has: ir.Value | None = None
    ) -> Iterator[None]:
        """Starts to copy the tiles of an iteration to a stage, one after the other; zeros unless the loop
        `has` it.
        """
        for each, row, column in places:
            row = row if has is None else emit.select(has, row, _NO_ROW)
            source, part, (rows, columns) = each.op.source, each.stage(stage), each.edges
            tile.copy_async(source, row, column, part, vector_bytes=ROW_BYTES, rows=rows, columns=columns)
            yield

    def _begin(self, number: ir.Value, read: ir.Value, write: ir.Value) -> None:
        nvvm.cp_async_wait_group(self.ahead - 1)
        gpu.barrier()
        _, end, step = self.loop.op.operands[:3]
        following = emit.add(number, emit.mul(step, self.ahead))
        has = emit.less(following, end)
        self.copying = self._copies(self.loop.places(emit.select(has, following, number)), write, has)

    def _multiply(self, product: GemmOp, stage: ir.Value) -> ir.Value:
        """A warp's part of a product, one instruction deep after the other."""
        sums = product.c[0] if product.attribute("beta") else None
        shapes = (self.rows, self.step), (self.step, self.columns)
        parts = list[ir.Value]()
        for k in range(0, product.mnk[2], self.step):
            for value, atom, start, shape in zip(
                (product.a, product.b), self.inputs, (self.row, self.column), shapes, strict=True
            ):
                load = self.loop.loads[value]
                kind = of_atoms(atom, shape, load.element)
                parts.append(load_atoms(load.stage(stage), start, k, kind, atom, load.k_major))
            next(self.copying, None)  # one in a step, so that products hide their instructions
            sums = tile.gemm(parts[-2], parts[-1], sums, product.d.type)
        assert sums is not None
        return sums

    def _end(self, read: ir.Value, write: ir.Value) -> list[ir.Value]:
        list(self.copying)
        nvvm.cp_async_commit_group()
        following = emit.add(read, 1)
        return [emit.select(emit.equal(following, self.loop.stages), 0, following), read]


PIPELINE_LOOPS = Pass("pipeline-loops", "load tiles of products in loops some iterations ahead", run)
