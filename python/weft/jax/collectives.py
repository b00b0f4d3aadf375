"""Products over the devices of an axis by XLA's collectives, which come before or after the product."""

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from weft.dialects.schedule import AnySchedule
from weft.jax.epilogue import finished
from weft.jax.products import matmul
from weft.launch import arrays
from weft.launch.arrays import numpy_dtype
from weft.multiply.operands import default_result


@dataclass(frozen=True)
class Asked:
    """What a function is asked to compute, without the arrays. `roles` are those of the operands after a and
    b; `size` is the number of devices of the axes.
    """

    name: str
    axes: tuple[str, ...]
    size: int
    roles: tuple[str, ...]
    transpose_b: bool
    activation: str | None
    partials: str | None
    schedule: AnySchedule | None
    arch: str | None

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
    given = dict(zip(asked.roles, rest, strict=True))
    scales = (given.pop("scale_a"), given.pop("scale_b")) if "scale_a" in given else None
    if asked.name == "all_gather_matmul":
        if scales is not None:
            scales = gathered(asked, scales[0]), scales[1]
        options = _options(asked, scales)
        return matmul(gathered(asked, a), b, activation=asked.activation, **given, **options)
    partial = matmul(a, b, out_dtype=asked.partials, **_options(asked, scales))
    total = _sum(asked, partial)
    return finished(total, given.get("bias"), asked.activation, given.get("residual")).astype(asked.dtype(a))


def _options(asked: Asked, scales: Any) -> dict[str, Any]:
    return {
        "transpose_b": asked.transpose_b,
        "scales": scales,
        "schedule": asked.schedule,
        "arch": asked.arch,
    }


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
