"""What ends a block: jumping, skipping under a guard, waiting for lanes, leaving a function."""

import numpy as np

from weft.emulator.decoding.table import Collective, End, Flow
from weft.emulator.errors import Fault
from weft.emulator.reading.types import Bools
from weft.emulator.running.function_code import FunctionCode
from weft.emulator.running.groups import Group
from weft.emulator.running.lanes import WARP, Lanes
from weft.emulator.running.scheduler import Scheduler
from weft.emulator.running.wave import Wave

_LANES = np.arange(WARP, dtype=np.uint32)


def jump(target: int) -> End:
    """Continues with block `target`."""
    return End(lambda scheduler, group: target, (target,), flow=Flow(target))


def leave(code: FunctionCode) -> End:
    """Returns from a function; from a kernel, exits."""
    if code.function.is_entry:
        return End(lambda scheduler, group: scheduler.exit(group), ())
    return End(lambda scheduler, group: scheduler.leave(group), ())


def skip(end: End, predicate: int, negated: bool, after: int) -> End:
    """`end` for the threads whose predicate is true; the others continue with block `after`."""

    def run(scheduler: Scheduler, group: Group) -> int:
        lanes = group.lanes
        mask, count = lanes.guarded(predicate, negated)
        if count == 0:
            return after
        if count < lanes.active:
            scheduler.part(group, mask, after)
        return end.run(scheduler, group)

    jumps = end.flow is not None and end.flow.predicate is None
    flow = Flow(end.targets[0], after, predicate, negated) if jumps else None
    return End(run, (*end.targets, after), flow=flow)


def collective(decoded: Collective, after: int, opcode: str, line: int) -> End:
    """A step that waits until its lanes are together, then continues with block `after`."""
    step, members = decoded.step, decoded.members

    def run(scheduler: Scheduler, group: Group) -> int:
        if decoded.warpgroup and group.lanes.rows is not None:
            scheduler.join(group)  # before their lanes are counted
        if group.lanes.mask is not None:
            if not scheduler.gather(group, members):
                return -1
            if members is None and scheduler.wave.watch is not None:
                _notify_divergence(scheduler, group, opcode, line)
        if decoded.warpgroup and not scheduler.gather_warpgroups(group):
            return -1
        if members is not None:
            _check_members(scheduler.wave, group.lanes, members, opcode, line)
        step(group.lanes)
        return after

    return End(run, (after,), decoded)


def _check_members(wave: Wave, lanes: Lanes, members: int, opcode: str, line: int) -> None:
    """Fault for a thread that is not in its own member mask, whose behavior PTX leaves undefined."""
    mask = lanes.read(members)
    out: Bools = lanes.enabled() & (mask >> _LANES & np.uint32(1) == 0)
    if out.any():
        row, lane = divmod(int(out.argmax()), WARP)
        thread = wave.thread(int(lanes.row_numbers()[row]), lane)
        own = int(mask[row, lane])
        raise Fault(
            f"the member mask of {opcode} must include its own lane, {lane}, got 0x{own:x}", line, thread
        )


def together(scheduler: Scheduler, group: Group, opcode: str, line: int) -> bool:
    """Whether whole warps are in the group, as an `.aligned` instruction requires."""
    if group.lanes.mask is not None:
        if not scheduler.gather(group, None):
            return False
        if scheduler.wave.watch is not None:
            _notify_divergence(scheduler, group, opcode, line)
    return True


def _notify_divergence(scheduler: Scheduler, group: Group, opcode: str, line: int) -> None:
    """Reports a warp that is incomplete because threads have exited or never existed."""
    lanes = group.lanes
    partial: Bools = np.count_nonzero(lanes.enabled(), axis=1) < WARP
    watch = scheduler.wave.watch
    if watch is not None and partial.any():
        threads = lanes.narrowed(lanes.enabled() & partial[:, None]).threads()
        watch.divergence(opcode, threads, line)
