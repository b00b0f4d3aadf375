"""Products over several GPUs and their gradients by plain calls, without PyTorch's dispatcher."""

from types import SimpleNamespace
from typing import Any

import torch

from weft.distributed import gradients
from weft.distributed.operators import KERNELS
from weft.multiply.matmul import matmul
from weft.torch.operators import without_autocast

_CALLS = SimpleNamespace(**KERNELS, matmul=matmul)
_DEFAULTS = {"activation": None, "shared_bias": False}


class Direct(torch.autograd.Function):  # type: ignore[misc]
    """What an operator computes of plain tensors: `name` and `options` are the operator's."""

    @staticmethod
    def forward(
        ctx: Any, name: str, options: dict[str, Any], a: Any, b: Any, bias: Any, residual: Any
    ) -> Any:
        d = KERNELS[name](a, b, bias, residual, **options)
        gradients.save(ctx, (a, b, bias, residual), _DEFAULTS | options, d)
        ctx.name = name
        return d

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        wanted = ctx.needs_input_grad[2:]
        with without_autocast(gradient.device.type):
            return None, None, *gradients.BACKWARD[ctx.name](_CALLS, ctx, wanted, gradient)


# Without PyTorch's search for tensors that transforms have left.
apply = super(torch.autograd.Function, Direct).apply
