"""Random kernels of `weft.language` that compute tiles and vectors, and the same in NumPy."""

import importlib.util
import random

import numpy as np

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


class Program:
    """A random kernel, whose source is in `text`, for tiles of this shape and type."""

    def __init__(self, seed):
        self._random = random.Random(seed)
        self.rows = self._random.choice([64, 64, 64, 128])
        self.dtype = self._random.choice(
            ["f32", "f64", *(f"{sign}{bits}" for sign in "iu" for bits in WIDTHS)]
        )
        # Rows of a buffer have whole 32 bytes.
        self.columns = self._random.choice([8, 16, 24, 64] if self.dtype[1:] in ("32", "64") else [32, 64])
        self.names = {"t": ["t0", "t1"], "r": [], "c": [], "s": []}
        self._steps = []
        for number in range(2, self._random.randint(10, 18)):
            self._add(number)
        self.kept = {kind: names[-KEPT:] for kind, names in self.names.items()}
        self.text = HEAD.format(self.dtype) + "".join(f"    {line}\n" for line in self._lines()) + FUNCTIONS

    def _add(self, number):
        steps = STEPS + (SQUARE if self.rows == self.columns else [])
        steps += [] if self.dtype[0] == "f" else INTEGERS
        fitting = [step for step in steps if all(self.names[kind] for kind in step[0])]
        kinds, result, code, in_numpy = self._random.choice(fitting)
        operands = [self._random.choice(self.names[kind]) for kind in kinds]
        name = f"{result}{number}"
        self._steps.append((name, code.format(*operands), in_numpy.format(*operands)))
        self.names[result].append(name)

    def _lines(self):
        shape = f"{self.rows}, {self.columns}"
        yield f"buffer = w.shared({shape}, w.{self.dtype})"
        yield "with w.role():"
        for name, array in (("t0", "x"), ("t1", "y")):
            yield f"    {name} = w.load({array}[0, 0], ({shape}))"
        yield from (f"    {name} = {code}" for name, code, _ in self._steps)
        for number in range(KEPT):
            for kind, store in STORES.items():
                if number < len(self.kept[kind]):
                    yield f"    {store.format(self.kept[kind][number], number)}"

    def run(self, folder, arch):
        """The findings of the kernel in the emulator, and what differs from NumPy."""
        findings = []

        def emulate(kernel, *arrays):
            findings.extend(kernel.emulate(*arrays, arch=arch).findings)

        return findings, self.differing(folder, emulate)

    def differing(self, folder, launch):
        """The values that differ from NumPy's, after `launch` has called the kernel with arrays."""
        path = folder / "random_kernel.py"
        path.write_text(self.text)
        spec = importlib.util.spec_from_file_location("random_kernel", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        dtype = np.dtype(f"{self.dtype[0]}{int(self.dtype[1:]) // 8}")
        inside = self.rows - self._random.randrange(4), self.columns - self._random.randrange(3)
        rng = np.random.default_rng(0)
        given = rng.integers(-3, 4, (2, *inside)).astype(dtype)
        if self.dtype[0] in "iu":
            limits = np.iinfo(dtype)
            given[:, ::2] = rng.integers(limits.min, limits.max, given[:, ::2].shape, dtype, endpoint=True)
        shapes = (inside, inside[:1], inside[1:], ())
        outs = [np.zeros((KEPT, *shape), dtype) for shape in shapes]
        launch(module.kernel, *given, *outs)
        around = [(0, whole - part) for whole, part in zip((self.rows, self.columns), inside, strict=True)]
        exact = self.in_numpy(*(np.pad(each, around) for each in given))
        if self.dtype == "f32" and max(np.abs(exact[name]).max() for name, _, _ in self._steps) > MOST:
            return []  # what f32 rounds depends on the order
        return [
            name
            for kind, shape, out in zip("trcs", shapes, outs, strict=True)
            for name, found in zip(self.kept[kind], out, strict=False)
            if not np.array_equal(found, exact[name][tuple(map(slice, shape))])
        ]

    def in_numpy(self, x, y):
        """All values by their names, of tiles as the kernel loads them."""
        values = {"t0": x, "t1": y, "np": np, "repeated": _repeated}
        values["DOWN"], values["ACROSS"] = np.ogrid[: self.rows, : self.columns]
        for name, _, code in self._steps:
            with np.errstate(over="ignore"):
                values[name] = np.asarray(eval(code, values)).astype(x.dtype)
        return values


STORES = {
    "t": "w.store({0}, tiles[{1}, 0, 0])",
    "r": "w.store_column({0}, rows[{1}, 0])",
    "c": "w.store_row({0}, columns[{1}, 0])",
    "s": "numbers[{1}] = {0}",
}


def _repeated(t):
    for _ in range(2):
        t = t + t.max(1, keepdims=True)
    return t
