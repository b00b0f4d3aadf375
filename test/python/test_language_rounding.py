"""Conversions of types round once, to nearest even: at boundaries, from every type, on all kinds of chips.

The results are known by construction, as a boundary is in the middle of two neighbors. ml_dtypes itself
rounds f64 and wide integers twice, so it converts only what is exact.
"""

import itertools
from functools import cache

import ml_dtypes
import numpy as np
import pytest

import weft.language as w
from weft.isa.conversion import FP8_ROUNDING

FLOATS = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}
INTEGERS = {"i32": np.int32, "i64": np.int64, "u32": np.uint32, "u64": np.uint64}
FP8 = ("e4m3", "e5m2")
CASES = 1500  # of each type


@cache
def neighbors(target):
    """Numbers of a type from 0 on, the next larger ones, and those of each pair whose last bit is even."""
    dtype = np.dtype(FLOATS[target])
    word = np.dtype(f"u{dtype.itemsize}")
    largest = int(np.array(ml_dtypes.finfo(dtype).max).view(word))
    if largest < CASES:
        low = np.arange(largest, dtype=np.uint64)
    else:
        ends = [0, 1, 2, largest - 2, largest - 1]
        low = np.unique(np.r_[ends, np.random.default_rng(0).integers(largest, size=CASES // 3)]).astype(
            np.uint64
        )
    lower, upper = (each.astype(word).view(dtype).astype(np.float64) for each in (low, low + 1))
    return lower, upper, np.where(low % 2 == 0, lower, upper)


@cache
def boundaries(target):
    """Numbers of f64, and what they are in a narrower type."""
    lower, upper, even = neighbors(target)
    middle, top = (lower + upper) / 2, upper[-1]
    beyond = top if target in FP8 else np.inf
    edge = top + (top - lower[-1]) / 2
    with np.errstate(under="ignore"):
        given = [
            middle,
            np.nextafter(middle, 0),
            np.nextafter(middle, np.inf),
            np.nextafter(lower, np.inf),
            lower,
        ]
    expected = [even, lower, upper, lower, lower]
    x = np.r_[*given, edge, np.nextafter(edge, 0), np.nextafter(edge, np.inf), 1e300, np.inf]
    y = np.r_[*expected, beyond, top, beyond, beyond, beyond]
    return np.r_[x, -x, np.nan], np.r_[y, -y, np.nan]


def integers(target, dtype):
    """Integers next to boundaries, and what they are in a type of floats."""
    found = []
    for lower, upper, even in zip(*neighbors(target), strict=True):
        if upper - lower >= 4 and upper < 2.0**64:
            middle = int(lower) + (int(upper) - int(lower)) // 2
            found += [(middle - 1, lower), (middle, even), (middle + 1, upper), (int(lower) + 1, lower)]
    found += [(-x, -y) for x, y in found]
    limits = np.iinfo(dtype)
    found = [(x, y) for x, y in found if limits.min <= x <= limits.max] or [(1, 1)]
    return np.array([x for x, _ in found], dtype), np.array([y for _, y in found], np.float64)


@w.kernel(threads=128, grid=lambda y: w.ceil_div(y.columns, 128))
def converted(
    f64: w.In["n0"],
    f32: w.In["n1"],
    f16: w.In["n2"],
    bf16: w.In["n3"],
    e5m2: w.In["n4"],
    i32: w.In["n5"],
    i64: w.In["n6"],
    u32: w.In["n7"],
    u64: w.In["n8"],
    y: w.Out["types n"],
):
    i = w.cta() * 128 + w.thread()
    for number, x in enumerate((f64, f32, f16, bf16, e5m2, i32, i64, u32, u64)):
        if i < x.rows:
            y[number, i] = x[i].to(y.dtype)


SOURCES = ("f64", "f32", "f16", "bf16", "e5m2", "i32", "i64", "u32", "u64")


def cases(target):
    """For each type, its numbers, and what they are in the type `target`."""
    x, y = boundaries(target)
    for source in SOURCES:
        if source in INTEGERS:
            yield integers(target, INTEGERS[source])
            continue
        with np.errstate(over="ignore", under="ignore"):
            given = x.astype(FLOATS[source])
        exact = (given.astype(np.float64) == x) | np.isnan(x)
        yield given[exact], y[exact]


def check(found, expected, what):
    found = found.astype(np.float64)
    same = (found == expected) & (np.signbit(found) == np.signbit(expected))
    wrong = np.flatnonzero(~(same | (np.isnan(found) & np.isnan(expected))))
    assert not len(wrong), (what, len(wrong), found[wrong[:3]], expected[wrong[:3]])


CHIPS = "sm_70", "sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_120a"


@pytest.mark.each_value
@pytest.mark.parametrize(
    "target, arch",
    [
        *itertools.product(("f32", "f16", "bf16"), CHIPS),
        *itertools.product(FP8, [each for each in CHIPS if each in FP8_ROUNDING]),
    ],
)
def test_conversions_of_numbers_round_once(target, arch):
    def run(*arrays):
        assert not converted.emulate(*arrays, arch=arch).findings

    check_conversions(run, target)


def check_conversions(run, target):
    """Checks what `run` converts to a type, from all others."""
    given, expected = zip(*cases(target), strict=True)
    y = np.zeros((len(SOURCES), max(map(len, given))), FLOATS[target])
    run(*given, y)
    for source, found, right in zip(SOURCES, y, expected, strict=True):
        if source != target:
            check(found[: len(right)], right, source)


@w.kernel(grid=lambda x, y: w.ceil_div(x.rows, 512))
def converted_vectors(x: w.In["n"], y: w.Out["n"]):
    with w.role():
        w.store(w.load(x[w.cta() * 512], 512).to(y.dtype), y[w.cta() * 512])


@pytest.mark.slow
@pytest.mark.each_value(1)
@pytest.mark.parametrize("source, target, arch", [("f64", "e4m3", "sm_90a"), ("i64", "bf16", "sm_80")])
def test_conversions_of_vectors_round_once(source, target, arch):
    given, expected = dict(zip(SOURCES, cases(target), strict=True))[source]
    y = np.zeros(len(given), FLOATS[target])
    assert not converted_vectors.emulate(given, y, arch=arch).findings
    check(y, expected, source)
