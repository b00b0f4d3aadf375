"""Barriers of a cluster, a CTA and a warp, and fences."""

from collections.abc import Sequence

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.program import together
from weft.emulator.decoding.table import Collective, End, Step, Table, notify
from weft.emulator.errors import Fault
from weft.emulator.memory.segments import LEVELS
from weft.emulator.reading.syntax import U32, Array
from weft.emulator.running.barriers import Reduction
from weft.emulator.running.groups import Group
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.scheduler import Scheduler
from weft.isa.chips import BARRIERS

table = Table()
_NONE = np.zeros((1, 0), np.uint32)


@table.end("bar.sync", "barrier.sync", "bar.cta.sync", "barrier.cta.sync")
def sync(op: Op) -> End:
    op.count(1, 2)
    return _barrier(op, 0, len(op.operands) == 2, waits=True)


@table.end("bar.arrive", "barrier.arrive", "bar.cta.arrive", "barrier.cta.arrive")
def arrive(op: Op) -> End:
    op.count(2)
    return _barrier(op, 0, True, waits=False)


@table.end("bar.red", "barrier.red", "bar.cta.red", "barrier.cta.red")
def reduce(op: Op) -> End:
    """`bar.red.popc.u32 d, a{, b}, p` and `.and.pred`, `.or.pred`: over all participating threads."""
    operation = op.choice(["popc", "and", "or"])
    kind = op.type("u32" if operation == "popc" else "pred")
    op.count(3, 4)
    result = op.destination(0, kind)
    vote, negated = op.predicate(len(op.operands) - 1)
    return _barrier(op, 1, len(op.operands) == 4, True, (operation, result, vote, negated))


def _barrier(
    op: Op, first: int, counted: bool, waits: bool, vote: tuple[str, int, int, bool] | None = None
) -> End:
    aligned = op.opcode.startswith("bar.") or op.flag("aligned")
    number = op.source(first, U32)
    count = op.source(first + 1, U32) if counted else 0
    constants = {slot: value for (value, _), slot in op.slots.constants.items() if slot in (number, count)}
    slots = [slot for slot in (number, count) if slot and slot not in constants]
    after, line = op.next, op.line

    def arrive_together(scheduler: Scheduler, group: Group) -> int:
        lanes = group.lanes
        barrier = _uniform(group, number, constants.get(number), line)
        needed = _uniform(group, count, constants.get(count), line) if count else None
        if barrier >= BARRIERS:
            raise Fault(f"a barrier's number must be in 0..{BARRIERS - 1}, got {barrier}", line)
        if needed is not None:
            if needed % 32 or not needed:
                raise Fault(f"a barrier's thread count must be a positive multiple of 32, got {needed}", line)
            needed //= 32
        reduction = None
        if vote is not None:
            operation, result, slot, negated = vote
            value = np.zeros((scheduler.wave.warps, 32), np.bool_)
            value[lanes.row_numbers()] = lanes.read(slot) ^ negated
            reduction = Reduction(operation, result, value)
        return scheduler.barriers.arrive(group, barrier, needed, after, line, waits, reduction, aligned)

    def run(scheduler: Scheduler, group: Group) -> int:
        parts = _same_barrier(group, slots)
        if len(parts) == 1:
            return arrive_together(scheduler, group)
        for lanes in parts:
            if arrive_together(scheduler, Group(group.block, group.frame, lanes)) >= 0:
                scheduler.put(Group(after, group.frame, lanes))
        return -1

    return End(run, (after,))


def _same_barrier(group: Group, slots: Sequence[int]) -> list[Lanes]:
    """The warps of a group, by the barrier and count that the first lane of each names in these registers."""
    lanes = group.lanes
    first = 0 if lanes.mask is None else lanes.mask.argmax(axis=1)
    each = np.arange(lanes.warps)
    named = np.stack([lanes.read(slot)[each, first] for slot in slots], axis=1) if slots else _NONE
    if (named == named[0]).all():
        return [lanes]
    parts = {key: np.array(key) == named for key in sorted(set(map(tuple, named.tolist())))}
    return [lanes.of_warps(part.all(axis=1)) for part in parts.values()]


def _uniform(group: Group, slot: int, known: int | None, line: int) -> int:
    """The value of a register, which must be the same in all lanes; `known` if it is a constant."""
    if known is not None:
        return known
    lanes = group.lanes
    values: Array = lanes.read(slot) if lanes.mask is None else lanes.read(slot)[lanes.mask]
    first = int(values.flat[0])
    if not (values == first).all():
        raise Fault("a barrier's number and count must be the same in all threads that arrive together", line)
    return first


@table.collective("bar.warp.sync")
def warp_sync(op: Op) -> Collective:
    op.count(1)
    step = notify(lambda watch, threads: watch.barrier("bar.warp.sync", threads, threads, op.line))
    return Collective(step, op.source(0, U32))


@table.wait("barrier.cluster.arrive", "barrier.cluster.wait")
def cluster(op: Op) -> End:
    """`barrier.cluster.arrive{.release | .relaxed}{.aligned}` and `.wait{.acquire}{.aligned}`."""
    arrives = op.prefix == "barrier.cluster.arrive"
    relaxed = arrives and op.flag("relaxed")
    op.flag("release" if arrives else "acquire")
    aligned = op.flag("aligned")
    op.count(0)
    after, line = op.next, op.line

    def run(scheduler: Scheduler, group: Group) -> int:
        if aligned and not together(scheduler, group, op.prefix, line):
            return -1
        if not arrives:
            return scheduler.clusters.wait(group, after, line)
        scheduler.clusters.arrive(group, line, relaxed)
        return after

    return End(run, (after,))


_ORDERS = ("sc", "acq_rel", "acquire", "release")
_PROXIES = (
    *("alias", "async", "async.global", "async.shared::cta", "async.shared::cluster", "async::generic"),
    "tensormap::generic",
)


@table.step("membar")
def membar(op: Op) -> Step:
    """`membar.cta|gl|sys` and `membar.proxy.*`."""
    if op.flag("proxy"):
        return _fence(op, "proxy." + _proxy(op))
    level = op.choice(["cta", "gl", "sys"])
    return _order(op, "sc", {"gl": "gpu"}.get(level, level))


@table.step("fence")
def fence(op: Op) -> Step:
    """`fence{.sc | .acq_rel | .acquire | .release}.scope`, `fence.proxy.*`, `fence.mbarrier_init.…`."""
    if op.flag("proxy"):
        return _fence(op, "proxy." + _proxy(op))
    if op.flag("mbarrier_init"):
        op.choice(["release"])
        op.choice(["cluster"])
        op.code.fences_inits = True
        return _fence(op, "mbarrier_init")
    order = op.choice(_ORDERS, "acq_rel")
    restricted = op.flag("sync_restrict::shared::cta", "sync_restrict::shared::cluster")
    return _order(op, order, op.choice(LEVELS, "cluster" if restricted else None))


def _order(op: Op, order: str, scope: str) -> Step:
    return _fence(op, f"{order}.{scope}")


def _proxy(op: Op) -> str:
    """The proxies of a fence, with its restrictions."""
    words, op.modifiers = op.modifiers, []
    if not words or words[0] not in {proxy.partition(".")[0] for proxy in _PROXIES}:
        op.fail(f"unknown proxy .{'.'.join(words)}")
    if words[0] in ("alias", "async") and ".".join(words) not in _PROXIES:
        op.fail(f"unknown proxy .{'.'.join(words)}")
    return ".".join(words)


def _fence(op: Op, kind: str) -> Step:
    """Memory operations take effect in order here, so a fence only notifies observers."""
    if (scope := kind.rpartition(".")[2]) in op.code.scopes:
        op.code.levels.add(op.code.scopes[scope])
    if kind.startswith("proxy.tensormap") and op.operands:
        op.count(2)
    else:
        op.count(0)
    return notify(lambda watch, threads: watch.fence(kind, threads, op.line))
