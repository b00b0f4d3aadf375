"""Autocast: matrices of f32, f16 and bf16 are cast to the type that `torch.autocast` names."""

import torch
from torch import Tensor
from torch._ops import OpOverload

from weft.torch.operators import LIBRARY
from weft.torch.signatures import Kernel

_CAST = (torch.float32, torch.float16, torch.bfloat16)
_KEYS = {"cpu": torch._C.DispatchKey.AutocastCPU, "cuda": torch._C.DispatchKey.AutocastCUDA}


def register() -> None:
    """Registers the rule for `matmul` and `attention`. The other operators have types that mean something."""
    for overload in (torch.ops.weft.matmul.default, torch.ops.weft.matmul_out.default):
        add(overload, 2)
    add(torch.ops.weft.attention.default, 3)


def add(overload: OpOverload, count: int) -> None:
    """Registers the rule for an operator whose first `count` operands are matrices."""
    for device, key in _KEYS.items():
        LIBRARY.impl(overload, _cast(overload, count, device, torch._C.DispatchKeySet(key)), key.name)


def _cast(overload: OpOverload, count: int, device: str, keys: torch.DispatchKeySet) -> Kernel:
    """The rule of an operator whose first `count` operands are matrices."""

    def cast(*operands: Tensor, **options: object) -> Tensor:
        matrices, added = operands[:count], operands[count:]
        if {each.dtype for each in matrices} <= set(_CAST):
            dtype = torch.get_autocast_dtype(device)
            matrices = tuple(each.to(dtype) for each in matrices)
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return overload(*matrices, *added, **options)

    return cast
