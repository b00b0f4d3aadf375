"""Numba kernels for the emulator's tests; compile_numba.py makes their PTX."""

import math

from numba import cuda, float32, float64, int32


def axpy(x, y, a):
    i = cuda.grid(1)
    if i < x.shape[0]:
        y[i] = a * x[i] + y[i]


def matmul(a, b, c):
    sa = cuda.shared.array((8, 8), float32)
    sb = cuda.shared.array((8, 8), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for k in range(0, a.shape[1], 8):
        sa[ty, tx] = a[y, k + tx] if y < a.shape[0] and k + tx < a.shape[1] else 0
        sb[ty, tx] = b[k + ty, x] if k + ty < b.shape[0] and x < b.shape[1] else 0
        cuda.syncthreads()
        for j in range(8):
            total += sa[ty, j] * sb[j, tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total


def functions(x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        y[i] = math.sin(x[i]) * math.exp(x[i]) + math.sqrt(abs(x[i])) ** 1.5 + x[i] // 2 + x[i] % 3


def warp_sum(x, y):
    i = cuda.grid(1)
    value = x[i]
    for d in (16, 8, 4, 2, 1):
        value += cuda.shfl_xor_sync(0xFFFFFFFF, value, d)
    if i % 32 == 0:
        cuda.atomic.add(y, 0, value)
        cuda.atomic.max(y, 1, value)


def local(x, y):
    i = cuda.grid(1)
    box = cuda.local.array(8, int32)
    for j in range(8):
        box[(j * 3 + i) % 8] = x[(i + j) % x.shape[0]]
    total = 0
    for j in range(8):
        total = total * 2 + box[j]
    y[i] = total


SIGNATURES = {
    "axpy": (float32[::1], float32[::1], float32),
    "matmul": (float32[:, ::1], float32[:, ::1], float32[:, ::1]),
    "functions": (float64[::1], float64[::1]),
    "warp_sum": (int32[::1], int32[::1]),
    "local": (int32[::1], int32[::1]),
}
