"""Linear layers whose three products are of fp8, as torchao's recipes have them.

"tensorwise" has one scale for each tensor: e4m3 forward, e5m2 for gradients (Micikevicius et al., 2022, "FP8
Formats for Deep Learning"). "rowwise" has e4m3 only, and for each product a scale for each row of the left
and for each column of the right matrix, a power of two.
"""

import functools
from dataclasses import dataclass
from typing import Any

import torch

from weft.errors import WeftError, shown
from weft.isa.suggest import did_you_mean
from weft.multiply.cast_options import Quantized
from weft.multiply.matmul import Epilogue, matmul
from weft.multiply.quantize import quantize
from weft.torch.operators import TYPE_NAMES, without_autocast


@dataclass(frozen=True)
class Recipe:
    """How tensors are cast: the elements of gradients, and whether rows have scales of their own."""

    gradient: str
    by_rows: bool

    def cast(self, x: Any, element: str, *, values: bool = True, transposed: bool = False) -> Quantized:
        """A matrix and its transpose in fp8. With scales of rows, each has those of its own rows."""
        if not self.by_rows:
            return quantize(x, element, values=values, transposed=transposed)
        kept = turned = Quantized(None, None, None, None)
        if values:
            kept = quantize(x, element, scales="row", powers_of_two=True)
        if transposed:
            turned = quantize(x, element, scales="column", values=False, transposed=True, powers_of_two=True)
        return Quantized(kept.values, kept.scales, turned.transposed, turned.transposed_scales)


RECIPES = {"tensorwise": Recipe("f8E5M2", False), "rowwise": Recipe("f8E4M3FN", True)}
"""What `fp8` may be."""
MULTIPLE = 16
"""What both sizes of a layer must be multiples of, as PyTorch's and torchao's products of fp8 have it."""
FORWARD = "f8E4M3FN"
"""The elements of `x` and of the weight."""


def checked_recipe(caller: str, recipe: str | None, **sizes: int) -> str | None:
    """A recipe. Raises WeftError if there is none of this name, or if layers of these sizes have none."""
    if recipe is None:
        return None
    if recipe not in RECIPES:
        near = did_you_mean(recipe, RECIPES) if isinstance(recipe, str) else ""
        raise WeftError(f"{caller}: fp8 must be None or {' or '.join(RECIPES)}, got {shown(recipe)}{near}")
    if any(size % MULTIPLE for size in sizes.values()):
        raise WeftError(
            f"{caller}: fp8 needs {' and '.join(sizes)} that are multiples of {MULTIPLE}, got "
            f"{' and '.join(map(str, sizes.values()))}"
        )
    return recipe


def checked_promotion(caller: str, promote: bool | None) -> bool | None:
    """Which products are promoted. Raises WeftError for other values."""
    if promote is not None and not isinstance(promote, bool):
        raise WeftError(f"{caller}: fp8_promote must be None, True or False, got {shown(promote)}")
    return promote


def promoted(promote: bool | None) -> tuple[bool, bool]:
    """Whether the product of a layer, and whether those of its gradient are promoted."""
    return bool(promote), promote is not False


class Product(torch.autograd.Function):  # type: ignore[misc]
    """A linear layer of a recipe: `x`, the weight and the gradient are cast, each with its transpose."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Any,
        weight: Any,
        bias: Any,
        activation: str | None,
        accumulates: bool,
        dtype: Any,
        name: str,
        promoted: tuple[bool, bool],
    ) -> Any:
        to_x, to_weight, *_ = ctx.needs_input_grad
        d, near, far = forward(x, weight, bias, activation, dtype, name, promoted[0], (to_weight, to_x))
        parameter = weight if accumulates else None
        turned = near.transposed, near.transposed_scales, far.transposed, far.transposed_scales
        ctx.save_for_backward(*turned, d if activation else None, parameter)
        ctx.types = x.dtype, weight.dtype, None if bias is None else bias.dtype
        ctx.recipe, ctx.promote = name, promoted[1]
        return d

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            raise WeftError(
                "weft.nn.Linear: gradients of gradients aren't computed with fp8: use torch.func, or set "
                "layer.fp8 = None"
            )
        x, scale_x, weight, scale_weight, result, parameter = ctx.saved_tensors
        if result is not None:
            gradient = torch.ops.aten.threshold_backward(gradient, result, 0)
        gradient = gradient.contiguous()
        to_x, to_weight, to_bias, *_ = ctx.needs_input_grad
        type_x, type_weight, type_bias = ctx.types
        of_x = of_weight = of_bias = None
        product = functools.partial(_product, ctx.promote)
        with without_autocast(gradient.device.type):
            recipe = RECIPES[ctx.recipe]
            cast = recipe.cast(gradient, recipe.gradient, values=to_x, transposed=to_weight)
            if to_x:
                of_x = product(cast.values, cast.scales, weight, scale_weight, type_x)
            if to_weight and parameter is not None and accumulates_now(parameter):
                product(cast.transposed, cast.transposed_scales, x, scale_x, None, into=parameter.grad)
            elif to_weight:
                of_weight = product(cast.transposed, cast.transposed_scales, x, scale_x, type_weight)
            if to_bias:
                of_bias = gradient.sum(0, dtype=type_bias)
        return of_x, of_weight, of_bias, *[None] * 5


def without_gradients(
    x: Any, weight: Any, bias: Any, activation: str | None, dtype: Any, name: str, promote: bool
) -> Any:
    """The result of `Product` alone, which casts no transposes."""
    given = x.detach(), weight.detach(), None if bias is None else bias.detach()
    return forward(*given, activation, dtype, name, promote)[0]


def forward(
    x: Any,
    weight: Any,
    bias: Any,
    activation: str | None,
    dtype: Any,
    name: str,
    promote: bool,
    transposed: tuple[bool, bool] = (False, False),
    elements: tuple[str, str] = (FORWARD, FORWARD),
) -> tuple[Any, Quantized, Quantized]:
    """The product, and both matrices in fp8, with their transposes if asked for."""
    recipe = RECIPES[name]
    epilogue = None if bias is None and activation is None else Epilogue(bias, activation)
    with without_autocast(x.device.type):
        near, far = (
            recipe.cast(each, element, transposed=turned)
            for each, element, turned in zip((x, weight), elements, transposed, strict=True)
        )
        d = matmul(
            near.values,
            far.values,
            transpose_b=True,
            scales=(near.scales, far.scales.t()),
            epilogue=epilogue,
            promote=promote,
            out_dtype=TYPE_NAMES[dtype or x.dtype],
        )
    return d, near, far


def _product(promote: bool, a: Any, scale_a: Any, b: Any, scale_b: Any, dtype: Any, into: Any = None) -> Any:
    """A product of two K-major matrices, or its sum with `into`. `promote` makes up for the few bits in which
    tensor cores of Hopper add products of fp8.
    """
    more = {"out_dtype": TYPE_NAMES[dtype]} if into is None else {"out": into, "beta": 1.0}
    return matmul(a, b, transpose_b=True, scales=(scale_a, scale_b.t()), promote=promote, **more)


def accumulates_now(weight: Any) -> bool:
    """Whether a gradient may be added to that of a weight, unseen by PyTorch."""
    return weight.is_leaf and weight.grad is not None and not torch.is_grad_enabled()
