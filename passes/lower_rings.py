"""`--lower-rings`: the rings of a pipeline become mbarriers in shared memory, and what is done with them."""

from dataclasses import dataclass
from typing import Any

from weft.dialects import tile
from weft.dialects.op import refuse
from weft.dialects.tile import BufferType
from weft.dialects.tile_async import (
    AcquireOp,
    AdvanceOp,
    AwaitOp,
    ExpectOp,
    FullBarrierOp,
    MakeRingOp,
    ReleaseOp,
    ReleasePeerOp,
)
from weft.dialects.tile_types import ADDRESS_SPACES
from weft.isa.chips import LANES, WARPGROUP
from weft.mlir import ir, nvvm, operations
from weft.passes.analysis import uniformity
from weft.passes.analysis.uniformity import Scope
from weft.passes.builders import emit, places
from weft.passes.registry.pass_ import Pass, rewrite

BARRIER_BYTES = 8


@dataclass(frozen=True)
class Barriers:
    """The mbarriers of a ring: first those that say full, then those that say empty."""

    base: Any
    stages: int

    def full(self, stage: Any) -> Any:
        """The address of a stage's barrier for full."""
        return places.offset(self.base, emit.mul(stage, BARRIER_BYTES))

    def empty(self, stage: Any) -> Any:
        """The address of a stage's barrier for empty."""
        return places.offset(self.base, emit.mul(emit.add(stage, self.stages), BARRIER_BYTES))


def run(module: Any) -> None:
    """Lowers every ring. What copies into one must be lowered before."""
    rings: dict[Any, Barriers] = {}
    for op in operations(module, MakeRingOp):
        with ir.InsertionPoint(op), op.location:
            rings[op.ring] = _make(op)

    def lower(op: Any) -> list[Any]:
        if op.ring not in rings:
            raise refuse(op, "expects a ring from tile.make_ring")
        return _LOWERINGS[type(op)](op, rings[op.ring])

    rewrite(module, list(_LOWERINGS), lower)
    for op in operations(module, MakeRingOp):
        for use in op.ring.uses:
            raise refuse(use.owner.opview, "uses a ring: run --lower-tma before --lower-rings")
        op.operation.erase()


def _make(op: MakeRingOp) -> Barriers:
    """Thread 0 sets up the barriers: one arrival fills a stage, `consumers` empty it."""
    stages = op.ring.type.stages
    i64 = ir.IntegerType.get_signless(64)
    kind = BufferType.of((2, stages), i64, f"S[(2,{stages}):({stages},1)]")
    base = tile.address(tile.alloc(kind))
    made = Barriers(base, stages)
    with emit.when(emit.equal(emit.thread(), 0)):
        for stage in range(stages):
            nvvm.MBarrierInitOp(made.full(stage), emit.value(1))
            nvvm.MBarrierInitOp(made.empty(stage), emit.value(op.consumers.value))
        nvvm.FenceMbarrierInitOp()
    return made


def _acquire(op: AcquireOp, ring: Barriers) -> list[Any]:
    """A new barrier counts as past the phase before its first, so that the ring begins empty."""
    _spin(ring.empty(op.stage), emit.xor(op.phase, 1))
    return []


def _await(op: AwaitOp, ring: Barriers) -> list[Any]:
    _spin(ring.full(op.stage), op.phase)
    return []


def _spin(barrier: Any, parity: Any) -> None:
    """Asks until the phase of this parity is over; the hardware sleeps a while each time."""

    def before() -> tuple[Any, list[Any]]:
        done = nvvm.MBarrierTryWaitOp(barrier, parity, results=[emit.i1()]).result
        return emit.negate(done), []

    emit.repeat([], before)


def _expect(op: ExpectOp, ring: Barriers) -> list[Any]:
    nvvm.MBarrierArriveExpectTxOp(ring.full(op.stage), emit.value(op.bytes.value))
    return []


def _full(op: FullBarrierOp, ring: Barriers) -> list[Any]:
    return [ring.full(op.stage)]


def _release(op: ReleaseOp | ReleasePeerOp, ring: Barriers) -> list[Any]:
    """One thread arrives for its warpgroup, which has waited for its products together; or for its warp,
    after what the other lanes have read.
    """
    by_warps = op.attribute("by_warps")
    uniformity.require(op, Scope.WARP if by_warps else Scope.WARPGROUP)
    if by_warps:
        nvvm.SyncWarpOp(emit.value(-1))
    with emit.when(emit.equal(emit.rem(emit.thread(), LANES if by_warps else WARPGROUP), 0)):
        barrier = ring.empty(op.stage)
        if isinstance(op, ReleasePeerOp):
            barrier = nvvm.mapa(places.pointer(ADDRESS_SPACES["cluster"]), barrier, op.rank)
        nvvm.MBarrierArriveOp(barrier)
    return []


def _advance(op: AdvanceOp, ring: Barriers) -> list[Any]:
    following = emit.add(op.stage, 1)
    wraps = emit.equal(following, ring.stages)
    return [emit.select(wraps, 0, following), emit.select(wraps, emit.xor(op.phase, 1), op.phase)]


_LOWERINGS = {
    AcquireOp: _acquire,
    AwaitOp: _await,
    ExpectOp: _expect,
    FullBarrierOp: _full,
    ReleaseOp: _release,
    ReleasePeerOp: _release,
    AdvanceOp: _advance,
}

LOWER_RINGS = Pass(
    "lower-rings", "lower the rings of a pipeline to mbarriers", run, lowers=(MakeRingOp, *_LOWERINGS)
)
