"""The function of one element that an epilogue computes: what it loads, and its operations on vectors of a
lane's elements.
"""

from collections.abc import Callable

from weft.dialects.tile import EpilogueOp, LoadElementOp, MatmulOp, StoreElementOp
from weft.mlir import arith, ir, memref, vector
from weft.passes.builders import emit

Shared = dict[ir.Value, ir.Value]
"""The values that all elements share, by the values in the function."""


def shared(op: MatmulOp, number: ir.Value | None) -> Shared:
    """The values that all elements of product `number` of a batch share, computed at the insertion point."""
    known: Shared = {}
    if (function := op.function) is None:
        return known
    varying = function.varying
    *body, _ = function.block.operations
    for each in body:
        results = each.operation.results
        # Constants are built where they are used.
        if not varying.isdisjoint(results) or isinstance(each, arith.ConstantOp | StoreElementOp):
            continue
        if isinstance(each, LoadElementOp):
            index, kind = number if each.is_of_each and number is not None else 0, each.element.type
            loaded = memref.load(each.source, [emit.as_index(index)])
            known[each.element] = loaded if loaded.type == kind else arith.extf(kind, loaded)
        else:
            operands = [known[x] if x in known else _own(x) for x in each.operation.operands]
            known |= zip(results, _copy(each, operands, [x.type for x in results]), strict=True)
    return known


def _own(value: ir.Value) -> ir.Value:
    """A value outside of the function, or a copy of a constant in it."""
    return value.owner.clone().result if _is_constant(value) else value


def _is_constant(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and isinstance(value.owner.opview, arith.ConstantOp)


def _none(_: object) -> ir.Value:
    raise AssertionError("the function only scales sums")


def compute(
    function: EpilogueOp,
    known: Shared,
    values: dict[ir.Value, ir.Value],
    load: Callable[[LoadElementOp], ir.Value] = _none,
    coordinate: Callable[[int], ir.Value] = _none,
) -> list[ir.Value]:
    """A lane's elements of D and of the further results, not yet rounded. `values` maps the region's sum and
    its matrix loads to the lane's vectors; `load` returns its elements of a vector, `coordinate` their rows
    (0) or columns (1).
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
        results = op.operation.results
        if varying.isdisjoint(results) or results[0] in values:
            continue
        if isinstance(op, LoadElementOp):
            values[op.element] = load(op)
            continue
        operands = [of(each) for each in op.operation.operands]
        kinds = [ir.VectorType.get(shape, each.type) for each in results]
        if op.operation.name.startswith("nvvm."):  # of scalars
            each_of = zip(*map(emit.elements, operands), strict=True)
            elements = [_copy(op, list(x), [results[0].type])[0] for x in each_of]
            values[results[0]] = vector.from_elements(kinds[0], elements)
        else:
            values |= zip(results, _copy(op, operands, kinds), strict=True)
    return [of(each) for each in (function.result, *(store.value for store in function.stores))]


def _every(value: ir.Value, known: Shared, shape: list[int]) -> ir.Value:
    """The vector of a value that all elements share."""
    kind = ir.VectorType.get(shape, value.type)
    if value not in known and _is_constant(value):
        number = value.owner.attributes["value"]
        return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, number))
    return vector.broadcast(kind, known.get(value, value))


def _copy(op: ir.OpView, operands: list[ir.Value], kinds: list[ir.Type]) -> list[ir.Value]:
    """The results of the operation on other operands: values of these types."""
    attributes = {name: op.operation.attributes[name] for name in op.operation.attributes}
    copy = ir.Operation.create(
        op.operation.name, results=kinds, operands=operands, attributes=attributes, loc=op.location
    )
    return list(copy.results)
