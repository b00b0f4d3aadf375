"""Products over the devices of an axis of `jax.shard_map`, with the results of `weft.distributed`.

XLA's collectives come before or after the product. They aren't hidden behind it yet.
"""

import functools
import operator
from typing import Any

import jax
import jax.numpy as jnp

from weft.dialects.schedule import AnySchedule
from weft.dialects.tile_types import FP8_TYPES
from weft.errors import WeftError, shown
from weft.jax.epilogue import finished
from weft.jax.products import matmul
from weft.launch import arrays
from weft.launch.arrays import numpy_dtype, type_name
from weft.multiply.operands import default_result
from weft.multiply.options import checked_activation, checked_pair

_ELEMENTS = ("f16", "bf16", *FP8_TYPES)


def all_gather_matmul(
    a: Any,
    b: Any,
    axis_name: Any,
    *,
    transpose_b: bool = False,
    bias: Any = None,
    activation: str | None = None,
    residual: Any = None,
    scales: tuple[Any, Any] | None = None,
    schedule: AnySchedule | str | None = None,
    arch: str | None = None,
) -> Any:
    """`A @ b` with an epilogue, where A has the rows of `a` of all devices of an axis, in their order.

    For functions under `jax.shard_map`. Each device has `a` (M x K) and its own columns of B (K x N, or N x K
    with `transpose_b`), and gets (devices * M) x N. Elements are f16, bf16, and fp8, whose result is bf16;
    `scales` are those of this device's `a` and `b`. The other arguments are those of `weft.jax.matmul`, and
    so are the gradients. Raises WeftError for arrays that don't fit.
    """
    name = "weft.jax.all_gather_matmul"
    _check(name, a, b, axis_name)
    if scales is not None:
        of_a, of_b = checked_pair(name, scales)
        scales = _gathered(of_a, axis_name), of_b
    epilogue = {"bias": bias, "activation": activation, "residual": residual}
    options = {"transpose_b": transpose_b, "scales": scales, "schedule": schedule, "arch": arch}
    return matmul(_gathered(a, axis_name), b, **epilogue, **options)  # type: ignore[arg-type]


def matmul_reduce_scatter(
    a: Any,
    b: Any,
    axis_name: Any,
    *,
    transpose_b: bool = False,
    bias: Any = None,
    activation: str | None = None,
    residual: Any = None,
    scales: tuple[Any, Any] | None = None,
    partials: Any = None,
    schedule: AnySchedule | str | None = None,
    arch: str | None = None,
) -> Any:
    """This device's rows of the sum of `a @ b` over the devices of an axis, with an epilogue.

    For functions under `jax.shard_map`. Each device has its own part of K: `a` (devices * M x K) and `b` (K x
    N, or N x K with `transpose_b`), and gets M x N: device i the rows from i * M on. Products are rounded to
    `partials` (f32, or the type of `a`, the default), and added in f32 in the order of the devices. So the
    bits are the same in each run. The epilogue is that of the sum; `residual` is M x N. The rest is as in
    `all_gather_matmul`.
    """
    name = "weft.jax.matmul_reduce_scatter"
    size = _check(name, a, b, axis_name)
    if a.shape[0] % size:
        near = -(-a.shape[0] // size) * size
        raise WeftError(
            f"{name}: rows of a must be a multiple of {size}, the number of devices, got {a.shape[0]}; "
            f"the next is {near}"
        )
    options = {"transpose_b": transpose_b, "scales": scales, "schedule": schedule, "arch": arch}
    own, partial = _partial(name, a, b, partials, options)
    parts = partial.reshape(size, a.shape[0] // size, partial.shape[1])
    sent = jax.lax.all_to_all(parts, axis_name, 0, 0)  # by the device from which they come
    total = functools.reduce(operator.add, [sent[rank].astype(jnp.float32) for rank in range(size)])
    return _finished(total, own, bias, activation, residual)


def matmul_all_reduce(
    a: Any,
    b: Any,
    axis_name: Any,
    *,
    transpose_b: bool = False,
    bias: Any = None,
    activation: str | None = None,
    residual: Any = None,
    scales: tuple[Any, Any] | None = None,
    partials: Any = None,
    schedule: AnySchedule | str | None = None,
    arch: str | None = None,
) -> Any:
    """The sum of `a @ b` over the devices of an axis, on each device, with an epilogue.

    For functions under `jax.shard_map`. Each device has its own part of K: `a` (M x K) and `b` (K x N, or N x
    K with `transpose_b`), and gets M x N. Products are rounded to `partials` and added in f32, by
    `jax.lax.psum`. The epilogue must be the same on all devices. The rest is as in `matmul_reduce_scatter`.
    """
    name = "weft.jax.matmul_all_reduce"
    _check(name, a, b, axis_name)
    options = {"transpose_b": transpose_b, "scales": scales, "schedule": schedule, "arch": arch}
    own, partial = _partial(name, a, b, partials, options)
    total = jax.lax.psum(partial.astype(jnp.float32), axis_name)
    return _finished(total, own, bias, activation, residual)


def _gathered(array: Any, axis_name: Any) -> Any:
    """The rows of all devices."""
    return jax.lax.all_gather(array, axis_name, tiled=True)


def _check(name: str, a: Any, b: Any, axis_name: Any) -> int:
    """The number of devices. Raises WeftError outside of an axis, and for what aren't two matrices."""
    try:
        size = int(jax.lax.axis_size(axis_name))
    except (NameError, TypeError, ValueError):
        raise WeftError(
            f"{name}: axis_name must be an axis of the jax.shard_map around the call, got {shown(axis_name)}"
        ) from None
    for what, each in (("a", a), ("b", b)):
        if not isinstance(each, jax.Array) or each.ndim != 2:
            got = f"a shape of {each.shape}" if isinstance(each, jax.Array) else shown(each)
            raise WeftError(f"{name}: {what} must be a matrix of JAX, got {got}")
        kind = arrays.mlir_type(each.dtype)
        if kind not in _ELEMENTS:
            wanted = f"{', '.join(_ELEMENTS[:-1])} or {_ELEMENTS[-1]}"
            raise WeftError(f"{name}: {what} must be of {wanted}, got {kind}")
    return size


def _partial(name: str, a: Any, b: Any, partials: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """The type of the result, and this device's product, rounded to the type of partial sums."""
    own = default_result(arrays.mlir_type(a.dtype))
    kind = own if partials is None else type_name(partials) or partials
    if kind not in ("f32", own):
        raise WeftError(f"{name}: partials must be f32 or {own}, got {shown(partials)}")
    return jnp.dtype(numpy_dtype(own)), matmul(a, b, out_dtype=kind, **options)


def _finished(total: Any, dtype: Any, bias: Any, activation: str | None, residual: Any) -> Any:
    """A sum after its epilogue, in f32, rounded to the type of the result."""
    return finished(total, bias, checked_activation(activation), residual).astype(dtype)
