"""Linear layers whose three products are of fp8, as torchao's recipes have them.

"tensorwise" has one scale for each tensor: e4m3 forward, e5m2 for gradients (Micikevicius et al., 2022, "FP8
Formats for Deep Learning"). "rowwise" has e4m3 only, and for each product a scale for each row of the left
and for each column of the right matrix, a power of two.
"""

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor
from torch._functorch.autograd_function import VmapInfo
from torch.autograd.function import FunctionCtx

from weft.errors import WeftError, shown
from weft.isa.suggest import did_you_mean
from weft.multiply.cast_options import Quantized
from weft.multiply.matmul import matmul
from weft.multiply.quantize import quantize
from weft.torch.autograd import FORWARD_MODE
from weft.torch.operators import TYPE_NAMES, epilogue_of, readable, without_autocast
from weft.torch.signatures import Dims, Gradients, Operand
from weft.torch.transforms import one_by_one


@dataclass(frozen=True)
class Recipe:
    """How tensors are cast: the elements of gradients, and whether rows have scales of their own."""

    gradient: str
    by_rows: bool

    def cast(self, x: Tensor, element: str, *, values: bool = True, transposed: bool = False) -> Quantized:
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
"""The recipes by the values of `fp8`."""
MULTIPLE = 16
"""Both sizes of a layer are multiples of it, as in PyTorch's and torchao's products of fp8."""
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


class Casts(NamedTuple):
    """How a layer multiplies. `dtype` is the type of the result, None for that of `x`. `promoted`: whether
    its product is promoted, and whether those of its gradient are. `elements`: those of `x` and the weight.
    """

    recipe: str
    activation: str | None
    dtype: torch.dtype | None
    promoted: tuple[bool, bool]
    elements: tuple[str, str] = (FORWARD, FORWARD)


class Fp8Linear(torch.autograd.Function):  # type: ignore[misc]
    """A linear layer of a recipe: `x`, the weight and the gradient are cast, each with its transpose."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, x: Tensor, weight: Tensor, bias: Operand, accumulates: bool, casts: Casts
    ) -> Tensor:
        to_x, to_weight, *_ = ctx.needs_input_grad
        d, near, far = forward(x, weight, bias, casts, (to_weight, to_x))
        parameter = weight if accumulates else None
        turned = near.transposed, near.transposed_scales, far.transposed, far.transposed_scales
        ctx.save_for_backward(*turned, d if casts.activation else None, parameter)
        ctx.types = x.dtype, weight.dtype, None if bias is None else bias.dtype
        ctx.recipe, ctx.promote = casts.recipe, casts.promoted[1]
        return d

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> Gradients:
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
        # Promotion makes up for the few bits in which tensor cores of Hopper add products of fp8.
        product = functools.partial(matmul, transpose_b=True, promote=ctx.promote)
        with without_autocast(gradient.device.type):
            recipe = RECIPES[ctx.recipe]
            cast = recipe.cast(gradient, recipe.gradient, values=to_x, transposed=to_weight)
            if to_x:
                scales = cast.scales, scale_weight.t()
                of_x = product(cast.values, weight, scales=scales, out_dtype=TYPE_NAMES[type_x])
            if to_weight:
                result = {"out_dtype": TYPE_NAMES[type_weight]}
                if parameter is not None and accumulates_now(parameter):
                    result = {"out": parameter.grad, "beta": 1.0}
                scales = cast.transposed_scales, scale_x.t()
                of_weight = product(cast.transposed, x, scales=scales, **result)
                of_weight = None if "out" in result else of_weight
            if to_bias:
                of_bias = gradient.sum(0, dtype=type_bias)
        return of_x, of_weight, of_bias, None, None


def without_gradients(x: Tensor, weight: Tensor, bias: Operand, casts: Casts) -> Tensor:
    """The result of `Fp8Linear` alone, which casts no transposes."""
    detached = x.detach(), weight.detach(), None if bias is None else bias.detach()
    return forward(*detached, casts)[0]


def forward(
    x: Tensor, weight: Tensor, bias: Operand, casts: Casts, transposed: tuple[bool, bool] = (False, False)
) -> tuple[Tensor, Quantized, Quantized]:
    """The product, and both matrices in fp8, with their transposes if asked for."""
    recipe, activation = RECIPES[casts.recipe], casts.activation
    with without_autocast(x.device.type):
        near, far = (
            recipe.cast(each, element, transposed=turned)
            for each, element, turned in zip((x, weight), casts.elements, transposed, strict=True)
        )
        d = matmul(
            near.values,
            far.values,
            transpose_b=True,
            scales=(near.scales, far.scales.t()),
            epilogue=epilogue_of(bias, activation),
            promote=casts.promoted[0],
            out_dtype=TYPE_NAMES[casts.dtype or x.dtype],
        )
    return d, near, far


def accumulates_now(weight: Tensor) -> bool:
    """Whether a gradient may be added to that of a weight, unseen by PyTorch."""
    return weight.is_leaf and weight.grad is not None and not torch.is_grad_enabled()


class TransformedLinear(torch.autograd.Function):  # type: ignore[misc]
    """`activation(a @ b.mT + bias)` of matrices that a recipe casts, the activation None or relu. Its
    gradients are such products, of gradients to any order.
    """

    @staticmethod
    def forward(a: Tensor, b: Tensor, bias: Operand, casts: Casts) -> Tensor:
        return forward(readable(a), readable(b), bias, casts)[0]

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
    def vmap(info: VmapInfo, in_dims: Dims, *inputs: Any) -> tuple[Tensor, int]:
        """Each member has scales of its own, as without `torch.vmap`."""
        return one_by_one(TransformedLinear.apply, info.batch_size, in_dims, inputs)

    @staticmethod
    def jvp(ctx: FunctionCtx, *tangents: Tensor) -> NoReturn:
        raise WeftError(FORWARD_MODE)
