"""The rings of the `tile` dialect: stages of memory that threads, TMA, an MMA or the launch control fill and
others empty, with a full and an empty mbarrier for each stage.

`tile.make_ring` specifies what fills a stage and what empties it. This determines how each arrives at the
barriers.
"""

from collections.abc import Sequence

from weft.dialects.effects import ORDERS, Pure, allocates
from weft.dialects.op import Op, Operand, Result
from weft.dialects.tile_constants import constant_complaint
from weft.dialects.tile_types import RingType, Tile, group_complaint, index_complaint, ring_complaint
from weft.isa import mbarriers
from weft.isa.cluster_features import CANCEL
from weft.isa.tcgen05 import control
from weft.isa.tcgen05.pairs import PAIR
from weft.mlir import constant, ir

TMA, THREADS, WARPS, WARPGROUPS, MMA, CLC = "tma", "threads", "warps", "warpgroups", "mma", "clc"
FILLERS = (TMA, THREADS, WARPS, MMA, CLC)
EMPTIERS = (THREADS, WARPS, WARPGROUPS, MMA)


def commit_of(cta_group: int) -> control.Commit:
    """The form of `tcgen05.commit` by which an MMA fills or empties a stage; a pair's reaches both CTAs."""
    return control.Commit(cta_group, "shared::cluster", 16 if cta_group == PAIR else 0)


_WHY_NOT = {
    ("filled_by", WARPGROUPS): " (each of its warps arrives for itself)",
    ("emptied_by", TMA): " (a store by TMA completes a bulk async-group, not an mbarrier)",
}
_COMMITS = (THREADS, WARPS, MMA)
"""The fillers that announce a full stage with `tile.commit`."""
_NOT_AFTER_MMA = {
    WARPGROUPS: "each of its warps waits for its own tcgen05.ld",
    MMA: "MMAs of one thread are ordered without a ring",
}


class MakeRingOp(Op, dialect=Tile, name="make_ring", traits=[allocates("ring")]):
    """A ring of stages in shared or tensor memory. All stages are empty; threads may use the ring after the
    next barrier of the CTA.

    `filled_by` selects who fills a stage, and `producers` how many of them each stage needs:

    - "tma": copies. One thread announces their bytes with `tile.expect`, once for each producer.
    - "threads", "warps": threads that write the stage. Each thread, or each warp, executes `tile.commit`.
    - "mma": `tcgen05.mma`. The thread that issues them executes `tile.commit`; the stage is full when they
      are done.
    - "clc": cluster launch control. The stages are those of all CTAs of the cluster, and threads may use them
      after the next barrier of the cluster. One thread executes `tile.try_cancel`. Threads or warps of all
      CTAs, `consumers` in each, read the answer with `tile.query_cancel` and release the stage to the CTA of
      rank 0, which alone waits with `tile.acquire`.

    `emptied_by` selects who empties it, and `consumers` how many must have executed `tile.release`:

    - "warpgroups": each of them after `tile.wait_gemm`.
    - "warps", "threads": each after its last access to the stage. If TMA fills it, the lowering puts a proxy
      fence between these loads and stores and the arrival: TMA could otherwise overwrite the stage before
      loads deliver. Without `lanes_read`, only products read the stages, and there is no fence.
    - "mma": the thread that issues the `tcgen05.mma` that read the stage; it is empty when they are done.

    Each producer and consumer has its own stage and phase. Both begin at 0, and `tile.advance` computes the
    next ones.

    `cta_group` is 2 for a ring of the two CTAs of a pair. Their threads may use it after the next barrier of
    the cluster. `producers` and `consumers` are those of one CTA. Each CTA has its own stages, and the MMAs
    of the leader (the CTA of even rank) read or write those of both:

    - Emptied by "mma", the stages of both CTAs become empty when the leader's MMAs are done. Only the leader
      waits with `tile.await` until both are full. Where TMA fills them, each CTA executes `tile.expect` with
      its own bytes and copies its own part, with `cta_group = 2`, to the barrier of `tile.full_barrier`,
      which is the leader's.
    - Filled by "mma", the stages of both CTAs become full when the leader's MMAs are done. Both release them
      to the leader, which alone waits with `tile.acquire`.

    The ring orders all accesses of its agents: writes of threads are visible to TMA and MMAs that read the
    stage, by a proxy fence unless the stages are in `tensor_memory`, and with "mma" at either end every wait
    and arrival has its `tcgen05.fence`. Before `tile.release` or `tile.commit`, a thread must wait for its
    own `tcgen05.ld` and `tcgen05.st` (`tcgen05.wait`).
    """

    consumers: ir.IntegerAttr
    ring: Result
    optional = {  # noqa: RUF012
        "filled_by": TMA,
        "producers": 1,
        "emptied_by": WARPGROUPS,
        "lanes_read": True,
        "cta_group": 1,
        "tensor_memory": False,
    }

    @staticmethod
    def returns(stages: int) -> list[ir.Type]:
        return [RingType.of(stages)]

    @property
    def filler(self) -> str:
        """Who fills a stage, one of `FILLERS`."""
        return str(self.attribute("filled_by"))

    @property
    def emptier(self) -> str:
        """Who empties a stage, one of `EMPTIERS`."""
        return str(self.attribute("emptied_by"))

    @property
    def cta_group(self) -> int:
        """The CTAs whose stages the ring has, 1 or 2."""
        return int(self.attribute("cta_group"))

    def check(self) -> str | None:
        if not isinstance(self.ring.type, RingType):
            return f"expects to return a tile.ring, got {self.ring.type}"
        if wrong := group_complaint(self):
            return wrong
        for name in ("producers", "consumers"):
            count = self.consumers.value if name == "consumers" else self.attribute(name)
            if not 1 <= count <= mbarriers.MOST_ARRIVALS // self.cta_group:
                return f"{name} must be in 1..{mbarriers.MOST_ARRIVALS // self.cta_group}, got {count}"
        return self._agents()

    def _agents(self) -> str | None:
        """Why the agents that fill and empty the stages are illegal."""
        filler, emptier = self.filler, self.emptier
        for name, agent, legal in (("filled_by", filler, FILLERS), ("emptied_by", emptier, EMPTIERS)):
            if agent not in legal:
                return (
                    f"{name} must be one of {', '.join(legal)}, got {agent}{_WHY_NOT.get((name, agent), '')}"
                )
        if filler == MMA and emptier not in (THREADS, WARPS):
            why = _NOT_AFTER_MMA[emptier]
            return f"emptied_by must be threads or warps where filled_by is mma, got {emptier} ({why})"
        if filler == CLC:
            return self._launch_control()
        if self.cta_group == PAIR and MMA not in (filler, emptier):
            return f"filled_by or emptied_by must be mma where cta_group is 2, got {filler} and {emptier}"
        if MMA in (filler, emptier) and self.target is not None:
            verdict = control.COMMIT.judge(commit_of(self.cta_group), self.target.chip.name)
            if verdict is not None:
                name = "filled_by" if filler == MMA else "emptied_by"
                return f"{name} must not be mma on this chip: tcgen05.commit {verdict}"
        return None

    def _launch_control(self) -> str | None:
        """Why a ring that launch control fills is illegal."""
        if self.emptier not in (THREADS, WARPS):
            return f"emptied_by must be threads or warps where filled_by is clc, got {self.emptier}"
        for name in ("producers", "cta_group"):
            if self.attribute(name) != 1:
                return f"{name} must be 1 where filled_by is clc, got {self.attribute(name)}"
        verdict = None if self.target is None else CANCEL.complaint(self.target.chip.name)
        return None if verdict is None else f"filled_by must not be clc on this chip: {CANCEL.name} {verdict}"


def ring_of(ring: ir.Value) -> MakeRingOp | None:
    """The op that made a ring; None where the value comes from elsewhere."""
    owner = None if isinstance(ring.owner, ir.Block) else ring.owner.opview
    return owner if isinstance(owner, MakeRingOp) else None


def _fills_with(maker: MakeRingOp) -> str:
    """The op with which a ring is filled, as the end of a message."""
    name = {TMA: "tile.expect", CLC: "tile.try_cancel"}.get(maker.filler, "tile.commit")
    return f", which fills with {name}"


class RingOp(Op):
    """An op on a ring's `stage`."""

    ring: Operand
    stage: Operand

    @property
    def numbers(self) -> dict[str, ir.Value]:
        """The operands that are numbers, by their names."""
        numbers = (f.name for f in self._fields if f.name in ("stage", "phase", "rank"))
        return {name: getattr(self, name) for name in numbers}

    def check(self) -> str | None:
        wrong = ring_complaint(self.ring) or index_complaint([*self.numbers.values()])
        maker = None if wrong else ring_of(self.ring)
        return wrong if maker is None else self.misuse(maker)

    def misuse(self, maker: MakeRingOp) -> str | None:
        """Why the op isn't one for rings as `maker` makes them."""
        return None

    def check_constants(self) -> str | None:
        counts = {"stage": self.ring.type.stages, "phase": 2}
        checked = ((name, each) for name, each in self.numbers.items() if name in counts)
        wrong = (constant_complaint(name, each, counts[name]) for name, each in checked)
        return next(filter(None, wrong), None)


class PhaseOp(RingOp):
    """An op on a ring's stage in a `phase`."""

    phase: Operand


class AcquireOp(PhaseOp, dialect=Tile, name="acquire", traits=[ORDERS]):
    """Waits until a stage of a ring is empty."""


class DrainOp(PhaseOp, dialect=Tile, name="drain", traits=[ORDERS]):
    """A producer that will fill no more stages waits until all of them are empty. `stage` and `phase` are
    those that it would fill next.

    After a CTA has ended, its mbarriers must not be signaled. So if consumers in other CTAs, or their MMAs,
    signal the mbarriers of this CTA, its producers must execute this operation before they end.
    """


class ExpectOp(RingOp, dialect=Tile, name="expect", traits=[ORDERS]):
    """Announces the number of bytes that copies will write to a stage of a ring that is filled by "tma".

    One thread executes it before it starts the copies. With 0 bytes, the stage is full at once. Elements of 4
    and 6 bits count packed, as in the matrix. In a ring of a pair, one thread of each CTA executes it, with
    the bytes that arrive in the stage of that CTA, which must be equal in both.
    """

    bytes: ir.IntegerAttr

    def check(self) -> str | None:
        return super().check() or self._bytes_complaint(1)

    def misuse(self, maker: MakeRingOp) -> str | None:
        if (wrong := self._bytes_complaint(maker.cta_group)) or maker.filler == TMA:
            return wrong
        return f"the ring's filled_by must be tma, got {maker.filler}{_fills_with(maker)}"

    def _bytes_complaint(self, cta_group: int) -> str | None:
        most, got = mbarriers.MOST_TRANSACTION_BYTES // cta_group, self.bytes.value
        return None if 0 <= got <= most else f"bytes must be in 0..{most}, got {got}"


class CommitOp(RingOp, dialect=Tile, name="commit", traits=[ORDERS]):
    """A producer announces that it has filled a stage of a ring.

    Who executes it depends on `filled_by` of the ring:

    - "threads": each producer is a thread.
    - "warps": each producer is a warp, which executes it after all writes of its lanes, or one thread that
      `nvvm.elect.sync` chose in the warp.
    - "mma": one thread. The stage is full when all `tcgen05` operations that this thread has issued are
      complete.

    With `copies`, in a ring filled by "threads", the commit takes effect when all data has arrived that the
    thread has copied by `cp.async` so far. The thread doesn't wait. TMA, and MMAs that read shared memory
    themselves, don't see these copies.
    """

    optional = {"copies": False}  # noqa: RUF012

    def misuse(self, maker: MakeRingOp) -> str | None:
        if maker.filler not in _COMMITS:
            legal = ", ".join(_COMMITS)
            return f"the ring's filled_by must be one of {legal}, got {maker.filler}{_fills_with(maker)}"
        if self.attribute("copies") and maker.filler != THREADS:
            return f"the ring's filled_by must be threads with copies, got {maker.filler}"
        return None


class AwaitOp(PhaseOp, dialect=Tile, name="await", traits=[ORDERS]):
    """Waits until a stage of a ring is full."""


class ReleaseOp(RingOp, dialect=Tile, name="release", traits=[ORDERS]):
    """A consumer announces that it has read a stage of a ring.

    Who executes it depends on `emptied_by` of the ring:

    - "warpgroups": each consumer is a warpgroup whose `tile.gemm_async` has read the stage.
    - "warps": each consumer is a warp, which executes it after all reads of its lanes, or one thread that
      `nvvm.elect.sync` chose in the warp, after its own reads.
    - "threads": each consumer is a thread.
    - "mma": one thread. The stage is empty when all `tcgen05` operations that this thread has issued are
      complete.

    Emptied by "mma", it may have a `mask` (i16) with one bit for each rank of the cluster. It then counts as
    a consumer in each of these CTAs. Use a mask if several CTAs copy into the stage (`tile.copy_multicast`):
    each of them must wait until all stages are empty into which it copies, and `consumers` is the number of
    CTAs that release a stage to it. Without a mask, it counts in its own CTA, or with `cta_group` 2 in both
    CTAs of the pair.
    """

    mask: Sequence[Operand]

    def check(self) -> str | None:
        if (kinds := [str(each.type) for each in self.mask]) not in ([], ["i16"]):
            return f"expects at most one mask, of type i16, got {', '.join(kinds)}"
        return super().check()

    def misuse(self, maker: MakeRingOp) -> str | None:
        if not len(self.mask) or maker.emptier == MMA:
            return None
        what = f"the ring's emptied_by must be mma where there is a mask, got {maker.emptier}"
        return f"{what}: use tile.release_peer"

    def check_constants(self) -> str | None:
        if len(self.mask) and constant(self.mask[0]) == 0:
            return "mask must name at least one CTA, got 0"
        return super().check_constants()


class ReleasePeerOp(RingOp, dialect=Tile, name="release_peer", traits=[ORDERS]):
    """A consumer announces to the CTA with this rank in the cluster that it has read a stage. `tile.release`
    does the same in the consumer's own CTA.

    It counts as a consumer of that CTA's ring. Threads, warps and warpgroups can execute it; for MMAs there
    is the mask of `tile.release`.
    """

    rank: Operand

    def misuse(self, maker: MakeRingOp) -> str | None:
        if maker.cta_group == PAIR:
            return "the ring's cta_group must be 1, got 2, where tile.release reaches the leader"
        if maker.filler == CLC:
            return "the ring's filled_by must not be clc, where tile.release reaches rank 0"
        if maker.emptier == MMA:
            legal = ", ".join(EMPTIERS[:-1])
            return (
                f"the ring's emptied_by must be one of {legal}, got mma, which releases stages of its own CTA"
            )
        return None


class AdvanceOp(PhaseOp, dialect=Tile, name="advance", traits=[Pure]):
    """The next stage and phase of a ring. After the last stage comes stage 0, with the other phase."""

    next_stage: Result
    next_phase: Result
    returns = ("i32", "i32")

    def check(self) -> str | None:
        return super().check() or index_complaint([self.next_stage, self.next_phase])


class FullBarrierOp(RingOp, dialect=Tile, name="full_barrier", traits=[Pure]):
    """The address (`!llvm.ptr<3>`) of the mbarrier whose phase completes when a stage is full. In a ring of a
    pair that an MMA empties, it is the leader's, and both CTAs' copies signal it.
    """

    barrier: Result
    returns = ("!llvm.ptr<3>",)

    def check(self) -> str | None:
        if str(self.barrier.type) != "!llvm.ptr<3>":
            return f"expects to return !llvm.ptr<3>, got {self.barrier.type}"
        return super().check()


def ring_of_barrier(barrier: ir.Value) -> MakeRingOp | None:
    """The op that made the ring of a `tile.full_barrier`; None where the value comes from elsewhere."""
    owner = None if isinstance(barrier.owner, ir.Block) else barrier.owner.opview
    return ring_of(owner.ring) if isinstance(owner, FullBarrierOp) else None
