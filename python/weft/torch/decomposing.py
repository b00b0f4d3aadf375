"""Products by operators of PyTorch: for exporters that know no others, and for f32 that isn't tf32."""

from collections.abc import Sequence

import torch
from torch import Tensor

from weft.multiply import array_views
from weft.multiply.array_views import refuse
from weft.multiply.product import Product
from weft.torch.autograd import activated, for_each
from weft.torch.operators import TYPES
from weft.torch.signatures import Operand, Operands

_REFUSED = ("promote", "accumulate", "kind_a", "kind_b", "scale_block", "bit_op", "batch_invariant")


def _matmul(
    a: Tensor,
    b: Tensor,
    bias: Operand = None,
    residual: Operand = None,
    c: Operand = None,
    alphas: Operand = None,
    *,
    alpha: float = 1.0,
    beta: float | None = None,
    activation: str | None = None,
    out_dtype: torch.dtype | None = None,
    factors: Sequence[Tensor] = (),
    **options: object,
) -> Tensor:
    if refused := [name for name in _REFUSED if options.get(name)]:
        raise refuse(f"from_torch compiles products without {' and '.join(refused)}")
    dtype = a.dtype if out_dtype is None else out_dtype
    wide = torch.promote_types(a.dtype, dtype) if dtype.itemsize > 1 else a.dtype
    z = torch.matmul(a.to(wide), b.to(wide))
    if alpha != 1.0:
        z = z * alpha
    if alphas is not None:
        z = z * for_each(alphas, z)
    for each in factors:
        z = z * each
    if c is not None and beta:  # as in kernels, 0 times NaN adds nothing
        z = z + beta * c.to(wide)
    if bias is not None:
        z = z + bias.to(wide)
    d = activated(activation, z)
    d = d if residual is None else d + residual.to(wide)
    if dtype.itemsize == 1:  # kernels saturate
        limits = torch.finfo(dtype)
        d = d.clamp(limits.min, limits.max)
    return d.to(dtype)


def multiply(operands: Operands, product: Product) -> Tensor:
    """The product of plain tensors, by their names in `weft.matmul`. They must fit, and have no groups."""
    operands = dict(operands)
    axes = array_views.as_matrices(operands, (product.transpose_a, product.transpose_b))
    a, b = (operands[name].mT if product.options[f"transpose_{name}"] else operands[name] for name in "ab")
    factors = [operands[name] for name in ("scale_a", "scale_b") if name in operands]  # of rows and columns
    d = _matmul(
        a,
        b,
        operands.get("bias"),
        operands.get("residual"),
        operands.get("c"),
        operands.get("alpha"),
        alpha=product.alpha,
        beta=product.beta,
        activation=product.activation,
        out_dtype=None if product.out_dtype is None else TYPES[product.out_dtype],
        factors=[each.reshape(()) if each.numel() == 1 else each for each in factors],
    )
    return d.squeeze(axes)


DECOMPOSITIONS = {torch.ops.weft.matmul.default: _matmul}
"""By operator, a function of operators of PyTorch that returns the same, except for rounding."""
