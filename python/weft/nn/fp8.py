"""Linear layers whose three products are of fp8, with one scale for each tensor, as torchao's "tensorwise"
recipe has them: e4m3 forward, e5m2 for gradients (Micikevicius et al., 2022, "FP8 Formats for Deep
Learning").
"""

from typing import Any

import torch

from weft.errors import WeftError, shown
from weft.isa.suggest import did_you_mean
from weft.multiply.matmul import Epilogue, matmul
from weft.multiply.quantize import quantize
from weft.torch.operators import TYPE_NAMES, without_autocast

RECIPES = ("tensorwise",)
"""What `fp8` may be."""
MULTIPLE = 16
"""What both sizes of a layer must be multiples of, as PyTorch's and torchao's products of fp8 have it."""
_FORWARD, _BACKWARD = "f8E4M3FN", "f8E5M2"


def checked_recipe(caller: str, recipe: str | None, sizes: tuple[int, ...] = ()) -> str | None:
    """A recipe. Raises WeftError if there is none of this name, or if layers of these sizes have none."""
    if recipe is None:
        return None
    if recipe not in RECIPES:
        near = did_you_mean(recipe, RECIPES) if isinstance(recipe, str) else ""
        raise WeftError(f"{caller}: fp8 must be None or {' or '.join(RECIPES)}, got {shown(recipe)}{near}")
    if any(size % MULTIPLE for size in sizes):
        raise WeftError(
            f"{caller}: fp8 needs in_features and out_features that are multiples of {MULTIPLE}, got "
            f"{' and '.join(map(str, sizes))}"
        )
    return recipe


class Product(torch.autograd.Function):  # type: ignore[misc]
    """A linear layer: `x` and the weight are cast to e4m3, the gradient to e5m2, each with its transpose."""

    @staticmethod
    def forward(
        ctx: Any, x: Any, weight: Any, bias: Any, activation: str | None, accumulates: bool, dtype: Any
    ) -> Any:
        to_x, to_weight, *_ = ctx.needs_input_grad
        epilogue = None if bias is None and activation is None else Epilogue(bias, activation)
        with without_autocast(x.device.type):
            near = quantize(x, _FORWARD, transposed=to_weight)
            far = quantize(weight, _FORWARD, transposed=to_x)
            d = matmul(
                near.values,
                far.values,
                transpose_b=True,
                alpha=near.scales * far.scales,
                epilogue=epilogue,
                out_dtype=TYPE_NAMES[dtype or x.dtype],
            )
        parameter = weight if accumulates else None
        kept = near.transposed, near.scales, far.transposed, far.scales, d if activation else None, parameter
        ctx.save_for_backward(*kept)
        ctx.types = x.dtype, weight.dtype, None if bias is None else bias.dtype
        return d

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        x, scale_x, weight, scale_weight, result, parameter = ctx.saved_tensors
        if result is not None:
            gradient = torch.ops.aten.threshold_backward(gradient, result, 0)
        gradient = gradient.contiguous()
        to_x, to_weight, to_bias, *_ = ctx.needs_input_grad
        type_x, type_weight, type_bias = ctx.types
        of_x = of_weight = of_bias = None
        with without_autocast(gradient.device.type):
            cast = quantize(gradient, _BACKWARD, values=to_x, transposed=to_weight)
            if to_x:
                of_x = _product(cast.values, cast.scales, weight, scale_weight, type_x)
            if to_weight and parameter is not None and accumulates_now(parameter):
                _product(cast.transposed, cast.transposed_scales, x, scale_x, None, into=parameter.grad)
            elif to_weight:
                of_weight = _product(cast.transposed, cast.transposed_scales, x, scale_x, type_weight)
            if to_bias:
                of_bias = gradient.sum(0, dtype=type_bias)
        return of_x, of_weight, of_bias, None, None, None


def _product(a: Any, scale_a: Any, b: Any, scale_b: Any, dtype: Any, into: Any = None) -> Any:
    """A product of two K-major matrices, or its sum with `into`. `promote` makes up for the few bits in which
    tensor cores of Hopper add products of fp8.
    """
    more = {"out_dtype": TYPE_NAMES[dtype]} if into is None else {"out": into, "beta": 1.0}
    return matmul(a, b, transpose_b=True, alpha=scale_a * scale_b, promote=True, **more)


def accumulates_now(weight: Any) -> bool:
    """Whether a gradient may be added to that of a weight, unseen by PyTorch."""
    return weight.is_leaf and weight.grad is not None and not torch.is_grad_enabled()
