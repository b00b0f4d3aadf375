"""Derivatives of products. Forward, a tangent is a sum of products; backward, so is a cotangent.

A product without activation is linear in each operand. One with an activation is differentiated as that
product, z, followed by the activation of JAX.
"""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array
from jax.core import ShapedArray
from jax.interpreters import ad

from weft.jax import grouped
from weft.jax.by_jax import activated
from weft.jax.primitive import Matrix, bind, multiply, product_p
from weft.jax.signatures import Arrays, Operands, refuse
from weft.launch import arrays
from weft.multiply.product import Product
from weft.multiply.xla_product import result_of

_LEAST_BITS = 16


def _differentiated(primals: Arrays, tangents: Arrays, *, product: Product) -> tuple[Array, Array]:
    names = "a", "b", *product.roles
    tangent_of = {n: t for n, t in zip(names, tangents, strict=True) if not isinstance(t, ad.Zero)}
    values = dict(zip(names, primals, strict=True))
    _check(product, tangent_of, values)
    if product.activation is None:
        result = bind(primals, product)
        return result, _tangent(values, tangent_of, product, result)
    if product.activation == "relu" and "residual" not in product.roles:
        result = bind(primals, product)
        tangent = _tangent(values, tangent_of, replace(product, activation=None), result)
        return result, jnp.where(result > 0, tangent, jnp.zeros_like(tangent))
    inner, of_inner = dict(values), dict(tangent_of)
    residual, of_residual = inner.pop("residual", None), of_inner.pop("residual", None)
    sums = "f64" if values["a"].dtype == jnp.float64 else "f32"
    roles = tuple(inner)[2:]
    before = replace(product, roles=roles, activation=None, out_dtype=sums, schedule=None)
    z = bind(tuple(inner.values()), before)
    described = tuple((each.shape, arrays.mlir_type(each.dtype)) for each in values.values())
    dtype = jnp.dtype(arrays.numpy_dtype(result_of(replace(product, activation=None), described)[1]))
    activation = partial(activated, product.activation)
    if of_inner:
        narrow = replace(before, out_dtype=arrays.mlir_type(dtype))
        dz = _tangent(inner, of_inner, narrow, z.astype(dtype)).astype(z.dtype)
        result, tangent = jax.jvp(activation, (z,), (dz,))
    else:
        result, tangent = activation(z), jnp.zeros_like(z)
    if residual is not None:
        result += residual.astype(z.dtype)
    if of_residual is not None:
        tangent += of_residual.astype(z.dtype)
    return result.astype(dtype), tangent.astype(dtype)


def _tangent(values: Operands, tangents: Operands, product: Product, result: Array) -> Array:
    """The tangent of a product without activation, of the result's type: a sum over operands with one."""
    rest = tuple(role for role in product.roles if role not in ("c", "bias", "residual"))
    kind = arrays.mlir_type(result.dtype)
    linear = replace(product, roles=rest, out_dtype=kind, beta=0.0, schedule=None)
    terms = []
    for name, tangent in tangents.items():
        if name in ("a", "b"):
            operands = {n: values[n] for n in ("a", "b", *rest)} | {name: tangent}
            terms.append(bind(tuple(operands.values()), linear))
        elif name == "alpha":
            plain = replace(linear, roles=tuple(role for role in rest if role != "alpha"))
            each = tangent.reshape(-1, *(1 for _ in result.shape[1:])) if result.ndim == 3 else tangent
            operands = {n: values[n] for n in ("a", "b", *plain.roles)}
            terms.append((bind(tuple(operands.values()), plain) * each).astype(result.dtype))
        else:
            scale = product.beta if name == "c" else 1.0
            term = (tangent.astype(result.dtype) * scale).astype(result.dtype)
            terms.append(jnp.broadcast_to(term, result.shape))
    total, *others = terms or [jnp.zeros_like(result)]
    for each in others:
        total += each
    return total


def _check(product: Product, tangents: Operands, values: Operands) -> None:
    """Raises WeftError for products that have no derivatives here."""
    if product.function is not None:
        what = "an epilogue that is a function has no derivatives"
        raise refuse(f"{what}: let JAX compute the function of the product's result")
    legal = "with scales, gradients are those of c, bias, residual and alpha"
    refused = [name for name in ("a", "b", "scale_a", "scale_b") if name in tangents]
    if refused and "scale_a" in product.roles:
        named = refused[0].replace("scale_", "scales of ")
        raise refuse(
            f"{legal}, got those of {named}: put the quantization and the product into a jax.custom_vjp"
        )
    of_rows = grouped.grouping(product) in ("groups", "row_ends")
    if of_rows and "alpha" in tangents and values["alpha"].size > 1:
        raise refuse(
            f"gradients of an alpha with groups are those of one element, got {values['alpha'].size}: "
            "multiply the rows of the result instead"
        )
    for name in ("a", "b"):
        dtype = arrays.mlir_type(values[name].dtype)
        if name in tangents and arrays.numpy_dtype(dtype).itemsize * 8 < _LEAST_BITS:
            raise refuse(
                f"{name} must have elements of f16, bf16, f32 or f64 where gradients are computed, got "
                f"{dtype}: hide the rounding to {dtype} in a jax.custom_vjp"
            )


def _transposed(cotangent: Array, a: Array, b: Array, *rest: Array, product: Product) -> list[Array | None]:
    """The cotangent of a or b, in which the product is linear: itself a product."""
    of_a = ad.is_undefined_primal(a)
    aval = (a if of_a else b).aval
    if isinstance(cotangent, ad.Zero):
        result: Array | ad.Zero = ad.Zero(aval)
    elif grouped.grouping(product) is not None:
        operands = zip(("a", "b", *product.roles), (a, b, *rest), strict=True)
        values = {name: each for name, each in operands if not ad.is_undefined_primal(each)}
        result = grouped.cotangent(cotangent, values, product, of_a, aval)
    else:
        result = _cotangent(cotangent, a, b, rest, product, of_a, aval)
    return [result if of_a else None, None if of_a else result, *(None for _ in rest)]


def _cotangent(
    cotangent: Array, a: Array, b: Array, rest: Arrays, product: Product, of_a: bool, aval: ShapedArray
) -> Array:
    other, flips = b if of_a else a, (product.transpose_a, product.transpose_b)
    left = cotangent.astype(other.dtype)
    if rest and rest[0].size > 1:  # an alpha for each product
        left, rest = (left * rest[0].reshape(-1, *(1 for _ in left.shape[1:]))).astype(other.dtype), ()
    if left.ndim == 3 and aval.ndim == 2:  # summed over the batch, which becomes a part of K
        left = _along_k(left, rows=not of_a)
        other = _along_k(other, rows=flips[1] if of_a else not flips[0]) if other.ndim == 3 else other
    sides = Matrix(left), Matrix(other, flips[1 if of_a else 0]).T
    added = dict(zip(product.roles, rest, strict=False))
    out, flipped = arrays.mlir_type(aval.dtype), flips[0 if of_a else 1]
    return multiply(*(sides if of_a else sides[::-1]), out, added, product, flipped=flipped)


def _along_k(batch: Array, rows: bool) -> Array:
    """The matrices of a batch below each other, or else beside each other."""
    if rows:
        return batch.reshape(-1, batch.shape[-1])
    return jnp.swapaxes(batch, 0, 1).reshape(batch.shape[1], -1)


ad.primitive_jvps[product_p] = _differentiated
ad.primitive_transposes[product_p] = _transposed
