"""Products under `jax.vmap`: one batch of products, or one product of more rows."""

from collections.abc import Sequence
from dataclasses import replace

import jax.numpy as jnp
from jax import Array
from jax.interpreters import batching

from weft.dialects.operand_roles import BLOCK_SCALES, FACTORS, GROUPINGS
from weft.jax.primitive import bind, one_by_one, product_p
from weft.jax.products import multiply
from weft.jax.signatures import Arrays, Operands
from weft.launch import arrays
from weft.multiply.product import Product
from weft.multiply.xla_product import operands_of, planned


def _batched(operands: Arrays, axes: Sequence[int | None], *, product: Product) -> tuple[Array, int]:
    """The results along a new first dimension, and its number."""
    names = "a", "b", *product.roles
    moved = {
        name: each if axis is None else jnp.moveaxis(each, axis, 0)
        for name, each, axis in zip(names, operands, axes, strict=True)
    }
    mapped = {name for name, axis in zip(names, axes, strict=True) if axis is not None}
    if product.function is not None or not {*mapped, *product.roles}.isdisjoint(GROUPINGS):
        return one_by_one(moved, mapped, lambda values: bind(values, product)), 0
    count = next(moved[name].shape[0] for name in names if name in mapped)
    if mapped.isdisjoint("ab"):
        moved["a"] = jnp.broadcast_to(moved["a"], (count, *moved["a"].shape))
        mapped.add("a")
    if "bias" in mapped:
        product = _bias_to_c(moved, mapped, product)
    ranks = {name: each.ndim - (name in mapped) for name, each in moved.items()}
    if not mapped.isdisjoint(BLOCK_SCALES) and _has_factors(moved, mapped, product):
        alone = mapped <= {"a", "c", "residual", "scale_a"} and "scale_a" in product.by_columns
        alone = alone and ranks["a"] == ranks["b"] == 2
        sizes = moved["a"].shape
        if not alone or product.transpose_a or moved["scale_a"].size != sizes[0] * sizes[-2]:
            return one_by_one(moved, mapped, lambda values: bind(values, product)), 0
        moved["scale_a"] = moved["scale_a"].reshape(1, -1)  # a column, transposed
        return multiply(moved, product, of_rows=True), 0
    members = next((moved[n].shape[ranks[n] - 3 + (n in mapped)] for n in "ab" if ranks[n] == 3), None)
    if "alpha" in moved and ("alpha" in mapped or moved["alpha"].size > 1):
        each = moved["alpha"].reshape(count if "alpha" in mapped else 1, -1)
        moved["alpha"] = jnp.broadcast_to(each, (count, members or 1)).reshape(-1)
    for name in mapped - {"alpha"}:
        if members is not None and ranks[name] == 2:
            moved[name] = moved[name][:, None]
    return multiply(moved, product), 0


def _has_factors(moved: Operands, mapped: set[str], product: Product) -> bool:
    """Whether the scales are those of rows, columns or tensors, which all products of a batch share."""
    described = [(each.shape[name in mapped :], arrays.mlir_type(each.dtype)) for name, each in moved.items()]
    return not set(FACTORS).isdisjoint(operands_of(product, planned(described, 0)).names)


def _bias_to_c(moved: Operands, mapped: set[str], product: Product) -> Product:
    """Adds a bias for each product to c, since a batch has only one bias. Returns the product of that c."""
    bias = moved.pop("bias")
    mapped.remove("bias")
    a, b = moved["a"], moved["b"]
    m = a.shape[-1 if product.transpose_a else -2]
    bias = jnp.broadcast_to(bias[:, None, :], (bias.shape[0], m, bias.shape[1]))
    if max(a.ndim - ("a" in mapped), b.ndim - ("b" in mapped)) == 3:
        bias = bias[:, None]
    if "c" in moved:
        c = moved["c"]
        c = c if "c" in mapped else c[None]
        while c.ndim < bias.ndim:
            c = jnp.expand_dims(c, 1)
        wide = jnp.promote_types(c.dtype, bias.dtype)
        bias = c.astype(wide) * jnp.asarray(product.beta, wide) + bias.astype(wide)
    moved["c"] = bias
    mapped.add("c")
    return replace(product, roles=tuple(moved)[2:], beta=1.0)


batching.primitive_batchers[product_p] = _batched
