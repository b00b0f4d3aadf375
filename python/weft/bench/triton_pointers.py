"""A product in Triton for chips without TMA, for comparison: the kernel of Triton's tutorial, in some
configurations. It is compiled for a chip that needn't be there, up to its PTX.

It imports Triton, so `compiling` imports it only where that is installed.
"""

import math
from dataclasses import dataclass

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

_GROUP = 8
_ALIGNED = 16  # of pointers, sizes and strides: what Triton's own launcher finds out before it compiles


@dataclass(frozen=True)
class Config:
    """A tile of D, the bytes of K that are read at a time, warps and stages."""

    block_m: int
    block_n: int
    block_k_bytes: int
    warps: int
    stages: int


# Those that win somewhere on an H200, and their neighbors.
CONFIGS = (
    Config(128, 256, 128, 8, 3),
    Config(256, 128, 128, 8, 3),
    Config(128, 128, 128, 4, 3),
    Config(128, 128, 128, 8, 3),
    Config(128, 128, 64, 4, 4),
    Config(128, 64, 64, 4, 4),
    Config(64, 128, 64, 4, 4),
    Config(64, 256, 64, 4, 4),
    Config(64, 64, 128, 4, 4),
    Config(64, 32, 128, 4, 5),
    Config(32, 64, 128, 4, 5),
    Config(16, 128, 128, 4, 5),
    Config(16, 64, 256, 4, 5),
    Config(16, 32, 256, 4, 6),
    Config(16, 64, 256, 2, 4),
    Config(16, 32, 512, 2, 4),
)
# Types of A and B, of D, of sums.
_TYPES = {
    "bf16": ("*bf16", "*bf16", tl.float32, tl.bfloat16, 2),
    "f16": ("*fp16", "*fp16", tl.float32, tl.float16, 2),
    "e4m3": ("*fp8e4nv", "*bf16", tl.float32, tl.bfloat16, 1),
    "s8": ("*i8", "*i32", tl.int32, tl.int32, 1),
}
INPUTS = tuple(_TYPES)


@dataclass(frozen=True)
class Compiled:
    """PTX, and what a launch needs."""

    ptx: str
    name: str
    threads: int
    shared_bytes: int
    scratch: int  # pointers after the arguments, which this kernel doesn't use


@triton.jit
def _product(
    a,
    b,
    d,
    m,
    n,
    k,
    stride_a,
    stride_b,
    stride_d,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    EVEN_K: tl.constexpr,
    SUM: tl.constexpr,
    OUT: tl.constexpr,
):
    """D = A Bᵀ; one tile of D for each CTA, in groups of GROUP rows of tiles."""
    rows, columns = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    tile = tl.program_id(0)
    first = tile // (GROUP * columns) * GROUP
    within = tile % (GROUP * columns)
    height = min(rows - first, GROUP)
    row, column = first + within % height, within // height
    of_a = (row * BLOCK_M + tl.arange(0, BLOCK_M)) % m
    of_b = (column * BLOCK_N + tl.arange(0, BLOCK_N)) % n
    depth = tl.arange(0, BLOCK_K)
    left = a + of_a[:, None].to(tl.int64) * stride_a + depth[None, :]
    right = b + of_b[None, :].to(tl.int64) * stride_b + depth[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), SUM)
    for step in range(tl.cdiv(k, BLOCK_K)):
        if EVEN_K:
            x, y = tl.load(left), tl.load(right)
        else:
            rest = k - step * BLOCK_K
            x = tl.load(left, mask=depth[None, :] < rest, other=0)
            y = tl.load(right, mask=depth[:, None] < rest, other=0)
        total = tl.dot(x, y, total, out_dtype=SUM)
        left += BLOCK_K
        right += BLOCK_K
    at_m = row * BLOCK_M + tl.arange(0, BLOCK_M)
    at_n = column * BLOCK_N + tl.arange(0, BLOCK_N)
    out = d + at_m[:, None].to(tl.int64) * stride_d + at_n[None, :]
    tl.store(out, total.to(OUT), mask=(at_m[:, None] < m) & (at_n[None, :] < n))


def compiled(inputs: str, config: Config, chip: str, *, even_k: bool, one_row: bool) -> Compiled:
    """The kernel for a chip. Its arguments are A, B, D, M, N, K and the strides of A, B and D, all multiples
    of 16, except for M if `one_row`: M isn't then. Raises Triton's errors.
    """
    operand, result, sums, out, size = _TYPES[inputs]
    numbers = ("m", "n", "k", "stride_a", "stride_b", "stride_d")
    signature = {"a": operand, "b": operand, "d": result} | dict.fromkeys(numbers, "i32")
    constants: dict[str, object] = {
        "BLOCK_M": config.block_m,
        "BLOCK_N": config.block_n,
        "BLOCK_K": config.block_k_bytes // size,
        "GROUP": _GROUP,
        "EVEN_K": even_k,
        "SUM": sums,
        "OUT": out,
    }
    unaligned = {list(signature).index("m")} if one_row else set()
    aligned = {(i,): [["tt.divisibility", _ALIGNED]] for i in range(len(signature)) if i not in unaligned}
    source = ASTSource(_product, signature | dict.fromkeys(constants, "constexpr"), constants, aligned)
    options = {"num_warps": config.warps, "num_stages": config.stages}
    target = GPUTarget("cuda", int(chip.removeprefix("sm_").rstrip("af")), 32)
    kernel = triton.compile(source, target=target, options=options)
    parameters = kernel.asm["ptx"].partition(".entry")[2].partition(")")[0].count(".param")
    scratch = parameters - len(signature)
    return Compiled(
        kernel.asm["ptx"], kernel.metadata.name, 32 * config.warps, kernel.metadata.shared, scratch
    )


def tiles(config: Config, m: int, n: int) -> int:
    """The CTAs of a launch."""
    return math.ceil(m / config.block_m) * math.ceil(n / config.block_n)
