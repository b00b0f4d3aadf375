"""Checks of the arguments of layers, with messages like Weft's others."""

import operator

import torch
from torch import Tensor

from weft.errors import WeftError, shown
from weft.torch.signatures import Device

_TYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


def check_layer(caller: str, sizes: dict[str, int], device: Device, dtype: torch.dtype | None) -> None:
    """Raises WeftError for sizes, a device or a type that no layer has."""
    for name, size in sizes.items():
        try:
            number = operator.index(size)
        except TypeError:
            number = -1
        if not 0 <= number < 2**63:
            raise WeftError(f"{caller}: {name} must be a number of elements, got {shown(size)}")
    if dtype is not None and not (isinstance(dtype, torch.dtype) and (dtype in _TYPES or dtype.is_complex)):
        got = dtype if isinstance(dtype, torch.dtype) else shown(dtype)
        raise WeftError(f"{caller}: dtype must be None or one of {', '.join(map(str, _TYPES))}, got {got}")
    try:
        device is None or torch.device(device)
    except (RuntimeError, TypeError):
        raise WeftError(
            f"{caller}: device must be None or a device of PyTorch, such as 'cuda', got {shown(device)}"
        ) from None


def check_tensor(caller: str, name: str, value: object) -> None:
    """Raises WeftError for anything but tensors."""
    if not isinstance(value, torch.Tensor):
        raise WeftError(f"{caller}: {name} must be a tensor of PyTorch, got {shown(value)}")


def check_input(caller: str, x: Tensor, weight: Tensor, is_cast: bool) -> None:
    """Raises WeftError for a tensor that the layer of a weight doesn't multiply. `is_cast`: autocast may give
    them one type. Nested tensors and weights of other classes are left to PyTorch.
    """
    if type(weight) not in (torch.Tensor, torch.nn.Parameter) or x.is_nested:
        return
    if x.is_quantized or x.layout is not torch.strided:
        advice = "dequantize()" if x.is_quantized else "to_dense()"
        got = x.dtype if x.is_quantized else x.layout
        raise WeftError(f"{caller}: x must be a plain tensor, got one of {got}: call {advice} on it first")
    if x.dim() == 0 or x.shape[-1] != weight.shape[-1]:
        wanted = f"{weight.shape[-1]} elements in its last dimension (in_features)"
        raise WeftError(f"{caller}: x must have {wanted}, got a shape of {tuple(x.shape)}")
    if x.dtype != weight.dtype and not is_cast:
        raise WeftError(
            f"{caller}: x must have the type of the weight, {weight.dtype}, got {x.dtype}: convert it, or "
            "use torch.autocast"
        )
