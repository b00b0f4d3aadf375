"""DLPack capsules of views, for other libraries."""

import numpy as np

from weft.launch import arrays
from weft.launch import dlpack as protocol
from weft.launch.arrays import ArrayView


def device_of(view: ArrayView) -> tuple[int, int]:
    """DLPack's device type and device number of a view."""
    return {"cpu": 1, "cuda": 2}[view.device], view.device_id


def capsule_of(view: ArrayView, max_version: tuple[int, int] | None = None) -> object:
    """A DLPack capsule of a view's memory. It keeps the view's owner alive while it is in use.

    NumPy makes the capsule from untyped elements; element type and device are then set in it. Raises
    BufferError, as DLPack requires, for types that DLPack doesn't have.
    """
    if view.dtype not in arrays.DLPACK_TYPES:
        raise BufferError(f"DLPack has no type for {view.dtype} with one element in each byte")
    untyped = np.asarray(arrays.Memory(view)).view(f"u{arrays.numpy_dtype(view.dtype).itemsize}")
    capsule = untyped.__dlpack__() if max_version is None else untyped.__dlpack__(max_version=max_version)
    tensor, _ = protocol.read(capsule)
    tensor.code, tensor.bits = arrays.DLPACK_TYPES[view.dtype]
    tensor.device_type, tensor.device_id = device_of(view)
    return capsule
