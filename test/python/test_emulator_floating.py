"""Floating-point instructions against exact rational arithmetic."""

import math
from fractions import Fraction
from functools import partial

import ml_dtypes
import numpy as np
import pytest
from emulator_ptx import run as run_for

from weft import emulator

run = partial(run_for, target="sm_90")  # which has arithmetic of bf16

BF16 = ml_dtypes.bfloat16
U = {2: np.uint16, 4: np.uint32, 8: np.uint64}

#           significand bits, least exponent of a normal number, largest exponent
FORMATS = {"f16": (11, -14, 15), "bf16": (8, -126, 127), "f32": (24, -126, 127), "f64": (53, -1022, 1023)}
NUMPY = {"f16": np.float16, "bf16": BF16, "f32": np.float32, "f64": np.float64}
NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF}
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -2.5, 3.0, 1e-3, 65504.0, -7.25, math.inf, -math.inf, math.nan]


def rounded(exact, name, mode="rn"):
    """A fraction in a format, by the definition of rounding; overflow as IEEE 754 has it."""
    digits, least, most = FORMATS[name]
    if exact == 0:
        return 0.0
    size = abs(exact)
    exponent = max(least, _floor_log2(size))
    unit = Fraction(2) ** (exponent - digits + 1)
    steps = size / unit
    whole = steps.numerator // steps.denominator
    rest = steps - whole
    up = {
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1),
        "rna": rest >= Fraction(1, 2),
        "rz": False,
        "rm": exact < 0 and rest > 0,
        "rp": exact > 0 and rest > 0,
    }[mode]
    value = (whole + up) * unit
    sign = -1.0 if exact < 0 else 1.0
    if value >= Fraction(2) ** (most + 1):
        grows = mode in ("rn", "rna") or (mode == "rm" and exact < 0) or (mode == "rp" and exact > 0)
        largest = (Fraction(2) ** digits - 1) * Fraction(2) ** (most - digits + 1)
        return sign * (math.inf if grows else float(largest))
    return sign * float(value)


def _floor_log2(size):
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= size else exponent - 1


def values(name, seed, count=128):
    """Edge values, subnormals, halfway cases and random bit patterns."""
    kind = NUMPY[name]
    rng = np.random.default_rng(seed)
    width = np.dtype(kind).itemsize
    bits = rng.integers(0, 1 << (8 * width), count, np.uint64).astype(U[width])
    some = bits.view(kind).copy()
    near = rng.standard_normal(count).astype(kind)
    digits, least, _ = FORMATS[name]
    small = np.array(
        [2.0**least, 2.0 ** (least - digits + 1), -(2.0 ** (least - 1)), 2.0 ** (least + 3)]
    ).astype(kind)
    with np.errstate(over="ignore"):
        edges = np.array(EDGES).astype(kind)
    return np.concatenate([edges, small, near[: count // 2], some])[:count]


def same_bits(got, want, name):
    """Whether the results are what is wanted to the bit; every NaN is NVIDIA's."""
    kind = NUMPY[name]
    with np.errstate(over="ignore", invalid="ignore"):
        want = np.array(want, np.float64).astype(kind)
    got = got.view(U[got.dtype.itemsize])
    expected = want.view(got.dtype).copy()
    if name in NAN:
        expected[np.isnan(want.astype(np.float64))] = NAN[name]
    else:
        nan = np.isnan(want)
        assert np.isnan(got.view(kind)[nan]).all()
        expected[nan] = got[nan]
    wrong = np.flatnonzero(got != expected)
    assert not len(wrong), [(int(i), hex(int(got[i])), hex(int(expected[i]))) for i in wrong[:5]]


def exactly(function, *arguments):
    """`function` over fractions where all arguments are finite; None where IEEE's special cases apply."""
    if any(not math.isfinite(x) for x in arguments):
        return None
    return function(*map(Fraction, arguments))


def expected(function, special, arrays, name, mode="rn"):
    out = []
    with np.errstate(all="ignore"):
        for at in zip(*[a.astype(np.float64) for a in arrays], strict=True):
            exact = exactly(function, *(float(x) for x in at))
            if exact is None or exact == 0:
                out.append(float(special(*at)))
            else:
                out.append(rounded(exact, name, mode))
    return out


def bits(array):
    return array.view(U[array.dtype.itemsize])


OPERATIONS = {
    "add": (lambda x, y: x + y),
    "sub": (lambda x, y: x - y),
    "mul": (lambda x, y: x * y),
}


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("opcode", ["add", "sub", "mul"])
def test_sums_and_products_round_to_nearest(name, opcode):
    a, b = values(name, 1), values(name, 2)[::-1].copy()
    got = run(f"{opcode}.rn.{name} %d0, %a0, %a1;", bits(a), bits(b), out=U[a.dtype.itemsize])
    function = OPERATIONS[opcode]
    same_bits(got, expected(function, function, (a, b), name), name)


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_directed_rounding_of_f32(mode):
    a, b = values("f32", 3, 192), values("f32", 4, 192)[::-1].copy()
    for opcode, function in OPERATIONS.items():
        got = run(f"{opcode}.{mode}.f32 %d0, %a0, %a1;", bits(a), bits(b), out=np.uint32)
        want = expected(function, function, (a, b), "f32", mode)
        zero = np.array([w == 0 for w in want])
        keep = ~zero
        same_bits(got[keep], np.array(want)[keep], "f32")
        assert ((got[zero] & 0x7FFFFFFF) == 0).all()


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_fma_rounds_once(name):
    a, b, c = values(name, 5, 256), values(name, 6, 256)[::-1].copy(), values(name, 7, 256)
    # Sums that cancel, or lie just beside the middle between two numbers, show a second rounding.
    with np.errstate(all="ignore"):
        c[1::3] = -(a[1::3] * b[1::3])
    c[2::5] = c.dtype.type(2.0**-20)
    a[2::5] = c.dtype.type(1.0) + np.asarray(2.0 ** (1 - FORMATS[name][0])).astype(c.dtype)
    b[2::5] = c.dtype.type(1.5)
    got = run(f"fma.rn.{name} %d0, %a0, %a1, %a2;", bits(a), bits(b), bits(c), out=U[a.dtype.itemsize])

    def special(x, y, z):
        return float(np.float64(x) * np.float64(y) + np.float64(z))

    same_bits(got, expected(lambda x, y, z: x * y + z, special, (a, b, c), name), name)


def test_fma_of_f32_in_every_mode():
    a, b, c = values("f32", 8), values("f32", 9)[::-1].copy(), values("f32", 10)
    for mode in ("rz", "rm", "rp"):
        got = run(f"fma.{mode}.f32 %d0, %a0, %a1, %a2;", bits(a), bits(b), bits(c), out=np.uint32)
        want = expected(lambda x, y, z: x * y + z, lambda x, y, z: x * y + z, (a, b, c), "f32", mode)
        keep = np.array([w != 0 for w in want])
        same_bits(got[keep], np.array(want)[keep], "f32")


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_quotients_and_roots(name):
    a, b = values(name, 11), values(name, 12)[::-1].copy()
    with np.errstate(all="ignore"):
        want = a / b
        same_bits(run(f"div.rn.{name} %d0, %a0, %a1;", bits(a), bits(b), out=U[a.dtype.itemsize]), want, name)
        same_bits(run(f"rcp.rn.{name} %d0, %a0;", bits(a), out=U[a.dtype.itemsize]), 1 / a, name)
        same_bits(run(f"sqrt.rn.{name} %d0, %a0;", bits(a), out=U[a.dtype.itemsize]), np.sqrt(a), name)


def test_division_of_f32_in_every_mode():
    a, b = values("f32", 13), values("f32", 14)[::-1].copy()
    b = np.where((b == 0) | ~np.isfinite(b), np.float32(3), b)
    for mode in ("rz", "rm", "rp"):
        got = run(f"div.{mode}.f32 %d0, %a0, %a1;", bits(a), bits(b), out=np.uint32)
        want = expected(lambda x, y: x / y, lambda x, y: x / y, (a, b), "f32", mode)
        same_bits(got, want, "f32")


def test_conversions_with_ftz_keep_subnormal_f16():
    """.ftz is about f32 alone, where they are normal."""
    x = np.array([5, 0x8001, 0x03FF, 0x0000], np.uint16)
    pair = run("cvt.ftz.f32.f16 %d0, %a0; cvt.f32.f16 %d1, %a0;", x, out=(np.float32,) * 2)
    np.testing.assert_array_equal(pair[0], x.view(np.float16).astype(np.float32))
    np.testing.assert_array_equal(*pair)


def test_ftz_flushes_operands_and_results():
    tiny = np.array([2.0**-127, -(2.0**-130), 2.0**-126, 1.0], np.float32)
    got = run("add.ftz.f32 %d0, %a0, 0f00000000;", bits(tiny), out=np.float32)
    assert got.tolist() == [0.0, 0.0, 2.0**-126, 1.0]
    got = run("mul.ftz.f32 %d0, %a0, 0f3F000000;", bits(tiny), out=np.float32)
    assert got.tolist() == [0.0, -0.0, 0.0, 0.5]
    assert np.signbit(got[1])
    got = run("add.f32 %d0, %a0, 0f00000000;", bits(tiny), out=np.float32)
    assert (got == tiny).all()


def test_saturation_clamps_to_one():
    a = np.array([-1.0, 0.25, 2.0, math.nan, math.inf, -math.inf, 1.0, 0.0], np.float32)
    got = run("add.sat.f32 %d0, %a0, 0f00000000;", bits(a), out=np.float32)
    assert got.tolist() == [0.0, 0.25, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_min_and_max_prefer_numbers_and_order_zeros(name):
    a, b = values(name, 15), values(name, 16)[::-1].copy()
    a[:4], b[:4] = (
        np.array([0.0, -0.0, math.nan, 1.0]).astype(a.dtype),
        np.array([-0.0, 0.0, 2.0, math.nan]).astype(a.dtype),
    )

    def pick(x, y, least):
        if math.isnan(x):
            return y
        if math.isnan(y):
            return x
        if x == y == 0:
            negative = math.copysign(1, x) < 0, math.copysign(1, y) < 0
            return -0.0 if (any(negative) if least else all(negative)) else 0.0
        return min(x, y) if least else max(x, y)

    wide = list(zip(a.astype(np.float64), b.astype(np.float64), strict=True))
    for opcode in ("min", "max"):
        got = run(f"{opcode}.{name} %d0, %a0, %a1;", bits(a), bits(b), out=U[a.dtype.itemsize])
        same_bits(got, [pick(x, y, opcode == "min") for x, y in wide], name)
    if name != "f64":
        got = run(f"max.NaN.{name} %d0, %a0, %a1;", bits(a), bits(b), out=U[a.dtype.itemsize])
        same_bits(
            got, [math.nan if math.isnan(x) or math.isnan(y) else pick(x, y, False) for x, y in wide], name
        )


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_sign_operations_touch_one_bit(name):
    """NaN becomes that of computed results, as on an H200; in f64 it is itself, made quiet."""
    a = values(name, 17)
    kind = U[a.dtype.itemsize]
    top = kind(1 << (8 * a.dtype.itemsize - 1))
    nan = bits(a) | kind(1 << 51) if name == "f64" else kind(0x7FFFFFFF if name == "f32" else 0x7FFF)
    for operation, changed in (("neg", bits(a) ^ top), ("abs", bits(a) & ~top)):
        got = run(f"{operation}.{name} %d0, %a0;", bits(a), out=kind)
        np.testing.assert_array_equal(got, np.where(np.isnan(a), nan, changed))


COMPARISONS = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y and not math.isnan(x) and not math.isnan(y),
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_comparisons_ordered_and_not(name):
    a, b = values(name, 18), values(name, 18)
    b[::3] = values(name, 19)[::3]
    wide = [(float(x), float(y)) for x, y in zip(a.astype(np.float64), b.astype(np.float64), strict=True)]
    for compare, function in COMPARISONS.items():
        got = run(f"setp.{compare}.{name} %d0, %a0, %a1;", bits(a), bits(b), out=bool)
        assert got.tolist() == [function(x, y) for x, y in wide], compare
        got = run(f"setp.{compare}u.{name} %d0, %a0, %a1;", bits(a), bits(b), out=bool)
        assert got.tolist() == [function(x, y) or math.isnan(x) or math.isnan(y) for x, y in wide], compare
    for compare in ("lo", "ls", "hi", "hs"):
        with pytest.raises(emulator.PtxError, match="isn't defined for floating-point types"):
            run(f"setp.{compare}.{name} %d0, %a0, %a1;", bits(a), bits(b), out=bool)
    unordered = [math.isnan(x) or math.isnan(y) for x, y in wide]
    assert run(f"setp.nan.{name} %d0, %a0, %a1;", bits(a), bits(b), out=bool).tolist() == unordered
    assert run(f"setp.num.{name} %d0, %a0, %a1;", bits(a), bits(b), out=bool).tolist() == [
        not u for u in unordered
    ]


@pytest.mark.parametrize("pair", ["f16x2", "bf16x2"])
def test_packed_arithmetic_is_two_halves(pair):
    name = pair.removesuffix("x2")
    a, b, c = values(name, 20, 256), values(name, 21, 256)[::-1].copy(), values(name, 22, 256)
    a2, b2, c2 = (x.view(np.uint32) for x in (a, b, c))
    for opcode, count in (("add.rn", 2), ("mul.rn", 2), ("sub.rn", 2), ("fma.rn", 3), ("min", 2), ("max", 2)):
        inputs = (a2, b2, c2)[:count]
        singles = tuple(x.view(np.uint16) for x in (a, b, c))[:count]
        operands = ", ".join(f"%a{i}" for i in range(count))
        packed = run(f"{opcode}.{pair} %d0, {operands};", *inputs, out=np.uint32)
        single = run(f"{opcode}.{name} %d0, {operands};", *singles, out=np.uint16)
        assert (packed.view(np.uint16) == single).all(), opcode
    p, q = run(f"setp.lt.{pair} %d0|%d1, %a0, %a1;", a2, b2, out=(bool, bool))
    less = (a.astype(np.float64) < b.astype(np.float64)).reshape(-1, 2)
    assert (p == less[:, 0]).all()
    assert (q == less[:, 1]).all()


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
def test_floats_become_integers(name, mode):
    a = values(name, 23, 192)
    a[-6:] = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 6e4]).astype(a.dtype)
    function = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}[mode]
    for to in ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"):
        width = int(to[1:])
        low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if to[0] == "s" else (0, (1 << width) - 1)
        kind = U[max(2, width // 8)]
        got = run(f"cvt.{mode}.{to}.{name} %d0, %a0;", bits(a), out=kind)
        mask = (1 << (8 * np.dtype(kind).itemsize)) - 1
        nan = 1 << (width - 1) if 64 in (width, 8 * a.dtype.itemsize) else 0
        if to[0] == "s" and nan:
            nan -= 1 << width
        for x, y in zip(a.astype(np.float64).tolist(), got.tolist(), strict=True):
            if math.isnan(x):
                want = nan
            elif math.isinf(x):
                want = high if x > 0 else low
            else:
                want = max(low, min(high, function(Fraction(x))))
            assert y == want & mask, (to, x)


@pytest.mark.each_value(11)
@pytest.mark.parametrize("to", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_integers_become_floats(to, mode):
    rng = np.random.default_rng(24)
    for kind, storage in (
        ("u32", np.uint32),
        ("s32", np.uint32),
        ("u64", np.uint64),
        ("s64", np.uint64),
        ("s16", np.uint16),
    ):
        width = int(kind[1:])
        some = rng.integers(0, 1 << width, 60, np.uint64) >> rng.integers(0, width, 60, np.uint64)
        edges = [
            0,
            1,
            (1 << 24) + 1,
            (1 << width) - 1,
            1 << (width - 1),
            (1 << (width - 1)) - 1,
            (1 << 53) + 1,
        ]
        a = np.array([e & ((1 << width) - 1) for e in edges] + some.tolist(), np.uint64).astype(storage)[:64]
        exact = [int(x) - (1 << width) if kind[0] == "s" and int(x) >> (width - 1) else int(x) for x in a]
        got = run(f"cvt.{mode}.{to}.{kind} %d0, %a0;", a, out=U[np.dtype(NUMPY[to]).itemsize])
        same_bits(got, [rounded(Fraction(x), to, mode) for x in exact], to)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize(
    ("source", "to"), [("f64", "f32"), ("f64", "f16"), ("f32", "f16"), ("f32", "bf16"), ("f64", "bf16")]
)
def test_floats_are_narrowed_once(mode, source, to):
    a = values(source, 25, 224)
    digits = FORMATS[to][0]
    with np.errstate(all="ignore"):
        a[-32:] = (1.0 + 2.0**-digits + np.linspace(-1, 1, 32) * 2.0 ** -(digits + 8)).astype(a.dtype)
    got = run(f"cvt.{mode}.{to}.{source} %d0, %a0;", bits(a), out=U[np.dtype(NUMPY[to]).itemsize])
    kept = ~np.isnan(a) if source == "f64" else np.ones(len(a), bool)
    wide = a.astype(np.float64)[kept].tolist()
    want = [rounded(Fraction(x), to, mode) if math.isfinite(x) and x else x for x in wide]
    same_bits(got[kept], want, to)


def test_floats_are_widened_exactly():
    for source, to in (("f16", "f32"), ("bf16", "f32"), ("f16", "f64"), ("f32", "f64")):
        a = values(source, 26)
        a = a[~np.isnan(a)]
        got = run(f"cvt.{to}.{source} %d0, %a0;", bits(a), out=U[np.dtype(NUMPY[to]).itemsize])
        same_bits(got, a.astype(np.float64), to)


def test_conversion_modifiers():
    a = np.array([-1.5, -0.5, 0.5, 1.5, 2.5, 1e6, math.nan, math.inf], np.float32)
    assert run("cvt.rni.f32.f32 %d0, %a0;", bits(a), out=np.float32)[:5].tolist() == [
        -2.0,
        -0.0,
        0.0,
        2.0,
        2.0,
    ]
    assert run("cvt.sat.f32.f32 %d0, %a0;", bits(a), out=np.float32).tolist() == [0, 0, 0.5, 1, 1, 1, 0, 1]
    relu = run("cvt.rn.relu.f16.f32 %d0, %a0;", bits(a), out=np.float16)
    assert relu[:5].tolist() == [0, 0, 0.5, 1.5, 2.5]
    assert run("cvt.rn.satfinite.f16.f32 %d0, %a0;", bits(a), out=np.float16)[5] == 65504
    tf32 = run(
        "cvt.rna.tf32.f32 %d0, %a0;",
        np.array([0x3F801000, 0x3F800FFF, 0xBF801000] * 4, np.uint32),
        out=np.uint32,
    )
    assert tf32[:3].tolist() == [0x3F802000, 0x3F800000, 0xBF802000]


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_pairs_are_converted_high_half_first(name):
    a, b = values("f32", 27), values("f32", 28)
    got = run(f"cvt.rn.{name}x2.f32 %d0, %a0, %a1;", bits(a), bits(b), out=np.uint32)
    high = run(f"cvt.rn.{name}.f32 %d0, %a0;", bits(a), out=np.uint16)
    low = run(f"cvt.rn.{name}.f32 %d0, %a0;", bits(b), out=np.uint16)
    assert (got == high.astype(np.uint32) << 16 | low).all()


@pytest.mark.parametrize(("name", "most"), [("f16", 0x7BFF), ("bf16", 0x7F7F)])
def test_pairs_saturate_to_the_greatest_finite_number(name, most):
    a = np.concatenate([values("f32", 30, 120), np.array([3.389e38, -3.4e38, 65504, 65520, -1e5] * 2, "f4")])[
        :128
    ]
    a = bits(a)
    plain, clamped = (
        run(f"cvt.rn{mode}.{name}x2.f32 %d0, %a0, %a0;", a, out=np.uint32) for mode in ("", ".satfinite")
    )
    for shift in (0, 16):
        half, got = plain >> shift & 0xFFFF, clamped >> shift & 0xFFFF
        infinite = half & 0x7FFF == most + 1
        assert infinite.any()
        assert (half & 0x7FFF == most).any()
        assert (got == np.where(infinite, half - 1, half)).all()


@pytest.mark.parametrize(
    ("name", "kind", "most"), [("e4m3", ml_dtypes.float8_e4m3fn, 448), ("e5m2", ml_dtypes.float8_e5m2, 57344)]
)
def test_fp8_pairs_saturate(name, kind, most):
    a = np.concatenate([values("f32", 29, 112), np.linspace(-500, 500, 16).astype(np.float32)])
    b = np.roll(a, 1)
    got = run(
        f"cvt.rn.satfinite.{name}x2.f32 %d0, %a0, %a1;", bits(a), bits(b), out=np.uint16, target="sm_90"
    )
    back = run(f"cvt.rn.f16x2.{name}x2 %d0, %a0;", got, out=np.uint32, target="sm_90")

    def want(x):
        with np.errstate(all="ignore"):
            return np.clip(x, -most, most).astype(kind).astype(np.float32)

    for values_, halves in ((b, back.view(np.float16)[0::2]), (a, back.view(np.float16)[1::2])):
        number = ~np.isnan(values_)
        assert (halves[number].astype(np.float32) == want(values_[number])).all()
        assert np.isnan(halves[~number]).all()


def test_approximations_are_close():
    x = np.linspace(0.01, 20, 128).astype(np.float32)
    functions = {
        "rcp.approx.ftz": lambda v: 1 / v,
        "sqrt.approx": np.sqrt,
        "rsqrt.approx": lambda v: 1 / np.sqrt(v),
        "ex2.approx.ftz": np.exp2,
        "lg2.approx": np.log2,
        "sin.approx": np.sin,
        "cos.approx": np.cos,
        "tanh.approx": np.tanh,
    }
    for opcode, function in functions.items():
        got = run(f"{opcode}.f32 %d0, %a0;", bits(x), out=np.float32)
        assert np.allclose(got, function(x.astype(np.float64)), rtol=2e-7, atol=2e-7), opcode
    got = run("div.full.f32 %d0, %a0, 0f40400000;", bits(x), out=np.float32)
    assert np.allclose(got, x / 3, rtol=2e-7)


def test_copysign_and_testp():
    a = np.array([1.0, -2.0, math.nan, math.inf, 0.0, 1e-40, -1e-40, 5.0], np.float32)
    got = run("copysign.f32 %d0, 0fBF800000, %a0;", bits(a), out=np.uint32)
    assert (got == bits(a) | np.uint32(1 << 31)).all()
    want = {
        "finite": np.isfinite(a),
        "infinite": np.isinf(a),
        "number": ~np.isnan(a),
        "notanumber": np.isnan(a),
        "subnormal": (np.abs(a) < 2.0**-126) & (a != 0),
        "normal": np.isfinite(a) & ((np.abs(a) >= 2.0**-126) | (a == 0)),
    }
    for test, held in want.items():
        assert (run(f"testp.{test}.f32 %d0, %a0;", bits(a), out=bool) == held).all(), test


def test_reciprocals_of_f64_flush_subnormals_to_zeros_of_their_sign():
    a = np.array([0.0, 5e-324, 2e-308, math.inf, 1.7e308, 2.0, 3.0, math.nan])
    for sign in (1, -1):
        got = run("rcp.approx.ftz.f64 %d0, %a0;", bits(sign * a), out=np.float64)
        assert got[:6].tolist() == [sign * v for v in (math.inf, math.inf, math.inf, 0.0, 0.0, 0.5)]
        assert (np.signbit(got[:7]) == (sign < 0)).all()
        assert abs(got[6] * sign - 1 / 3) < 1e-6
        assert math.isnan(got[7])
