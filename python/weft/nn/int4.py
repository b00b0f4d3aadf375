"""`weft.nn.Int4Linear`: a linear layer with 4-bit weights."""

import torch
from torch import Tensor

from weft.errors import WeftError, shown
from weft.int4.product import matmul_int4
from weft.int4.weights import Int4Weights, quantize_int4
from weft.multiply.product import checked_activation
from weft.torch.autograd import activated
from weft.torch.signatures import Operand

_ARRAYS = ("packed", "scales", "zeros")


class Int4Linear(torch.nn.Module):  # type: ignore[misc]
    """`x @ weight.T + bias` with 4-bit weights. `Int4Linear.of(layer)` quantizes a linear layer's weights.

    Its buffers are `packed`, `scales` and `zeros` (as in `weft.Int4Weights`) and `bias`, so a state dict
    contains them. `x` must have the type of the scales, bf16 or f16; under `torch.autocast`, it is cast to
    that type. The layer computes only the gradient of `x`. PyTorch applies the `activation`, which may be any
    of those of `weft.nn.Linear`.
    """

    packed: torch.Tensor
    scales: torch.Tensor
    zeros: torch.Tensor | None
    bias: torch.Tensor | None

    def __init__(self, weights: Int4Weights, bias: Operand = None, *, activation: str | None = None) -> None:
        super().__init__()
        self.activation = checked_activation(activation, "weft.nn.Int4Linear")
        if not isinstance(weights, Int4Weights) or not isinstance(weights.packed, torch.Tensor):
            raise WeftError(
                f"weft.nn.Int4Linear: weights must be Int4Weights of tensors, got {shown(weights)}: use "
                "Int4Linear.of(layer)"
            )
        self.out_features, self.in_features = weights.rows, weights.columns
        self.group = weights.group
        self._kept: Int4Weights | None = None
        for name in _ARRAYS:
            self.register_buffer(name, getattr(weights, name))
        self.register_buffer("bias", None if bias is None else bias.detach().to(weights.scales.dtype))

    @staticmethod
    def of(
        layer: torch.nn.Linear, *, group: int = 128, symmetric: bool = False, dtype: str | None = None
    ) -> "Int4Linear":
        """The layer with its weight quantized, as `weft.quantize_int4` does with these options, and with the
        activation of a `weft.nn.Linear`.
        """
        if not isinstance(layer, torch.nn.Linear):
            raise WeftError(f"weft.nn.Int4Linear: expects a torch.nn.Linear, got {shown(layer)}")
        weights = quantize_int4(layer.weight, group=group, symmetric=symmetric, dtype=dtype)
        return Int4Linear(weights, layer.bias, activation=getattr(layer, "activation", None))

    @property
    def weights(self) -> Int4Weights:
        """The weights."""
        sizes = self.out_features, self.in_features, self.group
        return Int4Weights(self.packed, self.scales, self.zeros, *sizes)

    def forward(self, x: Tensor) -> Tensor:
        """The layer of a tensor of ... x in_features: ... x out_features."""
        return activated(self.activation, self._product(x))

    def _product(self, x: Tensor) -> Tensor:
        if torch.compiler.is_compiling():
            return matmul_int4(x, self.weights, bias=self.bias)
        buffers, kept = self._buffers, self._kept
        if kept is None or any(getattr(kept, name) is not buffers[name] for name in _ARRAYS):
            self._kept = kept = self.weights  # which takes longer than the call
        return matmul_int4(x, kept, bias=buffers["bias"])

    def extra_repr(self) -> str:
        text = (
            f"in_features={self.in_features}, out_features={self.out_features}, group={self.group}, "
            f"symmetric={self.zeros is None}, bias={self.bias is not None}"
        )
        return text if self.activation is None else f"{text}, activation={self.activation}"
