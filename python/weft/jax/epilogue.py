"""The epilogue of a product by operations of JAX, where no kernel of Weft computes it."""

import jax
import jax.numpy as jnp
from jax import Array


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
