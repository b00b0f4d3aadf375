"""Integers with which operations of signed and of unsigned types differ, and what NumPy makes of them."""

import operator

import numpy as np

import weft.language as w

NUMPY = {w.u8: np.uint8, w.u16: np.uint16, w.u32: np.uint32, w.u64: np.uint64}
NUMPY |= {w.i8: np.int8, w.i16: np.int16, w.i32: np.int32, w.i64: np.int64}
TYPES = list(NUMPY)
CHIPS = ["sm_75", "sm_80", "sm_90a", "sm_100a"]
FORMS = {  # of two numbers or tiles, and of two arrays
    **{
        name: (getattr(operator, name), getattr(operator, name))
        for name in ("add", "sub", "mul", "floordiv", "mod", "and_", "or_", "xor", "lt", "le", "gt", "ge")
    },
    "eq": (operator.eq, operator.eq),
    "ne": (operator.ne, operator.ne),
    "minimum": (w.minimum, np.minimum),
    "maximum": (w.maximum, np.maximum),
    "shl": (operator.lshift, operator.lshift),  # also by more bits than a number has
    "shr": (operator.rshift, operator.rshift),
    "negative": (lambda x, y: -x, lambda x, y: -x),
    "invert": (lambda x, y: ~x, lambda x, y: ~x),
    "abs": (lambda x, y: w.abs(x), lambda x, y: np.abs(x)),
    "square": (lambda x, y: x**2, lambda x, y: x * x),
    "where": (lambda x, y: w.where(x < y, x, 3), lambda x, y: np.where(x < y, x, x.dtype.type(3))),
    "mulhi": (lambda x, y: w.mulhi(x, y), lambda x, y: upper_half(x, y)),
}
CONDITIONS = ("lt", "le", "gt", "ge", "eq", "ne")
NUMBERS = [each for each in FORMS if each not in CONDITIONS]


def edges(dtype, shape, seed=0):
    """Numbers around the least, the largest and the middle one of a type."""
    limits = np.iinfo(NUMPY[dtype])
    around = (0, 1, limits.max, limits.min, limits.max // 2, 100)
    values = {each + by for each in around for by in (-2, -1, 0, 1, 2)}
    legal = sorted(each for each in values if limits.min <= each <= limits.max)
    return np.random.default_rng(seed).choice(np.array(legal, NUMPY[dtype]), shape)


def pairs(dtype, shape):
    """Two arrays, without divisions by 0 and of the least number by -1."""
    y = edges(dtype, shape, 1)
    return edges(dtype, shape), np.where((y == 0) | (y == -1 if dtype.is_signed else False), 7, y).astype(
        y.dtype
    )


def expected(name, x, y):
    """What NumPy makes of two arrays; of conditions 0 and 1."""
    with np.errstate(over="ignore"):
        return FORMS[name][1](x, y).astype(np.int8 if name in CONDITIONS else x.dtype)


def emulate(kernel, *arrays):
    """Runs a kernel in the emulator, which must find nothing."""
    assert not kernel.emulate(*arrays).findings


def differing_numbers(launch, dtype, arch=None):
    """The forms of which numbers on the GPU differ from NumPy's. `launch` calls a kernel with arrays."""

    @w.kernel(threads=64, arch=arch)
    def kernel(x: w.In["n", dtype], y: w.In["n", dtype], z: w.Out["k n", dtype], c: w.Out["l n", w.i8]):
        i = w.thread()
        for number, name in enumerate(NUMBERS):
            z[number, i] = FORMS[name][0](x[i], y[i])
        for number, name in enumerate(CONDITIONS):
            c[number, i] = FORMS[name][0](x[i], y[i]).to(w.i8)

    return _differing(launch, kernel, dtype, (64,))


def differing_tiles(launch, dtype, arch=None):
    """The same of tiles."""

    @w.kernel(arch=arch)
    def kernel(
        x: w.In["m n", dtype], y: w.In["m n", dtype], z: w.Out["k m n", dtype], c: w.Out["l m n", w.i8]
    ):
        with w.role():
            t, u = w.load(x[0, 0], (64, 8)), w.load(y[0, 0], (64, 8))
            for number, name in enumerate(NUMBERS):
                w.store(FORMS[name][0](t, u), z[number, 0, 0])
            for number, name in enumerate(CONDITIONS):
                w.store(FORMS[name][0](t, u).to(w.i8), c[number, 0, 0])

    return _differing(launch, kernel, dtype, (64, 8))


def _differing(launch, kernel, dtype, shape):
    x, y = pairs(dtype, shape)
    z, c = np.zeros((len(NUMBERS), *shape), x.dtype), np.zeros((len(CONDITIONS), *shape), np.int8)
    launch(kernel, x, y, z, c)
    named = zip((*NUMBERS, *CONDITIONS), (*z, *c), strict=True)
    return [name for name, found in named if not np.array_equal(found, expected(name, x, y))]


def add_by_tma(launch, dtype, x, y, arch=None):
    """Adds the tile x to y."""

    @w.kernel(arch=arch)
    def kernel(x: w.In["m n", dtype], y: w.Out["m n", dtype]):
        output = w.shared(64, 16, dtype)
        with w.role():
            w.atomic_add(y[0, 0], w.load(x[0, 0], (64, 16)), via=output)

    launch(kernel, x, y)


def product(launch, a, b, of_a, of_b, arch=None):
    """a @ b.T of bytes, of 64 rows and 32 columns, by a ring of buffers."""

    @w.kernel(arch=arch)
    def kernel(a: w.In["m k", of_a], b: w.In["n k", of_b], d: w.Out["m n", w.i32]):
        ring = w.ring(2, a=(64, 64, of_a), b=(32, 64, of_b))
        with w.role():
            sums = w.zeros((64, 32), w.i32)
            for _ in w.range(0, a.columns, 64):
                with ring.take() as stage:
                    sums = w.wait(w.gemm(stage.a, stage.b.T, sums))
            w.store(sums, d[0, 0])
        with w.role(), w.one_thread():
            for k in w.range(0, a.columns, 64):
                ring.fill(a=a[0, k], b=b[0, k])

    d = np.zeros((64, 32), np.int32)
    launch(kernel, a, b, d)
    return d


def exact(a, b):
    """a @ b.T in 32 bits."""
    return a.astype(np.int32) @ b.astype(np.int32).T


def upper_half(x, y):
    """The upper halves of the products, of Python's integers."""
    products = [int(a) * int(b) >> 8 * x.itemsize for a, b in zip(x.flat, y.flat, strict=True)]
    return np.array(products, x.dtype).reshape(x.shape)
