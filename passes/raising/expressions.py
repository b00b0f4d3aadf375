"""The computation of an element of a tensor, as an expression over the tensor's coordinates.

A coordinate is a number: 0 for the first dimension of the tensor that is computed, and so on.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from weft.mlir import ir
from weft.passes.raising.formulas import FORMATS

ZERO = -1
"""In `dims`, the coordinate 0 of a dimension of size 1."""


class Unraisable(Exception):
    """Why something can't be raised: a sentence, and the operation that it is about."""

    def __init__(self, message: str, op: ir.Operation | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.op = op


@dataclass(frozen=True)
class Buffer:
    """Memory that a kernel reads or writes: an argument of the function, or what an earlier kernel writes.

    `source` is the argument or the number of that kernel. `shape` may differ from the argument's where it is
    read through reshapes; an unknown size is None. `sizes` are numbers that the host computes, if known.
    """

    source: Any
    shape: tuple[int | None, ...]
    element: str
    sizes: tuple[object, ...] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Expression:
    """A number of an element type, such as f32."""

    kind: str


@dataclass(frozen=True)
class Constant(Expression):
    """The same number everywhere."""

    value: float


@dataclass(frozen=True)
class Element(Expression):
    """The element of a buffer at the coordinates `dims`; `unsigned` where it was extended with zeros."""

    buffer: Buffer
    dims: tuple[int, ...]
    unsigned: bool = False


@dataclass(frozen=True, eq=False)
class Product:
    """Sums over K of products of two elements. Coordinate `rank` of both is that along K."""

    left: Element
    right: Element
    rank: int
    op: ir.OpView


@dataclass(frozen=True)
class Sum(Expression):
    """The sum of a product at the coordinates `dims`."""

    product: Product
    dims: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Apply(Expression):
    """A function of numbers, such as `add`, applied by an operation."""

    name: str
    operands: tuple[Expression, ...]
    op: ir.OpView


@dataclass(frozen=True, eq=False)
class Reshaped(Expression):
    """The element of a tensor of another shape: dimension i of the `small` shape is those in `groups[i]` of
    the `large` one. `inner` has the small shape where `expands`, otherwise the large one.
    """

    inner: Expression
    groups: tuple[tuple[int, ...], ...]
    small: tuple[int | None, ...]
    large: tuple[int | None, ...]
    expands: bool
    dims: tuple[int, ...]
    op: ir.OpView


@dataclass(frozen=True, eq=False)
class Opaque(Expression):
    """A number that no kernel of one product computes."""

    reason: str
    op: ir.OpView


Dims = Sequence[int]


def mapped(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The expression with every leaf changed. Parts that occur several times are changed once."""
    done: dict[int, Expression] = {}

    def visit(part: Expression) -> Expression:
        if id(part) not in done:
            if isinstance(part, Apply):
                done[id(part)] = replace(part, operands=tuple(map(visit, part.operands)))
            else:
                done[id(part)] = change(part)
        return done[id(part)]

    return visit(expression)


def moved(expression: Expression, dims: Dims) -> Expression:
    """The expression with `dims[i]` for the coordinate i."""

    def change(leaf: Expression) -> Expression:
        if isinstance(leaf, Element | Sum | Reshaped):
            return replace(leaf, dims=tuple(d if d == ZERO else dims[d] for d in leaf.dims))
        return leaf

    return mapped(expression, change)


def leaves(expression: Expression) -> Iterator[Expression]:
    """The leaves, each once."""
    seen: set[int] = set()
    parts = [expression]
    while parts:
        part = parts.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, Apply):
            parts += part.operands
        else:
            yield part


Form = Mapping[Any, float]
"""A weighted sum: the weight of each part that isn't linear, and at None what is added."""


def form(expression: Expression, known: dict[int, Form] | None = None) -> Form:
    """The expression as a weighted sum of elements, sums of products and functions that aren't linear.

    It is the same function of every number, up to roundings: parts that cancel or are multiplied by 0, which
    may be infinite or NaN, stay.
    """
    known = {} if known is None else known
    if id(expression) not in known:
        linear = _linear(expression, known)
        known[id(expression)] = {expression: 1.0} if linear is None else linear
    return known[id(expression)]


def _linear(expression: Expression, known: dict[int, Form]) -> Form | None:
    """The weighted sum; None for one that is a part."""
    if isinstance(expression, Constant):
        return {None: expression.value} if expression.value else {}
    if not isinstance(expression, Apply):
        return None
    name, kind = expression.name, expression.kind
    forms = [form(each, known) for each in expression.operands]
    (left, *rest) = forms
    if name == "extend":  # sums of short integers wrap before
        return left if kind in FORMATS or not isinstance(expression.operands[0], Apply) else None
    if name == "round":
        return left if kind in FORMATS else None
    if name == "neg":
        return _scaled(left, -1.0, kind)
    if name in ("add", "sub"):
        right = rest[0] if name == "add" else _scaled(rest[0], -1.0, kind)
        if right is None or any(left.get(part, 0.0) * weight < 0 for part, weight in right.items()):
            return None
        return {part: left.get(part, 0.0) + right.get(part, 0.0) for part in {**left, **right}}
    if name == "mul" and is_number(left):
        return _scaled(rest[0], left.get(None, 0.0), kind)
    if name in ("mul", "div") and is_number(rest[0]):
        factor = rest[0].get(None, 0.0)
        return _scaled(left, factor if name == "mul" else 1.0 / factor if factor else 0.0, kind)
    return None


def is_number(each: Form) -> bool:
    """Whether a weighted sum has no parts."""
    return not each.keys() - {None}


def _scaled(each: Form, factor: float, kind: str) -> Form | None:
    """A weighted sum times a number; None where weights become too small for the type."""
    least = FORMATS["f64" if kind == "f64" else "f32"].smallest
    scaled = {part: weight * factor for part, weight in each.items()}
    lost = any(abs(weight) < least for part, weight in scaled.items() if part is not None)
    return None if lost else scaled


def exact(expression: Expression) -> Expression:
    """The expression that this one is extended from without loss."""
    while isinstance(expression, Apply) and expression.name in ("extend", "extend_unsigned"):
        inner = expression.operands[0]
        if expression.name == "extend_unsigned":
            return replace(inner, unsigned=True) if isinstance(inner, Element) else expression
        expression = inner
    return expression


def in_one_shape(expression: Expression, leaf: Reshaped) -> tuple[Expression, tuple[int | None, ...]]:
    """The expression over the coordinates that one of its leaves has before it is reshaped, and their sizes.
    Raises Unraisable where another leaf has none there.
    """
    outer = leaf.large if leaf.expands else leaf.small
    inner = leaf.small if leaf.expands else leaf.large
    if leaf.dims != tuple(range(len(outer))):
        raise Unraisable("transposes what is reshaped", leaf.op)

    def change(each: Expression) -> Expression:
        if isinstance(each, Reshaped):
            if (each.groups, each.dims, each.expands) != (leaf.groups, leaf.dims, leaf.expands):
                raise Unraisable("is reshaped in two ways", each.op)
            return each.inner
        if isinstance(each, Element):
            return _reshaped(each, leaf)
        if isinstance(each, Sum):
            raise Unraisable("adds products of different shapes", leaf.op)
        return each

    changed = mapped(expression, change)
    if any(isinstance(each, Reshaped) for each in leaves(changed)):
        raise Unraisable("is reshaped twice", leaf.op)
    return changed, inner


def _reshaped(element: Element, leaf: Reshaped) -> Element:
    """An element at the coordinates before a reshape."""
    dims: list[int] = []
    shape: list[int | None] = []
    at = 0
    while at < len(element.dims):
        dim = element.dims[at]
        if dim == ZERO:
            at += 1
            continue
        if leaf.expands:
            number, group = next((i, g) for i, g in enumerate(leaf.groups) if dim in g)
            if element.dims[at : at + len(group)] != group:
                raise Unraisable("adds an operand along a part of what is reshaped", leaf.op)
            sizes = element.buffer.shape[at : at + len(group)]
            dims.append(number)
            shape.append(math.prod(s for s in sizes if s) if None not in sizes else None)
            at += len(group)
        else:
            dims += leaf.groups[dim]
            shape += [leaf.large[i] for i in leaf.groups[dim]]
            at += 1
    return replace(element, buffer=replace(element.buffer, shape=tuple(shape)), dims=tuple(dims))
