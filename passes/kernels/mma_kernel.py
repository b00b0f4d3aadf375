"""The kernel that `--expand-matmul` writes for a schedule with warps: CTAs that multiply with `mma.sync`.

The K loop of a CTA reads a ring of shared-memory stages, which `tile.copy_async` fills `stages - 1` K blocks
ahead. On chips without `cp.async`, tiles go through registers, one K block ahead. Where rows are not aligned
to 16 bytes, a third loop copies element by element into one stage.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Self

from weft.dialects import tile
from weft.dialects.element_types import FP8_TYPES
from weft.dialects.launch_contract import MIN_CTAS
from weft.dialects.product_types import BITS
from weft.dialects.schedule import COPY, SWIZZLES, Schedule, WmmaSchedule, mma_sync
from weft.dialects.tile import BufferType, MatmulOp
from weft.dialects.tile_copies import ANY, INSIDE, ZERO
from weft.isa import async_copy, mma, wmma
from weft.isa.chips import LANES
from weft.isa.family import Registers
from weft.mlir import arith, gpu, ir, memref, nvvm
from weft.passes.builders import emit
from weft.passes.kernels import packed_integers
from weft.passes.kernels.epilogue import Finisher
from weft.passes.kernels.fragments import (
    ALTERNATING_RUN,
    PAIR,
    QUAD,
    fit_ahead,
    load_atoms,
    longest_run,
    of_atoms,
    sorted_sums,
    widened,
    zeros,
)
from weft.passes.kernels.matrices import along, alternating, element_bytes, member, panel_width, panels, size
from weft.passes.kernels.packed_integers import BYTE, PackedCopy
from weft.passes.kernels.register_copies import RegisterCopy
from weft.passes.kernels.scale_factors import LaneScales, add_block
from weft.passes.kernels.tile_order import Tile, grid_tile, group_tile

VECTOR_BYTES = COPY.bytes


@dataclass
class Operand:
    """A or B: its matrix in global memory, and its tiles in shared memory and registers."""

    matrix: ir.Value
    k_major: bool
    extent: int  # block M or block N
    warp_extent: int
    block_k: int
    stages: int
    atom: Registers
    run: int = PAIR  # sums of a lane that follow each other in a row of D
    buffer: ir.Value = field(init=False)  # that copies fill
    read: ir.Value = field(init=False)  # the same memory, as fragments read it
    start: ir.Value = field(init=False)  # the tile's first row of A, or column of B
    inside: ir.Value = field(init=False)  # the warp's first one in the tile

    def allocate(self) -> None:
        """Builds the stages at the insertion point."""
        self.buffer = self.read = tile.alloc(self.buffer_type)
        if self.permutes:
            self.read = tile.alloc(self._read_type, over=self.buffer)

    @property
    def element(self) -> ir.Type:
        return self.matrix.type.element_type

    @property
    def buffer_type(self) -> ir.Type:
        """The type of the stages: K-major rows, or MN-major panels as wide as a swizzle."""
        bytes_, k = element_bytes(self.matrix), self.block_k
        if not self.k_major:
            layout = panels(k, self.extent, bytes_, self.stages)
            return BufferType.of((self.stages, k, self.extent), self.element, layout)
        rows, strides = f"{self.extent}", f"{k}"
        if self.run > PAIR:  # as the columns of the products
            across = QUAD * self.run
            rows = f"{self.extent // across},{QUAD},{self.run // PAIR},{PAIR}"
            strides = f"{across * k},{PAIR * k},{QUAD * PAIR * k},{k}"
        layout = f"S[({self.stages},{rows},{k}):({self.extent * k},{strides},1)] xor {SWIZZLES[k * bytes_]}"
        return BufferType.of((self.stages, self.extent, k), self.element, layout)

    @property
    def width(self) -> int:
        """Elements of a row that are contiguous in a stage."""
        return self.block_k if self.k_major else panel_width(self.extent, element_bytes(self.matrix))

    @property
    def alternates(self) -> bool:
        """Whether fragments hold rows of A, or columns of B, so that halves of 16 alternate: `ldmatrix`
        transposes pairs of bytes.
        """
        return not self.k_major and element_bytes(self.matrix) == 1

    @property
    def permutes(self) -> bool:
        """Whether fragments hold the rows of A, or the columns of B, in another order than the matrix."""
        return self.alternates or self.run > PAIR

    @property
    def _read_type(self) -> ir.Type:
        """The type of the stages as fragments read them, where their order is another one."""
        if self.k_major:
            return replace(self, run=PAIR).buffer_type  # the rows of memory, one after another
        return alternating(self.buffer_type)

    def origin(self, k: ir.Value | int) -> tuple[ir.Value, ir.Value]:
        """Row and column in memory of the tile's part from a depth on."""
        rows, columns = (self.start, k) if self.k_major else (k, self.start)
        return emit.value(rows), emit.value(columns)

    def fragment_type(self) -> ir.Type:
        """The warp's tile, one atom deep."""
        rows, columns = self.atom.shape
        shape = (self.warp_extent, columns) if self.atom.name == "a" else (rows, self.warp_extent)
        return of_atoms(self.atom, shape, self.element)

    def load(self, stage: ir.Value, k: int) -> ir.Value:
        """The warp's fragment at depth `k` of a stage."""
        return load_atoms(stage, self.inside, k, self.fragment_type(), self.atom, self.k_major)


def expand(op: MatmulOp) -> None:
    """Writes the kernel of a product at the insertion point."""
    MmaKernel.of(op).emit()


@dataclass
class MmaKernel:
    """One tile of D for each CTA. Its sums stay in the registers of the warps that multiply it."""

    op: MatmulOp
    schedule: Schedule | WmmaSchedule
    form: mma.Sync | wmma.Mma
    a: Operand
    b: Operand
    depth: ir.Value  # K of this launch, in bytes of packed integers
    tile: Tile
    has: ir.Value | None  # whether there is a product, an i1; None: always

    operand: ClassVar[type[Operand]] = Operand

    @staticmethod
    def form_of(op: MatmulOp) -> mma.Sync | wmma.Mma:
        """The instruction."""
        return mma_sync.form(op.types, op.target.chip.name if op.target else None)

    @staticmethod
    def run_of(op: MatmulOp, rows: int, columns: int) -> int:
        """Sums of a lane that follow each other in a row of D, of `rows` of an instruction and `columns` of a
        warp.
        """
        return PAIR if op.types.transposed[1] else longest_run(rows, columns, op.types.output_bytes)

    @classmethod
    def of(cls, op: MatmulOp) -> Self:
        """The kernel of a product, its sizes and tile read at the insertion point."""
        schedule, types, form = op.schedule, op.types, cls.form_of(op)
        assert isinstance(schedule, Schedule | WmmaSchedule)
        in_bytes = packed_integers.of_bytes(form)
        _, atom_a, atom_b, _ = in_bytes.operands
        m, n, k = schedule.block
        to_byte = form.mnk[2] // in_bytes.mnk[2]  # elements along K
        k //= to_byte
        warp_m, warp_n = schedule.warp_tile
        index = emit.as_i32(gpu.block_id(gpu.Dimension.z)) if op.d.type.rank == 3 else None
        at, has = group_tile(op, schedule, index) if op.grouping else (None, None)
        number = at.member if at else index
        a, b = (packed_integers.in_bytes(member(each, number)) for each in (op.a, op.b))
        depth = emit.div(size(op.a, -2 if types.transposed[0] else -1), to_byte)
        if at and at.k_count is not None:
            depth = at.k_count
            k_last = (int(not mn_major) for mn_major in types.transposed)
            a, b = (along(x, axis, at.k_start, depth) for x, axis in zip((a, b), k_last, strict=True))
        run = cls.run_of(op, form.mnk[0], warp_n)
        return cls(
            op,
            schedule,
            form,
            cls.operand(a, not types.transposed[0], m, warp_m, k, schedule.stages, atom_a),
            cls.operand(b, not types.transposed[1], n, warp_n, k, schedule.stages, atom_b, run),
            depth,
            at or grid_tile(schedule, index),
            has,
        )

    @property
    def accumulator_type(self) -> ir.Type:
        sums = ir.Type.parse(self.op.types.instruction_sums)
        return of_atoms(self.form.operands[0], self.schedule.warp_tile, sums)

    def emit(self) -> None:
        """Writes the body at the insertion point."""
        types = self.op.types
        if types.promoted or types.half_sums or types.repacks:
            # Without it, ptxas spills a few registers so that two CTAs fit a multiprocessor.
            self.op.operation.parent.attributes[MIN_CTAS] = ir.IntegerAttr.get(emit.i32(), 1)
        with nullcontext() if self.has is None else emit.when(self.has):
            self._emit()

    def _emit(self) -> None:
        block_m, block_n, _ = self.schedule.block
        warp_m, warp_n = self.schedule.warp_tile
        a, b = self._operands
        a.start, b.start = self.tile.first_row(block_m), self.tile.first_column(block_n)
        warp = emit.div(emit.thread(), LANES)
        a.inside = emit.mul(emit.div(warp, self.schedule.warps[1]), warp_m)
        b.inside = emit.mul(emit.rem(warp, self.schedule.warps[1]), warp_n)
        self._allocate()
        asynchronous = self._asynchronous and not self.op.types.repacks
        fast = self._pipelined if asynchronous else self._through_registers

        def multiply(loop: Callable[[], ir.Value], aligned: bool) -> None:
            result = loop()
            row, column = (emit.add(each.start, each.inside) for each in (a, b))
            self._epilogue(result, row, column, aligned)

        emit.branch(self._aligned(), lambda: multiply(fast, True), lambda: multiply(self._plain, False))

    @property
    def _operands(self) -> tuple[Operand, Operand]:
        return self.a, self.b

    def _allocate(self) -> None:
        """Builds the stages."""
        for operand in self._operands:
            operand.allocate()

    @property
    def _asynchronous(self) -> bool:
        """Whether the chip has `cp.async`."""
        target = self.op.target
        return target is None or target.chip.name in async_copy.CP_ASYNC.table[COPY].chips

    def _aligned(self) -> ir.Value:
        """Whether A and B can be copied 16 bytes at a time."""
        bits = emit.index(0)
        for matrix in (each.matrix for each in self._operands):
            row = arith.muli(memref.extract_strided_metadata(matrix)[4], emit.index(element_bytes(matrix)))
            bits = arith.ori(bits, arith.andi(arith.ori(_pointer(matrix), row), emit.index(VECTOR_BYTES - 1)))
        return arith.cmpi(arith.CmpIPredicate.eq, bits, emit.index(0))

    def _pipelined(self) -> ir.Value:
        """The k loop with `stages - 1` blocks in flight; returns the accumulators. It is split in two: only
        the last blocks that are copied may end outside of A and B.
        """
        ahead, block_k = self.schedule.stages - 1, self.a.block_k
        steps = range(0, block_k, self._step)
        first, end = self._blocks()

        def load(stage: ir.Value | int, k: int) -> list[ir.Value]:
            return self._load([tile.stage(each.read, emit.value(stage)) for each in self._operands], k)

        def wait() -> None:
            nvvm.cp_async_wait_group(ahead - 1)
            gpu.barrier()

        def body(whole: bool, block: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            # The K of the copies is carried: computed from the block, it would cost registers in each loop.
            sums, read, write, at, *loaded = carried
            factors = self._factors(block)
            if not self._loads_ahead:
                wait()
                loaded = load(read, 0)
            total, following = self._begin(sums), self._next(read)
            # The copies are spread over the steps, so that ptxas puts products between them.
            copies = [(self.a, 0), (self.b, min(1, max(len(steps) - 2, 0)))]
            for number, k in enumerate(steps):
                for operand, when in copies:
                    if number != when:
                        continue
                    if whole:
                        self._fetch(operand, at, write, True)
                        continue
                    # One block more than there are: operands are loaded from it, which must be written.
                    with emit.when(emit.less(emit.add(block, ahead - 1), end)):
                        self._fetch(operand, at, write, False)
                if number == copies[-1][-1]:
                    nvvm.cp_async_commit_group()
                multiplied = loaded
                if number + 1 < len(steps):
                    loaded = load(read, k + self._step)
                elif self._loads_ahead:
                    wait()
                    loaded = load(following, 0)
                total = self._product(total, multiplied)
            kept = loaded if self._loads_ahead else []
            at = emit.add(at, block_k)
            return [self._end(sums, total, factors), following, self._next(write), at, *kept]

        for block in range(ahead):
            for operand in self._operands:
                self._fetch(operand, emit.mul(emit.add(first, block), block_k), block, False)
            nvvm.cp_async_commit_group()
        position = emit.value(emit.mul(emit.add(first, ahead), block_k))
        carried = [self._zero(), emit.value(0), emit.value(ahead), position]
        if self._loads_ahead:
            wait()
            carried += load(0, 0)
        rest = emit.maximum(emit.sub(emit.minimum(end, emit.div(self.depth, block_k)), ahead), first)
        carried = emit.loop(first, rest, 1, carried, partial(body, True))
        return emit.loop(rest, end, 1, carried, partial(body, False))[0]

    @property
    def _step(self) -> int:
        """Elements of a stage along K that an instruction multiplies."""
        return self.a.block_k * self.form.mnk[2] // self.schedule.block[2]

    @property
    def _loads_ahead(self) -> bool:
        """Whether a step's operands are loaded before the products of the step before. Both steps' operands,
        the sums and the addresses of the copies must then fit in registers.
        """
        schedule, types, (rows, columns) = self.schedule, self.op.types, self.schedule.warp_tile
        sums = rows * columns * BITS[types.sums]
        operands = (rows + columns) * self._step * element_bytes(self.a.matrix) * 8
        # ptxas converts them where a chip has no such instruction: on sm_90, fp8 to f16.
        sets = 4 if types.packs_integers or types.a in FP8_TYPES else 2
        fits = fit_ahead(sums, operands, schedule.stage_bytes(types), schedule.threads, sets)
        return not types.promoted and fits

    @staticmethod
    def _fetch(operand: Operand, at: ir.Value | int, stage: ir.Value | int, whole: bool) -> None:
        """Starts to copy a K block to a stage. `whole`: it ends inside of the matrix."""
        k, others = INSIDE if whole else ZERO, ANY  # sums of other rows and columns aren't stored
        rows, columns = (others, k) if operand.k_major else (k, others)
        tile.copy_async(
            operand.matrix,
            *operand.origin(at),
            tile.stage(operand.buffer, emit.value(stage)),
            vector_bytes=VECTOR_BYTES,
            rows=rows,
            columns=columns,
        )

    def _through_registers(self) -> ir.Value:
        """The k loop without `cp.async`: the next K block is loaded before the products of one, and stored
        to the following stage after them; returns the accumulators.
        """
        block_k = self.a.block_k
        warp = emit.div(emit.thread(), LANES)
        copies = [(self._copy(operand), operand) for operand in self._operands]

        def load(block: ir.Value | int) -> list[ir.Value]:
            k = emit.mul(block, block_k)
            return [copy.load(*operand.origin(k), warp) for copy, operand in copies]

        def store(loaded: list[ir.Value], stage: ir.Value | int) -> None:
            for (copy, _), part in zip(copies, loaded, strict=True):
                copy.store(part, stage, warp)

        store(load(self.tile.k_span[0] if self.tile.k_span else 0), 0)

        def body(block: ir.Value | int, carried: list[ir.Value]) -> list[ir.Value]:
            accumulator, read = carried
            gpu.barrier()
            loaded = load(emit.add(block, 1))
            stages = [tile.stage(each.read, read) for each in self._operands]
            accumulator = self._add(accumulator, stages, None)
            write = self._next(read)
            store(loaded, write)
            return [accumulator, write]

        return emit.loop(*self._blocks(), 1, [self._zero(), emit.value(0)], body)[0]

    def _plain(self) -> ir.Value:
        """The k loop for rows of any alignment: one stage, filled and read in turn; returns the sums."""
        block_k = self.a.block_k
        first = emit.value(0)
        stages = [tile.stage(each.buffer, first) for each in self._operands]
        filled = list(zip(self._operands, stages, strict=True))
        read = [tile.stage(each.read, first) if each.permutes else stage for each, stage in filled]

        def body(block: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            k = emit.mul(block, block_k)
            factors = self._factors(block)
            gpu.barrier()
            for operand, stage in filled:
                if not self._repacks(operand):
                    tile.copy(operand.matrix, *operand.origin(k), stage)
                    continue
                copy, warp = self._copy(operand, aligned=False), emit.div(emit.thread(), LANES)
                copy.store(copy.load(*operand.origin(k), warp), first, warp)
            gpu.barrier()
            return [self._add(carried[0], read, factors)]

        return emit.loop(*self._blocks(), 1, [self._zero()], body)[0]

    def _repacks(self, operand: Operand) -> bool:
        """Whether an operand is packed along M or N in memory, and along K in its stages."""
        return self.op.types.packs_integers and not operand.k_major

    def _copy(self, operand: Operand, *, aligned: bool = True) -> RegisterCopy:
        """How warps copy an operand through registers."""
        of = operand.matrix, operand.buffer, operand.width, self.schedule.threads // LANES
        if not self._repacks(operand):
            return RegisterCopy(*of)
        return PackedCopy.of(*of, BYTE // BITS[self.op.types.a], aligned=aligned)

    def _blocks(self) -> tuple[ir.Value | int, ir.Value]:
        """The tile's first K block, and the one after its last."""
        return self.tile.k_span or (0, emit.ceil_div(self.depth, self.a.block_k))

    def _next(self, stage: ir.Value) -> ir.Value:
        following = emit.add(stage, 1)
        return emit.select(emit.equal(following, self.schedule.stages), 0, following)

    def _zero(self) -> ir.Value:
        """Sums before the first K block."""
        zero = zeros(self.accumulator_type)
        return self._sorted(zero) if self.op.types.promoted else zero

    def _sorted(self, sums: ir.Value) -> ir.Value:
        return sorted_sums(sums, self.a.alternates, self.b.alternates, self.b.run)

    def _factors(self, block: ir.Value) -> ir.Value | None:
        """The factors of a lane's sums of a K block; None for 1."""
        if not self.op.types.scaled:
            return None
        kind, at = self._zero().type, (emit.add(each.start, each.inside) for each in self._operands)
        return LaneScales(self.op, self.schedule, kind, self.tile.member, *at).of_block(block)

    def _add(self, sums: ir.Value, stages: list[ir.Value], factors: ir.Value | None) -> ir.Value:
        """A warp's sums and its products of a K block."""
        total = self._begin(sums)
        for k in range(0, self.a.block_k, self._step):
            total = self._product(total, self._load(stages, k))
        return self._end(sums, total, factors)

    def _begin(self, sums: ir.Value) -> ir.Value:
        """The value to which the products of a K block are added: the sums, unless they are promoted."""
        return zeros(self.accumulator_type) if self.op.types.promoted else sums

    def _end(self, sums: ir.Value, total: ir.Value, factors: ir.Value | None) -> ir.Value:
        """The sums after a K block."""
        if not self.op.types.promoted:
            return total
        products, before = tile.to_lane(self._sorted(total)), tile.to_lane(sums)
        return tile.from_lane(add_block(before, products, factors), sums.type)

    def _load(self, stages: list[ir.Value], k: int) -> list[ir.Value]:
        """A warp's operands at depth `k` of their stages, one atom of K deep."""
        return [operand.load(stage, k) for operand, stage in zip(self._operands, stages, strict=True)]

    def _product(self, sums: ir.Value, operands: list[ir.Value]) -> ir.Value:
        """The sums and the products of one atom of K."""
        a, b = operands
        if self.op.types.packs_integers:
            assert isinstance(self.form, mma.Sync)
            return packed_integers.multiply(a, b, sums, self.form)
        return tile.gemm(a, b, sums, self.accumulator_type)

    def _epilogue(self, accumulator: ir.Value, row: ir.Value, column: ir.Value, aligned: bool) -> None:
        """Finishes the sums and stores them."""
        if not self.op.types.promoted:
            accumulator = self._sorted(widened(accumulator))
        run = ALTERNATING_RUN if self.b.alternates else self.b.run
        Finisher(self.op, self.tile.member, run if aligned else 1).store(accumulator, row, column)


def _pointer(matrix: ir.Value) -> ir.Value:
    """The address of the first element, as an index."""
    offset = memref.extract_strided_metadata(matrix)[1]
    address = memref.extract_aligned_pointer_as_index(matrix)
    return arith.addi(address, arith.muli(offset, emit.index(element_bytes(matrix))))
