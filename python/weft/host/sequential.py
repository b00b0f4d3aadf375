"""Rewrites of host code into the forms that upstream's `--gpu-to-llvm` takes."""

from weft import mlir
from weft.errors import Location
from weft.mlir import func, ir

_COPIES = ("gpu.alloc", "gpu.dealloc", "gpu.memcpy", "gpu.memset")
_TOKEN = "!gpu.async.token"


def _named(holder: ir.OpView, *names: str) -> list[ir.Operation]:
    """The operations with these names, in pre-order."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in names:
            found.append(op)
        return ir.WalkResult.ADVANCE

    holder.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def inline_async(holder: ir.OpView) -> None:
    """Executes each `async.execute` where it stands: one of the orders that its tokens allow."""
    for op in _named(holder, "async.execute"):
        body = op.regions[0].blocks[0]
        values = list(op.operands)[-len(body.arguments) :] if len(body.arguments) else []
        for argument, value in zip(body.arguments, values, strict=True):
            with ir.InsertionPoint(op), op.location:
                taken = ir.Operation.create("async.await", [argument.type], [value]).result
            argument.replace_all_uses_with(taken)
        *inner, end = body.operations
        for each in inner:
            each.operation.move_before(op)
        with ir.InsertionPoint(op), op.location:
            for old, value in zip(list(op.results)[1:], end.operation.operands, strict=True):
                made = ir.Operation.create("builtin.unrealized_conversion_cast", [old.type], [value])
                old.replace_all_uses_with(made.result)
    for op in _named(holder, "async.await"):
        if op.results:
            op.results[0].replace_all_uses_with(op.operands[0].owner.operands[0])
        op.erase()
    for op in reversed(_named(holder, "async.execute", "builtin.unrealized_conversion_cast")):
        if not any(list(each.uses) for each in op.results):
            op.erase()


def rewrite(holder: ir.OpView) -> None:
    """Gives every operation on memory of the GPU, and every launch, a token that it depends on.

    Upstream's lowering takes such operations only with exactly one, launches with one or none.
    """
    for op in _named(holder, *_COPIES, "gpu.launch_func"):
        with ir.InsertionPoint(op), op.location:
            _rewrite_one(op)


def _rewrite_one(op: ir.Operation) -> None:
    token = ir.Type.parse(_TOKEN)
    is_async = bool(op.results) and op.results[len(op.results) - 1].type == token
    waits = [each for each in op.operands if each.type == token]
    launches = op.name == "gpu.launch_func"
    if launches and (len(waits) == 1 if is_async else not waits):
        return
    if (is_async and len(waits) == 1) or "hostShared" in op.attributes:
        return
    before = ir.Operation.create("gpu.wait", [token], waits).result
    kinds = [each.type for each in op.results] + ([] if is_async else [token])
    operands = [before, *(each for each in op.operands if each.type != token)]
    attributes = {name: op.attributes[name] for name in op.attributes}
    if "operandSegmentSizes" in attributes:
        sizes = list(attributes["operandSegmentSizes"])
        attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([1, *sizes[1:]])
    new = ir.Operation.create(op.name, kinds, operands, attributes)
    if not is_async:
        ir.Operation.create("gpu.wait", [], [new.results[len(kinds) - 1]])
    for old, result in zip(op.results, new.results, strict=False):
        old.replace_all_uses_with(result)
    op.erase()


def number_assertions(holder: ir.OpView, name: str) -> list[tuple[str, Location | None]]:
    """Replaces each `cf.assert` by a call of the function `name` with its condition and a number, and
    returns their messages and locations.
    """
    found = _named(holder, "cf.assert")
    if not found:
        return []
    kind = ir.FunctionType.get([ir.IntegerType.get_signless(1), ir.IntegerType.get_signless(32)], [])
    with ir.InsertionPoint.at_block_begin(holder.regions[0].blocks[0]):
        func.FuncOp(name, kind, visibility="private")
    for number, op in enumerate(found):
        with ir.InsertionPoint(op), op.location:
            index = mlir.arith.constant(ir.IntegerType.get_signless(32), number)
            func.CallOp([], name, [op.operands[0], index])
    said = [(op.attributes["msg"].value, mlir.location(op.location)) for op in found]
    for op in found:
        op.erase()
    return said
