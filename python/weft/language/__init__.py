"""Kernels of tiles, written as Python functions: `import weft.language as w`.

docs/language.md explains it.
"""

import ast
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.language.messages import names
from weft.system import late_imports

if TYPE_CHECKING:
    from weft.language.calls.grids import ceil_div
    from weft.language.calls.kernels import KernelFunction, inline, kernel
    from weft.language.calls.signatures import Array, In, Out
    from weft.language.calls.torch_operator import torch_op
    from weft.language.operations.atomics import (
        atomic_add,
        atomic_and,
        atomic_cas,
        atomic_max,
        atomic_min,
        atomic_or,
        atomic_xchg,
        atomic_xor,
    )
    from weft.language.operations.clusters import cluster_arrive, cluster_barrier, cluster_rank, cluster_wait
    from weft.language.operations.conversions import by_lanes, convert, from_lanes, lane_parts
    from weft.language.operations.flat_vectors import load_contiguous
    from weft.language.operations.inspection import check, show
    from weft.language.operations.inspection import print_ as print
    from weft.language.operations.int4 import dequantize_int4, int4_weights
    from weft.language.operations.loads import clear_rows, fence, load, prefetch, store
    from weft.language.operations.maths import absolute as abs
    from weft.language.operations.maths import (
        ceil,
        cos,
        erf,
        exp,
        exp2,
        floor,
        gelu,
        log,
        log2,
        maximum,
        minimum,
        mulhi,
        rcp,
        relu,
        rsqrt,
        sigmoid,
        silu,
        sin,
        sqrt,
        tanh,
        where,
    )
    from weft.language.operations.maths import round_ as round
    from weft.language.operations.products import Pending, gemm, wait, warp_gemm
    from weft.language.operations.queues import tile_queue
    from weft.language.operations.randoms import rand, randint, randn
    from weft.language.operations.ranges import range_ as range
    from weft.language.operations.ranges import tiles
    from weft.language.operations.reductions import argmax, argmin, warp_any, warpgroup_any
    from weft.language.operations.reductions import maximum_of as max
    from weft.language.operations.reductions import minimum_of as min
    from weft.language.operations.reductions import sum_of as sum
    from weft.language.operations.roles import (
        barrier,
        cta,
        ctas,
        last,
        one_thread,
        role,
        thread,
        turns,
        warpgroup_barrier,
    )
    from weft.language.operations.scans import associative_scan, cumsum
    from weft.language.operations.signals import await_signals, signal
    from weft.language.operations.tile_vectors import load_column, load_row, store_column, store_row
    from weft.language.operations.transposes import interleaved, transpose
    from weft.language.values.buffers import Buffer, shared
    from weft.language.values.coordinates import column, row
    from weft.language.values.dtypes import (
        DType,
        bf16,
        e4m3,
        e5m2,
        f16,
        f32,
        f64,
        i1,
        i8,
        i16,
        i32,
        i64,
        u8,
        u16,
        u32,
        u64,
    )
    from weft.language.values.fragments import Fragment, full, pin, zeros
    from weft.language.values.matrices import Matrix, Place
    from weft.language.values.rings import Ring, ring
    from weft.language.values.scalars import Scalar
    from weft.language.values.stages import Slot

inf = float("inf")
"""Infinity, a Python number."""


def _places() -> dict[str, tuple[str, str]]:
    """The module of each public name, and its name there: as the imports above state for type checkers.

    They run at first use: most of these modules need MLIR, which a process with compiled kernels doesn't.
    """
    tree = ast.parse(Path(__file__).read_text("utf-8"))
    block = next(each for each in tree.body if isinstance(each, ast.If))
    return {
        alias.asname or alias.name: (str(each.module), alias.name)
        for each in block.body
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
    }


_PLACES = _places()
__all__ = sorted([*_PLACES, "inf"])


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        module, attribute = _PLACES[name]
        with late_imports.whole():
            found = getattr(import_module(module), attribute)
        globals()[name] = found  # so that the next access doesn't call this function
        return found
    instead = "" if name.startswith("_") else names.instead(name, __all__)
    message = f"weft.language has no '{name}'{instead}"
    raise AttributeError(message, name=name, obj=sys.modules[__name__])
