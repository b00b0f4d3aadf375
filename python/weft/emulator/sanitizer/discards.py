"""Loads whose value some lanes discard. For lanes that a mask leaves out, compilers load from any legal
address, such as the start of a matrix, and then select another value. Where several threads have the same
values, they load and compute all of them, and only one of these threads stores its own. What a branch on
such a value decides about is computed with it, too.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import NamedTuple

from weft.emulator.decoding.program import Program
from weft.emulator.decoding.table import Step
from weft.emulator.watch import Traffic

_KEPT = 32
_LOADS = ("ld", "ldu", "cp", "wmma", "multimem", "tensormap", "call")
"""The first words of instructions that read memory."""
_OWN_SPACES = ("local", "const", "param")
_ENDS = ("bra", "ret", "exit")
_LOCAL = -1
"""Stands for a register that has all of a thread's local memory."""
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
        if traffic.space in ("global", "generic") and traffic.writes and traffic.line in lines:
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
    if not (uses := discarding(program)):
        return ()
    flow, places = _Flow(program), dict[_Place, None]()
    for use in uses.values():
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
            if traffic.writes and traffic.space in ("local", "generic"):
                self._readers[_LOCAL].append(place)

    def _traffic(self, place: _Place) -> Traffic:
        return self._blocks[place[0]].traffic[place[1]]

    def use(self, load: _Place) -> Use | None:
        """Which lanes use what they load; None: maybe all. A selection is a use, or computes."""
        return self._use(load, True) or self._use(load, False)

    def _use(self, load: _Place, selected: bool) -> Use | None:
        waiting: list[tuple[int | None, _Place]] = []
        seen, ends, branches = set[int](), set[_Place](), set[_Place]()
        common: dict[Use, None] | None = None

        def computed(traffic: Traffic) -> None:
            for slot in traffic.writes or ((_LOCAL,) if traffic.space == "local" else ()):
                if slot not in seen:
                    seen.add(slot)
                    waiting.extend((slot, reader) for reader in self._readers[slot])

        computed(self._traffic(load))
        while waiting:
            slot, reader = waiting.pop()
            traffic = self._traffic(reader)
            if traffic.prefix in _ENDS:
                if slot is not None and reader not in branches:
                    branches.add(reader)
                    waiting += [(None, each) for each in self._depending(reader[0])]
                continue
            counts = traffic.guard is not None or (selected and slot is not None)
            use = _use_of(slot, traffic) if counts else None
            if use is not None:
                ends.add(reader)
                mine = self._implied(use)
                common = mine if common is None else {each: None for each in common if each in mine}
            elif traffic.pure or traffic.space in _OWN_SPACES or (traffic.constant and traffic.writes):
                computed(traffic)  # it matters only to its lane, and only by what it writes
            else:
                return None
            if common is not None and not common:
                return None
        return next((each for each in common or () if self._stays(each, ends, load)), None)

    def _depending(self, block: int) -> Iterator[_Place]:
        """The instructions that the branch at a block's end decides about: those before its ways meet."""
        meet = self._after[block] & ~(1 << block)
        waiting = list(self._blocks[block].end.targets)
        seen = set[int]()
        while waiting:
            at = waiting.pop()
            if at in seen or meet >> at & 1:
                continue
            seen.add(at)
            waiting += self._blocks[at].end.targets
            yield from ((at, number) for number in range(len(self._blocks[at].traffic)))

    @cached_property
    def _after(self) -> list[int]:
        """The blocks that every way from a block leads through, and itself, as bits."""
        every = (1 << len(self._blocks)) - 1
        after = [every if self._blocks[at].end.targets else 1 << at for at in range(len(self._blocks))]
        changed = True
        while changed:
            changed = False
            for at in range(len(after) - 1, -1, -1):
                new = every
                for target in self._blocks[at].end.targets:
                    new &= after[target]
                new = new | 1 << at if self._blocks[at].end.targets else after[at]
                changed |= new != after[at]
                after[at] = new
        return after

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
            fixed = traffic.pure and traffic.guard is None and self._blocks[place[0]].pure
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
                targets = set(block.end.targets) - seen
                seen |= targets
                waiting += [(target, 0) for target in targets]
            elif found != without:
                return True
        return False


def _instructions(program: Program) -> Iterator[tuple[_Place, Traffic]]:
    for at, block in enumerate(program.blocks):
        for number, traffic in enumerate(block.traffic):
            yield (at, number), traffic


def _use_of(slot: int | None, traffic: Traffic) -> Use | None:
    """Which lanes of an instruction that reads a register use its value; None: maybe all."""
    if traffic.guard is not None:
        predicate, negated = traffic.guard
        return None if predicate == slot else Use(predicate, not negated)
    if traffic.selects is None or slot == traffic.selects[2]:
        return None
    true, false, predicate = traffic.selects
    return None if true == false else Use(predicate, true == slot)
