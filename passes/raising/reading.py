"""Reads a function of linalg: what each tensor, and each memref at the end, is computed from.

Nothing is rewritten here. Operations on tensors define the expression of their result; those on memrefs
replace what is known of the memref's contents.
"""

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from weft import mlir
from weft.mlir import ir
from weft.passes.raising.expressions import (
    ZERO,
    Apply,
    Buffer,
    Constant,
    Element,
    Expression,
    Opaque,
    Product,
    Reshaped,
    Sum,
    Unraisable,
    exact,
    in_one_shape,
    leaves,
    moved,
)
from weft.passes.raising.formulas import FORMATS

# Operations of one result, by the functions that they compute.
_NAMES = {
    f"{dialect}.{operation}": name
    for dialect, name, operations in (
        ("arith", "add", "addf addi"),
        ("arith", "sub", "subf subi"),
        ("arith", "mul", "mulf muli"),
        ("arith", "div", "divf"),
        ("arith", "neg", "negf"),
        ("arith", "max", "maximumf maxsi"),
        ("arith", "select", "select"),
        ("arith", "extend", "extf extsi"),
        ("arith", "extend_unsigned", "extui"),
        ("arith", "round", "truncf"),
        ("math", "pow", "powf fpowi"),
        *(("math", name, name) for name in ("exp", "exp2", "tanh", "erf", "erfc", "sqrt")),
    )
    for operation in operations.split()
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
    """The expression that a body yields for these values of its arguments; opaque where it can't be read."""
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


Shape = tuple[int | None, ...]


def is_shaped(value: ir.Value) -> bool:
    """Whether a value is a tensor or a memref of known rank."""
    return isinstance(value.type, ir.RankedTensorType | ir.MemRefType)


def whole(buffer: Buffer) -> Element:
    """All elements of a buffer, in place."""
    return Element(buffer.element, buffer, tuple(range(len(buffer.shape))))


def argument_buffer(argument: ir.Value) -> Buffer:
    """An argument of a function as memory."""
    return Buffer(argument, mlir.shape_of(argument.type), str(argument.type.element_type))


@dataclass(frozen=True)
class Output:
    """A tensor that a function leaves in memory: in an argument, or as a result."""

    value: ir.Value
    expression: Expression
    op: ir.OpView


class Reader:
    """Reads one function. `materialize` turns an operand that isn't in memory into a buffer; it raises
    Unraisable where no kernel writes it.
    """

    def __init__(self, function: ir.OpView, materialize: Callable[[Expression, Shape, Any], Buffer]) -> None:
        self._materialize = materialize
        self._known: dict[ir.Value, Expression] = {}
        self._aliases: dict[ir.Value, ir.Value] = {}
        self._written: dict[Any, Any] = {}  # by the op that wrote last
        self._block = function.body.blocks[0]
        for argument in self._block.arguments:
            if is_shaped(argument):
                self._known[argument] = whole(argument_buffer(argument))

    def outputs(self) -> list[Output]:
        """The results of the function. Raises Unraisable at an operation that it can't read."""
        results: list[Output] = []
        for view in self._block.operations:
            op = view.operation
            if op.name == "func.return":
                results = [Output(value, self._contents(value), op) for value in op.operands]
            else:
                self._read(op)
        arguments = list(self._block.arguments)
        written = [(value, op) for value, op in self._written.items() if value in arguments]
        return [Output(value, self._known[value], op) for value, op in written] + results

    def _base(self, value: ir.Value) -> ir.Value:
        while value in self._aliases:
            value = self._aliases[value]
        return value

    def _contents(self, value: ir.Value) -> Expression:
        base = self._base(value)
        if base in self._known:
            return self._known[base]
        return Opaque("", "is read where its contents aren't known", _owner(value))

    def _write(self, value: ir.Value, expression: Expression, op: ir.Operation) -> None:
        base = self._base(value)
        self._known[base] = expression
        self._written[base] = op

    def _read(self, op: ir.Operation) -> None:
        name = op.name
        if name.startswith("linalg.") and len(op.regions) == 1:
            self._structured(op)
        elif name in _READERS:
            getattr(self, _READERS[name].__name__)(op)  # of a subclass, too
        elif name in _IGNORED or not (op.operands or op.results):
            pass
        elif any(is_shaped(value) for value in op.operands) or op.regions:
            raise Unraisable("isn't part of a product or of what follows it", op)

    def _constant(self, op: ir.Operation) -> None:
        (result,) = op.results
        if is_shaped(result):
            unknown = "is a constant of the module; make it an argument of the function"
            self._known[result] = constant_of(op) or Opaque(str(result.type.element_type), unknown, op)

    def _empty(self, op: ir.Operation) -> None:
        (result,) = op.results
        kind = str(result.type.element_type)
        self._known[result] = Opaque(kind, "is read before it is written; fill it first", op)

    def _alias(self, op: ir.Operation) -> None:
        self._aliases[op.results[0]] = op.operands[0]

    def _copy(self, op: ir.Operation) -> None:
        source, target = op.operands
        self._write(target, self._contents(source), op)

    def _reshape(self, op: ir.Operation) -> None:
        source, result = op.operands[0], op.results[0]
        if isinstance(result.type, ir.MemRefType) and self._base(source) in self._written:
            raise Unraisable("reshapes a memref that is written", op)
        self._known[result] = self._reshaped(self._contents(source), source, result, op)

    def _reshaped(
        self, contents: Expression, source: ir.Value, result: ir.Value, op: ir.Operation
    ) -> Expression:
        old, new = mlir.shape_of(source.type), mlir.shape_of(result.type)
        if isinstance(contents, Element) and contents.dims == tuple(range(len(old))):
            if isinstance(source.type, ir.MemRefType) and not (
                isinstance(source.type.layout, ir.AffineMapAttr)
                and source.type.layout == ir.AffineMapAttr.get(ir.AffineMap.get_identity(source.type.rank))
            ):
                raise Unraisable("reshapes a memref with a layout", op)
            return whole(replace(contents.buffer, shape=new))
        expands = len(new) > len(old)
        groups = tuple(tuple(i.value for i in group) for group in op.attributes["reassociation"])
        for leaf in leaves(contents):
            # What is reshaped back stays in the shape that it has.
            if isinstance(leaf, Reshaped) and (leaf.groups, leaf.expands) == (groups, not expands):
                return in_one_shape(contents, leaf)[0]
        small, large = (old, new) if expands else (new, old)
        dims = tuple(range(len(new)))
        return Reshaped(contents.kind, contents, groups, small, large, expands, dims, op)

    def _structured(self, op: ir.Operation) -> None:
        maps = mlir.indexing_maps(op)
        operands = list(op.operands)
        if maps is None or len(maps) != len(operands) or not is_shaped(operands[-1]):
            raise Unraisable("isn't part of a product or of what follows it", op)
        places = [_place(each, op) for each in maps]
        out, target = places[-1], operands[-1]
        if sorted(out) != sorted(set(out)) or ZERO in out:
            raise Unraisable("has a result that isn't indexed by a permutation of loops", op)
        if len(out) == maps[-1].n_dims:
            position = {loop: i for i, loop in enumerate(places[-1])}
            values = {}
            for argument, operand, place in zip(
                op.regions[0].blocks[0].arguments, operands, places, strict=True
            ):
                if is_shaped(operand):
                    at = [d if d == ZERO else position[d] for d in place]
                    values[argument] = moved(self._contents(operand), at)
                else:
                    values[argument] = _number(operand, op)
            result = result_of(op.regions[0].blocks[0], values)
        else:
            result = self._contraction(op, operands, places, maps[-1].n_dims)
        if op.results:
            self._known[op.results[0]] = result
        else:
            self._write(target, result, op)

    def _contraction(
        self, op: ir.Operation, operands: list[ir.Value], places: list[tuple[int, ...]], loops: int
    ) -> Expression:
        """The result of an operation that adds up products: what it adds to, and a product."""
        out = places[-1]
        inner = [loop for loop in range(loops) if loop not in out]
        rank, block = len(out), op.regions[0].blocks[0]
        if len(op.results) > 1:
            raise Unraisable("is a reduction, but no product of two matrices", op)
        if len(inner) != 1:
            what = f"adds up over {len(inner)} dimensions; collapse them to one dimension K"
            if "mmt4d" in op.name:
                what = "multiplies tiles that are packed; write linalg.matmul on matrices that aren't"
            raise Unraisable(what, op)
        position = {loop: i for i, loop in enumerate((*out, *inner))}
        sums = Opaque("", "adds to its sums in another way", op)
        values: dict[ir.Value, Expression] = {block.arguments[len(operands) - 1]: sums}
        for argument, operand, place in zip(block.arguments, operands[:-1], places, strict=False):
            if not is_shaped(operand):
                values[argument] = _number(operand, op)
                continue
            at = [d if d == ZERO else position[d] for d in place]
            values[argument] = moved(self._in_memory(operand, op), at)
        body = result_of(block, values)
        factors = factors_of(body, sums)
        if factors is None:
            raise Unraisable("is a reduction, but doesn't add up products of elements of two matrices", op)
        left, right = (_factor(each, rank, op) for each in factors)
        product = Sum(body.kind, Product(left, right, rank, op), tuple(range(rank)))
        return Apply(body.kind, "add", (product, self._contents(operands[-1])), op)

    def _in_memory(self, operand: ir.Value, op: ir.Operation) -> Expression:
        """The contents of an operand of a product, without products: those are written to memory before."""
        contents = exact(self._contents(operand))
        for leaf in leaves(contents):
            if isinstance(leaf, Opaque):
                raise Unraisable(leaf.reason, leaf.op)
        if any(isinstance(leaf, Sum | Reshaped) for leaf in leaves(contents)):
            return whole(self._materialize(contents, mlir.shape_of(operand.type), op))
        return contents


def _number(operand: ir.Value, op: ir.Operation) -> Expression:
    """An operand that is no tensor."""
    kind = str(operand.type)
    if isinstance(operand.owner, ir.Block) or operand.owner.name != "arith.constant":
        return Opaque(kind, "uses a number that isn't a constant", op)
    return constant_of(operand.owner) or Opaque(kind, "uses no number", op)


def _factor(expression: Expression, rank: int, op: ir.Operation) -> Element:
    """The element that an element of A or B is extended from."""
    element = exact(expression)
    if not isinstance(element, Element):
        what = "multiplies elements that are computed; write them to memory in a function of its own"
        raise Unraisable(what, op)
    if ZERO in element.dims or rank not in element.dims:
        raise Unraisable("has an operand that isn't indexed by K", op)
    return element


def _owner(value: ir.Value) -> ir.OpView:
    owner = value.owner
    return owner.owner if isinstance(owner, ir.Block) else owner


def _place(each: ir.AffineMap, op: ir.Operation) -> tuple[int, ...]:
    """The loops that index an operand."""
    dims = []
    for result in each.results:
        if (loop := mlir.cast(ir.AffineDimExpr, result)) is not None:
            dims.append(loop.position)
        elif (number := mlir.cast(ir.AffineConstantExpr, result)) is not None and number.value == 0:
            dims.append(ZERO)
        else:
            raise Unraisable(f"must be indexed by loops, not by {result}", op)
    return tuple(dims)


_IGNORED = ("memref.dealloc", "tensor.dim", "memref.dim", "arith.index_cast", "bufferization.dealloc_tensor")

_READERS: dict[str, Callable[[Reader, Any], None]] = {
    name: reader
    for reader, names in (
        (Reader._constant, "arith.constant"),
        (Reader._empty, "tensor.empty bufferization.alloc_tensor memref.alloc memref.alloca gpu.alloc"),
        (Reader._alias, "tensor.cast memref.cast bufferization.to_tensor bufferization.to_buffer"),
        (Reader._copy, "memref.copy bufferization.materialize_in_destination"),
        (Reader._reshape, "tensor.collapse_shape tensor.expand_shape"),
        (Reader._reshape, "memref.collapse_shape memref.expand_shape"),
    )
    for name in names.split()
}
