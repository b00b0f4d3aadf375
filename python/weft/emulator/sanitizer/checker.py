"""The sanitizer of a wave: receives its events and checks them against what orders the threads."""

import weakref
from collections.abc import Hashable, Sequence

import numpy as np

from weft.emulator.errors import Fault
from weft.emulator.memory.mbarrier import Key
from weft.emulator.memory.segments import CLUSTER, CTA, LEVELS, WORLD_LEVELS, Access, Threads
from weft.emulator.reading.syntax import Bools
from weft.emulator.running.barriers import Phase
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.clocks import Clocks, Rows, VectorClocks, rows_of
from weft.emulator.sanitizer.dataflow import followed
from weft.emulator.sanitizer.findings import Findings
from weft.emulator.sanitizer.global_memory import GlobalMemory, LocalMemory
from weft.emulator.sanitizer.global_races import GlobalRaces
from weft.emulator.sanitizer.kernel_properties import (
    ANY_KERNEL,
    Kernel,
    LaunchBefore,
    LaunchCancels,
    RegisterPool,
)
from weft.emulator.sanitizer.mbarrier_uses import MbarrierTable, MbarrierUses
from weft.emulator.sanitizer.orders import Orders
from weft.emulator.sanitizer.races import Races
from weft.emulator.sanitizer.registers import RegisterState, instrumented
from weft.emulator.sanitizer.tensor_memory import TensorMemory
from weft.emulator.sanitizer.undefined import Undefined
from weft.emulator.sanitizer.warp_lanes import WarpLanes
from weft.emulator.watch import CHUNK, Cells, Chunks, Offsets, Traffic, UnitAccess, Watch

_ACQUIRES = {"acq_rel", "sc", "acquire"}
_RELEASES = {"acq_rel", "sc", "release"}
_OWN_PROXY = ("bulk", "st.async", "wgmma", "tcgen05")


class Sanitizer(Watch):
    """Keeps vector clocks for the warps of a wave and a shadow of its memory.

    The lanes of a warp count as one: what one of them waited for, all have waited for. So a missing
    bar.warp.sync is only found `by_lane`, and otherwise warps that rely on lock step cause no findings.
    """

    def __init__(
        self, wave: Wave, findings: Findings, kernel: Kernel = ANY_KERNEL, memory: GlobalMemory | None = None
    ) -> None:
        self.wave, self.findings = wave, findings
        self.clocks = VectorClocks(wave.warps, kernel.tensor_fences, kernel.global_copies, kernel.levels)
        self._kernel = kernel
        me: Sanitizer = weakref.proxy(self)  # in a cycle, a wave's memory would outlive it
        self.undefined = Undefined(wave, findings, kernel.watched, kernel.matrix_loads, lambda: me._follow())
        self.races = Races(wave, self.clocks, findings, kernel.needed, self.undefined, strict=kernel.by_lane)
        self.undefined.never = lambda: me.races.never()
        self.tensor = TensorMemory(wave, self.clocks, findings, kernel.tensor_fences)
        self.globals = GlobalRaces(wave, self.clocks, findings, memory or GlobalMemory(), kernel)
        self.orders = Orders(wave, self.clocks, self.races, self.globals)
        self._scopes = WORLD_LEVELS if kernel.in_world else LEVELS
        self.lanes = WarpLanes(wave, self.clocks, self.races, self.globals, strict=kernel.by_lane)
        self.table = MbarrierTable(wave.mbarriers, self.clocks)
        self.mbarriers = MbarrierUses(wave, self.clocks, findings, self.table, init_fences=kernel.init_fences)
        self.pool = RegisterPool(wave, findings, kernel.most_registers)
        self.registers = RegisterState(wave, self.clocks, findings, kernel.watched, self.undefined)
        dependent = wave.launch.dependent
        self.launch_before = LaunchBefore(wave, self.clocks, findings) if dependent else None
        self._arrivals: weakref.WeakKeyDictionary[object, Clocks] = weakref.WeakKeyDictionary()
        self._ended: Bools = np.zeros(len(wave.cta_numbers), np.bool_)
        self.some_ended = False
        """Whether a CTA of the wave has ended."""
        self.local = LocalMemory(wave, findings, kernel.needed, calls=kernel.calls)
        self.cancels = LaunchCancels(self.clocks, findings)
        self._ignored_waits = kernel.ignored_waits
        self._ignored: dict[tuple[int, Key], int] = {}
        kernel.begin(wave)
        wave.failed_waits, wave.knows = set(kernel.ignored_waits), self.table.phase_known

    def _follow(self) -> frozenset[int]:
        """Announces and returns all registers that memory may make undefined, from the next block on."""
        assert self._kernel.program is not None
        what = followed(self._kernel.program)
        self.wave.program = instrumented(self._kernel.program, following=True)
        self.registers.watch(what)
        return what.undefined

    @property
    def by_lane(self) -> bool:
        """Whether an access is compared lane by lane, too. Otherwise a weak access is only compared with
        earlier ones; except for buffers of other launches, if the launch before may still run.
        """
        return self.lanes.strict

    # Accesses

    def access(self, access: Access) -> None:
        if self.launch_before is not None and access.space == "global" and access.segment.of_others:
            self.launch_before.access(access)
        order = self.wave.memory.order
        if order is None:
            for part in self.lanes.unaware(access):
                self._compare(part, 0)
            self._compare(access, 0)
            self.lanes.accessed(access)
            return
        threads = access.lanes.threads()
        with self.lanes.acquiring(threads):
            self.orders.reads(access, order)
        with self.orders.meeting(access, order):
            self._compare(access, order.level)
        self.orders.writes(access, order)
        if access.kind != "load":
            self.lanes.released(threads)

    def _compare(self, access: Access, level: int) -> None:
        """Compares an access with earlier accesses to the same addresses."""
        if access.segment is self.wave.memory.shared:
            if self.some_ended:
                self._access_ended(access)
            if access.kind == "async":
                self.races.copy(access)
            elif access.kind == "load":
                self.races.load(access)
            elif access.kind != "st.async":
                self.races.store(access, level)
        elif access.segment is self.wave.memory.local:
            self.local.access(access)
        elif access.space == "global":
            self.globals.access(access, level)

    def instruction(self, registers: Traffic, threads: Threads) -> None:
        self.registers.instruction(registers, threads)

    # Asynchronous units

    def async_access(self, access: UnitAccess) -> None:
        kind, proxy, _, space, offsets, threads, line, mbarrier, _ = access
        rows = rows_of(threads)
        if isinstance(offsets, Cells):
            for row in rows.tolist():
                self.tensor.access(access, row)
            return
        if self.launch_before is not None and space == "global":
            self.launch_before.unit_access(kind, offsets, threads, line)
        if self.launch_before is not None and mbarrier is not None:
            self.launch_before.order(threads, self.table.clocks(mbarrier)[0])
        if space == "global":
            for row in rows.tolist():
                name: Hashable = ("mbarrier", *mbarrier) if mbarrier else ("bulk.write", row)
                self.globals.unit(kind, self.clocks.column(name), row, offsets, line, mbarrier is not None)
            return
        if mbarrier is not None:
            self._use(mbarrier, rows, line, proxy)
            column = self.clocks.column(("mbarrier", *mbarrier))
            self.mbarriers.unit_uses(mbarrier, column, self.clocks.times[column] + 1, line)
        if space == "tensor":
            for row in rows.tolist():
                self.tensor.access(access, row)
        elif space == "shared" and len(offsets):
            self._units_access(access, rows.tolist())

    def unit_may_signal(self, mbarrier: Key, row: int) -> bool:
        """Whether the bulk unit's use of an mbarrier for a warp breaks no rule."""
        return not self._ended[mbarrier[0]] and self.mbarriers.unit_may_use(mbarrier, row)

    def unit_signals(self, mbarrier: Key, row: int, column: int, time: int, line: int) -> None:
        """The bulk unit has written shared memory for a warp by code of the host, until a time of the
        mbarrier's column.
        """
        self.mbarriers.unit_uses(mbarrier, column, time, line)
        if self.launch_before is not None:
            self.launch_before.order_for(row, self.table.clocks(mbarrier)[0])

    def _units_access(self, access: UnitAccess, rows: Sequence[int]) -> None:
        """The units of some warps access the shared memory of a CTA."""
        begin = access.cta * self.wave.memory.shared_stride
        own = access.proxy in _OWN_PROXY
        units: dict[Hashable, int] = {}
        for row in rows:
            name = ("mbarrier", *access.mbarrier) if access.mbarrier else self._unit(access.proxy, row)
            units.setdefault(name, row)
        inside: Offsets | Chunks | None = None
        for unit, row in units.items():
            column = self.clocks.column(unit, own)
            if inside is None:
                assert not isinstance(access.offsets, Cells)
                inside = self._inside(access.offsets)
                inside = inside.moved(begin) if isinstance(inside, Chunks) else inside + begin
            if not len(inside):
                return
            if access.kind == "load":
                self.races.unit_reads(column, row, inside, access.line, copies=access.proxy == "bulk")
            else:
                self.races.unit_writes(column, row, inside, access.line, access.proxy == "bulk")

    def _inside(self, offsets: Offsets | Chunks) -> Offsets | Chunks:
        """Those in a CTA's shared memory; the others will fault later."""
        size = self.wave.memory.shared_size
        if isinstance(offsets, Chunks):
            first = offsets.first
            if int(first.min()) >= 0 and int(first.max()) + CHUNK <= size:
                return offsets
            offsets = offsets.octets()
        flat = np.asarray(offsets).reshape(-1)
        inside: Offsets = flat[(flat >= 0) & (flat < size)]
        return inside

    def tensor_map(self, address: int, threads: Bools, line: int) -> None:
        for row in rows_of(threads).tolist():
            self.globals.map(row, address, line)

    def _unit(self, proxy: str, row: int) -> tuple[str, int]:
        """The owner of the groups of an asynchronous operation: a warp, or for wgmma a warpgroup."""
        return proxy, row - row % self.wave.launch.warps % 4 if proxy == "wgmma" else row

    def column_of(self, proxy: str, row: int) -> int:
        """The column of a unit's operations for a warp, which no mbarrier signals."""
        return self.clocks.column(self._unit(proxy, row), proxy in _OWN_PROXY)

    def async_commit(self, proxy: str, threads: Bools, line: int) -> None:
        rows = rows_of(threads).tolist()
        names: set[Hashable] = {self._unit(proxy, row) for row in rows}
        if proxy == "bulk":
            names |= {("bulk.write", row) for row in rows}
        for name in names:
            column = self.clocks.find(name)
            if column is not None:
                self.clocks.times[column] += 1

    def async_done(self, proxy: str, threads: Bools, line: int, pending: int = 0) -> None:
        for row in rows_of(threads).tolist():
            column = self.clocks.find(self._unit(proxy, row))
            if column is not None:
                self.clocks.learn(row, column, self.clocks.times[column] - pending)

    def async_written(self, proxy: str, threads: Bools, line: int, pending: int = 0) -> None:
        for row in rows_of(threads).tolist():
            column = self.clocks.find((f"{proxy}.write", row))
            if column is not None:
                self.clocks.learn(row, column, self.clocks.times[column] - pending)

    # Synchronization

    def waited(self, threads: Bools, line: int) -> None:
        if self.launch_before is not None:
            self.launch_before.waited(threads)

    def barrier(self, name: str, arrived: Bools, released: Bools, line: int) -> None:
        self.lanes.joined(arrived | released)
        if name != "bar.warp.sync" and arrived.any():
            self.clocks.join(rows_of(arrived), rows_of(released))
            self.orders.join(rows_of(arrived), rows_of(released))

    def barriers(self, name: str, threads: Bools, ctas: Sequence[slice], line: int) -> None:
        self.lanes.joined(threads)
        rows = rows_of(threads)
        if len(rows) % len(ctas) == 0:
            sets, first = rows.reshape(len(ctas), -1), np.array([each.start for each in ctas])
            if (sets // self.wave.launch.warps * self.wave.launch.warps == first[:, None]).all():
                self.clocks.join_each(sets)
                self.orders.join_each(sets)
                return
        for each in ctas:
            met = each.start + np.flatnonzero(threads[each].any(axis=1))
            self.clocks.join(met, met)
            self.orders.join(met, met)

    def arrived(self, barrier: object, threads: Bools) -> None:
        self.lanes.joined(threads)
        clock = self._arrivals.get(barrier)
        self._arrivals[barrier] = self.clocks.release(
            rows_of(threads), self.clocks.empty() if clock is None else clock
        )

    def arrived_relaxed(self, barrier: object, threads: Bools) -> None:
        clock = self._arrivals.get(barrier, self.clocks.empty())
        self._arrivals[barrier] = self._relaxed(clock, rows_of(threads), CLUSTER)

    def _relaxed(self, clock: Clocks, rows: Rows, level: int) -> Clocks:
        """`clock` after relaxed arrivals of warps at a barrier that is as far away as `level`."""
        for row in rows.tolist():
            if (released := self.orders.released(row, level)) is not None:
                clock = self.clocks.joined(clock, released)
        return clock

    def passed(self, barrier: object, threads: Bools) -> None:
        if (clock := self._arrivals.get(barrier)) is not None:
            self.clocks.acquire(rows_of(threads), clock)
        if isinstance(barrier, Phase):
            self.tensor.met(rows_of(threads))

    def mbarrier(self, event: str, cta: int, offset: int, threads: Bools | None, line: int) -> None:
        key = cta, offset
        if event in ("init", "inval"):
            change = self.mbarriers.init if event == "init" else self.mbarriers.inval
            change(key, int(rows_of(threads)[0]) if threads is not None else 0, line)
        elif event in ("arrive", "arrive_relaxed", "expect_tx") and threads is not None:
            rows = rows_of(threads)
            self._use(key, rows, line)
            if event != "expect_tx":
                self.mbarriers.arrival(key, rows, line)
                self._arrive(key, rows, relaxed=event == "arrive_relaxed")
                self.lanes.released(threads)
        elif event == "part" and threads is not None:
            self.mbarriers.part(key, rows_of(threads), line)
        elif event == "commit" and threads is not None:
            self._commit(key, threads, line)
        elif event == "phase":
            column = self.table.column(key)
            pending, done = self.table.clocks(key)
            np.maximum(pending, done, out=done)
            pending[...] = 0
            self.clocks.times[column] += 1
        elif event in ("observe", "observe_relaxed") and threads is not None:
            with self.lanes.acquiring(threads):
                self._observe(key, rows_of(threads), line, relaxed=event == "observe_relaxed")

    def tracks_waits(self, line: int) -> bool:
        """Whether waits of a line, or those after waits whose result nothing uses, are remembered."""
        return bool(self._ignored) or line in self._ignored_waits

    def _observe(self, key: Key, rows: Rows, line: int, *, relaxed: bool) -> None:
        self._use(key, rows, line)
        for row in rows.tolist():
            if line in self._ignored_waits:
                self._ignored.setdefault((row, key), line)
            else:
                self._ignored.pop((row, key), None)  # it only polled ahead
        column = self.table.column(key)
        done = self.table.clocks(key)[1].copy()
        done[0, column] = max(int(done[0, column]), self.clocks.times[column])
        if not relaxed:
            self.clocks.acquire(rows, done)
            return
        for row in rows.tolist():
            near = self.wave.cta_of_row[row] == key[0]
            self.clocks.read(np.array([row]), CTA if near else CLUSTER, done)

    def _arrive(self, key: Key, rows: Rows, *, relaxed: bool = False) -> None:
        pending = self.table.clocks(key)[0]
        if relaxed:
            near = self.wave.cta_of_row[rows] == key[0]
            pending[...] = self._relaxed(pending, rows[near], CTA)
            pending[...] = self._relaxed(pending, rows[~near], CLUSTER)
        else:
            self.clocks.release(rows, pending)

    def _use(self, key: Key, rows: Rows, line: int, proxy: str = "") -> None:
        """Threads, or units on their behalf, use an mbarrier."""
        self.mbarriers.use(key, rows, line, proxy)
        if self._ended[key[0]]:
            message = f"the mbarrier at 0x{key[1]:x} is used after its CTA has ended"
            thread = self.wave.thread(int(rows[0]), 0)
            self.findings.add("cluster-exit", message, line, thread, key[1])

    def _access_ended(self, access: Access) -> None:
        """Threads access shared memory of CTAs that may have ended."""
        ctas = (access.offsets // np.uint64(self.wave.memory.shared_stride)).astype(np.intp)
        gone = self._ended[np.minimum(ctas, len(self._ended) - 1)] & access.lanes.enabled()
        if gone.any():
            what, bad = "is accessed after its CTA has ended", gone[access.lanes.enabled()]
            self.findings.add_lanes("cluster-exit", what, self.wave, access, bad)

    def exited(self, threads: Bools, line: int) -> None:
        live = self.wave.live
        for cta in dict.fromkeys(self.wave.cta_of_row[rows_of(threads)].tolist()):
            rows = self.wave.rows_of(cta)
            if not live[rows].any():
                known = self.clocks.of(np.arange(rows.start, rows.stop))
                self._ended[cta] = self.some_ended = True
                self.races.ended(cta, known)
                self.mbarriers.ended(cta, known)

    def launch_cancel(self, found: bool, mbarriers: tuple[Key, ...], threads: Bools, line: int) -> None:
        cluster = mbarriers[0][0] // self.wave.launch.cluster_size
        self.cancels.request(cluster, int(rows_of(threads)[0]), self.wave.first(threads), line)
        if not found:
            self.cancels.fail(cluster, mbarriers, line)

    def registers_changed(self, grows: bool, count: int, threads: Bools, line: int) -> None:
        self.pool.changed(grows, count, rows_of(threads), line)

    def _commit(self, key: Key, threads: Bools, line: int) -> None:
        """Asynchronous units have completed what threads issued so far."""
        rows, pending = rows_of(threads), self.table.clocks(key)[0]
        self._use(key, rows, line, "tcgen05")
        if self.clocks.tensor_fences:
            self.clocks.fence_tensor(rows, before=True)
        self.clocks.release(rows, pending)
        for name in [(proxy, row) for proxy in ("cp.async", "tcgen05") for row in rows.tolist()]:
            column = self.clocks.find(name)
            if column is not None:
                self.clocks.times[column] += 1
                pending[[0, *range(2, self.clocks.layers)], column] = self.clocks.times[column]
                self.mbarriers.unit_uses(key, column, self.clocks.times[column], line)

    def fence(self, kind: str, threads: Bools, line: int) -> None:
        rows = rows_of(threads)
        if kind.startswith(("proxy.async", "proxy.tensormap")):
            in_shared = kind.startswith("proxy.async") and kind != "proxy.async.global"
            in_global = kind in ("proxy.async", "proxy.async.global")
            maps = kind.startswith("proxy.tensormap::generic.acquire")
            self.clocks.fence(rows, in_shared, in_global, maps)
        elif kind == "wgmma":
            self.registers.fence(rows)
        elif kind.startswith("tcgen05::") and self.clocks.tensor_fences:
            self.clocks.fence_tensor(rows, before=kind == "tcgen05::before_thread_sync")
        words = kind.split(".")
        level, acquires, releases = self._scopes.get(words[-1], 0), _ACQUIRES & {*words}, _RELEASES & {*words}
        if level and acquires:
            with self.lanes.acquiring(threads):
                self.clocks.known[rows] = self.clocks.with_read(rows, level)
        if (level > CTA and releases) or kind == "mbarrier_init" or kind.startswith("proxy.async"):
            self.mbarriers.fence(rows)
        if kind == "mbarrier_init":
            for row in rows.tolist():
                before = self.orders.released(row, CLUSTER)
                inits = self.mbarriers.inits(row, self.clocks.empty() if before is None else before)
                self.orders.show(row, CLUSTER, inits)
        if level and releases:
            self.orders.release(rows, level)

    def divergence(self, name: str, threads: Bools, line: int) -> None:
        rows = rows_of(threads)
        unit = "warpgroup" if threads[rows].all() else "warp"
        message = f"{name} must be executed by a whole {unit}, but only a part of one executes it"
        self.findings.add("divergent-aligned", message, line, self.wave.first(threads))

    def absent_source(self, threads: Bools, why: str, line: int) -> None:
        self.findings.add("shuffle-source", why, line, self.wave.first(threads), count=int(threads.sum()))

    def tensor_memory(
        self, event: str, row: int, column: int, columns: int, line: int, ctas: tuple[int, ...] = ()
    ) -> None:
        self.tensor.event(event, row, column, columns, line, ctas)

    def done(self) -> None:
        self.tensor.done()
        self.pool.done()
        for (row, (_, offset)), line in self._ignored.items():
            message = f"nothing uses the result of the wait for the mbarrier at 0x{offset:x}"
            self.findings.add("wait-ignored", message, line, self.wave.thread(row, 0), offset)
        mbarriers = self.wave.mbarriers
        for (cta, offset), line in sorted(mbarriers.alive.items()):
            try:
                expected, pending, tx, _ = mbarriers.state(cta, offset, line)
            except Fault:
                continue  # Its memory is used for something else now.
            if tx:
                message = f"the transaction count of the mbarrier at 0x{offset:x} is {tx} when its block ends"
                self.findings.add("mbarrier-transactions", message, line, None, offset)
            elif pending != expected and (cta, offset) not in mbarriers.advanced:
                missing = f"{pending} of {expected} arrivals of the first phase"
                message = f"{missing} of the mbarrier at 0x{offset:x} are missing when its block ends"
                self.findings.add("mbarrier-arrivals", message, line, None, offset)
