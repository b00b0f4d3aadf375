"""`weft.nn.Linear`: a linear layer with an activation in the same kernel."""

from typing import Any

import torch
from torch.nn import functional

from weft.dialects.operand_roles import ACTIVATIONS
from weft.errors import WeftError, shown
from weft.isa.suggest import did_you_mean
from weft.launch import torch_tensors
from weft.multiply.matmul import Epilogue, matmul
from weft.torch.autograd import activated

_TYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


class Linear(torch.nn.Linear):  # type: ignore[misc]
    """`torch.nn.Linear` by kernels of Weft: `activation(x @ weight.mT + bias)` for `x` of any leading
    dimensions, and both products of its gradient.

    The arguments are those of `torch.nn.Linear`, and `activation`: None or one of "relu", "gelu", "gelu_tanh"
    and "silu". A kernel applies it to sums of f32 before they are rounded; where a gradient needs what is
    before the activation (all but relu), PyTorch applies it. Layers of f32 are PyTorch's own if
    `torch.get_float32_matmul_precision()` is "highest", its default, since kernels multiply f32 as tf32.

    With `fuse_wgrad_accumulation`, the kernel that computes the gradient of the weight adds it to
    `weight.grad` if there is one, as in the second of several calls of `backward()`. Hooks of the weight and
    of its gradient's accumulation don't see it, so it isn't for `DistributedDataParallel` and
    `torch.autograd.grad`.

    Raises WeftError for an unknown activation, and in a call for tensors that no kernel multiplies.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        activation: str | None = None,
        fuse_wgrad_accumulation: bool = False,
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        self.activation = checked_activation("weft.nn.Linear", activation)
        self.fuse_wgrad_accumulation = fuse_wgrad_accumulation

    def forward(self, input: Any) -> Any:
        """The layer of a tensor of ... x in_features: ... x out_features."""
        accumulates = self.fuse_wgrad_accumulation
        return linear(input, self.weight, self.bias, self.activation, accumulates=accumulates)

    def extra_repr(self) -> str:
        more = f", activation={self.activation}" if self.activation else ""
        return str(super().extra_repr()) + more


def checked_activation(caller: str, activation: str | None) -> str | None:
    """An activation. Raises WeftError if there is none of this name."""
    if activation is not None and activation not in ACTIVATIONS:
        near = did_you_mean(activation, ACTIVATIONS) if isinstance(activation, str) else ""
        raise WeftError(
            f"{caller}: activation must be None or one of {', '.join(ACTIVATIONS)}, "
            f"got {shown(activation)}{near}"
        )
    return activation


def linear(
    x: Any, weight: Any, bias: Any = None, activation: str | None = None, *, accumulates: bool = False
) -> Any:
    """`activation(x @ weight.mT + bias)` for `x` of ... x K and `weight` of N x K, with gradients: the
    function of `weft.nn.Linear`, whose notes hold here, too. `accumulates` is its `fuse_wgrad_accumulation`.
    """
    device = x.device.type
    if torch.is_autocast_enabled(device) and x.dtype in _TYPES[:3]:
        # As PyTorch does it for its own linear layers.
        dtype = torch.get_autocast_dtype(device)
        x, weight, bias = (None if each is None else each.to(dtype) for each in (x, weight, bias))
        with torch.autocast(device, enabled=False):
            return linear(x, weight, bias, activation, accumulates=accumulates)
    by_torch = x.dtype == torch.float32 and torch.get_float32_matmul_precision() == "highest"
    if by_torch or x.dtype not in _TYPES or x.dim() == 0 or 0 in x.shape or x.shape[-1] != weight.shape[-1]:
        return activated(activation, functional.linear(x, weight, bias))
    rows = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
    wanted = torch.is_grad_enabled() and any(
        each is not None and each.requires_grad for each in (rows, weight, bias)
    )
    if wanted and activation not in (None, "relu"):
        return activated(activation, linear(x, weight, bias, accumulates=accumulates))
    if wanted and is_plain(rows, weight, bias):
        d = _Product.apply(rows, weight, bias, activation, accumulates)
    else:
        d = matmul(rows, weight, transpose_b=True, epilogue=_epilogue(bias, activation))
    return d if x.dim() == 2 else d.reshape(*x.shape[:-1], d.shape[-1])


def _epilogue(bias: Any, activation: str | None) -> Epilogue | None:
    return None if bias is None and activation is None else Epilogue(bias, activation)


def is_plain(*tensors: Any) -> bool:
    """Whether PyTorch at most records gradients of these tensors, and needs to see no operator."""
    return not (torch.compiler.is_compiling() or torch_tensors.are_watched(tensors, gradients=False))


class _Product(torch.autograd.Function):  # type: ignore[misc]
    """A linear layer and its gradients by plain calls, without PyTorch's dispatcher."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, activation: str | None, accumulates: bool) -> Any:
        d = matmul(x, weight, transpose_b=True, epilogue=_epilogue(bias, activation))
        ctx.save_for_backward(x, weight, d if activation else None)
        ctx.bias_type, ctx.accumulates = None if bias is None else bias.dtype, accumulates
        return d

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        x, weight, result = ctx.saved_tensors
        if result is not None:
            gradient = torch.ops.aten.threshold_backward(gradient, result, 0)
        if gradient.stride(-1) != 1 or gradient.stride(0) < gradient.shape[1]:
            gradient = gradient.contiguous()  # such as that of a sum: one number for all elements
        of_x, of_weight, of_bias, *_ = ctx.needs_input_grad
        return (
            matmul(gradient, weight) if of_x else None,
            gradient_of_weight(gradient, x, weight, ctx.accumulates) if of_weight else None,
            gradient.sum(0).to(ctx.bias_type) if of_bias else None,
            None,
            None,
        )


def gradient_of_weight(gradient: Any, x: Any, weight: Any, accumulates: bool) -> Any:
    """The gradient of a weight, or None after it was added to `weight.grad`."""
    if accumulates and weight.is_leaf and weight.grad is not None and not torch.is_grad_enabled():
        matmul(gradient, x, transpose_a=True, out=weight.grad, beta=1.0)
        return None
    return matmul(gradient, x, transpose_a=True)
