"""Scans of tiles, of vectors, and of a number of each thread: all elements up to each one, combined."""

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from weft.isa.chips import LANES
from weft.language.capture import trace
from weft.language.messages.mistakes import mistake
from weft.language.operations import reductions
from weft.language.operations import shared_exchange as groups
from weft.language.values import operators
from weft.language.values.coordinates import of_lanes
from weft.language.values.dtypes import i1
from weft.language.values.fragments import Fragment, from_first
from weft.language.values.scalars import Scalar, as_scalar, dtype_of
from weft.layout import MEMORY, Iter
from weft.mlir import arith, ir, nvvm
from weft.passes.builders import emit, registers, thread_ids

Values = tuple[ir.Value, ...]


class Part(NamedTuple):
    """The combination of elements that follow each other, a value of each array. Where `has` is false,
    there are no such elements; without it, there are.
    """

    values: Values
    has: ir.Value | None = None


class Law:
    """How two parts become one."""

    def combined(self, one: Values, other: Values) -> Values:
        """The values of a part and of the one that follows it, as one."""
        raise NotImplementedError

    def where(self, has: ir.Value, values: Values) -> Part:
        """A part that exists where `has`, an i1, is true."""
        return Part(values, has)

    def joined(self, one: Part | None, other: Part) -> Part:
        """A part, or None, and one that follows it."""
        if one is None:
            return other
        values, has = self.combined(one.values, other.values), None
        if other.has is not None:
            values = _selected(other.has, values, one.values)
        if one.has is not None:
            values = _selected(one.has, values, other.values)
            has = None if other.has is None else arith.ori(one.has, other.has)
        return Part(values, has)

    def folded(self, parts: Sequence[Part]) -> Part:
        """Parts that follow each other, as one."""
        return functools.reduce(self.joined, parts)


class Sums(Law):
    """Adds up one array. The sum of no elements is 0."""

    def combined(self, one: Values, other: Values) -> Values:
        return (operators.apply("add", one[0], other[0]),)

    def where(self, has: ir.Value, values: Values) -> Part:
        return Part(_selected(has, values, tuple(emit.constant(each.type, 0) for each in values)))

    def folded(self, parts: Sequence[Part]) -> Part:
        return Part((reductions.reduced("add", [each.values[0] for each in parts]),))


class Function(Law):
    """Combines the elements of arrays by an associative function of numbers."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function

    def combined(self, one: Values, other: Values) -> Values:
        result = self._function(*map(Scalar, (*one, *other)))
        numbers = result if isinstance(result, (tuple, list)) else (result,)
        if len(numbers) != len(one):
            expected = f"{len(one)} numbers, one of each array" if len(one) > 1 else "1 number"
            raise mistake(f"combine must return {expected}, got {len(numbers)}")
        types = [dtype_of(each.type) for each in one]
        return tuple(as_scalar(each, dtype).value for each, dtype in zip(numbers, types, strict=True))


def check_parameters(combine: Callable[..., object], count: int) -> None:
    """Raises WeftError for a function that doesn't take this many numbers."""
    try:
        signature = inspect.signature(combine)
    except ValueError:  # some functions of C have none
        return
    try:
        signature.bind(*[None] * count)
    except TypeError as error:
        legal = "two numbers" if count == 2 else f"{count} numbers, an earlier and a later one of each array"
        raise mistake(f"combine must take {legal}: {error}") from None


def _selected(condition: ir.Value, values: Values, others: Values) -> Values:
    return tuple(arith.select(condition, *pair) for pair in zip(values, others, strict=True))


def cumsum(x: object, axis: int | None = None) -> Fragment | Scalar:
    """For each element of a tile, the sum of those up to it along an axis: in its row (`axis=1`), or in its
    column (`axis=0`). For each element of a vector, the sum of those up to it.

    For a number of each thread, it is the sum of those of threads up to this one, in the role, outside of
    roles in the CTA. All threads of the warpgroup, of the role or of the CTA must execute it.
    """
    (sums,) = _scanned("w.cumsum", (x,), axis, Sums())
    return sums


def associative_scan(x: object, combine: Callable[..., object], axis: int | None = None) -> object:
    """Elements up to each one, combined by an associative function of two numbers, along an axis as for
    `w.cumsum`: `w.associative_scan(t, w.maximum, axis=1)` has the largest number up to each one.

    `x` may be a tuple of tiles, of vectors or of numbers. `combine` then gets the numbers of one element and
    those of a later one, and returns a tuple; the result is a tuple, too. Linear recurrences h = a * h + b:
    `_, h = w.associative_scan((a, b), lambda a, b, a2, b2: (a * a2, b * a2 + b2), axis=1)`.
    """
    if not callable(combine):
        raise mistake(f"combine must be a function of two numbers, such as w.maximum, got {combine}")
    if isinstance(x, list):
        raise mistake("w.associative_scan expects several tiles, vectors or numbers as a tuple, got a list")
    each = x if isinstance(x, tuple) else (x,)
    check_parameters(combine, 2 * len(each))
    scanned = _scanned("w.associative_scan", each, axis, Function(combine))
    return scanned if isinstance(x, tuple) else scanned[0]


def _scanned(name: str, xs: tuple[object, ...], axis: int | None, law: Law) -> tuple[Fragment | Scalar, ...]:
    trace.current().check_whole_warps(name)
    first = xs[0] if xs else None
    if not isinstance(first, Fragment):
        values = tuple(groups.number(x, axis, f"{name} expects a fragment") for x in xs)
        _check_types(name, values, law)
        return tuple(map(Scalar, _of_threads(values, law)))
    axis = from_first(first, axis)
    if isinstance(axis, float) or axis not in ((0, 1) if len(first.shape) == 2 else (None, 0)):
        legal = "0 or 1" if len(first.shape) == 2 else "None or 0"
        raise mistake(f"axis must be {legal}, of {first}, got {axis}")
    fragments = [first]
    for other in xs[1:]:
        same = isinstance(other, Fragment) and other.shape == first.shape
        if not (
            isinstance(other, Fragment) and same and registers.same(first.layout, other.layout, first.shape)
        ):
            hint = " in another layout: use w.convert" if same else ""
            raise mistake(f"{name} expects fragments of one shape and layout, got {first} and {other}{hint}")
        fragments.append(other)
    _check_types(name, tuple(x.lane for x in fragments), law)
    return _of_fragments(fragments, axis or 0, law)


def _check_types(name: str, values: Values, law: Law) -> None:
    if not values:
        raise mistake(f"{name} expects a fragment, or a number of each thread, got ()")
    kinds = [dtype_of(each.type) for each in values]
    if isinstance(law, Function) and i1 in kinds:
        raise mistake(f"{name} expects numbers, got conditions: convert them with .to(w.i32)")
    if any(kind.is_float and kind.bits == 8 for kind in kinds):
        raise mistake("floats of 8 bits have no arithmetic: convert them with .to(w.f32)")


@dataclass
class _Block:
    """Elements along an axis that follow each other: what they are combined to, and the parts that they are
    in, each with what precedes it. A block of one register has no parts.
    """

    total: Part
    register: int = -1
    parts: list[tuple["_Block", Part | None]] = field(default_factory=list)

    def found(self, before: Part | None, law: Law) -> Iterator[tuple[int, Part]]:
        """The elements up to that of each register, combined."""
        if not self.parts:
            yield self.register, law.joined(before, self.total)
        for part, offset in self.parts:
            yield from part.found(before if offset is None else law.joined(before, offset), law)

    def flat(self, law: Law) -> "_Block":
        """The same block whose parts are registers with the elements up to theirs. Otherwise what precedes
        elements would be in registers beside them, where values of all warps are.
        """
        registers_ = dict(self.found(None, law))
        return _Block(self.total, parts=[(_Block(part, number), None) for number, part in registers_.items()])


_Key = tuple[tuple[int, ...], tuple[int, ...]]  # the line, and the digits of registers along the axis


def _of_fragments(xs: Sequence[Fragment], axis: int, law: Law) -> tuple[Fragment, ...]:
    x = xs[0]
    digits = [it for it in x.layout.group(x.shape)[axis] if it.extent > 1]
    blocks = dict[_Key, _Block]()
    elements = zip(*(each.elements() for each in xs), strict=True)
    numbered = zip(registers.registers_of(x.layout, x.shape), elements, strict=True)
    for register, (at, values) in enumerate(numbered):
        along, held = at[axis], list[int]()
        for it in reversed(digits):
            held += [along % it.extent] if it.axis == MEMORY else []
            along //= it.extent
        line = at[:axis] + at[axis + 1 :]
        blocks[line, tuple(reversed(held))] = _Block(Part(values), register)
    for number, it in reversed(list(enumerate(digits))):
        if it.axis == MEMORY:
            blocks = _of_registers(blocks, law)
        elif it.axis == "laneid" and it.extent & (it.extent - 1) == 0:
            blocks = {key: _of_lanes(block, it, law) for key, block in blocks.items()}
        elif it.stride == 1 and it.extent == x.layout.span("warpid"):
            blocks = _of_warps(x, axis, blocks, digits[number + 1 :], law)
        else:
            raise mistake(f"can't add up along axis {axis} in layout {x.layout}: w.convert the tile")
    elements_up_to = dict[int, Part]()
    for block in blocks.values():
        elements_up_to |= block.found(None, law)
    columns = zip(*(elements_up_to[number].values for number in range(len(elements_up_to))), strict=True)
    return tuple(Fragment.of_lane(emit.vector_of(list(each)), x.shape, x.layout) for each in columns)


def _of_registers(blocks: dict[_Key, _Block], law: Law) -> dict[_Key, _Block]:
    """The blocks that follow each other in registers, as one."""
    joined = dict[_Key, _Block]()
    for (line, held), block in sorted(blocks.items(), key=lambda item: item[0]):
        key = line, held[:-1]
        if key not in joined:
            joined[key] = _Block(block.total, parts=[(block, None)])
            continue
        block_of_key = joined[key]
        block_of_key.parts.append((block, block_of_key.total))
        block_of_key.total = law.joined(block_of_key.total, block.total)
    return joined


def _of_lanes(block: _Block, it: Iter, law: Law) -> _Block:
    """The blocks that follow each other in lanes, as one."""
    before, total = _lanes(block.total.values, it, law)
    return _Block(Part(total), parts=[(block, before)])


def _of_warps(
    x: Fragment, axis: int, blocks: dict[_Key, _Block], inner: Sequence[Iter], law: Law
) -> dict[_Key, _Block]:
    """The blocks that follow each other in warps, as one."""
    blocks = {key: block.flat(law) for key, block in blocks.items()}
    held = sorted({key[1] for key in blocks})
    lines, base = 1, emit.value(0)
    if len(x.shape) == 2:
        lines = x.shape[1 - axis]
        base = of_lanes(x, 1 - axis).base.value
    slots = [emit.add(base, held.index(digits) * lines + (line[0] if line else 0)) for line, digits in blocks]
    stores = thread_ids.first_of_copies(x.layout)
    for it in inner:
        if it.axis == "laneid":
            stores = arith.andi(stores, emit.equal(thread_ids.digit(it.axis, it.stride, it.extent), 0))
    warps = x.layout.span("warpid")
    _, warp = groups.group(warps)
    totals = [block.total.values for block in blocks.values()]
    joined = dict[_Key, _Block]()
    for (key, block), each in zip(
        blocks.items(), _of_all_warps(slots, totals, (lines * len(held), warps), stores), strict=True
    ):
        every = law.folded([Part(values) for values in each])
        joined[key] = _Block(every, parts=[(block, _before(each, warp, law))])
    return joined


def _of_all_warps(
    slots: Sequence[ir.Value], totals: Sequence[Values], counts: tuple[int, int], stores: ir.Value
) -> Iterator[list[Values]]:
    """For each slot, the values of all warps; `counts` are the numbers of slots and of warps. Those of one
    array are loaded as the caller takes them; those of several at once, since the arrays share memory.
    """
    arrays = list(zip(*totals, strict=True))
    values_of_warps = (
        groups.exchanged(list(zip(slots, each, strict=True)), *counts, stores) for each in arrays
    )
    kept = (each if len(arrays) == 1 else list(each) for each in values_of_warps)
    return (list(zip(*each, strict=True)) for each in zip(*kept, strict=True))


def _of_threads(values: Values, law: Law) -> Values:
    """The numbers of threads up to this one, combined."""
    before, total = _lanes(values, Iter(LANES, 1, "laneid"), law)
    warps, warp = groups.group(0)
    up_to = law.joined(before, Part(values))
    if warps > 1:
        each = list(zip(*(groups.of_each(value, warps) for value in total), strict=True))
        up_to = law.joined(_before(each, warp, law), up_to)
    return up_to.values


def _lanes(values: Values, it: Iter, law: Law) -> tuple[Part, Values]:
    """The values of lanes with smaller digits, combined, and those of all lanes."""
    digit = thread_ids.digit(it.axis, it.stride, it.extent)
    up_to, distance = Part(values), 1
    while distance < it.extent:
        other = _of_lane(up_to.values, distance * it.stride, nvvm.ShflKind.up)
        up_to = law.joined(law.where(emit.less(distance - 1, digit), other), up_to)
        distance *= 2
    before = law.where(emit.less(0, digit), _of_lane(up_to.values, it.stride, nvvm.ShflKind.up))
    last = emit.add(thread_ids.lane(), emit.mul(emit.sub(it.extent - 1, digit), it.stride))
    return before, _of_lane(up_to.values, last, nvvm.ShflKind.idx)


def _of_lane(values: Values, lane: ir.Value | int, kind: nvvm.ShflKind) -> Values:
    return tuple(emit.of_lane(each, lane, kind) for each in values)


def _before(each: Sequence[Values], warp: ir.Value, law: Law) -> Part:
    """The values of warps before this one, combined."""
    return law.folded([law.where(emit.less(number, warp), values) for number, values in enumerate(each[:-1])])
