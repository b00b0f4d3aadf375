"""Products of JAX's arrays on a GPU: queued by XLA on its own stream, so that nothing is waited for."""

import ctypes
import functools
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

from weft import locks
from weft.errors import WeftError
from weft.launch import arrays, host_code
from weft.launch.arrays import ArrayView, Planned
from weft.launch.runtime import Prepared
from weft.multiply.plans import MOST

_TARGET = "weft_launch"
_AGAIN = 1
_APART = 1 << 44  # between the planned arrays: more than the memory of any GPU
# XLA may still run a product whose plan was dropped.
_alive: deque[Prepared] = deque(maxlen=2 * MOST)
_launches: WeakValueDictionary[int, Prepared] = WeakValueDictionary()
_messages: deque[Any] = deque(maxlen=64)  # of errors, which XLA copies


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
        address, ordinal = number * _APART, device.local_hardware_id
        planned.append(Planned(address, array.shape, strides, dtype, "cuda", ordinal, True, None))
    return planned


def call(launch: Prepared, result: ArrayView) -> Callable[..., Any]:
    """A function of the arrays that a launch reads, in its order. XLA queues the launch, and the function
    returns the result.
    """
    import jax
    import jax.numpy as jnp
    import numpy as np

    _register()
    _alive.append(launch)
    _launches[launch.plan_address] = launch
    kind = jax.ShapeDtypeStruct(result.shape, jnp.dtype(arrays.numpy_dtype(result.dtype)))
    attributes = {
        "plan": np.int64(launch.plan_address),
        "settle": np.int64(ctypes.cast(_SETTLE, ctypes.c_void_p).value or 0),
    }

    def product(*operands: Any) -> Any:
        return jax.ffi.ffi_call(_TARGET, kind)(*operands, **attributes)

    return jax.jit(product)  # type: ignore[no-any-return]


_registering = locks.lock()


def _register() -> None:
    with _registering:
        _registered()


@functools.cache
def _registered() -> None:
    import jax

    handler = host_code.address("multiply/jax_launch.ll", "weft_jax_launch", uses=("launch/launcher.ll",))
    jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(handler), platform="CUDA")


def _settle(plan: int, stream: int, status: int, answer: int) -> None:
    """Writes what to do after a status: `_AGAIN` to queue the launch again, or the address of a message.
    If it writes nothing, because of an exception, the launch fails without a message.
    """
    reply = _AGAIN
    try:
        _launches[plan].provide(status, stream)
    except WeftError as error:
        message = ctypes.create_string_buffer(str(error.diagnostics[0].message).encode())
        _messages.append(message)
        reply = ctypes.addressof(message)
    ctypes.c_uint64.from_address(answer).value = reply


_SETTLE = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int, ctypes.c_uint64)(_settle)
"""`_settle`, as compiled code calls it."""
