"""`multimem.ld_reduce`, `multimem.st` and `multimem.red`: accesses to all arrays of a multicast object.

The order in which floating-point values are added is the order of the arrays.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce

import numpy as np

from weft.emulator.decoding.decode import AddressOf, Op
from weft.emulator.decoding.table import Step, Table
from weft.emulator.instructions.atomics import apply, update_of
from weft.emulator.instructions.cp_async_bulk import fault
from weft.emulator.instructions.memory_ops import in_order, order_of, polling, split
from weft.emulator.memory.segments import LEVELS, Addresses, Multicast, Order
from weft.emulator.numerics.floats import decode, encode
from weft.emulator.reading.syntax import STORAGE, Array, Type
from weft.emulator.running.lanes import Lanes
from weft.isa import multimem as isa

table = Table()
_WIDE_SUMS = "acc::f32"


class _Accessed:
    """The elements that an instruction accesses: their type, their number and the address."""

    def __init__(self, op: Op, allowed: Sequence[str], address: int) -> None:
        vector = op.choice(isa.VECTORS, "v1")
        self.kind = kind = op.type(" ".join(allowed))
        self.count, self.line = int(vector[1:]), op.line
        self.size = kind.bytes * self.count
        if self.count > 1 and (not kind.is_float or kind.bits == 64):
            op.fail(f".{vector} isn't defined for .{kind}")
        if kind.is_float and self.size not in isa.SIZES:
            least = 4 // kind.bytes
            op.fail(f"must access 4, 8 or 16 bytes, got {self.size} of .{kind}; the least is .v{least}")
        self.address: AddressOf = op.address(address, "global" if op.flag("global") else "generic")
        if self.address.space not in ("global", "generic"):
            op.fail(f"isn't defined in {self.address.space} space")

    def objects(self, lanes: Lanes) -> Iterator[tuple[Lanes, list[Addresses]]]:
        """The lanes that access the same object, and their addresses in each of its arrays."""
        addresses, rest = self.address(lanes), lanes
        lanes.wave.memory.check_alignment(lanes, "multimem", addresses, self.size, self.line)
        while True:
            enabled = rest.enabled()
            first = int(addresses.flat[int(enabled.argmax())])
            segment = lanes.wave.memory.device.find(first)
            if not isinstance(segment, Multicast) or first + self.size > segment.base + segment.extent:
                near = "which isn't in a multicast object"
                if isinstance(segment, Multicast):
                    near = f"{first - segment.base} bytes into {segment.name} of {segment.extent} bytes"
                what = f"out-of-bounds multimem access of {self.size} bytes at 0x{first:x}, {near}"
                raise fault(rest, what, self.line, first, "out-of-bounds")
            offsets = addresses - np.uint64(segment.base)
            inside = enabled & (offsets <= np.uint64(segment.extent - self.size))
            yield rest.narrowed(inside), [offsets + np.uint64(base) for base in segment.members]
            if not (enabled & ~inside).any():
                return
            rest = rest.narrowed(enabled & ~inside)


def _order(op: Op, strong: str, default: str = "") -> Order | None:
    """Takes the modifiers of order and scope: .relaxed or .`strong`, and .weak where that is the default."""
    order = order_of(op, default)
    weak = not default and op.flag("weak")
    op.flag("relaxed", strong)
    scoped = op.flag(*LEVELS)
    if weak and (order is not None or scoped):
        op.fail("is .weak, so it must have no other order and no scope")
    return order


@table.step("multimem.ld_reduce")
def ld_reduce(op: Op) -> Step:
    """`multimem.ld_reduce{.sem}{.scope}{.global}.op{.acc::f32}{.vec}.type d, [a]`."""
    order = _order(op, "acquire")
    name, wide = op.choice(isa.REDUCED), op.flag(_WIDE_SUMS)
    op.count(2)
    accessed = _Accessed(op, isa.REDUCED[name], 1)
    kind, line = accessed.kind, accessed.line
    if wide and (name != "add" or kind.name not in isa.HALVES):
        op.fail(f".{_WIDE_SUMS} must be with .add of .{', .'.join(isa.HALVES)}")
    combine = _sum_in_f32(kind) if wide else partial(reduce, update_of(op, name, kind))
    results = op.registers(0, kind, accessed.count, writes=True)

    def run(lanes: Lanes) -> None:
        memory = lanes.wave.memory
        for part, members in accessed.objects(lanes):
            loaded = [memory.load(part, "global", at, accessed.size, line) for at in members]
            elements = zip(*(split(value, kind, accessed.count) for value in loaded), strict=True)
            for result, values in zip(results, elements, strict=True):
                part.write(result, combine(values))

    step = in_order(run, order)
    return step if order is None else polling(step)


def _sum_in_f32(kind: Type) -> Callable[[Sequence[Array]], Array]:
    element = kind.name.removesuffix("x2")

    def combine(values: Sequence[Array]) -> Array:
        halves = [decode(np.ascontiguousarray(value).view(np.uint16), element) for value in values]
        total = halves[0].astype(np.float32)
        for half in halves[1:]:
            total = total + half.astype(np.float32)
        return encode(total.astype(np.float64), element).view(kind.storage)

    return combine


@table.step("multimem.st")
def st(op: Op) -> Step:
    """`multimem.st{.sem}{.scope}{.global}{.vec}.type [a], b`."""
    order = _order(op, "release")
    op.count(2)
    accessed = _Accessed(op, isa.STORED, 0)
    sources, size = op.registers(1, accessed.kind, accessed.count), accessed.size

    def run(lanes: Lanes) -> None:
        memory = lanes.wave.memory
        value = np.stack([lanes.read(source) for source in sources], axis=-1)
        wide = value.view(STORAGE[8 * size])[..., 0]
        for part, members in accessed.objects(lanes):
            for at in members:
                memory.store(part, "global", at, wide, size, accessed.line)

    return in_order(run, order)


@table.step("multimem.red")
def red(op: Op) -> Step:
    """`multimem.red{.sem}{.scope}{.global}.op{.vec}.type [a], b`."""
    order = _order(op, "release", "relaxed")
    name = op.choice(isa.REDUCED)
    op.count(2)
    integers = tuple(kind for kind in isa.REDUCED[name] if kind not in isa.FLOATS)
    accessed = _Accessed(op, (*integers, *isa.ADDED[name]), 0)
    sources = op.registers(1, accessed.kind, accessed.count)
    update, width = update_of(op, name, accessed.kind), accessed.kind.bytes

    def run(lanes: Lanes) -> None:
        memory = lanes.wave.memory
        values = [lanes.read(source) for source in sources]
        for part, members in accessed.objects(lanes):
            for at in members:
                for number, value in enumerate(values):
                    where = at + np.uint64(number * width) if number else at
                    old = np.zeros(where.shape, STORAGE[8 * width])
                    for piece in memory.locate(part, "global", where, width, "atomic", accessed.line):
                        lanes.wave.changes += apply(piece, update, [value], old)

    return in_order(run, order)
