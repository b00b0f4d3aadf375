"""What Weft asks of the libraries whose arrays it takes: new arrays, their addresses and current streams."""

import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from weft.errors import WeftError, about
from weft.launch import arrays, cuda_driver, runtime, torch_tensors
from weft.launch.arrays import Array, ArrayView, Planned

Shape = tuple[int, ...]


_NOT_AS_TF32 = "where f32 isn't multiplied as tf32: use {}"
"""The end of a message, and what to do."""


class Library:
    """NumPy, and any library of which Weft knows no more than its arrays: launches go to the default stream,
    and results on a GPU are `DeviceArray`s.
    """

    not_as_tf32 = ""
    """The end of a message about what isn't computed if `allows_tf32` is false."""

    def wants_gradients(self, array: object) -> bool:
        """Whether the library would record an operation on an array for differentiation."""
        return False

    def allows_tf32(self) -> bool:
        """Whether the library's settings allow that f32 is multiplied as tf32."""
        return True

    def empty(self, like: object, view: ArrayView, shape: Shape, dtype: str) -> Array:
        """A new array on the device of `like`, which has this view: an array of the same library, or one that
        `handed_over` converts. It has no memory if `like` has none. Raises WeftError if the library doesn't
        support the element type.
        """
        if isinstance(like, Planned):
            strides = arrays.contiguous_strides(shape)
            return replace(like, address=0, shape=shape, strides=strides, dtype=dtype, readonly=False)
        if view.device == "cpu":
            return np.empty(shape, arrays.numpy_dtype(dtype))
        unknown = view.device_id < 0 and not all(view.shape)
        return runtime.DeviceArray(shape, dtype, None if unknown else runtime.holder([view]))

    def maker(
        self, like: object, ordinal: int | None, shape: Shape, dtype: str
    ) -> tuple[Callable[[], Any], Callable[[Any], int]]:
        """A function that creates arrays as `empty` does, on a GPU, and one that returns such an array's
        address.
        """
        create = functools.partial(runtime.DeviceArray, shape, dtype, ordinal)
        return create, lambda array: int(array.address)

    def handed_over(self, result: object, like: object) -> Array:
        """A finished result of `empty` as an array of the library. It is copied only on the CPU."""
        return result

    def current_stream(self, device: int | None) -> Callable[[], int]:
        """A function that returns the handle of the library's current stream."""
        return lambda: 0

    def writer(self) -> Callable[[Any], None] | None:
        """A function that notifies the library that one of its arrays is written, if it needs that."""
        return None


class _Torch(Library):
    not_as_tf32 = _NOT_AS_TF32.format("torch.set_float32_matmul_precision('high')")

    def wants_gradients(self, array: object) -> bool:
        if not hasattr(array, "requires_grad"):
            return False
        import torch

        if not torch_tensors.is_tensor(array):
            return False
        return bool(array.requires_grad and torch.is_grad_enabled()) or torch_tensors.has_tangent(array)

    def allows_tf32(self) -> bool:
        return torch_tensors.allows_tf32()

    def empty(self, like: Array, view: ArrayView, shape: Shape, dtype: str) -> Array:
        import torch

        name = arrays.numpy_dtype(dtype).name
        return torch.empty(shape, dtype=getattr(torch, name), device=like.device)

    def maker(
        self, like: Array, ordinal: int | None, shape: Shape, dtype: str
    ) -> tuple[Callable[[], Any], Callable[[Any], int]]:
        import torch

        strides, kind = arrays.contiguous_strides(shape), getattr(torch, arrays.numpy_dtype(dtype).name)
        # Twice as fast as torch.empty.
        create = functools.partial(torch.empty_strided, shape, strides, dtype=kind, device=like.device)
        return create, torch.Tensor.data_ptr

    def current_stream(self, device: int | None) -> Callable[[], int]:
        import torch

        return functools.partial(torch._C._cuda_getCurrentRawStream, device)

    def writer(self) -> Callable[[Any], None]:
        import torch

        return torch.autograd.graph.increment_version


class _Cupy(Library):
    def empty(self, like: Any, view: ArrayView, shape: Shape, dtype: str) -> Any:
        import cupy

        try:
            with like.device:
                return cupy.empty(shape, arrays.numpy_dtype(dtype))
        except ValueError as error:
            raise WeftError(f"weft.matmul: CuPy can't create an array of {dtype}: {error}") from None

    def maker(
        self, like: Any, ordinal: int | None, shape: Shape, dtype: str
    ) -> tuple[Callable[[], Any], Callable[[Any], int]]:
        device = like.device

        def create() -> Any:
            import cupy

            with device:
                return cupy.empty(shape, arrays.numpy_dtype(dtype))

        return create, lambda array: int(array.data.ptr)

    def current_stream(self, device: int | None) -> Callable[[], int]:
        import cupy

        return lambda: int(cupy.cuda.get_current_stream(device).ptr)


class _Jax(Library):
    not_as_tf32 = _NOT_AS_TF32.format("jax.default_matmul_precision('high')")

    def allows_tf32(self) -> bool:
        import jax

        wanted = str(jax.config.jax_default_matmul_precision)
        return wanted not in _PRECISE and not wanted.endswith(_SEVERAL)

    def handed_over(self, result: Any, like: Any) -> Any:
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

    def is_traced(self, operands: Iterable[object]) -> bool:
        """Whether JAX traces a function, of which one of these is a value."""
        jax: Any = sys.modules.get("jax")
        return hasattr(jax, "core") and any(isinstance(each, jax.core.Tracer) for each in operands)

    def is_xlas(self, operands: Iterable[Any]) -> bool:
        """Whether XLA can multiply these arrays on its own stream, without a wait: all are JAX's, on one GPU
        or on several devices.
        """
        jax: Any = sys.modules.get("jax")
        if not hasattr(jax, "ffi"):
            return False
        devices = set()
        for array in operands:
            if not isinstance(array, jax.Array) or isinstance(array, jax.core.Tracer) or array.is_deleted():
                return False
            devices |= array.devices()
        return len(devices) > 1 or devices.pop().platform == "gpu"


_PRECISE = ("highest", "float32", "F32_F32_F32", "F64_F64_F64")
_SEVERAL = ("_X3", "_X6", "_X9")
"""Which of JAX's precisions are more than that of tf32: the endings are those of several products."""
TORCH, JAX = _Torch(), _Jax()
_LIBRARIES: dict[str, Library] = {"torch": TORCH, "jax": JAX, "cupy": _Cupy()}
_OTHER = Library()


def of(array: object) -> Library:
    """The library of an array."""
    return _LIBRARIES.get(arrays.library(type(array)), _OTHER)


def view(name: str, array: object) -> tuple[Library, ArrayView]:
    """The library and the view of the array that a message calls `name`. Raises WeftError for an array that
    can't be read, or whose library would record what is done with it.
    """
    library = of(array)
    if library.wants_gradients(array):
        with about(f"weft.matmul: {name}"):
            arrays.view(array)  # a gradient isn't why a sparse tensor is refused
        advice = f"call it under torch.no_grad(), or pass {name}.detach()"
        raise WeftError(
            f"weft.matmul: {name} must not require gradients, which weft.matmul doesn't compute: {advice}"
        )
    with about(f"weft.matmul: {name}"):
        return library, arrays.view(array)


def check_before_gradients(named: Mapping[str, object]) -> None:
    """Raises WeftError for an array that can't be read, if another one requires gradients. That one is
    refused only because of the first.
    """
    wanted = {name: of(array).wants_gradients(array) for name, array in named.items()}
    if any(wanted.values()):
        for name, array in named.items():
            if not wanted[name]:
                view(name, array)


def stream_finder(
    operands: Sequence[object], device: int | None, views: Sequence[ArrayView] = ()
) -> Callable[[Any], int | None]:
    """A function from a call's `stream` to its handle, for arrays like these, which have these views. For a
    `stream` of None it returns the handle of the current stream of the first array's library. It makes that
    stream wait for those of the views.

    It returns None while PyTorch records, casts or differentiates calls, since an operator may have to run.
    """
    waits = {view.stream for view in views if view.stream is not None}
    if waits:
        find_alone = stream_finder(operands, device)

        def find_and_wait(stream: object) -> int | None:
            handle = find_alone(stream)
            if handle is not None:
                cuda_driver.order_streams(device, handle, waits)
            return handle

        return find_and_wait
    libraries = [of(array) for array in operands]
    current = libraries[0].current_stream(device)
    if TORCH not in libraries:
        return lambda stream: current() if stream is None else runtime.stream_handle(stream)
    import torch
    import torch.autograd.forward_ad as forward

    tracing, modes = torch._C._get_tracing_state, torch._C._len_torch_dispatch_stack
    gradients, cast = torch.is_grad_enabled, torch.is_autocast_enabled
    may_want = any(getattr(array, "requires_grad", False) for array in operands)

    def find(stream: object) -> int | None:
        if tracing() is not None or modes() or cast("cuda") or forward._current_level >= 0:
            return None
        if may_want and gradients():
            return None
        return current() if stream is None else runtime.stream_handle(stream)

    return find
