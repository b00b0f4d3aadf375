"""Shuffles, votes and elections of whole warps, in functions for the compiler of `plain_code`.

A function gets the state of a machine and an operation, whose numbers are the offsets of its registers. It
returns 0, and has changed nothing, if the interpreter must run the instruction: because lanes are missing, or
a member mask lacks its own lane, or the one that a shuffle reads.
"""

from collections.abc import Callable
from functools import partial

from weft.emulator.compiled.pieces import SCRATCH
from weft.emulator.compiled.plain_code import Value, bit_count, copy, memory, octet_bits, view
from weft.emulator.instructions.warp import beyond_segment, named_lane

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


def _target(s: Value, op: Value, warp: int, lane: int, mode: str) -> int:
    """The lane that a lane asks for."""
    distance, control = _register(s, op, warp, 3)[lane] & 31, _register(s, op, warp, 4)[lane]
    return named_lane(lane, distance, control, mode)


def _is_inside(s: Value, op: Value, warp: int, lane: int, mode: str) -> bool:
    control = _register(s, op, warp, 4)[lane]
    return beyond_segment(lane, _target(s, op, warp, lane, mode), control, mode) <= 0


def _source(s: Value, op: Value, warp: int, lane: int, mode: str) -> int:
    """The lane that a lane reads: its own, if the one that it asks for is outside."""
    return _target(s, op, warp, lane, mode) if _is_inside(s, op, warp, lane, mode) else lane


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
