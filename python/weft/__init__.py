"""Weft: MLIR dialects, passes and a CPU emulator for NVIDIA's tensor-core instructions."""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

# Must be first: it records the state of the files that are loaded after it.
from weft.cache import loaded as _loaded  # noqa: F401  isort: skip
from weft.errors import Diagnostic, Location, WeftError
from weft.system import late_imports, upper
from weft.version import VERSION

if TYPE_CHECKING:
    from weft.attend.attention import attention
    from weft.construction.module import Module, memref
    from weft.dialects import register_dialect
    from weft.int4.product import matmul_int4
    from weft.int4.weights import Int4Weights, quantize_int4
    from weft.launch.kernel import Kernel, compile
    from weft.launch.linalg_source import from_linalg, from_torch
    from weft.launch.program import Program
    from weft.multiply.cast_options import Quantized
    from weft.multiply.matmul import Epilogue, matmul
    from weft.multiply.quantize import quantize
    from weft.multiply.scale_tiles import tiled_scales
    from weft.passes import register_candidate, register_pass, register_schedule

__version__ = VERSION
__all__ = [
    "Diagnostic",
    "Epilogue",
    "Int4Weights",
    "Kernel",
    "Location",
    "Module",
    "Program",
    "Quantized",
    "WeftError",
    "attention",
    "compile",
    "from_linalg",
    "from_torch",
    "matmul",
    "matmul_int4",
    "memref",
    "quantize",
    "quantize_int4",
    "register_candidate",
    "register_dialect",
    "register_pass",
    "register_schedule",
    "tiled_scales",
]

# Imported at first use: MLIR and LLVM take 0.3 s, which a tool that only prints its help doesn't need.
_LAZY = {
    "Kernel": "launch.kernel",
    "compile": "launch.kernel",
    "Program": "launch.program",
    "from_linalg": "launch.linalg_source",
    "from_torch": "launch.linalg_source",
    "attention": "attend.attention",
    "Int4Weights": "int4.weights",
    "matmul_int4": "int4.product",
    "quantize_int4": "int4.weights",
    "matmul": "multiply.matmul",
    "Epilogue": "multiply.matmul",
    "Module": "construction.module",
    "memref": "construction.module",
    "Quantized": "multiply.cast_options",
    "quantize": "multiply.quantize",
    "register_candidate": "passes",
    "register_dialect": "dialects",
    "register_pass": "passes",
    "register_schedule": "passes",
    "tiled_scales": "multiply.scale_tiles",
}


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    found = late_imports.attribute(__name__, name, _LAZY.get(name))
    globals()[name] = found  # so that the next access doesn't call this function
    return found


def _torch() -> ModuleType:
    from weft import torch

    return torch


def _jax() -> ModuleType:
    from weft import jax

    return jax


def _team_operators() -> ModuleType:
    from weft.distributed import operator_calls  # and the operators that it calls

    return operator_calls


upper.weft = lambda: sys.modules[__name__]
upper.torch, upper.jax, upper.team_operators = _torch, _jax, _team_operators
