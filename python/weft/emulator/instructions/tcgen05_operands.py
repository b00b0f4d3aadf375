"""What the asynchronous instructions of `tcgen05` share: on which CTAs they work, how they find their
operands, and whom they tell.
"""

from weft.emulator.errors import Fault
from weft.emulator.memory.tensor_memory import LANE_SHIFT, Numbers
from weft.emulator.running.lanes import Lanes
from weft.isa.tcgen05.shared_descriptor import SharedMemoryDescriptor

PROXY = "tcgen05"


def pair_of(lanes: Lanes, cta: int, group: int, line: int) -> tuple[int, ...]:
    """The CTAs that an instruction of `cta` with `.cta_group::group` works on: it, or both of its pair, the
    one with the even rank first. Fault where it has no peer.
    """
    if group == 1:
        return (cta,)
    ctas = lanes.wave.cluster_ctas(cta)
    rank = lanes.wave.cluster_rank(cta)
    if rank ^ 1 >= len(ctas):
        what = f"cta_group::2 needs a pair of CTAs, but the cluster has {len(ctas)}"
        raise Fault(what, line, rule="tmem-access")
    return ctas[rank & ~1], ctas[rank | 1]


def descriptor_of(word: int, line: int) -> SharedMemoryDescriptor:
    """What a shared-memory descriptor says; Fault where it says nothing legal."""
    try:
        return SharedMemoryDescriptor.decode(word)
    except ValueError as error:
        raise Fault(str(error), line, rule="descriptor") from None


def notify_tensor(one: Lanes, kind: str, cta: int, lane: Numbers, column: Numbers, line: int) -> None:
    """Tells who looks on which cells of tensor memory a thread's operation touches."""
    if one.wave.watch is not None:
        cells = (lane << LANE_SHIFT | column).reshape(-1)
        one.wave.watch.async_access(kind, PROXY, cta, "tensor", cells, one.threads(), line)
