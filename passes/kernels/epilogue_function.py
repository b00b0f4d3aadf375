"""The function of one element that an epilogue computes: what it loads, and its operations on vectors of a
lane's elements.
"""

from collections.abc import Callable
from typing import Any

from weft.dialects import tile
from weft.dialects.op import build
from weft.dialects.operand_roles import EPILOGUE, FACTORS, GIVEN
from weft.dialects.tile import EpilogueOp, LoadElementOp, MatmulOp
from weft.mlir import arith, ir, memref, vector
from weft.passes.builders import emit
from weft.passes.kernels import activations
from weft.passes.kernels.fragments import add

_MOVED = ("c", "bias", "residual", "alpha", *FACTORS)


def canonical(op: MatmulOp) -> MatmulOp:
    """The product that replaces `op`, all of whose operands and attributes for sums of A @ B have become one
    `tile.epilogue`; except for a gate.
    """
    given, attributes = op.given, {name: op.attributes[name] for name in op.attributes}
    moved = {"alpha", "beta", *(() if op.gate else ("activation",))}
    if moved.isdisjoint(attributes) and given.keys().isdisjoint(_MOVED):
        return op
    kept = {role: value for role, value in given.items() if role not in (*_MOVED, EPILOGUE)}
    if _changes(op):
        sums = ir.Type.parse(op.types.sums)
        kept[EPILOGUE] = tile.epilogue(sums, lambda *arguments: _element(op, *arguments))
    attributes = {name: each for name, each in attributes.items() if name not in moved}
    operands = [[op.a], [op.b], [op.d], *([kept[name]] if name in kept else [] for name in GIVEN)]
    made: MatmulOp = build(MatmulOp, operands=operands, attributes=attributes)
    erase(op)
    return made


def erase(op: MatmulOp) -> None:
    """Erases a product, and what computed operands for it alone."""
    before = dict.fromkeys(value for value in op.given.values() if not isinstance(value.owner, ir.Block))
    op.operation.erase()
    for value in before:
        if not list(value.uses):
            value.owner.erase()


def _changes(op: MatmulOp) -> bool:
    """Whether something is done to the sums, other than by a gate."""
    activates = op.attribute("activation") is not None and op.gate is None
    read = any(name in op.given for name in (*_MOVED, EPILOGUE) if name != "c") or op.added is not None
    return read or activates or op.attribute("alpha") != 1.0


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
    return x if op.function is None else _inlined(op.function, x, row, column)


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


def _inlined(function: EpilogueOp, *arguments: ir.Value) -> ir.Value:
    """What a function returns for these arguments, computed at the insertion point."""
    values = dict(zip(function.block.arguments, arguments, strict=True))
    *body, last = function.block.operations
    for op in body:
        copy = op.operation.clone()
        for number, operand in enumerate(op.operation.operands):
            copy.operation.operands[number] = values.get(operand, operand)
        values |= zip(op.operation.results, copy.operation.results, strict=True)
    return values.get(last.element, last.element)


def matrices(op: MatmulOp) -> list[ir.Value]:
    """What is loaded for each element of D."""
    return list(dict.fromkeys(load.source for load in op.loads if load.axes == "MN"))


def only_scales(op: MatmulOp) -> bool:
    """Whether nothing is done to the sums, other than to multiply them by a number that all share."""
    scaled = op.function is None or _is_sum(op.function) or _is_scaled(op.function)
    return scaled and op.grouping != "row_ends"


def only_rounds(op: MatmulOp) -> bool:
    """Whether nothing is done to the sums."""
    return op.function is None or _is_sum(op.function)


def _is_sum(function: EpilogueOp) -> bool:
    return bool(function.result == function.sum)


def _is_scaled(function: EpilogueOp) -> bool:
    product = function.result.owner
    if (
        isinstance(product, ir.Block)
        or product.name != "arith.mulf"
        or function.result not in function.varying
    ):
        return False
    operands = list(product.operands)
    others = [each for each in operands if each != function.sum]
    return len(others) == 1 and others[0] not in function.varying


Shared = dict[Any, Any]
"""What a kernel has computed of a function for all elements, by the values in the function."""


def shared(op: MatmulOp, number: ir.Value | None) -> Shared:
    """What all elements of product `number` of a batch share, computed at the insertion point."""
    known: Shared = {}
    if (function := op.function) is None:
        return known
    varying = function.varying
    *body, _ = function.block.operations
    for each in body:
        (result,) = each.operation.results
        if result in varying or isinstance(each, arith.ConstantOp):  # built where it is used
            continue
        if isinstance(each, LoadElementOp):
            index = number if each.is_of_each and number is not None else 0
            loaded = memref.load(each.source, [emit.as_index(index)])
            known[result] = loaded if loaded.type == result.type else arith.extf(result.type, loaded)
        else:
            operands = [known[x] if x in known else _own(x) for x in each.operation.operands]
            known[result] = _copy(each, operands, result.type)
    return known


def _own(value: ir.Value) -> ir.Value:
    """A value outside of the function, or a copy of a constant in it."""
    return value.owner.clone().result if _is_constant(value) else value


def _is_constant(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and isinstance(value.owner.opview, arith.ConstantOp)


def _none(_: Any) -> ir.Value:
    raise AssertionError("the function only scales sums")


def compute(
    function: EpilogueOp,
    known: Shared,
    values: dict[ir.Value, ir.Value],
    load: Callable[[LoadElementOp], Any] = _none,
    coordinate: Callable[[int], Any] = _none,
) -> ir.Value:
    """A lane's elements of D, not yet rounded. `values` has its sums, and what it has of matrices; `load`
    returns its elements of a vector, `coordinate` their rows (0) or columns (1).
    """
    varying, shape = function.varying, values[function.sum].type.shape
    numbers = {argument: number for number, argument in enumerate(function.block.arguments[1:])}

    def of(value: ir.Value) -> ir.Value:
        if value not in values:
            number = numbers.get(value)
            values[value] = _every(value, known, shape) if number is None else coordinate(number)
        return values[value]

    *body, _ = function.block.operations
    for op in body:
        (result,) = op.operation.results
        if result not in varying or result in values:
            continue
        if isinstance(op, LoadElementOp):
            values[result] = load(op)
            continue
        operands, kind = [of(each) for each in op.operation.operands], ir.VectorType.get(shape, result.type)
        if op.operation.name.startswith("nvvm."):  # of scalars
            each_of = zip(*map(emit.elements, operands), strict=True)
            values[result] = vector.from_elements(kind, [_copy(op, list(x), result.type) for x in each_of])
        else:
            values[result] = _copy(op, operands, kind)
    return of(function.result)


def _every(value: ir.Value, known: Shared, shape: list[int]) -> ir.Value:
    """The vector of a value that all elements share."""
    kind = ir.VectorType.get(shape, value.type)
    if value not in known and _is_constant(value):
        number = value.owner.attributes["value"]
        return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, number))
    return vector.broadcast(kind, known.get(value, value))


def _copy(op: ir.OpView, operands: list[ir.Value], kind: ir.Type) -> ir.Value:
    """What the operation returns for other operands: a value of this type."""
    attributes = {name: op.operation.attributes[name] for name in op.operation.attributes}
    return ir.Operation.create(
        op.operation.name, results=[kind], operands=operands, attributes=attributes
    ).result
