"""Moves, and conversions of addresses."""

import numpy as np

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Step, Table, compute, computing
from weft.emulator.memory.segments import RANK_SHIFT, WINDOW_SHIFT, WINDOWS
from weft.emulator.reading.syntax import (
    PRED,
    TYPES,
    U32,
    U64,
    Address,
    Name,
    Operand,
    Register,
    Sink,
    Type,
    Variable,
    Vector,
)
from weft.emulator.running import special
from weft.emulator.running.lanes import Lanes

table = Table(pure=True)
_SPACES = ("global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry")


@table.step("mov")
def mov(op: Op) -> Step:
    lanes, kind = op.choice(["v2", "v4"], ""), op.type()
    op.count(2)
    if lanes:
        return _each(op, int(lanes[1:]), kind)
    to, value = _whole(op, op.operand(0)), _whole(op, op.operand(1))
    if isinstance(to, Vector):
        return _unpack(op, to, kind)
    if isinstance(value, Vector):
        return _pack(op, to, value, kind)
    if isinstance(value, Name) and value.text in special.CLOCKS and op.entity(value) is None:
        result, clock = op.destination(0, kind), value.text

        def read_clock(lanes: Lanes) -> None:
            ticks = special.clock(lanes.wave.ticks, clock) & ((1 << kind.bits) - 1)
            lanes.write(result, np.full((lanes.warps, 32), ticks, kind.storage))

        return read_clock
    result = op.destination(to, kind)
    if (address := _address(op, value, kind)) is not None:
        return address
    source = op.source(value, kind)

    def run(lanes: Lanes) -> None:
        # Compiled code changes registers in place; otherwise a move may share the array.
        value = lanes.read(source)
        lanes.write(result, value if value.base is None else value.copy())

    return run


def _whole(op: Op, operand: Operand) -> Operand:
    """An operand, a vector register as the vector of its elements."""
    items = op.items(operand)
    return operand if items == (operand,) else Vector(items, operand.location)


def _each(op: Op, count: int, kind: Type) -> Step:
    """`mov.v2.u32 {a, b}, {c, d}`: element by element, which may be the same registers."""
    to, values = op.items(0), op.items(1)
    for items, operand in ((to, op.operand(0)), (values, op.operand(1))):
        if len(items) != count:
            op.fail(f"expects {count} elements, got {len(items)}", operand.location)
    results, sources = [op.destination(i, kind) for i in to], [op.source(i, kind) for i in values]

    def run(lanes: Lanes) -> None:
        moved = [lanes.read(source).copy() for source in sources]
        for result, value in zip(results, moved, strict=True):
            lanes.write(result, value)

    return run


def _address(op: Op, value: Operand, kind: Type) -> Step | None:
    """A move of a variable's address that isn't a plain constant."""
    name, offset = (value.base, value.offset) if isinstance(value, Address) else (value, 0)
    if not isinstance(name, Name):
        return None
    entity = op.entity(name)
    if isinstance(entity, Register) and isinstance(value, Address):
        constant = op.slots.constant(offset & ((1 << kind.bits) - 1), kind)
        return compute(op.destination(0, kind), np.add, op.source(name, kind), constant)
    if not isinstance(entity, Variable):
        if isinstance(value, Address):
            op.fail(f"'{name.text}' has no address", value.location)
        return None
    if kind.bits not in (32, 64):
        op.fail(f"an address doesn't fit .{kind}", value.location)
    result, storage = op.destination(0, kind), kind.storage
    if op.in_frame(entity):
        compute_address = op.frame_address(entity, offset)
        return lambda lanes: lanes.write(result, compute_address(lanes).astype(storage))
    return compute(result, np.positive, op.symbol(entity, offset, kind))


def _elements(op: Op, vector: Vector, kind: Type) -> Type:
    count = len(vector.items)
    if count not in (2, 4, 8) or kind.bits // count not in (8, 16, 32, 64):
        op.fail(f"can't split .{kind} into {count} parts", vector.location)
    return TYPES[f"b{kind.bits // count}"]


def _unpack(op: Op, to: Vector, kind: Type) -> Step:
    part = _elements(op, to, kind)
    if isinstance(_whole(op, op.operand(1)), Vector):
        op.fail("can't move a vector to a vector", to.location)
    source = op.source(1, kind)
    # An 8-bit part is moved to a register of 16 bits or more.
    results = [
        (i, op.destination(item, part, any_width=part.bits == 8), op.register_type(item, part).storage)
        for i, item in enumerate(to.items)
        if not isinstance(item, Sink)
    ]
    count, storage = len(to.items), part.storage

    def run(lanes: Lanes) -> None:
        value = lanes.read(source).copy()
        parts = value.view(storage).reshape(*value.shape, count)
        for i, result, kept in results:
            lanes.write(result, parts[..., i].astype(kept))

    return run


def _pack(op: Op, to: Operand, vector: Vector, kind: Type) -> Step:
    part = _elements(op, vector, kind)
    sources = [op.source(item, part, any_width=part.bits == 8) for item in vector.items]
    result, storage, narrow = op.destination(to, kind), kind.storage, part.storage

    def run(lanes: Lanes) -> None:
        parts = [lanes.read(s).astype(narrow, copy=False) for s in sources]
        lanes.write(result, np.stack(parts, axis=-1).view(storage)[..., 0])

    return run


@table.step("cvta")
def cvta(op: Op) -> Step:
    """Converts between addresses of a space and generic ones, which differ by the space's window."""
    from_generic = op.flag("to")
    space = op.choice(_SPACES).partition("::")[0]
    kind = op.type("u32 u64")
    window = WINDOWS.get(space, 0) if kind.bits == 64 else 0
    if not window:
        return computing(op, np.positive, kind, kind)
    shift = np.uint64(window)
    return computing(op, lambda x: x - shift if from_generic else x + shift, kind, kind)


@table.step("isspacep")
def isspacep(op: Op) -> Step:
    name = op.choice(_SPACES)
    space = name.partition("::")[0]
    op.count(2)
    kind = U32 if op.register_type(op.operand(1), U64).bits == 32 else U64
    if name in ("shared", "shared::cta"):
        # Only the shared memory of the thread's own CTA, not that of the cluster.
        result, source = op.destination(0, PRED), op.source(1, kind)
        own, rank = op.slots.symbol(WINDOWS["shared"], U64), np.uint64(RANK_SHIFT)
        return compute(result, lambda a, b: np.equal(a.astype(np.uint64) >> rank, b >> rank), source, own)
    window = np.uint64(WINDOWS.get(space, 0) >> WINDOW_SHIFT)
    shift = np.uint64(WINDOW_SHIFT)
    return computing(op, lambda x: np.equal(x.astype(np.uint64) >> shift, window), PRED, kind)


def give_way(lanes: Lanes) -> None:
    """Uses up most of a time slice, so that loops that poll don't delay the threads they wait for."""
    lanes.wave.ticks += 200
    lanes.wave.polls += 1
