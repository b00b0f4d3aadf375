"""Branches, calls and exits."""

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.program import jump, leave
from weft.emulator.decoding.table import Collective, End, Step, Table, compute, nothing, notify
from weft.emulator.errors import Fault
from weft.emulator.reading.syntax import U32, U64, Name, Targets
from weft.emulator.running.groups import Group
from weft.emulator.running.lanes import Lanes
from weft.emulator.running.scheduler import Scheduler
from weft.isa.register_counts import COUNTS

table = Table()


@table.end("bra")
def bra(op: Op) -> End:
    op.flag("uni")
    op.count(1)
    return jump(op.label(op.operand(0)))


@table.end("brx.idx")
def brx(op: Op) -> End:
    """Branches to the entry of a table that each thread's index selects."""
    op.flag("uni")
    op.count(2)
    name = op.operand(1)
    listed = op.entity(name) if isinstance(name, Name) else None
    if not isinstance(listed, Targets):
        op.fail("expects a table of targets", name.location)
    targets = [op.label(target) for target in listed.names]
    index, line = op.source(0, U32), op.line

    def run(scheduler: Scheduler, group: Group) -> int:
        while True:
            lanes = group.lanes
            values, enabled = lanes.read(index), lanes.enabled()
            first = int(values.flat[enabled.argmax()])
            if first >= len(targets):
                what = f"the index of brx.idx must be in 0..{len(targets) - 1}, got {first}"
                raise Fault(what, line, lanes.first())
            same = enabled & (values == first)
            if np.array_equal(same, enabled):
                return targets[first]
            rest = enabled & ~same
            scheduler.part(group, rest, targets[first])

    return End(run, tuple(targets))


@table.end("exit")
def exit_(op: Op) -> End:
    op.count(0)
    return End(lambda scheduler, group: scheduler.exit(group), ())


@table.end("ret")
def ret(op: Op) -> End:
    op.flag("uni")
    op.count(0)
    return leave(op.code)


@table.step("trap")
def trap(op: Op) -> Step:
    op.count(0)
    line = op.line

    def run(lanes: Lanes) -> None:
        raise Fault("trap", line, lanes.first())

    return run


@table.step("griddepcontrol")
def griddepcontrol(op: Op) -> Step:
    """A launch runs alone, so there is nothing to wait for."""
    which = op.choice(["launch_dependents", "wait"])
    op.count(0)
    return notify(lambda watch, threads: watch.waited(threads, op.line)) if which == "wait" else nothing


@table.collective("setmaxnreg")
def setmaxnreg(op: Op) -> Collective:
    """Registers are not limited here; the sanitizer checks whether a CTA would have them."""
    grows = op.choice(["inc", "dec"]) == "inc"
    op.flag("sync")
    op.flag("aligned")
    op.type("u32")
    op.count(1)
    count = op.immediate(0)
    if count not in COUNTS:
        legal = f"a multiple of {COUNTS.step} in {COUNTS[0]}..{COUNTS[-1]}"
        op.fail(f"the register count must be {legal}, got {count}")
    return Collective(notify(lambda watch, threads: watch.registers_changed(grows, count, threads, op.line)))


@table.step("nanosleep")
def nanosleep(op: Op) -> Step:
    """Lets other groups run first, because a thread that sleeps waits for something."""
    op.type("u32")
    op.count(1)
    op.source(0, U32)

    def run(lanes: Lanes) -> None:
        lanes.wave.ticks += 200

    return run


_ADVICE = dict.fromkeys(("prefetch", "prefetchu", "pmevent"), (1, 1)) | {"brkpt": (0, 0)}
_ADVICE |= {"discard": (2, 2), "applypriority": (2, 2), "createpolicy": (1, 4)}
"""The least and the greatest number of operands of each."""


@table.step(*_ADVICE)
def advice(op: Op) -> Step:
    """Hints to caches and debuggers, without effect on results."""
    op.modifiers.clear()
    op.count(*_ADVICE[op.prefix])
    if op.prefix == "createpolicy":
        result = op.destination(0, U64)
        return compute(result, np.positive, op.slots.constant(0, U64))
    return nothing
