"""`tcgen05.alloc`, `dealloc`, `relinquish_alloc_permit`, `commit`, `wait` and `fence`: the allocation of
tensor memory, and the order of its operations.

Asynchronous operations complete when they are issued, so only `commit` and `alloc` change results; the others
notify observers.

Shared by the asynchronous `tcgen05` instructions: the CTAs that they use, descriptors, notifications.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from weft.emulator.compiled.mbarriers import MbarrierCalls
from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Collective, End, Step, Table, notify
from weft.emulator.errors import Fault
from weft.emulator.instructions.cp_async_bulk import checked_mask
from weft.emulator.instructions.mbarrier import BarrierOperand, targets, threads_of
from weft.emulator.instructions.mma import legal_form
from weft.emulator.instructions.one_thread import ctas_of
from weft.emulator.memory.mbarrier import COMMIT
from weft.emulator.memory.tensor_memory import Numbers, Request
from weft.emulator.reading.syntax import TYPES, U32, Bools, Integer
from weft.emulator.running.groups import Group
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.scheduler import Scheduler
from weft.emulator.watch import Cells, UnitAccess, Watch
from weft.isa.tcgen05 import control as tcgen05_control
from weft.isa.tcgen05.pipelining import Use
from weft.isa.tcgen05.shared_descriptor import SharedMemoryDescriptor
from weft.isa.tcgen05.tensor_layouts import COLUMNS, LANE_SHIFT

PROXY = "tcgen05"


def pair_of(lanes: Lanes, cta: int, group: int, line: int) -> tuple[int, ...]:
    """The CTAs of `.cta_group::group`: `cta`, or its pair, the even rank first. Fault without a peer."""
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
    one: Lanes, kind: str, cta: int, cells: Cells | tuple[Numbers, Numbers], line: int, use: Use
) -> None:
    """Reports a thread's accesses to tensor memory, a rectangle or lanes and columns, to observers."""
    if one.wave.watch is not None:
        each = cells if isinstance(cells, Cells) else (cells[0] << LANE_SHIFT | cells[1]).reshape(-1)
        access = UnitAccess(kind, PROXY, cta, "tensor", each, one.threads(), line, use=use)
        one.wave.watch.async_access(access)


table = Table()
_SPACES = {"": "generic", "shared::cta": "shared", "shared::cluster": "shared"}


class _Columns:
    """A number of columns, operand 1; a constant is checked at once."""

    def __init__(self, op: Op, form: tcgen05_control.Alloc | tcgen05_control.Dealloc) -> None:
        operand, self._line = op.operand(1), op.line
        every = next(o for o in form.operands if o.name == "columns").values
        self._legal = [count for count in every if count <= COLUMNS]
        kind = "a multiple of 32" if form.exclusive else "a power of two"
        self._wanted = f"{kind} in {self._legal[0]}..{self._legal[-1]}"
        if isinstance(operand, Integer) and operand.value not in self._legal:
            op.fail(f"columns must be {self._wanted}, got {operand.value}", operand.location)
        self.slot = op.source(1, U32)

    def checked(self, columns: int) -> int:
        """A thread's number of columns. Fault if it is illegal."""
        if columns not in self._legal:
            what = f"columns must be {self._wanted}, got {columns}"
            raise Fault(what, self._line, rule="tmem-access")
        return columns


@table.wait("tcgen05.alloc")
def alloc(op: Op) -> End:
    """`tcgen05.alloc… [shared address], columns`: waits for free columns, and for the other CTA of a pair."""
    form = legal_form(op, (tcgen05_control.ALLOC,))
    op.count(2)
    address, count = op.address(0, _SPACES[form.space]), _Columns(op, form)
    after, line = op.next, op.line

    def run(scheduler: Scheduler, group: Group) -> int:
        if not scheduler.gather(group, None):
            return -1
        lanes = group.lanes
        counts = lanes.read(count.slot)[:, 0]
        for at, row in enumerate(lanes.row_numbers().tolist()):
            _request(lanes, row, count.checked(int(counts[at])), form.cta_group, line)
        served = np.zeros((lanes.warps, 32), np.bool_)
        columns = np.zeros((lanes.warps, 32), np.uint32)
        for at, row in enumerate(lanes.row_numbers().tolist()):
            column = lanes.wave.tensor_memory.granted.pop(row, None)
            if column is not None:
                served[at], columns[at] = lanes.enabled()[at], column
        if served.any():
            first = served & (np.arange(32) == 0)
            writing = lanes.narrowed(first)
            memory = lanes.wave.memory
            memory.by_unit = True
            memory.store(writing, address.space, address(lanes), columns, 4, line)
            memory.by_unit = False
        waiting = lanes.enabled() & ~served
        if not waiting.any():
            return after
        if served.any():
            scheduler.part(group, waiting, after)
        scheduler.hold(group)
        scheduler.wave.tensor_memory.waiting.append(group)
        return -1

    return End(run, (after,))


def _request(lanes: Lanes, row: int, columns: int, group: int, line: int) -> None:
    """A warp requests columns, unless they have been granted to it."""
    wave = lanes.wave
    if row in wave.tensor_memory.granted:
        return
    cta = int(wave.cta_of_row[row])
    pair = pair_of(lanes, cta, group, line)
    if wave.watch is not None:
        wave.watch.tensor_memory("request", row, 0, columns, line, pair)
    for each, column in wave.tensor_memory.request(pair, cta, Request(row, columns, line)).items():
        if wave.watch is not None:
            wave.watch.tensor_memory("alloc", each.row, column, columns, each.line, pair)


@table.collective("tcgen05.dealloc")
def dealloc(op: Op) -> Collective:
    """`tcgen05.dealloc… address, columns`."""
    form = legal_form(op, (tcgen05_control.DEALLOC,))
    op.count(2)
    address, count, line = op.source(0, U32), _Columns(op, form), op.line

    def run(lanes: Lanes) -> None:
        addresses, counts = lanes.read(address)[:, 0], lanes.read(count.slot)[:, 0]
        for at, row in enumerate(lanes.row_numbers().tolist()):
            cta, begin = int(lanes.wave.cta_of_row[row]), int(addresses[at])
            columns = count.checked(int(counts[at]))
            pair = pair_of(lanes, cta, form.cta_group, line)
            lanes.wave.tensor_memory.deallocate(cta, begin, columns, line)
            if lanes.wave.watch is not None:
                lanes.wave.watch.tensor_memory("dealloc", row, begin, columns, line, pair)

    return Collective(run)


@table.collective("tcgen05.relinquish_alloc_permit")
def relinquish(op: Op) -> Collective:
    """`tcgen05.relinquish_alloc_permit`: the CTA allocates no more."""
    legal_form(op, (tcgen05_control.RELINQUISH_ALLOC_PERMIT,))
    op.count(0)
    line = op.line

    def run(lanes: Lanes) -> None:
        for row in lanes.row_numbers().tolist():
            lanes.wave.tensor_memory.relinquish(int(lanes.wave.cta_of_row[row]))
            if lanes.wave.watch is not None:
                lanes.wave.watch.tensor_memory("relinquish", row, 0, 0, line)

    return Collective(run)


@table.step("tcgen05.commit")
def commit(op: Op) -> Step:
    """`tcgen05.commit… [mbarrier]{, mask}`: arrives when the thread's earlier operations are complete."""
    form = legal_form(op, (tcgen05_control.COMMIT,))
    op.count(2 if form.multicast else 1)
    barrier, line = BarrierOperand(op, 0, _SPACES[form.space]), op.line
    mask = op.source(1, TYPES["u16"] if form.multicast == 16 else U32) if form.multicast else 0

    def run(lanes: Lanes) -> None:
        masks = lanes.read(mask) if mask else None
        wave = lanes.wave
        offsets = barrier.offsets(lanes)
        calls: MbarrierCalls | None = wave.jobs.get(MbarrierCalls) if wave.random is None else None
        if calls is not None and calls.commit(lanes, offsets, masks, line):
            return
        for cta, offset, arriving in targets(lanes, offsets):
            if masks is None:
                _arrive(lanes, (cta,), offset, arriving, line)
                continue
            for wanted in np.unique(masks[arriving]).tolist():
                same = arriving & (masks == wanted)
                ctas = ctas_of(wave, cta, checked_mask(lanes.narrowed(same), wanted, line))
                _arrive(lanes, ctas, offset, same, line)

    return run


def _arrive(lanes: Lanes, ctas: Sequence[int], offset: int, arriving: Bools, line: int) -> None:
    """The mbarriers at `offset` of these CTAs get one arrival for each thread in `arriving`."""
    wave, count, threads = lanes.wave, int(np.count_nonzero(arriving)), threads_of(lanes, arriving)

    def finish() -> None:
        for cta in ctas:
            wave.mbarriers.arrive(cta, offset, line, COMMIT, count, threads=threads)

    # A thread's operations complete in order, and so do its commits.
    row = int(lanes.row_numbers()[int(arriving.any(axis=1).argmax())])
    wave.later(finish, ("tcgen05.commit", row))


@table.collective("tcgen05.wait::ld", "tcgen05.wait::st")
def wait(op: Op) -> Collective:
    """`tcgen05.wait::ld` and `::st`."""
    form = legal_form(op, (tcgen05_control.WAIT,))
    op.count(0)
    unit, line = f"tcgen05.{form.kind}", op.line

    def waited(watch: Watch, threads: Bools) -> None:
        watch.async_commit(unit, threads, line)
        watch.async_done(unit, threads, line)

    return Collective(notify(waited))


@table.step("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync")
def fence(op: Op) -> Step:
    """`tcgen05.fence::before_thread_sync` and `::after_thread_sync`."""
    form = legal_form(op, (tcgen05_control.FENCE,))
    op.count(0)
    kind, line = f"tcgen05::{form.kind}", op.line
    return notify(lambda watch, threads: watch.fence(kind, threads, line))
