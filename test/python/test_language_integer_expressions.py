"""Random expressions and statements of integers of several types compute what NumPy does."""

import random

import numpy as np
import pytest
from language_integers import CHIPS, NUMPY, TYPES, edges, emulate, upper_half

import weft.language as w

THREADS = 64
NAMES = {str(dtype)[2:]: dtype for dtype in TYPES}
_OPERATORS = [f"{{0}} {sign} {{1}}" for sign in "+-*&|^"]
_OPERATORS += [f"{{0}} {sign} (({{1}} & 7) + 1)" for sign in ("//", "%")]  # by no 0, and no -1
_OPERATORS += [f"{{0}} {sign} ({{1}} ^ x[{{2!r}}])" for sign in ("<<", ">>")]  # Python would know constants
_OPERATORS += [f"{name}({{0}}, {{1}})" for name in ("low", "high", "mulhi")]
_OPERATORS += ["-{0}", "~{0}", "abs({0})", "where({0} < {1}, {0}, {1})", "where({0} >= {1}, {1}, {0} ^ {1})"]


class Expressions:
    """Random expressions of numbers `x["u8"]` of each type, and of `v["u8"]`, which statements change."""

    def __init__(self, seed):
        self._random = random.Random(seed)

    def of(self, dtype, depth=0):
        if depth > 3 or self._random.random() < 0.15:
            if self._random.random() < 0.2:
                limits = np.iinfo(NUMPY[NAMES[dtype]])
                return f"number({self._random.choice([0, 1, 3, limits.max, limits.min])}, {dtype})"
            return f"{self._random.choice('xv')}[{dtype!r}]"
        if self._random.random() < 0.3:
            other = self._random.choice([*NAMES])
            return f"to({self.of(other, depth + 1)}, {dtype})"
        form = self._random.choice(_OPERATORS)
        return f"({form.format(self.of(dtype, depth + 1), self.of(dtype, depth + 1), dtype)})"

    def statements(self, count):
        """Names of types, and the expressions that change the number of this type, one after the other."""
        return [(dtype, self.of(dtype)) for dtype in self._random.choices([*NAMES], k=count)]


def _of_language():
    return {
        **NAMES,
        "to": lambda value, dtype: value.to(dtype),
        "number": lambda value, dtype: dtype(value),
        "low": w.minimum,
        "high": w.maximum,
        "mulhi": w.mulhi,
        "where": w.where,
    }


def _of_numpy():
    return {
        **{name: NUMPY[dtype] for name, dtype in NAMES.items()},
        "to": lambda value, dtype: np.asarray(value).astype(dtype),
        "number": lambda value, dtype: np.full(THREADS, value, dtype),
        "low": np.minimum,
        "high": np.maximum,
        "mulhi": upper_half,
        "where": np.where,
    }


def differing(seed, launch, arch=None):
    """The types of numbers that differ after random statements, of which half are in a loop."""
    expressions = Expressions(seed)
    first, looped = expressions.statements(4), expressions.statements(4)

    def body(known, values, statements):
        for dtype, text in statements:
            values[dtype] = eval(text, {**known, "x": known["x"], "v": values})

    @w.kernel(threads=THREADS, arch=arch)
    def kernel(
        u8: w.In["n", w.u8],
        u16: w.In["n", w.u16],
        u32: w.In["n", w.u32],
        u64: w.In["n", w.u64],
        i8: w.In["n", w.i8],
        i16: w.In["n", w.i16],
        i32: w.In["n", w.i32],
        i64: w.In["n", w.i64],
        y: w.Out["types n", w.u64],
    ):
        i = w.thread()
        arrays = {"u8": u8, "u16": u16, "u32": u32, "u64": u64, "i8": i8, "i16": i16, "i32": i32, "i64": i64}
        known = {**_of_language(), "x": {name: array[i].loaded() for name, array in arrays.items()}}
        v = {name: w.i32(3).to(dtype) for name, dtype in NAMES.items()}
        body(known, v, first)
        for _ in w.range(w.ctas() + 1):
            body(known, v, looped)
        for number, name in enumerate(NAMES):
            y[number, i] = v[name].to(w.u64)

    x = {name: edges(dtype, THREADS, seed) for name, dtype in NAMES.items()}
    y, known = np.zeros((len(NAMES), THREADS), np.uint64), {**_of_numpy(), "x": x}
    launch(kernel, *x.values(), y)
    v = {name: np.full(THREADS, 3, NUMPY[dtype]) for name, dtype in NAMES.items()}
    with np.errstate(over="ignore"):
        for statements in (first, looped, looped):
            body(known, v, statements)
    return [
        name
        for name, found in zip(NAMES, y, strict=True)
        if not np.array_equal(found, v[name].astype(np.uint64))
    ]


@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(n, marks=pytest.mark.slow) for n in range(8, 200))]
)
def test_random_expressions_compute_what_numpy_does(seed):
    assert not differing(seed, emulate, CHIPS[seed % len(CHIPS)])
