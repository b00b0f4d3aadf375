"""`down(activation(g) * u)` of z = [g u], and the gradient of z by one kernel: that of `down`'s input is
never in memory.
"""

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx
from torch.nn.modules import module

from weft.dialects.product_types import ceil_div
from weft.launch import runtime
from weft.multiply.matmul import matmul
from weft.nn import gating
from weft.nn.arguments import check_tensor
from weft.nn.linear import Linear, is_result, of_parameters, rows_of_gradient
from weft.torch.autograd import activated
from weft.torch.operators import epilogue_of, without_autocast
from weft.torch.signatures import Device, Gradients, Operand
from weft.torch.transforms import PLAIN, are_plain, is_transformed

CHIPS = ("sm_90a",)
"""Where the kernel was measured."""
_TYPES = (torch.bfloat16, torch.float16)
_UNIT = 8  # elements, which TMA's 16 bytes are
_TILES = 4  # of each multiprocessor, at least


def applies(z: Tensor, down: Linear) -> bool:
    """Whether `down`'s gradient and that of the gate are one kernel: on these chips, for plain tensors of 16
    bits with aligned rows, and a layer that nothing else observes.
    """
    if not isinstance(z, torch.Tensor) or type(down) is not Linear or not _has_kernel(z.device):
        return False
    if not z.requires_grad or not torch.is_grad_enabled() or torch.is_autocast_enabled(z.device.type):
        return False
    weight, bias = down.weight, down.bias
    if down.fp8 is not None or down.activation is not None or _is_observed(down) or not _fits(z, weight):
        return False
    tensors = (z, weight) if bias is None else (z, weight, bias)
    if torch.compiler.is_compiling():  # the operator sees rows and alignment when it runs
        plain = all(type(each) in PLAIN for each in tensors) and not is_transformed()
        return plain and not down.fuse_wgrad_accumulation
    return are_plain(tensors) and fits_memory(weight, z)


def _is_observed(layer: torch.nn.Module) -> bool:
    """Whether a call of a layer does more than its class's `forward`, such as call hooks."""
    own = layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks
    return any(own) or bool(module._has_any_global_hook()) or "forward" in vars(layer)


def _fits(z: Tensor, weight: Tensor) -> bool:
    if z.dtype not in _TYPES or weight.dtype != z.dtype or weight.dim() != 2 or weight.device != z.device:
        return False
    features, hidden = weight.shape
    if z.dim() < 2 or z.shape[-1] != 2 * hidden or 0 in z.shape or not gating.fits(z.numel() // 2):
        return False
    return bool(features % _UNIT == hidden % _UNIT == 0)


def _has_kernel(device: Device) -> bool:
    return bool(device.type == "cuda" and _chip(device.index) in CHIPS)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _chip(index: int) -> str:
    return runtime.device(index).chip if runtime.available() is None else ""


def fits_memory(weight: Tensor, z: Tensor) -> bool:
    """Whether the kernel can read these tensors, and their GPU has enough tiles to compute."""
    if not _has_kernel(z.device) or not weight.is_contiguous() or weight.data_ptr() % 16:
        return False
    from weft.nn.kernels.gate_gradient import COLUMNS, ROWS

    rows, columns = z.numel() // z.shape[-1], z.shape[-1] // 2
    tiles = ceil_div(rows, ROWS) * ceil_div(columns, COLUMNS)
    return bool(tiles >= _TILES * runtime.device(z.device.index).multiprocessors)


def product(z: Tensor, down: Linear, activation: str | None, residual: Operand = None) -> Tensor:
    """The layer of the gated z, and a residual, where the kernel applies."""
    if residual is not None and not is_result(residual, z, down.weight, z.dtype):
        check_tensor("weft.nn.GatedMLP", "residual", residual)
        return product(z, down, activation) + residual
    inputs = z.contiguous(), down.weight, down.bias, activation, down.fuse_wgrad_accumulation, residual
    if torch.compiler.is_compiling():
        return _GatedProduct.apply(*inputs)
    return _apply(*inputs)


class _GatedProduct(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: FunctionCtx,
        z: Tensor,
        weight: Tensor,
        bias: Operand,
        activation: str,
        accumulates: bool,
        residual: Operand,
    ) -> Tensor:
        h = torch.ops.weft.gated(z, activation)
        added = None if residual is None else residual.contiguous()
        y = matmul(h, weight, transpose_b=True, epilogue=epilogue_of(bias, None, added))
        ctx.save_for_backward(z, h, weight, weight if accumulates else None)
        ctx.types = weight.dtype, None if bias is None else bias.dtype
        ctx.activation = activation
        return y

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> Gradients:
        z, h, weight, accumulated = ctx.saved_tensors
        of_residual = gradient if ctx.needs_input_grad[5] else None
        gradient = rows_of_gradient(gradient)
        with without_autocast(z.device.type):
            if torch.compiler.is_compiling():
                of_z = torch.ops.weft.gated_product_backward(gradient, weight, z, ctx.activation)
            elif torch.is_grad_enabled():  # for gradients of gradients
                gate, up = z.unflatten(-1, (2, weight.shape[1])).unbind(-2)
                h = activated(ctx.activation, gate) * up
                of_h = matmul(gradient, weight).view(h.shape)
                of_z = torch.autograd.grad(h, z, of_h, create_graph=True)[0]
            else:
                of_z = gradient_of_gated(gradient, weight, z, ctx.activation)
            rows, wanted = h.reshape(-1, h.shape[-1]), ctx.needs_input_grad[1:3]
            of_weight, of_bias = of_parameters(gradient, rows, wanted, ctx.types, accumulated)
        return of_z, of_weight, of_bias, None, None, of_residual


_apply = super(torch.autograd.Function, _GatedProduct).apply  # as in weft.nn.linear


def gradient_of_gated(
    of_y: Tensor, weight: Tensor, z: Tensor, activation: str, out: Operand = None
) -> Tensor:
    """The gradient of z from the rows of that of y = (activation(g) * u) @ weight.mT, where z = [g u]."""
    from weft.nn.kernels.gate_gradient import gate_gradient

    if of_y.stride(0) % _UNIT or of_y.data_ptr() % 16:
        of_y = of_y.clone(memory_format=torch.contiguous_format)
    of_z = torch.empty_like(z) if out is None else out
    halves = [half for each in (z, of_z) for half in each.view(-1, z.shape[-1]).chunk(2, 1)]
    gate_gradient(of_y, weight, *halves, activation=activation)
    return of_z
