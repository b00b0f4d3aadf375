"""DeepGEMM's kernels, as its JIT instantiates them, against NumPy. Needs nvcc of CUDA 13.

The headers, and those of CUTLASS, are from SGLang's fork, which is on PyPI. The tensor maps are those that
DeepGEMM's host code makes.
"""

import functools
import hashlib
import importlib.util
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import harness
import ml_dtypes
import numpy as np
from harness import Case, Results

from weft import emulator

BF16, F8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
MAPPED = {BF16: "BFLOAT16", F8: "UINT8", np.float32: "FLOAT32", np.int32: "INT32"}
SPELLED = {BF16: "cutlass::bfloat16_t", F8: "cutlass::float_e4m3_t", np.float32: "float"}
CTAS, GROUPS, SHARED_BYTES = 4, 3, 225 << 10
RNG = np.random.default_rng(9)


@functools.cache
def compiled(chip: str, header: str, kernel: str) -> emulator.Module:
    """The module of an instantiated kernel."""
    source = (
        f"#include <deep_gemm/impls/{header}.cuh>\nusing namespace deep_gemm;\n"
        f"static void instantiate() {{ auto kernel = reinterpret_cast<void*>(&{kernel}); }}\n"
    )
    ((include),) = importlib.util.find_spec("deep_gemm").submodule_search_locations
    folder = Path(os.environ.get("FOREIGN_CACHE", "/tmp"), "deepgemm")
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / f"{hashlib.sha256((chip + source).encode()).hexdigest()[:20]}.cu"
    ptx = text.with_suffix(".ptx")
    if not ptx.exists():
        text.write_text(source)
        nvcc = os.environ.get("WEFT_NVCC", "nvcc")
        flags = [
            "-std=c++20",
            "-O3",
            "-w",
            "--expt-relaxed-constexpr",
            f"-arch={chip}",
            f"-I{include}/include",
        ]
        made = subprocess.run(
            [nvcc, *flags, "--ptx", "-o", ptx, text], capture_output=True, text=True, check=False
        )
        if made.returncode:
            raise RuntimeError(made.stderr[-600:])
    return harness.parse(ptx.read_text())


def mapped(
    x: np.ndarray, box: tuple[int, int], swizzle: str = "128B", **options: object
) -> emulator.TensorMap:
    """The map of a matrix, or of the matrices of a batch below each other."""
    width = x.shape[-1]
    given = {
        "dtype": MAPPED.get(x.dtype.type),
        "dims": (width, x.size // width),
        "strides_bytes": (width * x.itemsize,),
    }
    return emulator.TensorMap.tiled(x, box=box, swizzle=swizzle, **given | options)


@dataclass
class Product:
    """A form of DeepGEMM's products: what is grouped, types, and what the template's arguments decide."""

    header: str
    chip: str = "sm_90a"
    grouped: str = "Normal"
    out: type = BF16
    m: int = 200
    block: tuple[int, int] = (128, 128)
    cluster: tuple[int, int] = (1, 1)
    major: str = "K"
    swapped: bool = False
    adds: bool = False
    fp4: bool = False
    sizes: tuple[int, int] = (264, 384)  # N and K
    layout: np.ndarray | int = field(default=0, repr=False)
    parts: list[tuple[slice, int]] = field(default_factory=list, repr=False)

    @property
    def fp8(self) -> bool:
        return "fp8" in self.header

    @property
    def blackwell(self) -> bool:
        return self.chip != "sm_90a"

    def groups(self) -> int:
        """Sets the rows of each group, and what tells the kernel of them; returns the number of groups."""
        if self.grouped == "Normal":
            self.parts = [(slice(self.m), 0)]
            return 1
        begins, ends = np.array([0, 128, 384]), np.array([100, 384, 414])
        if self.grouped == "MGroupedContiguous":
            ends = np.array([128, 384, 512])
            self.layout = np.arange(GROUPS, dtype=np.int32).repeat(ends - begins)
        elif self.grouped == "MGroupedMasked":
            self.m, begins = 256, 256 * np.arange(GROUPS)
            self.layout = np.array([100, 0, 200], np.int32)
            ends = begins + self.layout
        else:
            self.layout = ends.astype(np.int32)
        if self.grouped != "MGroupedMasked":
            self.m = 512
        self.parts = [(slice(*rows), at) for at, rows in enumerate(zip(begins, ends, strict=True))]
        return GROUPS

    def source(self, groups: int) -> str:
        """The instantiated kernel, with sizes that it learns when it runs."""
        block = f"{self.block[0]}, {self.block[1]}, {128 if self.fp8 else 64}"
        multicast = f"{self.cluster[0] * self.cluster[1]}, {str(self.cluster[1] > 1).lower()}"
        major, kind, out = f"cute::UMMA::Major::{self.major}", f"GemmType::{self.grouped}", SPELLED[self.out]
        name = f"{self.header}_impl"
        store = 0 if self.out is np.float32 else 128
        adds = str(self.adds).lower()
        if not self.blackwell:
            threads = f"3, 128, {128 if self.block[0] == 64 else 256}, {multicast}, {CTAS}"
            sizes = f"0, 0, 0, {groups}, {block}, 128, 128"
            if not self.fp8:
                return f"{name}<{major}, {major}, {sizes}, {store}, {threads}, {kind}, {adds}, {out}>"
            if "1d2d" in self.header:
                return f"{name}<{major}, {sizes}, {store}, {threads}, {kind}, {out}>"
            return f"{name}<{sizes}, {threads}, {kind}, {out}>"
        swapped = str(self.swapped).lower()
        sizes = f"0, 0, 0, {block}, {groups}, 128, 128, 128, 3"
        threads = f"128, 128, {multicast}, {CTAS}"
        end = f"{swapped}, false, {kind}, {adds}"
        operator = "epilogue::operators::Identity"
        if not self.fp8:
            return f"{name}<{major}, {major}, {sizes}, {threads}, 128, {end}, {out}, {operator}, 100>"
        b = "cutlass::detail::float_e2m1_unpacksmem_t" if self.fp4 else SPELLED[F8]
        first, types = f"128, {32 if self.fp4 else 128}, 128", f"{SPELLED[F8]}, {b}, {out}, {operator}"
        return f"{name}<{major}, {major}, {first}, {sizes}, 2, {threads}, {end}, {types}>"


def random(*shape: int, kind: type) -> np.ndarray:
    return RNG.standard_normal(shape).astype(kind)


def powers(groups: int, rows: int, k: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Scales that are powers of two: their bytes by fours along K, and the scale of each element."""
    exponents = RNG.integers(-2, 3, (groups, rows, k // step))
    data = np.zeros((groups, rows, -(-k // step // 4) * 4), np.uint8)
    data[..., : k // step] = exponents + 127
    words = np.ascontiguousarray(data.view(np.int32).swapaxes(1, 2))
    return words, np.exp2(exponents.astype(np.float64)).repeat(step, 2)


def fp4(groups: int, rows: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Packed numbers of type e2m1, and their values."""
    nibbles = RNG.integers(0, 16, (groups, rows, k)).astype(np.uint8)
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])[nibbles & 7] * np.where(nibbles & 8, -1, 1)
    return nibbles[..., ::2] | nibbles[..., 1::2] << 4, values


def factors(p: Product, groups: int, rows: int) -> tuple[np.ndarray, np.ndarray, list, list]:
    """The values of A and B, their maps, and what the kernel gets of A and B beside them."""
    (n, k), (bm, bn) = p.sizes, p.block
    kind = F8 if p.fp8 else BF16
    a, b = random(rows, k, kind=kind), random(groups, n, k, kind=kind)
    of_a, of_b = a.astype(np.float64), b.astype(np.float64)
    if p.major == "MN":
        return of_a, of_b, [mapped(np.ascontiguousarray(x.T), (64, 64)) for x in (a, b[0])], []
    options: dict[str, object] = {}
    if p.fp4:
        b, of_b = fp4(groups, n, k)
        options = {"dtype": "16U4_ALIGN16B", "dims": (k, n * groups)}
    # The CTAs of a pair load halves, those of a cluster the whole.
    shares = p.cluster if p.blackwell else (1, 1)
    depth = 128 // a.itemsize
    maps = [mapped(a, (depth, bm // shares[1])), mapped(b, (depth, bn // shares[0]), **options)]
    if not p.fp8:
        return of_a, of_b, maps, []
    scale_a, scale_b, before, more = scales(p, groups, rows)
    return of_a * scale_a.reshape(of_a.shape), of_b * scale_b, [*maps, *more], before


def scales(p: Product, groups: int, rows: int) -> tuple[np.ndarray, np.ndarray, list, list]:
    """The scale of each element of A and B, arguments before the sizes, and maps."""
    (n, k), (bm, bn) = p.sizes, p.block
    if p.blackwell:
        words_a, of_a = powers(rows // p.m, p.m, k, 128)
        words_b, of_b = powers(groups, n, k, 32 if p.fp4 else 128)
        boxes = ((words_a, bm), (words_b, bn))
        return of_a, of_b, [], [mapped(words, (-(-size // 128) * 128, 1), "none") for words, size in boxes]
    by_row = (RNG.random((rows // p.m, k // 128, p.m)) + 0.5).astype(np.float32)
    of_a, to_a = by_row.swapaxes(1, 2).repeat(128, 2), mapped(by_row, (bm, 1), "none")
    if "1d2d" in p.header:
        by_block = (RNG.random((groups, -(-n // 128), k // 128)) + 0.5).astype(np.float32)
        return of_a, by_block.repeat(128, 1)[:, :n].repeat(128, 2), [by_block], [to_a]
    by_column = (RNG.random((k // 128, n)) + 0.5).astype(np.float32)
    return of_a, by_column.T.repeat(128, 1), [0, 0], [to_a, mapped(by_column, (bn, 1), "none")]


def product(p: Product) -> Results:
    """D of A times the transpose of B, for each group of rows."""
    groups = p.groups()
    n, (bm, bn) = p.sizes[0], p.block
    rows = p.m * (groups if p.grouped == "MGroupedMasked" else 1)
    a, b, maps, before = factors(p, groups, rows)
    d = random(rows, n, kind=p.out) if p.adds else np.zeros((rows, n), p.out)
    want = d.astype(np.float64)
    if p.blackwell:
        to_d = mapped(d, (128 // d.itemsize, 16 if p.swapped else bm))
    elif p.out is np.float32:
        to_d = mapped(d, (bn, 64 if p.fp8 else bm), "none")
    else:
        to_d = mapped(d, (64, bm))
    maps.insert(2 if "1d2d" in p.header else len(maps), to_d)
    sizes: list[object] = [p.m, *p.sizes]
    if p.blackwell:  # and the arguments of an epilogue
        sizes.append(emulator.Struct(48, {12: np.uint32(p.m), 16: np.uint32(n), 20: np.float32(1)}))
    between = [0] if "sm90_fp8_gemm_1d1d" in p.header else []  # memory for maps of groups
    arguments = [*before, p.layout, *between, *sizes, *maps]
    module, threads = compiled(p.chip, p.header, p.source(groups)), 256 if p.blackwell or bm == 64 else 384
    options = {"cluster": p.cluster[0] * p.cluster[1], "shared_bytes": SHARED_BYTES}
    harness.launch(module, module.kernels[0], CTAS, threads, arguments, **options)
    tolerance = 1e-2 if p.out is BF16 else 2e-3 if p.fp8 else 1e-5
    for part, group in p.parts:
        want[part] += a[part] @ b[group].T
        yield d[part].astype(np.float64), want[part], tolerance


BF, D1, D2 = "sm90_bf16_gemm", "sm90_fp8_gemm_1d1d", "sm90_fp8_gemm_1d2d"
TC, TC8 = "sm100_bf16_gemm", "sm100_fp8_fp4_gemm_1d1d"
ROWS = ("MGroupedContiguous", "MGroupedMasked", "MGroupedContiguousWithPsumLayout")
F32 = np.float32
PRODUCTS = {
    "bf16": Product(BF),
    "bf16 64 rows": Product(BF, block=(64, 256)),
    "bf16 added to f32": Product(BF, out=F32, adds=True),
    "bf16 MN-major": Product(BF, major="MN", sizes=(264, 192)),
    "bf16 multicast A": Product(BF, cluster=(1, 2)),
    "bf16 multicast B": Product(BF, cluster=(2, 1)),
    **{f"bf16 {kind}": Product(BF, grouped=kind) for kind in ROWS},
    "fp8 1d2d": Product(D2),
    "fp8 1d2d 112 columns": Product(D2, block=(64, 64), sizes=(112, 256)),
    "fp8 1d2d multicast A": Product(D2, cluster=(1, 2)),
    **{f"fp8 1d2d {kind}": Product(D2, grouped=kind) for kind in ROWS},
    "fp8 1d1d": Product(D1, out=F32),
    "fp8 1d1d multicast B": Product(D1, out=F32, cluster=(2, 1)),
}
TCGEN05 = {
    "bf16": Product(TC),
    "bf16 added to f32": Product(TC, out=F32, adds=True),
    "bf16 pairs": Product(TC, cluster=(2, 1), m=256),
    "bf16 swapped": Product(TC, block=(96, 128), swapped=True),
    "bf16 swapped pairs": Product(TC, block=(64, 128), swapped=True, cluster=(1, 2), sizes=(256, 384)),
    **{f"bf16 {kind}": Product(TC, grouped=kind, swapped=True) for kind in ROWS},
    "fp8": Product(TC8),
    "fp8 f32": Product(TC8, out=F32),
    "fp8 pairs": Product(TC8, cluster=(2, 1), m=256),
    "fp8 swapped": Product(TC8, block=(96, 128), swapped=True),
    **{f"fp8 {kind}": Product(TC8, grouped=kind, swapped=True) for kind in ROWS},
    "fp8 by fp4": Product(TC8, fp4=True),
}


def cases() -> Iterator[Case]:
    for name, p in PRODUCTS.items():
        yield f"{name} sm_90a", functools.partial(product, p)
    for name, p in TCGEN05.items():
        p.chip = "sm_100a"
        yield f"{name} sm_100a", functools.partial(product, p)
