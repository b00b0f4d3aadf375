"""`torch.ops.weft.matmul` as operators of PyTorch, for exporters that know no others."""

from typing import Any

import torch

from weft.errors import WeftError
from weft.torch.autograd import activated

_REFUSED = ("promote", "accumulate", "kind_a", "kind_b", "scale_block", "bit_op")


def _matmul(
    a: Any,
    b: Any,
    bias: Any = None,
    residual: Any = None,
    c: Any = None,
    alphas: Any = None,
    *,
    alpha: float = 1.0,
    beta: float | None = None,
    activation: str | None = None,
    out_dtype: Any = None,
    **options: Any,
) -> Any:
    if refused := [name for name in _REFUSED if options.get(name)]:
        raise WeftError(f"weft.matmul: from_torch compiles products without {' and '.join(refused)}")
    dtype = a.dtype if out_dtype is None else out_dtype
    if dtype != a.dtype:
        a, b = a.to(dtype), b.to(dtype)
    z = torch.matmul(a, b)
    if alpha != 1.0:
        z = z * alpha
    if alphas is not None:
        z = z * alphas.reshape(-1, *[1] * (z.dim() - 1) if alphas.numel() > 1 else [1] * z.dim())
    if c is not None:
        z = z + (beta or 0.0) * c.to(dtype)
    if bias is not None:
        z = z + bias.to(dtype)
    d = activated(activation, z)
    return d if residual is None else d + residual.to(dtype)


DECOMPOSITIONS = {torch.ops.weft.matmul.default: _matmul}
"""By operator, a function of operators of PyTorch that returns the same, except for rounding."""
