"""Cotangents of products with groups: they are products with groups, too.

With `row_ends`, that of `a` has the same groups of rows, and that of `b`, the weights, has groups of K. With
`k_ends` it's the other way round. Elements that belong to no group are 0 in every operand and result here.
"""

import jax.numpy as jnp
from jax import Array
from jax.core import ShapedArray

from weft.dialects.operand_roles import GROUPINGS
from weft.jax.primitive import Matrix, multiply
from weft.jax.signatures import Operands, refuse
from weft.launch import arrays
from weft.multiply.product import Product


def grouping(product: Product) -> str | None:
    """The role that makes products of different sizes."""
    return next((role for role in product.roles if role in GROUPINGS), None)


def in_groups(ends: Array, size: int) -> tuple[Array, Array]:
    """The group of each of `size` rows, and whether the row is in it."""
    rows = jnp.arange(size, dtype=ends.dtype)
    number = jnp.searchsorted(ends, rows, side="right")
    return number, number < ends.size


def only(valid: Array, array: Array, axis: int) -> Array:
    """The array with zeros where an index along an axis isn't valid. `valid` has the indices last."""
    shape = (*valid.shape, 1) if axis == -2 else (*valid.shape[:-1], 1, valid.shape[-1])
    return jnp.where(valid.reshape(shape), array, jnp.zeros((), array.dtype))


def cotangent(of_result: Array, values: Operands, product: Product, of_a: bool, aval: ShapedArray) -> Array:
    """The cotangent of a or b, in which the product is linear. `values` are the operands that are known."""
    kind, flips = grouping(product), (product.transpose_a, product.transpose_b)
    assert kind is not None
    of_result, alpha = _scaled(of_result.astype(values["b" if of_a else "a"].dtype), values, kind)
    out, ends = arrays.mlir_type(aval.dtype), values[kind]
    if kind == "k_ends":  # the rows of the cotangents of all products are those of K
        sides = (
            (Matrix(values["b"], flips[1]), Matrix(of_result).T)
            if of_a
            else (Matrix(values["a"], flips[0]).T, Matrix(of_result))
        )
        rows = multiply(*sides, out, {**alpha, "row_ends": ends}, product)
        rows = only(in_groups(ends, rows.shape[-2])[1], rows, -2)
        return rows if (flips[0] if of_a else not flips[1]) else jnp.swapaxes(rows, -1, -2)
    if of_result.ndim == 3:  # of a batch, of which `groups` has the numbers of rows
        valid = jnp.arange(of_result.shape[-2]) < ends[:, None]
    else:
        valid = in_groups(ends, of_result.shape[-2])[1] if kind == "row_ends" else ends >= 0
    if kind == "groups":  # otherwise, products don't read other rows
        of_result = only(valid, of_result, -2)
    if of_a:
        b = Matrix(values["b"], flips[1])
        found = only(valid, multiply(Matrix(of_result), b.T, out, {**alpha, kind: ends}, product), -2)
        return jnp.swapaxes(found, -1, -2) if flips[0] else found
    if kind == "groups" and of_result.ndim == 2:
        raise refuse("gradients of b need row_ends, got groups: sort the rows of a by the number of b")
    a = Matrix(values["a"], flips[0])
    if kind == "row_ends":
        alpha |= {"k_ends": ends}
    else:
        a = Matrix(only(valid, a.array, -1 if flips[0] else -2), flips[0])
    if kind == "groups" and aval.ndim == 2:  # the sum over the batch, whose rows become K
        whole = jnp.swapaxes(a.array, -1, -2) if a.flipped else a.array
        a = Matrix(whole.reshape(-1, whole.shape[-1]))
        of_result = of_result.reshape(-1, of_result.shape[-1])
    return multiply(a.T, Matrix(of_result), out, alpha, product, flipped=flips[1])


def _scaled(of_result: Array, values: Operands, kind: str) -> tuple[Array, Operands]:
    """The cotangent times an alpha for each product, or the alpha that scales all of them."""
    alpha = values.get("alpha")
    if alpha is None or alpha.size == 1:
        return of_result, {} if alpha is None else {"alpha": alpha}
    if of_result.ndim == 3:
        factors = alpha.reshape(-1, 1, 1)
    else:
        ends = values[kind]
        number = in_groups(ends, of_result.shape[-2])[0] if kind == "row_ends" else ends
        factors = alpha[jnp.clip(number, 0, alpha.size - 1)][:, None]
    return (of_result * factors).astype(of_result.dtype), {}
