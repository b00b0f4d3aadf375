"""Random functions of a product, near activations and not: those that are raised are the same function."""

import math
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_raised_activations import RECOGNIZED, raised

from weft.errors import WeftError
from weft.passes.raising import products
from weft.reference.expected import ACTIVATIONS

POINTS = np.array([0, 0.1, 0.5, 1, 2.25, 3, 7.5, 30, 1e-20, 1e5, 1e30, math.inf])
POINTS = np.concatenate([POINTS, -POINTS, [math.nan]])
CONSTANTS = (
    *("0.0", "-0.0", "1.0", "-1.0", "0.5", "2.0", "3.0", "0.5000001", "0x7F800000", "0.70710678", "0.70710"),
    *("0.7978845608", "0.797884", "0.044715", "0.0447150001", "1.4426950409", "-1.5957691216"),
)


def _larger(x: Any, y: Any) -> Any:
    larger = np.where(x == y, np.where(np.signbit(x), y, x), np.maximum(x, y))
    return np.where(np.isnan(x) | np.isnan(y), np.nan, larger)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.negf": np.negative,
    "arith.maximumf": _larger,
    "arith.select": np.where,
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.tanh": np.tanh,
    "math.erf": np.vectorize(math.erf, [float]),
    "math.erfc": np.vectorize(math.erfc, [float]),
    "math.sqrt": np.sqrt,
    "math.powf": np.power,
}
ORDERS: dict[str, Callable[..., Any]] = {
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
}
PREDICATES = [f"{first}{order}" for first in "ou" for order in ORDERS]
BINARY = ("arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.maximumf")
UNARY = ("math.exp", "math.exp2", "math.tanh", "math.erf", "math.erfc", "arith.negf")


def _computed(lines: list[str]) -> Any:
    """What a body computes at the points, in f64."""
    values = {"%x": POINTS}

    def operand(text: str) -> Any:
        if not text.startswith("#"):
            return values[text]
        return np.full_like(POINTS, math.inf if text == "#0x7F800000" else float(np.float32(text[1:])))

    for line in lines:
        result, _, rest = line.partition(" = ")
        name, _, rest = rest.rpartition(" : ")[0].partition(" ")
        parts = [each.strip() for each in rest.split(",")]
        if name == "arith.cmpf":
            x, y = map(operand, parts[1:])
            unordered = np.isnan(x) | np.isnan(y)
            ordered = ORDERS[parts[0][1:]](x, y)
            values[result] = ordered | unordered if parts[0][0] == "u" else ordered & ~unordered
        else:
            values[result] = FUNCTIONS[name](*map(operand, parts))
    return values["%r"]


def _changed(lines: list[str], choose: random.Random) -> list[str]:
    """A body with a constant, an operation or an operand changed."""
    number = choose.randrange(len(lines))
    result, _, rest = lines[number].partition(" = ")
    change = choose.randrange(4)
    if change == 0:
        rest = re.sub(r"#\S+?(?=[, ])", lambda _: f"#{choose.choice(CONSTANTS)}", rest, count=1)
    elif change == 1:
        rest = re.sub(rf"({'|'.join(BINARY)})", lambda _: choose.choice(BINARY), rest)
        rest = re.sub(rf"({'|'.join(UNARY)}) ", lambda _: f"{choose.choice(UNARY)} ", rest)
    elif change == 2:
        rest = re.sub(r"cmpf \w+", lambda _: f"cmpf {choose.choice(PREDICATES)}", rest)
    elif "select" not in rest:
        rest = re.sub(r"%\w+", "%x", rest, count=1)
    return [*lines[:number], f"{result} = {rest}", *lines[number + 1 :]]


def _wrong(count: int, seed: int) -> tuple[int, list[str]]:
    """How many of so many functions are raised, and those that are raised to another one."""
    choose, found, wrong = random.Random(seed), 0, []
    for _ in range(count):
        lines = [line.strip() for line in choose.choice(list(RECOGNIZED.values()))[1].split(";")]
        for _ in range(choose.randrange(3)):
            lines = _changed(lines, choose)
        body = "; ".join(lines)
        try:
            kernel = raised(body)
        except WeftError:
            continue  # such as a result that a change left undefined
        if kernel is None:
            continue
        found += 1
        with np.errstate(all="ignore"):
            expected, z = _computed(lines), POINTS * kernel.attributes["alpha"]
            name = kernel.attributes["activation"]
            got = (
                z
                if name is None
                else _larger(z, np.zeros_like(z))
                if name == "relu"
                else ACTIVATIONS[name].function(z)
            )
        same = np.isclose(got, expected, rtol=1e-6, atol=1e-12, equal_nan=True) | np.isneginf(z) & (
            name == "gelu"
        )
        if not same.all():
            wrong.append(f"{name} of {kernel.attributes['alpha']} x: {body}")
    return found, wrong


def test_random_functions_are_raised_to_themselves() -> None:
    found, wrong = _wrong(250, 0)
    assert wrong == []
    assert found > 80


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_many_random_functions_are_raised_to_themselves(seed: int) -> None:
    assert _wrong(5000, 1 + seed)[1] == []


def test_an_activation_by_samples_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault: constants that are near those of an activation are taken for them."""
    exact = products.name_of
    monkeypatch.setattr(products, "name_of", lambda formula: exact(formula) or "gelu")
    assert _wrong(100, 0)[1]
