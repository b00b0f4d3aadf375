"""Products without elements, or of an empty K, by operations of JAX: there is nothing to multiply."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from weft.dialects.operand_roles import GROUPINGS
from weft.errors import WeftError
from weft.jax.epilogue import finished
from weft.launch import arrays
from weft.multiply.operands import default_result
from weft.multiply.xla_product import Described, Product

_LARGEST = {"f8E4M3FN": 448.0, "f8E5M2": 57344.0}


def is_empty(shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether a product of a and b of these shapes has no elements, or K is 0."""
    return any(0 in shape for shape in shapes)


def product_of_zeros(operands: Sequence[Any], product: Product, described: Sequence[Described]) -> Any:
    """The result of a product whose sums are 0: `residual + activation(beta * c + bias)`. Raises WeftError
    for operands that don't fit, and for an empty K with groups.
    """
    shape, dtype = product.result(described)
    given = dict(zip(product.roles, operands[2:], strict=True))
    if 0 not in shape and not set(GROUPINGS).isdisjoint(given):
        raise WeftError("weft.jax.matmul: K must be at least 1 with groups, row_ends and k_ends, got 0")
    element = described[0][1]
    of_sums = default_result(element)
    sums = of_sums if of_sums in ("f64", "i32") else "f32"
    kind = jnp.dtype(arrays.numpy_dtype(sums))
    z = jnp.zeros(shape, kind)
    if "c" in given:
        z += jnp.asarray(product.options.beta, kind) * given["c"].astype(kind)
    z = finished(z, given.get("bias"), product.activation, given.get("residual"))
    if dtype in _LARGEST:
        z = jnp.clip(z, -_LARGEST[dtype], _LARGEST[dtype])
    return z.astype(jnp.dtype(arrays.numpy_dtype(dtype)))
