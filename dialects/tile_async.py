"""The ops of the `tile` dialect that run beside the threads which start them: TMA copies, products of a
warpgroup, the rings of barriers between them, and the roles that warpgroups play.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from weft.dialects.op import Op, build, check_inside_a_module
from weft.dialects.tile_types import (
    ELEMENT_TYPES,
    MapType,
    RingType,
    Tile,
    index_complaint,
    is_buffer,
    is_fragment,
    is_map,
    matrix_complaint,
    ring_complaint,
    tensor_complaint,
    tile_complaint,
)
from weft.errors import shown
from weft.isa import wgmma
from weft.isa.l2_cache import CREATEPOLICY, NORMAL
from weft.isa.tensor_map import L2_PROMOTIONS, one_of
from weft.mlir import ext, ir

MOST_RING_STAGES = 64
MOST_WARPGROUPS = 8  # of a CTA


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
            if wrong := one_of(name, self.attribute(name), map(str, choices)):
                return wrong.reason
        if not is_map(self.map):
            return f"expects to return a tile.map, got {self.map.type}"
        found = matrix_complaint("the matrix", self.matrix, ELEMENT_TYPES, 2, 3) or tile_complaint([self.map])
        if found:
            return found
        if len(self.map.type.shape) != 2:
            return f"expects tiles of rank 2, got shape {list(self.map.type.shape)}"
        if self.matrix.type.element_type != self.map.type.element_type:
            return f"expects one element type, got {self.matrix.type} and {self.map.type}"
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


class MakeRingOp(Op, dialect=Tile, name="make_ring"):
    """A ring of stages in shared memory. All stages are empty; threads may use the ring after the next
    barrier of the CTA.

    A stage is full when all the bytes that `tile.expect` announced have arrived. It is empty again when
    `consumers` warpgroups have released it. Producer and consumers each go through the stages with a stage
    and a phase of their own, which begin at 0 and which `tile.advance` moves on.
    """

    consumers: ir.IntegerAttr
    ring: ext.Result[Any]

    def check(self) -> str | None:
        if not isinstance(self.ring.type, RingType):
            return f"expects to return a tile.ring, got {self.ring.type}"
        stages = self.ring.type.stages
        if not 1 <= stages <= MOST_RING_STAGES:
            return f"expects a ring of 1 to {MOST_RING_STAGES} stages, got {shown(stages)}"
        if self.consumers.value < 1:
            return f"expects at least one consumer, got {self.consumers.value}"
        return None


class AcquireOp(Op, dialect=Tile, name="acquire"):
    """Waits until a stage of a ring is empty."""

    ring: ext.Operand[Any]
    stage: ext.Operand[Any]
    phase: ext.Operand[Any]

    def check(self) -> str | None:
        return ring_complaint(self.ring) or index_complaint([self.stage, self.phase])


class ExpectOp(Op, dialect=Tile, name="expect"):
    """Announces the bytes that copies will bring into a stage. One thread does this before it starts the
    copies.
    """

    ring: ext.Operand[Any]
    stage: ext.Operand[Any]
    bytes: ir.IntegerAttr

    def check(self) -> str | None:
        if not 0 < self.bytes.value < 1 << 20:
            return f"expects 1 to {(1 << 20) - 1} bytes, got {self.bytes.value}"
        return ring_complaint(self.ring) or index_complaint([self.stage])


class AwaitOp(Op, dialect=Tile, name="await"):
    """Waits until a stage of a ring is full."""

    ring: ext.Operand[Any]
    stage: ext.Operand[Any]
    phase: ext.Operand[Any]

    def check(self) -> str | None:
        return ring_complaint(self.ring) or index_complaint([self.stage, self.phase])


class ReleaseOp(Op, dialect=Tile, name="release"):
    """A warpgroup announces that its products have read a stage, as one of the ring's consumers.

    With `by_warps` each of its warps does, after all that its own lanes have read: they count as four
    consumers.
    """

    ring: ext.Operand[Any]
    stage: ext.Operand[Any]
    optional = {"by_warps": False}  # noqa: RUF012

    def check(self) -> str | None:
        return ring_complaint(self.ring) or index_complaint([self.stage])


class ReleasePeerOp(Op, dialect=Tile, name="release_peer"):
    """A warpgroup announces to the CTA of this rank in the cluster that it has read a stage, as
    `tile.release` does in its own CTA. It counts as a consumer of the ring there. With `by_warps` each of
    its warps does.
    """

    ring: ext.Operand[Any]
    stage: ext.Operand[Any]
    rank: ext.Operand[Any]
    optional = {"by_warps": False}  # noqa: RUF012

    def check(self) -> str | None:
        return ring_complaint(self.ring) or index_complaint([self.stage, self.rank])


class AdvanceOp(Op, dialect=Tile, name="advance"):
    """The next stage and phase of a ring. After the last stage comes stage 0, with the other phase."""

    ring: ext.Operand[Any]
    stage: ext.Operand[Any]
    phase: ext.Operand[Any]
    next_stage: ext.Result[Any]
    next_phase: ext.Result[Any]

    def check(self) -> str | None:
        numbers = [self.stage, self.phase, self.next_stage, self.next_phase]
        return ring_complaint(self.ring) or index_complaint(numbers)


class FullBarrierOp(Op, dialect=Tile, name="full_barrier"):
    """The address (`!llvm.ptr<3>`) of the mbarrier whose phase completes when a stage is full."""

    ring: ext.Operand[Any]
    stage: ext.Operand[Any]
    barrier: ext.Result[Any]

    def check(self) -> str | None:
        if str(self.barrier.type) != "!llvm.ptr<3>":
            return f"expects to return !llvm.ptr<3>, got {self.barrier.type}"
        return ring_complaint(self.ring) or index_complaint([self.stage])


class CopyMulticastOp(Op, dialect=Tile, name="copy_multicast"):
    """One thread starts a copy of the tile at (`row`, `column`) of a matrix into several CTAs of the cluster
    (TMA).

    The CTAs are those whose bits are set in `mask` (i16). In each of them the tile arrives at the same
    address of shared memory, and the copy signals the mbarrier there. Otherwise it is like `tile.copy_async`
    from a `tile.map`.
    """

    source: ext.Operand[Any]
    row: ext.Operand[Any]
    column: ext.Operand[Any]
    tile: ext.Operand[Any]
    barrier: ext.Operand[Any]
    mask: ext.Operand[Any]

    def check(self) -> str | None:
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
    """A warpgroup starts `d = a * b + c`, or `a * b` if `accumulate` (i1) is false: one group of `wgmma`.

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
        if found := tile_complaint([self.a, self.b, self.c, self.d]):
            return found
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
        deep = self.b.type.shape[1 if self.attribute("transpose_b") else 0]
        if deep != k:
            return f"expects A and B to agree on K: it is {k} in A and {deep} in B"
        if m % wgmma.M:
            return f"expects M in multiples of {wgmma.M}, got {m}"
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
            return f"expects pending of at least 0, got {self.attribute('pending')}"
        given, returned = list(self.operation.operands), list(self.operation.results)
        if [v.type for v in given] != [v.type for v in returned]:
            return "expects to return fragments of the types that it takes"
        for value in given:
            if not is_fragment(value):
                return f"expects fragments, got {value.type}"
        return tile_complaint(given)


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
            return f"expects to return the type that it takes, got {self.pinned.type}"
        owner = self.fragment.owner
        if not isinstance(owner, ir.Block) and owner.operation.name == GemmAsyncOp.OPERATION_NAME:
            return "expects a fragment that isn't under way: tile.wait_gemm returns it when it is done"
        return tile_complaint([self.fragment])


class RoleOp(Op, dialect=Tile, name="role", traits=[ir.NoTerminatorTrait]):
    """Code for some warpgroups of a CTA: `warpgroups` of them, from number `first` on. The others skip it.

    The region's argument is the warpgroup's number in the role (i32). Each thread gets `registers` registers,
    or keeps what it has if that is 0.
    """

    first: ir.IntegerAttr
    warpgroups: ir.IntegerAttr
    registers: ir.IntegerAttr
    body: ext.Region

    def check(self) -> str | None:
        if self.first.value < 0 or not 1 <= self.warpgroups.value <= MOST_WARPGROUPS:
            return (
                f"expects first of at least 0 and 1 to {MOST_WARPGROUPS} warpgroups, got {self.first.value} "
                f"and {self.warpgroups.value}"
            )
        count = self.registers.value
        if count and (count % 8 or not 24 <= count <= 256):
            return f"expects registers in multiples of 8 from 24 to 256, or 0, got {count}"
        if len(self.body.blocks) != 1 or [str(a.type) for a in self.body.blocks[0].arguments] != ["i32"]:
            return "expects a region of one block with one argument of type i32"
        return None


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


def make_ring(stages: int, *, consumers: int) -> Any:
    """Builds `tile.make_ring` and returns the ring."""
    return build(MakeRingOp, results=lambda: [RingType.of(stages)], attributes={"consumers": consumers}).ring


def acquire(ring: Any, stage: Any, phase: Any) -> None:
    """Builds `tile.acquire`."""
    build(AcquireOp, operands=[ring, stage, phase])


def expect(ring: Any, stage: Any, bytes_: int) -> None:
    """Builds `tile.expect`."""
    build(ExpectOp, operands=[ring, stage], attributes={"bytes": bytes_})


def await_(ring: Any, stage: Any, phase: Any) -> None:
    """Builds `tile.await`."""
    build(AwaitOp, operands=[ring, stage, phase])


def full_barrier(ring: Any, stage: Any) -> Any:
    """Builds `tile.full_barrier` and returns the address."""
    return build(
        FullBarrierOp, operands=[ring, stage], results=lambda: [ir.Type.parse("!llvm.ptr<3>")]
    ).barrier


def release(ring: Any, stage: Any, *, by_warps: bool = False) -> None:
    """Builds `tile.release`."""
    build(ReleaseOp, operands=[ring, stage], attributes={"by_warps": by_warps})


def release_peer(ring: Any, stage: Any, rank: Any, *, by_warps: bool = False) -> None:
    """Builds `tile.release_peer`."""
    build(ReleasePeerOp, operands=[ring, stage, rank], attributes={"by_warps": by_warps})


def advance(ring: Any, stage: Any, phase: Any) -> tuple[Any, Any]:
    """Builds `tile.advance` and returns the next stage and phase."""
    made = build(
        AdvanceOp,
        operands=[ring, stage, phase],
        results=lambda: [ir.IntegerType.get_signless(32)] * 2,
    )
    return made.next_stage, made.next_phase


def copy_multicast(source: Any, row: Any, column: Any, tile: Any, barrier: Any, mask: Any) -> None:
    """Builds `tile.copy_multicast`."""
    build(CopyMulticastOp, operands=[source, row, column, tile, barrier, mask])


def store_async(tile: Any, destination: Any, row: Any, column: Any) -> None:
    """Builds `tile.store_async`."""
    build(StoreAsyncOp, operands=[tile, destination, row, column])


@contextmanager
def role(first: int, warpgroups: int, *, registers: int = 0) -> Iterator[Any]:
    """Builds `tile.role`; in the block, ops are built in its region. Yields the warpgroup's number there."""
    check_inside_a_module(RoleOp)
    i64 = ir.IntegerType.get_signless(64)
    made = ir.Operation.create(
        RoleOp.OPERATION_NAME,
        attributes={
            name: ir.IntegerAttr.get(i64, value)
            for name, value in (("first", first), ("warpgroups", warpgroups), ("registers", registers))
        },
        regions=1,
    )
    body = made.regions[0].blocks.append(ir.IntegerType.get_signless(32))
    with ir.InsertionPoint(body):
        yield body.arguments[0]


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
    made = build(
        WaitGemmOp,
        operands=list(fragments),
        results=lambda: [f.type for f in fragments],
        attributes={"pending": pending},
    )
    return list(made.operation.results)


def pin(fragment: Any) -> Any:
    """Builds `tile.pin` and returns the fragment."""
    return build(PinOp, operands=[fragment], results=lambda: [fragment.type]).pinned
