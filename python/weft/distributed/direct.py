"""Products over several GPUs and their gradients by plain calls, without PyTorch's dispatcher."""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from weft.distributed import gradients
from weft.distributed.operators import KERNELS
from weft.multiply.matmul import matmul
from weft.torch.operators import without_autocast
from weft.torch.signatures import Gradients, Operand

_CALLS = SimpleNamespace(**KERNELS, matmul=matmul)
_DEFAULTS = {"activation": None, "shared_bias": False}


class Direct(torch.autograd.Function):  # type: ignore[misc]
    """Computes an operator of plain tensors. `name` and `options` are the operator's, but with the team
    instead of its name. B is `b`, or its transpose if it is `transposed`.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx, name: str, transposed: bool, options: Any, a: Tensor, b: Tensor, *added: Operand
    ) -> Tensor:
        gradients.check((a, b, *added))
        if transposed:  # unseen by PyTorch, which would transpose the gradient by a step of its own
            b = b.mT
        d = KERNELS[name](a, b, *added, **options)
        gradients.keep(ctx, (a, b, *added), {**_DEFAULTS, **options}, d)
        ctx.name, ctx.transposed = name, transposed
        return d

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> Gradients:
        return (_differentiated if torch.is_grad_enabled() else _backward)(ctx, gradient)


def _backward(ctx: FunctionCtx, gradient: Tensor) -> Gradients:
    wanted = ctx.needs_input_grad[3:]
    if torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu"):
        with without_autocast(gradient.device.type):
            of_operands = gradients.BACKWARD[ctx.name](_CALLS, ctx, wanted, gradient)
    else:
        of_operands = gradients.BACKWARD[ctx.name](_CALLS, ctx, wanted, gradient)
    of_a, of_b, *rest = of_operands
    if ctx.transposed and of_b is not None:
        of_b = of_b.mT
    return None, None, None, of_a, of_b, *rest


# Its errors are those of gradients of gradients.
_differentiated = torch.autograd.function.once_differentiable(_backward)

# Without PyTorch's search for tensors that transforms have left.
apply = super(torch.autograd.Function, Direct).apply
