"""What Weft asks of the libraries whose arrays it takes: new arrays, their addresses and current streams."""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.errors import WeftError
from weft.launch import arrays, cuda_driver, runtime, torch_tensors
from weft.launch.arrays import Array, ArrayView, Planned

if TYPE_CHECKING:
    import cupy
    import torch

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
        """A function that creates arrays as `empty` does, on a GPU, and one that returns their addresses."""
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
        return bool(array.requires_grad and torch.is_grad_enabled()) or has_tangent(array)

    def allows_tf32(self) -> bool:
        return torch_tensors.allows_tf32()

    def is_watching(self, operands: Iterable[Any], *, gradients: bool = True) -> bool:
        """Whether PyTorch must see an operation on tensors, of which some may be None: it records gradients
        for one of them (if `gradients`), casts them, transforms or traces the call, or they aren't plain.
        False if one isn't a tensor, or is sparse, nested or quantized.
        """
        torch: Any = sys.modules.get("torch")
        if (kind := getattr(torch, "Tensor", None)) is None:
            return False
        tensors = [array for array in operands if array is not None]
        if not all(isinstance(each, kind) and _is_strided(each) for each in tensors):
            return False
        if torch._C._len_torch_dispatch_stack() or torch._C._get_tracing_state() is not None:
            return True
        if any(torch.is_autocast_enabled(device) for device in _AUTOCAST):
            return True
        wrapped = torch._C._functorch.is_functorch_wrapped_tensor
        plain = kind.__torch_dispatch__
        gradients = gradients and torch.is_grad_enabled()
        return any(
            (gradients and each.requires_grad)
            or wrapped(each)
            or each.device.type == "meta"
            or type(each).__torch_dispatch__ is not plain
            or (type(each) is not kind and torch.overrides.has_torch_function((each,)))
            or has_tangent(each)
            for each in tensors
        )

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


_AUTOCAST = ("cuda", "cpu")


def has_tangent(tensor: object) -> bool:
    """Whether PyTorch's forward mode differentiates operations on a tensor."""
    forward = sys.modules.get("torch.autograd.forward_ad")
    return forward is not None and is_dual(tensor, forward)


def is_dual(tensor: "torch.Tensor", forward: Any) -> bool:
    """As `has_tangent`, by the module `torch.autograd.forward_ad`."""
    level = forward._current_level
    return level >= 0 and forward.unpack_dual(tensor, level=level).tangent is not None


def _is_strided(tensor: "torch.Tensor") -> bool:
    """Whether an operator of Weft may read a tensor. Nested and quantized ones have strides, too, and those
    of lazy modules no shape.
    """
    is_lazy = torch_tensors.private_functions()["torch.nn.parameter.is_lazy"]
    dense = str(tensor.layout) == "torch.strided" and not is_lazy(tensor)
    return dense and not tensor.is_nested and not tensor.is_quantized


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


def keep_until(stream: object, used: Iterable[Any]) -> None:
    """Keeps the memory of PyTorch's tensors from being used again before a stream, which isn't its own, is
    done.
    """
    for each in used:
        if arrays.library(type(each)) == "torch" and each.is_cuda:
            each.record_stream(_external(stream, each.device))


def torch_stream(stream: object, device: "torch.device") -> Any:
    """A block in which PyTorch queues its own kernels for a GPU on a stream."""
    if stream is None or device.type != "cuda":
        return contextlib.nullcontext()
    import torch

    return torch.cuda.stream(_external(stream, device))


def queued_on(stream: object, like: Array) -> Any:
    """A block in which the library of an array, PyTorch or CuPy, queues its own kernels for the array's GPU
    on a stream; an empty block for arrays of other libraries.

    What a call makes beside its results must be made on the stream of its launches. They don't wait for
    another one, on which the library would also use the memory again while they still run.
    """
    name = arrays.library(type(like))
    if name == "torch":
        return torch_stream(stream, like.device)
    if name == "cupy" and stream is not None:
        return _cupy_stream(stream, like.device)
    return contextlib.nullcontext()


@contextlib.contextmanager
def _cupy_stream(stream: object, device: "cupy.cuda.Device") -> Iterator[None]:
    import cupy

    with device, cupy.cuda.ExternalStream(runtime.stream_handle(stream)):
        yield


def _external(stream: object, device: object) -> Any:
    import torch

    return torch.cuda.ExternalStream(runtime.stream_handle(stream), device)
