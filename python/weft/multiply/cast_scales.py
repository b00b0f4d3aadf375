"""The scales of the kernels that cast to fp8: largest magnitudes, over lanes, threads and CTAs, and the scale
and the factor that follow from one.
"""

from collections.abc import Callable
from typing import Any

from weft.isa.chips import LANES
from weft.mlir import arith, gpu, ir, llvm, nvvm
from weft.multiply.cast_tiles import ACROSS, FACTORS, MAXIMA, OWN, SIDE, THREADS, Square, f32, own
from weft.multiply.copied_bytes import i64
from weft.passes.builders import addresses, emit

LARGEST = {"f8E4M3FN": 448.0, "f8E5M2": 57344.0}
"""The largest finite number of each type of fp8."""
LEAST = 2.0**-100
"""The least scale. Its reciprocal is finite."""
_MAGNITUDE = 0x7FFFFFFF
_POWER = -(1 << 23)  # the bits of the sign and the exponent


def scale_and_factor(largest: ir.Value, element: str, powers_of_two: bool) -> tuple[ir.Value, ir.Value]:
    """The scale for elements with this largest magnitude, and its reciprocal."""
    scale = arith.divf(largest, emit.constant(f32(), LARGEST[element]))
    scale = llvm.intr_maxnum(scale, emit.constant(f32(), LEAST))
    if powers_of_two:
        up = emit.add(arith.bitcast(emit.i32(), scale), (1 << 23) - 1)
        scale = arith.bitcast(f32(), arith.andi(up, emit.value(_POWER)))
    one, zero = emit.constant(f32(), 1.0), emit.constant(f32(), 0.0)
    scale = arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, largest, zero), one, scale)
    return scale, arith.divf(one, scale)


def magnitude(x: ir.Value) -> ir.Value:
    """Without its sign."""
    bits = arith.andi(arith.bitcast(emit.i32(), x), emit.value(_MAGNITUDE))
    return arith.bitcast(f32(), bits)


def larger(x: ir.Value, y: ir.Value) -> ir.Value:
    """The larger of two magnitudes; of NaN and a number, the number."""
    return llvm.intr_maxnum(x, y)


def largest(values: list[ir.Value]) -> ir.Value:
    """The largest magnitude of some f32; 0 if all are NaN."""
    found = emit.constant(f32(), 0.0)
    for each in values:
        found = larger(found, magnitude(each))
    return found


def row_maxima(values: Square) -> list[ir.Value]:
    """The largest magnitude of each row of a thread."""
    return [largest(row) for row in values]


def column_maxima(values: Square) -> list[Any]:
    """The largest magnitude of each column of a thread."""
    return [largest(list(column)) for column in zip(*values, strict=True)]


def over_row(maxima: list[ir.Value]) -> ir.Value:
    """The maximum over the lanes with the same 8 rows. A lane gets that of the row whose number are the low
    bits of the lane.
    """
    _, part = own()
    bit = OWN // 2
    while bit:
        upper = emit.equal(emit.bit_and(part, bit), bit)
        half = len(maxima) // 2
        pairs = list(zip(maxima[:half], maxima[half:], strict=True))
        kept = [arith.select(upper, high, low) for low, high in pairs]
        sent = [arith.select(upper, low, high) for low, high in pairs]
        maxima = [larger(x, _of_neighbor(y, bit)) for x, y in zip(kept, sent, strict=True)]
        bit //= 2
    return larger(maxima[0], _of_neighbor(maxima[0], OWN))


def of_rows(number: ir.Value) -> list[ir.Value]:
    """The numbers of this thread's 8 rows, of which each lane has one as `over_row` returns them."""
    first = emit.bit_and(emit.thread(), LANES - ACROSS)
    return [emit.of_lane(number, emit.add(first, i)) for i in range(OWN)]


def over_columns(maxima: list[Any], shared: Any) -> Any:
    """The maximum of each column over all rows of a tile, of the first 128 threads in order. Shared memory
    must not be in use; it is free again after a barrier.
    """
    group, part = own()
    at = emit.add(emit.mul(group, 4 * SIDE), emit.mul(part, 4 * OWN))
    _store_own(maxima, addresses.offset(shared, emit.add(at, MAXIMA)))
    gpu.barrier()
    column = emit.bit_and(emit.thread(), SIDE - 1)
    at = addresses.offset(shared, emit.add(emit.mul(column, 4), MAXIMA))
    return largest([llvm.load(f32(), addresses.offset(at, 4 * SIDE * i)) for i in range(ACROSS)])


def over_all(maximum: ir.Value, shared: ir.Value) -> ir.Value:
    """The maximum over all threads, in all of them. Shared memory must not be in use; it is free again after
    a barrier.
    """
    bit = LANES // 2
    while bit:
        maximum = larger(maximum, _of_neighbor(maximum, bit))
        bit //= 2
    thread = emit.thread()
    with emit.when(emit.equal(emit.bit_and(thread, LANES - 1), 0)):
        warp = emit.shift_right(thread, LANES.bit_length() - 1)
        llvm.store(maximum, addresses.offset(shared, emit.add(emit.mul(warp, 4), MAXIMA)))
    gpu.barrier()
    kept = addresses.offset(shared, MAXIMA)
    return largest([llvm.load(f32(), addresses.offset(kept, 4 * i)) for i in range(THREADS // LANES)])


def shared_by(number: ir.Value, shared: ir.Value, part: ir.Value) -> list[ir.Value]:
    """The numbers from 8 * part on of those that the first 128 threads have."""
    at = addresses.offset(shared, FACTORS)
    with emit.when(emit.less(emit.thread(), SIDE)):
        llvm.store(number, addresses.offset(at, emit.mul(emit.thread(), 4)))
    gpu.barrier()
    at = addresses.offset(at, emit.mul(part, 4 * OWN))
    kind = ir.VectorType.get([4], f32())
    return [
        each for i in range(0, OWN, 4) for each in emit.elements(llvm.load(kind, addresses.offset(at, 4 * i)))
    ]


def over_partials(
    partials: ir.Value, first: ir.Value | int, end: ir.Value, step: int, pitch: ir.Value
) -> ir.Value:
    """The largest of the numbers at `first`, `first + step`, ... below `end`, each times `pitch`. `partials`
    is their address.
    """

    def body(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        at = arith.muli(i64(number), i64(pitch))
        found = llvm.load(f32(), addresses.offset(partials, arith.muli(at, i64(4))))
        return [larger(carried[0], found)]

    (found,) = emit.loop(first, end, step, [emit.constant(f32(), 0.0)], body)
    return found


def put(number: ir.Value, address: ir.Value, index: ir.Value, condition: ir.Value) -> None:
    """Stores a f32 as an element of a vector, where the condition is true."""
    pointer = llvm.addrspacecast(addresses.pointer_type(1), address)
    with emit.when(condition):
        llvm.store(number, addresses.offset(pointer, arith.muli(i64(index), i64(4))))


def loop(first: ir.Value, end: ir.Value, count: int, body: Callable[[Any], list[Any]]) -> list[ir.Value]:
    """The maxima of `count` lists of numbers, one for each number from `first` to `end`."""

    def step(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        return [larger(x, y) for x, y in zip(carried, body(number), strict=True)]

    return emit.loop(first, end, 1, [emit.constant(f32(), 0.0)] * count, step)


def _store_own(numbers: list[Any], address: Any) -> None:
    for i in range(0, OWN, 4):
        llvm.store(emit.vector_of(numbers[i : i + 4]), addresses.offset(address, 4 * i))


def _of_neighbor(number: ir.Value, bit: int) -> ir.Value:
    """The number of the lane whose number differs in a bit."""
    return emit.of_lane(number, bit, nvvm.ShflKind.bfly)
