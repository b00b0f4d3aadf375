"""The error function, and random numbers, which are those of Philox 4x32-10."""

import math

import language_mistakes
import numpy as np
import pytest

import weft
import weft.language as w


@w.kernel
def erf(x: w.In["m n", w.f32], y: w.Out["m n", w.f32], one: w.Out["two", w.f32]):
    with w.role():
        w.store(w.erf(w.load(x[0, 0], (64, 128))), y[0, 0])
        if w.thread() == 0:
            one[0] = w.erf(x[3, 5] + 0.0)
            one[1] = w.erf(0.5)


@pytest.mark.slow
def test_the_error_function_is_close_everywhere():
    special = [0.0, -0.0, 1e-30, -1e-3, 1.0, -1.0, np.nextafter(np.float32(1), np.float32(0)), 1e20]
    special += [np.inf, -np.inf]
    x = np.linspace(-6, 6, 64 * 128, dtype=np.float32)
    x[: len(special)] = special
    x = x.reshape(64, 128)
    y, one = np.zeros_like(x), np.zeros(2, np.float32)
    assert not erf.emulate(x, y, one).findings
    exact = np.vectorize(math.erf)(x.astype(float))
    assert np.allclose(y, exact, rtol=3e-7, atol=0)
    assert np.array_equal(np.signbit(y), np.signbit(x))
    assert np.allclose(one, [math.erf(x[3, 5]), math.erf(0.5)], rtol=3e-7)


def test_nan_stays_and_other_types_are_refused():
    x = np.full((64, 128), np.nan, np.float32)
    y, one = np.zeros_like(x), np.zeros(2, np.float32)
    erf.emulate(x, y, one)
    assert np.isnan(y).all()

    @w.kernel(threads=32)
    def kernel(y: w.Out["n", w.f16]):
        y[0] = w.erf(y[0])

    with pytest.raises(
        weft.WeftError, match=r"w\.erf expects values of w\.f32, .*: convert with \.to\(w\.f32\)"
    ):
        kernel.compile()


def philox(seed, offsets):
    """The four words for each offset, with words of 32 bits in 64."""
    mask, high = np.uint64(2**32 - 1), np.uint64(32)
    zeros = np.zeros(np.shape(offsets), np.uint64)
    words = [np.asarray(offsets).astype(np.uint64) & mask, zeros, zeros, zeros]
    key = np.array([seed % 2**32, seed >> 32], np.uint64)
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * words[0], np.uint64(0xCD9E8D57) * words[2]
        words = [(second >> high) ^ words[1] ^ key[0], second & mask, (first >> high) ^ words[3] ^ key[1]]
        words.append(first & mask)
        key = (key + np.array([0x9E3779B9, 0xBB67AE85], np.uint64)) & mask
    return words


@w.kernel
def tiles(seed: w.i64, bits: w.Out["m n", w.i32], floats: w.Out["m n", w.f32], normal: w.Out["m n", w.f32]):
    with w.role():
        offsets = w.row(w.zeros((64, 64), w.i32)) * 64 + w.column(w.zeros((64, 64), w.i32))
        w.store(w.randint(seed, offsets), bits[0, 0])
        w.store(w.rand(seed, offsets), floats[0, 0])
        w.store(w.randn(seed, offsets), normal[0, 0])


@pytest.mark.each_value(1)
@pytest.mark.parametrize("arch", ["sm_70", "sm_90a", "sm_100a"])
def test_tiles_of_random_numbers(arch):
    seed, bits = 0x123456789ABCDEF, np.zeros((64, 64), np.int32)
    floats, normal = np.zeros((2, 64, 64), np.float32)
    assert not tiles.emulate(seed, bits, floats, normal, arch=arch).findings
    first, second, *_ = philox(seed, np.arange(64 * 64).reshape(64, 64))
    assert np.array_equal(bits.view(np.uint32), first)
    assert np.array_equal(floats, (first >> np.uint64(8)) / 2**24)
    radius = np.sqrt(-2 * np.log(np.maximum(floats.astype(float), 2**-25)))
    assert np.allclose(normal, radius * np.cos((second >> np.uint64(8)) * 2 * np.pi / 2**24), atol=1e-4)


def test_numbers_of_threads_and_known_answers():
    @w.kernel(threads=32)
    def kernel(seed: w.i32, seeds: w.In["1", w.i64], y: w.Out["4 32", w.i32]):
        i = w.thread()
        y[0, i] = w.randint(0, i)
        y[1, i] = w.randint(2**64 - 1, i - 1)
        y[2, i] = w.randint(seed, i)
        y[3, i] = w.randint(seeds[0], i)

    y = np.zeros((4, 32), np.int32)
    assert not kernel.emulate(-5, np.array([-7]), y).findings
    found, i = y.view(np.uint32), np.arange(32)
    assert found[0, 0] == 0x6627E8D5  # as Random123 lists it
    seeds = 0, 2**64 - 1, 2**32 - 5, 2**64 - 7
    for row, seed, offsets in zip(found, seeds, (i, i - 1, i, i), strict=True):
        assert np.array_equal(row, philox(seed, offsets)[0])


def test_four_results_are_the_four_words_of_a_counter():
    @w.kernel(threads=32)
    def kernel(x: w.In["256", w.f32], bits: w.Out["4 256", w.i32], floats: w.Out["4 32", w.f32]):
        vectors = w.randint4x(7, w.row(w.load(x[0], 256)))
        for n, (each, number) in enumerate(zip(vectors, w.rand4x(7, w.thread()), strict=True)):
            w.store(each, bits[n, 0])
            floats[n, w.thread()] = number

    bits, floats = np.zeros((4, 256), np.int32), np.zeros((4, 32), np.float32)
    assert not kernel.emulate(np.zeros(256, np.float32), bits, floats).findings
    assert np.array_equal(bits.view(np.uint32), philox(7, np.arange(256)))
    assert np.array_equal(floats, (bits[:, :32].view(np.uint32) >> 8) / 2**24)


def test_one_instruction_computes_both_words_of_a_product():
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.f32], y: w.Out["m n", w.i32]):
        for n, each in enumerate(w.randint4x(7, w.row(w.load(x[0], 128)))):
            w.store(each, y[n, 0])

    text = kernel.compile(arch="sm_90a").ptx
    assert "mul.hi" not in text and text.count("mul.wide.u32") > 4 * 10


def test_seeds_and_offsets_may_be_unsigned():
    @w.kernel(arch="sm_90a")
    def kernel(short: w.u32, long: w.u64, y: w.Out["2 64", w.u32], z: w.Out["64 8", w.u32]):
        with w.role():
            i = w.thread().to(w.u32)
            if i < 64:
                y[0, i.to(w.i32)] = w.randint(short, i + 2**31)
                y[1, i.to(w.i32)] = w.randint(long, i)
            t = w.zeros((64, 8))
            w.store(w.randint(long, (w.row(t) * 8 + w.column(t)).to(w.u32)), z[0, 0])

    y, z, i = np.zeros((2, 64), np.uint32), np.zeros((64, 8), np.uint32), np.arange(64)
    assert not kernel.emulate(2**32 - 1, 2**64 - 2, y, z).findings
    assert np.array_equal(y, [philox(2**32 - 1, i + 2**31)[0], philox(2**64 - 2, i)[0]])
    assert np.array_equal(z, philox(2**64 - 2, np.arange(512).reshape(64, 8))[0])


MISTAKES = r"""
# seed must be an integer in 0\.\.2\*\*64 - 1, or one of 32 or 64 bits, got -1
w.rand(-1, w.thread())

# seed must be .*, got a value of w\.f32
w.rand(x[0] + 0.0, w.thread())

# offset must be of w\.i32 or w\.u32, got a fragment of 64 x 8 w\.f32: convert it with \.to\(w\.i32\)
w.randn(1, w.zeros((64, 8)))
"""


@pytest.mark.parametrize("code, message", language_mistakes.cases(MISTAKES, parameters='x: w.In["n", w.f32]'))
def test_mistakes_are_in_their_line(code, message, tmp_path):
    language_mistakes.refused(tmp_path, code, message, globals())
