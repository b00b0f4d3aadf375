"""`weft.nn.GatedMLP`: the gated MLP of Llama (Shazeer, 2020, "GLU Variants Improve Transformer")."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, overrides
from torch.autograd.function import FunctionCtx

from weft.errors import WeftError
from weft.launch import arrays, libraries, plans, runtime
from weft.launch.plans import Found
from weft.multiply.matmul import matmul
from weft.multiply.product import checked_activation
from weft.nn import gated_product, gating
from weft.nn.arguments import check_layer, check_tensor
from weft.nn.fp8 import checked_recipe
from weft.nn.linear import Linear
from weft.torch import lowering
from weft.torch.autograd import activated
from weft.torch.operators import define
from weft.torch.signatures import Device, Operand
from weft.torch.transforms import are_plain

_ELEMENTS = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}
_EMULATED = "sm_90a"


class GatedMLP(torch.nn.Module):  # type: ignore[misc]
    """`down(activation(gate(x)) * up(x))`. `x` may have any number of leading dimensions. One product
    multiplies by the weights of `gate` and `up`. A second kernel applies the activation and multiplies both
    halves.

    The module has two layers, each a `weft.nn.Linear`. The weight of `gate_up` is 2 * intermediate_features x
    features, and begins with the rows of `gate`. The weight of `down` is features x intermediate_features.
    `device` and `dtype` are as in `torch.nn.Linear`; `fp8`, `fp8_promote` and `fuse_wgrad_accumulation` are
    as in `weft.nn.Linear`. `GatedMLP.of(gate, up, down)` copies the weights of three layers. Raises WeftError
    for an unknown activation and, with `fp8`, for sizes that aren't multiples of 16.
    """

    def __init__(
        self,
        features: int,
        intermediate_features: int,
        bias: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        activation: str = "silu",
        fuse_wgrad_accumulation: bool = False,
        fp8: str | None = None,
        fp8_promote: bool | None = None,
    ) -> None:
        super().__init__()
        sizes = {"features": features, "intermediate_features": intermediate_features}
        check_layer("weft.nn.GatedMLP", sizes, device, dtype)
        checked_recipe("weft.nn.GatedMLP", fp8, **sizes)
        if activation is None:
            raise WeftError("weft.nn.GatedMLP: activation must be a name, such as 'silu', got None")
        self.activation = checked_activation(activation, "weft.nn.GatedMLP")
        layer = partial(Linear, bias=bias, device=device, dtype=dtype, fp8=fp8, fp8_promote=fp8_promote)
        layer = partial(layer, fuse_wgrad_accumulation=fuse_wgrad_accumulation)
        self.gate_up = layer(features, 2 * intermediate_features)
        self.down = layer(intermediate_features, features)

    @classmethod
    def of(
        cls,
        gate: torch.nn.Linear,
        up: torch.nn.Linear,
        down: Linear,
        activation: str = "silu",
        **options: Any,
    ) -> "GatedMLP":
        """The module with copies of the weights of three linear layers. The options are those of `GatedMLP`.
        Raises WeftError if the layers don't fit each other.
        """
        shapes = [tuple(each.weight.shape) for each in (gate, up, down)]
        biases = {each.bias is not None for each in (gate, up, down)}
        if shapes[0] != shapes[1] or shapes[2] != shapes[0][::-1] or len(biases) > 1:
            raise WeftError(
                "weft.nn.GatedMLP.of: gate and up must have weights of I x F, down of F x I, and all or "
                f"none a bias, got {', '.join(map(str, shapes))}"
            )
        weight = gate.weight
        hidden, features = shapes[0]
        options = {"device": weight.device, "dtype": weight.dtype, "activation": activation, **options}
        module = cls(features, hidden, biases.pop(), **options)
        with torch.no_grad():
            for ours, theirs in ((module.gate_up, (gate, up)), (module.down, (down,))):
                for name, parameter in ours.named_parameters():
                    parameter.copy_(torch.cat([getattr(each, name) for each in theirs]))
        module.train(gate.training)
        return module

    def forward(self, x: Tensor, residual: Operand = None) -> Tensor:
        """The module of a tensor of ... x features: one of the same shape. A `residual` is added to it, as by
        `weft.nn.Linear`.
        """
        z = self.gate_up(x)
        if gated_product.applies(z, self.down):
            return gated_product.product(z, self.down, self.activation, residual)
        h = gated(z, self.activation)
        if residual is None:
            return self.down(h)
        if isinstance(self.down, Linear):
            return self.down(h, residual=residual)
        check_tensor("weft.nn.GatedMLP", "residual", residual)
        return self.down(h) + residual

    def extra_repr(self) -> str:
        return f"activation={self.activation}"


def gated(z: Tensor, activation: str | None = "silu") -> Tensor:
    """`activation(z[..., :n]) * z[..., n:]`, where `z` is ... x 2n. One kernel computes the result, and one
    its gradient, each in f32 with one rounding. Raises WeftError for an odd size and an unknown activation.
    """
    checked_activation(activation, "weft.nn.gated")
    if not isinstance(z, torch.Tensor) and overrides.has_torch_function_unary(z):  # of torch.fx
        return overrides.handle_torch_function(gated, (z,), z, activation)
    check_tensor("weft.nn.gated", "z", z)
    if z.dim() == 0 or z.shape[-1] % 2:
        raise WeftError(f"weft.nn.gated: z must have an even last dimension, got a shape of {tuple(z.shape)}")
    fits = activation is not None and z.dtype in _ELEMENTS and 0 not in z.shape
    if not fits or not gating.fits(z.numel() // 2) or not (torch.compiler.is_compiling() or are_plain((z,))):
        return _by_pytorch(z, activation)
    return _Gated.apply(z.contiguous(), activation)


def _by_pytorch(z: Tensor, activation: str | None) -> Tensor:
    gate, up = z.unflatten(-1, (2, z.shape[-1] // 2)).unbind(-2)
    return activated(activation, gate) * up


class _Gated(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: FunctionCtx, z: Tensor, activation: str) -> Tensor:
        ctx.save_for_backward(z)
        ctx.activation = activation
        return torch.ops.weft.gated(z, activation)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, None]:
        (z,) = ctx.saved_tensors
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():  # for gradients of gradients
            h = _by_pytorch(z, ctx.activation)
            return torch.autograd.grad(h, z, gradient, create_graph=True)[0], None
        return torch.ops.weft.gated_backward(gradient.contiguous(), z, ctx.activation), None


class Gate:
    """The operators of an activation in compiled programs: `gate(z, out=h)`, and for the gradient
    `gate(dh, z, out=dz)`. They are queued on PyTorch's current stream.
    """

    def __init__(self, activation: str) -> None:
        self._activation = activation

    def __call__(self, *tensors: Tensor, out: Tensor) -> None:
        _run(self._activation, out, *tensors)


class ProductGradient:
    """The gradient of z from that of a product of the gated z, compiled: by one kernel where it applies."""

    def __init__(self, activation: str) -> None:
        self._activation = activation

    def __call__(self, gradient: Tensor, weight: Tensor, z: Tensor, *, out: Tensor) -> None:
        if gated_product.fits_memory(weight, z):
            gated_product.gradient_of_gated(gradient, weight, z, self._activation, out)
        else:
            _run(self._activation, out, matmul(gradient, weight), z)


def _define(name: str, kind: type, *inputs: str) -> None:
    """Defines an operator of tensors, the last of them z, and an activation: by an object of this kind, which
    compiled programs call.
    """

    def empty(*tensors: Tensor) -> Tensor:
        z = tensors[len(inputs) - 1]
        return z.new_empty((*z.shape[:-1], z.shape[-1] // 2)) if name == "gated" else torch.empty_like(z)

    def kernel(*arguments: Tensor) -> Tensor:
        *tensors, activation = arguments
        out = empty(*tensors)
        kind(activation)(*tensors, out=out)
        return out

    schema = f"({', '.join(f'Tensor {each}' for each in inputs)}, str activation) -> Tensor"
    define(name, schema, kernel, lowering.traced(empty), torch.Tag.needs_exact_strides)
    lowering.add(
        getattr(torch.ops.weft, name).default,
        lambda given: lowering.Made(
            __name__, kind.__name__, [given[each] for each in inputs], [given["activation"]]
        ),
    )


_define("gated", Gate, "z")
_define("gated_backward", Gate, "gradient", "z")
_define("gated_product_backward", ProductGradient, "gradient", "weight", "z")
_plans = plans.Plans()  # the launches by the tensors' sizes and alignment


def _run(activation: str, *tensors: Tensor) -> None:
    entry = _plans.found((*tensors, *[None] * (3 - len(tensors))), (activation,))
    if entry is None or entry[2] is None:
        return _first(activation, tensors, entry)
    _, addresses, (launch, current) = entry
    launch.launch(current(), *addresses[: len(tensors)])
    return None


def _first(activation: str, tensors: Sequence[Tensor], entry: Found | None) -> None:
    """The first launch for such tensors, whose plan is kept by the key of their `entry`."""
    z, columns = tensors[-1], tensors[-1].shape[-1] // 2
    on_gpu = z.device.type == "cuda"
    aligned = all(each.data_ptr() % 16 == 0 for each in tensors)
    width = gating.width_of(columns, z.element_size(), aligned)
    chip = runtime.device(z.device.index).chip if on_gpu else _EMULATED
    kernel = gating.kernel_of(activation, _ELEMENTS[z.dtype], width, len(tensors) == 3, chip)
    shape = z.numel() // (2 * columns), columns // width
    grid = gating.grid(*shape)
    if not on_gpu:
        kernel(*tensors, *shape, grid=grid, on="emulator")
        return
    launch = kernel.plan([*(arrays.view(each.detach()) for each in tensors), *shape], grid=grid)
    current = libraries.TORCH.current_stream(z.device.index)
    if entry is not None:
        _plans.add(entry[0], (launch, current))
    launch.launch(current(), *(each.data_ptr() for each in tensors))
