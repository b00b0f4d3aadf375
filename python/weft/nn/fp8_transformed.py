"""Products of layers in fp8 under `torch.func`, which transforms functions that save only their operands."""

from typing import Any

import torch

from weft.errors import WeftError
from weft.nn.fp8 import RECIPES, forward
from weft.torch.autograd import FORWARD_MODE
from weft.torch.transforms import one_by_one


class TransformedProduct(torch.autograd.Function):  # type: ignore[misc]
    """`activation(a @ b.mT + bias)` of matrices that a recipe casts, the activation None or relu. Its
    gradients are such products, of gradients to any order.
    """

    @staticmethod
    def forward(
        a: Any,
        b: Any,
        bias: Any,
        activation: str | None,
        elements: tuple[str, str],
        promoted: tuple[bool, bool],
        dtype: Any,
        recipe: str,
    ) -> Any:
        a, b = (each if 1 in each.stride() else each.contiguous() for each in (a, b))
        return forward(a, b, bias, activation, dtype, recipe, promoted[0], elements=elements)[0]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        a, b, bias, activation, ctx.elements, (_, ctx.promote), _, ctx.recipe = inputs
        ctx.save_for_backward(a, b, output if activation else None)
        ctx.of_bias = None if bias is None else bias.dtype

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        a, b, result = ctx.saved_tensors
        if result is not None:
            gradient = torch.ops.aten.threshold_backward(gradient, result, 0)
        to_a, to_b, to_bias, *_ = ctx.needs_input_grad
        element, (of_a, of_b) = RECIPES[ctx.recipe].gradient, ctx.elements

        def product(left: Any, right: Any, other: str, dtype: Any) -> Any:
            promoted = ctx.promote, ctx.promote
            options = (None, None, (element, other), promoted, dtype, ctx.recipe)
            return TransformedProduct.apply(left, right, *options)

        return (
            product(gradient, b.t(), of_b, a.dtype) if to_a else None,
            product(gradient.t(), a.t(), of_a, b.dtype) if to_b else None,
            gradient.sum(0, dtype=ctx.of_bias) if to_bias else None,
            *[None] * 5,
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Any, int]:
        """Each member has scales of its own, as without `torch.vmap`."""
        return one_by_one(TransformedProduct.apply, info.batch_size, in_dims, inputs)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise WeftError(FORWARD_MODE)
