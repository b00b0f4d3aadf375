"""Weft as a choice of Inductor's autotuning of matrix products."""

from typing import Any

import torch
from torch._inductor import config

from weft.multiply.matmul import matmul

_TYPES = (torch.bfloat16, torch.float16)


def enable() -> None:
    """Lets `torch.compile(mode="max-autotune")` choose Weft for matrix products.

    Inductor measures Weft's kernel beside its others for each `mm` of bf16 and f16, and of f32 where
    `torch.set_float32_matmul_precision` allows tf32. What follows a product isn't fused with it. Programs
    that are already compiled stay as they are.
    """
    if weft_mm not in config.external_matmul:
        config.external_matmul = [*config.external_matmul, weft_mm]


def disable() -> None:
    """Takes back `enable`."""
    config.external_matmul = [each for each in config.external_matmul if each is not weft_mm]


def weft_mm(a: Any, b: Any, *, out: Any) -> Any:
    """`torch.mm`, by Weft where it multiplies such tensors as exactly as PyTorch may."""
    tf32 = a.dtype == torch.float32 and torch.get_float32_matmul_precision() != "highest"
    if not (a.dtype in _TYPES or tf32) or 0 in (*a.shape, *out.shape):
        return torch.mm(a, b, out=out)
    return matmul(a, b, out=out)
