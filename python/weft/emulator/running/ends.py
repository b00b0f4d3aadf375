"""What ends a block: going on, skipping under a guard, waiting for lanes, leaving a function."""

from typing import TYPE_CHECKING

import numpy as np

from weft.emulator.decoding.table import Collective, End
from weft.emulator.errors import Fault
from weft.emulator.reading.types import Bools
from weft.emulator.running.lanes import WARP

if TYPE_CHECKING:
    from weft.emulator.decoding.decode import FunctionCode
    from weft.emulator.running.groups import Group
    from weft.emulator.running.machine import Machine

_LANES = np.arange(WARP, dtype=np.uint32)


def jump(target: int) -> End:
    """Goes on with block `target`."""
    return End(lambda machine, group: target, (target,))


def leave(code: "FunctionCode") -> End:
    """Returns from a function; from a kernel, exits."""
    if code.function.is_entry:
        return End(lambda machine, group: machine.exit(group), ())
    return End(lambda machine, group: machine.leave(group), ())


def skip(end: End, predicate: int, negated: bool, after: int) -> End:
    """`end` for the threads whose predicate holds; the others go on with block `after`."""

    def run(machine: "Machine", group: "Group") -> int:
        lanes = group.lanes
        mask, count = lanes.guarded(predicate, negated)
        if count == 0:
            return after
        if count < lanes.active:
            machine.part(group, mask, after)
        return end.run(machine, group)

    return End(run, (*end.targets, after))


def collective(made: Collective, after: int) -> End:
    """A step that waits until its lanes stand together."""
    step, members = made.step, made.members

    def run(machine: "Machine", group: "Group") -> int:
        if made.warpgroup and group.lanes.rows is not None:
            machine.join(group)  # before their lanes are counted
        if group.lanes.mask is not None:
            if not machine.gather(group, members):
                return -1
            if members is None and machine.wave.watch is not None:
                _tell_divergence(machine, group)
        if made.warpgroup and not machine.gather_warpgroups(group):
            return -1
        if members is not None:
            _check_members(machine, group, members)
        step(group.lanes)
        return after

    return End(run, (after,), made)


def _check_members(machine: "Machine", group: "Group", members: int) -> None:
    """PTX leaves undefined what a thread does that its own member mask leaves out."""
    lanes = group.lanes
    mask = lanes.read(members)
    out: Bools = lanes.enabled() & (mask >> _LANES & np.uint32(1) == 0)
    if out.any():
        row, lane = divmod(int(out.argmax()), WARP)
        thread = machine.wave.thread(int(lanes.row_numbers()[row]), lane)
        block = machine.program.blocks[group.block]
        what = f"{block.waits} of lane {lane} with a member mask without it, 0x{int(mask[row, lane]):x}"
        raise Fault(what, block.line, thread)


def together(machine: "Machine", group: "Group") -> bool:
    """Whether the whole warps of a group are there, as an `.aligned` instruction takes them."""
    if group.lanes.mask is not None:
        if not machine.gather(group, None):
            return False
        if machine.wave.watch is not None:
            _tell_divergence(machine, group)
    return True


def _tell_divergence(machine: "Machine", group: "Group") -> None:
    """A whole warp was to come, and threads that are missing now have exited or never were."""
    lanes = group.lanes
    partial: Bools = np.count_nonzero(lanes.enabled(), axis=1) < WARP
    watch, block = machine.wave.watch, machine.program.blocks[group.block]
    if watch is not None and partial.any():
        threads = lanes.narrowed(lanes.enabled() & partial[:, None]).threads()
        watch.divergence(block.waits, threads, block.line)
