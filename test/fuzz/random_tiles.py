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
# Those of FREE also take tiles of few rows.
FREE = [
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
    ("t", "r", "w.argmax({0}, axis=1).to({0}.dtype)", "{0}.argmax(1).astype({0}.dtype)"),
    ("tr", "t", "repeated({0}, {1}, 0)", "{0}"),
    ("tr", "t", "repeated({0}, {1}, w.ctas() + 1)", "repeated({0}, {1})"),
    ("trc", "t", "until({0}, {1}, {2})", "until({0}, {1}, {2})"),
    ("tt", "t", "chosen({0}, {1})", "{0} - {1}"),
    ("tt", "t", "other({0}, {1})", "{0}"),
    ("t", "c", "w.load_row(x[1, 2], like={0})", "loaded(x, 1, 2)[0, : {0}.shape[1]]"),
    ("t", "r", "w.load_column(y[1, 3], like={0})", "loaded(y, 1, 3)[0, : {0}.shape[0]]"),
    ("t", "r", "w.full({0}.rows, 3, {0}.dtype)", "np.full({0}.shape[0], 3)"),
    ("t", "c", "w.full((1, {0}.columns), 2, {0}.dtype)", "np.full({0}.shape[1], 2)"),
    ("t", "t", "w.zeros({0}.shape, {0}.dtype)", "np.zeros({0}.shape)"),
    ("rc", "t", "{0} + {1}", "{0}[:, None] + {1}"),
    ("rr", "r", "w.where({0} < {1}, {1} - {0}, {0})", "np.where({0} < {1}, {1} - {0}, {0})"),
    ("cc", "c", "w.maximum({0}, {1})", "np.maximum({0}, {1})"),
    ("trc", "t", "w.where({0} > {1}, {1}, {2})", "np.where({0} > {1}[:, None], {1}[:, None], {2})"),
    ("tc", "t", "w.where(({0} > {1}) & ({0} < 2), 1, {0})", "np.where(({0} > {1}) & ({0} < 2), 1, {0})"),
    *[
        (kind, kind, f"w.minimum(w.maximum({{0}}, 0), 9).to(w.{other}).to({{0}}.dtype)", "{0}.clip(0, 9)")
        for kind in "trc"
        for other in ("f16", "bf16", "i8", "u8", "f64", "i64", "u32")
    ],
]
STEPS = [
    *FREE,
    *[("t", "c", f"w.{each}({{0}}, axis=0)", f"{{0}}.{each}(0)") for each in ("sum", "max", "min")],
    *[(kind, "s", f"w.{each}({{0}})", f"{{0}}.{each}()") for each in ("sum", "max") for kind in "trc"],
    ("t", "c", "w.argmin({0}, axis=0).to({0}.dtype)", "{0}.argmin(0).astype({0}.dtype)"),
    ("t", "t", "w.cumsum({0}, axis=1)", "{0}.cumsum(1, {0}.dtype)"),
    ("t", "t", "w.cumsum({0}, axis=0)", "{0}.cumsum(0, {0}.dtype)"),
    *[(kind, kind, "w.cumsum({0})", "{0}.cumsum(0, {0}.dtype)") for kind in "rc"],
    ("t", "t", "through({0}, buffer)", "{0}"),
    ("tt", "t", "{0} + w.load(x[3, 1], {1}.shape, like={1})", "{0} + tile(x, 3, 1)"),
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
    ("t", "t", "{0} + w.load(x[1, 2], {0}.shape).T", "{0} + tile(x, 1, 2).T"),
    ("r", "t", "{0} - w.load_row(x[1, 3], like={0}.T)", "{0}[:, None] - loaded(x, 1, 3)[0, : len({0})]"),
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
def repeated(t, r, count):
    for _ in w.range(count):
        t, r = t + r, w.max(t, axis=1)
    return t


@w.inline
def until(t, r, c):
    number = w.i32(0)
    while number < w.ctas() * 2:
        t, r, c, number = t - r, r + 1, w.maximum(c, 2), number + 1
    return t + c


@w.inline
def chosen(t, u):
    if w.cta() == 0:
        t = t - u
    return t


@w.inline
def other(t, u):
    z = w.zeros(t.shape, t.dtype)
    if w.cta() > 0:
        z = u
    else:
        z = z + t
    return z
"""


STORES = {
    "t": "w.store({0}, tiles[{1}, {2}, {3}])",
    "r": "w.store_column({0}, rows[{1}, {2}])",
    "c": "w.store_row({0}, columns[{1}, {3}])",
    "s": "numbers[{1}] = {0}",
}


def make(number: int) -> str:
    """The input of this number."""
    chance = random.Random(number)
    rows = chance.choice([4, 8, 12, 16, 32, 48, 64, 64, 64, 128])
    dtype = chance.choice(["f32", "f64", *(f"{sign}{bits}" for sign in "iu" for bits in WIDTHS)])
    # Rows of a buffer have whole 32 bytes.
    columns = chance.choice([8, 16, 24, 64] if dtype[1:] in ("32", "64") else [32, 64])
    if free := rows % 64 != 0:
        columns = chance.choice([n for n in range(8, 513, 8) if rows * n % 128 == 0 and rows * n < 8192])
    names: dict[str, list[str]] = {"t": ["t0", "t1"], "r": [], "c": [], "s": []}
    lines = [f"buffer = w.shared({rows}, {columns}, w.{dtype})"] * (not free) + ["with w.role():"]
    for name, array in (("t0", "x"), ("t1", "y")):
        at = f"{array}[{chance.choice([0, 0, 1])}, {chance.choice([0, 0, 1, 8])}]"
        outside = chance.choice([0, 0, 5])
        in_numpy = f"tile({at.replace('[', ', ').rstrip(']')}, {outside})"
        lines.append(f"    {name} = w.load({at}, ({rows}, {columns}), outside={outside})  # {in_numpy}")
    among = FREE if free else STEPS + (SQUARE if rows == columns else [])
    among = among + ([] if dtype[0] == "f" else INTEGERS)
    for each in range(2, chance.randint(10, 18)):
        fitting = [step for step in among if all(names[kind] for kind in step[0])]
        kinds, result, code, in_numpy = chance.choice(fitting)
        operands = [chance.choice(names[kind]) for kind in kinds]
        names[result].append(f"{result}{each}")
        lines.append(f"    {result}{each} = {code.format(*operands)}  # {in_numpy.format(*operands)}")
    for at in range(KEPT):
        for kind, store in STORES.items():
            if at < len(names[kind][-KEPT:]):
                first = chance.choice([0, 1]), chance.choice([0, 0, 3])
                lines.append(f"    {store.format(names[kind][-KEPT:][at], at, *first)}")
    inside = rows - chance.randrange(3), columns - chance.randrange(3)
    head = f"{everywhere.chip_line(chance)}\n# {inside[0]} {inside[1]}\n{HEAD.format(dtype)}"
    return head + "".join(f"    {line}\n" for line in lines) + FUNCTIONS


def attempt(text: str) -> str:
    """Runs it, and compares what it stores."""
    from weft.errors import WeftError

    found = re.search(r"w.In\[\"m n\", w.((\w)(\d+))\].*, \((\d+), (\d+)\), outside", text, re.DOTALL)
    assert found is not None
    whole, dtype = (int(found[4]), int(found[5])), np.dtype(f"{found[2]}{int(found[3]) // 8}")
    inside = tuple(map(int, text.splitlines()[1][2:].split()))
    rng = np.random.default_rng(0)
    given = rng.integers(-3, 4, (2, *inside)).astype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        given[:, ::2] = rng.integers(limits.min, limits.max, given[:, ::2].shape, dtype, endpoint=True)
    exact = _in_numpy(text, whole, *given)
    if found[1] == "f32" and max(np.abs(each).max() for each in exact.values()) > MOST:
        return "not exact in f32"  # what is rounded depends on the order

    def run(module: Any, launch: Any) -> list[str]:
        shapes = dict(zip("trcs", (inside, inside[:1], inside[1:], ()), strict=True))
        outs = {kind: np.zeros((KEPT, *shape), dtype) for kind, shape in shapes.items()}
        launch(module.kernel, *given, *outs.values())
        stored = re.findall(r"(?:w.store\w*\((\w+), )?\b(?:tiles|rows|columns|numbers)\[(\d)(.*)", text)
        differ = []
        for name, at, rest in stored:
            name = name or rest.rpartition(" = ")[2]
            want = np.zeros(shapes[name[0]], dtype)
            part = want[(*(slice(int(first), None) for first in re.findall(r", (\d+)", rest)), ...)]
            part[...] = exact[name][tuple(map(slice, part.shape))]
            if not np.array_equal(outs[name[0]][int(at)], want):
                differ.append(name)
        return differ

    try:
        return everywhere.check(text, run)
    except WeftError as error:
        if "shared memory must be at most" not in str(error):
            raise
        return "too large"


def _in_numpy(text: str, whole: tuple[int, ...], x: Any, y: Any) -> dict[str, Any]:
    """All values by their names, of tiles as the kernel loads them."""
    down, across = np.ogrid[: whole[0], : whole[1]]

    def loaded(array: Any, row: int, column: int, outside: int = 0) -> Any:
        size = max(whole) + 8
        around = [(0, size + 8 - each) for each in array.shape]
        return np.pad(array, around, constant_values=outside)[row : row + size, column : column + size]

    def tile(*given: Any) -> Any:
        return loaded(*given)[: whole[0], : whole[1]]

    known = {"x": x, "y": y, "np": np, "repeated": _repeated, "until": _until, "loaded": loaded, "tile": tile}
    known |= {"DOWN": down, "ACROSS": across}
    values: dict[str, Any] = {}
    for name, code in re.findall(r"^    +(\w+) = .*  # (.*)$", text, re.MULTILINE):
        with np.errstate(over="ignore"):
            values[name] = np.asarray(eval(code, known | values)).astype(x.dtype)
    return values


def _repeated(t: Any, r: Any) -> Any:
    for _ in range(2):
        t, r = t + r[:, None], t.max(1)
    return t


def _until(t: Any, r: Any, c: Any) -> Any:
    for _ in range(2):
        t, r, c = t - r[:, None], r + 1, np.maximum(c, 2)
    return t + c
