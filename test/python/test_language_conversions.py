"""Numbers and tiles in other element types: each type to each other, rounded once, on all kinds of chips."""

import itertools
from functools import cache

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.language as w
from weft.isa.conversion import FP8_ROUNDING

NUMPY = {
    w.f64: np.float64,
    w.f32: np.float32,
    w.f16: np.float16,
    w.bf16: ml_dtypes.bfloat16,
    w.e4m3: ml_dtypes.float8_e4m3fn,
    w.e5m2: ml_dtypes.float8_e5m2,
    w.i64: np.int64,
    w.i32: np.int32,
    w.i8: np.int8,
}
FP8 = (w.e4m3, w.e5m2)


def kernels(old, new):
    """Kernels that convert a tile, and single numbers."""

    @w.kernel(grid=1)
    def tile(x: w.In["m n", old], y: w.Out["m n", new]):
        with w.role():
            w.store(w.load(x[0, 0], (64, 16)).to(new), y[0, 0])

    @w.kernel(grid=1, threads=64)
    def numbers(x: w.In["m n", old], y: w.Out["m n", new]):
        for column in range(16):
            y[w.thread(), column] = x[w.thread(), column].to(new)

    return tile, numbers


def to_all(old):
    """A kernel that converts a tile to some of the types, and one number of each row to them."""

    @w.kernel(grid=1)
    def kernel(
        x: w.In["m n", old],
        f64: w.Out["m n", w.f64],
        f32: w.Out["m n", w.f32],
        f16: w.Out["m n", w.f16],
        bf16: w.Out["m n", w.bf16],
        e4m3: w.Out["m n", w.e4m3],
        e5m2: w.Out["m n", w.e5m2],
        i64: w.Out["m n", w.i64],
        i32: w.Out["m n", w.i32],
        i8: w.Out["m n", w.i8],
        *,
        left_out=(),
    ):
        with w.role():
            t, i = w.load(x[0, 0], (64, 16)), w.thread()
            for y in (f64, f32, f16, bf16, e4m3, e5m2, i64, i32, i8):
                if y.dtype not in left_out:
                    w.store(t.to(y.dtype), y[0, 0])
                    if i < x.rows:
                        y[i, 16] = x[i, 16].to(y.dtype)

    return kernel


@pytest.mark.each_value(2)
@pytest.mark.parametrize("old", NUMPY, ids=lambda each: each.shown)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_each_type_becomes_each_other(old, arch):
    x = (np.arange(64 * 17).reshape(64, 17) % 13 - 6).astype(NUMPY[old])
    made = [np.zeros_like(x, kind) for kind in NUMPY.values()]
    left_out = tuple(each for each in FP8 if each != old) if arch == "sm_80" else ()
    assert not to_all(old).emulate(x, *made, arch=arch, left_out=left_out).findings
    for (new, kind), y in zip(NUMPY.items(), made, strict=True):
        if new not in left_out:
            assert np.array_equal(y, x.astype(np.float32).astype(kind)), new


@pytest.mark.parametrize("new", FP8, ids=lambda each: each.shown)
def test_older_chips_dont_round_to_fp8(new):
    for kernel in kernels(w.f32, new):
        with pytest.raises(weft.WeftError, match=rf"conversion to {new} needs sm_89 or later, got sm_80"):
            kernel.compile(arch="sm_80")


@pytest.mark.each_value(1)
@pytest.mark.parametrize("old", FP8, ids=lambda each: each.shown)
@pytest.mark.parametrize("new", [w.f32, w.f16, w.bf16], ids=lambda each: each.shown)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_all_values_of_fp8(old, new, arch):
    bits = np.resize(np.arange(256, dtype=np.uint8), (64, 16))
    x = bits.view(NUMPY[old])
    for kernel in kernels(old, new):
        y = np.zeros(x.shape, NUMPY[new])
        assert not kernel.emulate(x, y, arch=arch).findings
        # All values of fp8 are values of the other types; NaN stays NaN.
        np.testing.assert_array_equal(y.astype(np.float32), x.astype(np.float32))


def test_halves_are_rounded_once():
    values = np.array([1 + 2**-8, 1 + 3 * 2**-8, 65504, 2**-24, -(1 + 2**-9)], np.float16)
    x = np.resize(values, (64, 16))
    for kernel in kernels(w.f16, w.bf16):
        y = np.zeros(x.shape, ml_dtypes.bfloat16)
        kernel.emulate(x, y)
        assert np.array_equal(y, x.astype(ml_dtypes.bfloat16))


def test_values_out_of_range_of_fp8_become_its_largest():
    x = np.resize(np.array([1000, -1000, 448], np.float16), (64, 16))
    for kernel in kernels(w.f16, w.e4m3):
        y = np.zeros(x.shape, ml_dtypes.float8_e4m3fn)
        kernel.emulate(x, y)
        assert np.array_equal(y.astype(np.float32), np.clip(x, -448, 448))


@pytest.mark.each_value(2)
@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    "old, new",
    [
        (w.f32, w.i32),
        (w.i32, w.f32),
        (w.f64, w.i64),
        (w.i64, w.f64),
        (w.bf16, w.f16),
        (w.e4m3, w.i8),
        (w.i8, w.e5m2),
        (w.e4m3, w.e5m2),
    ],
)
def test_bits_become_those_of_another_type(old, new, chip):
    @w.kernel(grid=1)
    def kernel(x: w.In["m n", old], y: w.Out["m n", new], z: w.Out["m n", new]):
        with w.role():
            w.store(w.load(x[0, 0], (64, 16)).bitcast(new), y[0, 0])
            if w.thread() < 64:
                for column in range(16):
                    z[w.thread(), column] = x[w.thread(), column].bitcast(new)

    width = old.bytes
    x = np.random.default_rng(0).integers(0, 256, (64, 16 * width), np.uint8).view(NUMPY[old])
    y, z = np.zeros((2, 64, 16), NUMPY[new])
    assert not kernel.emulate(x, y, z, arch=chip).findings
    assert y.tobytes() == z.tobytes() == x.tobytes()


def test_bits_keep_their_width():
    @w.kernel(threads=32)
    def number(x: w.In["n", w.f32], y: w.Out["n", w.i64]):
        y[0] = x[0].bitcast(w.i64)

    @w.kernel(threads=32)
    def condition(x: w.In["n", w.f32], y: w.Out["n", w.i8]):
        y[0] = (x[0] > 0.0).bitcast(w.i8)

    with pytest.raises(weft.WeftError, match=r"for numbers, got a condition: convert it with \.to\(w\.i8\)"):
        condition.compile()
    with pytest.raises(weft.WeftError, match=r"bitcast needs a type of 32 bits, as w\.f32 has, got w\.i64"):
        number.compile()


def test_bitcast_of_an_element_needs_a_type():
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.f32], y: w.Out["n", w.i32]):
        y[0] = x[0].bitcast()

    with pytest.raises(weft.WeftError, match=r"x\.bitcast missing 1 .* 'dtype': write x\.bitcast\(dtype\)"):
        kernel.compile()


FLOATS = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}
INTEGERS = {"i32": np.int32, "i64": np.int64, "u32": np.uint32, "u64": np.uint64}
FP8_OF_ROUNDING = ("e4m3", "e5m2")
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
    beyond = top if target in FP8_OF_ROUNDING else np.inf
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


@pytest.mark.each_value(5)
@pytest.mark.parametrize(
    "target, arch",
    [
        *itertools.product(("f32", "f16", "bf16"), CHIPS),
        *itertools.product(FP8_OF_ROUNDING, [each for each in CHIPS if each in FP8_ROUNDING]),
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
