"""`torch.ops.weft.matmul_int4`: products with weights of 4 bits, with gradients of x and the bias."""

from typing import Any

import torch

from weft.int4 import launches
from weft.int4.weights import Int4Weights
from weft.torch.autograd import is_transformed
from weft.torch.operators import LIBRARY, without_autocast
from weft.torch.vectorizing import each_member

_SCHEMA = (
    "matmul_int4(Tensor x, Tensor packed, Tensor scales, Tensor? zeros, Tensor? bias, int rows, int group) "
    "-> Tensor"
)


def matmul_int4(x: Any, weights: Int4Weights, bias: Any) -> Any:
    """`x @ weights.T + bias` by the operator."""
    device = x.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        dtype = weights.scales.dtype
        x, bias = x.to(dtype), None if bias is None else bias.to(dtype)
    multiply = Transformed.apply if is_transformed() else torch.ops.weft.matmul_int4
    return multiply(x, weights.packed, weights.scales, weights.zeros, bias, weights.rows, weights.group)


class Transformed(torch.autograd.Function):  # type: ignore[misc]
    """The operator under `torch.func.grad` and its relatives, which don't take gradients of operators."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs: Any) -> Any:
        return torch.ops.weft.matmul_int4(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _save(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        return _differentiate(ctx, gradient)


def _weights(x: Any, packed: Any, scales: Any, zeros: Any, rows: int, group: int) -> Int4Weights:
    return Int4Weights(packed, scales, zeros, rows, x.shape[-1], group)


def _run(x: Any, packed: Any, scales: Any, zeros: Any, bias: Any, rows: int, group: int) -> Any:
    plain = [None if each is None else each.detach() for each in (x, packed, scales, zeros, bias)]
    x, packed, scales, zeros, bias = plain
    with torch.no_grad(), without_autocast(x.device.type):
        return launches.run(x, _weights(x, packed, scales, zeros, rows, group), bias)


def _fake(x: Any, packed: Any, scales: Any, zeros: Any, bias: Any, rows: int, group: int) -> Any:
    return x.new_empty((*x.shape[:-1], rows))


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, packed, scales, zeros, _, ctx.rows, ctx.group = inputs
    ctx.columns = x.shape[-1]
    ctx.save_for_backward(packed, scales, zeros)


def _differentiate(ctx: Any, gradient: Any) -> tuple[Any, ...]:
    packed, scales, zeros = ctx.saved_tensors
    of_x = of_bias = None
    if ctx.needs_input_grad[0]:
        weights = Int4Weights(packed, scales, zeros, ctx.rows, ctx.columns, ctx.group)
        of_x = torch.matmul(gradient, weights.dequantize())
    if ctx.needs_input_grad[4]:
        of_bias = gradient.reshape(-1, ctx.rows).sum(0)
    return of_x, None, None, None, of_bias, None, None


def _define() -> None:
    """Defines the operator, with its shape and gradients."""
    LIBRARY.define(_SCHEMA, tags=(torch.Tag.pt2_compliant_tag,))
    for device in ("CPU", "CUDA"):
        LIBRARY.impl("matmul_int4", _run, device)
    torch.library.register_fake("weft::matmul_int4", _fake, lib=LIBRARY)
    torch.library.register_vmap("weft::matmul_int4", each_member(torch.ops.weft.matmul_int4), lib=LIBRARY)
    torch.library.register_autograd("weft::matmul_int4", _differentiate, setup_context=_save, lib=LIBRARY)


_define()
