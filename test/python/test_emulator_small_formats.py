"""Conversions to and from formats of eight, six and four bits, and stochastic rounding, by definition."""

import re
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from emulator_ptx import run

from weft import emulator

KINDS = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}
MOST = {"e4m3": 448.0, "e5m2": 57344.0, "e2m3": 7.5, "e3m2": 28.0, "e2m1": 6.0}
NAN = {"e4m3": 0x7F, "e5m2": 0x7F, "e2m3": 0x1F, "e3m2": 0x1F, "e2m1": 0x7}
TARGET = "sm_100a"


def numbers(name, count=256):
    """Every value of the format, the middle of each pair of neighbors, and what lies around them."""
    most = MOST[name]
    codes = np.arange(1 << (4 if name == "e2m1" else 6 if name[1] in "23" and name != "e5m2" else 8))
    values = codes.astype(np.uint8).view(KINDS[name]).astype(np.float64)
    values = np.unique(values[np.isfinite(values)])
    middles = (values[1:] + values[:-1]) / 2
    near = np.concatenate([np.nextafter(middles.astype(np.float32), s * np.float32(np.inf)) for s in (1, -1)])
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 1e-30, -1e-30, 2 * most, most * 1.01]
    found = np.concatenate([special, values, middles, near]).astype(np.float32)
    return np.resize(found, -(-max(len(found), count) // 32) * 32).astype(np.float32)


def small(value, name, relu=False):
    """The code of a float32 by ml_dtypes' rounding, saturated."""
    value = np.asarray(value, np.float32)
    if relu:
        value = np.where(value < 0, np.float32(0), value)
        value = np.where(value == 0, np.float32(0), value)
    clipped = np.clip(np.nan_to_num(value, nan=0.0, posinf=1e38, neginf=-1e38), -MOST[name], MOST[name])
    codes = clipped.astype(KINDS[name]).view(np.uint8)
    return np.where(np.isnan(value), NAN[name], codes).astype(np.uint32)


def narrow(register, to):
    """PTX that moves an 8-bit result into a 32-bit one; four-bit pairs take 8 bits."""
    return f"cvt.u32.u{to} %d0, {register};"


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_two_float32(name, relu):
    a = numbers(name)
    b = a[::-1].copy()
    bits = 8 if name == "e2m1" else 16
    body = f"cvt.rn.satfinite{'.relu' * relu}.{name}x2.f32 %s, %a0, %a1; {narrow('%s', bits)}"
    got = run(
        body, a.view(np.uint32), b.view(np.uint32), out=np.uint32, declare=f".reg .b{bits} %s;", target=TARGET
    )
    want = small(a, name, relu) << bits // 2 | small(b, name, relu)
    assert got.tolist() == want.tolist()


@pytest.mark.parametrize("pair", ["f16x2", "bf16x2"])
@pytest.mark.parametrize("name", KINDS)
def test_pairs_of_halves(name, pair):
    kind = np.float16 if pair == "f16x2" else ml_dtypes.bfloat16
    with np.errstate(over="ignore"):
        halves = numbers(name).astype(kind)
    words = halves.view(np.uint32)
    words = np.resize(words, -(-len(words) // 32) * 32)
    bits = 8 if name == "e2m1" else 16
    body = f"cvt.rn.satfinite.{name}x2.{pair} %s, %a0; {narrow('%s', bits)}"
    got = run(body, words, out=np.uint32, declare=f".reg .b{bits} %s;", target=TARGET)
    parts = words.view(kind).astype(np.float32).reshape(-1, 2)
    assert got.tolist() == (small(parts[:, 1], name) << bits // 2 | small(parts[:, 0], name)).tolist()


@pytest.mark.parametrize("pair", ["f16x2", "bf16x2"])
@pytest.mark.parametrize("name", KINDS)
def test_back_to_halves(name, pair):
    four = name == "e2m1"
    codes = np.arange(256, dtype=np.uint32) if four else np.arange(256, dtype=np.uint32) * 0x0101 ^ 0x0100
    if name in ("e2m3", "e3m2"):
        codes &= 0x3F3F
    bits = 8 if four else 16
    body = f"cvt.u{bits}.u32 %s, %a0; cvt.rn.{pair}.{name}x2 %d0, %s;"
    got = run(body, codes, out=np.uint32, declare=f".reg .b{bits} %s;", target=TARGET)
    kind = np.float16 if pair == "f16x2" else ml_dtypes.bfloat16
    low, high = (codes & 15, codes >> 4) if four else (codes & 255, codes >> 8)
    want = np.stack([c.astype(np.uint8).view(KINDS[name]) for c in (low, high)], axis=1).astype(np.float32)
    np.testing.assert_array_equal(
        got.view(kind).reshape(-1, 2).astype(np.float32), want.astype(kind).astype(np.float32)
    )


def test_scaled_to_halves():
    codes = np.arange(256, dtype=np.uint16)
    scale = np.resize(np.array([127 | 129 << 8, 120 | 127 << 8], np.uint16), 256)
    body = "cvt.u8.u16 %s, %a0; cvt.rn.scaled::n2::ue8m0.bf16x2.e2m1x2 %d0, %s, %a1;"
    got = run(body, codes, scale, out=np.uint32, declare=".reg .b8 %s;", target=TARGET)
    parts = np.stack([codes & 15, codes >> 4], axis=1).astype(np.uint8).view(KINDS["e2m1"]).astype(np.float32)
    factors = np.ldexp(1.0, np.stack([scale & 255, scale >> 8], axis=1).astype(int) - 127)
    np.testing.assert_array_equal(got.view(ml_dtypes.bfloat16).reshape(-1, 2).astype(float), parts * factors)


def power(value, up, finite):
    """A code of ue8m0: the exponent of the power of two at or below |value|, or at or above it."""
    if np.isnan(value):
        return 255
    if np.isinf(value):
        return 254 if finite else 255
    size = Fraction(float(abs(value)))
    if size <= Fraction(1, 2**127):
        return 0
    code = next(e for e in range(-127, 129) if Fraction(2) ** e >= size) + 127
    if not up and Fraction(2) ** (code - 127) > size:
        code -= 1
    return min(code, 254) if finite else code


@pytest.mark.each_value(3)
@pytest.mark.parametrize("finite", ["", ".satfinite"])
@pytest.mark.parametrize("mode", ["rz", "rp"])
def test_powers_of_two(mode, finite):
    special = [
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -3.0,
        1.0,
        2.0,
        1.5,
        3e38,
        2.0**127,
        2.0**-127,
        2.0**-126,
        1e-39,
        1e-45,
    ]
    a = np.concatenate([special, np.random.default_rng(0).standard_normal(82) * 1e3]).astype(np.float32)
    b = a[::-1].copy()
    got = run(
        f"cvt.{mode}{finite}.ue8m0x2.f32 %d0, %a0, %a1;",
        a.view(np.uint32),
        b.view(np.uint32),
        out=np.uint16,
        target=TARGET,
    )
    want = [
        power(x, mode == "rp", finite) << 8 | power(y, mode == "rp", finite)
        for x, y in zip(a, b, strict=True)
    ]
    assert got.tolist() == want


def test_powers_of_two_back():
    codes = np.arange(256, dtype=np.uint16)
    got = run("cvt.rn.bf16x2.ue8m0x2 %d0, %a0;", codes, out=np.uint32, target=TARGET)
    values = got.view(ml_dtypes.bfloat16).reshape(-1, 2).astype(np.float64)
    want = np.ldexp(1.0, np.arange(256) - 127)
    want[255] = np.nan
    np.testing.assert_array_equal(values[:, 0], want)
    np.testing.assert_array_equal(values[:, 1], np.full(256, 2.0**-127))


def neighbors(value, kind, most):
    """The numbers of a format on either side of |value|, which is none of its own or lies within it."""
    near = np.array(min(abs(value), most), np.float32).astype(kind)
    size = float(near.astype(np.float32))
    if size == abs(value) or abs(value) >= most:
        return size, size
    step = near.view(f"u{near.dtype.itemsize}")
    other = (step + 1 if size < abs(value) else step - 1).astype(step.dtype).view(kind)
    pair = sorted([size, float(other.astype(np.float32))])
    return pair[0], pair[1]


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_random_rounding_of_pairs(name):
    kind, bits = (np.float16, 13) if name == "f16" else (ml_dtypes.bfloat16, 16)
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal(256) * 100).astype(np.float32).reshape(2, 128)
    a[:2] = float(ml_dtypes.finfo(kind).max), float(ml_dtypes.finfo(kind).min)
    noise = rng.integers(0, 1 << 32, 128, np.uint32)
    body = f"cvt.rs.{name}x2.f32 %d0, %a0, %a1, %a2;"
    got = run(body, a.view(np.uint32), b.view(np.uint32), noise, out=np.uint32, target=TARGET)
    for word, x, y, n in zip(got.tolist(), a, b, noise.tolist(), strict=True):
        for half, value, random in ((word >> 16, x, n >> 16), (word & 0xFFFF, y, n)):
            low, high = neighbors(float(value), kind, float(ml_dtypes.finfo(kind).max))
            random &= (1 << bits) - 1
            part = (
                0
                if low == high
                else (Fraction(float(abs(value))) - Fraction(low)) / (Fraction(high) - Fraction(low))
            )
            size = high if part + Fraction(random, 1 << bits) >= 1 else low
            found = np.array(half, np.uint16).view(kind).astype(np.float32)
            assert found == np.copysign(size, value)


@pytest.mark.parametrize("name", KINDS)
def test_random_rounding_of_four(name):
    rng = np.random.default_rng(3)
    inputs = (rng.standard_normal((4, 64)) * MOST[name] / 2).astype(np.float32)
    noise = rng.integers(0, 1 << 32, 64, np.uint32)
    bits = 16 if name == "e2m1" else 32
    body = f"cvt.rs.satfinite.{name}x4.f32 %s, {{%a0, %a1, %a2, %a3}}, %a4; cvt.u32.u{bits} %d0, %s;"
    got = run(
        body, *inputs.view(np.uint32), noise, out=np.uint32, declare=f".reg .b{bits} %s;", target=TARGET
    )
    width = bits // 4
    for at, word in enumerate(got.tolist()):
        n = int(noise[at])
        upper = n >> 16 if width == 8 else n >> 16 & 0xFF00 | n >> 8 & 0xFF
        lower = n & 0xFFFF if width == 8 else n >> 8 & 0xFF00 | n & 0xFF
        for place, random in enumerate((upper, upper, lower, lower)):
            value = float(inputs[place, at])
            low, high = neighbors(value, KINDS[name], MOST[name])
            part = (
                0
                if low == high
                else (Fraction(abs(value)) - Fraction(low)) / (Fraction(high) - Fraction(low))
            )
            size = high if part + Fraction(random, 1 << 16) >= 1 else low
            code = word >> width * (3 - place) & ((1 << width) - 1)
            found = np.array(code, np.uint8).view(KINDS[name]).astype(np.float32)
            assert found == np.copysign(np.float32(size), np.float32(value))


@pytest.mark.parametrize("kind", ["u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"])
def test_packed_integers(kind):
    rng = np.random.default_rng(4)
    a, b = rng.integers(-300, 300, (2, 64), np.int32) * np.array([[1], [150]], np.int32)
    c = rng.integers(0, 1 << 32, 64, np.uint32)
    bits = int(kind[1:])
    tail = ".b32 %d0, %a0, %a1, %a2;" if bits < 16 else " %d0, %a0, %a1;"
    got = run(f"cvt.pack.sat.{kind}.s32{tail}", a.view(np.uint32), b.view(np.uint32), c, out=np.uint32)
    low = -(1 << (bits - 1)) if kind[0] == "s" else 0
    high = low + (1 << bits) - 1
    for word, x, y, z in zip(got.tolist(), a.tolist(), b.tolist(), c.tolist(), strict=True):
        p, q = (min(max(v, low), high) & ((1 << bits) - 1) for v in (x, y))
        rest = z << 2 * bits if bits < 16 else 0
        assert word == (rest | p << bits | q) & 0xFFFFFFFF


S2F6 = "cvt.rn.satfinite{}.s2f6x2.{} %d0, {};"


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
def test_s2f6_is_in_units_of_a_64th(scaled, relu):
    """Ties are rounded to even; what is larger, and NaN, is the largest. Scales divide first."""
    x = np.array(
        [0, 1 / 128, 3 / 128, -1 / 128, 1.5, 1.99, 100, -2, -2.01, -np.inf, np.nan, -0.7, 1e-30, 0.25] * 2
    )
    x = x.astype(np.float32)
    powers = np.resize([0, 1, -2], len(x)) if scaled else np.zeros(len(x), int)
    value = x.astype(np.float64) / 2.0**powers
    want = np.clip(np.where(np.isnan(x), 127, np.rint(value * 64)), 0 if relu else -128, 127).astype(np.int8)
    flags = ".relu" * relu + ".scaled::n2::ue8m0" * scaled
    scales = (powers + 127).astype(np.uint16)
    wide = [
        S2F6.format(flags, "f32", "%a0, %a1" + ", %a2" * scaled),
        x[::-1].copy(),
        x,
        scales | scales[::-1] << 8,
    ]
    got = run(*wide, out=np.uint16, target="sm_100a").view(np.int8).reshape(-1, 2)
    np.testing.assert_array_equal(got, np.stack([want, want[::-1]], axis=1))
    short = x.view(np.uint32) >> 16
    pairs = short | short[::-1] << 16
    exact = (short << 16).view(np.float32)
    want = np.clip(
        np.where(np.isnan(exact), 127, np.rint(exact / 2.0**powers * 64)), 0 if relu else -128, 127
    )
    operands = "%a0" + ", %a1" * scaled
    got = run(S2F6.format(flags, "bf16x2", operands), pairs, wide[-1], out=np.uint16, target="sm_100a")
    np.testing.assert_array_equal(got.view(np.int8)[::2], want.astype(np.int8))
    np.testing.assert_array_equal(got.view(np.int8)[1::2], want[::-1].astype(np.int8))


@pytest.mark.parametrize("scaled", [False, True])
def test_s2f6_back_to_bf16(scaled):
    codes = np.arange(256, dtype=np.uint16) << 8 | np.arange(256, dtype=np.uint16)[::-1]
    flags, operand = (".scaled::n2::ue8m0", ", %a1") if scaled else ("", "")
    scale = np.full(256, 0x8180 if scaled else 0x7F7F, np.uint16)
    got = run(
        f"cvt.rn{flags}.bf16x2.s2f6x2 %d0, %a0{operand};", codes, scale, out=np.uint32, target="sm_100a"
    )
    value = np.arange(256).astype(np.int8) / 64.0
    np.testing.assert_array_equal(
        (got & np.uint32(0xFFFF0000)).view(np.float32), value * (4 if scaled else 1)
    )
    np.testing.assert_array_equal((got << 16).view(np.float32), value[::-1] * (2 if scaled else 1))


def test_finite_results_of_small_formats():
    """.satfinite limits results that the scale or the format makes infinite."""
    codes = np.full(4, 0x7C7C, np.uint16)  # infinity in e5m2
    scale = np.full(4, 0xFEFE, np.uint16)
    for body in ("bf16x2.e5m2x2 %d0, %a0", "scaled::n2::ue8m0.bf16x2.e4m3x2 %d0, %a0, %a1"):
        inf, finite = (
            run(f"cvt.rn{flag}.{body};", codes, scale, out=np.uint32, target="sm_100a")
            for flag in ("", ".satfinite")
        )
        assert (inf == 0x7F807F80).all() and (finite == 0x7F7F7F7F).all()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("cvt.rn.s2f6x2.f32 %h0, %a0, %a0;", "needs .satfinite"),
        ("cvt.rn.satfinite.s2f6x2.f16x2 %h0, %a0;", "must convert .f32 or .bf16x2, got .f16x2"),
        ("cvt.rn.f16x2.s2f6x2 %d0, %h0;", "must convert .s2f6x2 to .bf16x2, got .f16x2"),
        ("cvt.rn.satfinite.f16x2.e5m2x2 %d0, %h0;", "must convert .e5m2x2 with .satfinite to .bf16x2"),
    ],
)
def test_small_formats_that_ptxas_refuses(body, said):
    with pytest.raises(emulator.PtxError, match=re.escape(said)):
        run(body, np.zeros(4, np.uint32), out=np.uint32, target="sm_100a")
