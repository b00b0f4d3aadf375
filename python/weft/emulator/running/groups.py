"""Groups of threads that execute together, and the calls that they are in."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.emulator.reading.syntax import STORAGE, Array
from weft.emulator.running.function_code import FunctionCode
from weft.emulator.running.lanes import Lanes

Priority = tuple[int, ...]


@dataclass(frozen=True)
class Transfer:
    """An argument or result of a call: from register to register, or `size` bytes between local frames. Of
    the latter, one end may be a register: the `source` or the `target`.
    """

    source: int
    target: int
    size: int = 0
    register: str = ""


@dataclass(eq=False)
class CallSite:
    """A call of `code` in block `block`; the caller continues with block `after`."""

    code: FunctionCode
    block: int
    after: int
    arguments: list[Transfer]
    results: list[Transfer]


class Frame:
    """A call in progress: its caller, the start of its local frame, the ranks of its callers' blocks."""

    def __init__(self, parent: "Frame | None", site: CallSite | None, code: FunctionCode, base: int) -> None:
        self.parent, self.site, self.code, self.base = parent, site, code, base
        self.path: Priority = ()
        self.children: dict[CallSite, Frame] = {}
        self.saved: dict[int, Array] = {}


class Group:
    """Threads at the beginning of the same block of the same call.

    A `stalled` group waits for lanes of its warps, or for an mbarrier of `awaits` (CTAs of the wave and
    offsets). It waits for mbarriers at most until the wave's clock shows `until`; then it runs with
    `gave_up`.
    """

    __slots__ = ("awaits", "block", "frame", "gave_up", "lanes", "since", "stalled", "until")

    def __init__(self, block: int, frame: Frame, lanes: Lanes) -> None:
        self.block, self.frame, self.lanes = block, frame, lanes
        self.since = self.until = 0
        self.stalled = self.gave_up = False
        self.awaits: tuple[tuple[int, int], ...] = ()


Key = tuple[int, Frame, int]


def copy_frames(lanes: Lanes, transfers: Sequence[Transfer], source: int, target: int) -> None:
    """Copies arguments or results between the local frames at `source` and `target` of each thread."""
    memory = lanes.wave.memory
    frames = memory.local.data.reshape(-1, memory.local_size)
    threads, enabled = np.flatnonzero(lanes.threads()), lanes.enabled()
    for t in transfers:
        if not t.size:
            continue
        taken, given = (slice(at, at + t.size) for at in (source + t.source, target + t.target))
        if t.register == "source":
            octets = lanes.read(t.source)[enabled].reshape(-1, 1).view(np.uint8)
            frames[threads, given] = octets[:, : t.size]
        elif t.register == "target":
            value = np.zeros((*enabled.shape, t.size), np.uint8)
            value[enabled] = frames[threads, taken]
            lanes.write(t.target, value.view(STORAGE[8 * t.size])[..., 0])
        else:
            frames[threads, given] = frames[threads, taken]
