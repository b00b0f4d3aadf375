"""Dataflow over a program: which registers it may read before it has written them, and what results
it uses.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from weft.emulator.decoding.program import Program
from weft.emulator.watch import Traffic

_KEPT = 32
_WAITS = ("mbarrier.test_wait", "mbarrier.try_wait")
LOAD = "tcgen05.ld"
_LOADED = "tcgen05.wait::ld"
_FENCE = "tcgen05.fence"
_QUERY = "clusterlaunchcontrol.query_cancel"
_MATRIX = ("ldmatrix", "wgmma.mma_async")
_PICKS = ("prmt", "and", "lop3", "bfe", "bfi")


@dataclass(frozen=True)
class Watched:
    """The slots to watch while the program runs.

    `unwritten`: read although not every path has written them; `undefined`: these, and what is computed with
    them. `matrix`: operands of wgmma.mma_async, or copies of them. `loaded`: written by tcgen05.ld, or
    copies, and used before a tcgen05.wait::ld on some path. `loads_are_waited_for`: such a use is a mistake;
    compilers that emit no tcgen05.fence rely on the hardware, in which a read waits for the load. `operands`:
    the 32-bit operands of wgmma.mma_async alone.
    """

    unwritten: frozenset[int]
    undefined: frozenset[int]
    matrix: frozenset[int]
    loaded: frozenset[int] = frozenset()
    operands: frozenset[int] = frozenset()
    loads_are_waited_for: bool = False

    def __bool__(self) -> bool:
        return bool(self.undefined or self.matrix or self.loaded)

    @cached_property
    def _slots(self) -> frozenset[int]:
        return self.undefined | self.matrix | self.loaded

    def touches(self, traffic: Traffic) -> bool:
        """Whether an instruction uses a watched register."""
        used = *traffic.reads, *traffic.writes
        return traffic.prefix == "wgmma.mma_async" or not self._slots.isdisjoint(used)


NOTHING = Watched(frozenset(), frozenset(), frozenset())


@lru_cache(_KEPT)
def watched(program: Program) -> Watched:
    """The registers to watch in the kernel, without the functions that it calls."""
    operands = _operands(program)
    unwritten = frozenset(_unwritten(program))
    return Watched(
        unwritten,
        _computed(program, unwritten, following=False) if unwritten else unwritten,
        frozenset(_with_copies(program, operands) if operands else ()),
        frozenset(_loaded(program)),
        frozenset(operands),
        any(opcode.startswith(_FENCE) for block in program.blocks for opcode in block.opcodes),
    )


@lru_cache(_KEPT)
def followed(program: Program) -> Watched:
    """As `watched`, with what is loaded from shared memory or computed with it by matrix products."""
    known = watched(program)
    return replace(known, undefined=_computed(program, known.unwritten, following=True))


@lru_cache(_KEPT)
def constant_loads(program: Program) -> frozenset[int]:
    """The lines of loads that require memory which the kernel doesn't write."""
    every = (traffic for block in program.blocks for traffic in block.traffic)
    return frozenset(traffic.line for traffic in every if traffic.constant)


@lru_cache(_KEPT)
def matrix_loads(program: Program) -> dict[int, Traffic]:
    """The lines with one ldmatrix or wgmma.mma_async. In programs with functions, none is found."""
    every = [each for block in program.blocks for each in block.traffic if each.prefix in _MATRIX]
    lines = Counter(each.line for each in every)
    return {each.line: each for each in every if lines[each.line] == 1 and len(program.codes) == 1}


def is_copy(traffic: Traffic) -> bool:
    """Whether an instruction only moves registers, together with their state. A packed register counts as
    written if one of its parts was: compilers omit halves that nothing reads.
    """
    return traffic.prefix == "mov"


def computes(traffic: Traffic) -> bool:
    """Whether an instruction does nothing but compute registers, maybe with those of other lanes."""
    return traffic.pure or traffic.prefix == "shfl.sync"


def operands(traffic: Traffic) -> tuple[int, ...]:
    """The registers that an instruction reads, without its guard."""
    return traffic.reads if traffic.guard is None else traffic.reads[:-1]


def real_reads(traffic: Traffic) -> tuple[int, ...]:
    """The registers whose values matter. wgmma may ignore its accumulators, selp and slct ignore an operand,
    and instructions that pick bytes or bits may ignore those that were never written; compilers rely on that.
    """
    if traffic.prefix in _PICKS:
        return ()
    if traffic.prefix in ("selp", "slct"):
        return operands(traffic)[-1:]
    if traffic.prefix != "wgmma.mma_async":
        return operands(traffic)
    return tuple(slot for slot in operands(traffic) if slot not in traffic.writes)


def _kernel(program: Program) -> Iterator[int]:
    name = program.entry.function.name
    return (at for at, block in enumerate(program.blocks) if block.function == name)


def _flow(missing: set[int], traffic: Traffic) -> None:
    """Updates the registers that may be unwritten, for an instruction."""
    if is_copy(traffic) and traffic.reads and missing.issuperset(traffic.reads):
        missing.update(traffic.writes)
    elif _writes(traffic):
        missing.difference_update(traffic.writes)


def _writes(traffic: Traffic) -> bool:
    """Whether an instruction writes for all lanes. A response without a cluster has no coordinates; compilers
    compute with them all the same, and use the results only under the predicate of the query.
    """
    return not traffic.guard or traffic.prefix == _QUERY


def _unwritten(program: Program) -> set[int]:
    instructions = {at: program.blocks[at].traffic for at in _kernel(program)}
    uses = {at: _uses(traffic) for at, traffic in instructions.items()}
    before: dict[int, set[int]] = {at: set() for at in instructions}
    entry = program.entry.entry_block
    # Other registers are written wherever they are read, in the same block.
    read = set().union(*(first for first, _ in uses.values()))
    before[entry] = read.intersection(range(program.entry.base, program.entry.frame))
    waiting, seen = [entry], {entry}
    while waiting:
        at = waiting.pop()
        first, written = uses[at]
        missing = before[at] - written
        if not first.isdisjoint(before[at]):
            missing = set(before[at])
            for traffic in instructions[at]:
                _flow(missing, traffic)
        for target in program.blocks[at].end.targets:
            if target in before and (target not in seen or not missing <= before[target]):
                before[target] |= missing
                seen.add(target)
                waiting.append(target)
    slots: set[int] = set()
    for at, missing in before.items():
        for traffic in () if uses[at][0].isdisjoint(missing) else instructions[at]:
            slots |= missing.intersection((*real_reads(traffic), *(traffic.guard or ())[:1]))
            _flow(missing, traffic)
    return slots


def _uses(instructions: Iterable[Traffic]) -> tuple[set[int], set[int]]:
    """The registers that a block may read before it writes them, and those that it writes."""
    first: set[int] = set()
    written: set[int] = set()
    for traffic in instructions:
        first.update(slot for slot in traffic.reads if slot not in written)
        if _writes(traffic):
            written.update(traffic.writes)
    return first, written


def _operands(program: Program) -> set[int]:
    bits = program.slots.bits
    instructions = (traffic for at in _kernel(program) for traffic in program.blocks[at].traffic)
    return {
        slot
        for traffic in instructions
        if traffic.prefix == "wgmma.mma_async"
        for slot in (*traffic.reads, *traffic.writes)
        if bits[slot] == 32
    }


def _with_copies(program: Program, slots: set[int]) -> set[int]:
    """Registers and the registers that they are copied to or from."""
    closure = set(slots)
    copies = [
        {*traffic.reads, *traffic.writes}
        for at in _kernel(program)
        for traffic in program.blocks[at].traffic
        if is_copy(traffic)
    ]
    size = -1
    while size != len(closure):
        size = len(closure)
        for copy in copies:
            if closure & copy:
                closure |= copy
    return closure


def _computed(program: Program, unwritten: frozenset[int], *, following: bool) -> frozenset[int]:
    """Registers that may not have been written, and what is computed with them: see `followed`."""
    every = [traffic for at in _kernel(program) for traffic in program.blocks[at].traffic]
    flows = [each for each in every if computes(each) or (following and each.prefix == "mma")]
    loads = [each for each in every if following and (each.prefix in _MATRIX or each.space == "shared")]
    never, found, size = set(unwritten), {slot for each in loads for slot in each.writes}, -1
    while (never or found) and size != len(never) + len(found):
        size = len(never) + len(found)
        for traffic in flows:
            if not found.isdisjoint(operands(traffic)):
                found.update(traffic.writes)
            elif not never.isdisjoint(real_reads(traffic)):
                (never if is_copy(traffic) else found).update(traffic.writes)
    return frozenset(never | found)


def _loaded(program: Program) -> set[int]:
    """Registers of tcgen05.ld, and copies of them, that some path uses before tcgen05.wait::ld."""
    slots: set[int] = set()
    for at in _kernel(program):
        block = program.blocks[at]
        if block.waits == LOAD:
            slots |= _used_early(program, frozenset(block.traffic[-1].writes), block.end.targets)
    return slots


def _used_early(program: Program, loaded: frozenset[int], starts: tuple[int, ...]) -> frozenset[int]:
    """`loaded` and its copies, if a path from one of these blocks uses them before it waits."""
    slots, waiting, used = loaded, list(starts), False
    seen = dict.fromkeys(starts, slots)
    while waiting:
        block = program.blocks[waiting.pop()]
        if block.waits == _LOADED:
            continue
        for traffic in block.traffic:
            if is_copy(traffic) and slots.intersection(traffic.reads):
                slots = slots.union(traffic.writes)
            elif slots.intersection((*traffic.reads, *traffic.writes)):
                used = True
        for target in block.end.targets:
            if seen.get(target) != slots:
                seen[target] = slots
                waiting.append(target)
    return slots if used else frozenset()


def ignored_waits(program: Program) -> frozenset[int]:
    """The lines of waits for mbarriers whose result no instruction reads on any path."""
    waits: set[int] = set()
    for block in program.blocks:
        if block.waits in _WAITS and block.traffic[-1].writes:
            result = block.traffic[-1].writes[0]
            if not _is_read(program, result, block.end.targets):
                waits.add(block.line)
    return frozenset(waits)


def _is_read(program: Program, slot: int, starts: tuple[int, ...]) -> bool:
    """Whether a path from one of these blocks reads a register before it is written again."""
    waiting, seen = list(starts), set(starts)
    while waiting:
        block = program.blocks[waiting.pop()]
        goes_on = True
        for traffic in block.traffic:
            if slot in traffic.reads or (traffic.guard is not None and traffic.guard[0] == slot):
                return True
            if slot in traffic.writes and traffic.guard is None:
                goes_on = False
                break
        targets = block.end.targets if goes_on else ()
        waiting += [target for target in targets if target not in seen]
        seen.update(targets)
    return False
