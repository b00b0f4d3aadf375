"""Vectors in products: a is one row, b is one column, and what has the result's shape lacks these axes."""

from collections.abc import Sequence
from typing import Any

from weft.errors import WeftError


def check(name: str, shape: Sequence[int], transpose: bool, caller: str = "weft.matmul") -> bool:
    """Whether a or b is a vector. Raises WeftError for numbers, and for vectors that are to be transposed."""
    if not len(shape):
        raise WeftError(
            f"{caller}: {name} must have at least one dimension, got a single number: use alpha for it"
        )
    if len(shape) == 1 and transpose:
        what = f"transpose_{name} must be False for a vector"
        raise WeftError(f"{caller}: {what}, got {name} of {shape[0]} elements")
    return len(shape) == 1


def as_matrices(
    operands: dict[str, Any], transposes: Sequence[bool], caller: str = "weft.matmul"
) -> tuple[int, ...]:
    """Makes matrices of a and b, arrays of PyTorch or JAX, where they are vectors, and of those that have the
    result's shape. Returns the axes that the result doesn't have. Raises WeftError as `check`.
    """
    axes = []
    for name, axis, transpose in zip("ab", (-2, -1), transposes, strict=True):
        if check(name, operands[name].shape, transpose, caller):
            axes.append(axis)
            operands[name] = _with_axis(operands[name], axis)
    for name in ("c", "residual", "out"):
        for axis in reversed(axes):  # that of b first, since the other is counted from it
            if (given := operands.get(name)) is not None and (axis == -1 or given.ndim):
                operands[name] = _with_axis(given, axis)
    return tuple(axes)


def _with_axis(array: Any, axis: int) -> Any:
    return array[..., None] if axis == -1 else array[..., None, :]
