"""What an element of a tensor is computed from, as an expression over the tensor's coordinates.

A coordinate is a number: 0 for the first dimension of the tensor that is computed, and so on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

ZERO = -1
"""In `dims`, the coordinate 0 of a dimension of size 1."""


class Unraisable(Exception):
    """Why something can't be raised: a sentence, and the operation that it is about."""

    def __init__(self, message: str, op: Any = None) -> None:
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
    sizes: tuple[Any, ...] | None = field(default=None, compare=False)


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
    op: Any


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
    op: Any


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
    op: Any


@dataclass(frozen=True, eq=False)
class Opaque(Expression):
    """A number that no kernel of one product computes."""

    reason: str
    op: Any


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


# Casts that lose no bits, or whose rounding an epilogue leaves to the end.
CASTS = ("extend", "round")

Form = Mapping[Any, float]
"""A weighted sum: the weight of each part that isn't linear, and at None what is added."""


def form(expression: Expression, known: dict[int, Form] | None = None) -> Form:
    """The expression as a weighted sum of elements, sums of products and functions that aren't linear."""
    known = {} if known is None else known
    if id(expression) not in known:
        known[id(expression)] = _form(expression, known)
    return known[id(expression)]


def _form(expression: Expression, known: dict[int, Form]) -> Form:
    if isinstance(expression, Constant):
        return {None: expression.value} if expression.value else {}
    if not isinstance(expression, Apply):
        return {expression: 1.0}
    name, operands = expression.name, expression.operands
    if name in CASTS:
        return form(operands[0], known)
    if name == "neg":
        return _scaled(form(operands[0], known), -1.0)
    if name in ("add", "sub"):
        left, right = (form(each, known) for each in operands)
        return added(left, right, 1.0 if name == "add" else -1.0)
    if name in ("mul", "div"):
        left, right = (form(each, known) for each in operands)
        if is_number(right) and (name == "mul" or right):
            factor = right.get(None, 0.0)
            return _scaled(left, factor if name == "mul" else 1.0 / factor)
        if name == "mul" and is_number(left):
            return _scaled(right, left.get(None, 0.0))
    return {expression: 1.0}


def is_number(each: Form) -> bool:
    """Whether a weighted sum has no parts."""
    return not each.keys() - {None}


def _scaled(each: Form, factor: float) -> Form:
    return {part: weight * factor for part, weight in each.items() if weight * factor}


def added(left: Form, right: Form, factor: float = 1.0) -> Form:
    """The weighted sum `left + factor * right`."""
    total = dict(left)
    for part, weight in right.items():
        total[part] = total.get(part, 0.0) + factor * weight
        if not total[part]:
            del total[part]
    return total


def exact(expression: Expression) -> Expression:
    """What the expression is extended from without loss."""
    while isinstance(expression, Apply) and expression.name in ("extend", "extend_unsigned"):
        inner = expression.operands[0]
        if expression.name == "extend_unsigned":
            return replace(inner, unsigned=True) if isinstance(inner, Element) else expression
        expression = inner
    return expression
