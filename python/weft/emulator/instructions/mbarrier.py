"""`mbarrier.*`: barriers in shared memory that count arrivals and bytes."""

from collections.abc import Iterator

import numpy as np

from weft.emulator.compiled.mbarriers import MbarrierCalls
from weft.emulator.decoding.decode import AddressOf, Op
from weft.emulator.decoding.table import End, Step, Table, computing
from weft.emulator.memory.mbarrier import (
    MARK,
    PENDING_SHIFT,
    TEST_TICKS,
    WAIT_TICKS,
    Arrival,
    Key,
    pending_of,
)
from weft.emulator.memory.segments import GPU, Addresses
from weft.emulator.reading.syntax import PRED, U32, U64, Address, Array, Bools, Sink
from weft.emulator.running.groups import Group
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.scheduler import Scheduler
from weft.isa.mbarriers import BYTES, MOST_ARRIVALS

table = Table()
_MARKS = np.uint64(3 * MARK)
_SPACES = {"shared": "shared", "shared::cta": "shared", "shared::cluster": "shared", "": "generic"}


Target = tuple[int, int, Bools]
"""One mbarrier that lanes address: CTA of the wave, offset, and the lanes, `[warps, 32]`."""


def targets(lanes: Lanes, offsets: Addresses) -> Iterator[Target]:
    """The distinct mbarriers at the active lanes' offsets in the wave's shared memory."""
    stride, enabled = lanes.wave.memory.shared_stride, lanes.enabled()
    for each in np.unique(offsets[enabled]):
        cta, offset = divmod(int(each), stride)
        yield cta, offset, enabled & (offsets == each)


def threads_of(lanes: Lanes, mask: Bools) -> Bools | None:
    """The threads of the lanes of `mask` among all of the wave, if there is an observer."""
    return lanes.narrowed(mask).threads() if lanes.wave.watch is not None else None


def _modifiers(op: Op) -> str:
    """Takes ordering, scope and type; returns the space."""
    op.flag("relaxed", "release", "acquire")
    op.flag("cta", "cluster")
    op.type("b64")
    return _SPACES[op.choice(["shared", "shared::cta", "shared::cluster"], "")]


class BarrierOperand:
    """The mbarrier operand of an instruction."""

    def __init__(self, op: Op, index: int, space: str) -> None:
        self.line = op.line
        self.address: AddressOf = op.address(index, space)
        if self.address.space not in ("shared", "generic"):
            op.fail(f"isn't defined in {self.address.space} space", op.operand(index).location)

    def offsets(self, lanes: Lanes) -> Addresses:
        """The offsets in the wave's shared memory."""
        memory, address = lanes.wave.memory, self.address
        return memory.shared_offsets(lanes, address.space, address(lanes), BYTES, self.line)

    def targets(self, lanes: Lanes) -> Iterator[Target]:
        return targets(lanes, self.offsets(lanes))


@table.step("mbarrier.init")
def init(op: Op) -> Step:
    """`mbarrier.init{.shared}.b64 [barrier], count`."""
    barrier = BarrierOperand(op, 0, _modifiers(op))
    op.count(2)
    count, line = op.source(1, U32), op.line

    def run(lanes: Lanes) -> None:
        counts = lanes.read(count)
        for cta, offset, mask in barrier.targets(lanes):
            wanted = int(counts[mask][-1])
            lanes.wave.mbarriers.init(cta, offset, wanted, line, threads_of(lanes, mask))

    return run


@table.step("mbarrier.inval")
def inval(op: Op) -> Step:
    """`mbarrier.inval{.shared}.b64 [barrier]`."""
    barrier, line = BarrierOperand(op, 0, _modifiers(op)), op.line
    op.count(1)

    def run(lanes: Lanes) -> None:
        for cta, offset, mask in barrier.targets(lanes):
            lanes.wave.mbarriers.inval(cta, offset, line, threads_of(lanes, mask))

    return run


@table.step("mbarrier.expect_tx", "mbarrier.complete_tx")
def transactions(op: Op) -> Step:
    """`mbarrier.expect_tx.relaxed… [barrier], bytes` and its counterpart, complete_tx."""
    barrier, expects = BarrierOperand(op, 0, _modifiers(op)), op.prefix == "mbarrier.expect_tx"
    op.count(2)
    size, line = op.source(1, U32), op.line

    def run(lanes: Lanes) -> None:
        sizes = lanes.read(size)
        act = lanes.wave.mbarriers.expect_tx if expects else lanes.wave.mbarriers.complete_tx
        for cta, offset, mask in barrier.targets(lanes):
            for value in sizes[mask]:
                act(cta, offset, int(value), line, threads_of(lanes, mask))

    return run


@table.step("mbarrier.arrive", "mbarrier.arrive_drop")
def arrive(op: Op) -> Step:
    """`mbarrier.arrive{.noComplete | .expect_tx}… state, [barrier]{, count or bytes}`; arrive_drop too."""
    remote = "shared::cluster" in op.modifiers
    expects, complete = op.flag("expect_tx"), not op.flag("noComplete")
    event = "arrive_relaxed" if "relaxed" in op.modifiers else "arrive"
    how = Arrival(op.prefix == "mbarrier.arrive_drop", complete, event)
    space, line = _modifiers(op), op.line
    sinks = not isinstance(op.operand(0), Address)
    first = 1 if sinks else 0
    if remote and sinks and not isinstance(op.operand(0), Sink):
        op.fail("returns no state from .shared::cluster, expects '_'", op.operand(0).location)
    result = op.destination(0, U64) if sinks and not isinstance(op.operand(0), Sink) else 0
    barrier = BarrierOperand(op, first, space)
    op.count(first + (1 if complete and not expects else 2), first + 2)
    extra = op.source(first + 1, U32) if len(op.operands) > first + 1 else 0
    one, none = op.slots.constant(1, U32), op.slots.constant(0, U32)
    count, tx = (one, extra) if expects else (extra or one, none)

    plain = how == Arrival()

    def run(lanes: Lanes) -> None:
        counts = lanes.read(count)
        sizes = lanes.read(tx)
        offsets = barrier.offsets(lanes)
        calls: MbarrierCalls | None = lanes.wave.jobs.get(MbarrierCalls) if plain else None
        states = calls.arrive(lanes, offsets, counts, sizes, line) if calls is not None else None
        if states is None:
            states = np.zeros((lanes.warps, 32), np.uint64)
            for target in targets(lanes, offsets):
                _arrive(lanes, target, counts, sizes, states, how, line)
        if result:
            lanes.write(result, states)

    return run


def _arrive(
    lanes: Lanes, target: Target, counts: Array, sizes: Array, states: Array, how: Arrival, line: int
) -> None:
    """The lanes of a target arrive: at once if no phase can complete in between, otherwise one by one."""
    mbarriers = lanes.wave.mbarriers
    cta, offset, mask = target
    mine, bytes_ = counts[mask].astype(np.int64), sizes[mask].astype(np.int64)
    before = mbarriers.word(cta, offset, line)
    total, left = int(mine.sum()), pending_of(before)
    if total <= left:
        threads = threads_of(lanes, mask)
        mbarriers.arrive(cta, offset, line, how, total, int(bytes_.sum()), threads)
        arrived = (np.cumsum(mine) - mine).astype(np.uint64)
        states[mask] = np.uint64(before) - (arrived << np.uint64(PENDING_SHIFT))
        return
    if lanes.wave.watch is not None and how.complete:
        lanes.wave.watch.mbarrier("part", cta, offset, lanes.narrowed(mask).threads(), line)
    for one, at, _ in lanes.narrowed(mask).singles():
        count, size = int(counts[at]), int(sizes[at])
        threads = threads_of(one, one.enabled())
        states[at] = mbarriers.arrive(cta, offset, line, how, count, size, threads)


@table.step("mbarrier.pending_count")
def pending_count(op: Op) -> Step:
    """`mbarrier.pending_count.b64 count, state`: the pending arrivals of a state."""
    op.type("b64")

    def function(state: Array) -> Array:
        return (state >> np.uint64(PENDING_SHIFT) & np.uint64(MOST_ARRIVALS)).astype(np.uint32)

    return computing(op, function, U32, U64)


@table.wait("mbarrier.test_wait", "mbarrier.try_wait")
def wait(op: Op) -> End:
    """`mbarrier.try_wait{.parity}… done, [barrier], state or parity{, time}`; test_wait too.

    try_wait may return False before the phase is complete. Under the sanitizer, each does so once if nothing
    orders it after the end of the phase. A program then only tries again, so others run first.
    """
    by_parity = op.flag("parity")
    event = "observe_relaxed" if "relaxed" in op.modifiers else "observe"
    if event == "observe_relaxed":
        op.code.levels.add(GPU)
    barrier = BarrierOperand(op, 1, _modifiers(op))
    op.count(3, 4 if op.prefix == "mbarrier.try_wait" else 3)
    result = op.destination(0, PRED)
    wanted = op.source(2, U32 if by_parity else U64)
    if len(op.operands) == 4:
        op.source(3, U32)
    after, line = op.next, op.line
    tries = op.prefix == "mbarrier.try_wait"
    patience = WAIT_TICKS if tries else TEST_TICKS

    def observe(lanes: Lanes, offsets: Addresses, done: Bools, count: int) -> None:
        """The `count` lanes that are `done` have seen that their phase is complete."""
        watch = lanes.wave.watch
        calls: MbarrierCalls | None = lanes.wave.jobs.get(MbarrierCalls)
        if watch is None or not count:
            return
        seen = lanes if count == lanes.active else lanes.narrowed(done)
        if event == "observe" and calls is not None and calls.observe(seen, offsets, line):
            return
        for cta, offset, mask in targets(seen, offsets):
            watch.mbarrier(event, cta, offset, seen.narrowed(mask).threads(), line)

    def run(scheduler: Scheduler, group: Group) -> int:
        lanes, wave = group.lanes, group.lanes.wave
        offsets = barrier.offsets(lanes)
        asked = lanes.read(wanted)
        done = _completed(lanes, offsets, asked & np.uint32(1) if by_parity else asked >> np.uint64(63), line)
        count = int(np.count_nonzero(done))
        if count and tries and wave.fails(line, _phases(lanes, offsets, done)):
            lanes.write(result, np.zeros_like(done))
            return after
        if count == lanes.active or group.gave_up:
            group.gave_up = False
            lanes.write(result, done)
            observe(lanes, offsets, done, count)
            return after
        waiting = lanes.enabled() & ~done
        if count:
            lanes.narrowed(done).write(result, done)
            observe(lanes, offsets, done, count)
            scheduler.part(group, waiting, after)
            offsets = offsets[waiting.any(axis=1)]
            waiting = group.lanes.enabled()
        stride = wave.memory.shared_stride
        awaits = tuple(divmod(int(offset), stride) for offset in np.unique(offsets[waiting]))
        return scheduler.stall(group, awaits, patience)

    return End(run, (after,))


def _completed(lanes: Lanes, offsets: Addresses, parity: Array, line: int) -> Bools:
    """The active lanes whose phase is complete: the mbarrier is in another phase."""
    mbarriers = lanes.wave.mbarriers
    memory = lanes.wave.memory
    mask = lanes.mask
    words = memory.shared.view(BYTES)[(offsets >> np.uint64(3)).view(np.intp)]
    wrong: Bools = words & _MARKS != np.uint64(MARK)
    if (wrong if mask is None else wrong & mask).any():
        for offset in np.unique(offsets[lanes.enabled()]):
            mbarriers.state(*divmod(int(offset), memory.shared_stride), line)
    done: Bools = words >> np.uint64(63) != parity
    return done if mask is None else done & mask


def _phases(lanes: Lanes, offsets: Addresses, done: Bools) -> Iterator[tuple[Key, int]]:
    """The warps whose wait succeeds, each with its mbarrier (that of its first lane)."""
    rows = lanes.row_numbers().tolist()
    stride = lanes.wave.memory.shared_stride
    for at in np.flatnonzero(done.any(axis=1)).tolist():
        yield divmod(int(offsets[at, int(done[at].argmax())]), stride), rows[at]
