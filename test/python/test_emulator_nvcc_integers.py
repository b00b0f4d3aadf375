"""Integers and matrix products that nvcc compiled from test/emulator/cuda, for every chip, against NumPy."""

import ml_dtypes
import numpy as np
import pytest
from emulator_corpus import CHIPS, everywhere, launch, number, rng, words

BF16 = ml_dtypes.bfloat16


# Matrix products


@everywhere
def test_classic_product(chip):
    m, n, k = 20, 24, 37
    a, b = rng().standard_normal((2, 64, 64)).astype(np.float32)
    a, b = np.ascontiguousarray(a[:m, :k]), np.ascontiguousarray(b[:k, :n])
    c = np.zeros((m, n), np.float32)
    launch("matmul", chip, "classic", [a, b, c, m, n, k], (2, 2), (16, 16))
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


WMMA = {
    "wmma_f16": (75, np.float16, np.float32, 16, 16),
    "wmma_f16_f16": (75, np.float16, np.float16, 32, 8),
    "wmma_s8": (75, np.int8, np.int32, 16, 16),
    "wmma_u8": (75, np.uint8, np.int32, 8, 32),
    "wmma_bf16": (80, BF16, np.float32, 16, 16),
    "wmma_tf32": (80, np.float32, np.float32, 16, 16),
    "wmma_f64": (80, np.float64, np.float64, 8, 8),
    "mma_async": (80, BF16, np.float32, 16, 8),
}


@pytest.mark.sampled(19)
@pytest.mark.parametrize(
    ("kernel", "chip"), [(k, c) for k, form in WMMA.items() for c in CHIPS if number(c) >= form[0]]
)
def test_matrix_units(kernel, chip):
    _, kind, out, tile_m, tile_n = WMMA[kernel]
    m, n, k = 2 * tile_m, 2 * tile_n, 48
    a, bt = (rng().integers(0 if kind is np.uint8 else -4, 5, s).astype(kind) for s in ((m, k), (n, k)))
    c = np.zeros((m, n), out)
    launch("matmul", chip, kernel, [a, bt, c, n, k], (n // tile_n, m // tile_m))
    np.testing.assert_array_equal(c, (a.astype(np.float64) @ bt.astype(np.float64).T).astype(out))


# Integers


@everywhere
def test_wide_integers(chip):
    a, b = words(64, 64), words(64, 64)[::-1].copy()
    out = np.zeros((64, 12), np.uint64)
    launch("integers", chip, "wide", [a, b, out, 64], 2)
    mask = (1 << 64) - 1

    def signed(value, bits=64):
        return value - (1 << bits) if value >> (bits - 1) else value

    def toward_zero(x, y):
        return (abs(x) // abs(y)) * (-1 if (x < 0) != (y < 0) else 1)

    for row, x, y in zip(out.tolist(), a.tolist(), b.tolist(), strict=True):
        y |= 1
        product = x * y
        total = (product + (y << 64 | x)) % (1 << 128)
        # A shift of an unsigned number by C's rules, whose sum with the sign is signed.
        quotient = toward_zero(signed(total, 128), signed(y >> 7 | 3)) % (1 << 128)
        rest = total % ((1 << 64) + y)
        left = signed(x) - toward_zero(signed(x), signed(y)) * signed(y)
        want = [product & mask, product >> 64, total & mask, total >> 64, quotient & mask, quotient >> 64]
        want += [rest & mask, rest >> 64, x // y, left & mask, product >> 64]
        want.append((signed(x) * signed(y) >> 64) & mask)
        assert row == want


@everywhere
def test_bits(chip):
    a, b = words(64), words(64)[::-1].copy()
    out = np.zeros((64, 24), np.uint32)
    launch("integers", chip, "bits", [a, b, out, 64], 2)
    low = 0xFFFFFFFF

    def s(value, bits=32):
        return value - (1 << bits) if value >> (bits - 1) & 1 else value

    def parts(value, bits, signed):
        cut = [value >> i & ((1 << bits) - 1) for i in range(0, 32, bits)]
        return [s(v, bits) for v in cut] if signed else cut

    def dot(x, y, signed):
        return sum(p * q for p, q in zip(parts(x, 8, signed), parts(y, 8, signed), strict=True)) + 7

    for row, x, y in zip(out.tolist(), a.tolist(), b.tolist(), strict=True):
        bytes_ = [(y << 32 | x) >> 8 * i & 255 for i in range(8)]
        picked = sum(bytes_[y >> 4 * i & 7] << 8 * i for i in range(4))
        both, n = y << 32 | x, y & 63
        half_s, half_u = parts(x, 16, True), parts(x, 16, False)
        byte_s, byte_u = parts(y, 8, True), parts(y, 8, False)
        d = y | 1
        sx, sd = s(x), s(d)
        left = sx - (abs(sx) // abs(sd)) * (-1 if (sx < 0) != (sd < 0) else 1) * sd
        n24 = [s(v & 0xFFFFFF, 24) for v in (x, y)]
        want = [
            int(f"{x:032b}"[::-1], 2),
            32 - x.bit_length(),
            x.bit_count(),
            (x & -x).bit_length(),
            picked,
            both << (n & 31) >> 32,
            both >> (n & 31),
            both << min(n, 32) >> 32,
            both >> min(n, 32),
            dot(x, y, True),
            dot(x, y, False),
            sum(p * q for p, q in zip(half_s, byte_s[:2], strict=True)) + 7,
            sum(p * q for p, q in zip(half_u, byte_u[2:], strict=True)) + 7,
            abs(x - y) + 5,
            abs(s(x) - s(y)) + 5,
            (x + y) >> 1,
            (s(x) + s(y) + 1) >> 1,
            x * y >> 32,
            n24[0] * n24[1],
            (x & y) ^ (~x | y >> 3),
            x // d,
            left,
            s(x) >> (y & 31),
            x << (y & 31) | x >> (32 - (y & 31) & 31),
        ]
        assert row == [v & low for v in want]


@everywhere
def test_lanes_of_a_word(chip):
    a, b = words(64), words(64)[::-1].copy()
    out = np.zeros((64, 16), np.uint32)
    launch("integers", chip, "lanes_of_a_word", [a, b, out, 64], 2)
    u8 = [v.view(np.uint8).astype(int) for v in (a, b)]
    s8 = [v.view(np.int8).astype(int) for v in (a, b)]
    u16 = [v.view(np.uint16).astype(int) for v in (a, b)]
    s16 = [v.view(np.int16).astype(int) for v in (a, b)]

    def pack(values, bits):
        return (values & ((1 << bits) - 1)).astype(f"u{bits // 8}").view(np.uint32)

    sads = np.abs(s8[0] - s8[1]).reshape(-1, 4).sum(axis=1)
    smin = np.minimum(np.minimum(a.view(np.int32), b.view(np.int32)), 17)
    want = [
        pack(u8[0] + u8[1], 8),
        pack(u16[0] - u16[1], 16),
        pack(np.maximum(*s16), 16),
        pack(np.minimum(*u16), 16),
        pack(np.abs(u8[0] - u8[1]), 8),
        pack((u8[0] + u8[1] + 1) >> 1, 8),
        pack(np.clip(s16[0] + s16[1], -32768, 32767), 16),
        pack(np.clip(u8[0] + u8[1], 0, 255), 8),
        pack(np.where(u8[0] > u8[1], 255, 0), 8),
        pack((u16[0] == u16[1]).astype(int), 16),
        sads.astype(np.uint32),
        pack(np.minimum(*s8), 8),
        pack(np.minimum(np.abs(s16[0]), 32767), 16),
        pack(-s8[0], 8),
        pack(np.maximum(np.maximum(*s16), 0), 16),
        smin.astype(np.int32).view(np.uint32),
    ]
    for at, column in enumerate(want):
        np.testing.assert_array_equal(out[:, at], column, err_msg=f"number {at}")


@everywhere
def test_carry_chains(chip):
    a, b = words(4 * 32).reshape(32, 4), words(4 * 32)[::-1].reshape(32, 4).copy()
    a[0], b[0] = 0xFFFFFFFF, [1, 0, 0, 0]
    out = np.zeros((32, 12), np.uint32)
    launch("integers", chip, "carries", [a, b, out, 32])

    def whole(parts):
        return sum(int(p) << 32 * i for i, p in enumerate(parts))

    for row, x, y in zip(out, a, b, strict=True):
        low = (1 << 128) - 1
        assert whole(row[:4]) == (whole(x) + whole(y)) & low
        assert whole(row[4:8]) == (whole(x) - whole(y)) & low
        assert whole(row[8:]) == whole(x[:2]) * whole(y[:2])


@everywhere
def test_narrow_integers(chip):
    a, b = words(64, 8).view(np.int8), words(64, 16)
    out = np.zeros((64, 6), np.int64)
    launch("integers", chip, "narrow", [a, b, out, 64], 2)
    x, y = a.astype(np.int64), b.astype(np.int64)
    want = [
        (x * 3).astype(np.int8),
        (y * y).astype(np.uint16),
        np.trunc(x / 7) + y % 11,
        (y << 1).astype(np.int16).astype(np.int64) >> 2,
        np.where(x < 0, -x, ~y),
        x << 40 | y,
    ]
    np.testing.assert_array_equal(out, np.stack(want, axis=1))
