"""Grouped top-k in `weft.language`, as routers of mixtures of experts choose k of n experts."""

import argparse

import numpy as np

import weft.language as w


@w.inline
def without_largest(t):
    """The largest element of each row, its column, and the tile with -inf in its place."""
    index = w.argmax(t, axis=1)
    return w.max(t, axis=1), index, w.where(w.column(t) == index, -w.inf, t)


@w.kernel(grid=lambda x: w.ceil_div(x.rows, 64))
def route(
    x: w.In[w.Array[w.f32], "m n"],
    values: w.Out[w.Array[w.f32], "m k"],
    indices: w.Out[w.Array[w.i32], "m k"],
    *,
    n=256,
    k=8,
    groups=8,
    kept=4,
):
    """The k largest scores of each row and their columns, in descending order, from the `kept` groups of
    columns whose two largest scores have the largest sums. Of equal scores, the first one is chosen.
    """
    row = w.cta() * 64
    with w.role():
        t = w.load(x[row, 0], (64, n), outside=-w.inf)
        group, sums = w.column(t) // (n // groups), w.full((64, groups), -w.inf)
        for number in range(groups):
            largest, _, rest = without_largest(w.where(group == number, t, -w.inf))
            sums = w.where(w.column(sums) == number, largest + w.max(rest, axis=1), sums)
        chosen = w.full((64, n), -w.inf)
        for _ in range(kept):
            _, number, sums = without_largest(sums)
            chosen = w.where(group == number, t, chosen)
        best, columns = w.zeros((64, k)), w.zeros((64, k), w.i32)
        for i in range(k):
            value, index, chosen = without_largest(chosen)
            best = w.where(w.column(best) == i, value, best)
            columns = w.where(w.column(columns) == i, index, columns)
        w.store(best, values[row, 0])
        w.store(columns, indices[row, 0])


def expected(x, k=8, groups=8, kept=4):
    """The columns that a router chooses, in NumPy."""
    m, n = x.shape
    sums = np.sort(x.reshape(m, groups, n // groups), axis=2)[:, :, -2:].sum(2)
    best = np.argsort(-sums, axis=1, kind="stable")[:, :kept]
    is_kept = (best[:, :, None] == np.arange(n) // (n // groups)).any(1)
    return np.argsort(-np.where(is_kept, x, -np.inf), axis=1, kind="stable")[:, :k]


def main():
    """Routes 100 rows, on the GPU or in the emulator, and compares the choice with NumPy's."""
    x = np.random.default_rng(0).standard_normal((100, 256)).astype(np.float32)
    values, indices = np.zeros((100, 8), np.float32), np.zeros((100, 8), np.int32)
    route(x, values, indices)
    right = np.array_equal(indices, expected(x)) and np.array_equal(values, np.take_along_axis(x, indices, 1))
    print("equal to NumPy's" if right else "different from NumPy's")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
