"""The epilogue of a product by operations of JAX, where no kernel of Weft computes it."""

from typing import Any

import jax
import jax.numpy as jnp

ACTIVATIONS = {
    "relu": jax.nn.relu,
    "gelu": lambda z: jax.nn.gelu(z, approximate=False),
    "gelu_tanh": jax.nn.gelu,
    "silu": jax.nn.silu,
}


def finished(z: Any, bias: Any, activation: str | None, residual: Any) -> Any:
    """`residual + activation(z + bias)` in the type of `z`; None is left out."""
    if bias is not None:
        z += jnp.asarray(bias).astype(z.dtype)
    if activation is not None:
        z = ACTIVATIONS[activation](z)
    if residual is not None:
        z += jnp.asarray(residual).astype(z.dtype)
    return z
