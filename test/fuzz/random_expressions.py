"""Random expressions and statements of integers of several types compute what NumPy does.

A line of an input after the chip is a type and an expression, which changes the number of this type; those
after "loop:" run twice. `x` are numbers of arrays, `v` those that the lines change.
"""

import random
from typing import Any

import everywhere
import numpy as np
from everywhere import begin

__all__ = ["attempt", "begin", "make"]

THREADS = 64
NAMES = ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"]
_OPERATORS = [f"{{0}} {sign} {{1}}" for sign in "+-*&|^"]
_OPERATORS += [f"{{0}} {sign} (({{1}} & 7) + 1)" for sign in ("//", "%")]  # by no 0, and no -1
_OPERATORS += [f"{{0}} {sign} ({{1}} ^ x[{{2!r}}])" for sign in ("<<", ">>")]  # Python would know constants
_OPERATORS += [f"{name}({{0}}, {{1}})" for name in ("low", "high", "mulhi")]
_OPERATORS += ["-{0}", "~{0}", "abs({0})", "where({0} < {1}, {0}, {1})", "where({0} >= {1}, {1}, {0} ^ {1})"]
_KERNEL = """
import weft.language as w

@w.kernel(threads=64)
def kernel({parameters}, y: w.Out["types n", w.u64]):
    compute({{{names}}}, y, w.thread())
"""


def _limits(dtype: str) -> Any:
    return np.iinfo(f"{dtype[0]}{int(dtype[1:]) // 8}")


def _expression(chance: random.Random, dtype: str, depth: int = 0) -> str:
    if depth > 3 or chance.random() < 0.15:
        if chance.random() < 0.2:
            limits = _limits(dtype)
            return f"number({chance.choice([0, 1, 3, limits.max, limits.min])}, {dtype})"
        return f"{chance.choice('xv')}[{dtype!r}]"
    if chance.random() < 0.3:
        return f"to({_expression(chance, chance.choice(NAMES), depth + 1)}, {dtype})"
    operands = [_expression(chance, dtype, depth + 1) for _ in "ab"]
    return f"({chance.choice(_OPERATORS).format(*operands, dtype)})"


def make(number: int) -> str:
    """The input of this number."""
    chance = random.Random(number)
    lines = [f"{dtype} = {_expression(chance, dtype)}" for dtype in chance.choices(NAMES, k=8)]
    return "\n".join([everywhere.chip_line(chance), *lines[:4], "loop:", *lines[4:]])


def attempt(text: str) -> str:
    """Runs it, and compares all numbers."""
    import language_integers

    import weft.language as w

    types = {name: getattr(w, name) for name in NAMES}
    x = {name: language_integers.edges(types[name], THREADS) for name in NAMES}
    first, _, rest = (part.strip() for part in text.partition("\n")[2].partition("loop:"))

    def body(known: dict[str, Any], values: dict[str, Any], statements: str) -> None:
        for line in filter(None, statements.splitlines()):
            dtype, _, expression = line.partition(" = ")
            values[dtype] = eval(expression, known | {"v": values})

    def compute(arrays: dict[str, Any], y: Any, i: Any) -> None:
        known = types | {
            "x": {name: array[i].loaded() for name, array in arrays.items()},
            "to": lambda value, dtype: value.to(dtype),
            "number": lambda value, dtype: dtype(value),
            "low": w.minimum,
            "high": w.maximum,
            "mulhi": w.mulhi,
            "where": w.where,
        }
        v = {name: w.i32(3).to(dtype) for name, dtype in types.items()}
        body(known, v, first)
        for _ in w.range(w.ctas() + 1):
            body(known, v, rest)
        for number, name in enumerate(NAMES):
            y[number, i] = v[name].to(w.u64)

    def run(module: Any, launch: Any) -> list[str]:
        y = np.zeros((len(NAMES), THREADS), np.uint64)
        launch(module.kernel, *x.values(), y)
        return [
            name
            for name, found in zip(NAMES, y, strict=True)
            if not np.array_equal(found, expected[name].astype(np.uint64))
        ]

    expected = _in_numpy(x, first, rest, body)
    parameters = ", ".join(f'{name}: w.In["n", w.{name}]' for name in NAMES)
    kernel = _KERNEL.format(parameters=parameters, names=", ".join(f"'{name}': {name}" for name in NAMES))
    return everywhere.check(f"{text.partition(chr(10))[0]}{kernel}", run, compute=w.inline(compute))


def _in_numpy(x: dict[str, Any], first: str, rest: str, body: Any) -> dict[str, Any]:
    import language_integers

    dtypes = {name: x[name].dtype.type for name in NAMES}
    known = dtypes | {
        "x": x,
        "to": lambda value, dtype: np.asarray(value).astype(dtype),
        "number": lambda value, dtype: np.full(THREADS, value, dtype),
        "low": np.minimum,
        "high": np.maximum,
        "mulhi": language_integers.upper_half,
        "where": np.where,
    }
    v = {name: np.full(THREADS, 3, dtype) for name, dtype in dtypes.items()}
    with np.errstate(over="ignore"):
        for statements in (first, rest, rest):
            body(known, v, statements)
    return v
