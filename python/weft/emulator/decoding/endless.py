"""Loops that can't end because no iteration changes anything: what is left of a wait whose instruction is
missing.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from weft.emulator.decoding.blocks import Block
from weft.emulator.decoding.table import End
from weft.emulator.errors import Fault
from weft.emulator.reading.types import Bools
from weft.emulator.running.groups import Group
from weft.emulator.running.scheduler import Scheduler
from weft.emulator.watch import Traffic

_PURE = {
    *("bra", "mov", "cvt", "selp", "slct", "setp", "set", "not", "neg", "abs", "and", "or", "xor", "lop3"),
    *("shl", "shr", "shf", "prmt", "bfe", "bfi", "add", "sub", "mul", "mad", "fma", "min", "max", "cvta"),
}
"""Instructions whose results depend on nothing but their registers. Of `mov`, those of clocks don't; the
blocks that have one are not `pure`.
"""


def mark(blocks: Sequence[Block], first: int) -> None:
    """Makes the endless loops of a function a fault where they begin again; block `first` is its entry."""
    before: dict[int, list[int]] = defaultdict(list)
    for at, block in enumerate(blocks):
        for target in block.end.targets if block.end is not None else ():
            before[target - first].append(at)
    for at, block in enumerate(blocks):
        for target in dict.fromkeys(block.end.targets if block.end is not None else ()):
            head = target - first
            if blocks[head].rank <= block.rank and _is_endless(_loop(head, at, before), head, blocks, before):
                _end(block, target)


def _loop(head: int, last: int, before: dict[int, list[int]]) -> set[int]:
    """The blocks between `head` and `last`, which leads back to it."""
    inside, waiting = {head}, [last]
    while waiting:
        at = waiting.pop()
        if at not in inside:
            inside.add(at)
            waiting += before[at]
    return inside


def _is_endless(inside: set[int], head: int, blocks: Sequence[Block], before: dict[int, list[int]]) -> bool:
    """Whether control enters at the head alone, and each iteration computes the same values."""
    if any(set(before[at]) - inside for at in inside if at != head):
        return False
    members = [blocks[at] for at in inside]
    if not all(block.pure and _PURE.issuperset(block.opcodes) for block in members):
        return False
    written = {slot for block in members for traffic in block.traffic for slot in traffic.writes}
    return not any(slot in written for block in members for slot in _needed(block.traffic))


def _needed(traffic: Sequence[Traffic]) -> Iterator[int]:
    """The registers that a block reads before it has written them."""
    known: set[int] = set()
    for each in traffic:
        guard = each.guard[:1] if each.guard is not None else ()
        yield from (slot for slot in (*each.reads, *guard) if slot not in known)
        if each.guard is None:
            known.update(each.writes)
        else:
            yield from (slot for slot in each.writes if slot not in known)


def _end(block: Block, head: int) -> None:
    """Raises a fault for the threads that go on from a block to the head of its loop."""
    end, line = block.end, block.line
    guard = block.traffic[-1].guard if block.traffic and block.opcodes[-1] == "bra" else None
    assert end is not None
    if block.traffic:
        line = block.traffic[-1].line

    def run(scheduler: Scheduler, group: Group) -> int:
        lanes = group.lanes
        going: Bools = lanes.enabled()
        if guard is not None:
            taken, _ = lanes.guarded(*guard)
            going = going & (taken if end.targets[0] == head else ~taken)
        if going.any():
            row, lane = divmod(int(going.argmax()), 32)
            thread = lanes.wave.thread(int(np.asarray(lanes.row_numbers())[row]), lane)
            raise Fault(
                "the loop never ends: no instruction in it changes anything", line, thread, rule="endless"
            )
        return end.run(scheduler, group)

    block.end = End(run, end.targets, end.collective)
