"""Products of JAX's arrays by `weft.jax`: XLA queues them on its own stream, and nothing is waited for."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.multiply.product import Product
from weft.system import late_imports


def is_traced(operands: Sequence[Any]) -> bool:
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


def call(roles: Sequence[str], operands: Sequence[Any], product: Product) -> Callable[..., Any]:
    """A function of arrays like these `operands` with these roles, which returns the result once XLA has
    queued the launch. Raises WeftError where no kernel multiplies them.
    """
    with late_imports.whole():
        import jax

        from weft.jax import placement, primitive
        from weft.multiply import xla_target

    placement.check_devices(dict(zip(roles, operands, strict=True)))

    def multiplied(*given: Any) -> Any:
        return multiply(dict(zip(roles, given, strict=True)), product)

    jitted = jax.jit(multiplied)
    device, *others = {device for array in operands for device in array.devices()}
    if not others:
        for text in primitive.texts_on_gpu(jitted.trace(*operands).jaxpr):
            xla_target.prepare(text, device.local_hardware_id)
    return jitted


def multiply(given: Mapping[str, Any], product: Product) -> Any:
    """`weft.jax.matmul` of arrays by their roles, which may be traced."""
    with late_imports.whole():
        from weft.jax.products import matmul

    keywords = {**product.options, **given}
    if "scale_a" in given:
        keywords["scales"] = keywords.pop("scale_a"), keywords.pop("scale_b")
    return matmul(**keywords)
