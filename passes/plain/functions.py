"""The functions that become plain kernels: how they are marked."""

from weft.mlir import ir

PLAIN = "weft.plain"


def is_plain(function: ir.Operation) -> bool:
    """Whether a function becomes a plain kernel, by `--outline-linalg`."""
    return PLAIN in function.operation.attributes
