"""Products over the devices of an axis by XLA's collectives, which come before or after the product."""

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

from weft.jax.epilogue import finished
from weft.jax.products import matmul
from weft.launch import arrays
from weft.launch.arrays import numpy_dtype
from weft.multiply.operands import default_result
from weft.multiply.product import Product


@dataclass(frozen=True)
class Asked:
    """What a function is asked to compute, without the arrays. `size` is the number of devices of the axes.
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
    def axis_name(self) -> Any:
        """The axes, for JAX."""
        return self.axes if len(self.axes) > 1 else self.axes[0]

    def dtype(self, a: Any) -> Any:
        """The type of the result."""
        return jnp.dtype(numpy_dtype(default_result(arrays.mlir_type(a.dtype))))


def multiply(asked: Asked, *operands: Any) -> Any:
    """The product of a, b, and the operands with roles."""
    a, b, *rest = operands
    given, product = dict(zip(asked.product.roles, rest, strict=True)), asked.product
    scales = (given.pop("scale_a"), given.pop("scale_b")) if "scale_a" in given else None
    if asked.name == "all_gather_matmul":
        if scales is not None:
            scales = gathered(asked, scales[0]), scales[1]
        options = _options(asked, scales)
        return matmul(gathered(asked, a), b, activation=product.activation, **given, **options)
    partial = matmul(a, b, out_dtype=product.out_dtype, **_options(asked, scales))
    total = _sum(asked, partial)
    d = finished(total, given.get("bias"), product.activation, given.get("residual"))
    return d.astype(asked.dtype(a))


def _options(asked: Asked, scales: Any) -> dict[str, Any]:
    product = asked.product
    options = {"transpose_b": product.transpose_b, "schedule": product.schedule, "arch": product.arch}
    return {"scales": scales, **options}


def _sum(asked: Asked, partial: Any) -> Any:
    """The sum over the devices in f32: this device's rows of it, or all."""
    if asked.name == "matmul_all_reduce":
        return jax.lax.psum(partial.astype(jnp.float32), asked.axis_name)
    size = asked.size
    parts = partial.reshape(size, partial.shape[0] // size, partial.shape[1])
    sent = jax.lax.all_to_all(parts, asked.axis_name, 0, 0)  # by the device from which they come
    each: Sequence[Any] = [sent[rank].astype(jnp.float32) for rank in range(size)]
    return functools.reduce(operator.add, each)


def gathered(asked: Asked, array: Any) -> Any:
    """The rows of all devices."""
    return jax.lax.all_gather(array, asked.axis_name, tiled=True)
