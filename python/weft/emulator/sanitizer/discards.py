"""Loads whose value some lanes discard. For lanes that a mask leaves out, compilers load from any legal
address, such as the start of a matrix, and then select another value. Where several threads have the same
values, they load and compute all of them, and only one of these threads stores its own.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from weft.emulator.decoding.program import Program
from weft.emulator.decoding.table import Step, Table
from weft.emulator.instructions import (
    bits,
    compare,
    convert,
    convert_packed,
    floating,
    integer,
    move,
    transcendental,
    video,
)
from weft.emulator.watch import Traffic

_KEPT = 32
_LOADS = ("ld", "ldu", "cp", "wmma", "multimem", "tensormap", "call")
"""The first words of instructions that read memory."""
_COMPUTE = (move, bits, integer, floating, transcendental, video, compare, convert, convert_packed)
_PURE = Table(*(part.table for part in _COMPUTE))
"""The instructions that only compute registers of their own lane."""
_Place = tuple[int, int]
"""A block, and the index of an instruction in its `traffic`."""


class Use(NamedTuple):
    """The lanes that use what they load: those whose predicate, a slot, has this value."""

    predicate: int
    value: bool


@lru_cache(_KEPT)
def discarding(program: Program) -> dict[int, Use]:
    """The lines of loads that some lanes discard, and which lanes use them: a predicate that doesn't change
    between decides wherever what was computed with the value is selected, stored or used otherwise. In
    programs with functions, none is found.
    """
    if len(program.codes) > 1:
        return {}
    flow, uses, lines = _Flow(program), dict[int, Use](), lines_of_loads(program)
    for place, traffic in _instructions(program):
        if traffic.prefix in ("ld", "ldu") and traffic.line in lines:
            use = flow.use(place)
            if use is not None:
                uses[traffic.line] = use
    return uses


def lines_of_loads(program: Program) -> set[int]:
    """The lines with one instruction that reads memory."""
    found = Counter(
        traffic.line for _, traffic in _instructions(program) if traffic.prefix.partition(".")[0] in _LOADS
    )
    return {line for line, count in found.items() if count == 1}


def early(program: Program) -> tuple[Step, ...]:
    """Steps that compute those predicates of `discarding` which a thread never changes: loads that stand
    before these steps need them.
    """
    flow, places = _Flow(program), dict[_Place, None]()
    for use in discarding(program).values():
        places |= dict.fromkeys(flow.constant(use.predicate) or ())
    return tuple(program.blocks[at].steps[number] for at, number in places)


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

    def _traffic(self, place: _Place) -> Traffic:
        return self._blocks[place[0]].traffic[place[1]]

    def use(self, load: _Place) -> Use | None:
        """Which lanes use what they load; None: maybe all. A selection is a use, or computes."""
        return self._use(load, True) or self._use(load, False)

    def _use(self, load: _Place, selected: bool) -> Use | None:
        waiting = list(self._traffic(load).writes)
        seen, ends = set(waiting), set[_Place]()
        common: dict[Use, None] | None = None
        while waiting:
            slot = waiting.pop()
            for reader in self._readers[slot]:
                traffic = self._traffic(reader)
                use = _use_of(slot, traffic) if selected or traffic.guard is not None else None
                if use is not None:
                    ends.add(reader)
                    mine = self._implied(use)
                    common = mine if common is None else {each: None for each in common if each in mine}
                elif not _is_pure(traffic):
                    return None
                else:
                    waiting += [each for each in traffic.writes if each not in seen]
                    seen.update(traffic.writes)
                if common is not None and not common:
                    return None
        return next((each for each in common or () if self._stays(each, ends, load)), None)

    def _implied(self, use: Use) -> dict[Use, None]:
        """The predicate of a use, and those without which it wouldn't have this value."""
        found, waiting = {use: None}, [use]
        while waiting:
            predicate, value = waiting.pop()
            writers = [self._traffic(place) for place in self._writers[predicate]]
            if len(writers) == 1 and writers[0].guard is None and writers[0].prefix == ("or", "and")[value]:
                more = [Use(slot, value) for slot in writers[0].reads]
                waiting += [each for each in more if each not in found]
                found |= dict.fromkeys(more)
        return found

    def _stays(self, use: Use, ends: set[_Place], load: _Place) -> bool:
        """Whether a predicate has the same value at a load and where its value is used."""
        if len(self._writers[use.predicate]) != 1:
            return False
        (begin,) = self._writers[use.predicate]
        return not self._leads(begin, ends, load) or self.constant(use.predicate) is not None

    def constant(self, slot: int) -> list[_Place] | None:
        """The instructions that compute a register which a thread never changes, in order; None if it may."""
        order: dict[_Place, None] = {}
        path: set[int] = set()

        def compute(slot: int) -> bool:
            writers = self._writers[slot]
            if len(writers) != 1 or slot in path:
                return False
            (place,) = writers
            traffic = self._traffic(place)
            fixed = _is_pure(traffic) and traffic.guard is None and self._blocks[place[0]].pure
            path.add(slot)
            if not fixed or not all(map(compute, traffic.reads)):
                return False
            path.discard(slot)
            order[place] = None
            return True

        return list(order) if compute(slot) else None

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


def _is_pure(traffic: Traffic) -> bool:
    return traffic.prefix in _PURE.steps or traffic.prefix in _PURE.floats


def _use_of(slot: int, traffic: Traffic) -> Use | None:
    """Which lanes of an instruction that reads a register use its value; None: maybe all."""
    if traffic.guard is not None:
        predicate, negated = traffic.guard
        return None if predicate == slot else Use(predicate, not negated)
    if traffic.selects is None or slot == traffic.selects[2]:
        return None
    true, false, predicate = traffic.selects
    return None if true == false else Use(predicate, true == slot)
