"""The code that runs operations of blocks for one group, until the interpreter must go on, in functions for
the compiler of `plain_code`.
"""

from collections.abc import Mapping
from functools import cache

from weft.emulator import native
from weft.emulator.compiled import accesses, exchanges, plain_code
from weft.emulator.compiled.pieces import CHUNKS, SCRATCH
from weft.emulator.compiled.plain_code import Value, call, copy, memory, octet_bits, view
from weft.emulator.compiled.state import MOST_LOGGED, BlockPart, Field, Kind, Operand

_LANES = 32


@cache
def addresses() -> Mapping[str, int]:
    """The addresses of `run`, and of the functions that operations call."""
    functions = {"run": run, **accesses.FUNCTIONS, **exchanges.FUNCTIONS}
    text = lambda: plain_code.text(functions, Field, Operand)  # noqa: E731
    return native.Library("driver", text, list(functions)).addresses()


def run(s: Value, _: Value) -> int:
    """Runs the group of a machine's state. In the end, the state has the operation that the interpreter must
    run, or `ARRIVED`.
    """
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
    """What is known of a block."""
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
