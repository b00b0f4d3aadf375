"""Block scales of `tcgen05.mma` value by value: every number of their types, signs, transposes and NaN."""

import emulator_tensor as tensor
import ml_dtypes
import numpy as np
import pytest
from tcgen05_operands import B_AT, RNG, ROOM, Operand, product

from weft.isa.tcgen05.descriptors import BlockScaledDescriptor

SCALE_A, SCALE_B, N = 129, 161, 32  # scales may begin at any column


def ue8m0(code):
    return np.where(code == 255, np.nan, np.exp2(np.asarray(code, float) - 127))


def ue4m3(code):
    """Four bits of exponent and three of mantissa without a sign: as e4m3's positive half."""
    exponent, mantissa = np.asarray(code) >> 3, np.asarray(code) & 7
    small = mantissa * 2.0**-9
    return np.where(
        code == 127, np.nan, np.where(exponent == 0, small, (8 + mantissa) * 2.0 ** (exponent - 10))
    )


def tile(codes):
    """Words `[columns, 128]` of scales `[rows, up to 4]`: row i in column i / 32 of the lanes i % 32."""
    words = np.zeros((-(-len(codes) // 32), 128), np.uint32)
    for (row, byte), code in np.ndenumerate(codes):
        words[row // 32, row % 32 :: 32] |= np.uint32(int(code) << 8 * byte)
    return words


def packed(values):
    codes = values.astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
    return codes[:, ::2] | codes[:, 1::2] << 4


def scaled(a, b, of_a, of_b, *, kind, vec, number, name="e2m1", major="kk", **more):
    """D of a product with scales, `[128, N]`; operands are bytes `[rows, bytes of K]`."""
    left, right = Operand(a, 0, "none", major[0]), Operand(b, B_AT, "none", major[1])
    image = np.zeros(ROOM, np.uint8)
    left.fill(image)
    right.fill(image)
    idesc = BlockScaledDescriptor(
        kind,
        128,
        N,
        name,
        name,
        number,
        scale_vec=vec,
        transpose_a=major[0] == "m",
        transpose_b=major[1] == "m",
        **more,
    ).encode()
    words = np.zeros((64, 128), np.uint32)
    words[: len(tile(of_a))] = tile(of_a)
    words[32 : 32 + len(tile(of_b))] = tile(of_b)
    text = f"""
      add.u64 %rd8, %rd7, {left.descriptor()}; add.u64 %rd9, %rd7, {right.descriptor()};
      mov.u32 %r244, {idesc}; setp.ne.u32 %p7, 0, 0;
      add.u32 %r242, %t, {SCALE_A}; add.u32 %r243, %t, {SCALE_B};
      tcgen05.mma.cta_group::1.kind::{kind}.block_scale.{vec}
        [%t], %rd8, %rd9, %r244, [%r242], [%r243], %p7;"""
    out, _ = product(text, image, columns=N, before=tensor.cells(SCALE_A, 64, "words"), words=words)
    return out[0].view(np.float32).T


def nibbles(rows):
    return RNG.choice([-6.0, -1.5, -0.5, 0.0, 0.5, 1.0, 3.0, 4.0], (rows, 64))


def wanted(a, b, of_a, of_b, block):
    spread = np.repeat(of_a, block, 1) * a, np.repeat(of_b, block, 1) * b
    with np.errstate(invalid="ignore", over="ignore"):
        return spread[0] @ spread[1].T


def test_every_ue4m3():
    """Each row of A has one value of K, whose scale alone makes D."""
    codes = np.full((128, 4), 0x38)
    codes[:, 1] = np.arange(128)
    a, b = np.zeros((128, 64)), np.zeros((N, 64))
    a[:, 20], b[:, 20] = 3, np.resize([1.0, -0.5, 6.0], N)
    of_b = np.full((N, 4), 0x38)
    of_b[:, 1] = 0x38 + np.arange(N) % 16
    found = scaled(packed(a), packed(b), codes, of_b, kind="mxf4nvf4", vec="block16", number="ue4m3")
    expected = wanted(a, b, ue4m3(codes), ue4m3(of_b), 16)
    np.testing.assert_array_equal(found, expected.astype(np.float32))


@pytest.mark.parametrize(("kind", "vec"), [("mxf4", "block32"), ("mxf4nvf4", "block16")])
def test_ue8m0_from_small_to_large(kind, vec):
    blocks = 4 if vec == "block16" else 2
    codes, of_b = np.full((128, blocks), 127), np.full((N, blocks), 127)
    codes[:, -1], of_b[:, -1] = np.arange(64, 192), 127 + np.arange(N) - N // 2
    a, b = np.zeros((128, 64)), np.zeros((N, 64))
    a[:, 50], b[:, 50] = 1.5, 2
    found = scaled(packed(a), packed(b), codes, of_b, kind=kind, vec=vec, number="ue8m0")
    expected = wanted(a, b, ue8m0(codes), ue8m0(of_b), 64 // blocks)
    np.testing.assert_array_equal(found, expected.astype(np.float32))


@pytest.mark.parametrize(("number", "code"), [("ue8m0", 255), ("ue4m3", 127)])
def test_a_scale_that_is_no_number(number, code):
    one = 127 if number == "ue8m0" else 0x38
    of_a, of_b = np.full((128, 4), one), np.full((N, 4), one)
    of_a[9, 2], of_b[3, 0] = code, code
    a, b = nibbles(128), nibbles(N)
    found = scaled(packed(a), packed(b), of_a, of_b, kind="mxf4nvf4", vec="block16", number=number)
    expected = a @ b.T
    expected[9], expected[:, 3] = np.nan, np.nan
    np.testing.assert_array_equal(found, expected)


@pytest.mark.each_value(3)
@pytest.mark.parametrize(("negate_a", "negate_b"), [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("kind", ["mxf4", "mxf4nvf4"])
def test_negated_fp4(kind, negate_a, negate_b):
    a, b = nibbles(128), nibbles(N)
    of_a, of_b = RNG.integers(126, 129, (128, 2)), RNG.integers(126, 129, (N, 2))
    found = scaled(
        packed(a),
        packed(b),
        of_a,
        of_b,
        kind=kind,
        vec="block32",
        number="ue8m0",
        negate_a=negate_a,
        negate_b=negate_b,
    )
    sign = -1 if negate_a != negate_b else 1
    np.testing.assert_array_equal(found, sign * wanted(a, b, ue8m0(of_a), ue8m0(of_b), 32))


@pytest.mark.parametrize("major", ["kk", "mk", "km", "mm"])
def test_transposed_fp8(major):
    a = RNG.integers(-3, 4, (128, 32)).astype(ml_dtypes.float8_e5m2)
    b = RNG.integers(-3, 4, (N, 32)).astype(ml_dtypes.float8_e5m2)
    of_a, of_b = RNG.integers(125, 130, (128, 1)), RNG.integers(125, 130, (N, 1))
    found = scaled(
        a.view(np.uint8),
        b.view(np.uint8),
        of_a,
        of_b,
        kind="mxf8f6f4",
        vec="block32",
        number="ue8m0",
        name="e5m2",
        major=major,
    )
    expected = wanted(a.astype(float), b.astype(float), ue8m0(of_a), ue8m0(of_b), 32)
    np.testing.assert_array_equal(found, expected)


def test_random_fp4_with_random_scales_is_near():
    a, b = nibbles(128), nibbles(N)
    of_a, of_b = RNG.integers(1, 127, (128, 4)), RNG.integers(1, 127, (N, 4))
    found = scaled(packed(a), packed(b), of_a, of_b, kind="mxf4nvf4", vec="block16", number="ue4m3")
    expected = wanted(a, b, ue4m3(of_a), ue4m3(of_b), 16)
    largest = wanted(abs(a), abs(b), ue4m3(of_a), ue4m3(of_b), 16)
    assert (abs(found - expected) <= largest * 2.0**-22).all()
