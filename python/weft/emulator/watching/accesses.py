"""Accesses to memory, as hooks learn of them."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from weft.emulator.memory.access import Access
from weft.emulator.reading.types import Bools
from weft.emulator.running.wave import Wave
from weft.emulator.watch import CHUNK, Cells, Chunks, Offsets, Watch
from weft.emulator.watching.hooks import Hook
from weft.emulator.watching.launched import MemoryEvent
from weft.emulator.watching.stopped import Stopped
from weft.isa.mbarriers import BYTES
from weft.isa.tcgen05.pipelining import Use

_MBARRIERS = {"init": "store", "inval": "store", "arrive": "atomic", "expect_tx": "atomic", "observe": "load"}


class AccessWatch(Watch):
    """Calls hooks for the accesses of one wave. `stopped` returns its state for some threads."""

    def __init__(self, wave: Wave, hooks: Sequence[Hook], stopped: Callable[[Bools], Stopped]) -> None:
        self._wave, self._hooks, self._stopped = wave, hooks, stopped

    def access(self, access: Access) -> None:
        threads = access.lanes.threads()
        enabled = access.lanes.enabled()
        if access.space != "shared":
            addresses = access.address[enabled].astype(np.int64)
            self._tell(access.kind, "", access.space, None, addresses, access.width, threads, access.line)
            return
        stride = max(1, self._wave.memory.shared_stride)
        offsets = access.offsets[enabled].astype(np.int64)
        places = np.argwhere(threads)
        for cta in np.unique(offsets // stride).tolist():
            chosen = offsets // stride == cta
            mine = np.zeros_like(threads)
            mine[tuple(places[chosen].T)] = True
            where = offsets[chosen] % stride
            self._tell(access.kind, "", "shared", cta, where, access.width, mine, access.line)

    def async_access(
        self,
        kind: str,
        proxy: str,
        cta: int,
        space: str,
        offsets: Offsets | Chunks | Cells,
        threads: Bools,
        line: int,
        mbarrier: tuple[int, int] | None = None,
        use: Use | None = None,
    ) -> None:
        if isinstance(offsets, Chunks):
            addresses, width = offsets.first, CHUNK
        else:
            addresses, width = offsets.each() if isinstance(offsets, Cells) else offsets, 1
        where = None if space == "global" else cta
        self._tell(kind, proxy, space, where, addresses.astype(np.int64).reshape(-1), width, threads, line)

    def mbarrier(self, event: str, cta: int, offset: int, threads: Bools | None, line: int) -> None:
        kind = _MBARRIERS.get(event.removesuffix("_relaxed"))
        if kind is not None:
            some = np.zeros((self._wave.warps, 32), np.bool_) if threads is None else threads
            self._tell(kind, "", "shared", cta, np.array([offset]), BYTES, some, line)

    def _tell(
        self,
        kind: str,
        unit: str,
        space: str,
        cta: int | None,
        addresses: npt.NDArray[np.int64],
        width: int,
        threads: Bools,
        line: int,
    ) -> None:
        event = MemoryEvent(kind, unit, space, cta, addresses, width, threads, line)
        for hook in self._hooks:
            if space in hook.spaces:
                hook.call(self._stopped(threads), event)
