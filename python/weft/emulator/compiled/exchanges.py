"""Shuffles, votes and elections of whole warps, in code of this host.

A function gets the state of a machine and an operation, whose numbers are the offsets of its registers. It
returns 0, and has changed nothing, if the interpreter must run the instruction: because lanes are missing, or
a member mask lacks its own lane, or the one that a shuffle reads.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]

from weft.emulator.compiled.builder import I1, I8, I32, POINTER, Code, Value
from weft.emulator.compiled.state import Field, Operand

LANES = 32
_WORDS, _OCTETS = ir.VectorType(I32, LANES), ir.VectorType(I8, LANES)
_LANE = ir.Constant(_WORDS, list(range(LANES)))
_BIT = ir.Constant(_WORDS, [1 << lane for lane in range(LANES)])
_SHUFFLES = ("up", "down", "bfly", "idx")
_VOTES = ("all", "any", "uni", "ballot")
NAMES = (*(f"shfl.{mode}" for mode in _SHUFFLES), *(f"vote.{mode}" for mode in _VOTES), "elect")
"""The functions, as `Exchange` names them."""


def _splat(number: int) -> Value:
    return ir.Constant(_WORDS, [number] * LANES)


class _Exchange(Code):
    """A function whose last register is the member mask."""

    def __init__(self, module: ir.Module, name: str, registers: int) -> None:
        super().__init__(module, name, [POINTER, POINTER, POINTER])
        self.state, self.operation, _ = self.arguments
        offsets = self.load(self.operation, Operand.OFFSETS, POINTER)
        self.offsets = [self.load(offsets, at) for at in range(registers)]
        self.count, self.warps = (
            self.load(self.state, Field.COUNT),
            self.load(self.state, Field.REGISTERS, POINTER),
        )

    def place(self, warp: Value, register: int) -> Value:
        """The address of a register of a warp."""
        return self.at(self.load(self.warps, warp, POINTER), self.offsets[register], I8)

    def words(self, warp: Value, register: int) -> Value:
        return self.b.load(self.place(warp, register), typ=_WORDS, align=8)

    def put(self, value: Value, warp: Value, register: int) -> None:
        self.b.store(value, self.place(warp, register), 8)

    def put_predicates(self, value: Value, warp: Value, register: int) -> None:
        self.b.store(self.b.zext(value, _OCTETS), self.place(warp, register), 8)

    def run(self, body: Callable[[Value], None], check: Callable[[Value], None] | None = None) -> None:
        """Adds the function: checks, `check` among them, and then `body` for each warp."""
        whole = self.load(self.state, Field.WHOLE)
        self.give_when(self.is_("==", whole, 0), 0)
        with self.loop(self.count) as warp:
            own = self.b.and_(self.words(warp, -1), _BIT)
            lacking = self.b.bitcast(self.b.icmp_unsigned("==", own, _splat(0)), I32)
            self.give_when(self.is_("!=", lacking, 0), 0)
            if check is not None:
                check(warp)
        with self.loop(self.count) as warp:
            body(warp)
        self.give(1)

    def all_lanes(self, number: Value) -> Value:
        """A number of 32 bits in every lane."""
        one = self.b.insert_element(ir.Constant(_WORDS, None), number, self.number(0, I32))
        return self.b.shuffle_vector(one, one, ir.Constant(_WORDS, None))


def _shuffle(module: ir.Module, mode: str) -> None:
    """Registers: the result, whether its lane is inside, the value, the distance, the control."""
    c = _Exchange(module, f"shfl.{mode}", 6)
    b = c.b
    source, index = c.b.alloca(_WORDS), c.b.alloca(_WORDS)

    def chosen(warp: Value) -> tuple[Value, Value]:
        """The lane that each lane reads, and whether that is inside."""
        distance, control = b.and_(c.words(warp, 3), _splat(31)), c.words(warp, 4)
        clamp = b.and_(control, _splat(31))
        segment = b.and_(b.lshr(control, _splat(8)), _splat(31))
        free = b.xor(segment, _splat(-1))
        lowest = b.and_(_LANE, segment)
        highest = b.or_(lowest, b.and_(clamp, free))
        lane = {
            "up": lambda: b.sub(_LANE, distance),
            "down": lambda: b.add(_LANE, distance),
            "bfly": lambda: b.xor(_LANE, distance),
            "idx": lambda: b.or_(lowest, b.and_(distance, free)),
        }[mode]()
        inside = b.icmp_signed(">=" if mode == "up" else "<=", lane, highest)
        return b.select(inside, lane, _LANE), inside

    def check(warp: Value) -> None:
        """Leaves a lane that isn't a member, and that another lane reads, to the interpreter."""
        members = c.words(warp, -1)
        every = b.bitcast(b.icmp_unsigned("==", members, _splat(-1)), I32)
        with c.when(c.is_("!=", every, -1)):
            named = b.and_(b.lshr(members, chosen(warp)[0]), _splat(1))
            c.give_when(c.is_("!=", b.bitcast(b.icmp_unsigned("==", named, _splat(0)), I32), 0), 0)

    def body(warp: Value) -> None:
        lane, inside = chosen(warp)
        b.store(lane, index)
        b.store(c.words(warp, 2), source)
        result = c.place(warp, 0)
        with c.loop(LANES) as at:
            c.store(c.load(source, c.wide(c.load(index, at, I32)), I32), result, at, I32)
        c.put_predicates(inside, warp, 1)

    c.run(body, check)


def _vote(module: ir.Module, mode: str) -> None:
    """Registers: the result, the votes."""
    c = _Exchange(module, f"vote.{mode}", 3)
    b = c.b
    negated = b.sub(c.number(0, I32), b.trunc(c.load(c.operation, Operand.NEGATED), I32))

    def body(warp: Value) -> None:
        octets = b.load(c.place(warp, 1), typ=_OCTETS, align=8)
        votes: Any = b.bitcast(b.icmp_unsigned("!=", octets, ir.Constant(_OCTETS, None)), I32)
        asked = c.words(warp, 2)
        held = b.and_(c.all_lanes(b.xor(votes, negated)), asked)
        if mode == "ballot":
            c.put(held, warp, 0)
            return
        agreed, none = b.icmp_unsigned("==", held, asked), b.icmp_unsigned("==", held, _splat(0))
        true = ir.Constant(ir.VectorType(I1, LANES), [1] * LANES)
        result = {"all": lambda: agreed, "any": lambda: b.xor(none, true), "uni": lambda: b.or_(agreed, none)}
        c.put_predicates(result[mode](), warp, 0)

    c.run(body)


def _elect(module: ir.Module) -> None:
    """Registers: the number of the leader, whether it is the own lane."""
    c = _Exchange(module, "elect", 3)
    b = c.b
    ones = ir.Function(module, ir.FunctionType(_WORDS, [_WORDS]), f"llvm.ctpop.v{LANES}i32")

    def body(warp: Value) -> None:
        asked = c.words(warp, 2)
        lowest = b.and_(asked, b.sub(_splat(0), asked))
        c.put(b.call(ones, [b.sub(lowest, _splat(1))]), warp, 0)
        c.put_predicates(b.icmp_unsigned("==", lowest, _BIT), warp, 1)

    c.run(body)


def add_exchanges(module: ir.Module) -> None:
    """Adds the functions."""
    for mode in _SHUFFLES:
        _shuffle(module, mode)
    for mode in _VOTES:
        _vote(module, mode)
    _elect(module)
