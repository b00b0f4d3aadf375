"""Sums of all elements up to each one: of tiles, of vectors, and of a number of each thread."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.isa.chips import LANES, WARPS
from weft.language import exchanges, operators, registers, trace
from weft.language import warps as groups
from weft.language.coordinates import column, row
from weft.language.fragments import Fragment, from_first
from weft.language.mistakes import mistake
from weft.language.scalars import Scalar
from weft.layout import MEMORY, Iter
from weft.mlir import arith, nvvm
from weft.passes.builders import emit, thread_ids


def cumsum(x: Any, axis: int | None = None) -> Any:
    """For each element of a tile, the sum of those up to it along an axis: in its row (`axis=1`), or in its
    column (`axis=0`). For each element of a vector, the sum of those up to it.

    For a number of each thread, it is the sum of those of threads up to this one, in the role, outside of
    roles in the CTA. All threads of the warpgroup, of the role or of the CTA must execute it.
    """
    trace.current().check_whole_warps("w.cumsum")
    if not isinstance(x, Fragment):
        return Scalar(_of_threads(groups.number(x, axis, "w.cumsum expects a fragment")))
    axis = from_first(x, axis)
    if axis not in ((0, 1) if len(x.shape) == 2 else (None, 0)):
        legal = "0 or 1" if len(x.shape) == 2 else "None or 0"
        raise mistake(f"axis must be {legal}, of {x}, got {axis}")
    return _of_fragment(x, axis or 0)


@dataclass
class _Block:
    """Elements along an axis that follow each other: their sum, and the parts that they are in, each with
    what is added to its elements. A block of one register has no parts.
    """

    total: Any
    register: int = -1
    parts: list[tuple["_Block", Any]] = field(default_factory=list)

    def sums(self, before: Any, found: dict[int, Any]) -> None:
        """Adds the sums up to the element of each register."""
        if not self.parts:
            found[self.register] = _plus(before, self.total)
        for part, offset in self.parts:
            part.sums(_plus(before, offset), found)

    def added_up(self) -> "_Block":
        """The same block whose parts are registers with the sums up to their elements. Otherwise what is
        added to elements would be in registers beside them, where values of all warps are.
        """
        found = dict[int, Any]()
        self.sums(None, found)
        return _Block(self.total, parts=[(_Block(value, number), None) for number, value in found.items()])


_Key = tuple[tuple[int, ...], tuple[int, ...]]  # the line, and the digits of registers along the axis


def _of_fragment(x: Fragment, axis: int) -> Fragment:
    digits = [it for it in x.layout.group(x.shape)[axis] if it.extent > 1]
    blocks = dict[_Key, _Block]()
    numbered = zip(registers.registers_of(x.layout, x.shape), x.elements(), strict=True)
    for register, (at, element) in enumerate(numbered):
        along, held = at[axis], list[int]()
        for it in reversed(digits):
            held += [along % it.extent] if it.axis == MEMORY else []
            along //= it.extent
        line = at[:axis] + at[axis + 1 :]
        blocks[line, tuple(reversed(held))] = _Block(element, register)
    for number, it in reversed(list(enumerate(digits))):
        if it.axis == MEMORY:
            blocks = _of_registers(blocks)
        elif it.axis == "laneid" and it.extent & (it.extent - 1) == 0:
            blocks = {key: _of_lanes(block, it) for key, block in blocks.items()}
        elif (it.extent, it.stride) == (WARPS, 1):
            blocks = _of_warps(x, axis, blocks, digits[number + 1 :])
        else:
            raise mistake(f"can't add up along axis {axis} in layout {x.layout}: w.convert the tile")
    found = dict[int, Any]()
    for block in blocks.values():
        block.sums(None, found)
    return Fragment(emit.vector_of([found[number] for number in range(len(found))]), x.shape, x.layout)


def _of_registers(blocks: dict[_Key, _Block]) -> dict[_Key, _Block]:
    """The blocks that follow each other in registers, as one."""
    joined = dict[_Key, _Block]()
    for (line, held), block in sorted(blocks.items(), key=lambda item: item[0]):
        key = line, held[:-1]
        if key not in joined:
            joined[key] = _Block(block.total, parts=[(block, None)])
            continue
        whole = joined[key]
        whole.parts.append((block, whole.total))
        whole.total = _plus(whole.total, block.total)
    return joined


def _of_lanes(block: _Block, it: Iter) -> _Block:
    """The blocks that follow each other in lanes, as one."""
    before, total = _lanes(block.total, it)
    return _Block(total, parts=[(block, before)])


def _of_warps(
    x: Fragment, axis: int, blocks: dict[_Key, _Block], inner: Sequence[Iter]
) -> dict[_Key, _Block]:
    """The blocks that follow each other in warps, as one."""
    blocks = {key: block.added_up() for key, block in blocks.items()}
    held = sorted({key[1] for key in blocks})
    lines, base = 1, emit.value(0)
    if len(x.shape) == 2:
        lines = x.shape[1 - axis]
        base = (row if axis else column)(x).base.value
    values = [
        (emit.add(base, held.index(digits) * lines + (line[0] if line else 0)), block.total)
        for (line, digits), block in blocks.items()
    ]
    stores = exchanges.first_of_copies(x.layout)
    for it in inner:
        if it.axis == "laneid":
            stores = arith.andi(stores, emit.equal(exchanges.digit(it), 0))
    _, warp = groups.group(WARPS)
    found = groups.exchanged(values, lines * len(held), WARPS, stores)
    return {
        key: _Block(exchanges.folded("add", list(each)), parts=[(block, _before(each, warp))])
        for (key, block), each in zip(blocks.items(), found, strict=True)
    }


def _of_threads(value: Any) -> Any:
    """The sum of the numbers of threads up to this one."""
    before, total = _lanes(value, Iter(LANES, 1, "laneid"))
    warps, warp = groups.group(0)
    up_to = _plus(before, value)
    if warps == 1:
        return up_to
    return _plus(_before(groups.of_each(total, warps), warp), up_to)


def _lanes(value: Any, it: Iter) -> tuple[Any, Any]:
    """The sum over lanes with smaller digits, and over all lanes."""
    digit, zero = exchanges.digit(it), emit.constant(value.type, 0)
    up_to, distance = value, 1
    while distance < it.extent:
        other = emit.of_lane(up_to, distance * it.stride, nvvm.ShflKind.up)
        up_to = _plus(up_to, arith.select(emit.less(distance - 1, digit), other, zero))
        distance *= 2
    before = arith.select(emit.less(0, digit), emit.of_lane(up_to, it.stride, nvvm.ShflKind.up), zero)
    last = emit.add(thread_ids.lane(), emit.mul(emit.sub(it.extent - 1, digit), it.stride))
    return before, emit.of_lane(up_to, last)


def _before(each: Sequence[Any], warp: Any) -> Any:
    """The sum of the values of warps before this one."""
    zero = emit.constant(each[0].type, 0)
    terms = [arith.select(emit.less(number, warp), value, zero) for number, value in enumerate(each[:-1])]
    return exchanges.folded("add", terms)


def _plus(one: Any, other: Any) -> Any:
    """The sum of two values; None stands for 0."""
    if one is None or other is None:
        return other if one is None else one
    return operators.apply("add", one, other)
