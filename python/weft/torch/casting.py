"""Autocast: `a` and `b` of f32, f16 and bf16 are cast to the type that `torch.autocast` names."""

from typing import Any

import torch

_CAST = (torch.float32, torch.float16, torch.bfloat16)
_KEYS = {"cpu": torch._C.DispatchKey.AutocastCPU, "cuda": torch._C.DispatchKey.AutocastCUDA}


def register(library: Any) -> None:
    """Registers the rule for `matmul`. The other operators have types that mean something."""
    for device, key in _KEYS.items():
        for overload in (torch.ops.weft.matmul.default, torch.ops.weft.matmul_out.default):
            library.impl(overload, _cast(overload, device, torch._C.DispatchKeySet(key)), key.name)


def _cast(overload: Any, device: str, keys: Any) -> Any:
    def cast(a: Any, b: Any, *added: Any, **options: Any) -> Any:
        if {a.dtype, b.dtype} <= set(_CAST):
            dtype = torch.get_autocast_dtype(device)
            a, b = a.to(dtype), b.to(dtype)
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return overload(a, b, *added, **options)

    return cast
