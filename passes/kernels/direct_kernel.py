"""The kernel that `--expand-matmul` writes for a schedule with readers: warps that multiply with `mma.sync`
what their lanes load straight from global memory.

A line is 64 bytes of a row, which four lanes load, 16 bytes each: the operands of two products. These aren't
the bytes that PTX assigns to the lanes. Sums are the same, since K is permuted alike in A and B. Where rows
don't begin at multiples of 16 bytes, a lane's bytes of a K block are contiguous: it loads the aligned vectors
that contain them, and shifts.
"""

from dataclasses import dataclass
from functools import cached_property, reduce

from weft.dialects import tile
from weft.dialects.launch_contract import DEPENDENT, MIN_CTAS
from weft.dialects.schedule.direct import CHUNK_BYTES, COLUMNS, LINE_BYTES, ROWS, DirectSchedule
from weft.dialects.schedule.mma_sync import form
from weft.dialects.tile import BufferType, MatmulOp
from weft.isa.chips import LANES, REGISTERS, since
from weft.mlir import arith, gpu, ir, llvm, nvvm, vector
from weft.passes.builders import addresses, emit, fragment_registers, thread_ids
from weft.passes.builders.addresses import Matrix
from weft.passes.builders.shifted_words import BYTES, WORDS, shifted
from weft.passes.kernels.cluster import await_previous_launch
from weft.passes.kernels.epilogue import Finisher
from weft.passes.kernels.fragments import PAIR, QUAD, add, of_atoms, widened
from weft.passes.kernels.matrices import member, misaligned, size
from weft.passes.kernels.tile_order import grid_tile

_AWAITS = since("sm_90")  # PTX ISA, "Parallel Synchronization and Communication Instructions: griddepcontrol"

_SHARED_REGISTERS = 128

_Pair = list[ir.Value]  # the two words that a lane has of a row, in one product


def expand(op: MatmulOp) -> None:
    """Writes the kernel of a product at the insertion point."""
    schedule = op.schedule
    assert isinstance(schedule, DirectSchedule)
    if op.target is not None and op.target.chip.name in _AWAITS:
        DEPENDENT.set(op.operation.parent, ir.UnitAttr.get())
        await_previous_launch()
        nvvm.GriddepcontrolOp(nvvm.GridDepActionKind.launch_dependents)
    # With 128 registers a thread, two CTAs fit a multiprocessor.
    two = schedule.block[0] == ROWS and 2 * schedule.threads * _SHARED_REGISTERS <= REGISTERS
    op.operation.parent.attributes[MIN_CTAS] = ir.IntegerAttr.get(emit.i32(), 1 + two)
    DirectKernel(op, schedule).emit()


@dataclass(frozen=True)
class _Rows:
    """The rows of an operand that a lane loads: one of each eight."""

    source: Matrix
    starts: list[ir.Value]  # their addresses
    lows: list[ir.Value]  # the low bits of these, an i32 each


class DirectKernel:
    """One tile of D for each CTA. Each warp along K has sums of its own."""

    def __init__(self, op: MatmulOp, schedule: DirectSchedule) -> None:
        self.op, self.schedule = op, schedule
        self.form = form(op.types, op.target.chip.name if op.target else None)
        self.lines = schedule.lines(op.types)
        self.depth = size(op.a, -1)

    def emit(self) -> None:
        """Writes the body at the insertion point."""
        schedule = self.schedule
        m, n, _ = schedule.block
        index = emit.as_i32(gpu.block_id(gpu.Dimension.z)) if self.op.d.type.rank == 3 else None
        at = grid_tile(schedule, index)
        row, column = emit.mul(at.row, m), emit.mul(at.column, n)
        warp = emit.uniform(emit.div(emit.thread(), LANES))
        across, along = schedule.readers
        beside, reader = emit.rem(warp, across), emit.div(warp, across)
        start = emit.mul(beside, schedule.warp_tile[1])
        a = self._rows(self.op.a, index, row, m)
        b = self._rows(self.op.b, index, emit.add(column, start), schedule.warp_tile[1])
        # The sums of all warps along K, built before they are used.
        buffer = self._buffer() if along > 1 else None
        sums = self._multiplied(a, b, reader)
        if buffer is None:
            self._store(sums, row, emit.add(column, start), index)
            return
        part = tile.stage(buffer, reader)
        tile.store(sums, part, emit.value(0), emit.value(start), vector_bytes=PAIR * self._sum_bytes)
        gpu.barrier()
        self._add_up(buffer, warp, row, column, index)

    @property
    def _sum_bytes(self) -> int:
        return int(self._sum.width) // 8

    @cached_property
    def _sum(self) -> ir.Type:
        return ir.Type.parse(self.op.types.instruction_sums)

    def _buffer(self) -> ir.Value:
        rows, columns, _ = self.schedule.block
        stride, warps = self.schedule.sums_stride, self.schedule.readers[1]
        layout = f"S[({warps},{rows},{columns}):({rows * stride},{stride},1)]"
        return tile.alloc(BufferType.of((warps, rows, columns), self._sum, layout))

    def _kind(self, name: str, shape: tuple[int, int]) -> ir.Type:
        """The fragment of an operand of the instruction, or of several."""
        registers = next(each for each in self.form.operands if each.name == name)
        elements = {"a": self.op.a.type.element_type, "b": self.op.b.type.element_type}
        return of_atoms(registers, shape, elements.get(name, self._sum))

    def _rows(self, matrix: ir.Value, index: ir.Value | None, first: ir.Value, count: int) -> _Rows:
        """A lane's rows among `count` from `first` on; in place of those beyond the matrix, its last one."""
        source = Matrix(member(matrix, index))
        last = emit.sub(source.rows, 1)
        mine = emit.add(first, emit.div(thread_ids.lane(), QUAD))
        numbers = [emit.minimum(emit.add(mine, down), last) for down in range(0, count, COLUMNS)]
        return _Rows(source, [source.row(n) for n in numbers], [source.low_bits(n) for n in numbers])

    def _multiplied(self, a: _Rows, b: _Rows, reader: ir.Value) -> ir.Value:
        """The warp's sums, a fragment."""
        kind = self._kind("d", self.schedule.warp_tile)
        zero = emit.constant(kind.lane_type, 0)
        aligned = emit.negate(arith.ori(*(misaligned(each, BYTES) for each in (self.op.a, self.op.b))))
        whole, *sums = emit.either(
            aligned,
            [emit.i32(), kind.lane_type],
            lambda: self._blocks(a, b, reader, zero, _Aligned),
            lambda: self._blocks(a, b, reader, zero, _Shifted),
        )
        return tile.from_lane(self._rest(a, b, reader, whole, sums[0]), kind)

    def _blocks(
        self, a: _Rows, b: _Rows, reader: ir.Value, zero: ir.Value, kind: type["_Aligned"]
    ) -> list[ir.Value]:
        """The number of K blocks that can be loaded whole, and the sums of those that are the warp's. While
        one is multiplied, B's part of the next is loaded.
        """
        along, block = self.schedule.readers[1], self.schedule.block[2]
        readable = emit.sub(self.depth, kind.beyond // a.source.bytes)
        whole = emit.div(emit.maximum(readable, 0), block)
        left, right = (kind(each, self.lines) for each in (a, b))

        def body(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            sums, *words = carried
            following = emit.add(number, along)
            # After the last block, the warp loads what is in its cache, as A's rows always are.
            following = emit.select(emit.less(following, whole), following, number)
            loaded = right.words(emit.mul(following, block))
            of_a = left.pairs(left.words(emit.mul(number, block)))
            return [self._products(sums, of_a, right.pairs(words)), *loaded]

        def some() -> list[ir.Value]:
            first = right.words(emit.mul(reader, block))
            return emit.loop(reader, whole, along, [zero, *first], body)[:1]

        has = emit.less(reader, whole)
        return [emit.value(whole), *emit.either(has, [zero.type], some, lambda: [zero])]

    def _rest(self, a: _Rows, b: _Rows, reader: ir.Value, whole: ir.Value, sums: ir.Value) -> ir.Value:
        """The sums with the products after the whole K blocks, inside of which K may end: elements are loaded
        one by one.
        """
        depth = self.form.mnk[2]
        first = emit.mul(whole, self.schedule.block[2] // depth)
        end = emit.ceil_div(self.depth, depth)

        def body(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            at = emit.add(emit.mul(number, depth), emit.mul(_quad_lane(), depth // QUAD))
            pairs = ([self._elements(each, at, start) for start in each.starts] for each in (a, b))
            return [self._products(carried[0], *([each] for each in pairs))]

        return emit.loop(emit.add(first, reader), end, self.schedule.readers[1], [sums], body)[0]

    def _elements(self, rows: _Rows, at: ir.Value, start: ir.Value) -> _Pair:
        """The elements of two words of a row from one on; what is beyond the end of K is zero."""
        source, found = rows.source, []
        first = source.element_of(start, at)
        for number in range(self.form.mnk[2] // QUAD):
            inside = source.has_column(emit.add(at, number))
            address = arith.select(inside, addresses.offset(first, number * source.bytes), start)
            loaded = llvm.load(source.element, address)
            found.append(arith.select(inside, loaded, emit.constant(source.element, 0)))
        return emit.elements(vector.bitcast(ir.VectorType.get([2], emit.i32()), emit.vector_of(found)))

    def _products(self, sums: ir.Value, a: list[list[_Pair]], b: list[list[_Pair]]) -> ir.Value:
        """The sums and some products: for each of them the pairs of a lane's rows."""
        (rows, columns), depth = self.schedule.warp_tile, self.form.mnk[2]
        shapes = {"a": (rows, depth), "b": (depth, columns), "d": (rows, columns)}
        kinds = {name: self._kind(name, shape) for name, shape in shapes.items()}
        total = tile.from_lane(sums, kinds["d"])
        for left, right in zip(a, b, strict=True):
            total = tile.gemm(
                _fragment(kinds["a"], left, 0), _fragment(kinds["b"], right, 1), total, kinds["d"]
            )
        return tile.to_lane(total)

    def _add_up(
        self, buffer: ir.Value, warp: ir.Value, row: ir.Value, column: ir.Value, index: ir.Value | None
    ) -> None:
        """Adds the sums of the warps along K, in their order, and stores them: each warp some tiles of an
        instruction's size.
        """
        rows, columns, _ = self.schedule.block
        kind = self._kind("d", (ROWS, COLUMNS))
        across, warps = columns // COLUMNS, self.schedule.threads // LANES
        count = rows // ROWS * across

        with emit.each(warp, count, warps) as number:
            down = emit.mul(emit.div(number, across), ROWS)
            beside = emit.mul(emit.rem(number, across), COLUMNS)
            at = emit.value(down), emit.value(beside)
            parts = (tile.stage(buffer, emit.value(reader)) for reader in range(self.schedule.readers[1]))
            loaded = (tile.load(p, *at, kind, vector_bytes=PAIR * self._sum_bytes) for p in parts)
            total = tile.from_lane(reduce(add, map(tile.to_lane, loaded)), kind)
            self._store(total, emit.add(row, down), emit.add(column, beside), index)

    def _store(self, sums: ir.Value, row: ir.Value, column: ir.Value, index: ir.Value | None) -> None:
        Finisher(self.op, index, PAIR).store(widened(sums), row, column)


class _Aligned:
    """How a lane loads its part of K blocks of its rows, which begin at multiples of 16 bytes."""

    beyond = 0
    """Bytes after a K block that must be inside of the matrix, too."""

    def __init__(self, rows: _Rows, lines: int) -> None:
        self.rows, self.lines = rows, lines
        self._starts = [self._start(each) for each in rows.starts]

    def words(self, at: ir.Value) -> list[ir.Value]:
        """The words of all rows that are loaded of the K block that begins at element `at`."""
        first = arith.extsi(emit.i64(), emit.value(at))
        bytes_ = arith.muli(first, arith.constant(first.type, self.rows.source.bytes))
        kind = ir.VectorType.get([WORDS], emit.i32())
        return [
            word
            for start in self._starts
            for vector_ in self._vectors
            for word in emit.elements(
                llvm.load(kind, addresses.offset(addresses.offset(start, bytes_), vector_))
            )
        ]

    def pairs(self, words: list[ir.Value]) -> list[list[_Pair]]:
        """The pairs of all rows, for each product along K."""
        count = WORDS * len(self._vectors)
        rows = [words[i : i + count] for i in range(0, len(words), count)]
        chunks = [
            [word for line in range(self.lines) for word in self._chunk(each, WORDS * line, low)]
            for each, low in zip(rows, self.rows.lows, strict=True)
        ]
        return [[chunk[i : i + 2] for chunk in chunks] for i in range(0, WORDS * self.lines, 2)]

    @property
    def _vectors(self) -> list[int]:
        """Where a lane's vectors are, in bytes from its first one."""
        return [LINE_BYTES * line for line in range(self.lines)]

    def _start(self, row: ir.Value) -> ir.Value:
        """The address of a lane's first vector of a row."""
        return addresses.offset(row, emit.mul(_quad_lane(), CHUNK_BYTES))

    def _chunk(self, words: list[ir.Value], first: int, low: ir.Value) -> list[ir.Value]:
        """The words of a line from what was loaded of a row, whose address has these low bits."""
        return words[first : first + WORDS]


class _Shifted(_Aligned):
    """The same, of rows that begin at any element."""

    beyond = BYTES

    @property
    def _vectors(self) -> list[int]:
        return [CHUNK_BYTES * number for number in range(self.lines + 1)]

    def _start(self, row: ir.Value) -> ir.Value:
        mine = addresses.offset(row, emit.mul(_quad_lane(), CHUNK_BYTES * self.lines))
        lowered = arith.andi(addresses.number(mine), arith.constant(emit.i64(), -BYTES))
        return llvm.inttoptr(mine.type, lowered)

    def _chunk(self, words: list[ir.Value], first: int, low: ir.Value) -> list[ir.Value]:
        return shifted(low, words[first : first + 2 * WORDS], self.rows.source.bytes)


def _quad_lane() -> ir.Value:
    """The lane's number among the four that load a row."""
    return emit.rem(thread_ids.lane(), QUAD)


def _fragment(kind: ir.Type, pairs: list[_Pair], along: int) -> ir.Value:
    """The fragment with the pairs of a lane's rows: rows of the fragment, or with `along` 1 columns."""
    at = fragment_registers.coordinates(kind)
    depth, words = kind.shape[1 - along], list[ir.Value]()
    for coordinates in at[:: 32 // kind.element_type.width]:
        words.append(pairs[coordinates[along] // COLUMNS][2 * coordinates[1 - along] // depth])
    stored = ir.VectorType.get([kind.registers], addresses.stored_type(kind.element_type))
    lane = vector.bitcast(stored, emit.vector_of(words))
    return tile.from_lane(lane if lane.type == kind.lane_type else vector.bitcast(kind.lane_type, lane), kind)
