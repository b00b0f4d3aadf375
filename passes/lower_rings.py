"""`--lower-rings`: rings become mbarriers in shared memory, and what is done with them waits and arrivals."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from weft.dialects import tcgen05, tile
from weft.dialects.op import refuse
from weft.dialects.tile import BufferType
from weft.dialects.tile_launch_control import QueryCancelOp, TryCancelOp
from weft.dialects.tile_rings import (
    CLC,
    MMA,
    THREADS,
    TMA,
    WARPGROUPS,
    WARPS,
    AcquireOp,
    AdvanceOp,
    AwaitOp,
    CommitOp,
    DrainOp,
    ExpectOp,
    FullBarrierOp,
    MakeRingOp,
    ReleaseOp,
    ReleasePeerOp,
)
from weft.isa import mbarriers
from weft.isa.chips import LANES, WARPGROUP
from weft.isa.cluster_features import ANSWER_BYTES
from weft.isa.tcgen05.pairs import BOTH, PAIR
from weft.mlir import arith, ir, nvvm, operations
from weft.passes.analysis import active_threads, proxy_fences, repetition, uniformity
from weft.passes.analysis.uniformity import Scope
from weft.passes.builders import addresses, emit, launch_control, thread_ids
from weft.passes.registry.pass_ import Pass, Results, rewrite

_SCOPES = {WARPS: (Scope.WARP, LANES), WARPGROUPS: (Scope.WARPGROUP, WARPGROUP)}
"""The agents for which one of several threads arrives: who must reach the op together, and their number."""


@dataclass(frozen=True)
class Barriers:
    """The mbarriers of a ring, those for full before those for empty, and who arrives at them."""

    base: ir.Value
    stages: int
    filler: str
    emptier: str
    cta_group: int
    cluster: int
    sleeps: bool = True
    """Whether the chip has waits in which the hardware sleeps."""
    answers: Any = None
    """The address of the answers of launch control, one for each stage."""
    fences_lanes: bool = False
    """Whether lanes must fence their loads and stores of a stage before TMA fills it again."""
    fences_writes: bool = True
    """Whether threads must fence what they wrote to a stage before others read it by the async proxy."""

    def full(self, stage: ir.Value | int) -> ir.Value:
        """The address of a stage's barrier for full."""
        return addresses.offset(self.base, emit.mul(stage, mbarriers.BYTES))

    def empty(self, stage: ir.Value | int) -> ir.Value:
        """The address of a stage's barrier for empty."""
        return addresses.offset(self.base, emit.mul(emit.add(stage, self.stages), mbarriers.BYTES))

    @property
    def orders_tcgen05(self) -> bool:
        """Whether `tcgen05` operations fill or empty stages, and need fences where threads synchronize."""
        return MMA in (self.filler, self.emptier)

    def arrivals(self, agent: str, count: int) -> int:
        """How many arrivals of `count` agents in each CTA complete a phase. In a pair, those of threads of
        both CTAs reach the leader; an MMA's reach both CTAs, and one thread of the leader expects all bytes.
        All readers of launch control's answers reach the first CTA of the cluster.
        """
        if agent in (TMA, MMA, CLC):
            return count
        return count * (self.cluster if self.filler == CLC else self.cta_group)

    def answer(self, stage: ir.Value) -> ir.Value:
        """The address of the answer in a stage."""
        return addresses.offset(self.answers, emit.mul(stage, ANSWER_BYTES))


def run(module: ir.Operation) -> None:
    """Lowers every ring. What copies into one must be lowered before."""
    rings: dict[ir.Value, Barriers] = {}
    for op in operations(module, MakeRingOp):
        with ir.InsertionPoint(op), op.location:
            rings[op.ring] = _make(op)

    def lower(op: Any) -> Results:
        if op.ring not in rings:
            raise refuse(op, "expects a ring from tile.make_ring")
        return _LOWERINGS[type(op)](op, rings[op.ring])

    with uniformity.remembered():
        rewrite(module, dict.fromkeys(_LOWERINGS, lower))
    for op in operations(module, MakeRingOp):
        for use in op.ring.uses:
            raise refuse(use.owner.opview, "uses a ring: run --lower-tma before --lower-rings")
        op.operation.erase()


def _make(op: MakeRingOp) -> Barriers:
    """Thread 0 initializes the barriers: each producer or consumer of a stage arrives once."""
    if (branch := uniformity.narrowing(op, Scope.CTA)) is not None:
        where = f"got it inside a '{branch.operation.name}' that depends on the thread"
        raise refuse(op, f"expects {Scope.CTA.value} to reach it, {where}")
    if loop := repetition.around(op):
        raise refuse(op, f"expects to be reached once, outside of loops, got it inside {loop}")
    stages = op.ring.type.stages
    kind = BufferType.of((2, stages), emit.i64(), f"S[(2,{stages}):({stages},1)]")
    base = tile.address(tile.alloc(kind))
    cluster = thread_ids.cluster_size_of(op)
    if cluster % op.cta_group:
        raise refuse(op, f"expects a kernel whose 'known_cluster_size' has whole pairs, got {cluster} CTAs")
    sleeps = op.target is None or op.target.chip.name in mbarriers.TRY_WAIT
    lanes_read = op.emptier in (WARPS, THREADS) and op.attribute("lanes_read")
    fenced = op.filler == TMA and lanes_read
    answers = None
    if op.filler == CLC:  # others write these
        kind = BufferType.of((stages, 4), emit.i32(), f"S[({stages},4):(4,1)]")
        answers = tile.address(tile.alloc(kind))
    writes = op.filler != MMA and sleeps and not op.attribute("tensor_memory")
    agents = op.filler, op.emptier
    barriers = Barriers(base, stages, *agents, op.cta_group, cluster, sleeps, answers, fenced, writes)
    fillers = barriers.arrivals(op.filler, op.attribute("producers"))
    emptiers = barriers.arrivals(op.emptier, op.consumers.value)
    if emptiers > mbarriers.MOST_ARRIVALS:
        most, got = mbarriers.MOST_ARRIVALS // cluster, op.consumers.value
        raise refuse(op, f"consumers must be in 1..{most} in a cluster of {cluster} CTAs, got {got}")
    with emit.when(emit.equal(emit.thread(), 0)):
        for stage in range(stages):
            nvvm.MBarrierInitOp(barriers.full(stage), emit.value(fillers))
            nvvm.MBarrierInitOp(barriers.empty(stage), emit.value(emptiers))
        if sleeps:
            nvvm.FenceMbarrierInitOp()
    return barriers


def _acquire(op: AcquireOp, ring: Barriers) -> None:
    """Waits for the other parity: a new mbarrier counts as past the phase before its first, so that the ring
    begins empty.
    """
    _spin(ring, ring.empty(op.stage), emit.xor(op.phase, 1))
    if ring.orders_tcgen05 and ring.filler != TMA:
        tcgen05.fence(kind="after_thread_sync")


def _drain(op: DrainOp, ring: Barriers) -> None:
    """Waits as `_acquire` does, for as many stages as there are."""

    def each(_: ir.Value, position: list[ir.Value]) -> list[ir.Value]:
        stage, phase = position
        _spin(ring, ring.empty(stage), emit.xor(phase, 1))
        return _next(stage, phase, ring.stages)

    emit.loop(0, ring.stages, 1, [op.stage, op.phase], each)


def _await(op: AwaitOp, ring: Barriers) -> None:
    _spin(ring, ring.full(op.stage), op.phase)
    if ring.orders_tcgen05:
        tcgen05.fence(kind="after_thread_sync")


def _spin(ring: Barriers, barrier: ir.Value, parity: ir.Value) -> None:
    """Waits until the phase of this parity is over; where it can, the hardware sleeps a while in each
    iteration.
    """
    wait = nvvm.MBarrierTryWaitOp if ring.sleeps else nvvm.MBarrierTestWaitOp

    def before() -> tuple[ir.Value, list[ir.Value]]:
        done = wait(barrier, parity, results=[emit.i1()]).result
        return emit.negate(done), []

    emit.repeat([], before)


def _expect(op: ExpectOp, ring: Barriers) -> None:
    # The bytes of a pair's peer may arrive earlier: the phase then still lacks this arrival.
    with thread_ids.leader() if ring.cta_group == PAIR else nullcontext():
        nvvm.MBarrierArriveExpectTxOp(ring.full(op.stage), emit.value(op.bytes.value * ring.cta_group))


def _full(op: FullBarrierOp, ring: Barriers) -> ir.Value:
    full = ring.full(op.stage)
    return addresses.of_leader(full) if ring.cta_group == PAIR and ring.filler != MMA else full


def _commit(op: CommitOp, ring: Barriers) -> None:
    if op.attribute("copies"):
        nvvm.CpAsyncMBarrierArriveOp(ring.full(op.stage), noinc=True)
        return
    if ring.fences_writes:
        # Who reads the stage may do so through the async proxy.
        _fence_proxies()
    _arrive(op, ring, ring.filler, lambda: ring.full(op.stage))


def _fence_proxies() -> None:
    """Orders a thread's accesses to shared memory before later ones of the async proxy."""
    nvvm.FenceProxyOp(nvvm.ProxyKind.async_shared, space=nvvm.SharedSpace.shared_cta)


def _release(op: ReleaseOp | ReleasePeerOp, ring: Barriers) -> None:
    if ring.fences_lanes and not proxy_fences.follow_accesses(op):
        # Loads that haven't delivered yet would otherwise get what TMA writes next, and stores overwrite it.
        _fence_proxies()
    _arrive(op, ring, ring.emptier, lambda: ring.empty(op.stage))


def _arrive(op: ir.OpView, ring: Barriers, agent: str, barrier: Callable[[], ir.Value]) -> None:
    """One arrival of an agent at a barrier of its own CTA, or at the same one of another. One thread arrives
    for its warpgroup, which has waited for its products together, or for its warp, after what the other lanes
    have read or written.
    """
    if agent == MMA:
        _require_one_thread(op, "put it where one thread issues the MMAs, such as in")
        mask = _mask(op, ring)
        tcgen05.commit(mbarrier=barrier(), mask=mask, cta_group=ring.cta_group)
        return
    if ring.orders_tcgen05:
        tcgen05.fence(kind="before_thread_sync")
    if ring.filler == CLC and agent == ring.emptier:
        launch_control.order_reads()

    def arrive() -> None:
        address = barrier()
        if isinstance(op, ReleasePeerOp):
            address = addresses.in_cta(address, op.rank)
        elif ring.filler == CLC and ring.cluster > 1:
            address = addresses.in_cta(address, 0)
        elif ring.cta_group == PAIR:
            address = addresses.in_cta(address, thread_ids.leader_rank())
        nvvm.MBarrierArriveOp(address)

    if agent == THREADS or (agent == WARPS and active_threads.is_elected(op)):
        arrive()
        return
    scope, threads = _SCOPES[agent]
    uniformity.require(op, scope)
    if agent == WARPS:
        nvvm.SyncWarpOp(emit.value(-1))
    with emit.when(emit.equal(emit.rem(emit.thread(), threads), 0)):
        arrive()


def _require_one_thread(op: ir.OpView, put_it: str) -> None:
    """Raises WeftError where several lanes of a warp may reach an op that one thread executes."""
    if not active_threads.one_of_each_warp(op):
        scope = active_threads.scope(op)
        where = f"{put_it} a branch on nvvm.elect.sync"
        raise refuse(op, f"expects one thread, got exec_scope {scope}: {where}")


def _mask(op: ir.OpView, ring: Barriers) -> list[ir.Value]:
    """The CTAs whose barriers an MMA signals: those of the op's mask, otherwise its own or both of its pair.
    An empty mask names its own.
    """
    if isinstance(op, ReleaseOp) and len(op.mask):
        return list(op.mask)
    if ring.cta_group != PAIR:
        return []
    i16 = ir.IntegerType.get_signless(16)
    return [arith.trunci(i16, arith.shli(emit.value(BOTH), thread_ids.leader_rank()))]


def _try_cancel(op: TryCancelOp, ring: Barriers) -> None:
    _require_one_thread(op, "put it in")
    launch_control.request(op, ring.answer(op.stage), ring.full(op.stage), ring.cluster)


def _query_cancel(op: QueryCancelOp, ring: Barriers) -> list[ir.Value]:
    return launch_control.answer(ring.answer(op.stage), ring.cluster)


def _advance(op: AdvanceOp, ring: Barriers) -> list[ir.Value]:
    return _next(op.stage, op.phase, ring.stages)


def _next(stage: ir.Value, phase: ir.Value, stages: int) -> list[ir.Value]:
    """The stage and phase after these."""
    following = emit.add(stage, 1)
    wraps = emit.equal(following, stages)
    return [emit.select(wraps, 0, following), emit.select(wraps, emit.xor(phase, 1), phase)]


_LOWERINGS: dict[Any, Callable[[Any, Barriers], Results]] = {
    AcquireOp: _acquire,
    AwaitOp: _await,
    DrainOp: _drain,
    ExpectOp: _expect,
    CommitOp: _commit,
    FullBarrierOp: _full,
    ReleaseOp: _release,
    ReleasePeerOp: _release,
    AdvanceOp: _advance,
    TryCancelOp: _try_cancel,
    QueryCancelOp: _query_cancel,
}

LOWER_RINGS = Pass(
    "lower-rings", "lower the rings of a pipeline to mbarriers", run, lowers=(MakeRingOp, *_LOWERINGS)
)
