"""Finds calls that PyTorch must see: those that it differentiates, casts, traces or transforms."""

from collections.abc import Sequence
from typing import Any

import torch

from weft.launch import torch_tensors

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def is_watched(operands: Sequence[Any]) -> bool:
    """`torch_tensors.are_watched`, in less time for plain tensors."""
    if not (torch_tensors.are_transformed() or torch.is_autocast_enabled("cuda")):
        gradients = torch.is_grad_enabled()
        for each in operands:
            if type(each) not in _PLAIN or (gradients and each.requires_grad):
                break
        else:
            return False
    return torch_tensors.are_watched(operands)
