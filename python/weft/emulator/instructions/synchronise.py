"""Barriers of a CTA and of a warp."""

from typing import TYPE_CHECKING

import numpy as np

from weft.emulator.barriers import BARRIERS, Reduction
from weft.emulator.decode import Op
from weft.emulator.errors import Fault
from weft.emulator.groups import Group
from weft.emulator.steps import nothing
from weft.emulator.table import Collective, End, Table
from weft.emulator.types import U32, Array

if TYPE_CHECKING:
    from weft.emulator.machine import Machine

table = Table()


@table.end("bar.sync", "barrier.sync", "bar.cta.sync", "barrier.cta.sync")
def sync(op: Op) -> End:
    op.flag("aligned")
    op.count(1, 2)
    return _barrier(op, 0, len(op.operands) == 2, waits=True)


@table.end("bar.arrive", "barrier.arrive", "bar.cta.arrive", "barrier.cta.arrive")
def arrive(op: Op) -> End:
    op.flag("aligned")
    op.count(2)
    return _barrier(op, 0, True, waits=False)


@table.end("bar.red", "barrier.red", "bar.cta.red", "barrier.cta.red")
def reduce(op: Op) -> End:
    """`bar.red.popc.u32 d, a{, b}, p` and `.and.pred`, `.or.pred`: over all threads that take part."""
    op.flag("aligned")
    operation = op.choice(["popc", "and", "or"])
    kind = op.type("u32" if operation == "popc" else "pred")
    op.count(3, 4)
    result = op.destination(0, kind)
    vote, negated = op.predicate(len(op.operands) - 1)
    return _barrier(op, 1, len(op.operands) == 4, True, (operation, result, vote, negated))


def _barrier(
    op: Op, first: int, counted: bool, waits: bool, vote: tuple[str, int, int, bool] | None = None
) -> End:
    number = op.source(first, U32)
    count = op.source(first + 1, U32) if counted else 0
    after, line = op.next, op.line

    def run(machine: "Machine", group: Group) -> int:
        lanes = group.lanes
        barrier = _uniform(machine, group, number, line)
        needed = _uniform(machine, group, count, line) if count else None
        if barrier >= BARRIERS:
            raise Fault(f"barrier {barrier} is none of the {BARRIERS}", line)
        if needed is not None:
            if needed % 32 or not needed:
                raise Fault(f"a barrier counts whole warps, got {needed} threads", line)
            needed //= 32
        reduction = None
        if vote is not None:
            operation, result, slot, negated = vote
            value = np.zeros((machine.wave.warps, 32), np.bool_)
            value[lanes.row_numbers()] = lanes.read(slot) ^ negated
            reduction = Reduction(operation, result, value)
        return machine.barriers.arrive(group, barrier, needed, after, waits, reduction)

    return End(run, (after,))


def _uniform(machine: "Machine", group: Group, slot: int, line: int) -> int:
    """The value of a register that all lanes agree on."""
    lanes = group.lanes
    values: Array = lanes.read(slot)
    enabled = lanes.enabled()
    first = int(values.flat[enabled.argmax()])
    if not ((values == first) | ~enabled).all():
        raise Fault("a barrier's number and count must be the same in all threads that come together", line)
    return first


@table.collective("bar.warp.sync")
def warp_sync(op: Op) -> Collective:
    op.count(1)
    return Collective(nothing, op.source(0, U32))
