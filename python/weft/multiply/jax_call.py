"""Products of JAX's arrays by `weft.jax`: XLA queues them on its own stream, and nothing is waited for."""

import sys
from collections.abc import Sequence
from typing import Any


def is_traced(operands: Sequence[object]) -> bool:
    """Whether JAX traces a function, of which one of these is a value."""
    jax: Any = sys.modules.get("jax")
    return hasattr(jax, "core") and any(isinstance(each, jax.core.Tracer) for each in operands)


def is_xlas(operands: Sequence[Any]) -> bool:
    """Whether XLA can multiply these arrays without a wait: all are JAX's, on one GPU or on several
    devices.
    """
    jax: Any = sys.modules.get("jax")
    if not hasattr(jax, "ffi"):
        return False
    for array in operands:
        if not isinstance(array, jax.Array) or isinstance(array, jax.core.Tracer) or array.is_deleted():
            return False
    devices = {device for array in operands for device in array.devices()}
    return len(devices) > 1 or devices.pop().platform == "gpu"
