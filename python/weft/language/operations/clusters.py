"""Clusters: CTAs that run at the same time and read each other's shared memory."""

from collections.abc import Sequence
from math import prod

from weft.isa.async_copy import TMA
from weft.isa.chips import describe
from weft.language.capture import trace
from weft.language.messages.mistakes import check_flag, mistake
from weft.language.values.scalars import Scalar
from weft.mlir import arith, gpu, ir, nvvm
from weft.passes.builders import emit, thread_ids
from weft.passes.kernels.cluster import meet_cluster


def cluster_rank() -> Scalar:
    """The number of the CTA in its cluster: x varies fastest, then y and z."""
    check("w.cluster_rank")
    return Scalar(thread_ids.cluster_rank())


def cluster_barrier() -> None:
    """A barrier for all threads of all CTAs of the cluster, so each role must execute it equally often. What
    they wrote before it is visible to all of them afterwards.

    A CTA's shared memory ends with the CTA, so a barrier must also follow the last read of a peer's buffer.
    """
    _check_all_threads("w.cluster_barrier")
    meet_cluster()


def cluster_arrive(*, publishes: bool = True) -> None:
    """The first half of `w.cluster_barrier`, which doesn't wait: `w.cluster_wait` must follow. Without
    `publishes`, what the threads wrote before it need not become visible to others, which saves a GPU-wide
    fence.
    """
    _check_all_threads("w.cluster_arrive")
    check_flag("publishes", publishes)
    (nvvm.ClusterArriveOp if publishes else nvvm.ClusterArriveRelaxedOp)()


def cluster_wait() -> None:
    """The second half of `w.cluster_barrier`: waits until all threads of all CTAs of the cluster have
    arrived.
    """
    _check_all_threads("w.cluster_wait")
    nvvm.ClusterWaitOp()


def _check_all_threads(name: str) -> None:
    check(name)
    if trace.current().one_thread:
        raise mistake("a barrier waits for all threads, so it can't be in w.one_thread()")


def check(name: str) -> None:
    """Raises WeftError for what needs clusters, by its name, in a kernel or on a chip without them."""
    current = trace.current()
    if current.cluster is None:
        raise mistake(f"{name} is for kernels with clusters: write @w.kernel(cluster=2, …)")
    if not current.has_tma:
        raise mistake(f"{name} needs {describe(TMA)}, whose CTAs form clusters, got {current.chip}")


def size(axis: int) -> int:
    """The CTAs of a cluster along an axis; 1 without clusters."""
    cluster = trace.current().cluster
    return int(cluster[axis]) if cluster else 1


def coordinate(axis: int) -> ir.Value:
    """The number of the CTA in its cluster along an axis, an SSA value."""
    number = gpu.block_id((gpu.Dimension.x, gpu.Dimension.y, gpu.Dimension.z)[axis])
    return emit.rem(emit.as_i32(number), size(axis))


def peers(axis: int) -> list[ir.Value]:
    """The ranks of the other CTAs along an axis, SSA values."""
    own, first = coordinate(axis), _first(axis)
    numbers = (emit.rem(emit.add(own, each), size(axis)) for each in range(1, size(axis)))
    return [emit.value(emit.add(first, emit.mul(each, _step(axis)))) for each in numbers]


def check_alike(name: str, indices: Sequence[ir.Value], axis: int) -> None:
    """Raises WeftError for a buffer that is shared along an axis, if CTAs along it certainly fill it from
    different elements.
    """
    if differs(indices, axis):
        raise mistake(
            f"'{name}' is shared along axis {axis}, so all CTAs of a cluster along it must fill it from the "
            f"same elements, but their indices differ by w.cta({axis}): leave '{name}' out of shared=, or "
            "name another axis"
        )


def differs(indices: Sequence[ir.Value], axis: int) -> bool:
    """Whether indices certainly differ between the CTAs of a cluster along an axis."""
    return any(_depends(each, axis) for each in indices)


def _depends(value: ir.Value, axis: int) -> bool:
    """Whether sums and multiples make a value of the CTA's number along an axis."""
    if isinstance(value, int) or not isinstance(value.owner, ir.Operation | ir.OpView):
        return False
    operation = value.owner.opview
    if isinstance(operation, gpu.BlockIdOp):
        return str(operation.dimension) == f"#gpu<dim {'xyz'[axis]}>"
    linear = arith.AddIOp, arith.SubIOp, arith.MulIOp, arith.IndexCastOp
    return isinstance(operation, linear) and any(_depends(each, axis) for each in operation.operands)


def mask(axis: int) -> ir.Value:
    """The CTAs along an axis, this one among them: an i16 with a bit for each rank."""
    bits = emit.value(sum(1 << number * _step(axis) for number in range(size(axis))))
    return arith.trunci(ir.IntegerType.get_signless(16), arith.shli(bits, emit.value(_first(axis))))


def _step(axis: int) -> int:
    """The distance of the ranks of neighbors along an axis."""
    return prod(size(each) for each in range(axis))


def _first(axis: int) -> ir.Value:
    """The rank of the first CTA along an axis."""
    return emit.sub(thread_ids.cluster_rank(), emit.mul(coordinate(axis), _step(axis)))
