"""Loads and stores."""

import numpy as np

from weft.emulator.decoding.decode import AddressOf, Op
from weft.emulator.decoding.table import Step, Table
from weft.emulator.instructions.move import give_way
from weft.emulator.memory.segments import LEVELS, Order
from weft.emulator.reading.syntax import STORAGE, Array, Operand, Sink, Type
from weft.emulator.running.lanes import Lanes

table = Table()
_NAMES = "global shared shared::cta shared::cluster local const param param::entry param::func"
SPACES = {name: name.partition("::")[0] for name in _NAMES.split()}
# Only the order of accesses matters for what a thread sees of these, and here everything happens in order.
_STRONG = ("relaxed", "acquire", "release", "acq_rel", "volatile", "mmio")
_CACHE = ("ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "unified")


def qualifiers(op: Op) -> bool:
    """Takes modifiers of order, scope and caches; returns whether others may be writing the memory."""
    polls = op.flag("relaxed", "acquire", "volatile", "mmio")
    op.flag("weak", *_STRONG, *LEVELS, *_CACHE)
    op.modifiers = [m for m in op.modifiers if m.partition("::")[0] not in ("L1", "L2")]
    return polls


def order_of(op: Op, default: str = "") -> Order | None:
    """The order of an access by its modifiers, which stay; None for a weak one."""
    kind = next((m for m in op.modifiers if m in _STRONG), default)
    if not kind:
        return None
    wide = "sys" if kind in ("volatile", "mmio") else "gpu"
    level = op.code.scopes[next((m for m in op.modifiers if m in LEVELS), wide)]
    op.code.levels.add(level)
    return Order(kind in ("acquire", "acq_rel"), kind in ("release", "acq_rel"), level)


def state_space(op: Op) -> str:
    """The space among the modifiers; generic if there is none."""
    return SPACES.get(op.choice(SPACES, "generic"), "generic")


def _vector(op: Op) -> int:
    return int(op.choice(["v2", "v4", "v8"], "v1")[1:])


@table.step("ld", "ldu")
def ld(op: Op) -> Step:
    order, op.constant = order_of(op), "nc" in op.modifiers
    polls = qualifiers(op)
    op.space = space = state_space(op)
    count = _vector(op)
    kind = op.type()
    op.count(2, 3)
    address = op.address(1, space)
    items = op.items(0)
    _check_vector(op, kind, count, items)
    targets = [_Target(op, item, kind) for item in items]
    op.writes = [target.slot for target in targets]  # sinks, too: one for each element
    plain = count == 1 and targets[0].plain
    result, width, line = targets[0].slot, kind.bytes, op.line

    def run(lanes: Lanes) -> None:
        value = lanes.wave.memory.load(lanes, address.space, address(lanes), width, line)
        lanes.write(result, value)

    def run_vector(lanes: Lanes) -> None:
        parts = load_vector(lanes, address, kind, count, line)
        for target, value in zip(targets, parts, strict=True):
            target.write(lanes, value)

    step = in_order(run if plain else run_vector, order)
    return polling(step) if polls else step


def polling(step: Step) -> Step:
    """`step`, after which other threads run, which may write what it has read."""

    def poll(lanes: Lanes) -> None:
        step(lanes)
        give_way(lanes)

    return poll


def _check_vector(op: Op, kind: Type, count: int, items: tuple[Operand, ...]) -> None:
    if kind.bits < 8:
        op.fail(f"isn't defined for .{kind}")
    if len(items) != count:
        op.fail(f"expects {count} registers, got {len(items)}", items[0].location if items else None)
    if kind.bytes * count > 32:
        op.fail(f"must move at most 32 bytes, got {kind.bytes * count} of .v{count}.{kind}")


class _Target:
    """A destination register of a load; a wider one is extended by the type's sign."""

    def __init__(self, op: Op, item: Operand, kind: Type) -> None:
        self.sink = isinstance(item, Sink)
        declared = op.register_type(item, kind)
        if declared.bits < kind.bits:
            op.fail(f"can't load .{kind} into a register of {declared.bits} bits", item.location)
        self.slot = op.destination(item, kind, any_width=True)
        self.plain = declared.bits == kind.bits
        self.view = kind.view
        self.wide = np.dtype(f"i{declared.bytes}") if kind.kind == "s" else declared.storage
        self.storage = declared.storage

    def write(self, lanes: Lanes, value: Array) -> None:
        if self.sink:
            return
        if not self.plain:
            value = value.view(self.view).astype(self.wide).view(self.storage)
        lanes.write(self.slot, value)


def load_vector(lanes: Lanes, address: AddressOf, kind: Type, count: int, line: int) -> list[Array]:
    """`count` adjacent elements, from an address aligned to the size of all of them."""
    memory, size = lanes.wave.memory, kind.bytes * count
    addresses = address(lanes)
    if size <= 16:
        wide = memory.load(lanes, address.space, addresses, size, line)
        return split(wide, kind, count)
    memory.check_alignment(lanes, address.space, addresses, size, line)
    halves = [memory.load(lanes, address.space, addresses + np.uint64(at), 16, line) for at in (0, 16)]
    return [part for half in halves for part in split(half, kind, count // 2)]


def split(wide: Array, kind: Type, count: int) -> list[Array]:
    """The elements of each lane's value, one array for each."""
    if count == 1:
        return [wide]
    parts = wide.view(kind.storage).reshape(*wide.shape, count)
    return [parts[..., i].copy() for i in range(count)]


@table.step("st")
def st(op: Op) -> Step:
    order = order_of(op)
    qualifiers(op)
    op.space = space = state_space(op)
    count = _vector(op)
    kind = op.type()
    op.count(2, 3)
    address = op.address(0, space)
    items = op.items(1)
    _check_vector(op, kind, count, items)
    given = [at for at, item in enumerate(items) if not isinstance(item, Sink)]
    if len(given) < count and (count < 8 or not given):  # elements that keep their value
        op.fail("must store every element of fewer than 8", items[0].location)
    items = tuple(items[at] for at in given)
    for item in items:
        if op.register_type(item, kind).bits < kind.bits:
            op.fail(f"can't store .{kind} from a narrower register", item.location)
    sources = [op.source(item, kind, any_width=True) for item in items]
    op.stores = tuple(sources)
    storage, line = kind.storage, op.line
    size = kind.bytes * count

    def element(lanes: Lanes, source: int) -> Array:
        return lanes.read(source).astype(storage, copy=False)

    def run(lanes: Lanes) -> None:
        memory = lanes.wave.memory
        memory.store(lanes, address.space, address(lanes), element(lanes, sources[0]), size, line)

    def run_vector(lanes: Lanes) -> None:
        memory, addresses = lanes.wave.memory, address(lanes)
        if size > 16:
            memory.check_alignment(lanes, address.space, addresses, size, line)
        step = count if size <= 16 else count // 2
        chunk = min(size, 16)
        for part in range(0, count, step):
            value = np.stack([element(lanes, s) for s in sources[part : part + step]], axis=-1)
            wide = value.view(STORAGE[8 * chunk])[..., 0]
            offset = np.uint64(part * kind.bytes)
            memory.store(lanes, address.space, addresses + offset if part else addresses, wide, chunk, line)

    def run_some(lanes: Lanes) -> None:
        memory, addresses = lanes.wave.memory, address(lanes)
        memory.check_alignment(lanes, address.space, addresses, size, line)
        for at, source in zip(given, sources, strict=True):
            value, each = element(lanes, source), addresses + np.uint64(at * kind.bytes)
            memory.store(lanes, address.space, each, value, kind.bytes, line)

    every = run if count == 1 else run_vector
    return in_order(every if len(given) == count else run_some, order)


def in_order(step: Step, order: Order | None) -> Step:
    """`step`, with `order` set during its accesses for observers."""
    if order is None:
        return step

    def run(lanes: Lanes) -> None:
        memory = lanes.wave.memory
        memory.order = order
        try:
            step(lanes)
        finally:
            memory.order = None

    return run
