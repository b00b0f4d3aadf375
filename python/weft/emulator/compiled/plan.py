"""The operations of a program's blocks: pieces of code, accesses to memory, branches, and what the
interpreter runs; and the code that runs them for one group until the interpreter must go on, in functions
for the compiler of `plain_code`.

Shuffles, votes and elections of whole warps get the state of a machine and an operation, whose numbers are
the offsets of its registers. They return 0, and have changed nothing, if the interpreter must run the
instruction: because lanes are missing, or a member mask lacks its own lane, or the one that a shuffle reads.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from weft.emulator import native
from weft.emulator.compiled import accesses, plain_code
from weft.emulator.compiled.pieces import (
    CHUNKS,
    SCRATCH,
    WIDTHS,
    Access,
    Known,
    Layout,
    Piece,
    Registers,
    Trace,
    module,
    trace,
)
from weft.emulator.compiled.plain_code import Value, bit_count, call, copy, memory, octet_bits, view
from weft.emulator.compiled.state import MOST_LOGGED, BlockPart, Field, Kind, Operand
from weft.emulator.decoding.blocks import Block
from weft.emulator.decoding.program import Program
from weft.emulator.decoding.table import Exchange
from weft.emulator.numerics.shuffles import beyond_segment, named_lane
from weft.emulator.sanitizer.dataflow import constant_loads, is_copy
from weft.emulator.sanitizer.discards import discarding
from weft.emulator.sanitizer.registers import Announcement
from weft.emulator.watch import Traffic
from weft.system.garbage import uncollected

LANES = 32


def _register(s: Value, op: Value, warp: int, number: int) -> Value:
    """A register of 32 bits of a warp."""
    return view(memory(s.REGISTERS[warp] + op.OFFSETS[number]), "u4")


def _predicate(s: Value, op: Value, warp: int, number: int) -> Value:
    return memory(s.REGISTERS[warp] + op.OFFSETS[number])


def _are_whole(s: Value, op: Value, members: int) -> bool:
    """Whether all lanes are there, and each is in its own member mask, which is a register."""
    whole = s.WHOLE != 0
    for warp in range(s.COUNT):
        masks = _register(s, op, warp, members)
        for lane in range(LANES):
            whole &= masks[lane] >> lane & 1 != 0
    return whole


def _shuffle(s: Value, op: Value, mode: str) -> int:
    """Registers: the result, whether its lane is inside, the value, the distance, the control, the mask."""
    if not _are_whole(s, op, 5):
        return 0
    for warp in range(s.COUNT):
        masks = _register(s, op, warp, 5)
        for lane in range(LANES):
            if masks[lane] >> _source(s, op, warp, lane, mode) & 1 == 0:
                return 0
    for warp in range(s.COUNT):
        # A register may have several parts in an instruction.
        moved, values = view(s.SCRATCH[warp * SCRATCH :], "u4"), _register(s, op, warp, 2)
        inside = s.SCRATCH[warp * SCRATCH + 4 * LANES :]
        for lane in range(LANES):
            moved[lane] = values[_source(s, op, warp, lane, mode)]
            inside[lane] = _is_inside(s, op, warp, lane, mode)
        copy(_register(s, op, warp, 0), moved, 4 * LANES)
        copy(_predicate(s, op, warp, 1), inside, LANES)
    return 1


def _lane_asked(s: Value, op: Value, warp: int, lane: int, mode: str) -> int:
    """The lane that a lane asks for."""
    distance, control = _register(s, op, warp, 3)[lane] & 31, _register(s, op, warp, 4)[lane]
    return named_lane(lane, distance, control, mode)


def _is_inside(s: Value, op: Value, warp: int, lane: int, mode: str) -> bool:
    control = _register(s, op, warp, 4)[lane]
    return beyond_segment(lane, _lane_asked(s, op, warp, lane, mode), control, mode) <= 0


def _source(s: Value, op: Value, warp: int, lane: int, mode: str) -> int:
    """The lane that a lane reads: its own, if the one that it asks for is outside."""
    return _lane_asked(s, op, warp, lane, mode) if _is_inside(s, op, warp, lane, mode) else lane


def _vote(s: Value, op: Value, mode: str) -> int:
    """Registers: the result, the votes, the mask."""
    if not _are_whole(s, op, 2):
        return 0
    for warp in range(s.COUNT):
        votes = octet_bits(_predicate(s, op, warp, 1)) ^ (0xFFFFFFFF if op.NEGATED else 0)
        masks, result = _register(s, op, warp, 2), _predicate(s, op, warp, 0)
        for lane in range(LANES):
            held = votes & masks[lane]
            if mode == "ballot":
                view(result, "u4")[lane] = held
            elif mode == "any":
                result[lane] = held != 0
            else:
                result[lane] = (held == masks[lane]) | ((mode == "uni") & (held == 0))
    return 1


def _elect(s: Value, op: Value) -> int:
    """Registers: the number of the leader, whether it is the own lane, the mask."""
    if not _are_whole(s, op, 2):
        return 0
    for warp in range(s.COUNT):
        leader, own = _register(s, op, warp, 0), _predicate(s, op, warp, 1)
        masks = _register(s, op, warp, 2)
        for lane in range(LANES):
            lowest = masks[lane] & -masks[lane]
            leader[lane], own[lane] = bit_count(lowest - 1), lowest == 1 << lane
    return 1


FUNCTIONS: dict[str, Callable[..., int]] = {
    **{f"shfl.{mode}": partial(_shuffle, mode=mode) for mode in ("up", "down", "bfly", "idx")},
    **{f"vote.{mode}": partial(_vote, mode=mode) for mode in ("all", "any", "uni", "ballot")},
    "elect": _elect,
}
"""By their names in an `Exchange`."""


_LANES = 32


@cache
def addresses() -> Mapping[str, int]:
    """The addresses of `run`, and of the functions that operations call."""
    functions = {"run": run, **accesses.FUNCTIONS, **FUNCTIONS}
    text = lambda: plain_code.text(functions, Field, Operand)  # noqa: E731
    return native.Library("driver", text, list(functions)).addresses()


def run(s: Value, _: Value) -> int:
    """Runs a group. In the end, the state has the operation that the interpreter must run, or `ARRIVED`."""
    at, block, arrived = s.OP, s.BLOCK, False
    while not arrived:
        op: Value = Operand(s.OPS[len(Operand) * at :])
        if op.KIND == Kind.PIECE:
            _run_piece(s, op)
            at += 1
        elif Kind.LOAD <= op.KIND <= Kind.COPY:
            if call(op.FUNCTION, s, op) == 0:
                break
            at += 1
        elif op.KIND == Kind.INTERPRET or s.INSTRUCTIONS + _length(s, block) * s.COUNT > s.LIMIT:
            break
        else:
            target = _target(s, op)
            if target < 0:
                break
            arrived = _stops(s, block, target)
            at, block = _part(s, target, BlockPart.FIRST), target
    s.OP, s.BLOCK, s.ARRIVED = at, block, arrived
    return 0


def _part(s: Value, block: int, which: int) -> int:
    return s.BLOCKS[len(BlockPart) * block + which]


def _length(s: Value, block: int) -> int:
    return _part(s, block, BlockPart.LENGTH)


# Pieces


def _run_piece(s: Value, op: Value) -> None:
    if s.WHOLE:
        call(op.FUNCTION, s.REGISTERS, s.SCRATCH, s.MASKS, s.OCTETS, op.OFFSETS, CHUNKS * s.COUNT)
        return
    for index in range(s.COUNT):  # a piece writes inactive lanes, too
        registers, scratch = s.REGISTERS[index:], s.SCRATCH[index * SCRATCH :]
        for each in range(op.SAVED_COUNT):
            offset, size = op.SAVED[2 * each], op.SAVED[2 * each + 1]
            copy(s.SAVED[offset:], memory(registers[0] + offset), size)
        call(op.FUNCTION, registers, scratch, s.MASKS[index:], s.OCTETS, op.OFFSETS, CHUNKS)
        for each in range(op.SAVED_COUNT):
            offset = op.SAVED[2 * each]
            _restore(memory(registers[0] + offset), s.SAVED[offset:], op.SAVED[2 * each + 1], s.MASKS[index])


def _restore(registers: Value, saved: Value, size: int, mask: int) -> None:
    """Gives inactive lanes of a register their old values."""
    if size == _LANES:
        _restore_each(registers, saved, mask, 0)
    elif size == 2 * _LANES:
        _restore_each(view(registers, "u2"), view(saved, "u2"), mask, 0)
    elif size == 4 * _LANES:
        _restore_each(view(registers, "u4"), view(saved, "u4"), mask, 0)
    else:
        _restore_each(view(registers, "i8"), view(saved, "i8"), mask, size // (16 * _LANES))


def _restore_each(registers: Value, saved: Value, mask: int, shift: int) -> None:
    """The same for elements, `1 << shift` of which a lane has."""
    for at in range(_LANES << shift):
        # Not a condition: LLVM would make a masked store of it, which is slow.
        registers[at] = registers[at] ^ (registers[at] ^ saved[at]) & (mask >> (at >> shift) & 1) - 1


# The ends of blocks


def _target(s: Value, op: Value) -> int:
    """The block that all active lanes continue with; -1 if the interpreter must end this one. It divides
    groups of which only some lanes branch.
    """
    if op.KIND == Kind.JUMP:
        return op.TARGET
    if op.KIND == Kind.EXCHANGE:
        return op.TARGET if call(op.FUNCTION, s, op) else -1
    some, differ = 0, 0
    for index in range(s.COUNT):
        held = octet_bits(memory(s.REGISTERS[index] + op.PREDICATE)) ^ (0xFFFFFFFF if op.NEGATED else 0)
        taken = held & s.MASKS[index]
        some, differ = some | taken, differ | (taken ^ s.MASKS[index])
    if some == 0:
        return op.AFTER
    return -1 if differ else op.TARGET


def _stops(s: Value, block: int, target: int) -> bool:
    """Counts the block that ends. Whether another group may have to run before `target`."""
    s.INSTRUCTIONS += _length(s, block) * s.COUNT
    s.RUNS[block] += s.COUNT
    ticks = s.TICKS + _length(s, block) + 1
    s.TICKS = ticks
    if s.LOG:
        logged = s.LOGGED
        s.LOG[2 * logged], s.LOG[2 * logged + 1], s.LOGGED = block, ticks, logged + 1
        if logged == MOST_LOGGED - 1:
            return True
    if s.READY:
        late = ticks > s.ROTATE or _part(s, target, BlockPart.RANK) > s.LOWEST
        if s.MARKS[target] or (ticks >= s.HOLD and late):
            return True
    return ticks > s.STOP


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
        live = 0
        for target in self._blocks[block].end.targets:
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


_SHORT = 3000
"""The lines of LLVM IR up to which the code generator optimizes, which takes it four times as long."""
Numbers = npt.NDArray[np.int64]


@dataclass
class Operation:
    """An operation, the block and step at which the interpreter can run the same, and its registers."""

    kind: Kind
    block: int
    step: int
    slots: frozenset[int] = frozenset()
    piece: Piece | None = None
    access: Access | None = None
    target: int = 0
    after: int = 0
    predicate: int | None = None
    negated: bool = False
    reads: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)
    """The numbers of watched registers that a `TOUCH` or `COPY` announces."""
    exchange: Exchange | None = None


@dataclass
class Plan:
    """The compiled form of a program. `entries` are the operations that begin at a block and step; `needs`
    are the registers that code may use from there on, until the interpreter goes on.
    """

    program: Program
    layout: Layout
    operations: list[Operation] = field(default_factory=list)
    entries: dict[tuple[int, int], int] = field(default_factory=dict)
    needs: dict[int, tuple[int, ...]] = field(default_factory=dict)
    steps: list[int] = field(default_factory=list)
    known: Known = field(default_factory=dict)
    """The pieces of accesses."""
    run: int = 0
    """The address of the function that runs operations."""
    saved: Numbers = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    """The offsets and bytes of the registers that pieces write."""
    offsets: Numbers = field(default_factory=lambda: np.zeros(0, np.int64))
    """The offsets of registers that shared functions get, and the numbers of those that are announced."""
    table: Numbers = field(default_factory=lambda: np.zeros((0, len(Operand)), np.int64))
    blocks: Numbers = field(default_factory=lambda: np.zeros((0, len(BlockPart)), np.int64))


def make(program: Program, hot: Set[int] | None = None) -> Plan:
    """Compiles the blocks `hot` of a program (None: all)."""
    plan, pieces = planned(program, hot)
    find_needs(plan)
    _assemble(plan, pieces)
    return plan


def planned(program: Program, hot: Set[int] | None = None) -> tuple[Plan, list[Piece]]:
    """The operations of a program's blocks, and the pieces that have no code yet."""
    plan = Plan(program, Layout(program.slots.bits))
    registers, liveness = Registers(program.slots), Liveness(program)
    pieces: list[Piece] = []
    plan.blocks = np.zeros((len(program.blocks), len(BlockPart)), np.int64)
    with uncollected():
        for number, block in enumerate(program.blocks):
            first = len(plan.operations)
            plan.blocks[number] = first, len(block.opcodes), block.rank
            if hot is not None and number not in hot:
                plan.operations.append(Operation(Kind.INTERPRET, number, 0))
            else:
                _Planner(plan, registers, pieces, number, liveness.before(number)).add(block)
    plan.steps = [operation.step for operation in plan.operations]
    return plan, pieces


class _Planner:
    """Adds the operations of a block."""

    def __init__(
        self, plan: Plan, registers: Registers, pieces: list[Piece], block: int, live: list[int]
    ) -> None:
        self.plan, self.registers, self.pieces, self.block = plan, registers, pieces, block
        self._live = live
        self.piece, self.begun = self._new(), 0
        self._announced: list[Operation] = []
        """What is announced before the piece begins: at most one `TOUCH`, which comes first."""

    def _new(self) -> Piece:
        return Piece(f"piece_{len(self.pieces)}", self.plan.layout)

    def _operation(self, kind: Kind, step: int, **what: object) -> None:
        self.plan.operations.append(Operation(kind, self.block, step, **what))  # type: ignore[arg-type]

    def _close(self, step: int, *, loaded: bool = False) -> None:
        """Ends the piece before a step. `loaded`: it writes what has been loaded, and all of that, so that
        more pieces have the same code.
        """
        self.plan.operations += self._announced
        self._announced = []
        if self.piece:
            if not loaded:
                self.piece.live = self._live[self.plan.program.blocks[self.block].instruction(step)]
            self.piece.end()
            self._operation(Kind.PIECE, self.begun, slots=self.piece.slots, piece=self.piece)
            self.pieces.append(self.piece)
        self.piece = self._new()

    def _enter(self, step: int) -> None:
        self.begun = step
        self.plan.entries[self.block, step] = len(self.plan.operations)

    def add(self, block: Block) -> None:
        self._enter(0)
        for number, step in enumerate(block.steps):
            if isinstance(step, Announcement) and self._announce(number, step):
                continue
            found = trace(step, self.registers)
            if found is None:
                self._interpret(number)
            elif found.access is not None:
                self._access(number, found)
            elif not self.piece.add(found):
                self._interpret(number)
        self._end(block, len(block.steps))

    def _access(self, number: int, found: Trace) -> None:
        """Adds an access, with pieces of its own for its operands and for what it loads: many accesses differ
        only in registers and offsets, and share these pieces.
        """
        access = found.access
        assert access is not None
        self._close(number)
        self.begun = number
        if not self.piece.access(access, self.plan.known):
            self._interpret(number)
            return
        self._close(number)
        is_load = access.value is None
        self._operation(Kind.LOAD if is_load else Kind.STORE, number, access=access)
        if is_load and (use := discarding(self.plan.program).get(access.line)) is not None:
            self.plan.layout.of(use.predicate)
            load = self.plan.operations[-1]
            load.slots, load.predicate, load.negated = (
                frozenset([use.predicate]),
                use.predicate,
                not use.value,
            )
        self.begun = number + 1
        if self.piece.add(found):
            self._close(number + 1, loaded=True)
        else:
            # The access has been made, so the step can't be left to the interpreter.
            del self.plan.operations[-1:]
            self._interpret(number)

    def _announce(self, number: int, step: Announcement) -> bool:
        """Adds what an announcement does to that of the piece; False, with no effect, if it does more."""
        registers = step.matrix()
        if registers is None:
            return False
        reads, writes = registers
        if is_copy(step.registers):
            copied = Operation(Kind.COPY, self.block, self.begun, reads=reads[:1], writes=writes)
            self._announced += [copied] if writes else []
            return True
        if self._announced and self._announced[-1].kind == Kind.COPY:
            # What it checks depends on the copies, after which the interpreter can't go back.
            self._close(number)
            self.begun = number
        if not self._announced:
            self._announced.append(Operation(Kind.TOUCH, self.block, self.begun))
        touched = self._announced[0]
        touched.reads += [each for each in reads if each not in touched.reads]
        touched.writes += [each for each in writes if each not in touched.writes]
        return True

    def _interpret(self, step: int) -> None:
        self._close(step)
        self._operation(Kind.INTERPRET, step)
        self._enter(step + 1)

    def _end(self, block: Block, step: int) -> None:
        # A guard of the end is read after the last step.
        self._close(step)
        flow, waiting = block.end.flow, block.end.collective
        if waiting is not None and waiting.exchange is not None:
            for slot in waiting.exchange.registers:
                self.plan.layout.of(slot)
            slots, exchange = frozenset(waiting.exchange.registers), waiting.exchange
            self._operation(Kind.EXCHANGE, step, slots=slots, exchange=exchange, target=block.end.targets[0])
        elif flow is None:
            self._operation(Kind.INTERPRET, step)
        elif flow.predicate is None:
            self._operation(Kind.JUMP, step, target=flow.target)
        else:
            self.plan.layout.of(flow.predicate)
            self._operation(Kind.BRANCH, step, slots=frozenset([flow.predicate]), **vars(flow))


def find_needs(plan: Plan) -> None:
    """What each entry needs: sets of registers as bits, until they no longer grow."""
    operations, first = plan.operations, plan.blocks[:, BlockPart.FIRST].tolist()
    needs = [sum(1 << slot for slot in operation.slots) for operation in operations]
    grows = True
    while grows:
        grows = False
        for at in range(len(operations) - 1, -1, -1):
            operation, now = operations[at], needs[at]
            if operation.kind == Kind.BRANCH:
                now |= needs[first[operation.target]] | needs[first[operation.after]]
            elif operation.kind in (Kind.JUMP, Kind.EXCHANGE):
                now |= needs[first[operation.target]]
            elif operation.kind != Kind.INTERPRET:
                now |= needs[at + 1]
            if now != needs[at]:
                needs[at], grows = now, True
    plan.entries = {at: op for at, op in plan.entries.items() if operations[op].kind != Kind.INTERPRET}
    for entry in plan.entries.values():
        octets = needs[entry].to_bytes(needs[entry].bit_length() // 8 + 1, "little")
        each = np.unpackbits(np.frombuffer(octets, np.uint8), bitorder="little")
        plan.needs[entry] = tuple(np.flatnonzero(each).tolist())


def _offsets(operation: Operation, layout: Layout) -> list[int]:
    """What an operation has in `Plan.offsets`."""
    if operation.piece is not None:
        return operation.piece.offsets
    if operation.exchange is not None:
        return [layout.of(slot) for slot in operation.exchange.registers]
    return [*operation.reads, *operation.writes]


def level(ir: str) -> int:
    """Of the code generator, for pieces."""
    return int(ir.count("\n") <= _SHORT)


def _assemble(plan: Plan, pieces: Sequence[Piece]) -> None:
    """Compiles the pieces, and writes the table of operations."""
    ir, functions = module(pieces), dict(addresses())
    if pieces:
        functions |= native.addresses(ir, sorted({piece.function for piece in pieces}), code=level(ir))
    plan.run = functions["run"]
    saved = [each for piece in pieces for each in piece.saved]
    plan.saved = np.array(saved, np.int64).reshape(len(saved), 2)
    offsets = [each for operation in plan.operations for each in _offsets(operation, plan.layout)]
    plan.offsets = np.array(offsets, np.int64)
    next_saved, next_offset = plan.saved.ctypes.data, plan.offsets.ctypes.data
    plan.table = np.zeros((len(plan.operations), len(Operand)), np.int64)
    for row, operation in zip(plan.table, plan.operations, strict=True):
        row[Operand.KIND] = operation.kind
        row[Operand.TARGET], row[Operand.AFTER] = operation.target, operation.after
        row[Operand.NEGATED], row[Operand.OFFSETS] = operation.negated, next_offset
        next_offset += plan.offsets.itemsize * len(_offsets(operation, plan.layout))
        row[Operand.READS], row[Operand.WRITES] = len(operation.reads), len(operation.writes)
        if (name := _function(operation)) is not None:
            row[Operand.FUNCTION] = functions[name]
        if operation.exchange is not None:
            row[Operand.NEGATED] = operation.exchange.negated
        if operation.predicate is not None:
            row[Operand.PREDICATE] = plan.layout.of(operation.predicate)
        if operation.piece is not None:
            count = len(operation.piece.saved)
            row[Operand.SAVED], row[Operand.SAVED_COUNT] = next_saved, count
            next_saved += plan.saved.strides[0] * count
        if operation.access is not None:
            access = operation.access
            row[Operand.WIDTH], row[Operand.LINE] = WIDTHS.index(access.width), access.line
            row[Operand.DISCARDS] = operation.predicate is not None
            row[Operand.CONSTANT] = access.line in constant_loads(plan.program)


def _function(operation: Operation) -> str | None:
    """The name of the function that an operation calls."""
    if operation.kind in (Kind.TOUCH, Kind.COPY):
        return "touch" if operation.kind == Kind.TOUCH else "copy"
    if operation.exchange is not None:
        return operation.exchange.name
    if operation.piece is not None:
        return operation.piece.function
    if operation.access is not None:
        return f"{'load' if operation.access.value is None else 'store'}_{operation.access.space}"
    return None
