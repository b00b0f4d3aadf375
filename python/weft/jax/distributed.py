"""Products over the devices of an axis of `jax.shard_map`, with the results of `weft.distributed`."""

from dataclasses import replace

import jax
from jax import Array

from weft.dialects.element_types import FP8_TYPES
from weft.dialects.schedule import AnySchedule
from weft.errors import WeftError, not_a_multiple, shown
from weft.jax import team_product
from weft.jax.collectives import Asked
from weft.jax.signatures import AxisName
from weft.launch import arrays
from weft.launch.arrays import type_name
from weft.multiply.operands import default_result
from weft.multiply.product import Product, checked_pair

_SCALES = ("scale_a", "scale_b")
_ELEMENTS = ("f16", "bf16", *FP8_TYPES)


def all_gather_matmul(
    a: Array,
    b: Array,
    axis_name: AxisName,
    *,
    transpose_b: bool = False,
    bias: Array | None = None,
    activation: str | None = None,
    residual: Array | None = None,
    scales: tuple[Array, Array] | None = None,
    schedule: AnySchedule | str | None = None,
    arch: str | None = None,
    fused: bool | None = None,
) -> Array:
    """`A @ b` with an epilogue, where A is `a` of all devices of an axis, concatenated along M.

    Call it in functions under `jax.shard_map`. Each device has `a` (M x K) and its own columns of B (K x N,
    or N x K with `transpose_b`); its result is (devices * M) x N. Elements are f16, bf16 or fp8; the result
    of fp8 is bf16. `scales` are those of this device's `a` and `b`. The other arguments and the gradients are
    those of `weft.jax.matmul`.

    If the GPUs belong to one process and can access each other's memory, rows are sent while a kernel
    multiplies. Otherwise, and with `fused=False`, XLA's collectives send them. Raises WeftError for arrays
    that don't fit, and with `fused=True` if the kernel can't send the rows.
    """
    product = Product((), activation, None, False, transpose_b, schedule=schedule, arch=arch)
    return _product("all_gather_matmul", (a, b, bias, residual), scales, axis_name, fused, product)


def matmul_reduce_scatter(
    a: Array,
    b: Array,
    axis_name: AxisName,
    *,
    transpose_b: bool = False,
    bias: Array | None = None,
    activation: str | None = None,
    residual: Array | None = None,
    scales: tuple[Array, Array] | None = None,
    partials: object = None,
    schedule: AnySchedule | str | None = None,
    arch: str | None = None,
    fused: bool | None = None,
) -> Array:
    """This device's rows of the sum of `a @ b` over the devices of an axis, with an epilogue.

    Call it in functions under `jax.shard_map`. Each device has its own part of K: `a` (devices * M x K) and
    `b` (K x N, or N x K with `transpose_b`). The result on device i is M x N, the rows from i * M on.
    Products are rounded to `partials` (f32, or by default the type of `a`) and added in f32 in the order of
    the devices, so each run has the same bits. The epilogue is applied to the sum; `residual` is M x N. The
    rest is as in `all_gather_matmul`.
    """
    product = Product((), activation, partials, False, transpose_b, schedule=schedule, arch=arch)
    return _product("matmul_reduce_scatter", (a, b, bias, residual), scales, axis_name, fused, product)


def matmul_all_reduce(
    a: Array,
    b: Array,
    axis_name: AxisName,
    *,
    transpose_b: bool = False,
    bias: Array | None = None,
    activation: str | None = None,
    residual: Array | None = None,
    scales: tuple[Array, Array] | None = None,
    partials: object = None,
    schedule: AnySchedule | str | None = None,
    arch: str | None = None,
    fused: bool | None = None,
) -> Array:
    """The sum of `a @ b` over the devices of an axis, on each device, with an epilogue.

    Call it in functions under `jax.shard_map`. Each device has its own part of K: `a` (M x K) and `b` (K x N,
    or N x K with `transpose_b`); its result is M x N. Products are rounded to `partials` and added in f32, by
    a fused kernel or by `jax.lax.psum`. The epilogue must be the same on all devices. The rest is as in
    `matmul_reduce_scatter`.
    """
    product = Product((), activation, partials, False, transpose_b, schedule=schedule, arch=arch)
    return _product("matmul_all_reduce", (a, b, bias, residual), scales, axis_name, fused, product)


def _product(
    function: str,
    operands: tuple[Array, Array, Array | None, Array | None],
    scales: tuple[Array, Array] | None,
    axis_name: AxisName,
    fused: bool | None,
    product: Product,
) -> Array:
    """The product of one of the functions, of a, b, the bias and the residual."""
    a, b, bias, residual = operands
    name = f"weft.jax.{function}"
    size = _check(name, a, b, axis_name)
    k = b.shape[1 if product.transpose_b else 0]
    if a.shape[1] != k:
        raise WeftError(f"{name}: a and b must agree in K, got {a.shape[1]} and {k}")
    if not isinstance(fused, bool | None):
        raise WeftError(f"{name}: fused must be True, False or None, got {shown(fused)}")
    if function == "matmul_reduce_scatter" and a.shape[0] % size:
        raise not_a_multiple(f"{name}: rows of a", a.shape[0], size, ", the number of devices")
    asked = Asked(function, axis_name if isinstance(axis_name, tuple) else (axis_name,), size, product)
    shape = asked.shape(a, b)
    added = {} if scales is None else dict(zip(_SCALES, checked_pair(name, scales), strict=True))
    for role, each, wanted in (("bias", bias, shape[1:]), ("residual", residual, shape)):
        if each is not None and jax.numpy.shape(each) != wanted:
            sizes = " x ".join(map(str, wanted)) + " elements" * (role == "bias")
            raise WeftError(f"{name}: {role} must be {sizes}, got a shape of {jax.numpy.shape(each)}")
        added |= {} if each is None else {role: each}
    kind = None
    if function != "all_gather_matmul":  # the type to which products are rounded
        own, partials = default_result(arrays.mlir_type(a.dtype)), product.out_dtype
        kind = own if partials is None else type_name(partials) or partials
        if kind not in ("f32", own):
            raise WeftError(f"{name}: partials must be f32 or {own}, got {shown(partials)}")
    asked = replace(asked, product=replace(product, roles=tuple(added), out_dtype=kind).checked())
    return team_product.multiply(asked, (a, b, *map(jax.numpy.asarray, added.values())), fused)


def _check(name: str, a: Array, b: Array, axis_name: AxisName) -> int:
    """The number of devices. Raises WeftError outside of an axis, and for what aren't two matrices."""
    try:
        size = int(jax.lax.axis_size(axis_name))
    except (NameError, TypeError, ValueError):
        raise WeftError(
            f"{name}: axis_name must be an axis of the jax.shard_map around the call, got {shown(axis_name)}"
        ) from None
    for role, each in (("a", a), ("b", b)):
        if not isinstance(each, jax.Array) or each.ndim != 2:
            got = f"a shape of {each.shape}" if isinstance(each, jax.Array) else shown(each)
            raise WeftError(f"{name}: {role} must be a matrix of JAX, got {got}")
        kind = arrays.mlir_type(each.dtype)
        if kind not in _ELEMENTS:
            wanted = f"{', '.join(_ELEMENTS[:-1])} or {_ELEMENTS[-1]}"
            raise WeftError(f"{name}: {role} must be of {wanted}, got {kind}")
    return size
