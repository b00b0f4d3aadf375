"""Cluster launch control: the request for a cluster that hasn't started, and its answer (PTX ISA,
"clusterlaunchcontrol").
"""

from weft.dialects.op import refuse
from weft.isa.cluster_features import ANSWER_BYTES, CANCEL_FOR_CLUSTER
from weft.mlir import ir, llvm, nvvm
from weft.passes.builders import addresses, emit

_AXES = "xyz"


def request(op: ir.OpView, answer: ir.Value, full: ir.Value, cluster: int) -> None:
    """One thread requests a cluster. The mbarriers of all CTAs expect the answer."""
    if cluster > 1 and op.target is not None:
        verdict = CANCEL_FOR_CLUSTER.complaint(op.target.chip.name)
        if verdict is not None:
            raise refuse(op, f"expects a cluster of 1 CTA on this chip: {CANCEL_FOR_CLUSTER.name} {verdict}")
    # The reads of the stage's last answer come before the write of this one: those of this thread, and those
    # of others, which have released it.
    nvvm.FenceProxyOp(nvvm.ProxyKind.async_shared, space=nvvm.SharedSpace.shared_cta)
    _fence(nvvm.MemOrderKind.ACQUIRE)
    bytes_ = emit.value(ANSWER_BYTES)
    for rank in range(cluster):
        # A CTA's answer may arrive before this does: its phase still lacks this arrival.
        nvvm.MBarrierArriveExpectTxOp(addresses.in_cta(full, rank) if cluster > 1 else full, bytes_)
    nvvm.ClusterLaunchControlTryCancelOp(answer, full, multicast=cluster > 1)


def order_reads() -> None:
    """Orders a thread's read of an answer before the write of the next one, by the asynchronous proxy."""
    _fence(nvvm.MemOrderKind.RELEASE)


def _fence(order: nvvm.MemOrderKind) -> None:
    nvvm.FenceProxySyncRestrictOp(order, fromProxy=nvvm.ProxyKind.GENERIC, toProxy=nvvm.ProxyKind.async_)


def answer(address: ir.Value, cluster: int) -> list[ir.Value]:
    """Whether there was a cluster (i1), and where in the grid its CTA with this CTA's position is."""
    i32, i128 = emit.i32(), ir.IntegerType.get_signless(128)
    response = llvm.load(i128, address, alignment=ANSWER_BYTES)

    def query(what: str, kind: ir.Type) -> ir.Value:
        asked = nvvm.ClusterLaunchControlQueryType[what]
        return nvvm.ClusterLaunchControlQueryCancelOp(asked, response, results=[kind]).res

    def coordinates() -> list[ir.Value]:
        first = [query(f"GET_FIRST_CTA_ID_{axis.upper()}", i32) for axis in _AXES]
        if cluster == 1:
            return first
        own = (nvvm.BlockInClusterIdXOp, nvvm.BlockInClusterIdYOp, nvvm.BlockInClusterIdZOp)
        return [emit.add(at, read(results=[i32]).res) for at, read in zip(first, own, strict=True)]

    exists = query("IS_CANCELED", emit.i1())
    # The coordinates of no cluster are undefined.
    return [exists, *emit.either(exists, [i32] * 3, coordinates, lambda: [emit.value(0)] * 3)]
