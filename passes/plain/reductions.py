"""Reductions: which of their sums a result needs, and how the lanes of a warp add up one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weft import mlir
from weft.isa.chips import LANES
from weft.mlir import arith, ir
from weft.passes.builders import emit
from weft.passes.plain.indices import Sizes


def _least(kind: ir.Type) -> int:
    return -(1 << int(kind.width) - 1)


# What each operation leaves unchanged, by the type of numbers.
_NEUTRAL: dict[str, Callable[[ir.Type], float]] = {
    "arith.addf": lambda _: -0.0,
    "arith.mulf": lambda _: 1.0,
    "arith.maximumf": lambda _: float("-inf"),
    "arith.minimumf": lambda _: float("inf"),
    "arith.addi": lambda _: 0,
    "arith.muli": lambda _: 1,
    "arith.ori": lambda _: 0,
    "arith.andi": lambda _: -1,
    "arith.maxsi": _least,
    "arith.minsi": lambda kind: -1 - _least(kind),
    "arith.maxui": lambda _: 0,
    "arith.minui": lambda _: -1,
}
_KINDS = ("f32", "f64", "i32", "i64")


@dataclass(frozen=True)
class Needed:
    """The operations of a body that a result needs, and the numbers of the results whose sums they use."""

    ops: set[ir.Operation]
    results: tuple[int, ...]


def needed(block: ir.Block, inputs: int, number: int) -> Needed:
    """The part that result `number` needs of a body whose first `inputs` arguments aren't sums."""
    arguments = list(block.arguments)
    terminator = block.operations[-1].operation
    wanted, ops = {number}, set[ir.Operation]()
    while True:
        values = [terminator.operands[each] for each in wanted]
        used = _used(block, values, ops)
        more = {arguments.index(each) - inputs for each in used if each in arguments[inputs:]} | wanted
        if more == wanted:
            return Needed(ops, tuple(sorted(wanted)))
        wanted = more


def _used(block: ir.Block, values: Sequence[ir.Value], ops: set[ir.Operation]) -> set[ir.Value]:
    """The block's arguments that values are computed from; adds the operations that compute them."""
    pending, seen = list(values), set[ir.Value]()
    inside = {each.operation for each in block.operations}
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        owner = value.owner
        if isinstance(owner, ir.Block) or owner not in inside:
            continue
        ops.add(owner)
        for op in mlir.within(owner):
            pending += op.operands
    return {each for each in seen if isinstance(each.owner, ir.Block)}


@dataclass(frozen=True)
class ByLanes:
    """A reduction whose sums the lanes of a warp share: lane i adds up every 32nd number from i on."""

    name: str
    kind: ir.Type

    def neutral(self) -> ir.Value:
        """The first value of a lane."""
        return arith.constant(self.kind, _NEUTRAL[self.name](self.kind))

    def combined(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """Two sums as one."""
        return ir.Operation.create(self.name, [self.kind], [a, b]).result

    def over_lanes(self, value: ir.Value) -> ir.Value:
        """The sum of all lanes, in each of them."""
        distances = [LANES >> step for step in range(1, LANES.bit_length())]
        return emit.across_lanes(value, distances, self.combined)


def by_lanes(op: ir.OpView, number: int, sizes: Sizes) -> ByLanes | None:
    """How the lanes of a warp compute an element of a linalg operation's result; None where one thread does
    it as well: the last loop doesn't run along rows, is short, or its order matters.
    """
    maps = mlir.indexing_maps(op) if op.name.startswith("linalg.") and len(op.regions) == 1 else None
    if maps is None:
        return None
    inputs, block = len(op.operands) - len(op.results), op.regions[0].blocks[0]
    outside = {each.position for x in maps[inputs + number].results if (each := _loop(x)) is not None}
    inner = [loop for loop in range(maps[-1].n_dims) if loop not in outside]
    if not inner or not _along_rows(op, maps[:inputs], inner[-1], sizes):
        return None
    found = needed(block, inputs, number)
    value = block.operations[-1].operation.operands[number]
    if found.results != (number,) or isinstance(value.owner, ir.Block) or value.owner.name not in _NEUTRAL:
        return None
    total = block.arguments[inputs + number]
    users = [use.owner for use in total.uses if use.owner in found.ops]
    if users != [value.owner] or list(value.owner.operands).count(total) != 1:
        return None
    return ByLanes(value.owner.name, value.type) if str(value.type) in _KINDS else None


def _loop(expression: ir.AffineExpr) -> ir.AffineExpr:
    return mlir.cast(ir.AffineDimExpr, expression)


def _along_rows(op: ir.OpView, maps: Sequence[ir.AffineMap], loop: int, sizes: Sizes) -> bool:
    """Whether a loop runs along the rows of an operand, and has an iteration for each lane."""
    for operand, each in zip(op.operands, maps, strict=False):
        if not each.results or not isinstance(operand.type, ir.RankedTensorType):
            continue
        last = _loop(each.results[-1])
        if last is not None and last.position == loop:
            size = sizes.of(operand, operand.type.rank - 1)
            return not isinstance(size, int) or size >= LANES
    return False
