"""Kernels that other programs compute with unsigned integers: their results are the same."""

import zlib

import numpy as np
import pytest

import weft.language as w


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
def test_philox_4x64_is_that_of_numpy(arch):
    multipliers = 0xD2E7470EE14C6C93, 0xCA5A826395121157
    steps = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B

    @w.kernel(threads=64, arch=arch)
    def philox(key: w.In["2", w.u64], numbers: w.Out["n", w.u64]):
        i = w.thread()
        words = [(i + 1).to(w.u64), w.u64(0), w.u64(0), w.u64(0)]
        keys = [key[0].loaded(), key[1].loaded()]
        for number in range(10):
            if number:
                keys = [each + step for each, step in zip(keys, steps, strict=True)]
            low, high = (
                [f(words[2 * n], multipliers[n]) for n in (0, 1)] for f in (lambda a, b: a * b, w.mulhi)
            )
            words = [high[1] ^ words[1] ^ keys[0], low[1], high[0] ^ words[3] ^ keys[1], low[0]]
        for number, word in enumerate(words):
            numbers[4 * i + number] = word

    key, numbers = np.array([2**64 - 1, 0x123456789ABCDEF], np.uint64), np.zeros(256, np.uint64)
    assert not philox.emulate(key, numbers).findings
    assert np.array_equal(numbers, np.random.Philox(key=key).random_raw(256))


def test_checksums_are_those_of_zlib():
    @w.kernel(grid=lambda rows: w.ceil_div(rows.rows, 32), threads=32)
    def crc32(rows: w.In["m n", w.u8], table: w.In["256", w.u32], sums: w.Out["m", w.u32]):
        row = w.cta() * 32 + w.thread()
        if row >= rows.rows:
            return
        found = w.u32(0xFFFFFFFF)
        for i in w.range(rows.columns):
            found = table[((found ^ rows[row, i].to(w.u32)) & 255).to(w.i32)] ^ (found >> 8)
        sums[row] = ~found

    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, np.uint32(0xEDB88320) ^ (table >> 1), table >> 1).astype(np.uint32)
    rows = np.random.default_rng(0).integers(0, 256, (40, 50)).astype(np.uint8)
    sums = np.zeros(40, np.uint32)
    assert not crc32.emulate(rows, table, sums).findings
    assert sums.tolist() == [zlib.crc32(row.tobytes()) for row in rows]


@pytest.mark.each_value(1)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_tiles_of_pixels_are_averaged_without_overflow(dtype):
    """(a + b + 1) / 2 of bytes, as encoders of video have it."""
    limit = np.iinfo(dtype).max

    @w.kernel(grid=lambda x: w.ceil_div(x.rows, 64))
    def average(x: w.In["m n"], y: w.In["m n"], z: w.Out["m n"]):
        with w.role():
            row = w.cta() * 64
            a, b = w.load(x[row, 0], (64, 64)), w.load(y[row, 0], (64, 64))
            w.store((a | b) - ((a ^ b) >> 1), z[row, 0])

    x, y = np.random.default_rng(0).integers(0, limit + 1, (2, 100, 64)).astype(dtype)
    x[0, :2], y[0, :2] = limit, [limit, 0]
    z = np.zeros_like(x)
    assert not average.emulate(x, y, z).findings
    assert np.array_equal(z, (x.astype(int) + y + 1) // 2)
