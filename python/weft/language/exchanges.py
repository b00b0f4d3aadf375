"""Reductions of the values of a lane, and of the lanes of a warp by exchanges."""

from weft.language import operators
from weft.layout import Iter, Layout
from weft.mlir import arith, ir, nvvm
from weft.passes.builders import emit, thread_ids


def first_of_copies(layout: Layout) -> ir.Value:
    """Whether the lane holds the first copy of its elements: an i1."""
    first = arith.constant(emit.i1(), 1)
    for it in layout.replica:
        first = arith.andi(first, emit.equal(digit(it), 0))
    return first


def digit(it: Iter) -> ir.Value:
    """The digit of the number of a lane or of a warp that an iterator of a layout has, in 0..extent - 1."""
    number = thread_ids.lane() if it.axis == "laneid" else thread_ids.warp()
    return emit.rem(emit.div(number, it.stride), it.extent)


def folded(name: str, values: list[ir.Value]) -> ir.Value:
    """The reduction of values, neighbors first, so that few operations wait for each other."""
    while len(values) > 1:
        pairs = [values[n : n + 2] for n in range(0, len(values), 2)]
        values = [operators.apply(name, *pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return values[0]


def across(value: ir.Value, name: str, distances: tuple[int, ...]) -> ir.Value:
    """The reduction over the lanes at these distances, in all of them."""
    for distance in distances:
        value = operators.apply(name, value, emit.of_lane(value, distance, nvvm.ShflKind.bfly))
    return value
