"""Arrays of other libraries as an address, shape, strides and MLIR element type, importing none of them."""

import ctypes
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from weft.errors import WeftError, shown
from weft.launch import torch_tensors

# MLIR's spelling, NumPy's dtype, and DLPack's type code where an element is whole bytes there too.
_TYPES: tuple[tuple[str, npt.DTypeLike, int | None], ...] = (
    ("f64", np.float64, 2),
    ("f32", np.float32, 2),
    ("f16", np.float16, 2),
    ("bf16", ml_dtypes.bfloat16, 4),
    ("f8E4M3FN", ml_dtypes.float8_e4m3fn, 10),
    ("f8E5M2", ml_dtypes.float8_e5m2, 12),
    ("f8E8M0FNU", ml_dtypes.float8_e8m0fnu, 14),
    ("f6E2M3FN", ml_dtypes.float6_e2m3fn, None),
    ("f6E3M2FN", ml_dtypes.float6_e3m2fn, None),
    ("f4E2M1FN", ml_dtypes.float4_e2m1fn, None),
    ("i64", np.int64, 0),
    ("i32", np.int32, 0),
    ("i16", np.int16, 0),
    ("i8", np.int8, 0),
    ("i4", ml_dtypes.int4, None),
    ("ui64", np.uint64, 1),
    ("ui32", np.uint32, 1),
    ("ui16", np.uint16, 1),
    ("ui8", np.uint8, 1),
    ("ui4", ml_dtypes.uint4, None),
)
_NUMPY = {name: np.dtype(dtype) for name, dtype, _ in _TYPES}
_MLIR = {dtype: name for name, dtype in _NUMPY.items()}
# PyTorch calls them as NumPy and ml_dtypes do.
_BY_NUMPY_NAME = {dtype.name: name for name, dtype in _NUMPY.items()}
_DLPACK = {name: (code, 8 * _NUMPY[name].itemsize) for name, _, code in _TYPES if code is not None}
_BY_DLPACK = {code_and_bits: name for name, code_and_bits in _DLPACK.items()}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's dtype for an MLIR element type as it is spelled ("bf16")."""
    if not (isinstance(name, str) and name in _NUMPY):
        found = name if isinstance(name, str) else shown(name)
        raise WeftError(f"no array has elements of type {found}; known: {', '.join(_NUMPY)}")
    return _NUMPY[name]


def mlir_type(dtype: npt.DTypeLike) -> str:
    """MLIR's spelling of the element type of a NumPy array."""
    if not isinstance(dtype, (np.dtype, type, str)):  # of others, NumPy prints whatever they print
        raise _unsupported(shown(dtype))
    try:
        known = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError):  # whatever NumPy makes of a text or an object
        raise _unsupported(shown(dtype)) from None
    found = _MLIR.get(known)
    if found is None:
        raise _unsupported(known)
    return found


@dataclass(frozen=True)
class ArrayView:
    """Memory that `owner` keeps alive: its `strides` count elements, `dtype` is MLIR's spelling.

    Types below 8 bits lie one to a byte, as in ml_dtypes. `device_id` is -1 where the array doesn't say.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: str
    device_id: int
    readonly: bool
    owner: object

    def numpy(self) -> npt.NDArray[Any]:
        """The same memory as a NumPy array; it must be the CPU's."""
        if self.device != "cpu":
            raise WeftError(f"expected an array in CPU memory, got one on {self.device}")
        return np.asarray(_Memory(self)).view(numpy_dtype(self.dtype))


class Planned(ArrayView):
    """An array that will have memory only when what is planned with it runs."""


class _Memory:
    """Hands NumPy a view's memory as plain bytes of its elements' size, which bf16 needs."""

    def __init__(self, view: ArrayView) -> None:
        size = numpy_dtype(view.dtype).itemsize
        self.view, self.base = view, view.owner
        self.__array_interface__ = {
            "version": 3,
            "data": (view.address, view.readonly),
            "shape": view.shape,
            "strides": tuple(size * stride for stride in view.strides),
            "typestr": f"|V{size}",
        }


_MOST_TRIED: Any = 10_000  # places that two arrays may have in common, before they are taken to


def overlap(x: ArrayView, y: ArrayView) -> bool:
    """Whether some bytes of one memory are in both arrays: columns side by side of one matrix are not."""
    (first_x, end_x), (first_y, end_y) = span(x), span(y)
    if end_x <= first_y or end_y <= first_x:
        return False
    try:
        return np.shares_memory(np.asarray(_Memory(x)), np.asarray(_Memory(y)), max_work=_MOST_TRIED)
    except np.exceptions.TooHardError:
        return True


def strided(flat: npt.NDArray[Any], shape: Sequence[int], strides: Sequence[int]) -> npt.NDArray[Any]:
    """A view of a flat array with that shape and those strides, in elements."""
    # as_strided passes the array on by its type's letter and width, which don't identify all fp8 types.
    plain = flat.view(f"u{flat.itemsize}")
    in_bytes = [stride * flat.itemsize for stride in strides]
    return np.lib.stride_tricks.as_strided(plain, shape, in_bytes).view(flat.dtype)


def overlaps_itself(view: ArrayView) -> bool:
    """Whether two elements of an array share memory, or may: what is written there depends on the order."""
    dimensions = sorted((abs(s), n) for n, s in zip(view.shape, view.strides, strict=True) if n > 1)
    reach = 0  # how far the dimensions before this one go
    for stride, count in dimensions:
        if stride <= reach:
            break
        reach += stride * (count - 1)
    else:
        return False
    if not all(view.shape):
        return False
    # Two elements that share memory differ along some dimension: one is taken to have index 0 there.
    whole = np.asarray(_Memory(view))
    for axis, count in enumerate(view.shape):
        first, others = (whole[(slice(None),) * axis + (part,)] for part in (slice(1), slice(1, None)))
        try:
            if count > 1 and np.shares_memory(first, others, max_work=_MOST_TRIED):
                return True
        except np.exceptions.TooHardError:
            return True
    return False


def span(view: ArrayView) -> tuple[int, int]:
    """Where the memory of an array that has elements begins and ends."""
    size = numpy_dtype(view.dtype).itemsize
    steps = [(n - 1) * s * size for n, s in zip(view.shape, view.strides, strict=True)]
    return view.address + sum(min(s, 0) for s in steps), view.address + sum(max(s, 0) for s in steps) + size


def view(array: object) -> ArrayView:
    """An array of NumPy, PyTorch, CuPy or JAX, a `DeviceArray`, or whatever has DLPack or
    `__cuda_array_interface__`.

    Nothing is copied. Another library's work on the array may still be running, but for JAX, which waits.
    """
    if isinstance(array, ArrayView):
        return array
    if isinstance(array, np.ndarray):
        return _of_numpy(array)
    found = None if isinstance(array, type) else _of_library(array)
    if found is None:
        raise WeftError(
            "expected an array (NumPy, PyTorch, CuPy, JAX, DLPack or __cuda_array_interface__), got "
            + (f"the class {array.__name__}" if isinstance(array, type) else type(array).__name__)
        )
    return found


# What another package's code raises where it is broken; whatever else it raises passes through.
BROKEN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    ImportError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


def _of_library(array: Any) -> ArrayView | None:
    """The view of an array by the protocol that its type has, if any."""
    from_library = library(array)
    for attribute, read in (
        ("device", _of_torch if from_library == "torch" else None),
        ("__weft_view__", _of_weft),
        ("data", _of_cupy if from_library == "cupy" else None),
        ("__dlpack__", _of_jax if from_library == "jax" else _of_dlpack),
        ("__cuda_array_interface__", _of_cuda_array_interface),
    ):
        try:
            if read is not None and hasattr(array, attribute):
                return read(array)
        except BROKEN as error:
            why = f"{type(error).__name__}: {error}"
            raise WeftError(f"{attribute} of {type(array).__name__} doesn't work: {why}") from error
    return None


def _of_weft(array: Any) -> ArrayView:
    made = array.__weft_view__()
    if not isinstance(made, ArrayView):
        raise WeftError(f"expected __weft_view__ to return an ArrayView, got {type(made).__name__}")
    return made


def library(array: object) -> str:
    """The package that an array's type comes from, by the name that it is imported by."""
    name = package(type(array))
    if name not in _LIBRARIES:  # a type that is derived from a library's is one of that library's
        bases = map(package, type(array).__mro__)
        name = next((found for found in bases if found in _LIBRARIES), name)
    return "jax" if name == "jaxlib" else name


def package(kind: type) -> str:
    """The package that a type says it comes from."""
    return str(kind.__module__).partition(".")[0]  # a class may call anything its module


_LIBRARIES = ("torch", "cupy", "jax", "jaxlib", "numpy")


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of an array in C order."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def _unsupported(dtype: object) -> WeftError:
    return WeftError(f"no MLIR element type for arrays of {dtype}; known: {', '.join(_BY_NUMPY_NAME)}")


def _in_elements(strides: Sequence[int], itemsize: int) -> tuple[int, ...]:
    if any(stride % itemsize for stride in strides):
        raise WeftError(f"expected strides of whole elements ({itemsize} bytes), got {tuple(strides)} bytes")
    return tuple(stride // itemsize for stride in strides)


def _of_numpy(array: npt.NDArray[Any]) -> ArrayView:
    if isinstance(array, np.ma.MaskedArray):
        raise WeftError("expected a plain array, got a masked one")
    return ArrayView(
        array.ctypes.data,
        array.shape,
        _in_elements(array.strides, array.itemsize),
        mlir_type(array.dtype),
        "cpu",
        0,
        not array.flags.writeable,
        array,
    )


def _of_torch(tensor: Any) -> ArrayView:
    if why := torch_tensors.complaint(tensor):
        raise WeftError(f"expected a plain tensor, {why}")
    dtype = _BY_NUMPY_NAME.get(str(tensor.dtype).removeprefix("torch."))
    if dtype is None:
        raise _unsupported(tensor.dtype)
    if tensor.device.type not in ("cpu", "cuda"):
        raise WeftError(f"expected a tensor on cpu or cuda, got one on {tensor.device}")
    index = tensor.device.index or 0
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    address = tensor.data_ptr()
    if not address and all(shape):
        raise WeftError("expected a tensor with memory, got one whose storage was freed or never made")
    return ArrayView(address, shape, strides, dtype, tensor.device.type, index, False, tensor)


def _of_cupy(array: Any) -> ArrayView:
    # Its DLPack has a stream wait for another, which a graph that is being captured can't have.
    strides = _in_elements(array.strides, array.itemsize)
    dtype, ordinal = mlir_type(array.dtype), int(array.device.id)
    return ArrayView(int(array.data.ptr), array.shape, strides, dtype, "cuda", ordinal, False, array)


def _of_jax(array: Any) -> ArrayView:
    """Read-only, since JAX takes its arrays for constants; exporting one waits until it is computed."""
    import jax

    if isinstance(array, jax.core.Tracer):
        raise WeftError("expected an array, got one that JAX traces: call outside of jax.jit, grad and vmap")
    if array.is_deleted():
        raise WeftError("expected an array, got one that JAX has deleted or donated")
    try:
        return replace(_of_dlpack(array), readonly=True)
    except jax.errors.JaxRuntimeError as error:
        raise WeftError(f"JAX doesn't export an array of {array.dtype} by DLPack: {error}") from None


_TYPESTR = re.compile(r"[<>|=]?[A-Za-z]\d*")


def _of_cuda_array_interface(array: Any) -> ArrayView:
    """Raises WeftError for an interface that isn't as Numba's documentation of it has it."""
    interface = array.__cuda_array_interface__
    if not isinstance(interface, Mapping):
        raise _broken_interface(f"must be a dictionary, got {type(interface).__name__}")
    if lacking := [key for key in ("shape", "typestr", "data") if key not in interface]:
        raise _broken_interface(f"must have shape, typestr and data, lacks {', '.join(lacking)}")
    if interface.get("mask") is not None:
        raise WeftError("expected a plain array, got a masked one")
    typestr = interface["typestr"]
    if not isinstance(typestr, str) or not _TYPESTR.fullmatch(typestr):
        raise _broken_interface(f"must have a typestr like '<f4', got {typestr!r}")
    try:
        dtype = np.dtype(typestr)
    except TypeError:
        raise _unsupported(typestr) from None
    shape = _whole_numbers("shape", interface["shape"])
    strides, data = interface.get("strides"), interface["data"]
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise _broken_interface(f"must have an address and a read-only flag as data, got {data!r}")
    (address,) = _whole_numbers("data", data[:1])
    in_bytes = None if strides is None else _whole_numbers("strides", strides)
    in_elements = (
        contiguous_strides(shape) if in_bytes is None else _in_elements(in_bytes, max(dtype.itemsize, 1))
    )
    return _plausible(
        ArrayView(address, shape, in_elements, mlir_type(dtype), "cuda", -1, bool(data[1]), array)
    )


def _broken_interface(what: str) -> WeftError:
    return WeftError(f"__cuda_array_interface__ {what}")


def _whole_numbers(what: str, values: Any) -> tuple[int, ...]:
    try:
        return tuple(index(value) for value in values)
    except TypeError:
        raise _broken_interface(f"must have whole numbers in {what}, got {values!r}") from None


def _plausible(view: ArrayView) -> ArrayView:
    """The view that another library has described. Raises WeftError for what no memory can be."""
    if len(view.shape) != len(view.strides):
        raise WeftError(f"expected a stride for each size, got sizes {view.shape}, strides {view.strides}")
    size = numpy_dtype(view.dtype).itemsize
    if any(n < 0 for n in view.shape) or math.prod(view.shape) * size >= 2**63:
        raise WeftError(f"expected sizes from 0, less than 2**63 bytes in all, got {view.shape}")
    if not all(view.shape):
        return view
    if not view.address:
        raise WeftError(f"expected memory for an array of {view.shape}, got a null address")
    if view.address % size:
        raise WeftError(f"expected an address at a multiple of {size} bytes, got {view.address:#x}")
    first, end = span(view)
    if first < 0 or end > 2**64:
        raise WeftError(f"expected memory within 2**64 bytes, got bytes {first:#x} to {end:#x}")
    return view


# dlpack.h, in its order.
class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    )


_READ_ONLY = 1
# kDLCPU, kDLCUDAHost (pinned), kDLCUDA, kDLCUDAManaged
_DEVICES = {1: "cpu", 3: "cpu", 2: "cuda", 13: "cuda"}


def dlpack_device(view: ArrayView) -> tuple[int, int]:
    """DLPack's device type and number of where a view's memory is."""
    return {"cpu": 1, "cuda": 2}[view.device], view.device_id


def dlpack(view: ArrayView, max_version: tuple[int, int] | None = None) -> object:
    """A DLPack capsule of a view's memory, which keeps the view's owner alive as long as anyone uses it.

    NumPy makes the capsule, of plain bytes of the elements' size, and learns neither their type nor of a GPU.
    Raises BufferError, as DLPack wants, for types that DLPack doesn't know.
    """
    if view.dtype not in _DLPACK:
        raise BufferError(f"DLPack has no elements of {view.dtype} that lie one to a byte")
    plain = np.asarray(_Memory(view)).view(f"u{numpy_dtype(view.dtype).itemsize}")
    capsule = plain.__dlpack__() if max_version is None else plain.__dlpack__(max_version=max_version)
    tensor, _ = _dl_tensor(capsule)
    tensor.code, tensor.bits = _DLPACK[view.dtype]
    tensor.device_type, tensor.device_id = dlpack_device(view)
    return capsule


def _of_dlpack(array: Any) -> ArrayView:
    try:
        try:
            capsule = array.__dlpack__(max_version=(1, 0))
        except TypeError:  # a producer from before versions
            capsule = array.__dlpack__()
    except BufferError as error:
        raise WeftError(f"{type(array).__name__} doesn't export itself by DLPack: {error}") from None
    tensor, readonly = _dl_tensor(capsule)
    dtype = _BY_DLPACK.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        raise _unsupported(f"DLPack type code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes")
    if tensor.device_type not in _DEVICES:
        raise WeftError(f"expected CPU or CUDA memory, got DLPack device type {tensor.device_type}")
    rank = tensor.ndim
    if not 0 <= rank <= _MOST_DIMENSIONS or (rank and not tensor.shape):
        raise WeftError(f"expected a DLPack tensor of 0 to {_MOST_DIMENSIONS} dimensions, got {rank}")
    shape = tuple(tensor.shape[:rank]) if rank else ()
    strides = tuple(tensor.strides[:rank]) if rank and tensor.strides else contiguous_strides(shape)
    address = (tensor.data or 0) + tensor.byte_offset
    device = _DEVICES[tensor.device_type]
    device_id = tensor.device_id if device == "cuda" else 0
    if device_id < 0:
        raise WeftError(f"expected a DLPack device number from 0, got {device_id}")
    # A capsule that nobody consumes frees the tensor when it dies itself: we need only keep it.
    return _plausible(
        ArrayView(address, shape, strides, dtype, device, device_id, readonly, (array, capsule))
    )


_MOST_DIMENSIONS = 64  # NumPy's own limit
# Their own prototypes: other libraries may have set those of `ctypes.pythonapi` as they need them.
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)


def _dl_tensor(capsule: object) -> tuple[_DLTensor, bool]:
    """The tensor in a fresh capsule of either kind, and whether it's read-only."""
    if _is_valid(capsule, b"dltensor_versioned"):
        managed = _DLManagedTensorVersioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            raise WeftError(f"expected DLPack 1, got version {managed.major}.{managed.minor}")
        return managed.tensor, bool(managed.flags & _READ_ONLY)
    if _is_valid(capsule, b"dltensor"):
        return _DLTensor.from_address(_pointer(capsule, b"dltensor")), False
    raise WeftError("expected a DLPack capsule that nobody has consumed")
