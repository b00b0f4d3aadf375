"""Types of arguments in programs of JAX."""

from collections.abc import Sequence

from jax import Array
from jax.core import ShapedArray
from jax.interpreters import mlir

Arrays = Sequence[Array]
Avals = Sequence[ShapedArray]
Operands = dict[str, Array]
"""Arrays by their roles."""
Context = mlir.LoweringRuleContext
Lowered = Sequence[mlir.ir.Value]
AxisName = str | tuple[str, ...]
