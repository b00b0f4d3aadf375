"""Finds calls that PyTorch must see: those that it differentiates, casts, traces or transforms."""

from collections.abc import Sequence

import torch
from torch import Tensor

from weft.launch import torch_tensors

_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))


def is_watched(operands: Sequence[Tensor]) -> bool:
    """`torch_tensors.are_watched`, in less time for plain tensors."""
    if are_plain(operands):
        return torch.is_grad_enabled() and any(each.requires_grad for each in operands)
    return torch_tensors.are_watched(operands)


def are_plain(operands: Sequence[Tensor]) -> bool:
    """Whether PyTorch at most records gradients of operands, so that it needs to see no operator."""
    if torch_tensors.are_transformed() or torch.is_autocast_enabled("cuda"):
        return False
    if torch.is_autocast_enabled("cpu"):
        return False
    strided = torch.strided
    for each in operands:
        if type(each) not in _PLAIN or each.layout is not strided or each.is_meta or each.is_nested:
            return False
    return True
