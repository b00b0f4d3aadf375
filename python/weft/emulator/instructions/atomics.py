"""Atomic operations on global and shared memory. Lanes with the same address execute in lane order."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from weft.emulator.decoding.decode import Op
from weft.emulator.decoding.table import Step, Table
from weft.emulator.instructions.memory_ops import in_order, order_of, qualifiers, state_space
from weft.emulator.instructions.move import give_way
from weft.emulator.memory.segments import Piece
from weft.emulator.numerics.floats import canonical, decode, encode, flush, sum_odd
from weft.emulator.reading.syntax import STORAGE, Array, Type
from weft.emulator.running.lanes import Lanes

table = Table()
_OPERATIONS = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
_INTEGERS = tuple(f"{kind}{bits}" for kind in "usb" for bits in (32, 64))
_HALVES = ("f16", "f16x2", "bf16", "bf16x2")
_TYPES = dict.fromkeys(_OPERATIONS, _INTEGERS) | {
    "add": (*_INTEGERS, *_HALVES, "f32", "f64"),
    "min": (*_INTEGERS, *_HALVES),
    "max": (*_INTEGERS, *_HALVES),
    "exch": (*_INTEGERS, "b128"),
    "cas": (*_INTEGERS, "b16", "b128"),
}
Update = Callable[..., Array]


def update_of(op: Op, name: str, kind: Type, in_l2: bool = False) -> Update:
    """The function from the old value and the operands to the new value, all as register bits. `in_l2`: that
    of global memory, except for tensor maps. There, sums flush subnormals of f32 to zeros, and keep NaN of
    f64 as it is.
    """
    if kind.name not in _TYPES[name]:
        op.fail(f".{name} isn't defined for .{kind}, but for .{', .'.join(_TYPES[name])}")
    if kind.is_float:
        return _float_update(name, kind, in_l2)
    view, storage = kind.view, kind.storage
    one = storage.type(1)
    updates: dict[str, Update] = {
        "add": lambda old, x: old + x,
        "and": lambda old, x: old & x,
        "or": lambda old, x: old | x,
        "xor": lambda old, x: old ^ x,
        "exch": lambda old, x: x,
        "min": lambda old, x: np.minimum(old.view(view), x.view(view)).view(storage),
        "max": lambda old, x: np.maximum(old.view(view), x.view(view)).view(storage),
        "inc": lambda old, x: np.where(old >= x, storage.type(0), old + one),
        "dec": lambda old, x: np.where((old == 0) | (old > x), x, old - one),
        "cas": _compare_and_swap,
    }
    return updates[name]


def _compare_and_swap(old: Array, expected: Array, new: Array) -> Array:
    return np.where(old == expected, new, old)


def _float_update(name: str, kind: Type, in_l2: bool) -> Update:
    element = kind.name.removesuffix("x2")
    if element in ("f32", "f64") and name == "add":
        native = np.dtype(f"f{kind.bytes}")

        def add(old: Array, x: Array) -> Array:
            return canonical(old.view(native) + x.view(native), element)

        def add_in_l2(old: Array, x: Array) -> Array:
            if element == "f32":
                return flush(add(flush(old, "f32"), flush(x, "f32")), "f32")
            either = np.where(np.isnan(old.view(native)), old, add(old, x))
            return np.where(np.isnan(x.view(native)), x, either)

        return add_in_l2 if in_l2 else add
    functions: dict[str, Update] = {"add": sum_odd, "min": np.fmin, "max": np.fmax}
    function = functions[name]

    def update(old: Array, x: Array) -> Array:
        values = [decode(np.ascontiguousarray(v).view(np.uint16), element) for v in (old, x)]
        return encode(function(*values), element).view(kind.storage)

    return update


@table.step("atom", "red")
def atomic(op: Op) -> Step:
    """`atom d, [a], b{, c}`; `red` is the same without a result."""
    order = order_of(op, "relaxed")
    qualifiers(op)
    name = op.choice(_OPERATIONS)
    exchanging = order and order._replace(exchanges=name == "exch")
    op.flag("noftz")
    space = state_space(op)
    count = int(op.choice(["v2", "v4", "v8"], "v1")[1:])
    kind = op.type()
    returns = op.prefix == "atom"
    first = 1 if returns else 0
    inputs = 2 if name == "cas" else 1
    op.count(first + 1 + inputs, first + 2 + inputs)
    address = op.address(first, space)
    if address.space not in ("global", "shared", "generic"):
        op.fail(f"isn't defined in {address.space} space")
    update, in_global, line = update_of(op, name, kind), update_of(op, name, kind, in_l2=True), op.line
    sources = [op.registers(first + 1 + n, kind, count) for n in range(inputs)]
    results = op.registers(0, kind, count, writes=True) if returns else []
    width = kind.bytes

    def run(lanes: Lanes) -> None:
        addresses, shared = address(lanes), lanes.wave.memory.shared.view(width)
        for part in range(count):
            values = [lanes.read(s[part]) for s in sources]
            at = addresses + np.uint64(part * width) if part else addresses
            old = np.zeros(addresses.shape, STORAGE[8 * width])
            for piece in lanes.wave.memory.locate(lanes, address.space, at, width, "atomic", line):
                how = update if piece.view is shared else in_global
                lanes.wave.changes += apply(piece, how, values, old)
            if results:
                lanes.write(results[part], old)
        if returns:
            give_way(lanes)

    return in_order(run, exchanging)


def apply(piece: Piece, update: Update, values: list[Array], old: Array) -> bool:
    """Updates the elements of a piece and writes the previous values to `old`; returns whether anything
    changed.
    """
    changed = False
    mask = np.ones(old.shape, np.bool_) if piece.mask is None else piece.mask
    index, inputs = piece.elements[mask], [v[mask] for v in values]
    before = np.empty(len(index), old.dtype)
    for now in turns(index):
        before[now] = piece.view[index[now]]
        new = update(before[now], *[v[now] for v in inputs])
        piece.view[index[now]] = new
        changed = changed or bool((new != before[now]).any())
    old[mask] = before
    return changed


def turns(index: npt.NDArray[np.intp]) -> list[npt.NDArray[np.intp]]:
    """The positions of `index` in rounds of distinct elements; those of the same element in order."""
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    if len(starts) == len(index):
        return [order]
    runs = np.diff(np.r_[starts, len(index)])
    turn = np.arange(len(index)) - np.repeat(starts, runs)
    by_turn = order[np.argsort(turn, kind="stable")]
    return np.split(by_turn, np.cumsum(np.bincount(turn))[:-1])
