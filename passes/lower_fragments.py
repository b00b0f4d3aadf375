"""`--lower-fragments`: a fragment becomes what one lane holds of it, a vector, also where it flows through
`scf`.
"""

from typing import Any

from weft.dialects.op import refuse
from weft.dialects.tile import FragmentType, FromLaneOp, ToLaneOp
from weft.mlir import ir, operations, scf
from weft.passes.pass_ import Pass


def run(module: Any) -> None:
    """Retypes loops and branches, then drops the conversions between fragments and lanes."""
    for op in operations(module, scf.ForOp, scf.IfOp):
        if any(isinstance(value.type, FragmentType) for value in op.results):
            _retype(op)
    for op in operations(module, ToLaneOp):
        source = op.fragment.owner
        if isinstance(source, ir.Block) or not isinstance(source.opview, FromLaneOp):
            raise refuse(op, f"has a fragment that can't become a vector: it comes from {_origin(source)}")
        op.lane.replace_all_uses_with(source.opview.lane)
        op.operation.erase()
    for op in reversed(operations(module, FromLaneOp)):
        for use in op.fragment.uses:
            raise refuse(use.owner.opview, "uses a fragment: run --lower-gemm and --lower-copies first")
        op.operation.erase()


def _origin(source: Any) -> str:
    return "a block argument" if isinstance(source, ir.Block) else f"'{source.name}'"


def _from_lane(lane: Any, kind: Any) -> Any:
    return ir.Operation.create(FromLaneOp.OPERATION_NAME, results=[kind], operands=[lane]).result


def _to_lane(fragment: Any) -> Any:
    return ir.Operation.create(
        ToLaneOp.OPERATION_NAME, results=[fragment.type.lane_type], operands=[fragment]
    ).result


def _retype(op: Any) -> None:
    """Rebuilds a loop or branch with vectors where it had fragments, converting at its borders."""
    old = op.operation
    with ir.InsertionPoint(old), op.location:
        operands = [_to_lane(v) if isinstance(v.type, FragmentType) else v for v in old.operands]
        types = [r.type.lane_type if isinstance(r.type, FragmentType) else r.type for r in old.results]
        attributes = {name: old.attributes[name] for name in old.attributes}
        new = ir.Operation.create(
            old.name, results=types, operands=operands, attributes=attributes, regions=len(old.regions)
        )
    for source, target in zip(old.regions, new.regions, strict=True):
        for block in list(source.blocks):
            block.append_to(target)
            _retype_block(block)
    with ir.InsertionPoint(old), op.location:
        for before, after in zip(old.results, new.results, strict=True):
            if isinstance(before.type, FragmentType):
                after = _from_lane(after, before.type)
            before.replace_all_uses_with(after)
    old.erase()


def _retype_block(block: Any) -> None:
    """Fragments among a block's arguments and what it yields become vectors."""
    with ir.InsertionPoint.at_block_begin(block):
        for argument in block.arguments:
            if isinstance(argument.type, FragmentType):
                kind = argument.type
                argument.set_type(kind.lane_type)
                fragment = _from_lane(argument, kind)
                argument.replace_all_uses_except(fragment, fragment.owner.operation)
    terminator = list(block.operations)[-1].operation
    with ir.InsertionPoint(terminator), terminator.location:
        for place, value in enumerate(terminator.operands):
            if isinstance(value.type, FragmentType):
                terminator.operands[place] = _to_lane(value)


LOWER_FRAGMENTS = Pass(
    "lower-fragments",
    "turn fragments into the vector that each lane holds",
    run,
    lowers=(FromLaneOp, ToLaneOp),
)
