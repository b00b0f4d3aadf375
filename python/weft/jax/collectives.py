"""Products over the devices of an axis by XLA's collectives, which come before or after the product."""

import functools
import operator
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from weft.jax.by_jax import finished
from weft.jax.products import of_roles
from weft.jax.signatures import AxisName
from weft.launch import arrays
from weft.launch.arrays import numpy_dtype
from weft.multiply.operands import default_result
from weft.multiply.product import Product


@dataclass(frozen=True)
class Asked:
    """A call of a function, without the arrays. `size` is the number of devices of the axes.
    The product's `out_dtype` is the type of partial sums.
    """

    name: str
    axes: tuple[str, ...]
    size: int
    product: Product

    def having(self, **options: Any) -> "Asked":
        """The same with other options of the product."""
        return replace(self, product=replace(self.product, **options))

    @property
    def axis_name(self) -> AxisName:
        """The axes, for JAX."""
        return self.axes if len(self.axes) > 1 else self.axes[0]

    def shape(self, a: Array, b: Array) -> tuple[int, int]:
        """The shape of the result on each device."""
        rows = {"all_gather_matmul": a.shape[0] * self.size, "matmul_reduce_scatter": a.shape[0] // self.size}
        return rows.get(self.name, a.shape[0]), b.shape[0 if self.product.transpose_b else 1]

    def dtype(self, a: Array) -> jnp.dtype:
        """The type of the result."""
        return jnp.dtype(numpy_dtype(default_result(arrays.mlir_type(a.dtype))))


def multiply(asked: Asked, *operands: Array) -> Array:
    """The product of a, b, and the operands with roles."""
    product = asked.product
    by_role = dict(zip(("a", "b", *product.roles), operands, strict=True))
    if asked.name == "all_gather_matmul":
        of_rows = {name: gathered(asked, by_role[name]) for name in ("a", "scale_a") if name in by_role}
        return of_roles(by_role | of_rows, product)
    bias, residual = by_role.pop("bias", None), by_role.pop("residual", None)
    total = _sum(asked, of_roles(by_role, replace(product, activation=None)))
    return finished(total, bias, product.activation, residual).astype(asked.dtype(operands[0]))


def _sum(asked: Asked, partial: Array) -> Array:
    """The sum over the devices in f32: this device's rows of it, or all."""
    if asked.name == "matmul_all_reduce":
        return jax.lax.psum(partial.astype(jnp.float32), asked.axis_name)
    size = asked.size
    parts = partial.reshape(size, partial.shape[0] // size, partial.shape[1])
    sent = jax.lax.all_to_all(parts, asked.axis_name, 0, 0)  # by the device from which they come
    each = [sent[rank].astype(jnp.float32) for rank in range(size)]
    return functools.reduce(operator.add, each)


def gathered(asked: Asked, array: Array) -> Array:
    """The rows of all devices."""
    return jax.lax.all_gather(array, asked.axis_name, tiled=True)
