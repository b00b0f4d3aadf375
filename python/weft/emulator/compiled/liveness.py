"""The registers whose values may be read later, as sets of bits. Code doesn't write the others."""

from collections.abc import Sequence

from weft.emulator.decoding.program import Program
from weft.emulator.watch import Traffic


class Liveness:
    """What is live in a program of one function. Slots that aren't registers of the function always are."""

    def __init__(self, program: Program) -> None:
        entry, self._blocks = program.entry, program.blocks
        everything = (1 << len(program.slots.bits)) - 1
        registers = (1 << entry.frame) - (1 << entry.base)
        self._always = everything & ~registers
        self._into = [0] * len(self._blocks)
        grows = True
        while grows:
            grows = False
            for at in range(len(self._blocks) - 1, -1, -1):
                now = _before(self._blocks[at].traffic, self._after(at))
                if now != self._into[at]:
                    self._into[at], grows = now, True

    def _after(self, block: int) -> int:
        end = self._blocks[block].end
        live = 0
        for target in end.targets if end is not None else ():
            live |= self._into[target]
        return live

    def before(self, block: int) -> list[int]:
        """What is live before each instruction of a block, and after the last."""
        traffic, live = self._blocks[block].traffic, self._after(block)
        found = [live | self._always]
        for each in reversed(traffic):
            live = _before([each], live)
            found.append(live | self._always)
        return found[::-1]


def _before(traffic: Sequence[Traffic], live: int) -> int:
    for each in reversed(traffic):
        if each.guard is None:
            for slot in each.writes:
                live &= ~(1 << slot)
        else:
            live |= 1 << each.guard[0]
        for slot in each.reads:
            live |= 1 << slot
    return live
