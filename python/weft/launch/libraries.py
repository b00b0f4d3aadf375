"""New arrays, their addresses and the current stream of each array library."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from weft.errors import WeftError
from weft.launch import arrays, runtime, torch_tensors
from weft.launch.arrays import ArrayView, Planned


def empty(like: Any, view: ArrayView, shape: tuple[int, ...], dtype: str) -> Any:
    """A new array on the device of `like`: an array of the same library, or one that `handed_over` converts.
    It has no memory if `like` has none. Raises WeftError if the library doesn't support the element type.
    """
    name = arrays.numpy_dtype(dtype).name
    if isinstance(like, Planned):
        strides = arrays.contiguous_strides(shape)
        return replace(like, address=0, shape=shape, strides=strides, dtype=dtype, readonly=False)
    if arrays.library(like) == "torch":
        import torch

        return torch.empty(shape, dtype=getattr(torch, name), device=like.device)
    if view.device == "cpu":
        return np.empty(shape, arrays.numpy_dtype(dtype))
    if arrays.library(like) == "cupy":
        import cupy

        try:
            with like.device:
                return cupy.empty(shape, arrays.numpy_dtype(dtype))
        except ValueError as error:
            raise WeftError(f"weft.matmul: CuPy can't create an array of {dtype}: {error}") from None
    return runtime.DeviceArray(shape, dtype, runtime.holder([view]))


def maker(
    like: Any, view: ArrayView, shape: tuple[int, ...], dtype: str
) -> tuple[Callable[[], Any], Callable[[Any], int]]:
    """A function that creates arrays as `empty` does, and one that returns such an array's address."""
    name = arrays.numpy_dtype(dtype).name
    if arrays.library(like) == "torch":
        import torch

        # Twice as fast as torch.empty.
        strides = arrays.contiguous_strides(shape)
        create = functools.partial(
            torch.empty_strided, shape, strides, dtype=getattr(torch, name), device=like.device
        )
        return create, torch.Tensor.data_ptr
    if arrays.library(like) == "cupy":
        device = like.device

        def of_cupy() -> Any:
            import cupy

            with device:
                return cupy.empty(shape, arrays.numpy_dtype(dtype))

        return of_cupy, lambda array: int(array.data.ptr)
    ordinal = runtime.holder([view])
    return functools.partial(runtime.DeviceArray, shape, dtype, ordinal), lambda array: int(array.address)


def handed_over(result: Any, like: Any) -> Any:
    """A finished result of `empty` as an array of the library of `like`. It is copied only on the CPU."""
    if arrays.library(like) != "jax":
        return result
    import jax.dlpack

    if isinstance(result, np.ndarray):
        (device,) = like.devices()
        return jax.device_put(result, device)
    try:
        return jax.dlpack.from_dlpack(result)
    except jax.errors.JaxRuntimeError as error:
        raise WeftError(
            f"weft.matmul: JAX can't import an array of {result.dtype} through DLPack: {error}"
        ) from None


def wants_gradients(array: Any) -> bool:
    """Whether PyTorch would record an operation on an array for differentiation."""
    if arrays.library(array) != "torch" or not hasattr(array, "requires_grad"):
        return False
    import torch

    if not torch_tensors.is_tensor(array):
        return False
    return bool(array.requires_grad and torch.is_grad_enabled()) or torch_tensors.has_tangent(array)


def current_stream(array: Any, device: int) -> Callable[[], int]:
    """A function that returns the handle of the current stream of an array's library."""
    if arrays.library(array) == "torch":
        import torch

        return functools.partial(torch._C._cuda_getCurrentRawStream, device)
    if arrays.library(array) == "cupy":
        import cupy

        return lambda: int(cupy.cuda.get_current_stream(device).ptr)
    return lambda: 0


def stream_finder(operands: Sequence[Any], device: int) -> Callable[[Any], int | None]:
    """A function from a call's `stream` to its handle, for arrays like these. For a `stream` of None it
    returns the handle of the library's current stream.

    It returns None while PyTorch records or differentiates calls, since such a call may have to be refused.
    """
    current = current_stream(operands[0], device)
    if all(arrays.library(array) != "torch" for array in operands):
        return lambda stream: current() if stream is None else runtime.stream_handle(stream)
    import torch
    import torch.autograd.forward_ad as forward

    tracing, modes = torch._C._get_tracing_state, torch._C._len_torch_dispatch_stack
    gradients = torch.is_grad_enabled
    may_want = any(getattr(array, "requires_grad", False) for array in operands)

    def find(stream: Any) -> int | None:
        if tracing() is not None or modes() or forward._current_level >= 0 or (may_want and gradients()):
            return None
        return current() if stream is None else runtime.stream_handle(stream)

    return find
