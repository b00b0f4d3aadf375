"""Weft as a choice of Inductor's autotuning of matrix products."""

import torch
from torch import Tensor

from weft.launch import torch_tensors
from weft.multiply.matmul import matmul

_TYPES = (torch.bfloat16, torch.float16)


def weft_mm(a: Tensor, b: Tensor, *, out: Tensor) -> Tensor:
    """`torch.mm`, by Weft where it multiplies such tensors as exactly as PyTorch may."""
    if not is_exact(a.dtype) or 0 in (*a.shape, *out.shape):
        return torch.mm(a, b, out=out)
    return matmul(a, b, out=out)


def is_exact(dtype: torch.dtype) -> bool:
    """Whether Weft multiplies elements of a type as exactly as PyTorch may, which is as tf32 for f32."""
    return dtype in _TYPES or (dtype == torch.float32 and torch_tensors.allows_tf32())
