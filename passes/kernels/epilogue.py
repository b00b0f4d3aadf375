"""The epilogue of the kernels of `tile.matmul`: sums are scaled, added to, activated and rounded."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from weft.dialects import tile
from weft.dialects.operand_roles import FACTORS
from weft.dialects.tile import FragmentType, MatmulOp
from weft.isa.mma.fragments import REGISTER_BITS
from weft.layout import MEMORY, Iter, Layout
from weft.mlir import arith, ir, memref, vector
from weft.passes.builders import emit, fragment_coordinates
from weft.passes.kernels import activations, between_groups
from weft.passes.kernels.fragments import add, convert, reread, transposed
from weft.passes.kernels.matrices import member, run_bytes
from weft.passes.kernels.preload import Preload
from weft.passes.kernels.spread_row import SpreadRow


def finish(
    op: MatmulOp,
    sums: Any,
    row: Any,
    column: Any,
    *,
    run: int,
    number: Any = None,
    alpha: Any = None,
    ahead: int = 0,
    preloaded: tuple[Preload, Any] | None = None,
    pairs: bool = False,
) -> Iterator[tuple[Any, Any, Any]]:
    """The fragments of D from the sums A @ B at (`row`, `column`), each with its row and column relative to
    them; computed in f32 (i32) and rounded once. So many elements of C and of the residual that follow each
    other in a row, at most 16 bytes of them, can be read at once: `run`. `number`: the index of the product
    in a batch. `alpha`: that of the product, if `alpha_of` was called before.

    Each fragment is built on demand, so that it can be stored before the next: the operands of all of them
    don't fit in registers beside the sums. So many registers of a lane are free for elements of C and of the
    residual: `ahead`. These are loaded at once, so that a tile waits a few times for memory. `preloaded`:
    what TMA has copied for the tile, and where. `pairs`: stmatrix stores the fragments, which sums in named
    registers are rounded to only then.
    """
    kind, element = sums.type, op.d.type.element_type
    alpha = alpha_of(op, number) if alpha is None else alpha
    if only_scales(op):
        whole = FragmentType.of(kind.shape, element, kind.layout)
        if pairs and _rounds_as_read(sums, element, alpha):
            yield reread(sums, whole, rounds=True), 0, 0
        else:
            yield tile.from_lane(convert(_scaled(tile.to_lane(sums), alpha), whole.lane_type), whole), 0, 0
        return
    elements = emit.elements(tile.to_lane(sums))
    groups = _groups(op, kind, ahead)
    epilogue = _Epilogue(op, kind, row, column, run, number, alpha, groups, preloaded)
    for piece in pieces(kind):
        part = vector.from_elements(piece.kind.lane_type, [elements[r] for r in piece.registers])
        rounded = FragmentType.of(piece.kind.shape, element, piece.kind.layout)
        done = convert(epilogue.of(piece, part), rounded.lane_type)
        yield tile.from_lane(done, rounded), piece.row, piece.column


def _rounds_as_read(sums: Any, element: Any, alpha: Any) -> bool:
    """Whether sums are in named registers, and only rounded to D's elements, of 16 bits."""
    wide = sums.type.element_type == ir.F32Type.get() and str(element) in ("f16", "bf16")
    unscaled = not isinstance(alpha, ir.Value) and alpha == 1.0
    return wide and unscaled and tile.reading(sums) is not None


def only_scales(op: MatmulOp) -> bool:
    """Whether the epilogue multiplies sums by alpha, rounds them, and does nothing else."""
    read = any(op.role(name) is not None for name in ("bias", "residual"))
    plain = op.attribute("activation") is None or op.gate is not None
    return not read and not op.factor_vectors and op.c is None and plain and op.grouping != "row_ends"


def matrices(op: MatmulOp) -> list[Any]:
    """What the epilogue reads for each element of D."""
    return [matrix for matrix in (op.c, op.role("residual")) if matrix is not None]


def _groups(op: MatmulOp, kind: Any, ahead: int) -> list["Piece"]:
    """The parts of a fragment whose elements of C and of the residual are loaded at once, each of whole
    pieces.
    """
    count, read = len(pieces(kind)), matrices(op)
    bits = sum(matrix.type.element_type.width for matrix in read) or 1
    fits = (
        p for p in range(1, count) if count % p == 0 and kind.registers // p * bits <= REGISTER_BITS * ahead
    )
    return pieces(kind, next(fits, count))


def alpha_of(op: MatmulOp, number: Any) -> Any:
    """What the sums of product `number` of a batch are multiplied by: a number, or a value of f32 where the
    kernel reads it from memory. Row and column factors of one element are part of it.
    """
    factor = op.attribute("alpha")
    for name in ("alpha", *FACTORS):
        if (read := op.role(name)) is None or name in op.factor_vectors:
            continue
        index = number if name == "alpha" and op.factors is not None and number is not None else 0
        value = memref.load(read, [emit.as_index(index)])
        if not isinstance(factor, ir.Value):
            factor = value if factor == 1.0 else arith.mulf(value, emit.constant(value.type, factor))
        else:
            factor = arith.mulf(factor, value)
    return factor


def _scaled(lane: Any, alpha: Any) -> Any:
    """A lane's sums times alpha."""
    if isinstance(alpha, ir.Value):
        return arith.mulf(lane, vector.broadcast(lane.type, alpha))
    return lane if alpha == 1.0 else arith.mulf(lane, emit.constant(lane.type, alpha))


@dataclass(frozen=True)
class Piece:
    """A part of a fragment: a fragment of type `kind` from `row` and `column` on, in these registers."""

    kind: Any
    row: int
    column: int
    registers: tuple[int, ...]


_PIECE = 16  # registers of a lane, at most if the layout allows it


def split(sums: Any, count: int) -> Iterator[tuple[Any, int, int]]:
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


def pieces(kind: Any, count: int | None = None) -> list[Piece]:
    """A fragment's parts along the dimension in which a lane has most elements, in order: `count` of them, or
    as few as have `_PIECE` registers.
    """
    groups = kind.layout.group(kind.shape)
    # Parts are blocks of the outermost digit, which must be one of the lane's registers.
    counts = [group[0].extent if group and group[0].axis == MEMORY else 1 for group in groups]
    along = counts.index(max(counts))
    parts = count or next(
        p
        for p in range(1, counts[along] + 1)
        if counts[along] % p == 0 and (kind.registers // p <= _PIECE or p == counts[along])
    )
    extent = kind.shape[along] // parts
    shape = tuple(extent if axis == along else size for axis, size in enumerate(kind.shape))
    outer = groups[along][0] if groups[along] else None
    shard = [it for group in groups for it in group]
    if outer is not None:
        shard[shard.index(outer)] = replace(outer, extent=outer.extent // parts)
    part_type = FragmentType.of(shape, kind.element_type, Layout(_dense(shard)))
    elements = fragment_coordinates.lane_elements(kind.layout, kind.shape)[0]
    pieces = list[Piece]()
    for part in range(parts):
        registers = tuple(r for r, at in enumerate(elements) if at[along] // extent == part)
        row, column = (part * extent if axis == along else 0 for axis in range(2))
        pieces.append(Piece(part_type, row, column, registers))
    return pieces


def _dense(shard: list[Iter]) -> tuple[Iter, ...]:
    """The digits with the lane's registers renumbered without gaps, in the same order."""
    reach, strides = 1, dict[Iter, int]()
    for it in sorted((it for it in shard if it.axis == MEMORY), key=lambda it: it.stride):
        strides[it], reach = reach, reach * it.extent
    return tuple(replace(it, stride=strides[it]) if it in strides else it for it in shard)


class _Epilogue:
    """The epilogue of one tile."""

    def __init__(
        self,
        op: MatmulOp,
        kind: Any,
        row: Any,
        column: Any,
        run: int,
        number: Any,
        alpha: Any,
        groups: list[Piece],
        preloaded: tuple[Preload, Any] | None,
    ) -> None:
        self.op, self.kind, self.row, self.column, self.run, self.number = op, kind, row, column, run, number
        self.alpha, self.preloaded = alpha, preloaded
        self.groups = {register: group for group in groups for register in group.registers}
        self.loaded = dict[tuple[Any, int], Any]()  # of a matrix, by the first register of a group
        self.spread = dict[Any, SpreadRow]()  # of vectors
        self.rows = dict[Any, Any]()  # of the bias, by the column in the fragment
        self.factors = dict[tuple[str, int], Any]()  # by role and the row or column in the fragment

    def of(self, piece: Piece, lane: Any) -> Any:
        """A lane's elements of D from its sums, not yet rounded."""
        c, residual = (
            None if matrix is None else self._loaded(matrix, piece, lane.type)
            for matrix in (self.op.c, self.op.role("residual"))
        )
        if self.op.grouping == "row_ends":
            lane = between_groups.marked(
                self.op, lane, piece.kind, emit.add(self.row, piece.row), self.number
            )
        lane = _scaled(lane, self.alpha)
        for name, factors in self.op.factor_vectors.items():
            lane = arith.mulf(lane, self._factors(name, factors, piece))
        if c is not None:
            beta = self.op.attribute("beta")
            lane = add(lane, c if beta == 1.0 else arith.mulf(c, emit.constant(c.type, beta)))
        if (bias := self.op.role("bias")) is not None:
            lane = add(lane, self._bias(bias, piece, lane.type))
        if (name := self.op.attribute("activation")) is not None:
            lane = activations.apply(name, lane)
        return lane if residual is None else add(lane, residual)

    def _loaded(self, matrix: Any, piece: Piece, kind: Any) -> Any:
        """The part of a matrix at the coordinates of the piece: its whole group is loaded at once."""
        group = self.groups[piece.registers[0]]
        key = matrix, group.registers[0]
        if key not in self.loaded:
            self.loaded[key] = emit.elements(self._load(matrix, group))
        held = dict(zip(group.registers, self.loaded[key], strict=True))
        return convert(emit.vector_of([held[register] for register in piece.registers]), kind)

    def _load(self, matrix: Any, group: Piece) -> Any:
        """A lane's elements of a matrix at the coordinates of a group."""
        fragment = FragmentType.of(group.kind.shape, matrix.type.element_type, group.kind.layout)
        if self.preloaded is not None and self.preloaded[0].matrix == matrix:
            copies, part = self.preloaded
            return copies.load(part, group.row, group.column, fragment)
        return self._global(matrix, group, fragment)

    def _global(self, matrix: Any, group: Piece, fragment: Any) -> Any:
        """Those elements from global memory."""
        row, column = (
            emit.value(emit.add(start, at))
            for start, at in ((self.row, group.row), (self.column, group.column))
        )
        width = run_bytes(matrix, self.run, fragment)
        source = member(matrix, self.number)
        # Where C is D, as in sums of gradients, a load beyond an edge would read what another warp writes.
        inside = self.op.types.k_groups or matrix == self.op.d
        return tile.to_lane(tile.load(source, row, column, fragment, vector_bytes=width, only_inside=inside))

    def _bias(self, bias: Any, piece: Piece, kind: Any) -> Any:
        """The part of the bias for the piece's columns; pieces with the same columns share it."""
        if piece.column not in self.rows:
            self.rows[piece.column] = convert(self._row(bias, piece, self.run), kind)
        return self.rows[piece.column]

    def _row(self, source: Any, piece: Piece, run: int) -> Any:
        """A lane's elements of a vector for the piece's columns, `run` of which can be read at once."""
        if SpreadRow.serves(self.kind):
            if source not in self.spread:
                self.spread[source] = SpreadRow(source, self.column, self.kind)
            return self.spread[source].of(piece.kind, piece.column)
        fragment = FragmentType.of(piece.kind.shape, source.type.element_type, piece.kind.layout)
        column = emit.value(emit.add(self.column, piece.column))
        width = run_bytes(source, run, fragment) if run > 1 else 0
        return tile.to_lane(tile.load_row(source, column, fragment, vector_bytes=width))

    def _factors(self, name: str, factors: Any, piece: Piece) -> Any:
        """The factors of the piece's rows or columns; pieces with the same ones share them."""
        of_rows = name == "row_factors"
        at = piece.row if of_rows else piece.column
        if (name, at) not in self.factors:
            self.factors[name, at] = (
                self._of_rows(factors, piece) if of_rows else self._row(factors, piece, 1)
            )
        return self.factors[name, at]

    def _of_rows(self, factors: Any, piece: Piece) -> Any:
        """A lane's elements of a vector for the piece's rows."""
        kind = transposed(FragmentType.of(piece.kind.shape, factors.type.element_type, piece.kind.layout))
        return tile.to_lane(tile.load_row(factors, emit.value(emit.add(self.row, piece.row)), kind))
