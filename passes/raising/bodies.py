"""Reads the scalar bodies of linalg operations as expressions."""

import math
import operator
from collections.abc import Callable, Mapping

from weft import mlir
from weft.mlir import ir
from weft.passes.raising.expressions import Apply, Constant, Expression, Opaque
from weft.passes.raising.formulas import FORMATS

# Operations of one result, by the functions that they compute.
_NAMES = {
    "arith.addf": "add",
    "arith.addi": "add",
    "arith.subf": "sub",
    "arith.subi": "sub",
    "arith.mulf": "mul",
    "arith.muli": "mul",
    "arith.divf": "div",
    "arith.negf": "neg",
    "arith.maximumf": "max",
    "arith.maxsi": "max",
    "arith.select": "select",
    "arith.extf": "extend",
    "arith.extsi": "extend",
    "arith.extui": "extend_unsigned",
    "arith.truncf": "round",
    "math.exp": "exp",
    "math.exp2": "exp2",
    "math.tanh": "tanh",
    "math.erf": "erf",
    "math.erfc": "erfc",
    "math.powf": "pow",
    "math.fpowi": "pow",
    "math.sqrt": "sqrt",
}

# Predicates by their numbers: ordered, unordered and signed ones.
_FLOATS = dict(enumerate(("ogt", "oge", "olt", "ole"), 2)) | dict(enumerate(("ugt", "uge", "ult", "ule"), 9))
_INTEGERS = dict(enumerate(("slt", "sle", "sgt", "sge"), 2))

_CONSTANTS: dict[str, Callable[..., float]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "neg": operator.neg,
    "sqrt": math.sqrt,
    "extend": float,
    "round": float,
}
"""Functions of constant floats, by the names of operations."""


def constant_of(op: ir.Operation) -> Expression | None:
    """The number of an `arith.constant`, also of one with the same number everywhere; None for others."""
    attribute = op.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr):
        if not attribute.is_splat:
            return None
        attribute = attribute.get_splat_value()
    if isinstance(attribute, ir.FloatAttr | ir.IntegerAttr):
        return Constant(str(attribute.type), float(attribute.value))
    return None


def result_of(block: ir.Block, arguments: Mapping[ir.Value, Expression]) -> Expression:
    """What a body yields for these values of its arguments. What can't be read is opaque."""
    values = dict(arguments)
    for op in block.operations:
        operation = op.operation
        operands = tuple(_operand(value, values, operation) for value in operation.operands)
        if operation.name == "linalg.yield":
            if len(operands) != 1:
                return Opaque("", f"yields {len(operands)} results", operation)
            return operands[0]
        for result in operation.results:
            values[result] = _applied(operation, operands, str(result.type))
    return Opaque("", "has a body without a result", block.owner)


def _operand(value: ir.Value, values: Mapping[ir.Value, Expression], user: ir.Operation) -> Expression:
    if value in values:
        return values[value]
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.name == "arith.constant":
        constant = constant_of(owner)
        if constant is not None:
            return constant
    return Opaque(str(value.type), "uses a number that isn't a constant", user)


def _applied(op: ir.Operation, operands: tuple[Expression, ...], kind: str) -> Expression:
    name = _NAMES.get(op.name)
    place = op if mlir.location(op.location) else op.parent  # named operations have bodies without locations
    if op.name == "arith.constant":
        return constant_of(op) or Opaque(kind, "uses a constant that is no number", place)
    if op.name in ("arith.cmpf", "arith.cmpi"):
        predicates = _FLOATS if op.name == "arith.cmpf" else _INTEGERS
        name = predicates.get(op.attributes["predicate"].value)
    if op.name == "math.fma":
        product = Apply(kind, "mul", operands[:2], place)
        return Apply(kind, "add", (product, operands[2]), place)
    if "roundingmode" in op.attributes:
        return Opaque(kind, "doesn't round to nearest", place)
    if name is None:
        return Opaque(kind, f"applies '{op.name}'", place)
    (first, *_) = operands
    # A value that is extended and rounded again is what it was.
    if name == "round" and isinstance(first, Apply) and first.name == "extend":
        (inner,) = first.operands
        if inner.kind == kind:
            return inner
    if name in ("add", "sub") and isinstance(operands[1], Constant) and not operands[1].value:
        return first  # such as a zero point of 0
    numbers = [each.value for each in operands if isinstance(each, Constant)]
    if len(numbers) == len(operands) and name in _CONSTANTS and kind in FORMATS:
        try:
            value = FORMATS[kind].rounded(_CONSTANTS[name](*numbers))
        except (ArithmeticError, ValueError):
            value = None
        if value is None:
            return Opaque(kind, f"applies '{op.name}' to {', '.join(map(str, numbers))}", place)
        return Constant(kind, value)
    return Apply(kind, name, operands, place)


def factors_of(expression: Expression, sums: Expression) -> tuple[Expression, ...] | None:
    """The factors x and y of a body's result `sums + x * y`; None for another one. Casts of floats may be
    anywhere.
    """
    total = _uncast(expression)
    if not isinstance(total, Apply) or total.name != "add":
        return None
    terms = [_uncast(each) for each in total.operands]
    if sums not in terms:
        return None
    term = terms[1 - terms.index(sums)]
    return term.operands if isinstance(term, Apply) and term.name == "mul" else None


def _uncast(expression: Expression) -> Expression:
    """The operand of casts between types of floats to which a product's kernel needn't round."""
    while isinstance(expression, Apply) and expression.name in ("extend", "round"):
        (inner,) = expression.operands
        if not {expression.kind, inner.kind} <= FORMATS.keys():
            break
        expression = inner
    return expression
