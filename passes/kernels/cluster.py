"""How the threads of a CTA and the CTAs of a cluster wait for each other in a `wgmma` kernel."""

from weft.isa.chips import BARRIERS, LANES, WARPGROUP
from weft.mlir import ir, nvvm
from weft.passes.builders import emit, thread_ids

_CONSUMERS = BARRIERS - 1  # of all consumers; barrier 0 is the CTA's, and a warpgroup has its own, from 1 on
_PRODUCERS, _SENDERS = BARRIERS - 2, BARRIERS - 3
_FULL, _EMPTY = 4, 7  # of each warpgroup's buffer: from these on
_HANDED = WARPGROUP + LANES  # threads: a warpgroup and the warp that it hands its buffer over to


def meet_cluster() -> None:
    """Waits for all threads of all CTAs of the cluster; their writes are visible afterwards."""
    nvvm.ClusterArriveOp()
    nvvm.ClusterWaitOp()


def begin_cluster() -> None:
    """Waits until all CTAs of the cluster have initialized their rings. It orders nothing else: an arrival
    that does takes a fence for the whole GPU.
    """
    nvvm.ClusterArriveRelaxedOp()
    nvvm.ClusterWaitOp()


def meet_warpgroup(warpgroup: ir.Value | None) -> None:
    """Waits for all threads of a consumer warpgroup."""
    identity = emit.value(emit.add(warpgroup, 1))
    nvvm.BarrierOp(barrierId=identity, numberOfThreads=emit.value(WARPGROUP))


def meet_consumers(warpgroups: int, warps: int = 0) -> None:
    """Waits for all threads of all consumer warpgroups of the CTA, and so many other warps."""
    threads = emit.value(warpgroups * WARPGROUP + warps * LANES)
    nvvm.BarrierOp(barrierId=emit.value(_CONSUMERS), numberOfThreads=threads)


def await_reads(pending: int = 0) -> None:
    """Waits until at most `pending` of the latest stores by TMA of a warpgroup read shared memory, in the
    thread that starts them.
    """
    with thread_ids.one_thread():
        nvvm.cp_async_bulk_wait_group(pending, read=True)


def await_stores(pending: int, warpgroup: ir.Value) -> None:
    """As `await_reads`, for all threads of a warpgroup."""
    await_reads(pending)
    meet_warpgroup(warpgroup)


def hand_over(warpgroup: ir.Value) -> None:
    """A consumer warpgroup hands its buffer over to a warp, without a wait."""
    nvvm.BarrierArriveOp(emit.value(_HANDED), barrierId=emit.value(emit.add(warpgroup, _FULL)))


def await_full(warpgroup: ir.Value) -> None:
    """A warp waits for the buffer of a consumer warpgroup."""
    nvvm.BarrierOp(barrierId=emit.value(emit.add(warpgroup, _FULL)), numberOfThreads=emit.value(_HANDED))


def hand_back(warpgroup: ir.Value) -> None:
    """A warp hands the buffer back."""
    nvvm.BarrierArriveOp(emit.value(_HANDED), barrierId=emit.value(emit.add(warpgroup, _EMPTY)))


def await_empty(warpgroup: ir.Value) -> None:
    """A consumer warpgroup waits for its buffer."""
    nvvm.BarrierOp(barrierId=emit.value(emit.add(warpgroup, _EMPTY)), numberOfThreads=emit.value(_HANDED))


def meet_producers() -> None:
    """Waits for all threads of the warpgroup that copies."""
    nvvm.BarrierOp(barrierId=emit.value(_PRODUCERS), numberOfThreads=emit.value(WARPGROUP))


def meet_senders(threads: int) -> None:
    """Waits for all threads that send rows."""
    nvvm.BarrierOp(barrierId=emit.value(_SENDERS), numberOfThreads=emit.value(threads))


def await_previous_launch() -> None:
    """Waits for the previous launch. Code before this overlaps with it and must not read its results."""
    nvvm.GriddepcontrolOp(nvvm.GridDepActionKind.wait)
