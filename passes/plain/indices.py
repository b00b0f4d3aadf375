"""Sizes of the tensors of a function, from the operations that make them, and arithmetic on coordinates, as
`emit` has it.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from weft import mlir
from weft.mlir import arith, ir
from weft.passes.builders import emit

Number = Any
"""An index value or a Python int, not negative unless noted."""


class UnknownSizeError(Exception):
    """The value without a known size, in words."""


class Sizes:
    """`leaf` is the size of a tensor in memory along a dimension, None for other tensors; `scalar` the number
    of an index value. `add` and `product` compute with sizes: index values of a kernel, or expressions that
    the host evaluates.
    """

    def __init__(
        self,
        leaf: Callable[[ir.Value, int], Number | None],
        scalar: Callable[[ir.Value], Number],
        add: Callable[[Number, Number], Number],
        product: Callable[[Sequence[Number]], Number],
    ) -> None:
        self._leaf, self._scalar, self._add, self._product = leaf, scalar, add, product

    def shape(self, value: ir.Value) -> list[Number]:
        """All sizes of a tensor."""
        return [self.of(value, dimension) for dimension in range(value.type.rank)]

    def of(self, value: ir.Value, dimension: Any) -> Number:
        """One size. Raises UnknownSizeError where no operation defines it."""
        kind = value.type
        if not 0 <= dimension < kind.rank:
            raise UnknownSizeError(f"dimension {dimension} of a {kind}")
        if not kind.is_dynamic_dim(dimension):
            return int(kind.shape[dimension])
        if (found := self._leaf(value, dimension)) is not None:
            return found
        if isinstance(value.owner, ir.Block) or value.owner.name not in _RULES:
            tied = self._destination(value)
            if tied is None:
                raise UnknownSizeError(f"the size of a {kind} that no operation defines")
            return self.of(tied, dimension)
        return _RULES[value.owner.name](self, value.owner, dimension)

    def _destination(self, value: ir.Value) -> ir.Value | None:
        """The operand that an operation's result is written to, which has its shape."""
        owner = value.owner
        if isinstance(owner, ir.Block):
            return None
        if owner.name.startswith("linalg."):
            outs = len(owner.results)
            return owner.operands[len(owner.operands) - outs + list(owner.results).index(value)]
        return owner.operands[0] if owner.name in ("tensor.cast", "bufferization.to_tensor") else None

    def mixed(self, op: ir.OpView, name: str, dynamic: Sequence[ir.Value]) -> list[Number]:
        """Numbers of an operation of which some are in the attribute `static_…`, the others operands."""
        rest = iter(dynamic)
        unknown = ir.ShapedType.get_dynamic_size()
        static = op.attributes[f"static_{name}"]
        return [self._scalar(next(rest)) if n == unknown else int(n) for n in static]

    def _empty(self, op: ir.OpView, dimension: int) -> Number:
        kind = op.results[0].type
        before = sum(kind.is_dynamic_dim(i) for i in range(dimension))
        return self._scalar(op.operands[before])

    def _collapse(self, op: ir.OpView, dimension: int) -> Number:
        group = [int(i.value) for i in op.attributes["reassociation"][dimension]]
        return self._product([self.of(op.operands[0], i) for i in group])

    def _reshape(self, op: ir.OpView, dimension: int) -> Number:
        sizes = op.operands[1].owner
        if isinstance(sizes, ir.Block) or sizes.name != "tensor.from_elements":
            raise UnknownSizeError(
                f"the size of a {op.results[0].type} whose shape is no tensor.from_elements"
            )
        return self._scalar(sizes.operands[dimension])

    def _slice(self, op: ir.OpView, dimension: int) -> Number:
        kept = kept_dimensions(op, op.results[0].type)
        return self.mixed(op, "sizes", segment(op, 2))[kept[dimension]]

    def _pad(self, op: ir.OpView, dimension: int) -> Number:
        low = self.mixed(op, "low", segment(op, 1))[dimension]
        high = self.mixed(op, "high", segment(op, 2))[dimension]
        return self._add(self._add(low, high), self.of(op.operands[0], dimension))

    def _concat(self, op: ir.OpView, dimension: int) -> Number:
        if op.attributes["dim"].value != dimension:
            return self.of(op.operands[0], dimension)
        total: Number = 0
        for operand in op.operands:
            total = self._add(total, self.of(operand, dimension))
        return total


def segment(op: ir.OpView, number: int) -> list[ir.Value]:
    """One of the groups of operands of an operation with `operandSegmentSizes`."""
    counts = list(op.attributes["operandSegmentSizes"])
    first = sum(counts[:number])
    return list(op.operands)[first : first + counts[number]]


def kept_dimensions(op: ir.OpView, small: ir.Type) -> list[int]:
    """The dimensions of a slice that its tensor, of type `small`, has: the others are of size 1."""
    sizes = list(op.attributes["static_sizes"])
    unknown = ir.ShapedType.get_dynamic_size()
    wanted = [unknown if small.is_dynamic_dim(i) else small.shape[i] for i in range(small.rank)]
    kept: list[int] = []
    for dimension, size in enumerate(sizes):
        if len(kept) < len(wanted) and size == wanted[len(kept)]:
            kept.append(dimension)
    return kept


_RULES: dict[str, Callable[[Sizes, ir.OpView, int], Number]] = {
    "tensor.empty": Sizes._empty,
    "bufferization.alloc_tensor": Sizes._empty,
    "tensor.splat": Sizes._empty,
    "tensor.generate": Sizes._empty,
    "tensor.expand_shape": lambda sizes, op, at: sizes.mixed(op, "output_shape", list(op.operands)[1:])[at],
    "tensor.collapse_shape": Sizes._collapse,
    "tensor.reshape": Sizes._reshape,
    "tensor.extract_slice": Sizes._slice,
    "tensor.insert_slice": lambda sizes, op, dimension: sizes.of(op.operands[1], dimension),
    "tensor.pad": Sizes._pad,
    "tensor.concat": Sizes._concat,
}


def value(number: Number) -> ir.Value:
    """The number as an SSA value."""
    return emit.index(number) if isinstance(number, int) else number


def within(number: Number, first: Number, end: Number) -> ir.Value:
    """Whether `first <= number < end`, of any sign: an i1 value."""
    above = arith.cmpi(arith.CmpIPredicate.sge, value(number), value(first))
    return arith.andi(above, emit.less(number, end))


def product(numbers: Sequence[Number]) -> Number:
    """The product of all."""
    total: Number = prod(each for each in numbers if isinstance(each, int))
    for each in numbers:
        if not isinstance(each, int):
            total = emit.mul(total, each)
    return total


def linear(coordinates: Sequence[Number], sizes: Sequence[Number]) -> Number:
    """The number of an element in row-major order."""
    total: Number = 0
    for coordinate, size in zip(coordinates, sizes, strict=True):
        total = emit.add(emit.mul(total, size), coordinate)
    return total


def coordinates(number: Number, sizes: Sequence[Number]) -> list[Number]:
    """The inverse of `linear`. The first size isn't used."""
    found: list[Number] = []
    for size in reversed(sizes[1:]):
        found.append(emit.rem(number, size))
        number = emit.div(number, size)
    return [*([number] if sizes else []), *reversed(found)]


_BINARY = {
    ir.AffineAddExpr: emit.add,
    ir.AffineMulExpr: emit.mul,
    ir.AffineFloorDivExpr: emit.div,
    ir.AffineCeilDivExpr: emit.ceil_div,
    ir.AffineModExpr: emit.rem,
}


def applied(
    expression: ir.AffineExpr,
    loops: Sequence[Number],
    symbols: Sequence[Number] = (),
    binary: Mapping[Any, Callable[[Number, Number], Number]] = _BINARY,
) -> Number:
    """The value of an affine expression, whose operands aren't negative where it divides. Raises
    UnknownSizeError for one with other symbols.
    """
    if (loop := mlir.cast(ir.AffineDimExpr, expression)) is not None:
        return loops[loop.position]
    if (symbol := mlir.cast(ir.AffineSymbolExpr, expression)) is not None and symbols:
        return symbols[symbol.position]
    if (number := mlir.cast(ir.AffineConstantExpr, expression)) is not None:
        return int(number.value)
    for kind, function in binary.items():
        if (each := mlir.cast(kind, expression)) is not None:
            return function(*(applied(side, loops, symbols, binary) for side in (each.lhs, each.rhs)))
    raise UnknownSizeError(f"the value of {expression}, which has symbols")
