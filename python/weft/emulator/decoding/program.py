"""Turns a kernel's syntax tree, and the functions that it calls, into blocks of decoded instructions.

What ends a block: jumping, skipping under a guard, waiting for lanes, leaving a function. Loops that
can't end because no iteration changes anything: what is left of a wait whose instruction is missing.

The order in which the scheduler prefers blocks, so that threads that diverged meet again.

A block's rank is its position in a topological order of the flow graph in which every loop is contiguous.
Threads at a lower rank run first. So the first thread to reach a block waits there for all threads that may
still reach it, and a thread that leaves a loop waits for the loop: threads reconverge at the earliest
possible point, in irreducible graphs too. The order is only a preference. Every thread has its own program
counter, so no order can make a program wrong, and time slices (see `machine`) keep a loop that waits for
other threads from starving them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from weft.emulator.decoding.blocks import Block
from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import UNENDED, Collective, Decoder, End, Flow, Table, guarded
from weft.emulator.errors import Fault, PtxError
from weft.emulator.memory.segments import LEVELS
from weft.emulator.reading import parser
from weft.emulator.reading.syntax import (
    PRED,
    Bools,
    Entity,
    Function,
    Instruction,
    Label,
    Name,
    Register,
    SymbolValue,
    Targets,
    Tree,
    Variable,
)
from weft.emulator.running.ctas import Slots
from weft.emulator.running.function_code import MAX_FRAME, FunctionCode
from weft.emulator.running.groups import Group
from weft.emulator.running.lanes import WARP, Lanes
from weft.emulator.running.scheduler import Scheduler
from weft.emulator.watch import Traffic
from weft.isa import availability, illegal, tables


def ranks(successors: Sequence[Sequence[int]], entry: int) -> list[int]:
    """The rank of every node; unreachable nodes come last."""
    order: list[int] = []
    # The entry may be in a loop, which must stay contiguous: control comes from a node before it.
    start = len(successors)
    successors = [*successors, [entry]]
    # Each item is a set of nodes that is still to be ordered, and the node at which control enters it.
    work: list[tuple[set[int], int]] = [(_reachable(successors, start), start)]
    while work:
        nodes, head = work.pop()
        if len(nodes) == 1:
            order += nodes
            continue
        # Without the edges back to the head, the loop's body splits into smaller components.
        inner = {n: [s for s in successors[n] if s in nodes and s != head] for n in nodes}
        parts = _components(inner, head)
        heads = _heads(parts, nodes, successors, head)
        work += [(set(part), first) for part, first in zip(parts[::-1], heads[::-1], strict=True)]
    seen = set(order)
    order += [n for n in range(start) if n not in seen]
    rank = [0] * start
    for position, node in enumerate(order[1:]):
        rank[node] = position
    return rank


def _heads(
    parts: Sequence[Sequence[int]], nodes: set[int], successors: Sequence[Sequence[int]], head: int
) -> list[int]:
    """The entry of each component: its first node, in text order, that another component leads to."""
    owner = {node: i for i, part in enumerate(parts) for node in part}
    heads: dict[int, int] = {}
    for node in nodes:
        for after in successors[node]:
            part = owner.get(after)
            if part is not None and part != owner[node]:
                heads[part] = min(after, heads.get(part, after))
    heads[owner[head]] = head
    return [heads.get(i, min(part)) for i, part in enumerate(parts)]


def _reachable(successors: Sequence[Sequence[int]], entry: int) -> set[int]:
    seen, stack = {entry}, [entry]
    while stack:
        for after in successors[stack.pop()]:
            if after not in seen:
                seen.add(after)
                stack.append(after)
    return seen


def _components(graph: dict[int, list[int]], first: int) -> list[list[int]]:
    """Strongly connected components in topological order (Tarjan's algorithm, with its own stack)."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    open_: list[int] = []
    open_at: dict[int, int] = {}
    components: list[list[int]] = []
    for root in [first, *sorted(graph)]:
        if root in number:
            continue
        calls = [(root, 0)]
        while calls:
            node, at = calls.pop()
            if at == 0:
                number[node] = low[node] = len(number)
                open_at[node] = len(open_)
                open_.append(node)
            for i in range(at, len(graph[node])):
                after = graph[node][i]
                if after not in number:
                    calls += [(node, i + 1), (after, 0)]
                    break
                if after in open_at:
                    low[node] = min(low[node], number[after])
            else:
                if low[node] == number[node]:
                    cut = open_at[node]
                    components.append(open_[cut:])
                    for closed in open_[cut:]:
                        del open_at[closed]
                    del open_[cut:]
                if calls:
                    low[calls[-1][0]] = min(low[calls[-1][0]], low[node])
    return components[::-1]


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
            _check_members(group.lanes, members, opcode, line)
        step(group.lanes)
        return after

    return End(run, (after,), decoded)


def _check_members(lanes: Lanes, members: int, opcode: str, line: int) -> None:
    """Fault for a thread that is not in its own member mask, whose behavior PTX leaves undefined."""
    mask = lanes.read(members)
    out: Bools = lanes.enabled() & (mask >> _LANES & np.uint32(1) == 0)
    if out.any():
        lane, own = int(out.argmax()) % WARP, int(mask[out][0])
        what = f"the member mask of {opcode} must include its own lane, {lane}, got 0x{own:x}"
        raise Fault(what, line, lanes.first(out))


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


_PURE = {
    *("bra", "mov", "cvt", "selp", "slct", "setp", "set", "not", "neg", "abs", "and", "or", "xor", "lop3"),
    *("shl", "shr", "shf", "prmt", "bfe", "bfi", "add", "sub", "mul", "mad", "fma", "min", "max", "cvta"),
}
"""Instructions whose results depend only on registers, except `mov` of clocks, which isn't `pure`."""


def mark(blocks: Sequence[Block], first: int) -> None:
    """Makes the endless loops of a function a fault where they begin again; block `first` is its entry."""
    before: dict[int, list[int]] = defaultdict(list)
    for at, block in enumerate(blocks):
        for target in block.end.targets:
            before[target - first].append(at)
    for at, block in enumerate(blocks):
        for target in dict.fromkeys(block.end.targets):
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
    if block.traffic:
        line = block.traffic[-1].line

    def run(scheduler: Scheduler, group: Group) -> int:
        lanes = group.lanes
        going: Bools = lanes.enabled()
        if guard is not None:
            taken, _ = lanes.guarded(*guard)
            going = going & (taken if end.targets[0] == head else ~taken)
        if going.any():
            what = "the loop never ends: no instruction in it changes anything"
            raise Fault(what, line, lanes.first(going), rule="endless")
        return end.run(scheduler, group)

    block.end = End(run, end.targets, end.collective)


_FRAME_ALIGN = 16
_CTA_GROUP = "cta_group::"
_CHANGING = ("%clock", "%globaltimer", "%pm", "%warpid", "%nwarpid", "%smid", "%nsmid")
"""Special registers that may have another value each time."""
_Named = Entity | str


class Program:
    """A kernel ready to run: blocks, the widths of its register slots, and what its CTAs need.

    `shared_static` is the size of the declared shared memory in bytes; dynamic shared memory follows it, at
    `shared_dynamic`. The program runs as `chip`. `table` has the decoders of all instructions,
    and `scopes` the levels of scopes.
    """

    def __init__(
        self, tree: Tree, entry: Function, chip: str, table: Table, scopes: Mapping[str, int] = LEVELS
    ) -> None:
        self._table, self.scopes = table, scopes
        self.tier: object = None
        """How it is compiled. It lives as long as the program."""
        self._decoders: dict[str, tuple[str, Decoder]] = {}
        self._named: dict[str, dict[int, list[_Named]]] = {}
        self.target, self.chip, self._version = tree.target, chip, tree.version
        self.slots = Slots()
        self.blocks: list[Block] = []
        self.codes: dict[str, FunctionCode] = {}
        self._collect(tree, entry)
        _check_cta_group([code.function for code in self.codes.values()])
        self.params: list[Variable] = [p for p in entry.params if isinstance(p, Variable)]
        self.params_size = layout(self.params, 0)
        self._lay_out_shared()
        for code in self.codes.values():
            _lay_out_frame(code)
        # All functions are split before any is decoded, because calls need the callee's first block.
        parts = {name: self._split(code) for name, code in self.codes.items()}
        for name, code in self.codes.items():
            self._decode(code, parts[name])
        self.entry = self.codes[entry.name]

    # Functions

    def _collect(self, tree: Tree, entry: Function) -> None:
        waiting = [entry]
        while waiting:
            function = waiting.pop()
            if function.name in self.codes:
                continue
            # Looking up the names creates the registers of ranges, which the code counts.
            named = _named(function)
            for entity in (entity for found in named.values() for entity in found):
                if isinstance(entity, Function) and not entity.is_entry:
                    callee = tree.functions[entity.name]
                    if callee.body is not None:
                        waiting.append(callee)
            self.codes[function.name] = FunctionCode(function, self.slots, self.scopes)
            self._named[function.name] = named
            if _calls_pointers(function):
                waiting += _pointed(tree)
        pointed = [code for code in self.codes.values() if not code.function.is_entry]
        for code in self.codes.values():
            code.callees, code.pointed = self.codes, pointed
            code.recursive = not code.function.is_entry and _calls_itself(code.function, tree)

    def _lay_out_shared(self) -> None:
        used: dict[int, Variable] = {}
        for code in self.codes.values():
            for variable in code.function.variables:
                if variable.space == "shared":
                    used[id(variable)] = variable
            for entity in (each for found in self._named[code.function.name].values() for each in found):
                if isinstance(entity, Variable) and entity.space == "shared":
                    used[id(entity)] = entity
        self.shared_static = layout([v for v in used.values() if not v.external], 0)
        dynamic = [v for v in used.values() if v.external]
        self.has_dynamic_shared = bool(dynamic)
        align = max([v.align for v in dynamic], default=1)
        self.shared_dynamic = -(-self.shared_static // align) * align
        for variable in dynamic:  # which an H200 aligns each by itself
            variable.offset = -(-self.shared_static // variable.align) * variable.align

    # Blocks

    def _split(self, code: FunctionCode) -> list[tuple[int, int]]:
        """Numbers the blocks of a function and returns the positions of each."""
        body = code.function.body or []
        starts = {0, len(body)}
        for at, found in self._named[code.function.name].items():
            starts.update(_targets(body[at], found))
        for at, instruction in enumerate(body):
            prefix, _ = self._decoder(instruction)
            if prefix in self._table.ends or prefix in self._table.collectives:
                starts.add(at + 1)
                # An instruction that waits for other lanes runs again when they arrive, so it has a block
                # of its own. So have calls through pointers, for threads that call another function.
                alone = prefix in self._table.collectives or prefix in self._table.waits
                if alone or _is_indirect(instruction):
                    starts.add(at)
        ordered = sorted(starts)
        for start in ordered:
            code.blocks[start] = len(self.blocks)
            self.blocks.append(Block(code.function.name))
        code.entry_block = code.blocks[0]
        return list(zip(ordered, [*ordered[1:], len(body)], strict=True))

    def _decode(self, code: FunctionCode, parts: list[tuple[int, int]]) -> None:
        body, named = code.function.body or [], self._named[code.function.name]
        first = code.entry_block
        for start, stop in parts:
            block = self.blocks[code.blocks[start]]
            block.line = body[start].location.line if start < len(body) else code.function.location.line
            after = code.blocks[stop]
            for at in range(start, stop):
                self._decode_one(code, code.blocks[start], body[at], after)
                texts = [each for each in named.get(at, ()) if isinstance(each, str)]
                if any(text.startswith(_CHANGING) for text in texts):
                    block.pure = False
            if block.end is UNENDED:
                block.end = jump(after) if stop > start else leave(code)
        blocks = self.blocks[first : first + len(parts)]
        edges = [[to - first for to in block.end.targets] for block in blocks]
        for block, rank in zip(blocks, ranks(edges, 0), strict=True):
            block.rank = rank
        mark(blocks, first)

    def _decode_one(self, code: FunctionCode, at: int, instruction: Instruction, after: int) -> None:
        block = self.blocks[at]
        prefix, decoder = self._decoder(instruction)
        op = Op(instruction, prefix, code, self.target, self.chip, self._version)
        in_tables = op.head in tables.HEADS
        if not in_tables:
            need = availability.need(op.opcode, len(op.operands))
            if verdict := need.complaint(op.target, op.version):
                op.fail(str(verdict))
        op.next, op.block = after, at
        decoded = decoder(op)
        op.done()
        # Modifiers that no chip has, where the decoder hasn't rejected them.
        if not in_tables and (wrong := illegal.complaint(op.opcode, len(op.operands))):
            op.fail(wrong)
        block.opcodes.append(prefix)
        guard = None
        if instruction.guard is not None:
            guard = op.source(instruction.guard, PRED), instruction.negated
        line = instruction.location.line
        registers = tuple(op.reads), tuple(op.writes), guard, prefix in self._table.pure, op.selects
        what = tuple(op.sources), op.stores, op.constant, op.space
        traffic = Traffic(prefix, line, *registers, *what, spread=op.spread, spread_shared=op.spread_shared)
        block.traffic.append(traffic)
        if isinstance(decoded, Collective):
            block.members, block.whole = decoded.members, decoded.members is None
            decoded = collective(decoded, after, prefix, line)
        if isinstance(decoded, End):
            block.waits, block.line = prefix, line
            block.whole |= "aligned" in instruction.opcode.split(".")
            block.end = decoded if guard is None else skip(decoded, *guard, after)
        else:
            block.steps.append(decoded if guard is None else guarded(decoded, *guard))

    def _decoder(self, instruction: Instruction) -> tuple[str, Decoder]:
        """The prefix of an instruction's opcode that the table has, and its decoder."""
        opcode = instruction.opcode
        if (known := self._decoders.get(opcode)) is not None:
            return known
        if why := parser.reason(opcode):
            raise PtxError(f"{opcode}: {why}", *instruction.location)
        entry = self._table.find(opcode)
        if entry is None:
            raise PtxError(f"unsupported instruction '{opcode}'", *instruction.location)
        self._decoders[opcode] = entry
        return entry


def _check_cta_group(functions: list[Function]) -> None:
    """Raises PtxError if the tcgen05 instructions of a kernel differ in `.cta_group`; ptxas refuses that."""
    first: Instruction | None = None
    for instruction in (each for function in functions for each in function.body or ()):
        modifiers = instruction.opcode.split(".")
        if modifiers[0] != "tcgen05" or not any(each.startswith(_CTA_GROUP) for each in modifiers):
            continue
        if first is None:
            first = instruction
        group = next(each for each in modifiers if each.startswith(_CTA_GROUP))
        if group not in first.opcode.split("."):
            raise PtxError(
                f"{instruction.opcode}: all tcgen05 instructions of a kernel must have the same .cta_group; "
                f"got {first.opcode} in line {first.location.line}",
                *instruction.location,
            )


def layout(variables: list[Variable], start: int) -> int:
    """Gives each variable its offset, in order, from `start`; returns the end of the last."""
    for variable in variables:
        variable.offset = -(-start // variable.align) * variable.align
        start = variable.offset + variable.size
    return start


def _lay_out_frame(code: FunctionCode) -> None:
    function = code.function
    inside = [v for v in function.variables if v.space in ("local", "param")]
    if not function.is_entry:
        inside += [p for p in (*function.params, *function.returns) if isinstance(p, Variable)]
    end = layout(inside, 0)
    if end > MAX_FRAME:
        raise PtxError(
            f"'{function.name}' needs {end} bytes of local memory, but a thread has {MAX_FRAME}",
            *function.location,
        )
    code.frame_size = -(-end // _FRAME_ALIGN) * _FRAME_ALIGN


def _named(function: Function) -> dict[int, list[_Named]]:
    """What instructions name besides registers, by position; a text is a name that nothing declares."""
    named: dict[int, list[_Named]] = {}
    for at, instruction in enumerate(function.body or ()):
        find = instruction.scope.find
        for name in instruction.names():
            entity = find(name.text)
            if type(entity) is not Register:
                named.setdefault(at, []).append(name.text if entity is None else entity)
    return named


def _targets(instruction: Instruction, found: Iterable[_Named]) -> Iterator[int]:
    """The positions of the labels that an instruction names, itself or through a table of targets."""
    for entity in found:
        if isinstance(entity, Label):
            yield entity.position
        elif isinstance(entity, Targets):
            labels = (instruction.scope.find(target.text) for target in entity.names)
            yield from (label.position for label in labels if isinstance(label, Label))


def _is_indirect(instruction: Instruction) -> bool:
    """Whether this calls through a pointer."""
    if instruction.opcode.partition(".")[0] != "call":
        return False
    callee = next((o for o in instruction.operands if isinstance(o, Name)), None)
    return callee is not None and not isinstance(instruction.scope.find(callee.text), Function)


def _calls_pointers(function: Function) -> bool:
    return any(_is_indirect(instruction) for instruction in function.body or ())


def _pointed(tree: Tree) -> list[Function]:
    """The functions with a body whose addresses are in variables."""
    names = {v.name for variable in tree.variables for _, v in variable.init if isinstance(v, SymbolValue)}
    return [f for f in tree.functions.values() if f.name in names and f.body is not None and not f.is_entry]


def _calls_itself(function: Function, tree: Tree) -> bool:
    """Whether a call of `function` can lead to another one before it returns."""
    seen: set[str] = set()
    waiting = [function]
    while waiting:
        caller = waiting.pop()
        if _calls_pointers(caller):
            return True
        for instruction in caller.body or ():
            for name in instruction.names():
                callee = instruction.scope.find(name.text)
                if not isinstance(callee, Function) or callee.name in seen:
                    continue
                if callee.name == function.name:
                    return True
                seen.add(callee.name)
                waiting.append(tree.functions[callee.name])
    return False
