"""The events that a launch reports to its observers, the sanitizer and the trace. Each method is one kind of
event.

The machine calls these for everything that matters to order or to state. Without an observer, `Wave.watch` is
None and nothing is called. CTAs are numbers in the wave, `line` is that of the PTX, `threads` are `[all
warps, 32]`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weft.emulator.memory.segments import Access, Threads
from weft.emulator.reading.syntax import Array, Bools
from weft.isa.tcgen05.pipelining import Use
from weft.isa.tcgen05.tensor_layouts import LANE_SHIFT

Offsets = npt.NDArray[np.intp]
Sources = Callable[[Callable[[int], Array]], Array]
"""The lane whose register each lane reads, and -1 for none, from what a function reads of registers."""
Marks = dict[int, Bools]
Spread = Callable[[Callable[[int], Bools]], Marks]
"""The results of a matrix instruction that depend on marked operands, by register: see `Traffic`."""
SpreadShared = Callable[[Threads, Callable[[int], Bools], Array], Marks]
"""The same with operands in shared memory, whose bytes `[CTAs, bytes of each]` are marked, for some warps."""
CHUNK = 16
ROWS = -1


@dataclass(frozen=True)
class Chunks:
    """Whole chunks of 16 bytes by their first bytes, which are multiples of 16: what asynchronous units move
    most of the time, at a sixteenth of the cost of single bytes.
    """

    first: Offsets

    def __len__(self) -> int:
        """The number of bytes."""
        return CHUNK * len(self.first)

    def moved(self, by: int) -> "Chunks":
        """The chunks `by` bytes further on, a multiple of 16."""
        return Chunks(self.first + by)

    def octets(self) -> Offsets:
        """Every byte."""
        return (self.first[:, None] + np.arange(CHUNK)).reshape(-1)


@dataclass(frozen=True)
class Cells:
    """A rectangle of tensor memory: lanes from `lane` on, and columns from `column` on."""

    lane: int
    lanes: int
    column: int
    columns: int

    def __len__(self) -> int:
        """The number of cells."""
        return self.lanes * self.columns

    @property
    def index(self) -> tuple[slice, slice]:
        """The rectangle in an array `[lanes, columns]`."""
        return (slice(self.lane, self.lane + self.lanes), slice(self.column, self.column + self.columns))

    def each(self) -> Offsets:
        """Every cell, as lane << 16 | column."""
        lanes, columns = np.arange(self.lanes) + self.lane, np.arange(self.columns) + self.column
        return (lanes[:, None] << LANE_SHIFT | columns).reshape(-1)


class Traffic(NamedTuple):
    """The registers of one instruction, as slots; `guard` is its predicate and whether that is negated.
    `pure`: it only computes registers of its own lane. `selects`, of selp: what it selects if its predicate
    is true, and if it is false, and the predicate. `sources`: the registers that lanes don't read as their
    own, such as what shfl exchanges. `stores`, of st: what it stores. `constant`, of ld: the kernel must not
    write what it reads (`.nc`). `space`: that of ld and st. `spread`, of mma, ldmatrix and stmatrix: from
    which lanes of which registers are marked, which lanes of the registers that it writes depend on these;
    instead of registers, ldmatrix reads, and stmatrix writes as number `ROWS`, rows in memory by the lanes
    that have their addresses. `spread_shared`: the same of wgmma.mma_async.
    """

    prefix: str
    line: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    guard: tuple[int, bool] | None
    pure: bool = False
    selects: tuple[int, int, int] | None = None
    sources: tuple[tuple[int, Sources], ...] = ()
    stores: tuple[int, ...] = ()
    constant: bool = False
    space: str = ""
    spread: Spread | None = None
    spread_shared: SpreadShared | None = None


class UnitAccess(NamedTuple):
    """An asynchronous unit reads or writes (`kind`: load, store, reduce) bytes.

    `proxy` is the unit: bulk (cp.async.bulk and TMA), st.async, wgmma, tcgen05. `space` is shared (offsets in
    the shared memory of `cta`), global (addresses) or tensor (lane << 16 | column). `threads` issued the
    operation. `mbarrier` (CTA and offset) will signal its completion; None: threads wait for groups. `use`:
    how an operation of tcgen05 that one thread issues uses tensor memory.
    """

    kind: str
    proxy: str
    cta: int
    space: str
    offsets: Offsets | Chunks | Cells
    threads: Bools
    line: int
    mbarrier: tuple[int, int] | None = None
    use: Use | None = None


class Watch:
    """Receives every event and does nothing. Observers override the methods that they need."""

    def access(self, access: Access) -> None:
        """Threads load, store or execute an atomic operation, in bounds and aligned."""

    def instruction(self, registers: Traffic, threads: Threads) -> None:
        """Threads are about to execute an instruction that the program announces, because it uses registers
        which an observer watches.
        """

    def async_access(self, access: UnitAccess) -> None:
        """An asynchronous unit reads or writes memory."""

    def tensor_map(self, address: int, threads: Bools, line: int) -> None:
        """The bulk unit reads the tensor map at this address of global memory for threads."""

    def async_commit(self, proxy: str, threads: Bools, line: int) -> None:
        """Threads close their group of asynchronous operations (`commit_group`): cp.async, bulk, wgmma."""

    def async_done(self, proxy: str, threads: Bools, line: int, pending: int = 0) -> None:
        """Threads have waited for asynchronous operations, except those of the newest `pending` groups."""

    def async_written(self, proxy: str, threads: Bools, line: int, pending: int = 0) -> None:
        """After `async_done`: their writes to global memory are visible (`wait_group` without `.read`)."""

    def barrier(self, name: str, arrived: Bools, released: Bools, line: int) -> None:
        """A barrier is complete (bar.sync, bar.warp.sync, barrier.cluster): what `arrived` did before happens
        before what `released` do next. Threads that went on after they arrived are not in `arrived`: the
        method `arrived` was called for them.
        """

    def barriers(self, name: str, threads: Bools, ctas: Sequence[slice], line: int) -> None:
        """As `barrier` for the threads of several CTAs, whose warps these slices are: all of them arrive and
        are released.
        """
        for rows in ctas:
            mine = np.zeros_like(threads)
            mine[rows] = threads[rows]
            self.barrier(name, mine, mine, line)

    def arrived(self, barrier: object, threads: Bools) -> None:
        """Threads arrive at a barrier and continue (bar.arrive, barrier.cluster.arrive)."""

    def arrived_relaxed(self, barrier: object, threads: Bools) -> None:
        """Threads arrive with `.relaxed` and continue: they release only what a fence published before."""

    def passed(self, barrier: object, threads: Bools) -> None:
        """Threads continue after a barrier: what others did before they arrived there happened before."""

    def mbarrier(self, event: str, cta: int, offset: int, threads: Bools | None, line: int) -> None:
        """The mbarrier at `offset` of a CTA's shared memory: init, inval, arrive, expect_tx, complete_tx,
        commit (an asynchronous unit arrives for `threads`), phase (a phase completes), part (some of the
        threads will complete a phase, and the others arrive in the next one) or observe (threads have seen a
        phase complete). `arrive_relaxed` and `observe_relaxed` order nothing by themselves.
        """

    def divergence(self, name: str, threads: Bools, line: int) -> None:
        """Threads execute an `.aligned` instruction that other threads of their warps don't execute."""

    def absent_source(self, threads: Bools, why: str, line: int) -> None:
        """Threads read a register of a lane that doesn't take part in their shfl.sync."""

    def fence(self, kind: str, threads: Bools, line: int) -> None:
        """A fence, by its modifiers in PTX: proxy.async, acq_rel.gpu, mbarrier_init…, wgmma."""

    def waited(self, threads: Bools, line: int) -> None:
        """Threads have waited for the previous launches (griddepcontrol.wait)."""

    def launch_cancel(
        self, found: bool, mbarriers: tuple[tuple[int, int], ...], threads: Bools, line: int
    ) -> None:
        """A thread requests a cluster that has not started (clusterlaunchcontrol.try_cancel). `found`: the
        response has one. `mbarriers` (CTA and offset) signal the response.
        """

    def registers_changed(self, grows: bool, count: int, threads: Bools, line: int) -> None:
        """Warps request `count` registers for each thread (setmaxnreg.inc), or keep `count` (.dec)."""

    def tensor_memory(
        self, event: str, row: int, column: int, columns: int, line: int, ctas: tuple[int, ...] = ()
    ) -> None:
        """A warp requests, allocates or deallocates columns of its CTA's tensor memory, or relinquishes the
        permit. `ctas` are those that take part in it: the warp's, or both of its pair.
        """

    def executed(self, block: int, warps: npt.NDArray[np.intp], clock: int) -> None:
        """Warps have executed a block of the program; `clock` counts instructions of the wave."""

    def exited(self, threads: Bools, line: int) -> None:
        """Threads have exited."""

    def done(self) -> None:
        """The wave has ended."""
