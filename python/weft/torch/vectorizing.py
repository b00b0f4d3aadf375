"""`torch.vmap` of products: the mapped dimension becomes the first of the leading dimensions."""

import math
from typing import Any

import torch


def register(library: Any) -> None:
    """Registers the rule for `matmul`."""
    torch.library.register_vmap("weft::matmul", _mapped, lib=library)


def _mapped(
    info: Any,
    in_dims: tuple[int | None, ...],
    a: Any,
    b: Any,
    bias: Any = None,
    residual: Any = None,
    c: Any = None,
    alphas: Any = None,
    *,
    beta: float | None = None,
    **options: Any,
) -> tuple[Any, int]:
    """The product of all members, and the dimension along which it has them, 0."""
    members, given = info.batch_size, [a, b, bias, residual, c, alphas]
    mapped = [dim is not None for dim in (*in_dims, None, None, None, None)[: len(given)]]
    for number, dim in enumerate(in_dims[: len(given)]):
        if dim is not None:
            given[number] = given[number].movedim(dim, 0)
    ranks = [0 if x is None else x.dim() - of_x for x, of_x in zip(given, mapped, strict=True)]
    rank = max(ranks[:2])  # of each member's result
    for number in (0, 1, 3, 4):
        if mapped[number]:
            x = given[number]
            given[number] = x.reshape(members, *[1] * (rank - ranks[number]), *x.shape[1:])
    a, b, bias, residual, c, alphas = given
    if not (mapped[0] or mapped[1]):
        a = a.expand(members, *[1] * (rank - a.dim()), *a.shape)
    leading = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if mapped[2]:  # a kernel reads one bias, but a C for each product
        rows_of_bias = bias.reshape(members, *[1] * (rank - 1), bias.shape[-1])
        if c is not None:
            rows_of_bias = rows_of_bias + (beta or 0.0) * c
        bias, c, beta = None, rows_of_bias.expand(*leading, a.shape[-2], b.shape[-1]).contiguous(), 1.0
    if alphas is not None and (mapped[5] or alphas.numel() > 1):
        products = math.prod(leading[1:])
        alphas = alphas.reshape(members if mapped[5] else 1, -1).expand(members, products).reshape(-1)
    return torch.ops.weft.matmul(a, b, bias, residual, c, alphas, beta=beta, **options), 0
