"""`weft.nn.Linear`: a linear layer with an activation in the same kernel."""

from typing import Any

import torch
from torch import Tensor, overrides
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from weft.errors import WeftError
from weft.launch import torch_tensors
from weft.multiply.matmul import matmul
from weft.multiply.product import checked_activation
from weft.nn.arguments import check_input, check_layer, check_tensor
from weft.nn.fp8 import (
    Casts,
    Fp8Linear,
    TransformedLinear,
    accumulates_now,
    checked_promotion,
    checked_recipe,
    without_gradients,
)
from weft.torch.autograd import activated
from weft.torch.operators import TYPE_NAMES, epilogue_of, readable, without_autocast
from weft.torch.signatures import Device, Gradients, Operand
from weft.torch.transforms import PLAIN, are_plain, are_transformed

_CAST = (torch.bfloat16, torch.float16, torch.float32)
_TYPES = (*_CAST, torch.float64)


class Linear(torch.nn.Linear):  # type: ignore[misc]
    """`torch.nn.Linear` with Weft's kernels: they compute `activation(x @ weight.mT + bias)` and both
    products of its gradient. `x` may have any number of leading dimensions.

    The arguments are those of `torch.nn.Linear`, and `activation`: None, "relu", "gelu", "gelu_tanh" or
    "silu". The kernel applies the activation to the f32 sums before they are rounded. In training, PyTorch
    applies it instead, except for relu, because the gradient needs the values before the activation. For f32,
    PyTorch's own product is used unless PyTorch allows tf32, as after
    `torch.set_float32_matmul_precision("high")`, because Weft's kernels multiply f32 as tf32.

    With `fuse_wgrad_accumulation`, the kernel that computes the gradient of the weight adds it to an existing
    `weight.grad`, as in the second of several calls of `backward()`. Hooks of the weight and of the
    accumulation of its gradient aren't called then, so don't use the option with `DistributedDataParallel` or
    `torch.autograd.grad`.

    With `fp8`, all three products multiply fp8 elements (`weft.quantize`). With "tensorwise", each tensor has
    one scale; `x` and the weight are cast to e4m3, and the gradient to e5m2. With "rowwise", all are cast to
    e4m3. Each row of the left matrix of a product, and each column of the right one, has a scale that is a
    power of two. in_features and out_features must be multiples of 16. Second derivatives are available only
    under `torch.func`. `fp8_promote` selects the products whose sums are promoted to f32, as without
    torchao's `use_fast_accum`: both products of the gradient (None), all (True) or none (False).

    Raises WeftError for an unknown activation; a call raises it for tensors that no kernel can multiply.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        activation: str | None = None,
        fuse_wgrad_accumulation: bool = False,
        fp8: str | None = None,
        fp8_promote: bool | None = None,
    ) -> None:
        sizes = {"in_features": in_features, "out_features": out_features}
        check_layer("weft.nn.Linear", sizes, device, dtype)
        super().__init__(in_features, out_features, bias, device, dtype)
        self.fp8 = checked_recipe("weft.nn.Linear", fp8, **sizes)
        self.fp8_promote = checked_promotion("weft.nn.Linear", fp8_promote)
        self.activation = checked_activation(activation, "weft.nn.Linear")
        self.fuse_wgrad_accumulation = fuse_wgrad_accumulation

    def forward(self, input: Tensor, residual: Operand = None) -> Tensor:
        """The layer of a tensor of ... x in_features: ... x out_features. A `residual` is added to it, by the
        product's kernel if it has the result's shape and type, the layer no `fp8`, and no gradient needs what
        is before an activation.
        """
        return linear(
            input,
            self.weight,
            self.bias,
            self.activation,
            residual=residual,
            accumulates=self.fuse_wgrad_accumulation,
            fp8=self.fp8,
            fp8_promote=self.fp8_promote,
        )

    def _get_name(self) -> str:
        return "weft.nn.Linear"  # which distinguishes converted layers from others

    def extra_repr(self) -> str:
        more = {"activation": self.activation, "fp8": self.fp8}
        text = str(super().extra_repr()) + "".join(f", {name}={each}" for name, each in more.items() if each)
        by_pytorch = self.weight.dtype == torch.float32 and self.fp8 is None and not _allows_tf32()
        if not _has_operators(self.weight):
            return f"{text}, {type(self.weight).__name__} by PyTorch"
        return f"{text}, f32 by PyTorch" if by_pytorch else text


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Operand = None,
    activation: str | None = None,
    *,
    residual: Operand = None,
    accumulates: bool = False,
    fp8: str | None = None,
    fp8_promote: bool | None = None,
) -> Tensor:
    """`activation(x @ weight.mT + bias) + residual` with gradients, where `x` is ... x K and `weight` is N x
    K. This is the function that `weft.nn.Linear` calls; its notes apply here, too. `accumulates` is its
    `fuse_wgrad_accumulation`.
    """
    options: Any = {"accumulates": accumulates, "fp8": fp8, "fp8_promote": fp8_promote}
    if not isinstance(x, torch.Tensor):
        if overrides.has_torch_function_unary(x):  # of torch.fx
            options["residual"] = residual
            return overrides.handle_torch_function(linear, (x,), x, weight, bias, activation, **options)
        check_tensor("weft.nn.Linear", "x", x)
    device = x.device.type
    cast = torch.get_autocast_dtype(device) if x.dtype in _CAST and _is_autocast(device) else None
    ours = _is_ours(x, weight, cast, fp8)
    if residual is not None:
        fused = ours and fp8 is None and is_result(residual, x, weight, cast or x.dtype)
        if not fused or (activation is not None and torch.is_grad_enabled()):
            check_tensor("weft.nn.Linear", "residual", residual)
            return linear(x, weight, bias, activation, **options) + residual
    if not ours:
        check_input("weft.nn.Linear", x, weight, _is_autocast(device))
        return activated(activation, functional.linear(x, weight, bias))
    tensors = (x, weight) if bias is None else (x, weight, bias)
    if residual is not None:
        tensors = (*tensors, residual)
    wanted = torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
    if (wanted or x.dtype == torch.float64) and activation not in (None, "relu"):
        return activated(activation, linear(x, weight, bias, **options))
    direct = fp8 is None and (wanted or cast is not None) and not torch.compiler.is_compiling()
    if direct and are_plain(tensors):
        return _apply(x, weight, bias, activation, accumulates, cast, residual)
    rows = rows_of(x)
    if fp8 is not None:
        casts = Casts(fp8, activation, cast, (bool(fp8_promote), fp8_promote is not False))
        if are_transformed(*tensors):
            d = TransformedLinear.apply(rows, weight, bias, casts)
        elif not wanted or _is_exporting():
            d = without_gradients(rows, weight, bias, casts)
        else:
            accumulates = accumulates and not torch.compiler.is_compiling()  # graphs don't change parameters
            d = Fp8Linear.apply(rows, weight, bias, accumulates, casts)
    else:
        epilogue = epilogue_of(bias, activation, None if residual is None else rows_of(residual))
        d = matmul(rows, weight, transpose_b=True, epilogue=epilogue, out_dtype=cast and TYPE_NAMES[cast])
    return d if x.dim() == 2 else d.reshape(*x.shape[:-1], d.shape[-1])


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _is_exporting() -> bool:
    """Whether `torch.export` runs. Asked in a compiled program, PyTorch 2.11 always answers true."""
    return bool(torch.compiler.is_exporting())


def _is_autocast(device: str) -> bool:
    """Whether `torch.autocast` is on for a type of device, of which some have none."""
    # Dynamo of PyTorch 2.11 can't trace `is_autocast_available`.
    if torch.compiler.is_compiling():
        return bool(device != "meta" and torch.is_autocast_enabled(device))
    return bool(torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device))


def _is_ours(x: Tensor, weight: Tensor, cast: torch.dtype | None, fp8: str | None) -> bool:
    """Whether Weft multiplies these tensors, not PyTorch."""
    dtype = cast or x.dtype
    if cast is None and x.dtype != weight.dtype:
        return False
    if not (type(x) in PLAIN or _has_operators(x)) or not (type(weight) in PLAIN or _has_operators(weight)):
        return False
    if fp8 is not None:
        return dtype in _CAST and _fits(x, weight)
    if dtype == torch.float32:
        return _allows_tf32() and _fits(x, weight)
    return dtype in _TYPES and _fits(x, weight)


_WITH_OPERATORS = (
    "torch._subclasses.",
    "torch.distributed.tensor",
    "torch.distributed._functional_collectives",
)
"""Modules of PyTorch with classes of tensors that take any operator, or those of Weft."""


def _has_operators(tensor: Tensor) -> bool:
    """Whether Weft's operators take a tensor. Classes of other packages, such as those of quantized weights,
    know PyTorch's own operators at most.
    """
    kind = type(tensor)
    if kind in PLAIN or kind.__module__.startswith(_WITH_OPERATORS):
        return True
    return bool(kind.__torch_dispatch__ is torch.Tensor.__torch_dispatch__)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _allows_tf32() -> bool:
    return torch_tensors.allows_tf32()


def _fits(x: Tensor, weight: Tensor) -> bool:
    # PyTorch has its own results for nested and empty tensors, and a message for the others.
    if x.is_nested or x.layout is not torch.strided:
        return False
    return x.dim() > 0 and 0 not in x.shape and bool(x.shape[-1] == weight.shape[-1])


def is_result(residual: Operand, x: Tensor, weight: Tensor, dtype: torch.dtype) -> bool:
    """Whether the layer's kernel can add this: a tensor with the shape, type and device of its result."""
    if type(residual) not in PLAIN or residual.layout is not torch.strided or residual.device != x.device:
        return False
    return bool(residual.dtype == dtype and residual.shape == (*x.shape[:-1], weight.shape[0]))


class _Linear(torch.autograd.Function):  # type: ignore[misc]
    """A linear layer and its gradients by plain calls, without PyTorch's dispatcher.

    Under autocast, `x` and the weight are cast. The bias isn't, and gradients are rounded only to the types
    of their tensors.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        x: Tensor,
        weight: Tensor,
        bias: Operand,
        activation: str | None,
        accumulates: bool,
        cast: torch.dtype | None,
        residual: Operand,
    ) -> Tensor:
        near, far = (x, weight) if cast is None else (x.to(cast), weight.to(cast))
        # A result of all dimensions, since PyTorch refuses to change views of results in place.
        rows = rows_of(near) if x.dim() == 2 else rows_of(near).view(x.shape)
        with without_autocast(x.device.type):
            added = None if residual is None else residual.contiguous()
            d = matmul(rows, far, transpose_b=True, epilogue=epilogue_of(bias, activation, added))
        # Only gradients of what is saved as it was given have gradients.
        ctx.save_for_backward(near, far, d if activation else None, weight if accumulates else None)
        ctx.types, ctx.shape = (x.dtype, weight.dtype, None if bias is None else bias.dtype), x.shape
        ctx.is_cast = cast is not None
        return d

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> Gradients:
        x, weight, result, accumulated = ctx.saved_tensors
        if ctx.is_cast and torch.is_grad_enabled():
            raise WeftError(
                "weft.nn.Linear: gradients of gradients aren't computed under torch.autocast: cast x and the "
                "layer to one type instead"
            )
        shape, of_residual = ctx.shape, gradient if ctx.needs_input_grad[6] else None
        if result is not None:
            gradient = torch.ops.aten.threshold_backward(gradient, result, 0)
        gradient = rows_of_gradient(gradient)
        of_x, wanted = None, ctx.needs_input_grad[1:3]
        with without_autocast(x.device.type):
            if ctx.needs_input_grad[0]:
                of_x = matmul(gradient, weight, out_dtype=TYPE_NAMES[ctx.types[0]])
                of_x = of_x if len(shape) == 2 else of_x.view(shape)
            of_weight, of_bias = of_parameters(gradient, rows_of(x), wanted, ctx.types[1:], accumulated)
        return of_x, of_weight, of_bias, None, None, None, of_residual


def of_parameters(
    gradient: Tensor,
    x: Tensor,
    wanted: tuple[bool, bool],
    types: tuple[torch.dtype, torch.dtype | None],
    accumulated: Operand,
) -> tuple[Operand, Operand]:
    """The gradients of a layer's weight and bias that are wanted, in these types, from the rows of that of
    its product and of its input. That of an `accumulated` weight is added to what it has, if it can be. For
    a block without autocast.
    """
    of_weight = of_bias = None
    if wanted[0] and accumulated is not None and accumulates_now(accumulated):
        matmul(gradient, x, transpose_a=True, out=accumulated.grad, beta=1.0)
    elif wanted[0]:
        of_weight = matmul(gradient, x, transpose_a=True, out_dtype=TYPE_NAMES[types[0]])
    if wanted[1]:
        of_bias = gradient.sum(0, dtype=types[1])
    return of_weight, of_bias


def rows_of_gradient(gradient: Tensor) -> Tensor:
    """A gradient as a matrix of contiguous rows."""
    if gradient.dim() != 2:
        gradient = gradient.reshape(-1, gradient.shape[-1])
    if gradient.stride(-1) != 1 or gradient.stride(0) < gradient.shape[1]:
        gradient = gradient.contiguous()  # such as that of a sum: one number for all elements
    return gradient


# Without PyTorch's search for tensors that transforms have left behind, which `matmul` refuses.
_apply = super(torch.autograd.Function, _Linear).apply


def rows_of(x: Tensor) -> Tensor:
    """A matrix of contiguous rows or columns, from a tensor of any leading dimensions."""
    return readable(x if x.dim() == 2 else x.reshape(-1, x.shape[-1]))
