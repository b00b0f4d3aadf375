"""Numbers of a function that the host computes before it launches kernels, such as sizes."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft import mlir
from weft.mlir import ir
from weft.passes.plain.indices import Sizes, UnknownSizeError, applied
from weft.passes.raising.expressions import Unraisable

Number = Any
"""An int, or a tuple: `("size", argument, dimension)`, `("argument", number)`, or a function of numbers."""

_FUNCTIONS: dict[str, Callable[..., int]] = {
    "addi": operator.add,
    "subi": operator.sub,
    "muli": operator.mul,
    "remui": operator.mod,
    **dict.fromkeys(("divui", "floordivsi"), operator.floordiv),
    "divsi": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    **dict.fromkeys(("ceildivsi", "ceildivui"), lambda a, b: -(-a // b)),
    **dict.fromkeys(("maxsi", "maxui"), max),
    **dict.fromkeys(("minsi", "minui"), min),
    **dict.fromkeys(("index_cast", "index_castui", "extsi", "extui", "trunci"), lambda a: a),
    "eq": lambda a, b: int(a == b),
    "ne": lambda a, b: int(a != b),
    "slt": lambda a, b: int(a < b),
    "sle": lambda a, b: int(a <= b),
    "sgt": lambda a, b: int(a > b),
    "sge": lambda a, b: int(a >= b),
    "andi": operator.and_,
    "ori": operator.or_,
    "unsigned": lambda a, bits: a % (1 << bits),
    "signed": lambda a, bits: (a + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1),
}
_UNSIGNED = ("divui", "ceildivui", "remui", "maxui", "minui", "extui", "index_castui")
_DIVIDE = ("divsi", "divui", "floordivsi", "ceildivsi", "ceildivui", "remui")
_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge")


def evaluated(number: Number, arguments: Sequence[Any]) -> Any:
    """The number for these arguments of the function: arrays and numbers."""
    if isinstance(number, int):
        return number
    name, *parts = number
    if name == "size":
        argument, dimension = parts
        return int(arguments[argument].shape[dimension])
    if name == "argument":
        return arguments[parts[0]]
    if name == "select":  # the other may divide by 0
        return evaluated(parts[1] if evaluated(parts[0], arguments) else parts[2], arguments)
    return _FUNCTIONS[name](*(evaluated(each, arguments) for each in parts))


def spelled(number: Number) -> str:
    """The number in words, as `weft.sources` has it."""
    if isinstance(number, int):
        return str(number)
    name, *parts = number
    if name == "size":
        return f"size {parts[1]} of argument {parts[0]}"
    if name == "argument":
        return f"argument {parts[0]}"
    return f"{name}({', '.join(map(spelled, parts))})"


def _folded(name: str, operands: Sequence[Number]) -> Number:
    """A function of numbers, computed if they are known."""
    if name.startswith(("ext", "trunc", "index_cast")):
        return operands[0]
    if all(isinstance(each, int) for each in operands) and not (name in _DIVIDE and operands[1] == 0):
        return _FUNCTIONS[name](*operands)
    return (name, *operands)


def _of_width(name: str, operands: Sequence[Number], op: ir.OpView) -> Number:
    """A function of numbers that may be negative, which wraps as its type does. Others are small."""
    if all(map(_is_natural, operands)) and name != "subi":
        return _folded(name, operands)
    before, after = (_bits(each.type) for each in (op.operands[0], op.results[0]))
    if name in _UNSIGNED:
        operands = [("unsigned", each, before) for each in operands]
    found = _folded(name, operands)
    wraps = name in (*_UNSIGNED, "trunci") or after < _MOST_BITS
    return ("signed", found, after) if wraps and not isinstance(found, int) else found


_MOST_BITS = 64


def _bits(kind: ir.Type) -> int:
    return _MOST_BITS if isinstance(kind, ir.IndexType) else int(kind.width)


def _is_natural(number: Number) -> bool:
    """Whether a number is certainly at least 0: it comes from sizes."""
    if isinstance(number, int):
        return number >= 0
    name, *parts = number
    if name in ("argument", "subi", "signed"):
        return False
    if name == "maxsi":
        return any(map(_is_natural, parts))
    return name in ("size", "unsigned", *_PREDICATES) or all(map(_is_natural, parts[name == "select" :]))


def _compared(name: str, a: Number, b: Number) -> Number:
    """A comparison, folded where a size is compared with 0."""
    if isinstance(a, int) and isinstance(b, int):
        return _FUNCTIONS[name](a, b)
    if isinstance(a, tuple) and a[0] == "size" and b == 0 and name in ("slt", "sge"):
        return int(name == "sge")
    return name, a, b


def _sum(a: Number, b: Number) -> Number:
    return a + b if isinstance(a, int) and isinstance(b, int) else ("addi", a, b)


def _product(numbers: Sequence[Number]) -> Number:
    total: Number = 1
    for each in numbers:
        if isinstance(total, int) and isinstance(each, int):
            total *= each
        else:
            total = each if total == 1 else ("muli", total, each)
    return total


def _op(value: ir.Value) -> ir.OpView:
    return value.owner.owner if isinstance(value.owner, ir.Block) else value.owner


class Numbers:
    """The numbers of one function. Its arguments have these numbers."""

    def __init__(self, arguments: Mapping[ir.Value, int]) -> None:
        self._arguments = arguments
        self._sizes = Sizes(self._leaf, self.of, _sum, _product)

    def shape(self, tensor: ir.Value) -> tuple[Number, ...]:
        """The sizes of a tensor. Raises Unraisable where they depend on more than the arguments' sizes."""
        try:
            return tuple(self._sizes.shape(tensor))
        except UnknownSizeError as unknown:
            raise Unraisable(f"needs {unknown}", _op(tensor)) from None

    def known_shape(self, tensor: ir.Value) -> tuple[Number, ...] | None:
        """The sizes of a tensor; None where they depend on more than the arguments' sizes."""
        try:
            return self.shape(tensor)
        except Unraisable:
            return None

    def size(self, tensor: ir.Value, dimension: Any) -> Number:
        """One size of a tensor."""
        try:
            return self._sizes.of(tensor, dimension)
        except UnknownSizeError as unknown:
            raise Unraisable(f"needs {unknown}", _op(tensor)) from None

    def of(self, value: ir.Value) -> Number:
        """An integer of the function. Raises Unraisable where the host can't compute it."""
        if isinstance(value.owner, ir.Block):
            if value in self._arguments:
                return "argument", self._arguments[value]
            raise Unraisable("uses a number that is no argument", value.owner.owner)
        op = value.owner
        dialect, _, name = op.name.partition(".")
        if op.name == "arith.constant":
            number = mlir.constant(value)
            if isinstance(number, int):
                return number
        if op.name in ("tensor.dim", "memref.dim") and isinstance(mlir.constant(op.operands[1]), int):
            return self.size(op.operands[0], mlir.constant(op.operands[1]))
        if op.name == "affine.apply":
            loops = [self.of(each) for each in op.operands]
            each = op.attributes["map"].value
            return applied(each.results[0], loops[: each.n_dims], loops[each.n_dims :], _AFFINE)
        if op.name == "arith.cmpi" and op.attributes["predicate"].value < len(_PREDICATES):
            operands = [self.of(each) for each in op.operands]
            return _compared(_PREDICATES[op.attributes["predicate"].value], *operands)
        if op.name == "arith.select":
            condition, *choices = (self.of(each) for each in op.operands)
            return ("select", condition, *choices) if isinstance(condition, tuple) else choices[not condition]
        if dialect == "arith" and name in _FUNCTIONS:
            return _of_width(name, [self.of(each) for each in op.operands], op)
        raise Unraisable("isn't a number that the host computes from sizes of arguments", op)

    def _leaf(self, value: ir.Value, dimension: int) -> Number | None:
        return ("size", self._arguments[value], dimension) if value in self._arguments else None


_AFFINE = {
    kind: lambda a, b, name=name: (name, a, b)
    for kind, name in (
        (ir.AffineAddExpr, "addi"),
        (ir.AffineMulExpr, "muli"),
        (ir.AffineFloorDivExpr, "floordivsi"),
        (ir.AffineCeilDivExpr, "ceildivsi"),
        (ir.AffineModExpr, "remui"),
    )
}
