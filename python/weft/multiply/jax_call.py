"""Products of JAX's arrays on a GPU: queued by XLA on its own stream, so that nothing is waited for."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from weft.launch import arrays
from weft.launch.arrays import ArrayView, Planned
from weft.multiply import xla_target
from weft.multiply.xla_product import APART, Product


def views(operands: Sequence[Any]) -> list[ArrayView] | None:
    """Views of JAX's arrays with made-up addresses, since the real ones are known only once they are
    computed. None if an array isn't JAX's, or isn't on one GPU.
    """
    jax: Any = sys.modules.get("jax")
    if not hasattr(jax, "ffi"):
        return None
    planned: list[ArrayView] = []
    for number, array in enumerate(operands, 1):
        if arrays.library(type(array)) != "jax" or isinstance(array, jax.core.Tracer) or array.is_deleted():
            return None
        if len(devices := array.devices()) != 1:
            return None
        (device,) = devices
        dtype = arrays.mlir_type(array.dtype)
        if device.platform != "gpu" or dtype in arrays.PACKED_BITS:
            return None
        strides = arrays.contiguous_strides(array.shape)
        address, ordinal = number * APART, device.local_hardware_id
        planned.append(Planned(address, array.shape, strides, dtype, "cuda", ordinal, True, None))
    return planned


def call(product: Product, planned: Sequence[ArrayView], result: ArrayView) -> Callable[..., Any]:
    """A function of a, b and the other operands, like the `planned` ones. XLA queues the launch, and the
    function returns the result. Raises WeftError where no kernel multiplies them.
    """
    import jax
    import jax.numpy as jnp

    text = product.text([(view.shape, view.dtype) for view in planned], (result.shape, result.dtype))
    xla_target.register()
    xla_target.prepare(text, result.device_id)
    kind = jax.ShapeDtypeStruct(result.shape, jnp.dtype(arrays.numpy_dtype(result.dtype)))
    attributes = xla_target.attributes(text)

    def multiply(*operands: Any) -> Any:
        return jax.ffi.ffi_call(xla_target.TARGET, kind)(*operands, **attributes)

    return jax.jit(multiply)  # type: ignore[no-any-return]
