"""The asynchronous ops of the `tile` dialect: copies by TMA, and products of a warpgroup."""

from collections.abc import Sequence
from typing import Any

from weft.dialects.op import Op, build
from weft.dialects.tile_types import (
    ELEMENT_TYPES,
    MapType,
    Tile,
    index_complaint,
    is_buffer,
    is_fragment,
    is_map,
    matrix_complaint,
    tensor_complaint,
    tile_complaint,
)
from weft.isa.cluster_features import COPY_OF_PAIR
from weft.isa.l2_cache import CREATEPOLICY, NORMAL
from weft.isa.tcgen05.family import CTA_GROUPS
from weft.isa.tcgen05.pairs import PAIR
from weft.isa.tensor_map import L2_PROMOTIONS, one_of
from weft.mlir import ext, ir


def cta_group_complaint(op: Any) -> str | None:
    """Why a copy by TMA can't have its attribute `cta_group`."""
    group = op.attribute("cta_group")
    if group not in CTA_GROUPS:
        return f"cta_group must be {' or '.join(map(str, CTA_GROUPS))}, got {group}"
    if group != PAIR or op.target is None:
        return None
    verdict = COPY_OF_PAIR.complaint(op.target.chip.name)
    return verdict and f"cta_group must be 1 on this chip: {COPY_OF_PAIR.name} {verdict}"


class TensorMapOp(Op, dialect=Tile, name="tensor_map"):
    """A matrix as TMA copies it, in tiles of the result's type. The launch makes a tensor map for it.

    The matrix must be an argument of the kernel. Its first element and its rows must be aligned to 16 bytes.
    For a batch (rank 3), `tile.member` selects one matrix. `l2_promotion` is the number of bytes that L2
    reads from memory at a time ("none", "64B", "128B" or "256B"). `l2_eviction` is the eviction priority in
    L2 of the data of copies from the map, and of stores to it ("evict_normal", "evict_first", "evict_last" or
    "evict_unchanged").
    """

    matrix: ext.Operand[Any]
    map: ext.Result[Any]
    optional = {"l2_promotion": "256B", "l2_eviction": NORMAL}  # noqa: RUF012

    def check(self) -> str | None:
        legal = {"l2_promotion": L2_PROMOTIONS, "l2_eviction": CREATEPOLICY.values("priority")}
        for name, choices in legal.items():
            if verdict := one_of(name, self.attribute(name), map(str, choices)):
                return verdict.reason
        if not is_map(self.map):
            return f"expects to return a tile.map, got {self.map.type}"
        wrong = matrix_complaint("the matrix", self.matrix, ELEMENT_TYPES, 2, 3) or tile_complaint([self.map])
        if wrong:
            return wrong
        if len(self.map.type.shape) != 2:
            return f"expects tiles of rank 2, got shape {list(self.map.type.shape)}"
        if self.matrix.type.element_type != self.map.type.element_type:
            return f"expects equal element types, got {self.matrix.type} and {self.map.type}"
        return None


class MemberOp(Op, dialect=Tile, name="member"):
    """One matrix of a batch as TMA copies it, selected by its index in the batch."""

    batch: ext.Operand[Any]
    index: ext.Operand[Any]
    map: ext.Result[Any]

    def check(self) -> str | None:
        if not is_map(self.batch) or self.batch.type != self.map.type:
            return f"expects to take and return one tile.map, got {self.batch.type} and {self.map.type}"
        return tile_complaint([self.batch]) or index_complaint([self.index])


class CopyMulticastOp(Op, dialect=Tile, name="copy_multicast"):
    """One thread starts a copy of the tile at (`row`, `column`) of a matrix into several CTAs of the cluster
    (TMA).

    The CTAs are those whose bits are set in `mask` (i16). In each of them the tile arrives at the same
    address of shared memory, and the copy signals the mbarrier there. With `cta_group` 2 it signals that of
    the leader of that CTA's pair, if `barrier` is a leader's. Otherwise it is like `tile.copy_async` from a
    `tile.map`.
    """

    source: ext.Operand[Any]
    row: ext.Operand[Any]
    column: ext.Operand[Any]
    tile: ext.Operand[Any]
    barrier: ext.Operand[Any]
    mask: ext.Operand[Any]
    optional = {"cta_group": 1}  # noqa: RUF012

    def check(self) -> str | None:
        if wrong := cta_group_complaint(self):
            return wrong
        if str(self.barrier.type) != "!llvm.ptr<3>":
            return f"expects a barrier of type !llvm.ptr<3>, got {self.barrier.type}"
        if str(self.mask.type) != "i16":
            return f"expects mask to be i16, got {self.mask.type}"
        return tensor_complaint(self.source, self.tile) or index_complaint([self.row, self.column])


class StoreAsyncOp(Op, dialect=Tile, name="store_async"):
    """One thread starts a copy of a buffer to (`row`, `column`) of a matrix (TMA).

    Elements outside of the matrix are not written, except those that share 16 bytes with the end of a row: an
    H200 writes these too. Writes to the buffer need a fence for the async proxy before the copy.
    `nvvm.cp.async.bulk.commit.group` and `nvvm.cp.async.bulk.wait_group` wait until the buffer has been read,
    or the matrix written.
    """

    tile: ext.Operand[Any]
    destination: ext.Operand[Any]
    row: ext.Operand[Any]
    column: ext.Operand[Any]

    def check(self) -> str | None:
        return tensor_complaint(self.destination, self.tile) or index_complaint([self.row, self.column])


class GemmAsyncOp(Op, dialect=Tile, name="gemm_async"):
    """A warpgroup starts `d = a * b + c`, or `d = a * b` if `accumulate` (i1) is false, as one group of
    asynchronous instructions.

    A (M x K, or K x M with `transpose_a`) is a buffer, or a fragment of the warpgroup. B (K x N, or N x K
    with `transpose_b`) is a buffer. C and D are fragments of the warpgroup. Until `tile.wait_gemm`, D must
    not be used and the buffers must not be written.
    """

    a: ext.Operand[Any]
    b: ext.Operand[Any]
    c: ext.Operand[Any]
    accumulate: ext.Operand[Any]
    d: ext.Result[Any]
    optional = {"transpose_a": False, "transpose_b": False}  # noqa: RUF012

    @property
    def mnk(self) -> tuple[int, int, int]:
        m, k = self.a.type.shape[:: -1 if self.attribute("transpose_a") else 1]
        n = self.b.type.shape[0 if self.attribute("transpose_b") else 1]
        return m, n, k

    def check(self) -> str | None:
        if not (is_fragment(self.a) or is_buffer(self.a)):
            return f"expects A to be a tile.fragment or tile.buffer, got {self.a.type}"
        if not is_buffer(self.b):
            return f"expects B to be a tile.buffer, got {self.b.type}"
        if wrong := tile_complaint([self.a, self.b, self.c, self.d]):
            return wrong
        if str(self.accumulate.type) != "i1":
            return f"expects accumulate to be i1, got {self.accumulate.type}"
        for name, value in (("A", self.a), ("B", self.b)):
            if len(value.type.shape) != 2:
                return f"expects {name} of rank 2, got shape {list(value.type.shape)}"
        m, n, k = self.mnk
        if not is_fragment(self.d) or self.d.type != self.c.type:
            return f"expects C and D to be one type of fragment, got {self.c.type} and {self.d.type}"
        if self.d.type.shape != (m, n):
            return f"expects D of shape {[m, n]}, got {list(self.d.type.shape)}"
        k_b = self.b.type.shape[1 if self.attribute("transpose_b") else 0]
        if k_b != k:
            return f"expects A and B of equal K, got {k} in A and {k_b} in B"
        return None


class WaitGemmOp(Op, dialect=Tile, name="wait_gemm"):
    """A warpgroup waits until at most `pending` of its latest `tile.gemm_async` are in flight.

    The results are the operands. Those whose products are finished may be used.
    """

    fragments: Sequence[ext.Operand[Any]]
    done: Sequence[ext.Result[Any]]
    optional = {"pending": 0}  # noqa: RUF012

    def check(self) -> str | None:
        if self.attribute("pending") < 0:
            return f"pending must be at least 0, got {self.attribute('pending')}"
        fragments, results = list(self.operation.operands), list(self.operation.results)
        if [v.type for v in fragments] != [v.type for v in results]:
            return "expects results of the operands' types"
        for value in fragments:
            if not is_fragment(value):
                return f"expects fragments, got {value.type}"
        return tile_complaint(fragments)


class PinOp(Op, dialect=Tile, name="pin"):
    """A fragment of f32 or i32 whose elements are computed before any later operation that writes memory,
    waits or multiplies.

    Without it, the compiler may sink the computation and keep its inputs live. Use it between a finished
    product and the next product in the same registers.
    """

    fragment: ext.Operand[Any]
    pinned: ext.Result[Any]

    def check(self) -> str | None:
        if not is_fragment(self.fragment):
            return f"expects a fragment, got {self.fragment.type}"
        if self.fragment.type != self.pinned.type:
            return f"expects a result of the operand's type, got {self.pinned.type}"
        owner = self.fragment.owner
        if not isinstance(owner, ir.Block) and owner.operation.name == GemmAsyncOp.OPERATION_NAME:
            return "expects a finished fragment, got that of tile.gemm_async: use that of tile.wait_gemm"
        return tile_complaint([self.fragment])


def tensor_map(
    matrix: Any, tile: Any, *, l2_promotion: str | None = None, l2_eviction: str | None = None
) -> Any:
    """Builds `tile.tensor_map` of a matrix, for buffers of type `tile`, and returns the map."""
    attributes = {"l2_promotion": l2_promotion, "l2_eviction": l2_eviction}
    return build(
        TensorMapOp, operands=[matrix], results=lambda: [MapType.of(tile)], attributes=attributes
    ).map


def member(batch: Any, index: Any) -> Any:
    """Builds `tile.member` and returns the map of one matrix."""
    return build(MemberOp, operands=[batch, index], results=lambda: [batch.type]).map


def copy_multicast(
    source: Any, row: Any, column: Any, tile: Any, barrier: Any, mask: Any, *, cta_group: int = 1
) -> None:
    """Builds `tile.copy_multicast`."""
    operands = [source, row, column, tile, barrier, mask]
    build(CopyMulticastOp, operands=operands, attributes={"cta_group": cta_group})


def store_async(tile: Any, destination: Any, row: Any, column: Any) -> None:
    """Builds `tile.store_async`."""
    build(StoreAsyncOp, operands=[tile, destination, row, column])


def gemm_async(
    a: Any, b: Any, c: Any, accumulate: Any, *, transpose_a: bool = False, transpose_b: bool = False
) -> Any:
    """Builds `tile.gemm_async` and returns D, of C's type."""
    return build(
        GemmAsyncOp,
        operands=[a, b, c, accumulate],
        results=lambda: [c.type],
        attributes={"transpose_a": transpose_a, "transpose_b": transpose_b},
    ).d


def wait_gemm(*fragments: Any, pending: int = 0) -> list[Any]:
    """Builds `tile.wait_gemm` and returns the fragments."""
    op = build(
        WaitGemmOp,
        operands=list(fragments),
        results=lambda: [f.type for f in fragments],
        attributes={"pending": pending},
    )
    return list(op.operation.results)


def pin(fragment: Any) -> Any:
    """Builds `tile.pin` and returns the fragment."""
    return build(PinOp, operands=[fragment], results=lambda: [fragment.type]).pinned
