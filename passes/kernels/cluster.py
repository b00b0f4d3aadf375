"""How the threads of a CTA and the CTAs of a cluster wait for each other in a `wgmma` kernel."""

from typing import Any

from weft.isa.chips import BARRIERS, WARPGROUP
from weft.mlir import nvvm
from weft.passes.builders import emit

_CONSUMERS = BARRIERS - 1  # of all consumers; barrier 0 is the CTA's, and a warpgroup has its own, from 1 on


def meet_cluster() -> None:
    """Waits for all threads of all CTAs of the cluster; their writes are visible afterwards."""
    nvvm.ClusterArriveOp()
    nvvm.ClusterWaitOp()


def meet_warpgroup(warpgroup: Any) -> None:
    """Waits for all threads of a consumer warpgroup."""
    identity = emit.value(emit.add(warpgroup, 1))
    nvvm.BarrierOp(barrierId=identity, numberOfThreads=emit.value(WARPGROUP))


def meet_consumers(warpgroups: int) -> None:
    """Waits for all threads of all consumer warpgroups of the CTA."""
    threads = emit.value(warpgroups * WARPGROUP)
    nvvm.BarrierOp(barrierId=emit.value(_CONSUMERS), numberOfThreads=threads)


def await_previous_launch() -> None:
    """Waits for the previous launch. Code before this overlaps with it and must not read its results."""
    nvvm.GriddepcontrolOp(nvvm.GridDepActionKind.wait)
