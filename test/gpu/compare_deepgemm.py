"""Holds Weft's groups on sm_90a to DeepGEMM's kernels, bit for bit, in the emulator. It needs nvcc, no GPU.

    python test/gpu/compare_deepgemm.py DEEPGEMM CUTLASS

The arguments are checkouts of DeepGEMM (last compared: 54e2261) and of CUTLASS. The kernels are those of rows
given by prefix sums and of groups along K, in bf16 and in fp8 with float32 scales.
"""

import argparse
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import weft
from weft import emulator, reference

BF16, F8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
GROUPS, M, N, STAGES, CTAS, THREADS = 4, 128, 64, 3, 4, (128, 256)  # of DeepGEMM's kernels
SHARED_BYTES = 160 << 10
SCHEDULES = (
    None,
    "{{block = array<i64: 128, 64, {k}>, warpgroups = 2, stages = 3}}",
    "{{block = array<i64: 64, 128, {k}>, warpgroups = 1, stages = 3, cluster = array<i64: 2, 1>}}",
    "{{block = array<i64: 128, 16, {k}>, warpgroups = 2, stages = 3, swap = true}}",
)
RNG = np.random.default_rng(1)
MAPPED = {BF16: "BFLOAT16", F8: "UINT8", np.float32: "FLOAT32"}
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Kernel:
    """One of DeepGEMM's: its header, and the template's arguments around the sizes that all have."""

    header: str
    before: str
    k: int
    swizzles: tuple[int, ...]
    after: str

    @property
    def source(self) -> str:
        """CUDA that instantiates it."""
        pipeline = f"{STAGES}, {THREADS[0]}, {THREADS[1]}, 1, false, {CTAS}"
        sizes = f"0, 0, 0, {GROUPS}, {M}, {N}, {self.k}, {', '.join(map(str, self.swizzles))}, {pipeline}"
        what = f"{self.header}_impl<{self.before}{sizes}, {self.after}>"
        return (
            f"#include <deep_gemm/impls/{self.header}.cuh>\n"
            "using namespace deep_gemm;\nusing Major = cute::UMMA::Major;\n"
            f"static void instantiate() {{ auto kernel = reinterpret_cast<void*>(&{what}); }}\n"
        )


_BF16, _FP8 = "sm90_bf16_gemm", "sm90_fp8_gemm"
_ROWS, _K = "GemmType::MGroupedContiguousWithPsumLayout", "GemmType::KGroupedContiguous"
_B = "cutlass::bfloat16_t"
KERNELS = {
    "bf16 row_ends": Kernel(_BF16, "Major::K, Major::K, ", 64, (128, 128, 128), f"{_ROWS}, false, {_B}"),
    "bf16 k_ends": Kernel(_BF16, "Major::MN, Major::MN, ", 64, (128, 128, 0), f"{_K}, true, float"),
    "fp8 row_ends": Kernel(
        f"{_FP8}_1d2d",
        "Major::MN, ",
        128,
        (128, 128, 128),
        f"{_ROWS}, {_B}, epilogue::transform::EpilogueIdentity",
    ),
    "fp8 k_ends": Kernel(f"{_FP8}_1d1d", "", 128, (128, 128), f"{_K}, float"),
}


def compiled(kernel: Kernel, deepgemm: Path, cutlass: Path) -> str:
    """Its PTX."""
    with tempfile.TemporaryDirectory() as folder:
        source, ptx = Path(folder, "kernel.cu"), Path(folder, "kernel.ptx")
        source.write_text(kernel.source)
        include = [f"-I{deepgemm}/deep_gemm/include", f"-I{cutlass}/include"]
        flags = ["-std=c++20", "-arch=sm_90a", "-O3", "-w", "--expt-relaxed-constexpr"]
        subprocess.run(["nvcc", *flags, *include, "-ptx", "-o", ptx, source], check=True)
        return ptx.read_text()


def mapped(x: Array, box: tuple[int, int], swizzle: str = "128B") -> emulator.TensorMap:
    """A tensor map of a matrix, or of the matrices of a batch below each other."""
    width, kind = x.shape[-1], MAPPED[x.dtype.type]
    return emulator.TensorMap.tiled(
        x,
        dtype=kind,
        dims=(width, x.size // width),
        strides_bytes=(width * x.itemsize,),
        box=box,
        swizzle=swizzle,
    )


def scales(*shape: int) -> Array:
    return (RNG.random(shape) + 0.5).astype(np.float32)


Case = tuple[list[Any], Array, Callable[[Array, Any], Any], list[slice]]


def of_rows(fp8: bool) -> Case:
    """DeepGEMM's arguments, its D, Weft's call, and the rows that have a product."""
    kind, n, k = (F8, 136, 384) if fp8 else (BF16, 136, 200)
    ends = reference.ends([100, 256, 60, 128], 128)
    a, b = (RNG.standard_normal(shape).astype(kind) for shape in ((int(ends[-1]), k), (GROUPS, n, k)))
    d, depth = np.zeros((len(a), n), BF16), 128 // a.itemsize
    arguments = [
        ends,
        *d.shape,
        k,
        mapped(a, (depth, M)),
        mapped(b, (depth, N)),
        mapped(d, (64, M)),
    ]
    options: dict[str, Any] = {"transpose_b": True, "row_ends": ends}
    if fp8:
        of_a, of_b = scales(k // 128, len(a)), scales(GROUPS, 2, k // 128)
        options["scales"] = of_a.T, of_b
        transposed = np.ascontiguousarray(of_b.swapaxes(1, 2))
        arguments = [transposed, *arguments, mapped(of_a, (M, 1), "none")]
    return (
        arguments,
        d,
        lambda out, s: weft.matmul(a, b, out=out, schedule=s, **options),
        reference.spans(ends, 128),
    )


def of_k(fp8: bool) -> Case:
    """As `of_rows`; A and B of bf16 are MN-major, and those of fp8 a K-major matrix for each group."""
    m, n, sizes = 256, 128, np.array([128, 384, 0, 256], np.int32)
    ends, d = reference.ends(sizes, 128), RNG.standard_normal((GROUPS, m, n)).astype(np.float32)
    # With fp8, each warpgroup stores its own rows.
    k, maps = int(ends[-1]), [mapped(d, (N, M // (1 + fp8)), "none")]
    options: dict[str, Any] = {"k_ends": ends, "beta": 1.0}
    if not fp8:
        a, b = (RNG.standard_normal((k, extent)).astype(BF16) for extent in (m, n))
        arguments = [sizes, m, n, k, mapped(a, (64, 64)), mapped(b, (64, 64)), *maps]
        options["transpose_a"] = True
    else:
        a, b = (RNG.standard_normal((extent, k)).astype(F8) for extent in (m, n))
        of_a, of_b = scales(k // 128, m), scales(k // 128, n)
        apart = [np.concatenate([x[:, s].ravel() for s in reference.spans(ends, 128)]) for x in (a, b)]
        first = [x[: extent * sizes[0]].reshape(extent, -1) for x, extent in zip(apart, (m, n), strict=True)]
        maps = [mapped(of_a, (M, 1), "none"), mapped(of_b, (N, 1), "none"), *maps]
        maps = [mapped(first[0], (128, M)), mapped(first[1], (128, N)), *maps]
        arguments = [*apart, sizes, np.zeros(CTAS * 2 * 128, np.uint8), m, n, k, *maps]
        options |= {"transpose_b": True, "scales": (of_a.T, of_b.T)}
    return arguments, d, lambda out, s: weft.matmul(a, b, out=out, schedule=s, **options), [slice(GROUPS)]


def differing(name: str, ptx: str) -> Iterator[tuple[Any, int]]:
    """Weft's schedules, and how many elements of D have other bits."""
    arguments, d, multiply, parts = (of_rows if "row" in name else of_k)(fp8="fp8" in name)
    before = d.copy()
    entry = re.search(r"\.entry (\w+)", ptx)
    assert entry is not None
    emulator.Module(ptx).launch(
        entry[1], grid=CTAS, block=sum(THREADS), args=arguments, shared_bytes=SHARED_BYTES
    )
    bits = np.uint16 if d.itemsize == 2 else np.uint32
    for text in SCHEDULES:
        out, schedule = before.copy(), text and text.format(k=KERNELS[name].k)
        multiply(out, schedule)
        yield schedule, sum(int((out[part].view(bits) != d[part].view(bits)).sum()) for part in parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("deepgemm", type=Path)
    parser.add_argument("cutlass", type=Path)
    options = parser.parse_args()
    wrong = 0
    for name, kernel in KERNELS.items():
        for schedule, count in differing(name, compiled(kernel, options.deepgemm, options.cutlass)):
            print(f"{name}, {schedule or 'the chosen schedule'}: {count} elements differ", flush=True)
            wrong += count
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
