"""Types of the arguments of Weft's operators."""

from collections.abc import Callable, Sequence
from typing import TypedDict

import torch
from torch import Tensor

Operand = Tensor | None
"""An optional operand of an operator."""
Operands = dict[str, Tensor]
"""Tensors by the names of an operator's operands. Optional ones may be missing or None."""
Shape = Sequence[int]
Device = torch.device | str | int | None
Kernel = Callable[..., Tensor]
"""A function with the parameters of an operator, which returns its result or a list of results."""
Gradients = tuple[Tensor | None, ...]
"""The gradients of all inputs of an operator, None for those that have none."""


class Options(TypedDict, total=False):
    """The options of a product's operator."""

    alpha: float
    beta: float | None
    activation: str | None
    out_dtype: torch.dtype | None
    promote: bool
    accumulate: str | None
    kind_a: str | None
    kind_b: str | None
    scale_block: int | None
    bit_op: str | None
    schedule: str | None
    arch: str | None


class AttentionOptions(TypedDict, total=False):
    """The options of attention's operators, those of `weft.attend.problem.Options`."""

    left: int | None
    right: int | None
    scale: float | None
    softcap: float
    layout: str
    splits: int | None
    deterministic: bool
