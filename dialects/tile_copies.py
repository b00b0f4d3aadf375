"""The copies of the `tile` dialect, by threads and by TMA, and the matrices that TMA copies."""

from collections.abc import Sequence

from weft.dialects.effects import ORDERS, Effects, Pure
from weft.dialects.element_types import ELEMENT_TYPES
from weft.dialects.instruction import judge
from weft.dialects.op import Op, Operand, Result
from weft.dialects.tile_rings import TMA, ring_of_barrier
from weft.dialects.tile_types import (
    MapType,
    Tile,
    element_complaint,
    group_complaint,
    index_complaint,
    is_buffer,
    is_map,
    is_tensor_buffer,
    matrix_complaint,
    tensor_complaint,
)
from weft.isa import async_copy
from weft.isa.cluster_features import COPY_OF_PAIR, GATHER
from weft.isa.l2_cache import CREATEPOLICY, NORMAL
from weft.isa.tcgen05.pairs import PAIR
from weft.isa.tensor_map import GATHERED_ROWS, JOINED_ROWS, L2_PROMOTIONS, MOST_BOX, ROW_BYTES, one_of
from weft.mlir import ir

CHUNK_BITS = 8
"""The bits of elements that tensor maps may count in chunks: as pairs, of which a box has up to 256."""
MOST_CHUNK = 2 * MOST_BOX
EDGES = ZERO, BOTH, ANY, INSIDE = ("zero", "both", "any", "inside")
"""The elements of a tile beyond the matrix: zeros, undefined elements, or none, as it never reaches there."""


def vector_complaint(op: ir.OpView, widths: Sequence[int]) -> str | None:
    width = op.attribute("vector_bytes")
    if width not in widths:
        return f"expects vector_bytes to be one of {', '.join(map(str, widths))}, got {width}"
    return None


class _CopyIn(Op):
    source: Operand
    row: Operand
    column: Operand
    tile: Operand


class _CopyOut(Op):
    tile: Operand
    destination: Operand
    row: Operand
    column: Operand


def _copy_complaint(op: ir.OpView, name: str, matrix: ir.Value) -> str | None:
    """Why threads can't copy between the op's tile and its `matrix`, which is its `name`."""
    if wrong := matrix_complaint(f"the {name}", matrix, ELEMENT_TYPES):
        return wrong
    if not is_buffer(op.tile):
        return f"expects the tile to be a tile.buffer, got {op.tile.type}"
    if is_tensor_buffer(op.tile):
        return f"expects the tile in shared memory, got {op.tile.type}"
    if wrong := index_complaint([op.row, op.column]):
        return wrong
    return _rank_complaint("a tile", op.tile.type) or element_complaint(matrix, op.tile)


def _rank_complaint(name: str, kind: ir.Type) -> str | None:
    """Why a type isn't that of a tile of rows and columns."""
    return None if len(kind.shape) == 2 else f"expects {name} of rank 2, got shape {list(kind.shape)}"


def _barrier_complaint(op: ir.OpView, barrier: ir.Value) -> str | None:
    """Why a value isn't the address of an mbarrier in shared memory that a copy can signal."""
    if str(barrier.type) != "!llvm.ptr<3>":
        return f"expects a barrier of type !llvm.ptr<3>, got {barrier.type}"
    maker = ring_of_barrier(barrier)
    if maker is None:
        return None
    if maker.filler != TMA:
        return f"expects the barrier of a ring whose filled_by is tma, got {maker.filler}"
    if maker.cta_group == PAIR and op.attribute("cta_group") != PAIR:
        return f"cta_group must be {PAIR}, that of the barrier's ring, got {op.attribute('cta_group')}"
    return None


class CopyAsyncOp(_CopyIn, dialect=Tile, name="copy_async", traits=[ORDERS]):
    """Starts a copy of the tile at (`row`, `column`) of a matrix into a buffer. Elements outside of the
    matrix become zero.

    From a memref, all threads of the CTA copy by `cp.async`, `vector_bytes` at a time; in a role, the threads
    of one warpgroup do. Rows and tile must be aligned to `vector_bytes`. The data has arrived after
    `nvvm.cp.async.commit.group`, `nvvm.cp.async.wait.group` and a barrier. In a ring, it has arrived when the
    stage is full, if each thread executes `tile.commit` with `copies`. `rows` is about rows of the tile that
    the matrix may lack, and `columns` the same for columns:

    - "zero": those after the last row. Their elements become zero.
    - "both": also those before row 0. Their elements become zero.
    - "any": those after the last row. Their elements are undefined.
    - "inside": none. The matrix must have all rows of the tile.

    From a `tile.map`, one thread copies by TMA. The operand after the tile is the address of an mbarrier
    (`!llvm.ptr<3>`, the `tile.full_barrier` of a stage), which must expect the bytes. The data has arrived
    when the mbarrier completes its phase. With `cta_group` 2, the mbarrier may be that of the other CTA of
    the pair, as in a ring with `cta_group` 2.
    """

    barrier: Sequence[Operand]
    optional = {"vector_bytes": 0, "rows": ZERO, "columns": ZERO, "cta_group": 1}  # noqa: RUF012

    @property
    def decided_by_kind(self) -> bool:  # type: ignore[override]
        """A copy from a map also depends on the ring of its barrier."""
        return not is_map(self.source)

    @property
    def form(self) -> async_copy.Copy:
        """The row's key: the instruction that copies one vector."""
        return async_copy.copy_of(self.attribute("vector_bytes"))

    def check(self) -> str | None:
        if is_map(self.source):
            return self._tensor_complaint()
        if len(self.barrier):
            return f"expects a barrier only where the source is a tile.map, got {self.source.type}"
        if "cta_group" in self.attributes:
            return "expects cta_group only where the source is a tile.map, got a memref"
        for name in ("rows", "columns"):
            if (edge := self.attribute(name)) not in EDGES:
                return f"{name} must be {', '.join(EDGES[:-1])} or {EDGES[-1]}, got {edge}"
        widths = tuple(dict.fromkeys(form.bytes for form in async_copy.CP_ASYNC.forms()))
        wrong = _copy_complaint(self, "source", self.source) or vector_complaint(self, widths)
        return wrong or judge(async_copy.CP_ASYNC, self)

    def _tensor_complaint(self) -> str | None:
        if len(self.barrier) != 1:
            return f"expects one barrier (!llvm.ptr<3>) after the tile, got {len(self.barrier)} operands"
        if wrong := _barrier_complaint(self, self.barrier[0]):
            return wrong
        for name in ("vector_bytes", "rows", "columns"):
            if name in self.attributes:
                return f"expects {name} only where the source is a memref, got a tile.map"
        if wrong := cta_group_complaint(self):
            return wrong
        return tensor_complaint(self.source, self.tile) or index_complaint([self.row, self.column])


class CopyOp(_CopyIn, dialect=Tile, name="copy", traits=[Effects(reads=("source",), writes=("tile",))]):
    """All threads of the CTA copy the tile at (`row`, `column`) of a matrix into a buffer, element by
    element.

    Elements outside of the matrix become zero; no alignment is needed. The data has arrived after a barrier.
    With `any_start`, `row` and `column` may be negative.
    """

    optional = {"any_start": False}  # noqa: RUF012

    def check(self) -> str | None:
        return _copy_complaint(self, "source", self.source)


class CopyOutOp(
    _CopyOut, dialect=Tile, name="copy_out", traits=[Effects(reads=("tile",), writes=("destination",))]
):
    """The threads of a warpgroup copy a buffer to (`row`, `column`) of a matrix. They store aligned 16-byte
    vectors where possible. Elements outside of the matrix are not written. The matrix may have any alignment.
    With `any_row`, `row` may be negative.
    """

    optional = {"any_row": False}  # noqa: RUF012

    def check(self) -> str | None:
        return _copy_complaint(self, "destination", self.destination)


def cta_group_complaint(op: ir.OpView) -> str | None:
    """Why a copy by TMA can't have its attribute `cta_group`."""
    if (wrong := group_complaint(op)) or op.attribute("cta_group") != PAIR or op.target is None:
        return wrong
    verdict = COPY_OF_PAIR.complaint(op.target.chip.name)
    if verdict is None:
        return None
    return f"cta_group must be 1 on this chip: {COPY_OF_PAIR.name} {verdict}"


class TensorMapOp(Op, dialect=Tile, name="tensor_map", traits=[Pure]):
    """A matrix that TMA copies in tiles of the result's type. The launch passes a tensor map for it.

    The matrix must be an argument of the kernel. Its first element and its rows must be aligned to 16 bytes.
    In a batch (rank 3, or 4 for a batch of batches), `tile.member` selects one matrix, or one batch.

    Elements of 4 or 6 bits are packed in the matrix. In a buffer, 16 elements of 6 bits take 16 bytes, and
    the layout counts bytes. 16 elements of 4 bits take 16 bytes if the layout has a gap after each 16
    elements, as in `S[(M,8,16):(256,32,1)]`; otherwise they are packed. Where 16 elements take 16 bytes, rows
    of a box have 128 elements, and the matrix and its rows must be aligned to 32 bytes.

    - `l2_promotion` is the number of bytes that L2 fetches from memory at a time ("none", "64B", "128B" or
      "256B").
    - `l2_eviction` is the eviction priority in L2 of copied and stored data ("evict_normal", "evict_first",
      "evict_last" or "evict_unchanged").
    - `chunk` divides columns into chunks of this number of elements, so that a row of a tile may have more
      than 256 elements. The columns of the matrix and of the tile, and the column coordinates of copies, must
      be multiples of it.
    - `indexed`: only `tile.gather_async` may use the map; it copies rows by their numbers.
    - `any_rows`: the matrix may have any alignment. The kernel must check whether TMA can copy it, and use
      the map only then.
    - `skewed`: the matrix may begin at any element. The map begins at the last multiple of 16 bytes before
      it, so it has additional columns on the left.
    - `joined`: rows of the matrix have at most 16 bytes, and their number is a multiple of eight. Eight rows
      that are contiguous in memory are copied as fast as one row. Tiles consist of whole groups of eight
      rows.
    - `tf32`: copies round elements of f32 to the nearest tf32. `--round-tf32` makes such maps for products.
    """

    matrix: Operand
    map: Result
    optional = {  # noqa: RUF012
        "l2_promotion": "256B",
        "l2_eviction": NORMAL,
        "chunk": 0,
        "indexed": False,
        "any_rows": False,
        "skewed": False,
        "joined": False,
        "tf32": False,
    }

    @staticmethod
    def returns(tile: "ir.Type | None") -> list[ir.Type]:
        return [MapType.of(tile)]

    def check(self) -> str | None:
        legal = {"l2_promotion": L2_PROMOTIONS, "l2_eviction": CREATEPOLICY.values("priority")}
        for name, choices in legal.items():
            if verdict := one_of(name, self.attribute(name), map(str, choices)):
                return verdict.reason
        if not is_map(self.map):
            return f"expects to return a tile.map, got {self.map.type}"
        if wrong := matrix_complaint("the matrix", self.matrix, ELEMENT_TYPES, 2, 3, 4):
            return wrong
        wrong = _rank_complaint("tiles", self.map.type) or element_complaint(self.matrix, self.map)
        wrong = wrong or self._chunk_complaint() or self._index_complaint()
        if wrong := wrong or self._join_complaint():
            return wrong
        element = self.matrix.type.element_type
        wide = str(element) == "f32" or not self.attribute("tf32")
        return None if wide else f"tf32 must be false for elements of {element}"

    def _chunk_complaint(self) -> str | None:
        """Why rows can't be divided into chunks."""
        chunk, bits = self.attribute("chunk"), self.matrix.type.element_type.width
        if not chunk:
            return None
        if bits != CHUNK_BITS or chunk < 0 or chunk % ROW_BYTES or chunk > MOST_CHUNK:
            what = f"a multiple of {ROW_BYTES} in {ROW_BYTES}..{MOST_CHUNK}"
            return f"chunk must be {what} elements of {CHUNK_BITS} bits, got {chunk} of {bits}"
        columns = self.map.type.shape[1]
        return f"tiles must have whole chunks of {chunk} columns, got {columns}" if columns % chunk else None

    def _index_complaint(self) -> str | None:
        """Why rows of the matrix can't be copied by their numbers."""
        if not self.attribute("indexed"):
            return None
        if self.attribute("chunk"):
            return f"chunk must be 0 in an indexed map, got {self.attribute('chunk')}"
        if self.matrix.type.rank != 2:
            return f"expects a matrix of rank 2 for an indexed map, got {self.matrix.type}"
        if self.map.type.shape[0] % GATHERED_ROWS:
            rows = self.map.type.shape[0]
            return f"expects a multiple of {GATHERED_ROWS} rows in tiles of an indexed map, got {rows}"
        verdict = None if self.target is None else GATHER.complaint(self.target.chip.name)
        return None if verdict is None else f"indexed must be false on this chip: {GATHER.name} {verdict}"

    def _join_complaint(self) -> str | None:
        """Why a map can't begin before its matrix, or rows can't be copied together."""
        excluded = ("chunk", "indexed", "any_rows")
        for flag, others in (("skewed", excluded), ("joined", (*excluded, "skewed"))):
            if self.attribute(flag) and (other := next(filter(self.attribute, others), None)):
                return f"{flag} must be false with {other}"
        if not self.attribute("joined"):
            return None
        (rows, columns), bits = self.map.type.shape, self.matrix.type.element_type.width
        if columns * bits == 8 * ROW_BYTES and rows % JOINED_ROWS == 0:
            return None
        legal = f"a multiple of {JOINED_ROWS} rows of {8 * ROW_BYTES // bits}"
        return f"tiles of a joined map must have {legal}, got {rows} x {columns}"


class MemberOp(Op, dialect=Tile, name="member", traits=[Pure]):
    """One matrix of a batch as TMA copies it, or one batch of a batch of batches, selected by its index."""

    batch: Operand
    index: Operand
    map: Result

    @staticmethod
    def returns(batch: ir.Value) -> list[ir.Type]:
        return [batch.type]

    def check(self) -> str | None:
        if not is_map(self.batch) or self.batch.type != self.map.type:
            return f"expects to take and return one tile.map, got {self.batch.type} and {self.map.type}"
        return index_complaint([self.index])


class CopyMulticastOp(_CopyIn, dialect=Tile, name="copy_multicast", traits=[ORDERS]):
    """One thread starts a copy of the tile at (`row`, `column`) of a matrix into several CTAs of the cluster
    (TMA).

    The CTAs are those whose bits are set in `mask` (i16). In each of them the tile arrives at the same
    address of shared memory, and the copy signals the mbarrier there. With `cta_group` 2 it signals that of
    the leader of that CTA's pair, if `barrier` is a leader's. Otherwise it is like `tile.copy_async` from a
    `tile.map`.
    """

    barrier: Operand
    mask: Operand
    optional = {"cta_group": 1}  # noqa: RUF012

    def check(self) -> str | None:
        if wrong := cta_group_complaint(self) or _barrier_complaint(self, self.barrier):
            return wrong
        if str(self.mask.type) != "i16":
            return f"expects mask to be i16, got {self.mask.type}"
        return tensor_complaint(self.source, self.tile) or index_complaint([self.row, self.column])


class GatherAsyncOp(Op, dialect=Tile, name="gather_async", traits=[ORDERS]):
    """A warp, or one thread, starts a copy of rows of a matrix, given by their numbers, into a buffer (TMA).
    Row i of the tile gets what row `indices[first + i]` of the matrix has from `column` on, or zeros if the
    matrix has no such row, or `indices` no such element.

    `source` is an `indexed` `tile.map`, `indices` a memref of i32 in global memory. The mbarrier and
    `cta_group` are as for `tile.copy_async`.
    """

    source: Operand
    indices: Operand
    first: Operand
    column: Operand
    tile: Operand
    barrier: Operand
    optional = {"cta_group": 1}  # noqa: RUF012

    def check(self) -> str | None:
        wrong = _barrier_complaint(self, self.barrier) or cta_group_complaint(self)
        wrong = wrong or tensor_complaint(self.source, self.tile)
        wrong = wrong or matrix_complaint("the indices", self.indices, ("i32",), 1)
        return wrong or index_complaint([self.first, self.column])


class StoreAsyncOp(_CopyOut, dialect=Tile, name="store_async", traits=[ORDERS]):
    """One thread starts a copy of a buffer to (`row`, `column`) of a matrix (TMA).

    Elements outside of the matrix are not written, except those that share 16 bytes with the end of a row: an
    H200 writes these too. Writes to the buffer need a fence for the async proxy before the copy.
    `nvvm.cp.async.bulk.commit.group` and `nvvm.cp.async.bulk.wait_group` wait until the buffer has been read,
    or the matrix written.
    """

    def check(self) -> str | None:
        return tensor_complaint(self.destination, self.tile) or index_complaint([self.row, self.column])


class AddAsyncOp(_CopyOut, dialect=Tile, name="add_async", traits=[ORDERS]):
    """One thread starts an addition of a buffer to the tile at (`row`, `column`) of a matrix (TMA), to which
    others may add at the same time. The order of additions is not determined, nor is the rounding of floats.

    Elements outside of the matrix are left out. The rest is as for `tile.store_async`.
    """

    def check(self) -> str | None:
        if wrong := tensor_complaint(self.destination, self.tile) or index_complaint([self.row, self.column]):
            return wrong
        element = str(self.tile.type.element_type)
        legal = ", ".join(async_copy.ADDED_TYPES)
        return None if element in async_copy.ADDED_TYPES else f"expects elements of {legal}, got {element}"
