"""Random kernels of `weft.language` that compute tiles and vectors, and the same in NumPy.

A comment at the end of a line has NumPy's code. The comments of an input before the kernel are the chip, and
the extents of the arrays.
"""

import random
import re
from typing import Any

import everywhere
import numpy as np
from everywhere import begin

__all__ = ["attempt", "begin", "make"]

HEAD = """import weft.language as w


@w.kernel
def kernel(
    x: w.In["m n", w.{0}],
    y: w.In["m n", w.{0}],
    tiles: w.Out["last m n", w.{0}],
    rows: w.Out["last m", w.{0}],
    columns: w.Out["last n", w.{0}],
    numbers: w.Out["last", w.{0}],
):
"""
MOST = 2**23
"""The largest number with which f32 computes exactly here."""
WIDTHS = (8, 16, 32, 64)
KEPT = 3
"""How many values of each kind a kernel stores: the last ones."""
# Kinds of operands, the kind of the result (tile, row, column or number), the kernel's code and NumPy's.
STEPS = [
    ("tt", "t", "{0} + {1}", "{0} + {1}"),
    ("tt", "t", "{0} - {1}", "{0} - {1}"),
    ("t", "t", "-{0}", "-{0}"),
    ("tt", "t", "w.maximum({0}, {1})", "np.maximum({0}, {1})"),
    ("ttt", "t", "w.minimum(w.minimum({0}, {1}), -{2})", "np.minimum(np.minimum({0}, {1}), -{2})"),
    ("ttt", "t", "w.where({0} > {1}, {0}, {2})", "np.where({0} > {1}, {0}, {2})"),
    ("t", "t", "w.where(w.column({0}) <= w.row({0}) + 5, {0}, 0)", "np.where(ACROSS <= DOWN + 5, {0}, 0)"),
    ("tr", "t", "{0} - {1}", "{0} - {1}[:, None]"),
    ("tc", "t", "{0} + {1}", "{0} + {1}[None, :]"),
    ("ts", "t", "{0} - {1}", "{0} - {1}"),
    *[("t", "r", f"w.{each}({{0}}, axis=1)", f"{{0}}.{each}(1)") for each in ("sum", "max", "min")],
    *[("t", "c", f"w.{each}({{0}}, axis=0)", f"{{0}}.{each}(0)") for each in ("sum", "max", "min")],
    *[(kind, "s", f"w.{each}({{0}})", f"{{0}}.{each}()") for each in ("sum", "max") for kind in "trc"],
    ("t", "r", "w.argmax({0}, axis=1).to({0}.dtype)", "{0}.argmax(1).astype({0}.dtype)"),
    ("t", "c", "w.argmin({0}, axis=0).to({0}.dtype)", "{0}.argmin(0).astype({0}.dtype)"),
    ("t", "t", "w.cumsum({0}, axis=1)", "{0}.cumsum(1, {0}.dtype)"),
    ("t", "t", "w.cumsum({0}, axis=0)", "{0}.cumsum(0, {0}.dtype)"),
    *[(kind, kind, "w.cumsum({0})", "{0}.cumsum(0, {0}.dtype)") for kind in "rc"],
    ("t", "t", "through({0}, buffer)", "{0}"),
    ("t", "t", "repeated({0})", "repeated({0})"),
    ("tt", "t", "chosen({0}, {1})", "{0} - {1}"),
]
INTEGERS = [
    *[(f"t{kind}", "t", f"{{0}} {sign} {{1}}", f"{{0}} {sign} {{1}}") for sign in "*&|^" for kind in "ts"],
    *[
        ("tt", "t", f"{{0}} {sign} (({{1}} & 7) + 1)", f"{{0}} {sign} (({{1}} & 7) + 1)")
        for sign in ("//", "%")
    ],
    *[("tt", "t", f"{{0}} {sign} ({{1}} & 15)", f"{{0}} {sign} ({{1}} & 15)") for sign in ("<<", ">>")],
    *[("t", "t", code, code) for code in ("~{0}", "{0} << 3", "{0} >> 2")],
    ("t", "t", "w.where({0} >= 100, ~{0}, -{0})", "np.where({0} >= 100, ~{0}, -{0})"),
]
# Of tiles with as many rows as columns.
SQUARE = [
    ("r", "c", "{0}.T", "{0}"),
    ("c", "r", "{0}.T", "{0}"),
    ("t", "t", "through({0}, buffer, buffer.T)", "{0}.T"),
]
FUNCTIONS = """

def through(t, buffer, read=None):
    w.barrier()
    w.store(t, buffer)
    w.barrier()
    return w.load(buffer if read is None else read)


@w.inline
def repeated(t):
    for _ in w.range(w.ctas() + 1):
        t = t + w.max(t, axis=1)
    return t


@w.inline
def chosen(t, u):
    if w.cta() == 0:
        t = t - u
    return t
"""


STORES = {
    "t": "w.store({0}, tiles[{1}, 0, 0])",
    "r": "w.store_column({0}, rows[{1}, 0])",
    "c": "w.store_row({0}, columns[{1}, 0])",
    "s": "numbers[{1}] = {0}",
}


def make(number: int) -> str:
    """The input of this number."""
    chance = random.Random(number)
    rows = chance.choice([64, 64, 64, 128])
    dtype = chance.choice(["f32", "f64", *(f"{sign}{bits}" for sign in "iu" for bits in WIDTHS)])
    # Rows of a buffer have whole 32 bytes.
    columns = chance.choice([8, 16, 24, 64] if dtype[1:] in ("32", "64") else [32, 64])
    names: dict[str, list[str]] = {"t": ["t0", "t1"], "r": [], "c": [], "s": []}
    lines = [f"buffer = w.shared({rows}, {columns}, w.{dtype})", "with w.role():"]
    for name, array in (("t0", "x"), ("t1", "y")):
        lines.append(f"    {name} = w.load({array}[0, 0], ({rows}, {columns}))  # {array}")
    among = STEPS + (SQUARE if rows == columns else []) + ([] if dtype[0] == "f" else INTEGERS)
    for each in range(2, chance.randint(10, 18)):
        fitting = [step for step in among if all(names[kind] for kind in step[0])]
        kinds, result, code, in_numpy = chance.choice(fitting)
        operands = [chance.choice(names[kind]) for kind in kinds]
        names[result].append(f"{result}{each}")
        lines.append(f"    {result}{each} = {code.format(*operands)}  # {in_numpy.format(*operands)}")
    for at in range(KEPT):
        for kind, store in STORES.items():
            if at < len(names[kind][-KEPT:]):
                lines.append(f"    {store.format(names[kind][-KEPT:][at], at)}")
    inside = rows - chance.randrange(4), columns - chance.randrange(3)
    head = f"{everywhere.chip_line(chance)}\n# {inside[0]} {inside[1]}\n{HEAD.format(dtype)}"
    return head + "".join(f"    {line}\n" for line in lines) + FUNCTIONS


def attempt(text: str) -> str:
    """Runs it, and compares what it stores."""
    from weft.errors import WeftError

    found = re.search(r"w.shared\((\d+), (\d+), w.(\w+)\)", text)
    assert found is not None
    whole, dtype = (int(found[1]), int(found[2])), np.dtype(f"{found[3][0]}{int(found[3][1:]) // 8}")
    inside = tuple(map(int, text.splitlines()[1][2:].split()))
    rng = np.random.default_rng(0)
    given = rng.integers(-3, 4, (2, *inside)).astype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        given[:, ::2] = rng.integers(limits.min, limits.max, given[:, ::2].shape, dtype, endpoint=True)
    around = [(0, full - part) for full, part in zip(whole, inside, strict=True)]
    exact = _in_numpy(text, *(np.pad(each, around) for each in given))
    if found[3] == "f32" and max(np.abs(each).max() for each in exact.values()) > MOST:
        return "not exact in f32"  # what is rounded depends on the order

    def run(module: Any, launch: Any) -> list[str]:
        shapes = dict(zip("trcs", (inside, inside[:1], inside[1:], ()), strict=True))
        outs = {kind: np.zeros((KEPT, *shape), dtype) for kind, shape in shapes.items()}
        launch(module.kernel, *given, *outs.values())
        stored = re.findall(r"(?:w.store\w*\((\w+), )?\b(?:tiles|rows|columns|numbers)\[(\d)(.*)", text)
        named = [(name or rest.rpartition(" = ")[2], int(at)) for name, at, rest in stored]
        return [
            name
            for name, at in named
            if not np.array_equal(outs[name[0]][at], exact[name][tuple(map(slice, shapes[name[0]]))])
        ]

    try:
        return everywhere.check(text, run)
    except WeftError as error:
        if "shared memory must be at most" not in str(error):
            raise
        return "too large"


def _in_numpy(text: str, x: Any, y: Any) -> dict[str, Any]:
    """All values by their names, of tiles as the kernel loads them."""
    down, across = np.ogrid[: x.shape[0], : x.shape[1]]
    known = {"x": x, "y": y, "np": np, "repeated": _repeated, "DOWN": down, "ACROSS": across}
    values: dict[str, Any] = {}
    for name, code in re.findall(r"^    +(\w+) = .*  # (.*)$", text, re.MULTILINE):
        with np.errstate(over="ignore"):
            values[name] = np.asarray(eval(code, known | values)).astype(x.dtype)
    return values


def _repeated(t: Any) -> Any:
    for _ in range(2):
        t = t + t.max(1, keepdims=True)
    return t
