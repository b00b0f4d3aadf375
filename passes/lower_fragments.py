"""`--lower-fragments`: a fragment becomes the vector of one lane's elements, also in operands and results of
`scf` operations. Operations of `arith` and `math` on fragments become those on these vectors.
"""

from collections.abc import Sequence

from weft import mlir
from weft.dialects.op import refuse
from weft.dialects.tile import FragmentType, FromLaneOp, ToLaneOp, is_fragment
from weft.isa.mma.fragments import REGISTER_BITS
from weft.mlir import arith, ir, operations, scf, vector
from weft.passes.builders import emit
from weft.passes.registry.pass_ import Pass


def run(module: ir.Operation) -> None:
    """Retypes loops, branches and operations by elements, then erases the conversions between fragments and
    lanes.
    """
    whole = _with_fragments(module)
    for op in whole:
        if isinstance(op, _CONTROL):
            _retype(op)
    for op in whole:
        if not isinstance(op, _CONTROL):
            _lower(op)
    for op in operations(module, ToLaneOp):
        source = op.fragment.owner
        if isinstance(source, ir.Block) or not isinstance(source.opview, FromLaneOp):
            raise refuse(op, f"expects a fragment from tile.from_lane, got one from {_origin(source)}")
        op.lane.replace_all_uses_with(source.opview.lane)
        op.operation.erase()
    for op in reversed(operations(module, FromLaneOp)):
        for use in op.fragment.uses:
            raise refuse(use.owner.opview, "expects no fragment: run --lower-gemm and --lower-copies first")
        op.operation.erase()


_CONTROL = (scf.ForOp, scf.IfOp, scf.WhileOp)
BY_ELEMENT = ("arith.", "math.", emit.SIGN_CAST, "tensor.splat")
"""The beginnings of the names of operations on each element of tiles."""


def _with_fragments(module: ir.Operation) -> list[ir.OpView]:
    """The loops, branches and operations by elements that return fragments."""
    found = [op for op in mlir.within(module) if any(map(is_fragment, op.results))]
    return [op.opview for op in found if isinstance(op.opview, _CONTROL) or op.name.startswith(BY_ELEMENT)]


def _lower(op: ir.OpView) -> None:
    """Replaces an operation on each element of fragments by the same one on each lane's vectors."""
    old = op.operation
    kinds = [result.type.lane_type for result in old.results]
    with ir.InsertionPoint(old), op.location:
        operands = [_to_lane(each) if is_fragment(each) else each for each in old.operands]
        for before, after in zip(old.results, _on_lanes(op, operands, kinds), strict=True):
            before.replace_all_uses_with(_from_lane(after, before.type))
    old.erase()


def _on_lanes(op: ir.OpView, operands: list[ir.Value], kinds: list[ir.Type]) -> Sequence[ir.Value]:
    """The results of an operation on vectors of each lane's elements."""
    name, attributes = op.operation.name, dict(op.operation.attributes.items())
    if name == "tensor.splat":
        return [vector.broadcast(kinds[0], operands[0])]
    if name in emit.CASTS:
        return [emit.bits(operands[0], kinds[0])]
    if isinstance(op, arith.ConstantOp):
        if not op.value.is_splat:
            raise refuse(op, "expects equal elements: lanes hold different ones")
        attributes["value"] = ir.DenseElementsAttr.get_splat(kinds[0], op.value.get_splat_value())
    return ir.Operation.create(name, results=kinds, operands=operands, attributes=attributes).results


def _origin(source: ir.Block | ir.OpView) -> str:
    return "a block argument" if isinstance(source, ir.Block) else f"'{source.name}'"


def _from_lane(lane: ir.Value, kind: ir.Type) -> ir.Value:
    return ir.Operation.create(FromLaneOp.OPERATION_NAME, results=[kind], operands=[lane]).result


def _to_lane(fragment: ir.Value) -> ir.Value:
    return ir.Operation.create(
        ToLaneOp.OPERATION_NAME, results=[fragment.type.lane_type], operands=[fragment]
    ).result


def _retype(op: ir.OpView) -> None:
    """Rebuilds a loop or branch with scalars in place of fragments. LLVM would keep a loop-carried vector
    whole, and extract and insert its elements in every iteration.
    """
    old = op.operation
    kinds = [r.type for r in old.results]
    with ir.InsertionPoint(old), op.location:
        operands = [s for v in old.operands for s in _scalars(v)]
        types = [t for kind in kinds for t in _scalar_types(kind)]
        attributes = {name: old.attributes[name] for name in old.attributes}
        new = ir.Operation.create(
            old.name, results=types, operands=operands, attributes=attributes, regions=len(old.regions)
        )
    for source, target in zip(old.regions, new.regions, strict=True):
        for block in list(source.blocks):
            block.append_to(target)
            _retype_block(block)
    with ir.InsertionPoint(old), op.location:
        for before, after in zip(old.results, _rebuilt(kinds, list(new.results)), strict=True):
            before.replace_all_uses_with(after)
    old.erase()


def _retype_block(block: ir.Block) -> None:
    """Fragments among a block's arguments and yielded values become scalars."""
    old = list(block.arguments)
    kinds = [a.type for a in old]
    with ir.InsertionPoint.at_block_begin(block), block.owner.location:
        flat = [block.add_argument(t, block.owner.location) for kind in kinds for t in _scalar_types(kind)]
        for before, after in zip(old, _rebuilt(kinds, flat), strict=True):
            before.replace_all_uses_with(after)
    for number in reversed(range(len(old))):
        block.erase_argument(number)
    end = block.operations[-1].operation
    if any(isinstance(v.type, FragmentType) for v in end.operands):
        with ir.InsertionPoint(end), end.location:
            values = [s for v in end.operands for s in _scalars(v)]
            ir.Operation.create(end.name, operands=values)
        end.erase()


def _scalar_types(kind: ir.Type) -> list[ir.Type]:
    if not isinstance(kind, FragmentType):
        return [kind]
    lane = _lane_of_scalars(kind)
    return [lane.element_type] * lane.shape[0]


def _lane_of_scalars(kind: ir.Type) -> ir.Type:
    """A lane's vector as scalars: elements narrower than a register are carried in whole registers."""
    bits = kind.registers * kind.element_type.width
    if kind.element_type.width >= REGISTER_BITS or bits % REGISTER_BITS:
        return kind.lane_type
    return ir.VectorType.get([bits // REGISTER_BITS], emit.i32())


def _scalars(value: ir.Value) -> list[ir.Value]:
    """A value, or a lane's scalars of a fragment."""
    if not isinstance(value.type, FragmentType):
        return [value]
    lane, scalars = _to_lane(value), _lane_of_scalars(value.type)
    return emit.elements(lane if lane.type == scalars else vector.bitcast(scalars, lane))


def _rebuilt(kinds: Sequence[ir.Type], flat: list[ir.Value]) -> list[ir.Value]:
    """Values of these types from their scalars, in order."""
    values, rest = [], iter(flat)
    for kind in kinds:
        scalars = [next(rest) for _ in _scalar_types(kind)]
        if isinstance(kind, FragmentType):
            lane = vector.from_elements(_lane_of_scalars(kind), scalars)
            lane = lane if lane.type == kind.lane_type else vector.bitcast(kind.lane_type, lane)
            values.append(_from_lane(lane, kind))
        else:
            values.append(scalars[0])
    return values


LOWER_FRAGMENTS = Pass(
    "lower-fragments",
    "turn fragments into vectors of each lane's elements",
    run,
    lowers=(FromLaneOp, ToLaneOp),
)
