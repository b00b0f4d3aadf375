"""Recognizes `residual + activation(alpha * A @ B + beta * C + bias)` in an expression: activations by their
structure, whatever operations compute it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from weft.mlir import ir
from weft.passes.kernels.activations import KERNELS, name_of
from weft.passes.raising.expressions import (
    ZERO,
    Apply,
    Buffer,
    Constant,
    Element,
    Expression,
    Form,
    Opaque,
    Reshaped,
    Sum,
    Unraisable,
    form,
    in_one_shape,
    leaves,
    mapped,
)
from weft.passes.raising.formulas import FORMATS, FUNCTIONS, Comparison, Formula, NoFormulaError, X, number


def inner_forms(top: Form, product: Sum) -> list[Form]:
    """The weighted sums of elements and of the product in an expression, largest first."""
    known: dict[int, Form] = {}
    found: list[Form] = []
    parts = list(top)
    seen: set[int] = set()
    while parts:
        part = parts.pop(0)
        if not isinstance(part, Apply) or id(part) in seen:
            continue
        seen.add(id(part))
        for operand in part.operands:
            each = form(operand, known)
            parts += each
            parts += [operand] if isinstance(operand, Apply) else []
            simple = not any(key is None or isinstance(key, Apply | Opaque) for key in each)
            if simple and product in each and each not in found:
                found.append(each)
    return found


def activation_of(top: Form, argument: Form, product: Sum) -> str:
    """The activation of `argument`, a weighted sum with the product, that a weighted sum is without the
    elements in it. Raises Unraisable where there is none, and for a function of more than the argument.
    """
    read = _Reader(argument)
    share = top.get(product, 0.0) / argument[product]
    try:
        total = number(top.get(None, 0.0)) + (number(share) * X if share else Formula())
        for part, weight in top.items():
            if isinstance(part, Apply):
                total += number(weight) * read.formula(part)
    except NoFormulaError:
        name = None
    else:
        name = name_of(total)
    if name is None:
        raise Unraisable("is no activation of a sum")
    return name


class _Reader:
    """Reads expressions as formulas whose variable is a weighted sum."""

    def __init__(self, argument: Form) -> None:
        self._argument = argument
        self._known: dict[int, Formula] = {}
        self._forms: dict[int, Form] = {}

    def formula(self, expression: Expression) -> Formula:
        """The formula of an expression. Raises NoFormulaError where there is none."""
        if id(expression) not in self._known:
            same = form(expression, self._forms) == self._argument
            self._known[id(expression)] = X if same else self._formula(expression)
        return self._known[id(expression)]

    def _formula(self, expression: Expression) -> Formula:
        if isinstance(expression, Constant):
            return number(expression.value, expression.kind)
        if not isinstance(expression, Apply):
            raise NoFormulaError("depends on more than the argument")
        name, operands = expression.name, expression.operands
        if name in ("extend", "round") and expression.kind in FORMATS:
            return self.formula(operands[0])
        if name == "select":
            condition, *arms = operands
            if not isinstance(condition, Apply) or condition.name[1:] not in ("gt", "ge", "lt", "le"):
                raise NoFormulaError("selects by something else than a comparison")
            left, right = map(self.formula, condition.operands)
            of_nan = {"o": False, "u": True, "s": None}[condition.name[0]]
            return Comparison(condition.name[1:], left, right, of_nan).select(*map(self.formula, arms))
        if name not in FUNCTIONS:
            raise NoFormulaError("applies another function")
        return FUNCTIONS[name](*map(self.formula, operands))


_MOST = 3  # dimensions of D


@dataclass(frozen=True)
class Matmul:
    """A `tile.matmul` to be built: its operands in memory, and its attributes."""

    a: Buffer
    b: Buffer
    d: Buffer
    roles: dict[str, Buffer]
    attributes: dict[str, Any] = field(default_factory=dict)
    op: Any = None

    @property
    def buffers(self) -> list[Buffer]:
        """All operands, D last."""
        return [self.a, self.b, *self.roles.values(), self.d]


Materialize = Callable[[Expression, tuple[int | None, ...], Any], Buffer]
"""Has a tensor of these sizes written to memory by an earlier product. Raises Unraisable where none can."""


def recognized(expression: Expression, d: Buffer, op: ir.Operation, materialize: Materialize) -> Matmul:
    """The product that computes every element of `d`. Where several do, all but one are added as C or
    residual from memory. Raises Unraisable with what is in the way.
    """
    for leaf in leaves(expression):
        if isinstance(leaf, Opaque):
            raise Unraisable(leaf.reason, leaf.op)
    for leaf in leaves(expression):
        if isinstance(leaf, Reshaped):
            expression, shape = in_one_shape(expression, leaf)
            d = replace(d, shape=shape)
            break
    return _recognized(expression, d, op, materialize)


def _recognized(expression: Expression, d: Buffer, op: ir.Operation, materialize: Materialize) -> Matmul:
    top = form(expression)
    products = list(
        dict.fromkeys(leaf for part in top if part for leaf in leaves(part) if isinstance(leaf, Sum))
    )
    if len({each.product for each in products}) > 1:
        for other in products[:-1]:
            expression = _with_memory(expression, other, materialize)
        return _recognized(expression, d, op, materialize)
    if not products:
        raise Unraisable("computes a result that contains no product", op)
    if len(products) > 1:
        raise Unraisable("uses two elements of a product for one of D", op)
    (product,) = products
    where = product.product.op
    operands = _Operands(product, len(d.shape), where)
    argument: Form
    activation: str | None = None
    rest: Form = {}
    if top.keys() - {None} == {product} or not any(isinstance(part, Apply) for part in top):
        argument = {part: weight for part, weight in top.items() if part is not None}
        if top.get(None):
            raise Unraisable(f"adds {top[None]:g} to each sum; an epilogue adds matrices and a bias", op)
    else:
        argument, activation, rest = _activated(top, product, op)
    roles, factors = _roles(argument, None if activation is None else rest, product, d, op)
    views = {role: operands.shaped(element, role) for role, element in roles.items()}
    return Matmul(
        operands.a,
        operands.b,
        operands.output(d),
        views,
        {**operands.attributes, **factors, "activation": activation},
        where,
    )


def _with_memory(expression: Expression, product: Sum, materialize: Materialize) -> Expression:
    """The expression with a product read from memory."""
    each = product.product
    sizes: dict[int, int | None] = {}
    for side in (each.left, each.right):
        sizes |= dict(zip(side.dims, side.buffer.shape, strict=True))
    if sizes.keys() != set(range(each.rank + 1)):
        raise Unraisable("is a product that is broadcast", each.op)
    whole = replace(product, dims=tuple(range(each.rank)))
    buffer = materialize(whole, tuple(sizes[i] for i in range(each.rank)), each.op)

    def change(leaf: Expression) -> Expression:
        if isinstance(leaf, Sum) and leaf.product is each:
            return Element(buffer.element, buffer, leaf.dims)
        return leaf

    return mapped(expression, change)


def _activated(top: Form, product: Sum, op: ir.Operation) -> tuple[Form, str, Form]:
    """The argument of the activation, its name, and what is added to it."""
    applied = next(part.op for part in top if isinstance(part, Apply))
    for argument in inner_forms(top, product):
        share = top.get(product, 0.0) / argument[product]
        elements = [part for part in {**top, **argument} if isinstance(part, Element)]
        rest = {part: top.get(part, 0.0) - share * argument.get(part, 0.0) for part in elements}
        try:
            activation = activation_of(top, argument, product)
        except Unraisable:
            continue
        return argument, activation, {part: weight for part, weight in rest.items() if weight}
    *names, last = KERNELS
    what = f"is no {', '.join(names)} or {last} of a product; write the product to memory before it"
    raise Unraisable(what, applied)


def _roles(
    argument: Form, rest: Form | None, product: Sum, d: Buffer, op: ir.Operation
) -> tuple[dict[str, Element], dict[str, float]]:
    """The elements by their roles, and alpha and beta. `rest` is added after an activation; None without."""
    rank, roles = len(d.shape), dict[str, Element]()
    factors = {"alpha": argument[product], "beta": 0.0}
    full = tuple(range(rank))
    # Only C may have a weight: what has one is asked first.
    for element, weight in sorted(argument.items(), key=lambda each: each[1] == 1.0):
        if element == product:
            continue
        dims = _squeezed(element)
        if element.buffer == d and element.dims == full and "c" not in roles:
            roles["c"], factors["beta"] = element, weight
        elif dims == full[-1:] and weight == 1.0 and "bias" not in roles:
            roles["bias"] = element
        elif _is_matrix(dims, rank) and "c" not in roles:
            roles["c"], factors["beta"] = element, weight
        elif _is_matrix(dims, rank) and weight == 1.0 and rest is None:
            # Without an activation, a second matrix may be the residual.
            rest = {element: 1.0}
        else:
            raise Unraisable(_unusual(element, weight, rank), op)
    rest = rest or {}
    if len(rest) > 1:
        raise Unraisable(f"adds {len(rest)} matrices after the activation; an epilogue adds one", op)
    for element, weight in rest.items():
        if weight != 1.0 or not _is_matrix(_squeezed(element), rank):
            what = "adds an operand after the activation other than a matrix of D's sizes, the residual"
            raise Unraisable(what, op)
        roles["residual"] = element
    if "c" in roles and roles["c"].buffer == d and roles["c"].dims == full:
        del roles["c"]  # D's old contents, which beta scales without an operand
    if any(element.buffer.source is d.source for element in roles.values()):
        raise Unraisable("reads D other than as C, which beta scales", op)
    return roles, factors


def _unusual(element: Element, weight: float, rank: int) -> str:
    dims, legal = _squeezed(element), "a bias has an element for each column of D, other operands its sizes"
    at = ", ".join(f"d{each}" for each in dims)
    if _is_matrix(dims, rank) or dims == (rank - 1,):
        return f"adds {weight:g} times an operand at ({at}); an epilogue has one bias, one C and one residual"
    return f"adds an operand at ({at}) of D's {rank} dimensions; {legal}"


def _squeezed(element: Element) -> tuple[int, ...]:
    """The coordinates except for those of dimensions of size 1."""
    return tuple(each for each in element.dims if each != ZERO)


def _is_matrix(dims: tuple[int, ...], rank: int) -> bool:
    full = tuple(range(rank))
    return dims in (full, full[-2:])


class _Operands:
    """A and B of a product: the dimensions of D that each has, and how it is transposed."""

    def __init__(self, product: Sum, rank: int, op: ir.Operation) -> None:
        self._rank, self._op = rank, op
        each = product.product
        if sorted(product.dims) != list(range(rank)) or rank > _MOST:
            what = f"is a product of {rank} dimensions; D has up to {_MOST}: collapse those of batches"
            raise Unraisable(what, op)
        k = rank
        place = dict(enumerate(product.dims)) | {each.rank: k}
        sides = [replace(side, dims=tuple(place[d] for d in side.dims)) for side in (each.left, each.right)]
        for side in sides:
            if len(set(side.dims)) < len(side.dims):
                raise Unraisable("reads a diagonal; A and B must be matrices", op)
        n = rank - 1
        if rank == 0 or all(n in side.dims for side in sides) or not any(n in side.dims for side in sides):
            legal = "the last dimension of the result must be that of one operand, N"
            raise Unraisable(f"is a product without columns: {legal}", op)
        b, a = sides if n in sides[0].dims else sides[::-1]
        self._vector = rank == 1 or (rank == 2 and 0 in b.dims)  # A has no rows: M is 1
        a, b = self._with_rows(a), b
        self.attributes = {
            "transpose_a": self._transposed(a, "A", (self._rows, k), (0, self._rows, k)),
            "transpose_b": not self._transposed(b, "B", (n, k), (0, n, k)),
        }
        self.a, self.b = self._viewed(a), self._viewed(b)

    @property
    def _rows(self) -> int:
        """The coordinate along M; a number of its own where M is 1."""
        return -2 if self._vector else self._rank - 2

    def _with_rows(self, a: Element) -> Element:
        """A, with a dimension M of size 1 before K where it has none."""
        if not self._vector:
            return a
        k = a.dims.index(self._rank)
        shape, dims = list(a.buffer.shape), list(a.dims)
        shape.insert(k, 1)
        dims.insert(k, self._rows)
        return replace(a, buffer=replace(a.buffer, shape=tuple(shape)), dims=tuple(dims))

    def _transposed(self, side: Element, name: str, *orders: tuple[int, ...]) -> bool:
        """Whether a matrix has its last two dimensions the other way round than in these orders."""
        for order in orders:
            if side.dims == order:
                return False
            if side.dims == (*order[:-2], order[-1], order[-2]):
                return True
        spelled = {0: "batch"} if self._rank == _MOST or self._vector else {}
        spelled |= {self._rank: "K", self._rank - 1: "N", self._rows: "M"}
        got = ", ".join(spelled.get(each, f"d{each}") for each in side.dims)
        legal = "M and K" if name == "A" else "K and N"
        raise Unraisable(
            f"has {name} with dimensions ({got}); it must have {legal} in any order, or a batch before them",
            self._op,
        )

    def _viewed(self, side: Element) -> Buffer:
        element = f"u{side.buffer.element}" if side.unsigned else side.buffer.element
        return replace(side.buffer, element=element)

    def output(self, d: Buffer) -> Buffer:
        """D, with a dimension M of size 1 before N where A has no rows."""
        return replace(d, shape=(*d.shape[:-1], 1, d.shape[-1])) if self._vector else d

    def shaped(self, element: Element, role: str) -> Buffer:
        """The memory of an operand after D, without dimensions of size 1 that it is broadcast along."""
        kept = [size for size, dim in zip(element.buffer.shape, element.dims, strict=True) if dim != ZERO]
        if self._vector and role != "bias":
            kept.insert(len(kept) - 1, 1)
        return replace(element.buffer, shape=tuple(kept))
