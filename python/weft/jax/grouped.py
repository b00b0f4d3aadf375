"""Cotangents of products with groups: they are products with groups, too.

With `row_ends`, that of `a` has the same groups of rows, and that of `b`, the weights, has groups of K. With
`k_ends` it's the other way round. Elements that belong to no group are 0 in every operand and result here.
"""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp

from weft.dialects.operand_roles import GROUPINGS
from weft.dialects.product_types import GROUP_ROWS
from weft.errors import WeftError
from weft.jax.primitive import bind
from weft.launch import arrays
from weft.multiply.product import Product


def grouping(product: Product) -> str | None:
    """The role that makes products of different sizes."""
    return next((role for role in product.roles if role in GROUPINGS), None)


def in_groups(ends: Any, size: int) -> tuple[Any, Any]:
    """The group of each of `size` rows, and whether the row is in it."""
    rows = jnp.arange(size, dtype=ends.dtype)
    rounded = (ends + (GROUP_ROWS - 1)) // GROUP_ROWS * GROUP_ROWS
    number = jnp.searchsorted(rounded, rows, side="right")
    return number, rows < jnp.append(ends, 0)[number]


def only(valid: Any, array: Any, axis: int) -> Any:
    """The array with zeros where an index along an axis isn't valid. `valid` has the indices last."""
    shape = (*valid.shape, 1) if axis == -2 else (*valid.shape[:-1], 1, valid.shape[-1])
    return jnp.where(valid.reshape(shape), array, jnp.zeros((), array.dtype))


def cotangent(given: Any, values: dict[str, Any], product: Product, of_a: bool, aval: Any) -> Any:
    """The cotangent of a or b, in which the product is linear, from that of the result. `values` has the
    operands that are known.
    """
    kind = grouping(product)
    assert kind is not None
    dtype = values["b" if of_a else "a"].dtype
    out = arrays.mlir_type(aval.dtype)
    flips = product.transpose_a, product.transpose_b
    given, alpha = _scaled(given.astype(dtype), values, kind)
    bound = _Bound(replace(product, by_columns=()), out, {**alpha, kind: values[kind]})
    if kind == "k_ends":
        return _of_k_ends(given, values, bound, flips, of_a)
    if given.ndim == 3:
        return _of_batch(given, values, bound, flips, of_a, aval)
    if kind == "row_ends":
        _, valid = in_groups(values[kind], given.shape[-2])
    else:
        valid = values[kind] >= 0
    given = only(valid, given, -2)
    if of_a:
        found = only(valid, bound.product(given, values["b"], (False, not flips[1])), -2)
        return jnp.swapaxes(found, -1, -2) if flips[0] else found
    if kind == "groups":
        raise WeftError(
            "weft.jax.matmul: gradients of b need row_ends, got groups: sort the rows of a by the number of b"
        )
    a = only(valid, values["a"], -1 if flips[0] else -2)
    bound = bound.with_groups("k_ends", values[kind])
    if flips[1]:
        return bound.product(given, a, (True, flips[0]))
    return bound.product(a, given, (not flips[0], False))


class _Bound:
    """A product with an alpha and groups, of any a and b."""

    def __init__(self, product: Product, out: str, added: dict[str, Any]) -> None:
        self._product, self.out, self.added = product, out, added

    def product(self, a: Any, b: Any, flips: tuple[bool, bool], groups: bool = True) -> Any:
        added = {name: each for name, each in self.added.items() if groups or name not in GROUPINGS}
        flipped: dict[str, Any] = {"transpose_a": flips[0], "transpose_b": flips[1]}
        of_any = replace(self._product, roles=tuple(added), out_dtype=self.out, schedule=None, **flipped)
        return bind((a, b, *added.values()), of_any)

    def with_groups(self, kind: str, ends: Any) -> "_Bound":
        added = {name: each for name, each in self.added.items() if name not in GROUPINGS}
        return _Bound(self._product, self.out, {**added, kind: ends})


def _scaled(given: Any, values: dict[str, Any], kind: str) -> tuple[Any, dict[str, Any]]:
    """The cotangent times an alpha for each product, or the alpha that scales all of them."""
    alpha = values.get("alpha")
    if alpha is None or alpha.size == 1:
        return given, {} if alpha is None else {"alpha": alpha}
    if given.ndim == 3:
        factors = alpha.reshape(-1, 1, 1)
    else:
        ends = values[kind]
        number = in_groups(ends, given.shape[-2])[0] if kind == "row_ends" else ends
        factors = alpha[jnp.clip(number, 0, alpha.size - 1)][:, None]
    return (given * factors).astype(given.dtype), {}


def _of_k_ends(
    given: Any, values: dict[str, Any], bound: _Bound, flips: tuple[bool, bool], of_a: bool
) -> Any:
    """From the cotangents of all products: its rows are those of K."""
    ends = values["k_ends"]
    other = values["b" if of_a else "a"]
    k_last = flips[1] if of_a else not flips[0]
    rows = bound.with_groups("row_ends", ends).product(other, given, (k_last, of_a))
    _, valid = in_groups(ends, rows.shape[-2])
    rows = only(valid, rows, -2)
    k_first = flips[0] if of_a else not flips[1]
    return rows if k_first else jnp.swapaxes(rows, -1, -2)


def _of_batch(
    given: Any, values: dict[str, Any], bound: _Bound, flips: tuple[bool, bool], of_a: bool, aval: Any
) -> Any:
    """Of products of which `groups` has the numbers of rows."""
    valid = jnp.arange(given.shape[-2]) < values["groups"][:, None]
    given = only(valid, given, -2)
    if of_a:
        found = bound.product(given, values["b"], (False, not flips[1]))
        found = only(valid, found, -2)
        return jnp.swapaxes(found, -1, -2) if flips[0] else found
    a = only(valid, values["a"], -1 if flips[0] else -2)
    if aval.ndim == 2:  # the sum over the batch, whose rows become K
        a = (jnp.swapaxes(a, -1, -2) if flips[0] else a).reshape(-1, a.shape[-2 if flips[0] else -1])
        given, flips = given.reshape(-1, given.shape[-1]), (False, flips[1])
    if flips[1]:
        return bound.product(given, a, (True, flips[0]), groups=False)
    return bound.product(a, given, (not flips[0], False), groups=False)
