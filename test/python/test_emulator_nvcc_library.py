"""CUB's and libcu++'s collectives and other program parts that nvcc compiled, against NumPy."""

import numpy as np
import pytest
from emulator_corpus import everywhere, launch, reals, rng, words

from weft import emulator


@everywhere
def test_radix_sort_of_a_block(chip):
    keys = words(256)
    out = np.zeros(256, np.uint32)
    launch("library", chip, "radix_sort", [keys, out], block=64)
    np.testing.assert_array_equal(out, np.sort(keys))


@everywhere
def test_block_and_warp_reductions(chip):
    x = rng().integers(-100, 100, 64).astype(np.float32)
    out = np.zeros(68, np.float32)
    launch("library", chip, "reductions", [x, out], block=64)
    assert out[0] == x.sum() == out[67]
    np.testing.assert_array_equal(out[1:65], np.cumsum(x) - x)
    np.testing.assert_array_equal(out[65:67], x.reshape(2, 32).max(axis=1))


@everywhere
def test_complex_numbers(chip):
    a, b = (v.view(np.complex64) for v in reals(np.float32, 128))
    out = np.zeros(64, np.complex64)
    launch("library", chip, "complex_numbers", [a, b, out, 64], 2)
    np.testing.assert_allclose(out, a * b + a / b, rtol=1e-4, atol=1e-5)


@everywhere
def test_structures_that_point_at_each_other(chip):
    out = np.zeros((2, 8), np.int32)
    launch("library", chip, "linked", [out], block=2)
    end = 7 * 256 + ord("e")
    assert out[0, :4].tolist() == [256 + ord("f"), 512 + ord("s"), end, 15]
    assert out[1, :3].tolist() == [768 + ord("o"), end, 15]


@everywhere
def test_cached_loads_clocks_and_assertions(chip):
    a = rng().integers(-100, 100, 64, np.int32)
    out = np.zeros(64, np.int32)
    launch("library", chip, "cached", [a, out, 64], 2)
    np.testing.assert_array_equal(out, 6 * a + 3)
    with pytest.raises(emulator.Fault, match=r"assertion 'n < 1000' failed at cuda/library\.cu"):
        launch("library", chip, "cached", [a, out, 1000])


@everywhere
def test_short_vectors(chip):
    a = rng().integers(-1000, 1000, (64, 4), np.int32)
    b, c = rng().integers(0, 256, (64, 4), np.uint8), rng().integers(0, 65536, (64, 2), np.uint16)
    out = np.zeros_like(a)
    launch("library", chip, "vectors", [a, b, c, out, 64], 2)
    y, z = b.astype(int), c.astype(int)
    want = [a[:, 0] + y[:, 0], a[:, 1] * y[:, 1] - z[:, 0], a[:, 2] ^ y[:, 2], a[:, 3] + y[:, 3] + z[:, 1]]
    np.testing.assert_array_equal(out, np.stack(want, axis=1))


@everywhere
def test_arrays_of_a_length_known_late(chip):
    a = rng().integers(-100, 100, 32, np.int32)
    out = np.zeros(32, np.int32)
    launch("library", chip, "variable_arrays", [a, out, 32])
    assert out.tolist() == [sum(int(a[(i + j) % 32]) * 3**j for j in range(i % 5 + 1)) for i in range(32)]


@everywhere
def test_bit_fields(chip):
    a = words(100)
    out = np.zeros(100, np.uint32)
    launch("library", chip, "fields", [a, out, 100])
    p, q = a & np.uint32(31), a >> np.uint32(7) & np.uint32(2047)
    np.testing.assert_array_equal(out, p | q << np.uint32(5) | (p * q & np.uint32(0xFFFF)) << np.uint32(16))


@everywhere
def test_scalar_halves(chip):
    a, b = reals(np.float16)
    out, ints = np.zeros(64, np.float16), np.zeros(64, np.int32)
    launch("library", chip, "scalar_halves", [a, b, out, ints, 64], 2)
    x, y = a.astype(np.float64), b.astype(np.float64)
    np.testing.assert_allclose(out, np.exp(x) + np.sqrt(abs(y)) * x / y - np.floor(y), rtol=2e-2, atol=2e-2)
    np.testing.assert_array_equal(ints, np.floor(x) + np.rint(y) + (x < y))
