"""The epilogue of the kernels of `tile.matmul`: elements of D are computed from sums, and rounded."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from weft.dialects import tile
from weft.dialects.op import refuse
from weft.dialects.tile import FragmentType, LoadElementOp, MatmulOp
from weft.dialects.tile_epilogue import AT_ONCE
from weft.isa.chips import LANES
from weft.isa.mma.fragments import REGISTER_BITS
from weft.layout import MEMORY, Layout
from weft.mlir import ir, llvm, vector
from weft.passes.builders import emit, fragment_moves, fragment_registers, thread_ids
from weft.passes.builders.addresses import Vector
from weft.passes.builders.fragment_registers import LaneDigit
from weft.passes.builders.registers import dense
from weft.passes.kernels.epilogue_function import Shared, compute, shared
from weft.passes.kernels.fragments import PAIR, QUAD, convert, reread, transposed
from weft.passes.kernels.matrices import along, member, run_bytes, size, vector_of, with_rows
from weft.passes.kernels.preload import Preload
from weft.passes.kernels.reduced_output import ReducedOutput
from weft.passes.kernels.tile_order import Ends

# Of a lane of `wgmma`: pairs, beside those of the other lanes of a quad.
_COLUMNS = (LaneDigit(1, QUAD, PAIR),)


class SpreadRow:
    """As many elements of a vector, from a column on, as a fragment of type `kind` has columns."""

    def __init__(self, vector: ir.Value, column: ir.Value, kind: ir.Type) -> None:
        """Loads them, at the insertion point. What is beyond the vector's end is zero."""
        source = Vector(vector)
        self.element, self.packed = source.element, source.element.width < REGISTER_BITS
        _, lane = thread_ids.late_warp_and_lane()
        self.quad, own = emit.rem(lane, QUAD), emit.add(column, emit.mul(lane, PAIR))
        self.registers = list[list[ir.Value]]()
        for first in range(0, kind.shape[1], PAIR * LANES):
            pair = []
            for at in (emit.add(own, first + number) for number in range(PAIR)):
                address, inside = source.element_of(at), source.has(at)
                pair.append(fragment_moves.guarded(source, address, inside, source.element))
            self.registers.append([llvm.bitcast(emit.i32(), emit.vector_of(pair))] if self.packed else pair)

    @staticmethod
    def serves(kind: ir.Type) -> bool:
        """Whether lanes have many columns of a fragment, as `wgmma` has those of its sums."""
        digits = fragment_registers.lane_digits(kind.layout, kind.shape)
        return kind.warps > 1 and digits is not None and digits[1] == _COLUMNS and kind.shape[1] >= LANES

    def of(self, piece: ir.Type, first: int) -> ir.Value:
        """A lane's elements for a fragment whose first column is this one, as a vector."""
        columns = [column for _, column in fragment_registers.coordinates(piece)]
        pairs = {c: self._pair((first + c) // PAIR) for c in sorted(set(columns)) if c % PAIR == 0}
        return emit.vector_of([pairs[c - c % PAIR][c % PAIR] for c in columns])

    def _pair(self, number: int) -> list[ir.Value]:
        """The elements of the lane in a pair of columns: this pair for the first lane of a quad."""
        register, lane = divmod(number, LANES)
        shuffled = [emit.of_lane(each, emit.add(self.quad, lane)) for each in self.registers[register]]
        if not self.packed:
            return shuffled
        return emit.elements(llvm.bitcast(ir.VectorType.get([PAIR], self.element), shuffled[0]))


def rows_of_group(
    op: MatmulOp, matrix: ir.Value, number: ir.Value | None, row: ir.Value
) -> tuple[ir.Value, ir.Value, bool]:
    """Where product `number` has its part of a matrix like D: the matrix, or where ends divide its rows,
    those of the product; the `row` in it; and whether that may be negative.
    """
    of_product = member(matrix, number)
    if op.grouping != "row_ends":
        return of_product, row, False
    ends = Ends.of(op)
    begin, end = ends.begin(number), ends.end(number)
    if ends.step == 1:
        return with_rows(of_product, end), row, False
    return along(of_product, 0, begin, emit.sub(end, begin)), emit.sub(row, begin), True


@dataclass(frozen=True)
class Finisher:
    """Makes fragments of D of the sums A @ B of product `number` of a batch.

    `run`: how many consecutive elements of a row one load may read, at most 16 bytes. `known`: what `shared`
    returned for the product, if it was called before. So many registers of a lane are free for elements of
    loaded matrices: `ahead`. These are loaded at once, so that a tile waits a few times for memory.
    `preloaded`: what TMA has copied for the tile, and where. `pairs`: stmatrix stores the fragments, which
    sums in named registers are rounded to only then.
    """

    op: MatmulOp
    number: ir.Value | None
    run: int
    known: Shared | None = None
    ahead: int = 0
    preloaded: tuple[Preload, ir.Value] | None = None
    pairs: bool = False

    def fragments(
        self, sums: ir.Value, row: ir.Value, column: ir.Value
    ) -> Iterator[tuple[ir.Value, int, int]]:
        """The fragments from the sums at (`row`, `column`), each with its row and column relative to them;
        computed in f32 (i32) and rounded once.

        Each fragment is built on demand, so that it can be stored before the next: the operands of all of
        them don't fit in registers beside the sums.
        """
        op, kind, element, needs = self.op, sums.type, self.op.d.type.element_type, self.op.needs
        known = shared(op, self.number) if self.known is None else self.known
        if needs.only_scales:
            whole = FragmentType.of(kind.shape, element, kind.layout)
            if self.pairs and needs.only_rounds and _rounds_as_read(sums, element):
                yield reread(sums, whole, rounds=True), 0, 0
                return
            lane = tile.to_lane(sums)
            done = lane if op.function is None else compute(op.function, known, {op.function.sum: lane})[0]
            yield tile.from_lane(convert(done, whole.lane_type), whole), 0, 0
            return
        elements = emit.elements(tile.to_lane(sums))
        epilogue = _Epilogue(self, known, kind, (row, column))
        parts = pieces(kind)
        for piece, following in zip(parts, [*parts[1:], None], strict=True):
            part = vector.from_elements(piece.kind.lane_type, [elements[r] for r in piece.registers])
            done, *others = epilogue.of(piece, part)
            epilogue.store(piece, others)
            epilogue.flush(piece, following)
            yield _rounded(done, piece.kind, element), piece.row, piece.column

    def store(self, sums: ir.Value, row: ir.Value, column: ir.Value, stored: int | None = None) -> None:
        """Stores the fragments to D from registers. `stored`: the elements that are written at once, if these
        aren't a `run`.
        """
        d, first, any_row = rows_of_group(self.op, self.op.d, self.number, row)
        for done, down, across in self.fragments(sums, row, column):
            at = emit.value(emit.add(first, down)), emit.value(emit.add(column, across))
            width = run_bytes(self.op.d, stored or self.run, done.type)
            tile.store(done, d, *at, vector_bytes=width, any_row=any_row)


def _rounded(lane: ir.Value, kind: ir.Type, element: ir.Type) -> ir.Value:
    """A lane's values of a fragment as a fragment of elements of a type."""
    rounded = FragmentType.of(kind.shape, element, kind.layout)
    return tile.from_lane(convert(lane, rounded.lane_type), rounded)


def _rounds_as_read(sums: ir.Value, element: ir.Type) -> bool:
    """Whether sums are in named registers, and are rounded to D's elements, of 16 bits."""
    wide = sums.type.element_type == ir.F32Type.get() and str(element) in ("f16", "bf16")
    return wide and tile.reading(sums) is not None


@dataclass(frozen=True)
class Piece:
    """A part of a fragment: a fragment of type `kind` from `row` and `column` on, in these registers."""

    kind: ir.Type
    row: int
    column: int
    registers: tuple[int, ...]


def split(sums: ir.Value, count: int) -> Iterator[tuple[ir.Value, int, int]]:
    """So many equal fragments of sums along the dimension in which a lane has most elements, each with its
    row and column relative to them.
    """
    elements = None if tile.reading(sums) else emit.elements(tile.to_lane(sums))
    for piece in pieces(sums.type, count):
        if elements is None:
            part = reread(sums, piece.kind, piece.registers)
        else:
            lane = vector.from_elements(piece.kind.lane_type, [elements[r] for r in piece.registers])
            part = tile.from_lane(lane, piece.kind)
        yield part, piece.row, piece.column


def pieces(kind: ir.Type, count: int | None = None) -> list[Piece]:
    """A fragment's parts along the dimension in which a lane has most elements, in order: `count` of them, or
    as few as have `AT_ONCE` registers.
    """
    groups = kind.layout.group(kind.shape)
    # Parts are blocks of the outermost digit, which must be one of the lane's registers.
    counts = [group[0].extent if group and group[0].axis == MEMORY else 1 for group in groups]
    along = counts.index(max(counts))
    parts = count or next(
        p
        for p in range(1, counts[along] + 1)
        if counts[along] % p == 0 and (kind.registers // p <= AT_ONCE or p == counts[along])
    )
    extent = kind.shape[along] // parts
    shape = tuple(extent if axis == along else size for axis, size in enumerate(kind.shape))
    outer = groups[along][0] if groups[along] else None
    shard = [it for group in groups for it in group]
    if outer is not None:
        shard[shard.index(outer)] = replace(outer, extent=outer.extent // parts)
    part_type = FragmentType.of(shape, kind.element_type, Layout(dense(shard)))
    elements = fragment_registers.coordinates(kind)
    pieces = list[Piece]()
    for part in range(parts):
        registers = tuple(r for r, at in enumerate(elements) if at[along] // extent == part)
        row, column = (part * extent if axis == along else 0 for axis in range(2))
        pieces.append(Piece(part_type, row, column, registers))
    return pieces


class _Epilogue:
    """The epilogue of one tile."""

    def __init__(
        self, finisher: Finisher, known: Shared, kind: ir.Type, start: tuple[ir.Value, ir.Value]
    ) -> None:
        self.op, self.run, self.number = finisher.op, finisher.run, finisher.number
        self.needs = self.op.needs
        self.preloaded, self.known, self.kind, self.start = finisher.preloaded, known, kind, start
        count, read = len(pieces(kind)), self.needs.matrices
        bits = sum(matrix.type.element_type.width for matrix in read) or 1
        fits = (
            p
            for p in range(1, count)
            if count % p == 0 and kind.registers // p * bits <= REGISTER_BITS * finisher.ahead
        )
        groups = pieces(kind, next(fits, count))
        self.groups = {register: group for group in groups for register in group.registers}
        # What is loaded of matrices, by the first register of a group.
        self.loaded = dict[tuple[ir.Value, int], list[ir.Value]]()
        self.spread = dict[ir.Value, SpreadRow]()
        # By the number of the store.
        self.reduced = {
            number: ReducedOutput(each, self._vector_of(each.destination), size(self.op.d, each.reduced - 2))
            for number, each in enumerate(self.needs.stores)
            if each.reduced is not None
        }
        # What is loaded of vectors, by axis and the row or column in the fragment.
        self.vectors = dict[tuple[ir.Value, str, int], ir.Value]()

    def of(self, piece: Piece, lane: ir.Value) -> list[ir.Value]:
        """A lane's elements of D and of the further results from its sums, not yet rounded."""
        function = self.op.function
        values = {x.element: self._matrix(x, piece, lane.type) for x in self.needs.loads if x.axes == "MN"}
        if function is None:
            return [lane]
        return compute(
            function,
            self.known,
            values | {function.sum: lane},
            lambda load: self._vector(load, piece, lane.type),
            lambda axis: self._coordinates(axis, piece),
        )

    def store(self, piece: Piece, values: list[ir.Value]) -> None:
        """Stores a lane's values of the further results, or combines them with those of other pieces."""
        for number, (each, lane) in enumerate(zip(self.needs.stores, values, strict=True)):
            if (reduced := self.reduced.get(number)) is not None:
                first = self._at(reduced.reduced, piece)
                reduced.combine(lane, piece.kind, self._digits(piece), first)
                continue
            memref = each.destination
            done = _rounded(lane, piece.kind, memref.type.element_type)
            row, column = (emit.value(self._at(axis, piece)) for axis in range(2))
            stored, row, any_row = rows_of_group(self.op, memref, self.number, row)
            width = run_bytes(memref, self.run, done.type)
            tile.store(done, stored, row, column, vector_bytes=width, any_row=any_row)

    def flush(self, piece: Piece, following: Piece | None) -> None:
        """Ends the reductions of rows or columns that a piece has, but not the following one."""
        for reduced in self.reduced.values():
            at, *after = ((each.row, each.column)[reduced.kept] for each in (piece, following) if each)
            if after != [at]:
                reduced.flush(piece.kind, self._digits(piece), self._at(reduced.kept, piece))

    def _matrix(self, load: LoadElementOp, piece: Piece, kind: ir.Type) -> ir.Value:
        """The part of a matrix at the coordinates of the piece: its whole group is loaded at once."""
        group = self.groups[piece.registers[0]]
        key = load.source, group.registers[0]
        if key not in self.loaded:
            self.loaded[key] = emit.elements(self._load(load.source, group))
        held = dict(zip(group.registers, self.loaded[key], strict=True))
        return convert(emit.vector_of([held[register] for register in piece.registers]), kind)

    def _load(self, matrix: ir.Value, group: Piece) -> ir.Value:
        """A lane's elements of a matrix at the coordinates of a group."""
        fragment = FragmentType.of(group.kind.shape, matrix.type.element_type, group.kind.layout)
        if self.preloaded is not None and self.preloaded[0].matrix == matrix:
            _, part = self.preloaded
            loaded = tile.load(part, emit.value(group.row), emit.value(group.column), fragment)
            return tile.to_lane(loaded)
        row, column = (emit.value(self._at(axis, group)) for axis in range(2))
        width = run_bytes(matrix, self.run, fragment)
        source, row, any_row = rows_of_group(self.op, matrix, self.number, row)
        # Where C is D, as in sums of gradients, a load beyond an edge would read what another warp writes. So
        # would that of another group's rows of a residual that is D.
        inside = self.op.types.k_groups or self.op.grouping == "row_ends" or matrix == self.op.d
        loaded = tile.load(
            source, row, column, fragment, vector_bytes=width, only_inside=inside, any_row=any_row
        )
        return tile.to_lane(loaded)

    def _vector(self, load: LoadElementOp, piece: Piece, kind: ir.Type) -> ir.Value:
        """The part of a vector for the piece's rows or columns; pieces with the same ones share it."""
        key = load.source, load.axes, piece.row if load.axes == "M" else piece.column
        if key not in self.vectors:
            source = self._vector_of(load.source)
            of_rows = load.axes == "M"
            lane = self._of_rows(source, piece) if of_rows else self._of_columns(load.source, source, piece)
            self.vectors[key] = convert(lane, kind)
        return self.vectors[key]

    def _vector_of(self, source: ir.Value) -> ir.Value:
        """A vector of the product, if a memref has one for each."""
        if source.type.rank == 1:
            return source
        return vector_of(source, 0 if self.number is None else self.number)

    def _of_columns(self, name: ir.Value, source: ir.Value, piece: Piece) -> ir.Value:
        """A lane's elements of a vector for the piece's columns."""
        if SpreadRow.serves(self.kind):
            if name not in self.spread:
                self.spread[name] = SpreadRow(source, self.start[1], self.kind)
            return self.spread[name].of(piece.kind, piece.column)
        fragment = FragmentType.of(piece.kind.shape, source.type.element_type, piece.kind.layout)
        width = run_bytes(source, self.run, fragment)
        column = emit.value(self._at(1, piece))
        return tile.to_lane(tile.load_row(source, column, fragment, vector_bytes=width))

    def _of_rows(self, source: ir.Value, piece: Piece) -> ir.Value:
        """A lane's elements of a vector for the piece's rows."""
        kind = transposed(FragmentType.of(piece.kind.shape, source.type.element_type, piece.kind.layout))
        return tile.to_lane(tile.load_row(source, emit.value(self._at(0, piece)), kind))

    def _at(self, axis: int, piece: Piece) -> ir.Value:
        """The first row (axis 0) or column (1) of a piece."""
        return emit.add(self.start[axis], (piece.row, piece.column)[axis])

    def _coordinates(self, axis: int, piece: Piece) -> ir.Value:
        """The rows or columns of a lane's elements, as a vector of index."""
        first = emit.add(self._at(axis, piece), fragment_registers.lane_coordinate(self._digits(piece)[axis]))
        own = fragment_registers.coordinates(piece.kind)
        return emit.vector_of([emit.as_index(emit.add(first, at[axis])) for at in own])

    def _digits(self, piece: Piece) -> tuple[tuple[LaneDigit, ...], ...]:
        """The digits of a lane's number that give its coordinates in a piece."""
        layout, shape = piece.kind.layout, piece.kind.shape
        if (digits := fragment_registers.lane_digits(layout, shape)) is None:
            raise refuse(self.op, f"can't compute with rows and columns of sums in {layout}")
        return digits
