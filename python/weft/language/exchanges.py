"""Reductions of the values of a lane, and of the lanes of a warp by exchanges."""

from typing import Any

from weft.isa.chips import LANES
from weft.language import operators
from weft.layout import Iter, Layout
from weft.mlir import arith, ir, nvvm
from weft.passes.builders import emit, thread_ids


def first_of_copies(layout: Layout) -> Any:
    """Whether the lane holds the first copy of its elements: an i1."""
    first = arith.constant(emit.i1(), 1)
    for it in layout.replica:
        first = arith.andi(first, emit.equal(digit(it), 0))
    return first


def digit(it: Iter) -> Any:
    """The digit of the number of a lane or of a warp that an iterator of a layout has, in 0..extent - 1."""
    number = thread_ids.lane() if it.axis == "laneid" else thread_ids.warp()
    return emit.rem(emit.div(number, it.stride), it.extent)


def folded(name: str, values: list[Any]) -> Any:
    """The reduction of values, neighbours first, so that few operations wait for each other."""
    while len(values) > 1:
        pairs = [values[n : n + 2] for n in range(0, len(values), 2)]
        values = [operators.apply(name, *pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return values[0]


def across(value: Any, name: str, distances: tuple[int, ...]) -> Any:
    """The reduction over the lanes at these distances, in all of them."""
    for distance in distances:
        value = operators.apply(name, value, of_lane(value, distance))
    return value


def of_lane(value: Any, distance: Any, kind: nvvm.ShflKind = nvvm.ShflKind.bfly) -> Any:
    """The value of the lane at a distance: at the number xor the distance, or with `up` before it, or with
    `idx` that of the lane of this number. Smaller ones than 32 bits travel in the low bits of a word, larger
    ones as two words.
    """
    bits = value.type.width
    if bits > emit.i32().width:
        return _of_lane_in_words(value, distance, kind)
    word = value
    if bits < emit.i32().width:
        whole = ir.IntegerType.get_signless(bits)
        as_integer = value if value.type == whole else arith.bitcast(whole, value)
        word = arith.extui(emit.i32(), as_integer)
    last = 0 if kind == nvvm.ShflKind.up else LANES - 1
    parts = emit.value(-1), word, emit.value(distance), emit.value(last)
    other = nvvm.ShflOp(*parts, kind, results=[word.type]).res
    if bits == emit.i32().width:
        return other
    narrow = arith.trunci(whole, other)
    return narrow if value.type == whole else arith.bitcast(value.type, narrow)


def _of_lane_in_words(value: Any, distance: Any, kind: nvvm.ShflKind) -> Any:
    """A value of 64 bits of another lane."""
    whole, half = ir.IntegerType.get_signless(64), emit.i32().width
    number = value if value.type == whole else arith.bitcast(whole, value)
    shift = emit.constant(whole, half)
    words = arith.trunci(emit.i32(), number), arith.trunci(emit.i32(), arith.shrui(number, shift))
    low, high = (arith.extui(whole, of_lane(each, distance, kind)) for each in words)
    other = arith.ori(low, arith.shli(high, shift))
    return other if value.type == whole else arith.bitcast(value.type, other)
