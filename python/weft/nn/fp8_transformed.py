"""Products of layers in fp8 under `torch.func`, which transforms functions that save only their operands."""

from typing import Any, NoReturn

import torch
from torch import Tensor
from torch._functorch.autograd_function import VmapInfo
from torch.autograd.function import FunctionCtx

from weft.errors import WeftError
from weft.nn.fp8 import RECIPES, Casts, forward
from weft.torch.autograd import FORWARD_MODE
from weft.torch.signatures import Gradients, Operand
from weft.torch.transforms import one_by_one


class TransformedLinear(torch.autograd.Function):  # type: ignore[misc]
    """`activation(a @ b.mT + bias)` of matrices that a recipe casts, the activation None or relu. Its
    gradients are such products, of gradients to any order.
    """

    @staticmethod
    def forward(a: Tensor, b: Tensor, bias: Operand, casts: Casts) -> Tensor:
        a, b = (each if 1 in each.stride() else each.contiguous() for each in (a, b))
        return forward(a, b, bias, casts)[0]

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Tensor) -> None:
        a, b, bias, ctx.casts = inputs
        ctx.save_for_backward(a, b, output if ctx.casts.activation else None)
        ctx.of_bias = None if bias is None else bias.dtype

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> Gradients:
        a, b, result = ctx.saved_tensors
        if result is not None:
            gradient = torch.ops.aten.threshold_backward(gradient, result, 0)
        to_a, to_b, to_bias, *_ = ctx.needs_input_grad
        recipe, _, _, (_, promote), (of_a, of_b) = ctx.casts

        def product(left: Tensor, right: Tensor, other: str, dtype: torch.dtype) -> Tensor:
            elements = RECIPES[recipe].gradient, other
            casts = Casts(recipe, None, dtype, (promote, promote), elements)
            return TransformedLinear.apply(left, right, None, casts)

        return (
            product(gradient, b.t(), of_b, a.dtype) if to_a else None,
            product(gradient.t(), a.t(), of_a, b.dtype) if to_b else None,
            gradient.sum(0, dtype=ctx.of_bias) if to_bias else None,
            None,
        )

    @staticmethod
    def vmap(info: VmapInfo, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        """Each member has scales of its own, as without `torch.vmap`."""
        return one_by_one(TransformedLinear.apply, info.batch_size, in_dims, inputs)

    @staticmethod
    def jvp(ctx: FunctionCtx, *tangents: Tensor) -> NoReturn:
        raise WeftError(FORWARD_MODE)
