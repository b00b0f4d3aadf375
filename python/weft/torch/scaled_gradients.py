"""Gradients of products with scales: of the bias, the residual and C. Its other operands are quantized."""

from typing import Any

import torch

from weft.errors import WeftError
from weft.launch.arrays import type_name
from weft.torch.autograd import FORWARD_MODE, keep_options, through
from weft.torch.operators import LIBRARY
from weft.torch.transforms import Arguments, differentiable

_OVERLOAD = torch.ops.weft.scaled_matmul.default
_OPERANDS = Arguments(_OVERLOAD).operands
_WITH_GRADIENTS = ("bias", "residual", "c")
_FLOATS = (torch.float16, torch.bfloat16, torch.float32)


def _save(ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: dict[str, Any], output: Any) -> None:
    given = dict(zip(_OPERANDS, (*inputs, *[None] * len(_OPERANDS)), strict=False))
    for name, each in given.items():
        if each is None or not each.requires_grad:
            continue
        if name not in _WITH_GRADIENTS or each.dtype not in _FLOATS:
            raise WeftError(
                f"weft.matmul: with scales, gradients are computed of bias, residual and c in f16, bf16 and "
                f"f32, not of {name} in {type_name(each.dtype)}: pass {name}.detach(), or put the "
                "quantization and the products into a torch.autograd.Function"
            )
    recomputed = keep_options(ctx, keyword_only_inputs, given["residual"])
    names = [name for name in _OPERANDS if name != "residual"] if recomputed else []
    ctx.save_for_backward(output if ctx.by_result else None, *(given[name] for name in names))
    ctx.like = [
        None if given[name] is None else (given[name].shape, given[name].dtype) for name in _WITH_GRADIENTS
    ]
    ctx.count = len(inputs)


def _backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
    """The gradients of all operands, None but those of the bias, the residual and C."""
    result, *given = ctx.saved_tensors
    options, of_z = ctx.options, gradient
    if ctx.by_result:
        of_z = torch.ops.aten.threshold_backward(gradient, result, 0)
    elif given:
        a, b, scale_a, scale_b, bias, c, alphas = given
        plain = options | {"activation": None, "out_dtype": torch.float32}
        z = multiply_scaled(a, b, scale_a, scale_b, bias, None, c, alphas, **plain)
        of_z = through(options["activation"], gradient.to(z.dtype), z)
    sources = {"bias": of_z, "residual": gradient, "c": of_z}
    found: dict[str, Any] = {}
    for name, like in zip(_WITH_GRADIENTS, ctx.like, strict=True):
        number = _OPERANDS.index(name)
        if like is not None and number < len(ctx.needs_input_grad) and ctx.needs_input_grad[number]:
            shape, dtype = like
            source = sources[name] if name != "c" else options["beta"] * sources[name]
            found[name] = source.sum_to_size(shape).to(dtype)
    return tuple(found.get(name) for name in _OPERANDS[: ctx.count])


multiply_scaled = differentiable(LIBRARY, _OVERLOAD, _save, _backward, FORWARD_MODE)
"""`torch.ops.weft.scaled_matmul`, under transforms of `torch.func`, too."""
