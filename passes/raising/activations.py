"""Recognizes activations by what they compute, whatever operations compute it."""

import math
from collections.abc import Callable

from weft.passes.raising.expressions import Apply, Form, Opaque, Sum, Unraisable, form, leaves

_SMALL = [i / 8 for i in range(-64, 65)]
_GRID = [-1e4, -300.0, -30.0, *_SMALL, 30.0, 300.0, 1e4]
# Constants are often rounded to bf16; gelu and gelu_tanh are 5e-4 apart at most.
_TOLERANCE = 2e-3


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


ACTIVATIONS: dict[str | None, Callable[[float], float]] = {
    None: lambda x: x,
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * math.erfc(-x / math.sqrt(2)) / 2,
    "gelu_tanh": lambda x: x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "silu": lambda x: x * _logistic(x),
}


def _raised(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _divided(x: float, y: float) -> float:
    if y:
        return x / y
    return math.nan if not x else math.copysign(math.inf, x) * math.copysign(1.0, y)


_ORDER: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
}

FUNCTIONS: dict[str, Callable[..., float]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": _divided,
    "neg": lambda x: -x,
    "extend": lambda x: x,
    "round": lambda x: x,
    "max": max,
    "min": min,
    "select": lambda condition, x, y: x if condition else y,
    "exp": _raised,
    "exp2": lambda x: _raised(x * math.log(2)),
    "tanh": math.tanh,
    "erf": math.erf,
    "erfc": math.erfc,
    "pow": lambda x, y: math.pow(x, y),
    "sqrt": math.sqrt,
    "abs": abs,
    **{f"compare_{name}": order for name, order in _ORDER.items()},
}
"""What the functions of expressions compute, in f64."""


class _Elsewhere(Exception):
    """The function depends on more than the argument of the activation."""


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
            plain = {key: weight for key, weight in each.items() if key is not None}
            simple = not any(isinstance(key, Apply | Opaque) for key in plain)
            if simple and product in plain and plain not in found:
                found.append(plain)
    return found


def activation_of(top: Form, argument: Form, product: Sum) -> str | None:
    """The activation whose value at `argument`, a weighted sum with the product, is that of `top`.

    Raises Unraisable where there is none, and for a function of more than the argument.
    """
    names = {each.name for part in top if isinstance(part, Apply) for each in _applied(part)}
    try:
        values = [_value(top, argument, product, x) for x in _GRID]
    except (_Elsewhere, ArithmeticError, ValueError):
        raise Unraisable("is no activation of a sum") from None
    if any(map(math.isnan, values)):
        raise Unraisable("is no activation of a sum")
    errors = {}
    for name, function in ACTIVATIONS.items():
        if (name, "erf" in names) == ("gelu_tanh", True) or (name, "tanh" in names) == ("gelu", True):
            continue
        errors[name] = max(
            abs(value - function(x)) / (1 + max(x, 0.0)) for x, value in zip(_GRID, values, strict=True)
        )
    name = min(errors, key=lambda each: errors[each])
    if not errors[name] < _TOLERANCE:
        raise Unraisable("is no activation of a sum")
    return name


def _applied(part: Apply) -> list[Apply]:
    found, parts = [], [part]
    seen: set[int] = set()
    while parts:
        each = parts.pop()
        if id(each) not in seen:
            seen.add(id(each))
            found.append(each)
            parts += [operand for operand in each.operands if isinstance(operand, Apply)]
    return found


def _value(top: Form, argument: Form, product: Sum, x: float) -> float:
    """The value of a weighted sum where the argument is x."""
    known: dict[int, float] = {}
    forms: dict[int, Form] = {}

    def total(each: Form) -> float:
        share = each.get(product, 0.0) / argument[product]
        value = share * x + each.get(None, 0.0)
        for part in {**each, **argument}:
            weight = each.get(part, 0.0)
            if isinstance(part, Apply):
                value += weight * applied(part)
            elif part is not None and not math.isclose(weight, share * argument.get(part, 0.0)):
                raise _Elsewhere
        return value

    def applied(part: Apply) -> float:
        if id(part) not in known:
            if part.name not in FUNCTIONS:
                raise _Elsewhere
            operands = [total(form(operand, forms)) for operand in part.operands]
            known[id(part)] = FUNCTIONS[part.name](*operands)
        return known[id(part)]

    return total(top)


def products_in(top: Form) -> list[Sum]:
    """The products that a weighted sum is computed from."""
    return list(dict.fromkeys(leaf for part in top if part for leaf in leaves(part) if isinstance(leaf, Sum)))
