"""Types of arguments in programs of JAX, and the error of wrong ones."""

from collections.abc import Sequence

from jax import Array
from jax.core import ShapedArray
from jax.interpreters import mlir

from weft.errors import WeftError

Arrays = Sequence[Array]
Avals = Sequence[ShapedArray]
Operands = dict[str, Array]
"""Arrays by their roles."""
Context = mlir.LoweringRuleContext
Lowered = Sequence[mlir.ir.Value]
AxisName = str | tuple[str, ...]


def refuse(message: str) -> WeftError:
    """The error of a call with a mistake."""
    return WeftError(f"weft.jax.matmul: {message}")
