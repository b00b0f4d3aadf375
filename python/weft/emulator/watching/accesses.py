"""Accesses to memory, as hooks learn of them."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from weft.emulator.memory.access import Access
from weft.emulator.reading.types import Bools
from weft.emulator.running.wave import Wave
from weft.emulator.watch import CHUNK, Cells, Chunks, UnitAccess, Watch
from weft.emulator.watching.hooks import Hook
from weft.emulator.watching.launched import MemoryEvent
from weft.emulator.watching.stopped import Stopped
from weft.isa.mbarriers import BYTES

_MBARRIERS = {"init": "store", "inval": "store", "arrive": "atomic", "expect_tx": "atomic", "observe": "load"}


class AccessWatch(Watch):
    """Calls hooks for the accesses of one wave. `stopped` returns its state for some threads."""

    def __init__(self, wave: Wave, hooks: Sequence[Hook], stopped: Callable[[Bools], Stopped]) -> None:
        self._wave, self._hooks, self._stopped = wave, hooks, stopped

    def access(self, access: Access) -> None:
        threads, enabled = access.lanes.threads(), access.lanes.enabled()
        event = partial(MemoryEvent, access.kind, "", access.space, width=access.width, line=access.line)
        if access.space != "shared":
            addresses = access.address[enabled].astype(np.int64)
            self._tell(event(cta=None, addresses=addresses, threads=threads))
            return
        stride = max(1, self._wave.memory.shared_stride)
        offsets = access.offsets[enabled].astype(np.int64)
        places = np.argwhere(threads)
        for cta in np.unique(offsets // stride).tolist():
            chosen = offsets // stride == cta
            mine = np.zeros_like(threads)
            mine[tuple(places[chosen].T)] = True
            self._tell(event(cta=cta, addresses=offsets[chosen] % stride, threads=mine))

    def async_access(self, access: UnitAccess) -> None:
        offsets, width = access.offsets, 1
        if isinstance(offsets, Chunks):
            offsets, width = offsets.first, CHUNK
        elif isinstance(offsets, Cells):
            offsets = offsets.each()
        cta, addresses = (
            None if access.space == "global" else access.cta,
            offsets.astype(np.int64).reshape(-1),
        )
        unit = access.kind, access.proxy, access.space
        self._tell(MemoryEvent(*unit, cta, addresses, width, access.threads, access.line))

    def mbarrier(self, event: str, cta: int, offset: int, threads: Bools | None, line: int) -> None:
        kind = _MBARRIERS.get(event.removesuffix("_relaxed"))
        if kind is not None:
            some = np.zeros((self._wave.warps, 32), np.bool_) if threads is None else threads
            self._tell(MemoryEvent(kind, "", "shared", cta, np.array([offset]), BYTES, some, line))

    def _tell(self, event: MemoryEvent) -> None:
        for hook in self._hooks:
            if event.space in hook.spaces:
                hook.call(self._stopped(event.threads), event)
