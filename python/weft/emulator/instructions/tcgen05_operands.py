"""Shared by the asynchronous `tcgen05` instructions: the CTAs that they use, descriptors, notifications."""

from functools import lru_cache

from weft.emulator.errors import Fault
from weft.emulator.memory.tensor_memory import Numbers
from weft.emulator.running.lanes import Lanes
from weft.emulator.watch import UnitAccess
from weft.isa.tcgen05.pipelining import Use
from weft.isa.tcgen05.shared_descriptor import SharedMemoryDescriptor
from weft.isa.tcgen05.tensor_layouts import LANE_SHIFT

PROXY = "tcgen05"


def pair_of(lanes: Lanes, cta: int, group: int, line: int) -> tuple[int, ...]:
    """The CTAs that an instruction of `cta` with `.cta_group::group` uses: `cta`, or both of its pair with
    the even rank first. Fault if it has no peer.
    """
    if group == 1:
        return (cta,)
    ctas = lanes.wave.cluster_ctas(cta)
    rank = lanes.wave.cluster_rank(cta)
    if rank ^ 1 >= len(ctas):
        what = f"cta_group::2 needs a pair of CTAs, but the cluster has {len(ctas)}"
        raise Fault(what, line, rule="tmem-access")
    return ctas[rank & ~1], ctas[rank | 1]


@lru_cache(1024)
def descriptor_of(word: int, line: int) -> SharedMemoryDescriptor:
    """The fields of a shared-memory descriptor; Fault if they are illegal."""
    try:
        return SharedMemoryDescriptor.decode(word)
    except ValueError as error:
        raise Fault(str(error), line, rule="descriptor") from None


def notify_tensor(
    one: Lanes, kind: str, cta: int, lane: Numbers, column: Numbers, line: int, use: Use
) -> None:
    """Reports the cells of tensor memory that a thread's operation accesses to observers."""
    if one.wave.watch is not None:
        cells = (lane << LANE_SHIFT | column).reshape(-1)
        one.wave.watch.async_access(
            UnitAccess(kind, PROXY, cta, "tensor", cells, one.threads(), line, use=use)
        )
