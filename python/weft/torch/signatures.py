"""Types of the arguments of Weft's operators."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Operand = Tensor | None
"""An optional operand of an operator."""
Operands = dict[str, Tensor]
"""Tensors by the names of an operator's operands. Optional ones may be missing or None."""
Options = dict[str, Any]
"""The options of an operator by name."""
Shape = Sequence[int]
Dims = tuple[int | None, ...]
"""The dimension that `torch.vmap` maps of each operand; None for those that all members share."""
Device = torch.device | str | int | None
Kernel = Callable[..., Tensor]
"""A function with the parameters of an operator, which returns its result or a list of results."""
Gradients = tuple[Tensor | None, ...]
"""The gradients of all inputs of an operator, None for those that have none."""
