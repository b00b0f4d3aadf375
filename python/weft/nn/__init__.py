"""Modules of PyTorch whose products are Weft's.

Importing this package imports PyTorch.
"""

from weft.errors import missing_package

try:
    import torch  # noqa: F401
except ModuleNotFoundError as failure:
    raise missing_package(failure, "weft.nn", "torch", "gpu") from None

from weft.nn.convert import convert
from weft.nn.gated import GatedMLP, gated
from weft.nn.int4 import Int4Linear
from weft.nn.linear import Linear, linear
from weft.nn.parallel import ColumnParallelLinear, RowParallelLinear

__all__ = [
    "ColumnParallelLinear",
    "GatedMLP",
    "Int4Linear",
    "Linear",
    "RowParallelLinear",
    "convert",
    "gated",
    "linear",
]
