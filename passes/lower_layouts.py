"""`--lower-layouts`: vectors that become tiles, coordinates, and changes of the layout, which depend on where
the elements of a tile are, not on their values.
"""

from collections.abc import Callable
from typing import Any

from weft import mlir
from weft.dialects import tile
from weft.dialects.op import refuse
from weft.dialects.tile import BroadcastOp, ConvertLayoutOp, CoordinateOp, is_fragment
from weft.mlir import arith, ir, operations, tensor, vector
from weft.passes.builders import emit, registers
from weft.passes.registry.pass_ import Pass, rewrite


def run(module: ir.Operation) -> None:
    """Lowers the operations to those on each lane's vectors."""
    for op in _of_coordinates(module):
        with ir.InsertionPoint(op), op.location:
            (_compare if isinstance(op, arith.CmpIOp) else _add)(op)
    rewrite(module, dict.fromkeys(_LOWERED, _lower))


def _lower(op: Any) -> ir.Value:
    if not is_fragment(op.fragment):
        raise refuse(op, "expects a tile with a layout: run --assign-layouts first")
    return tile.from_lane(_LOWERED[type(op)](op), op.fragment.type)


def _of_coordinates(module: ir.Operation) -> list[ir.OpView]:
    """The operations that may compare coordinates or add numbers to them, the last ones first."""
    if not operations(module, CoordinateOp):
        return []
    found = operations(module, arith.CmpIOp, arith.AddIOp, arith.SubIOp)
    return [op for op in reversed(found) if is_fragment(op.result)]


def _add(op: ir.OpView) -> None:
    """Adds numbers to coordinates once for all of a lane's elements."""
    total = _sum(op.result)
    if total is not None and any(total[0]):
        lane = registers.offset(*total)
        op.result.replace_all_uses_with(tile.from_lane(lane, op.result.type))
        op.operation.erase()


def _compare(op: arith.CmpIOp) -> None:
    """Compares a constant for each of a lane's elements with one number of the lane, where the elements are
    coordinates to which numbers were added: nothing is then added for each element.
    """
    one, other = _sum(op.lhs), _sum(op.rhs)
    if one is None or other is None or not any((*one[0], *other[0])):
        return
    (left, low), (right, high) = one, other
    offsets = registers.constants_of([a - b for a, b in zip(left, right, strict=True)])
    limit = vector.broadcast(offsets.type, emit.value(emit.sub(high, low)))
    result = arith.cmpi(op.predicate, offsets, limit)
    op.result.replace_all_uses_with(tile.from_lane(result, op.result.type))
    op.operation.erase()


def _sum(value: ir.Value) -> tuple[tuple[int, ...], Any] | None:
    """A tile of i32 as a constant for each of a lane's elements, and a number that is added to all; None for
    other tiles.
    """
    kind, owner = value.type, value.owner
    if isinstance(owner, ir.Block) or str(kind.element_type) != "i32":
        return None
    op, zeros = owner.opview, (0,) * kind.registers
    if isinstance(op, CoordinateOp):
        return _coordinates(op)
    if isinstance(op, tensor.SplatOp):
        return zeros, op.input
    if (number := mlir.splat(value)) is not None:
        return zeros, number
    sign = {"arith.addi": 1, "arith.subi": -1}.get(owner.name, 0)
    one, other = (_sum(each) for each in owner.operands) if sign else (None, None)
    if one is None or other is None:
        return None
    (left, low), (right, high) = one, other
    offsets = tuple(a + sign * b for a, b in zip(left, right, strict=True))
    return offsets, emit.add(low, high) if sign > 0 else emit.sub(low, high)


def _coordinates(op: CoordinateOp) -> tuple[tuple[int, ...], Any]:
    """The coordinates of a lane's elements: constants, and the number of the lane that is added to all."""
    kind = op.fragment.type
    if (found := registers.coordinates(kind.layout, kind.shape, op.attribute("axis"))) is None:
        raise refuse(op, f"expects a layout whose lanes have regular coordinates, got {kind.layout}")
    return found


def _coordinate(op: CoordinateOp) -> ir.Value:
    return registers.offset(*_coordinates(op))


def _broadcast(op: BroadcastOp) -> ir.Value:
    kind, of = op.fragment.type, op.vector.type
    numbers = registers.along(kind.layout, kind.shape, 1 - op.attribute("axis"), of.layout, of.shape[0])
    if numbers is None:
        raise refuse(
            op,
            f"expects a vector along the tile in {kind.layout}, got one in {of.layout}: a vector is beside "
            "tiles of one layout, so load or compute one for each of them",
        )
    return _moved(op.vector, numbers)


def _convert(op: ConvertLayoutOp) -> ir.Value:
    kind, of = op.fragment.type, op.source.type
    numbers = registers.reordered(of.layout, kind.layout, kind.shape)
    if numbers is None:
        raise refuse(op, f"can't bring a tile in {of.layout} to {kind.layout}: other lanes hold its elements")
    return _moved(op.source, numbers)


def _moved(value: ir.Value, numbers: tuple[int, ...]) -> ir.Value:
    """The lane's elements with these numbers."""
    lane = tile.to_lane(value)
    return vector.shuffle(lane, lane, list(numbers))


_LOWERED: dict[Any, Callable[[Any], ir.Value]] = {
    CoordinateOp: _coordinate,
    BroadcastOp: _broadcast,
    ConvertLayoutOp: _convert,
}
LOWER_LAYOUTS = Pass(
    "lower-layouts",
    "turn broadcasts, coordinates and changes of the layout into moves among a lane's registers",
    run,
    lowers=tuple(_LOWERED),
)
