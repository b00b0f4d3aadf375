"""Loads whose value some lanes discard. For lanes that a mask leaves out, compilers load from any legal
address, such as the start of a matrix, and then select another value.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from weft.emulator.decoding.program import Program
from weft.emulator.watch import Traffic

_KEPT = 32
_LOADS = ("ld", "ldu", "cp", "wmma", "multimem", "tensormap", "call")
"""The first words of instructions that read memory."""
_Place = tuple[int, int]
"""A block, and the index of an instruction in its `traffic`."""


class Use(NamedTuple):
    """The lanes that use what they load: those whose predicate, a slot, has this value."""

    predicate: int
    value: bool


@lru_cache(_KEPT)
def discarding(program: Program) -> dict[int, Use]:
    """The lines of loads that some lanes discard, and which lanes use them: a predicate that doesn't change
    between selects what is loaded wherever it is read. In programs with functions, none is found.
    """
    if len(program.codes) > 1:
        return {}
    reading = Counter(
        traffic.line for _, traffic in _instructions(program) if traffic.prefix.partition(".")[0] in _LOADS
    )
    flow, uses = _Flow(program), dict[int, Use]()
    for place, traffic in _instructions(program):
        if traffic.prefix in ("ld", "ldu") and reading[traffic.line] == 1:
            use = flow.use(place)
            if use is not None:
                uses[traffic.line] = use
    return uses


class _Flow:
    """The instructions that read and write each register."""

    def __init__(self, program: Program) -> None:
        self._blocks = program.blocks
        self._readers: dict[int, list[_Place]] = defaultdict(list)
        self._writers: dict[int, list[_Place]] = defaultdict(list)
        for place, traffic in _instructions(program):
            for slot in {*traffic.reads, *(traffic.guard or ())[:1]}:
                self._readers[slot].append(place)
            for slot in traffic.writes:
                self._writers[slot].append(place)

    def use(self, load: _Place) -> Use | None:
        """Which lanes use what they load; None: maybe all. Other writers of the registers may change them, so
        there must be none.
        """
        block, index = load
        uses: set[Use | None] = set()
        readers: set[_Place] = set()
        for slot in self._blocks[block].traffic[index].writes:
            if self._writers[slot] != [load]:
                return None
            for reader in self._readers[slot]:
                at, number = reader
                uses.add(_use_of(slot, self._blocks[at].traffic[number]))
                readers.add(reader)
        if len(uses) != 1:
            return None
        (use,) = uses
        if use is None or len(self._writers[use.predicate]) != 1:
            return None
        (begin,) = self._writers[use.predicate]
        return None if self._leads(begin, readers, load) else use

    def _leads(self, begin: _Place, ends: set[_Place], without: _Place) -> bool:
        """Whether a path leads from an instruction to one of `ends`, without another one before that."""
        stops = {at for at, _ in (*ends, without)}
        waiting, seen = [(begin[0], begin[1] + 1)], set[int]()
        while waiting:
            at, first = waiting.pop()
            block = self._blocks[at]
            found = None
            if at in stops:
                places = ((at, number) for number in range(first, len(block.traffic)))
                found = next((each for each in places if each == without or each in ends), None)
            if found is None:
                targets = set(block.end.targets if block.end is not None else ()) - seen
                seen |= targets
                waiting += [(target, 0) for target in targets]
            elif found != without:
                return True
        return False


def _instructions(program: Program) -> Iterator[tuple[_Place, Traffic]]:
    for at, block in enumerate(program.blocks):
        for number, traffic in enumerate(block.traffic):
            yield (at, number), traffic


def _use_of(slot: int, traffic: Traffic) -> Use | None:
    """Which lanes of an instruction that reads a register use its value; None: maybe all."""
    if traffic.guard is not None:
        predicate, negated = traffic.guard
        return None if predicate == slot else Use(predicate, not negated)
    if traffic.selects is None:
        return None
    true, false, predicate = traffic.selects
    return None if true == false else Use(predicate, true == slot)
