"""A product in Triton, for comparison: a persistent kernel that copies by TMA, in a few configurations.

It imports Triton and PyTorch, so `implementations` imports it only where both are installed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from weft.bench.implementation import Call, Refusal, milliseconds
from weft.bench.problem import INPUTS, Buffers, Problem


@dataclass(frozen=True)
class Config:
    """A tile of D and how much of K it reads at a time (in bytes, since that is what shared memory holds).

    `group` block rows are walked through together; `halves` stores a tile as two, through half the memory.
    """

    block_m: int
    block_n: int
    block_k_bytes: int
    group: int
    halves: bool
    stages: int
    warps: int


# Those that win in most shapes on an H200.
CONFIGS = (
    Config(128, 256, 128, 8, True, 4, 8),
    Config(128, 256, 128, 8, True, 3, 8),
    Config(128, 256, 128, 16, True, 4, 8),
    Config(128, 128, 128, 8, False, 5, 4),
    Config(64, 128, 256, 8, False, 4, 4),
    Config(64, 64, 256, 8, False, 6, 4),
)


@triton.jit
def _tile(tile, rows, columns, GROUP: tl.constexpr):
    """Block row and column of a tile: groups of rows, columns within a group, rows within a column."""
    first = tile // (GROUP * columns) * GROUP
    within = tile % (GROUP * columns)
    height = min(rows - first, GROUP)
    return first + within % height, within // height


@triton.jit
def _product(
    a,
    b,
    d,
    m,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    HALVES: tl.constexpr,
    SUM: tl.constexpr,
):
    """D = A Bᵀ; tensor descriptors with blocks of a tile's size, D's half as wide with HALVES."""
    rows, columns, steps = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N), tl.cdiv(k, BLOCK_K)
    stride = tl.num_programs(0)
    # Counted apart from the loop's own variable, the stores of a tile don't hold up the copies of the next.
    stored = tl.program_id(0) - stride
    for tile in tl.range(tl.program_id(0), rows * columns, stride, flatten=True):
        row, column = _tile(tile, rows, columns, GROUP)
        total = tl.zeros((BLOCK_M, BLOCK_N), SUM)
        for step in range(steps):
            left = a.load([row * BLOCK_M, step * BLOCK_K])
            right = b.load([column * BLOCK_N, step * BLOCK_K])
            total = tl.dot(left, right.T, total, out_dtype=SUM)
        stored += stride
        row, column = _tile(stored, rows, columns, GROUP)
        if HALVES:
            both = tl.permute(tl.reshape(total, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))
            first, second = tl.split(both)
            d.store([row * BLOCK_M, column * BLOCK_N], first.to(d.dtype))
            d.store([row * BLOCK_M, column * BLOCK_N + BLOCK_N // 2], second.to(d.dtype))
        else:
            d.store([row * BLOCK_M, column * BLOCK_N], total.to(d.dtype))


def prepare(problem: Problem, sets: Sequence[Buffers]) -> list[Call]:
    """The calls of the configuration that is fastest for this problem. Raises Refusal where none runs."""
    if any(each.stride(0) * each.element_size() % 16 for each in (sets[0].a, sets[0].b, sets[0].d)):
        raise Refusal("rows must be multiples of 16 bytes for TMA")
    timed: list[tuple[float, list[Call]]] = []
    reason: Exception | None = None
    for config in CONFIGS:
        calls = [_call(problem, each, config) for each in sets]
        try:
            timed.append((milliseconds(calls), calls))
        except triton.TritonError as refused:
            reason = refused
    if not timed:
        raise Refusal(f"no configuration of the Triton kernel runs: {reason}")
    return min(timed, key=lambda entry: entry[0])[1]


def _call(problem: Problem, each: Buffers, config: Config) -> Call:
    size = INPUTS[problem.inputs].element.bits // 8
    block_k = config.block_k_bytes // size
    width = config.block_n // 2 if config.halves else config.block_n
    operands = (
        TensorDescriptor.from_tensor(each.a, [config.block_m, block_k]),
        TensorDescriptor.from_tensor(each.b, [config.block_n, block_k]),
        TensorDescriptor.from_tensor(each.d, [config.block_m, width]),
    )
    tiles = math.ceil(problem.m / config.block_m) * math.ceil(problem.n / config.block_n)
    processors = torch.cuda.get_device_properties(each.a.device).multi_processor_count
    return partial(
        _product[(min(processors, tiles),)],
        *operands,
        problem.m,
        problem.n,
        problem.k,
        BLOCK_M=config.block_m,
        BLOCK_N=config.block_n,
        BLOCK_K=block_k,
        GROUP=config.group,
        HALVES=config.halves,
        SUM=tl.float32 if each.d.is_floating_point() else tl.int32,
        num_stages=config.stages,
        num_warps=config.warps,
    )
