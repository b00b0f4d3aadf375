"""What a launch tells those who look on: the sanitizer and the trace. Each method is one kind of event.

The machine calls these where something happens that matters to order or to state; with nobody looking on,
`Wave.watch` is None and nothing is called. CTAs go by their number in the wave, `line` is that of the PTX,
`threads` are `[all warps, 32]`.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weft.emulator.memory.access import Access, Threads
from weft.emulator.reading.types import Bools

Offsets = npt.NDArray[np.intp]


class Traffic(NamedTuple):
    """The registers of one instruction, as slots; `guard` is its predicate and whether that is negated."""

    prefix: str
    line: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    guard: tuple[int, bool] | None


class Watch:
    """Hears every event and does nothing; what looks on overrides what it cares for."""

    def access(self, access: Access) -> None:
        """Threads load, store or do an atomic operation, in bounds and aligned."""

    def instruction(self, registers: Traffic, threads: Threads) -> None:
        """Threads are about to run an instruction of an instrumented program that touches registers which
        the observer has asked for.
        """

    def async_access(
        self,
        kind: str,
        proxy: str,
        cta: int,
        space: str,
        offsets: Offsets,
        threads: Bools,
        line: int,
        mbarrier: tuple[int, int] | None = None,
    ) -> None:
        """An asynchronous unit reads or writes (`kind`: load, store, reduce) these bytes.

        `proxy` says which unit: bulk (cp.async.bulk and TMA), st.async, wgmma, tcgen05. `space` is shared
        (offsets in the shared memory of `cta`), global (addresses) or tensor (lane << 16 | column). `threads`
        issued it.
        `mbarrier` is the one that will tell of its end (CTA and offset), None where threads wait for groups.
        """

    def tensor_map(self, address: int, threads: Bools, line: int) -> None:
        """The bulk unit reads the tensor map at this address of global memory, for threads."""

    def async_commit(self, proxy: str, threads: Bools, line: int) -> None:
        """Threads close their group of asynchronous operations (`commit_group`): cp.async, bulk, wgmma."""

    def async_done(self, proxy: str, threads: Bools, line: int, pending: int = 0) -> None:
        """Threads have waited for their asynchronous operations (`wait_group`, `tcgen05.wait`), but for the
        newest `pending` groups.
        """

    def async_written(self, proxy: str, threads: Bools, line: int, pending: int = 0) -> None:
        """After `async_done`: what they write to global memory is there too (`wait_group`, no `.read`)."""

    def barrier(self, name: str, arrived: Bools, released: Bools, line: int) -> None:
        """A barrier is complete (bar.sync, bar.warp.sync, barrier.cluster): what `arrived` did before happens
        before what `released` do next. Those who went on when they had arrived `came`, and aren't `arrived`.
        """

    def came(self, barrier: object, threads: Bools) -> None:
        """Threads arrive at a barrier and go on (bar.arrive, barrier.cluster.arrive)."""

    def came_relaxed(self, barrier: object, threads: Bools) -> None:
        """Threads arrive with `.relaxed` and go on: only what a fence published before is passed on."""

    def passed(self, barrier: object, threads: Bools) -> None:
        """Threads go on from a barrier: what others did before they `came` there, has happened before."""

    def mbarrier(self, event: str, cta: int, offset: int, threads: Bools | None, line: int) -> None:
        """The mbarrier at `offset` of a CTA's shared memory: init, inval, arrive, expect_tx, complete_tx,
        commit (an asynchronous unit arrives for `threads`, where known), phase (a phase completes) or observe
        (threads have seen a phase complete). `arrive_relaxed` and `observe_relaxed` order nothing by
        themselves.
        """

    def divergence(self, name: str, threads: Bools, line: int) -> None:
        """Threads are at an `.aligned` instruction that other threads of their warps are not at."""

    def fence(self, kind: str, threads: Bools, line: int) -> None:
        """A fence by its modifiers as PTX spells them: proxy.async, acq_rel.gpu, mbarrier_init…, wgmma."""

    def waited(self, threads: Bools, line: int) -> None:
        """Threads have waited for the launches before (griddepcontrol.wait)."""

    def registers_changed(self, grows: bool, count: int, threads: Bools, line: int) -> None:
        """Warps ask for so many registers for each thread (setmaxnreg.inc), or keep so many (.dec)."""

    def tensor_memory(self, event: str, row: int, column: int, columns: int, line: int) -> None:
        """A warp's event at columns of its CTA's tensor memory: alloc, dealloc, relinquish."""

    def executed(self, block: int, warps: npt.NDArray[np.intp], clock: int) -> None:
        """Warps have executed a block of the program; `clock` counts instructions of the wave."""

    def exited(self, threads: Bools, line: int) -> None:
        """Threads have ended."""

    def done(self) -> None:
        """The wave has ended."""
