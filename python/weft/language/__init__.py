"""Kernels of tiles, written as Python functions: `import weft.language as w`.

docs/language.md explains it.
"""

import sys

from weft.language.messages import names
from weft.system import late_imports

inf = float("inf")
"""Infinity, a Python number."""
_MODULES = {
    "calls.grids": "ceil_div",
    "calls.kernels": "KernelFunction inline kernel",
    "calls.signatures": "Array In Out Scales",
    "calls.torch_operator": "torch_op",
    "operations.atomics": (
        "atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or atomic_xchg atomic_xor"
    ),
    "operations.clusters": "cluster_arrive cluster_barrier cluster_rank cluster_wait",
    "operations.conversions": "by_lanes convert from_lanes lane_parts shuffle",
    "operations.flat_vectors": "load_contiguous",
    "operations.inline_ptx": "ptx",
    "operations.inspection": "check print=print_ show",
    "operations.int4": "dequantize_int4 int4_weights",
    "operations.loads": "clear_rows fence load prefetch store",
    "operations.maths": (
        "abs=absolute ceil cos erf exp exp2 floor gelu log log2 maximum minimum mulhi rcp relu "
        "round=round_ rsqrt sigmoid silu sin sqrt tanh where"
    ),
    "operations.products": "Pending gemm wait warp_gemm",
    "operations.queues": "tile_queue",
    "operations.randoms": "rand rand4x randint randint4x randn",
    "operations.ranges": "range=range_ tiles",
    "operations.reductions": "argmax argmin max=maximum_of min=minimum_of sum=sum_of warp_any warpgroup_any",
    "operations.rings": "ring",
    "operations.roles": "barrier cta ctas last one_thread role thread turns warpgroup_barrier",
    "operations.scans": "associative_scan cumsum",
    "operations.signals": "await_signals signal",
    "operations.tile_vectors": "load_column load_row store_column store_row",
    "operations.transposes": "interleaved transpose",
    "values.block_scales": "block_scales=block_scales_of",
    "values.buffers": "Buffer shared",
    "values.coordinates": "column row",
    "values.dtypes": "DType bf16 e2m1 e2m3 e3m2 e4m3 e5m2 e8m0 f16 f32 f64 i1 i16 i32 i64 i8 u16 u32 u64 u8",
    "values.fragments": "Fragment full pin zeros",
    "values.matrices": "Matrix Place",
    "values.rings": "Ring",
    "values.scalars": "Scalar",
    "values.stages": "Slot",
    "values.tensor_memory": "TensorMemory tensor_memory",
}
"""The public names of each module, `print=print_` where a name differs there. They are imported at first use:
most of these modules need MLIR, which a process with compiled kernels doesn't.
"""
_SOURCES = {
    public: (module, own or public)
    for module, text in _MODULES.items()
    for public, _, own in (each.partition("=") for each in text.split())
}
__all__ = sorted([*_SOURCES, "inf"])


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    if name not in _SOURCES:
        instead = "" if name.startswith("_") else names.instead(name, __all__)
        message = f"weft.language has no '{name}'{instead}"
        raise AttributeError(message, name=name, obj=sys.modules[__name__])
    module, attribute = _SOURCES[name]
    value = late_imports.attribute(__name__, attribute, module)
    globals()[name] = value  # so that the next access doesn't call this function
    return value
