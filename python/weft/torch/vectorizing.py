"""`torch.vmap` of products: the mapped dimension becomes rows of `a`, or the batch of one kernel."""

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
    a, b, bias, residual, c, alphas = given
    # Of each member; None for one product.
    batch = next((x.shape[-3] for x, of_x in zip((a, b), mapped, strict=False) if x.dim() - of_x == 3), None)

    if mapped[0] and batch is None and not (mapped[1] or mapped[2] or mapped[5]):
        rows = members * a.shape[1]
        residual, c = (
            None if x is None else x.expand(members, a.shape[1], b.shape[-1]).reshape(rows, -1)
            for x in (residual, c)
        )
        out = torch.ops.weft.matmul(a.reshape(rows, -1), b, bias, residual, c, alphas, beta=beta, **options)
        return out.unflatten(0, (members, -1)), 0

    if mapped[2]:  # a kernel reads one bias, but a C for each product
        rows_of_bias = bias.unsqueeze(-2)
        if c is not None:
            rows_of_bias = rows_of_bias + (beta or 0.0) * c
        shape = members, *([batch] if batch else []), a.shape[-2], b.shape[-1]
        if batch and rows_of_bias.dim() == 3:
            rows_of_bias = rows_of_bias.unsqueeze(1)
        bias, c, beta, mapped[4] = None, rows_of_bias.expand(shape).contiguous(), 1.0, True

    def of_all(matrices: Any, each: bool) -> Any:
        """The matrices of all products, or one that they share."""
        if matrices is None or not (each or matrices.dim() == 3):
            return matrices
        if batch is None:
            return matrices
        if not each:
            matrices = matrices.unsqueeze(0)
        elif matrices.dim() == 3:
            matrices = matrices.unsqueeze(1)
        return matrices.expand(members, batch, *matrices.shape[-2:]).flatten(0, 1)

    a, b, residual, c = (
        of_all(x, each) for x, each in zip((a, b, residual, c), (*mapped[:2], *mapped[3:5]), strict=True)
    )
    if a.dim() == b.dim() == 2:
        a = a.expand(members, *a.shape)
    if alphas is not None and (mapped[5] or alphas.numel() > 1):
        alphas = alphas.reshape(members if mapped[5] else 1, -1).expand(members, batch or 1).reshape(-1)
    out = torch.ops.weft.matmul(a, b, bias, residual, c, alphas, beta=beta, **options)
    return (out if batch is None else out.unflatten(0, (members, batch))), 0
