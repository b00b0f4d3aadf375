"""`torch.vmap` of products: the mapped dimension becomes the first of the leading dimensions. Products with
scales and groups, which a batch would share, are computed one by one, and so are attention and casts.
"""

import math
from typing import NoReturn

import torch
from torch import Tensor
from torch._functorch.autograd_function import VmapInfo

from weft.multiply.array_views import refuse
from weft.torch.operators import LIBRARY, PRODUCTS
from weft.torch.signatures import Dims, Kernel, Operand
from weft.torch.transforms import one_by_one


def register() -> None:
    """Registers the rules of the operators."""
    torch.library.register_vmap("weft::matmul", _mapped, lib=LIBRARY)
    for name in ("scaled_matmul", "grouped_matmul", "attention", "attention_backward"):
        torch.library.register_vmap(f"weft::{name}", each_member(getattr(torch.ops.weft, name)), lib=LIBRARY)
    torch.library.register_vmap("weft::matmul_int4", _mapped_int4, lib=LIBRARY)
    for name in PRODUCTS:  # have no rules with `out`
        LIBRARY.impl(f"{name}_out", _refuse, "FuncTorchBatched")


def each_member(operator: Kernel) -> Kernel:
    """The rule of `torch.vmap` that calls an operator once for each member."""

    def rule(info: VmapInfo, in_dims: Dims, *operands: Tensor, **options: object) -> tuple[Tensor, int]:
        return one_by_one(lambda *x: operator(*x, **options), info.batch_size, in_dims, operands)

    return rule


def _refuse(*operands: Tensor, **options: object) -> NoReturn:
    raise refuse("torch.vmap maps products that return their result, and none with out: copy the result")


def _mapped(
    info: VmapInfo, in_dims: Dims, *operands: Operand, beta: float | None = None, **options: object
) -> tuple[Tensor, int]:
    """The product of all members, and the dimension along which it has them, 0."""
    members, tensors = info.batch_size, [*operands, *[None] * 4][:6]  # a, b, bias, residual, c and alphas
    mapped = [dim is not None for dim in (*in_dims, None, None, None, None)[: len(tensors)]]
    for number, dim in enumerate(in_dims[: len(tensors)]):
        if dim is not None:
            tensors[number] = tensors[number].movedim(dim, 0)
    ranks = [0 if x is None else x.dim() - of_x for x, of_x in zip(tensors, mapped, strict=True)]
    rank = max(ranks[:2])  # of each member's result
    for number in (0, 1, 3, 4):
        if mapped[number]:
            x = tensors[number]
            tensors[number] = x.reshape(members, *[1] * (rank - ranks[number]), *x.shape[1:])
    a, b, bias, residual, c, alphas = tensors
    residual, c = (x if x is None or x.stride(-1) == 1 else x.contiguous() for x in (residual, c))
    if not (mapped[0] or mapped[1]):
        a = a.expand(members, *[1] * (rank - a.dim()), *a.shape)
    leading = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if mapped[2]:  # a kernel reads one bias, but a C for each product
        rows_of_bias = bias.reshape(members, *[1] * (rank - 1), bias.shape[-1])
        if c is not None and beta:  # as in kernels, 0 times NaN adds nothing
            rows_of_bias = rows_of_bias + beta * c
        bias, c, beta = None, rows_of_bias.expand(*leading, a.shape[-2], b.shape[-1]).contiguous(), 1.0
    if alphas is not None and (mapped[5] or alphas.numel() > 1):
        products = math.prod(leading[1:])
        alphas = alphas.reshape(members if mapped[5] else 1, -1).expand(members, products).reshape(-1)
    return torch.ops.weft.matmul(a, b, bias, residual, c, alphas, beta=beta, **options), 0


def _mapped_int4(info: VmapInfo, in_dims: Dims, x: Tensor, *others: Tensor) -> tuple[Tensor, int]:
    """The products of mapped rows: x has any leading dimensions."""
    if any(dim is not None for dim in in_dims[1:]):
        return one_by_one(torch.ops.weft.matmul_int4, info.batch_size, in_dims, (x, *others))
    return torch.ops.weft.matmul_int4(x.movedim(in_dims[0], 0), *others), 0
