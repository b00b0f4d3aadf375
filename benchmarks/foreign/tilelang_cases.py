"""Kernels in TileLang, whose CUDA C++ nvcc of CUDA 13 compiles, against NumPy.

Compiles as test/emulator/compile_tilelang.py does, and also runs its kernels.
"""

import importlib.util
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import harness
import ml_dtypes
import numpy as np
from harness import Case, Results

from weft import emulator
from weft.isa import tensor_map as isa

SCRIPT = Path(__file__).resolve().parents[2] / "test" / "emulator" / "compile_tilelang.py"
_spec = importlib.util.spec_from_file_location("compile_tilelang", SCRIPT)
compile_tilelang = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(compile_tilelang)

import tilelang.language as T  # noqa: E402

F16, BF16, F8 = np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
KINDS = {0: "UINT8", 6: "FLOAT16", 7: "FLOAT32", 9: "BFLOAT16"}  # the driver's numbers
ALL, TMA = ("sm_80", "sm_90a", "sm_100a", "sm_120a"), ("sm_90a", "sm_100a", "sm_120a")
RNG = np.random.default_rng(10)


def add(rows, columns):
    @T.prim_func
    def main(x: T.Tensor((rows, columns), "float32"), y: T.Tensor((rows, columns), "float32")):
        with T.Kernel(T.ceildiv(columns, 64), T.ceildiv(rows, 32), threads=128) as (i, j):
            held = T.alloc_shared((32, 64), "float32")
            T.copy(x[j * 32, i * 64], held)
            for r, c in T.Parallel(32, 64):
                y[j * 32 + r, i * 64 + c] = y[j * 32 + r, i * 64 + c] + 2.0 * held[r, c]

    return main


def rms_norm(rows, columns):
    @T.prim_func
    def main(x: T.Tensor((rows, columns), "float32"), y: T.Tensor((rows, columns), "float32")):
        with T.Kernel(T.ceildiv(rows, 4), threads=128) as b:
            held = T.alloc_shared((4, columns), "float32")
            values, squares = (T.alloc_fragment((4, columns), "float32") for _ in range(2))
            total = T.alloc_fragment((4,), "float32")
            T.copy(x[b * 4 : (b + 1) * 4, :], held)
            T.copy(held, values)
            for i, j in T.Parallel(4, columns):
                squares[i, j] = values[i, j] * values[i, j]
            T.reduce_sum(squares, total, dim=1)
            for i in T.Parallel(4):
                total[i] = T.rsqrt(total[i] / columns + 1e-6)
            for i, j in T.Parallel(4, columns):
                values[i, j] *= total[i]
            T.copy(values, y[b * 4 : (b + 1) * 4, :])

    return main


def transposed(rows, columns):
    @T.prim_func
    def main(x: T.Tensor((rows, columns), "float16"), y: T.Tensor((columns, rows), "float16")):
        with T.Kernel(T.ceildiv(columns, 32), T.ceildiv(rows, 32), threads=128) as (i, j):
            tile, turned = T.alloc_shared((32, 32), "float16"), T.alloc_shared((32, 32), "float16")
            T.copy(x[j * 32, i * 32], tile)
            for r, c in T.Parallel(32, 32):
                turned[c, r] = tile[r, c]
            T.copy(turned, y[i * 32, j * 32])

    return main


def scan(rows, columns):
    @T.prim_func
    def main(x: T.Tensor((rows, columns), "float32"), y: T.Tensor((rows, columns), "float32")):
        with T.Kernel(T.ceildiv(rows, 8), threads=128) as b:
            held = T.alloc_shared((8, columns), "float32")
            T.copy(x[b * 8, 0], held)
            T.cumsum(held, dim=1)
            T.copy(held, y[b * 8, 0])

    return main


def split_k(m, n, k, splits):
    @T.prim_func
    def main(a: T.Tensor((m, k), "float16"), b: T.Tensor((n, k), "float16"), c: T.Tensor((m, n), "float32")):
        with T.Kernel(T.ceildiv(n, 64), T.ceildiv(m, 64), splits, threads=128) as (x, y, z):
            of_a, of_b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((64, 32), "float16")
            sums = T.alloc_fragment((64, 64), "float32")
            T.clear(sums)
            for step in T.Pipelined(k // splits // 32, num_stages=2):
                T.copy(a[y * 64, z * (k // splits) + step * 32], of_a)
                T.copy(b[x * 64, z * (k // splits) + step * 32], of_b)
                T.gemm(of_a, of_b, sums, transpose_B=True)
            for i, j in T.Parallel(64, 64):
                T.atomic_add(c[y * 64 + i, x * 64 + j], sums[i, j])

    return main


def tensor_memory(m, n, k, kind="bfloat16"):
    @T.prim_func
    def main(a: T.Tensor((m, k), kind), b: T.Tensor((n, k), kind), c: T.Tensor((m, n), "float32")):
        with T.Kernel(T.ceildiv(n, 128), T.ceildiv(m, 128), threads=128) as (x, y):
            of_a, of_b = T.alloc_shared((128, 64), kind), T.alloc_shared((128, 64), kind)
            sums, held = T.alloc_tmem([128, 128], "float32"), T.alloc_fragment((128, 128), "float32")
            done = T.alloc_barrier(1)
            for step in T.Pipelined(T.ceildiv(k, 64), num_stages=2):
                T.copy(a[y * 128, step * 64], of_a)
                T.copy(b[x * 128, step * 64], of_b)
                T.gemm(of_a, of_b, sums, transpose_B=True, clear_accum=step == 0, mbar=done)
            T.copy(sums, held)
            T.copy(held, c[y * 128, x * 128])

    return main


def fp8(m, n, k):
    @T.prim_func
    def main(
        a: T.Tensor((m, k), "float8_e4m3"), b: T.Tensor((n, k), "float8_e4m3"), c: T.Tensor((m, n), "float32")
    ):
        with T.Kernel(T.ceildiv(n, 64), T.ceildiv(m, 64), threads=128) as (x, y):
            of_a, of_b = T.alloc_shared((64, 128), "float8_e4m3"), T.alloc_shared((64, 128), "float8_e4m3")
            sums = T.alloc_fragment((64, 64), "float32")
            T.clear(sums)
            for step in T.Pipelined(T.ceildiv(k, 128), num_stages=3):
                T.copy(a[y * 64, step * 128], of_a)
                T.copy(b[x * 64, step * 128], of_b)
                T.gemm(of_a, of_b, sums, transpose_B=True)
            T.copy(sums, c[y * 64, x * 64])

    return main


def convolution(batch, height, width, channels, filters):
    @T.prim_func
    def main(
        x: T.Tensor((batch, height, width, channels), "float16"),
        w: T.Tensor((9 * channels, filters), "float16"),
        y: T.Tensor((batch * height * width, filters), "float32"),
    ):
        with T.Kernel(T.ceildiv(filters, 64), T.ceildiv(batch * height * width, 64), threads=128) as (i, j):
            of_x, of_w = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            sums = T.alloc_fragment((64, 64), "float32")
            T.clear(sums)
            for step in T.Pipelined(T.ceildiv(9 * channels, 32), num_stages=2):
                T.c2d_im2col(x, of_x, j, step, 3, 1, 1, 1)
                T.copy(w[step * 32, i * 64], of_w)
                T.gemm(of_x, of_w, sums)
            T.copy(sums, y[j * 64, i * 64])

    return main


def tensor_map(given: dict, arrays: dict[str, np.ndarray]) -> emulator.TensorMap:
    """The map that TileLang's host code asks the driver for."""
    options = given["options"]
    common = {
        "dtype": KINDS[given["kind"]],
        "dims": tuple(given["dims"]),
        "strides_bytes": tuple(given["strides"][1:]),
        "element_strides": tuple(given["steps"]),
        "interleave": isa.INTERLEAVES[options["interleave"]],
        "swizzle": isa.SWIZZLE_NAMES[options["swizzle"]],
        "l2_promotion": isa.L2_PROMOTIONS[options["l2"]],
        "oob_fill": isa.OOB_FILLS[options["fill"]],
    }
    array = arrays[given["tensor"]]
    if "box" in given:
        return emulator.TensorMap.tiled(array, box=tuple(given["box"]), **common)
    pixels, channels = given["column"]
    corners = {f"{end}_corner": tuple(given[f"{end}_corner"]) for end in ("lower", "upper")}
    column = {"pixels_per_column": pixels, "channels_per_pixel": channels}
    return emulator.TensorMap.im2col(array, **corners, **column, **common)


def launch(made: Callable, sizes: tuple, chip: str, arrays: dict[str, np.ndarray]) -> None:
    nvcc = os.environ.get("WEFT_NVCC", "nvcc")
    with tempfile.TemporaryDirectory() as folder:
        compile_tilelang.CASES["case"] = made, sizes
        compile_tilelang.compile_case(Path(folder), "case", chip, nvcc)
        (ptx,) = Path(folder).glob("*.ptx")
        module, facts = harness.parse(ptx.read_text()), json.loads(ptx.with_suffix(".json").read_text())
    numbers, rank = facts["numbers"], len(facts["numbers"]) - 4
    args = [tensor_map(a, arrays) if isinstance(a, dict) else arrays[a] for a in facts["arguments"]]
    grid, block = tuple(numbers[:rank]), tuple(numbers[rank : rank + 3])
    harness.launch(module, "main_kernel", grid, block, args, shared_bytes=numbers[-1])


def random(*shape: int, kind: type = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(kind)


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(wide(x) - wide(x).max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    return softmax(wide(q) @ wide(k).swapaxes(1, 2) / q.shape[-1] ** 0.5) @ wide(v)


def convolved(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    padded = np.pad(wide(x), ((0, 0), (1, 1), (1, 1), (0, 0)))
    height, width = x.shape[1:3]
    taps = [padded[:, i : i + height, j : j + width] for i in range(3) for j in range(3)]
    return np.concatenate(taps, -1).reshape(-1, len(w)) @ wide(w)


def tests() -> Iterator[tuple]:
    """Name, function and sizes, inputs by name, the result, what it must be, tolerance, chips."""
    kernels, turned = compile_tilelang.kernels, lambda a, b: wide(a) @ wide(b).T
    plain = lambda a, b: wide(a) @ wide(b)  # noqa: E731
    for name, kind, out in (("matmul", F16, F16), ("matmul_bf16", BF16, np.float32)):
        a, b = random(328, 200, kind=kind), random(200, 264, kind=kind)
        yield name, *compile_tilelang.CASES[name], {"a": a, "b": b}, ("c", (328, 264), out), plain, 1e-3, ALL
    a, b = (RNG.integers(-128, 128, shape, np.int8) for shape in ((320, 192), (192, 256)))
    yield (
        "matmul_int8",
        *compile_tilelang.CASES["matmul_int8"],
        {"a": a, "b": b},
        ("c", (320, 256), np.int32),
        (lambda a, b: a.astype(np.int32) @ b.astype(np.int32)),
        0,
        ALL,
    )
    x = random(37, 768)
    yield "softmax", kernels.softmax, (37, 768), {"x": x}, ("y", x.shape, np.float32), softmax, 1e-5, ALL
    q, k, v = random(3, 3, 320, 64, kind=F16)
    given = {"q": q, "k": k, "v": v}
    yield "attention", *compile_tilelang.CASES["attention"], given, ("o", q.shape, F16), attended, 4e-3, ALL
    x = random(40, 200)
    yield "add", add, x.shape, {"x": x}, ("y", x.shape, np.float32), lambda x: 2 * x, 1e-6, ALL
    x = random(36, 512)
    norm = lambda x: wide(x) / np.sqrt((wide(x) ** 2).mean(1, keepdims=True) + 1e-6)  # noqa: E731
    yield "rms_norm", rms_norm, x.shape, {"x": x}, ("y", x.shape, np.float32), norm, 1e-5, ALL
    x = random(72, 104, kind=F16)
    yield "transposed", transposed, x.shape, {"x": x}, ("y", (104, 72), F16), lambda x: wide(x).T, 0, ALL
    x = random(24, 128)
    yield "scan", scan, x.shape, {"x": x}, ("y", x.shape, np.float32), lambda x: wide(x).cumsum(1), 1e-5, ALL
    a, b = random(128, 256, kind=F16), random(192, 256, kind=F16)
    out = ("c", (128, 192), np.float32)
    yield "split_k", split_k, (128, 192, 256, 4), {"a": a, "b": b}, out, turned, 1e-4, ALL
    a, b = random(200, 256, kind=F8), random(136, 256, kind=F8)
    out = ("c", (200, 136), np.float32)
    yield "fp8", fp8, (200, 136, 256), {"a": a, "b": b}, out, turned, 1e-3, TMA
    x, w = random(2, 12, 16, 32, kind=F16), random(288, 96, kind=F16)
    out = ("y", (384, 96), np.float32)
    yield "convolution", convolution, (*x.shape, 96), {"x": x, "w": w}, out, convolved, 1e-4, TMA
    for kind, name in ((BF16, "bfloat16"), (F16, "float16")):
        a, b = random(200, 192, kind=kind), random(264, 192, kind=kind)
        out, sizes = ("c", (200, 264), np.float32), (200, 264, 192, name)
        yield f"tcgen05 {name}", tensor_memory, sizes, {"a": a, "b": b}, out, turned, 1e-4, ("sm_100a",)


def case(chip, made, sizes, inputs, out, expected, tolerance) -> Results:
    name, shape, kind = out
    result = np.zeros(shape, kind)
    launch(made, sizes, chip, {name: result} | inputs)
    want = expected(*inputs.values())
    yield result if kind is np.int32 else wide(result), want, tolerance


def cases() -> Iterator[Case]:
    for name, *test, chips in tests():
        for chip in chips:
            yield f"{name} {chip}", partial(case, chip, *test)
