"""Numbers of signed and unsigned integers: operators, quotients, shifts, arguments and prints."""

import zlib

import language_mistakes
import ml_dtypes
import numpy as np
import pytest
from language_integers import CHIPS, NUMPY, TYPES, differing_numbers, edges, emulate

import weft
import weft.language as w

UNSIGNED = [each for each in TYPES if each.is_unsigned]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.each_value(5)
def test_operators_are_those_of_numpy(dtype, chip):
    assert not differing_numbers(emulate, dtype, chip)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("old", TYPES, ids=str)
@pytest.mark.each_value(2)
def test_integers_become_those_of_other_types_and_floats(old, chip):
    floats = {w.f64: np.float64, w.f32: np.float32, w.f16: np.float16, w.bf16: ml_dtypes.bfloat16}

    @w.kernel(threads=64, arch=chip)
    def kernel(x: w.In["n", old], y: w.Out["types n", w.u64], z: w.Out["fs n", w.f64]):
        i = w.thread()
        for number, dtype in enumerate(TYPES):
            y[number, i] = x[i].to(dtype).to(w.u64)
        for number, dtype in enumerate(floats):
            z[number, i] = x[i].to(dtype).to(w.f64)

    x, y, z = edges(old, 64), np.zeros((len(TYPES), 64), np.uint64), np.zeros((4, 64))
    assert not kernel.emulate(x, y, z).findings
    for dtype, found in zip(TYPES, y, strict=True):
        assert np.array_equal(found, x.astype(NUMPY[dtype]).astype(np.uint64)), dtype
    with np.errstate(over="ignore"):
        for dtype, found in zip(floats, z, strict=True):
            assert np.array_equal(found, x.astype(floats[dtype]).astype(np.float64)), dtype


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("given", [np.float64, np.float32, np.float16])
@pytest.mark.each_value(2)
def test_floats_become_unsigned_integers(given, chip):
    @w.kernel(threads=64, arch=chip)
    def kernel(x: w.In["types n"], y: w.Out["types n", w.u64]):
        for number, dtype in enumerate(UNSIGNED):
            y[number, w.thread()] = x[number, w.thread()].to(dtype).to(w.u64)

    rng, limits = np.random.default_rng(0), [2.0 ** min(each.bits, 15) for each in UNSIGNED]
    x = np.stack([np.r_[rng.random(62) * limit, 0.99, 200.75] for limit in limits]).astype(given)
    if given != np.float16:  # beyond the signed integers of the type
        x[:, 0] = [255.5, 65535, 3e9, 1e19]
    y = np.zeros((4, 64), np.uint64)
    assert not kernel.emulate(x, y).findings
    assert np.array_equal(y, x.astype(np.uint64))


def test_integers_become_conditions():
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.u8], y: w.Out["n", w.u8]):
        y[w.thread()] = x[w.thread()].to(w.i1).to(w.u8) * 255

    x, y = np.resize(np.array([0, 1, 2, 254, 255], np.uint8), 32), np.zeros(32, np.uint8)
    assert not kernel.emulate(x, y).findings
    assert np.array_equal(y, np.where(x != 0, 255, 0))


def test_bits_of_floats_are_unsigned_integers():
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.f32], y: w.Out["n", w.u32], z: w.Out["n", w.f32], h: w.Out["n", w.u16]):
        i = w.thread()
        y[i] = x[i].bitcast(w.u32)
        z[i] = (x[i].bitcast(w.u32) | 0x80000000).bitcast(w.f32)
        h[i] = x[i].to(w.bf16).bitcast(w.u16)

    x = np.random.default_rng(0).standard_normal(32).astype(np.float32)
    y, z, h = np.zeros(32, np.uint32), np.zeros(32, np.float32), np.zeros(32, np.uint16)
    assert not kernel.emulate(x, y, z, h).findings
    assert np.array_equal(y, x.view(np.uint32)) and np.array_equal(z, -np.abs(x))
    assert np.array_equal(h, x.astype(ml_dtypes.bfloat16).view(np.uint16))


@w.kernel(threads=32)
def added(x: w.In["n"], y: w.Out["n"], a: w.u8, b: w.u16 = 65535, c: w.u32 = 2**31, d: w.u64 = 2**64 - 1):
    total = a.to(w.u64) + b.to(w.u64) + c.to(w.u64) + d
    for _ in w.range(3):  # a loop carries it
        if total > 2**63:
            total = total // 2
    y[w.thread()] = x[w.thread()] + total.to(y.dtype)


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_arrays_and_numbers_are_arguments(framework, dtype):
    x, y = np.arange(32, dtype=dtype) + dtype(250), np.zeros(32, dtype)
    given, written = x, y
    if framework == "torch":
        torch = pytest.importorskip("torch")
        given, written = torch.from_numpy(x), torch.from_numpy(y)
    elif framework == "jax":
        jax = pytest.importorskip("jax")
        with jax.enable_x64(True):
            given = jax.numpy.asarray(x)
    assert not added.emulate(given, written, 255, d=5).findings
    assert np.array_equal(y, x + dtype((255 + 65535 + 2**31 + 5) % 2 ** (8 * x.itemsize)))
    added(given, written, np.uint8(255), 0, 0, on="emulator")
    assert np.array_equal(y, x + dtype(254))


def test_arguments_beyond_their_type_are_refused():
    x = np.zeros(32, np.uint8)
    for numbers, message in (
        ((-1,), r"0\.\.255, got -1"),
        ((0, 0, 2**32), r"0\.\.4294967295, got 4294967296"),
    ):
        with pytest.raises(weft.WeftError, match=f"expects an integer in {message}"):
            added.emulate(x, x.copy(), *numbers)
    with pytest.raises(weft.WeftError, match=r"default of 'n': expects an integer in 0\.\.65535, got -1"):

        @w.kernel
        def negative(n: w.u16 = -1):
            pass


def test_an_array_with_another_sign_is_refused():
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.i16], y: w.In["n", w.u8]):
        pass

    x = np.zeros(4, np.uint16)
    with pytest.raises(
        weft.WeftError, match=r"'x' .* w\.i16, got w\.u16: a view of it as int16 has the same bits"
    ):
        kernel.emulate(x, x)
    with pytest.raises(weft.WeftError, match=r"'y' must have elements of w\.u8, got w\.u16$"):
        kernel.emulate(x.view(np.int16), x)


def test_an_array_of_bool_is_one_of_u8_where_the_annotation_says_so():
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.u8], y: w.Out["n", w.u8]):
        y[w.thread()] = 1 - x[w.thread()]

    torch = pytest.importorskip("torch")
    x, y, z = np.arange(32) % 3 == 0, np.zeros(32, bool), torch.zeros(32, dtype=torch.bool)
    kernel.emulate(x, y)
    kernel.emulate(torch.from_numpy(x), z)
    assert np.array_equal(y, ~x) and np.array_equal(z.numpy(), ~x)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", [w.u32, w.u64], ids=str)
@pytest.mark.each_value(2)
def test_atomic_changes_compare_unsigned_numbers(dtype, chip):
    @w.kernel(threads=128, arch=chip)
    def kernel(x: w.In["n", dtype], y: w.Out["4", dtype], z: w.Out["4", dtype]):
        own = w.shared(1, 32, dtype)
        if w.thread() < 32:
            own[w.thread()] = y[w.thread() % 4]
        w.barrier()
        each = x[w.thread()]
        for to in (y, own):
            w.atomic_max(to[0], each)
            w.atomic_min(to[1], each)
            w.atomic_add(to[2], each)
            if w.thread() == 0 and w.atomic_cas(to[3], dtype.ones, 0) == dtype.ones:
                w.atomic_xchg(to[3], dtype.ones - 1)
        w.barrier()
        if w.thread() < 4:
            z[w.thread()] = own[w.thread()]

    x = edges(dtype, 128)
    first = NUMPY[dtype](dtype.ones)
    y, z = np.array([0, first, 1, first], NUMPY[dtype]), np.zeros(4, NUMPY[dtype])
    assert not kernel.emulate(x, y, z).findings
    assert y.tolist() == z.tolist() == [x.max(), x.min(), x.sum(dtype=x.dtype) + 1, first - 1]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", [w.u32, w.u64, w.i32, w.i64], ids=str)
@pytest.mark.each_value(2)
def test_bits_are_changed_atomically(dtype, chip):
    @w.kernel(threads=128, arch=chip)
    def kernel(x: w.In["n", dtype], y: w.Out["4", dtype], old: w.Out["n", dtype]):
        own, i = w.shared(1, 32, dtype), w.thread()
        if i < 32:
            own[i] = dtype.ones
        w.barrier()
        w.atomic_and(y[0], x[i])
        w.atomic_or(y[1], x[i])
        old[i] = w.atomic_xor(y[2], x[i])
        w.atomic_and(own[0], x[i])
        w.barrier()
        if i == 0:
            y[3] = own[0]

    x, y = edges(dtype, 128), np.array([dtype.ones, 0, 5, 0], NUMPY[dtype])
    x[::2] |= x.dtype.type(1 << 20)
    old = np.zeros_like(x)
    assert not kernel.emulate(x, y, old).findings
    conjunction, disjunction, inverted = (
        f.reduce(x) for f in (np.bitwise_and, np.bitwise_or, np.bitwise_xor)
    )
    assert y.tolist() == [conjunction, disjunction, inverted ^ x.dtype.type(5), conjunction]
    assert 5 in old


def test_a_tile_sets_bits_of_a_set():
    """Which numbers occur, as bits of words."""

    @w.kernel(arch="sm_90a")
    def kernel(x: w.In["m n", w.u16], words: w.Out["k", w.u32]):
        with w.role():
            t = w.load(x[0, 0], (64, 16)).to(w.u32)
            w.atomic_or(words[(t >> 5).to(w.i32)], w.full(t.shape, 1, w.u32) << (t & 31))

    x, words = edges(w.u16, (64, 16)), np.zeros(2048, np.uint32)
    assert not kernel.emulate(x, words).findings
    assert np.array_equal(
        np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")), np.unique(x)
    )


def test_choices_of_elements_and_numbers_of_python():
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.u8], y: w.Out["5 n", w.u8], z: w.Out["n", w.i32], f: w.Out["n", w.f32]):
        i = w.thread()
        y[0, i] = w.where(x[i] > 3, x[i], 0)
        y[1, i] = w.where(x[i] > 3, 0, x[i])
        y[2, i] = w.minimum(200, x[i])
        y[3, i] = w.maximum(x[i], 100)
        y[4, i] = w.where(x[i] > 3, x[i], x[0])
        z[i] = w.where(x[i] > 3, 1, 0)
        f[i] = w.where(x[i] > 3, 1, 0.5)

    x, z, f = edges(w.u8, 32), np.zeros(32, np.int32), np.zeros(32, np.float32)
    y = np.zeros((5, 32), np.uint8)
    assert not kernel.emulate(x, y, z, f).findings
    chosen = [np.where(x > 3, x, 0), np.where(x > 3, 0, x), np.minimum(x, 200), np.maximum(x, 100)]
    assert np.array_equal(y, [*chosen, np.where(x > 3, x, x[0])])
    assert np.array_equal(z, x > 3) and np.array_equal(f, np.where(x > 3, 1, 0.5))


def test_unsigned_numbers_are_printed():
    @w.kernel(threads=32)
    def kernel(a: w.u8, b: w.u16, c: w.u32, d: w.u64):
        if w.thread() == 0:
            w.print(a, b, c, d, "of", (c + 1) // 2)

    report = kernel.emulate(255, 65535, 2**32 - 1, 2**64 - 1)
    assert report.printed == "255 65535 4294967295 18446744073709551615 of 0\n"


MISTAKES = r"""
# operands must have one type, got w\.u32 and w\.i32: convert one with \.to\(w\.u32\) or \.to\(w\.i32\)$
x[0] + w.thread()

# operands must have one type, got w\.u8 and w\.u16: convert one with \.to\(w\.u16\)$
def kernel(x: w.In["n", w.u8], y: w.In["n", w.u16]):
    w.print(x[0] < y[0])

# -1 doesn't fit into w\.u32, whose numbers are in 0\.\.4294967295$
w.print(x[0] == -1)

# 256 doesn't fit into w\.u8, whose numbers are in 0\.\.255$
def kernel(x: w.In["m n", w.u8]):
    w.load(x[0, 0], (64, 8)) + 256

# a number of 8 bits can be shifted by 0 to 7 bits, got 200
def kernel(x: w.In["n", w.u8]):
    x[0] >> 200

# expects a value of w\.i32, got a value of w\.u32: convert it with \.to\(w\.i32\)
x[x[0]]

# end of w\.range must be a w\.i32, got a value of w\.u32: convert it with \.to\(w\.i32\)
for _ in w.range(w.u32(3)):  # here
    pass

# w\.where expects a condition, such as x < y, got a value of w\.u32: compare it, as in x != 0
w.where(x[0], 1, 2)

# must be 64 x 64 w\.i32, got .*: begin with w\.zeros\(\(64, 64\), w\.i32\), or without sums
a = w.shared(64, 64, w.u8)
with w.role():
    w.gemm(a, a.T, w.zeros((64, 64)))

# has no 'popc': use w\.ptx\("popc\.b32 \$0, \$1;", x, result=w\.i32\)
w.popc(x[0])

# has no .astype.: use x\.to\(type\), such as x\.to\(w\.bf16\)
x[0].astype(w.u8)

# 'w\.mulhi' can't be applied to floats: convert with \.to\(w\.i32\)
def kernel(x: w.In["n", w.f32]):
    w.mulhi(x[0], 2)

# w\.atomic_or changes elements of w\.i64, w\.i32, w\.u64, w\.u32, got those of w\.f32$
def kernel(x: w.In["n", w.f32]):
    w.atomic_or(x[0], 1)

# operands must have one type, got w\.u8 and w\.u32: convert one with \.to\(w\.u32\)$
def kernel(x: w.In["m n", w.u8], y: w.In["n", w.u32]):
    t = w.load(x[0, 0], (64, 8))
    w.where(t > 3, t, y[0])

# w\.mulhi expects a number of the GPU, which has a type, got 2 and 3
w.mulhi(2, 3)

# 'n' was a value of w\.u32 and becomes a value of w\.i32.*: convert it with \.to\(w\.u32\)
def kernel(x: w.In["k", w.u32]):
    n = w.u32(0)
    for i in w.range(3):  # here
        n = i
    w.print(n)

# begin with w\.u32\(4294967295\)
def kernel(x: w.In["k", w.u32]):
    n = 4294967295
    for _ in w.range(3):  # here
        n = x[0] + n

# was the Python float 1\.5 and becomes a value of w\.u32, .*: convert this one with \.to\(w\.f32\)
def kernel(x: w.In["k", w.u32]):
    n = 1.5
    for _ in w.range(3):  # here
        n = x[0].loaded()
    w.print(n)
"""


@pytest.mark.parametrize("code, message", language_mistakes.cases(MISTAKES, parameters='x: w.In["n", w.u32]'))
def test_mistakes_are_in_their_line(code, message, tmp_path):
    language_mistakes.refused(tmp_path, code, message, globals())


def test_defaults_beyond_pytorchs_integers_are_refused():
    pytest.importorskip("torch")
    with pytest.raises(
        weft.WeftError, match=r"the default of 'd' must be below 2\*\*63 for PyTorch, got 1844"
    ):
        w.torch_op("weft_tests::added", added)


@w.kernel(threads=64)
def divide(x: w.In["n"], by: w.In["n"], both: w.Out["2 n"], chosen: w.Out["n"], within: w.Out["n"]):
    i = w.thread()
    both[0, i], both[1, i] = x[i] // by[i], x[i] % by[i]
    chosen[i] = w.where(by[i] != 0, x[i] // by[i], 7)
    within[i] = 7
    if by[i] != 0:
        within[i] = x[i] // by[i]


@w.kernel
def divide_tiles(x: w.In["m n"], by: w.In["m n"], both: w.Out["2 m n"], chosen: w.Out["m n"]):
    with w.role():
        t, u = w.load(x[0, 0], (64, 8)), w.load(by[0, 0], (64, 8))
        w.store(t // u, both[0, 0, 0])
        w.store(t % u, both[1, 0, 0])
        w.store(w.where(u != 0, t // u, 7), chosen[0, 0])


def numbers(kind):
    """64 pairs of a number and a divisor, among them 0 and both ends of the range."""
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    edges = np.array([low, high, 0, 1, 2, 3, high // 2, -1 if low else high - 1], kind)
    return np.repeat(edges, 8), np.tile(edges, 8)


def expected(x, by, other):
    """Quotients of Python in the type of `x`, or `other`, and remainders, or 0."""
    bits = 8 * x.itemsize
    pairs = list(zip(x.tolist(), by.tolist(), strict=True))
    results = [(a // b, a % b) if b else (other, 0) for a, b in pairs]
    return np.array([[n % 2**bits for n in pair] for pair in results], f"u{x.itemsize}").T.astype(x.dtype)


KINDS = ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8")


@pytest.mark.each_value(2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_test_of_the_divisor_selects_the_quotient(kind):
    x, by = numbers(kind)
    both, chosen, within = np.ones((2, 64), kind), np.zeros(64, kind), np.zeros(64, kind)
    assert not divide.emulate(x, by, both, chosen, within, arch="sm_80").findings
    assert np.array_equal(both, expected(x, by, 0))
    assert np.array_equal(chosen, expected(x, by, 7)[0])
    assert np.array_equal(within, chosen)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("kind", ("u1", "i4"))
def test_tiles_are_divided_in_the_same_way(kind):
    x, by = (np.tile(each[:, None], 8) for each in numbers(kind))
    both, chosen = np.ones((2, 64, 8), kind), np.zeros((64, 8), kind)
    assert not divide_tiles.emulate(x, by, both, chosen, arch="sm_90a").findings
    assert np.array_equal(both[:, :, 0], expected(x[:, 0], by[:, 0], 0))
    assert np.array_equal(chosen[:, 7], expected(x[:, 0], by[:, 0], 7)[0])


@pytest.mark.parametrize("operation", (lambda a, b: a // b, lambda a, b: a % b))
@pytest.mark.parametrize("zero", (lambda: 0, lambda: w.u32(0)), ids=("Python", "GPU"))
def test_a_division_by_a_known_0_is_refused(operation, zero):
    @w.kernel(threads=32)
    def wrong(x: w.Out["32", w.u32]):
        x[w.thread()] = operation(x[w.thread()], zero())

    with pytest.raises(weft.WeftError, match=r"test_language_integers\.py:\d+:.*can't be divided by 0"):
        wrong.compile(arch="sm_80")


@w.kernel(threads=32)
def shifted(x: w.In["n"], bits: w.In["n"], y: w.Out["m n"]):
    i = w.thread()
    if i < x.rows:
        y[0, i] = x[i] << bits[i]
        y[1, i] = x[i] >> bits[i]
        y[2, i] = 1 << bits[i]
        y[3, i] = -7 >> bits[i]


def exact(x, bits, width, left):
    """The shift of an integer of Python; a negative number of bits counts as many."""
    bits = bits if bits >= 0 else 2 * width
    number = x << bits if left else x >> bits
    return (number + 2 ** (width - 1)) % 2**width - 2 ** (width - 1)


@pytest.mark.each_value(2)
@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_a_shift_by_the_width_or_more_leaves_nothing(width):
    bits = [-1, 0, 1, width - 1, width, width + 1, 100, -100]
    x = [-5, -5, -5, 77, 77, -77, -77, 1]
    kind = f"int{width}"
    y = np.zeros((4, 8), kind)
    shifted.emulate(np.array(x, kind), np.array(bits, kind), y)
    rows = ((x, True), (x, False), ([1] * 8, True), ([-7] * 8, False))
    assert y.tolist() == [
        [exact(a, b, width, left) for a, b in zip(row, bits, strict=True)] for row, left in rows
    ]


def test_elements_of_tiles_are_shifted_so_too():
    @w.kernel()
    def kernel(x: w.In["m n", w.i32], y: w.Out["m n", w.i32]):
        with w.role():
            t = w.load(x[0, 0], (64, 8))
            w.store((1 << t) + (t >> w.row(t)), y[0, 0])

    x = np.random.default_rng(0).integers(-3, 40, (64, 8)).astype(np.int32)
    y = np.zeros_like(x)
    kernel.emulate(x, y)
    powers = np.where((x >= 0) & (x < 32), 1 << (x.astype(np.int64) & 63), 0).astype(np.int32)
    assert np.array_equal(y, powers + (x >> np.minimum(np.arange(64)[:, None], 31)))


def test_bits_that_python_knows_cost_no_check():
    @w.kernel(threads=32)
    def kernel(x: w.In["n", w.i32], y: w.Out["n", w.i32]):
        y[w.thread()] = x[w.thread()] >> 3

    ptx = kernel.compile().ptx
    assert "shr.s32" in ptx and "min.u32" not in ptx


@pytest.mark.parametrize("number", [32, -1])
@pytest.mark.parametrize("tiles", [False, True])
def test_too_many_bits_are_refused(number, tiles):
    @w.kernel()
    def kernel(x: w.In["m n", w.i32]):
        with w.role():
            t = w.load(x[0, 0], (64, 8)) if tiles else x[0, 0]
            t << number

    with pytest.raises(weft.WeftError, match=rf"can be shifted by 0 to 31 bits, got {number}$"):
        kernel.compile()


@pytest.mark.each_value(1)
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
