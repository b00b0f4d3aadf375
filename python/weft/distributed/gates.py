"""The order of columns in which a product computes a gate."""

import numpy as np

from weft.dialects.operand_roles import GATE_RUN
from weft.dialects.product_types import ceil_div
from weft.distributed.devices import Array
from weft.errors import WeftError
from weft.launch import arrays


def interleaved(first: Array, second: Array) -> Array:
    """The weights of both parts of a gate, N x K each, in one matrix, as the activation "swiglu" takes it
    with `transpose_b`: 8 rows of `first`, whose products are activated, 8 of `second`, and so on.

    Takes NumPy arrays or tensors of PyTorch. Raises WeftError for others, and for shapes that don't fit.
    """
    libraries = {arrays.library(type(each)) for each in (first, second)}
    if libraries not in ({"numpy"}, {"torch"}):
        kinds = " and ".join(type(each).__name__ for each in (first, second))
        raise WeftError(f"interleaved: weights must be arrays of NumPy or PyTorch, got {kinds}")
    shapes = tuple(first.shape), tuple(second.shape)
    if len(shapes[0]) != 2 or shapes[0] != shapes[1] or shapes[0][0] % GATE_RUN:
        raise WeftError(
            f"interleaved: weights must be two matrices of one shape, with a multiple of {GATE_RUN} rows, "
            f"got shapes {shapes[0]} and {shapes[1]}"
        )
    parts = [each.reshape(-1, GATE_RUN, shapes[0][1]) for each in (first, second)]
    if libraries == {"numpy"}:
        return np.stack(parts, 1).reshape(-1, shapes[0][1])
    import torch

    return torch.stack(parts, 1).reshape(-1, shapes[0][1])


def check_gate(name: str, columns: int, has_more: bool) -> None:
    """Raises WeftError for a product without the columns of a gate, or whose epilogue `has_more`: a bias or a
    residual. `name` is that of the function and the activation.
    """
    check_columns(f"{name} takes", columns, 2 * GATE_RUN)
    if has_more:
        raise WeftError(f"{name} has no bias and no residual")


def check_columns(subject: str, columns: int, unit: int) -> None:
    """Raises WeftError for columns of B that aren't a multiple; the message begins with `subject`."""
    if columns % unit:
        near = ceil_div(columns, unit) * unit
        raise WeftError(f"{subject} columns of b in multiples of {unit}, got {columns}; the next is {near}")
