"""The numbers of threads, lanes, warps and CTAs, and the choice of one thread or one CTA.

They are read at the start of a kernel, where LLVM also computes what depends on them: they are in registers
from then on. The `late_` ones are read where they are used.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import prod

from weft.dialects.op import kernel_of, refuse
from weft.isa.chips import LANES, WARPGROUP, WARPS
from weft.isa.tcgen05.pairs import PAIR
from weft.layout import Layout
from weft.mlir import arith, ir, nvvm
from weft.passes.builders import emit
from weft.passes.builders.instructions import assembly


def threads_of(op: ir.OpView) -> int:
    """The threads of the CTA that runs `op`. Raises WeftError outside of a kernel of known block size."""
    kernel = kernel_of(op)
    if kernel is None or "known_block_size" not in kernel.attributes:
        raise refuse(op, "expects a gpu.func with 'known_block_size' around it")
    x, y, z = kernel.attributes["known_block_size"]
    if y != 1 or z != 1:
        raise refuse(op, f"expects a block of one dimension, got {x} x {y} x {z}")
    return int(x)


def cluster_size_of(op: ir.OpView) -> int:
    """The CTAs of a cluster of the kernel around `op`; 1 outside of a kernel that specifies them."""
    kernel = kernel_of(op)
    if kernel is None or "known_cluster_size" not in kernel.attributes:
        return 1
    return prod(int(extent) for extent in kernel.attributes["known_cluster_size"])


def lane() -> ir.Value:
    """The thread's number in its warp."""
    return emit.rem(emit.thread(), LANES)


def warp() -> ir.Value:
    """The warp's number in its warpgroup."""
    return emit.rem(emit.div(emit.thread(), LANES), WARPS)


def digit(axis: str, stride: int, extent: int) -> ir.Value:
    """A digit, in 0..extent - 1, of the lane's number, or of the warp's: in its warpgroup, or where that has
    fewer warps, in its CTA.
    """
    if axis == "laneid":
        number = lane()
    else:
        number = warp() if stride * extent <= WARPS else emit.div(emit.thread(), LANES)
    return emit.rem(emit.div(number, stride), extent)


def first_of_copies(layout: Layout) -> ir.Value:
    """Whether the lane holds the first copy of its elements: an i1."""
    first = arith.constant(emit.i1(), 1)
    for it in layout.replica:
        first = arith.andi(first, emit.equal(digit(it.axis, it.stride, it.extent), 0))
    return first


@contextmanager
def one_thread(warp: int = 0) -> Iterator[None]:
    """In the block, ops are built for one thread of each warpgroup, always the same: the elected one of a
    warp, so that ptxas knows that it is one.
    """
    number = emit.rem(emit.uniform(emit.div(emit.thread(), LANES)), WARPS)
    with emit.when(emit.equal(number, warp)), elected():
        yield


@contextmanager
def elected() -> Iterator[None]:
    """In the block, ops are built for one thread of the current warp. All lanes of the warp must reach it."""
    with emit.when(nvvm.ElectSyncOp(results=[emit.i1()]).pred):
        yield


def cluster_rank() -> ir.Value:
    """The CTA's rank in its cluster."""
    return nvvm.ClusterId(results=[emit.i32()]).result


def leader_rank() -> ir.Value:
    """The rank of the CTA that leads this CTA's pair."""
    return emit.bit_and(cluster_rank(), -PAIR)


def leads_pair() -> ir.Value:
    """Whether the CTA is the leader of its pair, an i1: its rank is even, and one of its threads issues the
    pair's MMAs.
    """
    return emit.equal(emit.rem(cluster_rank(), PAIR), 0)


@contextmanager
def leader() -> Iterator[None]:
    """In the block, ops are built for the CTAs that lead a pair."""
    with emit.when(leads_pair()):
        yield


def elected_if(whole_warp: bool) -> AbstractContextManager[None]:
    """In the block, ops are built for one thread: an elected one where a whole warp is there. It is the same
    one each time.
    """
    return elected() if whole_warp else nullcontext()


def late_warp_and_lane() -> tuple[ir.Value, ir.Value]:
    """The numbers of the warp in its warpgroup, and of the thread in its warp."""
    thread = emit.rem(_read("%tid.x"), WARPGROUP)
    return emit.div(thread, LANES), emit.rem(thread, LANES)


def late_cta() -> ir.Value:
    """The number of the CTA. What depends on it doesn't count as the same in all threads."""
    return _read("%ctaid.x")


def _read(register: str) -> ir.Value:
    (number,) = assembly(f"mov.u32 $0, {register};", ["=r"], [], ["i32"])
    return number
