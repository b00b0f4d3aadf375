"""`torch.ops.weft.matmul_int4`: products with 4-bit weights, with gradients of x and the bias."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from weft.int4 import launches
from weft.int4.weights import Int4Weights
from weft.torch.operators import define, without_autocast
from weft.torch.signatures import Gradients, Operand
from weft.torch.transforms import differentiable

_SCHEMA = (
    "(Tensor x, Tensor packed, Tensor scales, Tensor? zeros, Tensor? bias, int rows, int group) -> Tensor"
)


def matmul_int4(x: Tensor, weights: Int4Weights, bias: Operand) -> Tensor:
    """`x @ weights.T + bias` by the operator."""
    launches.check_rows(x, weights)  # whose number of columns isn't that of `packed`
    device = x.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        dtype = weights.scales.dtype
        x, bias = x.to(dtype), None if bias is None else bias.to(dtype)
    return _multiply(x, weights.packed, weights.scales, weights.zeros, bias, weights.rows, weights.group)


def _run(
    x: Tensor, packed: Tensor, scales: Tensor, zeros: Operand, bias: Operand, rows: int, group: int
) -> Tensor:
    plain = [None if each is None else each.detach() for each in (x, packed, scales, zeros, bias)]
    x, packed, scales, zeros, bias = plain
    with torch.no_grad(), without_autocast(x.device.type):
        return launches.run(x, Int4Weights(packed, scales, zeros, rows, x.shape[-1], group), bias)


def _fake(
    x: Tensor, packed: Tensor, scales: Tensor, zeros: Operand, bias: Operand, rows: int, group: int
) -> Tensor:
    return x.new_empty((*x.shape[:-1], rows))


def _save(
    ctx: FunctionCtx, inputs: tuple[Tensor, ...], keyword_only_inputs: Mapping[str, object], output: Tensor
) -> None:
    x, packed, scales, zeros, _, ctx.rows, ctx.group = inputs
    ctx.columns = x.shape[-1]
    ctx.save_for_backward(packed, scales, zeros)


def _differentiate(ctx: FunctionCtx, gradient: Tensor) -> Gradients:
    packed, scales, zeros = ctx.saved_tensors
    of_x = of_bias = None
    if ctx.needs_input_grad[0]:
        weights = Int4Weights(packed, scales, zeros, ctx.rows, ctx.columns, ctx.group)
        of_x = torch.matmul(gradient, weights.dequantize())
    if ctx.needs_input_grad[4]:
        of_bias = gradient.reshape(-1, ctx.rows).sum(0)
    return of_x, None, None, None, of_bias, None, None


_multiply = differentiable(define("matmul_int4", _SCHEMA, _run, _fake), _save, _differentiate)
