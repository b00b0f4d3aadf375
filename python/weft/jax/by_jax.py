"""Products by operations of JAX: without elements, of an empty K, or of f32 where tf32 isn't allowed."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import Array

from weft.dialects.operand_roles import GROUPINGS
from weft.jax.signatures import Arrays, Operands, refuse
from weft.launch import arrays, libraries
from weft.multiply.operands import default_result
from weft.multiply.product import Product
from weft.multiply.xla_product import Described, result_of


def instead(operands: Arrays, product: Product) -> Callable[..., Array] | None:
    """A function of operands, the product and their description that computes what no kernel should; None for
    a product by a kernel. JAX multiplies f32 itself if `jax_default_matmul_precision` doesn't allow tf32,
    unless a schedule or a chip is named.
    """
    if any(0 in jnp.shape(each) for each in operands[:2]):
        return _product_of_zeros
    named = product.schedule is not None or product.arch is not None
    if operands[0].dtype != jnp.float32 or named or libraries.JAX.allows_tf32():
        return None
    return _precise_product


def _product_of_zeros(operands: Arrays, product: Product, described: Sequence[Described]) -> Array:
    """The result of a product whose sums are 0: `residual + activation(beta * c + bias)`. Raises WeftError
    for operands that don't fit, and for an empty K with groups.
    """
    shape, _ = result_of(product, described)
    added = dict(zip(product.roles, operands[2:], strict=True))
    if 0 not in shape and not set(GROUPINGS).isdisjoint(added):
        raise refuse("K must be at least 1 with groups, row_ends and k_ends, got 0")
    if 0 not in shape and product.function is not None:
        raise refuse("K must be at least 1 with an epilogue that is a function, got 0")
    z = jnp.zeros(shape, jnp.dtype(arrays.numpy_dtype(_sums(described))))
    return of_sums(z, added, product, described)


def _sums(described: Sequence[Described]) -> str:
    """The type of a product's sums."""
    result = default_result(described[0][1])
    return result if result in ("f64", "i32") else "f32"


def _precise_product(operands: Arrays, product: Product, described: Sequence[Described]) -> Array:
    """The result of a product of f32, multiplied as JAX's setting says. Raises WeftError for operands that
    don't fit, and for groups.
    """
    result_of(product, described)
    a, b, *added = operands
    by_role = dict(zip(product.roles, added, strict=True))
    if groups := next((name for name in GROUPINGS if name in by_role), None):
        raise refuse(f"{groups} must be None {libraries.JAX.not_as_tf32}")
    if product.batch_invariant:
        raise refuse(f"batch_invariant must be False {libraries.JAX.not_as_tf32}")
    if product.function is not None:
        raise refuse(f"epilogue must be a weft.Epilogue {libraries.JAX.not_as_tf32}")
    a = jnp.swapaxes(a, -1, -2) if product.transpose_a else a
    b = jnp.swapaxes(b, -1, -2) if product.transpose_b else b
    z = jnp.matmul(a, b) * jnp.float32(product.alpha)
    for name in {"scale_a", "scale_b"} & by_role.keys():  # of rows and columns
        factor = jnp.swapaxes(by_role[name], -1, -2) if name in product.by_columns else by_role[name]
        z *= factor.reshape(()) if factor.size == 1 else factor
    if (alpha := by_role.get("alpha")) is not None:
        z *= alpha.reshape(-1, *(1 for _ in z.shape[1:])) if alpha.size > 1 else alpha.reshape(())
    return of_sums(z, by_role, product, described)


def sums_of(product: Product, described: Sequence[Described]) -> Product | None:
    """The product of a, b and perhaps alpha that `of_sums` finishes; None where K can't be divided."""
    if product.batch_invariant or any((product.schedule, product.kind, product.bit_op)):
        return None
    roles = tuple(role for role in product.roles if role == "alpha")
    return replace(product, roles=roles, activation=None, out_dtype=_sums(described), beta=0.0)


def of_sums(z: Array, added: Operands, product: Product, described: Sequence[Described]) -> Array:
    """The result from the sums of products."""
    dtype = jnp.dtype(arrays.numpy_dtype(result_of(product, described)[1]))
    if "c" in added and product.beta:  # as in kernels, 0 times NaN adds nothing
        z += jnp.asarray(product.beta, z.dtype) * added["c"].astype(z.dtype)
    z = finished(z, added.get("bias"), product.activation, added.get("residual"))
    if dtype.itemsize == 1:  # kernels saturate
        largest = float(jnp.finfo(dtype).max)
        z = jnp.clip(z, -largest, largest)
    return z.astype(dtype)


def activated(name: str, z: Array) -> Array:
    """An activation, by JAX's function of its name."""
    name, _, form = name.partition("_")
    return getattr(jax.nn, name)(z, **({"approximate": bool(form)} if name == "gelu" else {}))


def finished(z: Array, bias: Array | None, activation: str | None, residual: Array | None) -> Array:
    """`residual + activation(z + bias)` in the type of `z`; None is left out."""
    if bias is not None:
        z += jnp.asarray(bias).astype(z.dtype)
    if activation is not None:
        z = activated(activation, z)
    if residual is not None:
        z += jnp.asarray(residual).astype(z.dtype)
    return z
