"""Kernels in Numba, compiled to PTX without a GPU, against NumPy."""

import math
from collections.abc import Callable, Iterator

import harness
import numpy as np
from harness import Case, Results
from numba import cuda, float32, float64, int32, int64

CHIPS = ((8, 0), (9, 0), (10, 0))
RNG = np.random.default_rng(3)


def saxpy(x, y, a):
    i = cuda.grid(1)
    if i < x.shape[0]:
        y[i] += a * x[i]


def transpose(x, y):
    tile = cuda.shared.array((16, 17), float32)
    i, j = cuda.grid(2)
    if j < x.shape[0] and i < x.shape[1]:
        tile[cuda.threadIdx.y, cuda.threadIdx.x] = x[j, i]
    cuda.syncthreads()
    j = cuda.blockIdx.y * 16 + cuda.threadIdx.x
    i = cuda.blockIdx.x * 16 + cuda.threadIdx.y
    if j < x.shape[0] and i < x.shape[1]:
        y[i, j] = tile[cuda.threadIdx.x, cuda.threadIdx.y]


def block_sum(x, y):
    part = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        total += x[i]
    part[t] = total
    cuda.syncthreads()
    n = 64
    while n:
        if t < n:
            part[t] += part[t + n]
        cuda.syncthreads()
        n //= 2
    if t == 0:
        cuda.atomic.add(y, 0, part[0])


def histogram(x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        cuda.atomic.add(y, x[i] % y.shape[0], 1)


def extremes(x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        cuda.atomic.max(y, 0, x[i])
        cuda.atomic.min(y, 1, x[i])


def warp_scan(x, y):
    i = cuda.grid(1)
    lane = cuda.laneid
    value = x[i]
    d = 1
    while d < 32:
        other = cuda.shfl_up_sync(0xFFFFFFFF, value, d)
        if lane >= d:
            value += other
        d *= 2
    y[i] = value


def votes(x, y):
    i = cuda.grid(1)
    mask = cuda.ballot_sync(0xFFFFFFFF, x[i] > 0)
    y[i] = cuda.popc(mask) + 100 * cuda.any_sync(0xFFFFFFFF, x[i] > 90) + cuda.ffs(mask)


def collatz(x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        n, steps = x[i], 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        y[i] = steps


def mandelbrot(y):
    i, j = cuda.grid(2)
    if j < y.shape[0] and i < y.shape[1]:
        c = complex(-2 + 3 * i / y.shape[1], -1 + 2 * j / y.shape[0])
        z, n = 0j, 0
        while n < 30 and z.real * z.real + z.imag * z.imag < 4:
            z = z * z + c
            n += 1
        y[j, i] = n


def erfs(x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        y[i] = math.erf(x[i]) + math.gamma(abs(x[i]) + 1) + math.atan2(x[i], 2.0) + math.log1p(abs(x[i]))


def local_sort(x, y):
    mine = cuda.local.array(8, int32)
    i = cuda.grid(1)
    for k in range(8):
        mine[k] = x[i, k]
    for a in range(7):
        for b in range(7 - a):
            if mine[b] > mine[b + 1]:
                mine[b], mine[b + 1] = mine[b + 1], mine[b]
    for k in range(8):
        y[i, k] = mine[k]


def life(x, y):
    i, j = cuda.grid(2)
    if i < x.shape[1] and j < x.shape[0]:
        n = 0
        for dj in range(-1, 2):
            for di in range(-1, 2):
                if di != 0 or dj != 0:
                    n += x[(j + dj) % x.shape[0], (i + di) % x.shape[1]]
        y[j, i] = 1 if n == 3 or (n == 2 and x[j, i]) else 0


def bits(x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        y[i] = cuda.brev(x[i]) ^ cuda.clz(x[i]) ^ (x[i] << 3) ^ (x[i] >> 2)


def expected_life(x: np.ndarray) -> np.ndarray:
    n = sum(np.roll(x, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1)) - x
    return ((n == 3) | ((n == 2) & (x == 1))).astype(x.dtype)


def expected_mandelbrot(y: np.ndarray) -> np.ndarray:
    made = np.zeros_like(y)
    for (j, i), _ in np.ndenumerate(y):
        c, z = complex(-2 + 3 * i / y.shape[1], -1 + 2 * j / y.shape[0]), 0j
        while made[j, i] < 30 and z.real * z.real + z.imag * z.imag < 4:
            z = z * z + c
            made[j, i] += 1
    return made


def collatz_steps(n: int) -> int:
    steps = 0
    while n != 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    return steps


def expected_bits(x: np.ndarray) -> np.ndarray:
    reversed_ = np.array([int(f"{int(v):032b}"[::-1], 2) for v in x], np.uint32).view(np.int32)
    leading = np.array([32 - int(v).bit_length() for v in x], np.int32)
    return reversed_ ^ leading ^ (x << 3) ^ (x >> 2)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def tests() -> Iterator[
    tuple[
        Callable[..., None],
        tuple[object, ...],
        tuple[int, ...],
        tuple[int, ...],
        tuple[object, ...],
        np.ndarray,
    ]
]:
    """Kernel, signature, grid, block, arguments with the result last, and what it must be."""
    x, y = f32(300), f32(300)
    yield saxpy, (float32[:], float32[:], float32), (3,), (128,), (x, y, 1.5), y + np.float32(1.5) * x
    m = f32(37, 50)
    yield (
        transpose,
        (float32[:, :], float32[:, :]),
        (4, 3),
        (16, 16),
        (m, np.zeros((50, 37), np.float32)),
        m.T,
    )
    yield (
        block_sum,
        (float32[:], float32[:]),
        (2,),
        (128,),
        (x, np.zeros(1, np.float32)),
        x.sum(keepdims=True),
    )
    n = RNG.integers(1, 1000, 300).astype(np.int32)
    yield (
        histogram,
        (int32[:], int32[:]),
        (3,),
        (128,),
        (n, np.zeros(16, np.int32)),
        np.bincount(n % 16, minlength=16).astype(np.int32),
    )
    d = RNG.standard_normal(200)
    yield extremes, (float64[:], float64[:]), (2,), (128,), (d, np.zeros(2)), np.array([d.max(), d.min()])
    w = n[:128]
    yield (
        warp_scan,
        (int32[:], int32[:]),
        (2,),
        (64,),
        (w, np.zeros(128, np.int32)),
        w.reshape(4, 32).cumsum(1).astype(np.int32).ravel(),
    )
    v = RNG.integers(-100, 100, 64).astype(np.int32)
    lanes = v.reshape(2, 32)
    first = (lanes > 0).argmax(1) + 1
    want = ((lanes > 0).sum(1) + 100 * (lanes > 90).any(1) + first).repeat(32).astype(np.int32)
    yield votes, (int32[:], int32[:]), (1,), (64,), (v, np.zeros(64, np.int32)), want
    yield (
        collatz,
        (int64[:], int64[:]),
        (2,),
        (64,),
        (n[:100].astype(np.int64), np.zeros(100, np.int64)),
        np.array([collatz_steps(int(i)) for i in n[:100]]),
    )
    empty = np.zeros((10, 30), np.int32)
    yield mandelbrot, (int32[:, :],), (2, 2), (16, 8), (empty,), expected_mandelbrot(empty)
    e = RNG.standard_normal(60)
    values = [math.erf(i) + math.gamma(abs(i) + 1) + math.atan2(i, 2) + math.log1p(abs(i)) for i in e]
    yield erfs, (float64[:], float64[:]), (1,), (64,), (e, np.zeros(60)), np.array(values)
    s = RNG.integers(0, 99, (32, 8)).astype(np.int32)
    yield local_sort, (int32[:, :], int32[:, :]), (1,), (32,), (s, np.zeros_like(s)), np.sort(s, 1)
    board = RNG.integers(0, 2, (20, 30)).astype(np.int32)
    yield (
        life,
        (int32[:, :], int32[:, :]),
        (2, 3),
        (16, 8),
        (board, np.zeros_like(board)),
        expected_life(board),
    )
    yield bits, (int32[:], int32[:]), (1,), (128,), (n[:100], np.zeros(100, np.int32)), expected_bits(n[:100])


def arguments(values: tuple[object, ...]) -> Iterator[object]:
    """The parameters of Numba's kernels: an array is two empty pointers, sizes, data, shape and strides."""
    for value in values:
        if isinstance(value, np.ndarray):
            yield from (0, 0, value.size, value.itemsize, value, *value.shape, *value.strides)
        else:
            yield value


def case(chip, kernel, signature, grid, block, values, want) -> Results:
    values = tuple(v.copy() if isinstance(v, np.ndarray) else v for v in values)
    ptx, _ = cuda.compile_ptx(kernel, signature, cc=chip, abi="numba", device=False)
    module = harness.parse(ptx)
    harness.launch(module, module.kernels[0], grid, block, list(arguments(values)))
    yield values[-1] if isinstance(values[-1], np.ndarray) else values[1], want, 1e-5


def cases() -> Iterator[Case]:
    for test in tests():
        for chip in CHIPS:
            yield f"{test[0].__name__} sm_{chip[0]}{chip[1]}", lambda test=test, chip=chip: case(chip, *test)
