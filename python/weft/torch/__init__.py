"""PyTorch's operators of Weft: `torch.ops.weft.matmul` and its relatives.

Importing this package registers them; `weft.matmul` does so where PyTorch has to see a call, to
differentiate, trace, batch or cast it.
"""

from weft.errors import missing_package

try:
    import torch  # noqa: F401
except ModuleNotFoundError as failure:
    raise missing_package(failure, "weft.torch", "torch", "gpu") from None

from weft.launch import torch_tensors
from weft.torch import attention as _attention  # noqa: F401  defines the operators
from weft.torch import autograd, casting, flops, quantizing, vectorizing
from weft.torch import compiled as _compiled  # noqa: F401  defines how products are lowered
from weft.torch import decomposing as _decomposing  # noqa: F401  that callers of this package take
from weft.torch import int4 as _int4  # noqa: F401
from weft.torch.grouped import grouped_mm
from weft.torch.products import product

__all__ = ["grouped_mm", "product", "quantized"]

quantized = quantizing.quantized
torch_tensors.run_calls_untraced()
autograd.register()
casting.register()
vectorizing.register()
flops.register()
