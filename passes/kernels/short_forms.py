"""Short forms of an epilogue: operands and attributes of `tile.matmul` for what is usually done to its sums.
Passes and kernels read the `tile.epilogue` that replaces them.
"""

from weft.dialects import tile
from weft.dialects.op import build
from weft.dialects.operand_roles import EPILOGUE, FACTORS, GIVEN, SHORT_FORMS, TEAM
from weft.dialects.tile import MatmulOp
from weft.mlir import arith, clone, ir, operations
from weft.passes.builders import emit
from weft.passes.kernels import activations
from weft.passes.kernels.fragments import add


def products(holder: ir.Operation | ir.OpView) -> list[MatmulOp]:
    """The products in an operation, without short forms: each that has some is replaced first."""
    found = list[MatmulOp]()
    for op in operations(holder, MatmulOp):
        with ir.InsertionPoint(op), op.location:
            found.append(_without_short_forms(op))
    return found


def _without_short_forms(op: MatmulOp) -> MatmulOp:
    """The product that replaces `op`, all of whose operands and attributes for sums of A @ B have become one
    `tile.epilogue`; except for a gate.
    """
    given, attributes = op.given, {name: op.attributes[name] for name in op.attributes}
    moved = {"alpha", "beta", *(() if op.gate else ("activation",))}
    if moved.isdisjoint(attributes) and given.keys().isdisjoint(SHORT_FORMS):
        return op
    kept = {role: value for role, value in given.items() if role not in (*SHORT_FORMS, EPILOGUE)}
    if op.changes_sums:
        sums = ir.Type.parse(op.types.sums)
        kept[EPILOGUE] = tile.epilogue(sums, lambda *arguments: _element(op, *arguments))
    attributes = {name: each for name, each in attributes.items() if name not in moved}
    operands = [[op.a], [op.b], [op.d], *([kept[name]] if name in kept else [] for name in GIVEN)]
    made: MatmulOp = build(MatmulOp, operands=operands, attributes=attributes)
    erase(op)
    return made


def erase(op: MatmulOp) -> None:
    """Erases a product, with its epilogue and team, unless another product uses them."""
    described = [op.given[name] for name in (TEAM, EPILOGUE) if name in op.given]
    op.operation.erase()
    for value in described:
        if not list(value.uses):
            value.owner.erase()


def _element(op: MatmulOp, x: ir.Value, row: ir.Value, column: ir.Value) -> ir.Value:
    """An element of D from its sum."""
    c, residual = (
        None if matrix is None else tile.load_element(matrix, row, column)
        for matrix in (op.added, op.role("residual"))
    )
    factor = _factor(op, x.type)
    x = x if factor is None else arith.mulf(x, factor)
    for name, index in zip(FACTORS, (row, column), strict=True):
        if (factors := op.role(name)) is not None and not op.is_single(name):
            x = arith.mulf(x, tile.load_element(factors, index))
    if c is not None:
        beta = op.attribute("beta")
        x = add(x, c if beta == 1.0 else arith.mulf(c, emit.constant(c.type, beta)))
    if (bias := op.role("bias")) is not None:
        x = add(x, tile.load_element(bias, column))
    if (name := op.attribute("activation")) is not None:
        x = activations.apply(name, x)
    x = x if residual is None else add(x, residual)
    if op.function is None:
        return x
    block = op.function.block
    return inlined(block, dict(zip(block.arguments, (x, row, column), strict=True)))[0]


def _factor(op: MatmulOp, kind: ir.Type) -> ir.Value | None:
    """The factor of all sums of a product; None if there is none."""
    number, factor = op.attribute("alpha"), None
    for name in ("alpha", *FACTORS):
        if (read := op.role(name)) is None or (name != "alpha" and not op.is_single(name)):
            continue
        value = tile.load_element(read)
        if factor is not None:
            factor = arith.mulf(factor, value)
        else:
            factor = value if number == 1.0 else arith.mulf(value, emit.constant(kind, number))
    return emit.constant(kind, number) if factor is None and number != 1.0 else factor


def inlined(block: ir.Block, values: dict[ir.Value, ir.Value]) -> list[ir.Value]:
    """The operands of a block's last operation, computed at the insertion point. `values` has those of the
    block's arguments, and gets those of its operations. Both sides of a branch are computed.
    """
    *body, last = block.operations
    for op in body:
        if op.operation.name != "scf.if":
            clone(op.operation, values)
        elif op.operation.results:
            one, other = (inlined(region.blocks[0], values) for region in op.operation.regions)
            condition = values[op.operation.operands[0]]
            chosen = [arith.select(condition, *pair) for pair in zip(one, other, strict=True)]
            values |= zip(op.operation.results, chosen, strict=True)
    return [values.get(each, each) for each in last.operation.operands]
