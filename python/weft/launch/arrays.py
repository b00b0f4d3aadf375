"""Views of other libraries' arrays: address, shape, strides and MLIR element type. Imports none of them."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from weft.errors import WeftError, shown
from weft.launch import dlpack as protocol
from weft.launch import torch_tensors
from weft.launch.cuda_driver import LEGACY_STREAM, STREAM_PER_THREAD

# MLIR's name, NumPy's dtype, and DLPack's type code if DLPack stores each element in whole bytes, too.
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
    ("i1", np.bool_, None),
    ("ui64", np.uint64, 1),
    ("ui32", np.uint32, 1),
    ("ui16", np.uint16, 1),
    ("ui8", np.uint8, 1),
    ("ui4", ml_dtypes.uint4, None),
)
_NUMPY = {name: np.dtype(dtype) for name, dtype, _ in _TYPES}
_MLIR = {dtype: name for name, dtype in _NUMPY.items()}
# PyTorch uses the names of NumPy and ml_dtypes.
_BY_NUMPY_NAME = {dtype.name: name for name, dtype in _NUMPY.items()}
DLPACK_TYPES = {name: (code, 8 * _NUMPY[name].itemsize) for name, _, code in _TYPES if code is not None}
"""The type codes and bits of DLPack, by MLIR's names."""
_BY_DLPACK = {code_and_bits: name for name, code_and_bits in DLPACK_TYPES.items()}
_BY_DLPACK[6, 8] = "i1"  # bool: bytes, where Weft's own arrays of i1, which it doesn't export, are packed
PACKED_BITS = {"f6E2M3FN": 6, "f6E3M2FN": 6, "f4E2M1FN": 4, "i4": 4, "ui4": 4, "i1": 1}
"""The types whose elements kernels read packed, with their bits."""
_PACKED_DLPACK = {(15, 6): "f6E2M3FN", (16, 6): "f6E3M2FN", (17, 4): "f4E2M1FN"}
_TORCH_PAIRS = {"float4_e2m1fn_x2": "f4E2M1FN"}
"""PyTorch's types of bytes with two elements."""


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of an MLIR element type ("bf16"). Raises WeftError for an unknown type."""
    if not (isinstance(name, str) and name in _NUMPY):
        got = name if isinstance(name, str) else shown(name)
        raise WeftError(f"element type must be one of {', '.join(_NUMPY)}, got {got}")
    return _NUMPY[name]


def type_name(given: Any) -> str | None:
    """MLIR's name of an element type that a caller names: by MLIR's name, by the type of NumPy, ml_dtypes or
    JAX, its dtype or the dtype's name, or by the dtype of PyTorch. None for anything else.
    """
    if isinstance(given, str):  # NumPy has other meanings for "f4" and "f8"
        return given if given in _NUMPY else _BY_NUMPY_NAME.get(given)
    if type(given).__module__ == "torch" and (torch_name := str(given)).startswith("torch."):
        return _BY_NUMPY_NAME.get(torch_name.removeprefix("torch."))
    if isinstance(given, type) and isinstance(inner := getattr(given, "dtype", None), np.dtype):
        given = inner  # such as jnp.bfloat16
    try:
        return mlir_type(given)
    except WeftError:
        return None


def mlir_type(dtype: npt.DTypeLike) -> str:
    """The MLIR element type of a NumPy array. Raises WeftError for an unsupported type."""
    if not isinstance(dtype, (np.dtype, type, str)):  # NumPy's message would contain the object's repr
        raise _unsupported(shown(dtype))
    try:
        resolved = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError):  # all that NumPy raises for a string or an object
        raise _unsupported(shown(dtype)) from None
    name = _MLIR.get(resolved)
    if name is None:
        raise _unsupported(resolved)
    return name


if TYPE_CHECKING:
    import torch

    Array: TypeAlias = npt.NDArray[Any] | torch.Tensor
else:
    Array = object
"""An array of a library: those of CuPy and JAX are alike."""


@dataclass(frozen=True)
class ArrayView:
    """An array in memory that `owner` keeps alive. `strides` are in elements; `dtype` is an MLIR type.

    An element of fewer than 8 bits occupies one byte, as in ml_dtypes. If the array is `packed`, elements
    follow each other without gaps along the dimension of stride 1, the first in the lowest bits. `device` is
    "cpu" or "cuda"; `device_id` is -1 if the array doesn't specify its GPU. `stream` is the handle of a
    stream on which another library may still compute the array; None if nothing needs to be waited for.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: str
    device_id: int
    readonly: bool
    owner: object
    packed: bool = False
    stream: int | None = None

    def numpy(self) -> npt.NDArray[Any]:
        """The same memory as a NumPy array, of uint8 if packed. Raises WeftError for memory of a GPU."""
        if self.device != "cpu":
            raise WeftError(f"expected an array in CPU memory, got one on {self.device}")
        plain = self.in_bytes
        return np.asarray(Memory(plain)).view(plain.numpy_dtype)

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """NumPy's type of the elements."""
        return numpy_dtype(self.dtype)

    @property
    def bits(self) -> int:
        """The bits from one element to the next."""
        return PACKED_BITS[self.dtype] if self.packed else 8 * self.numpy_dtype.itemsize

    @property
    def row_alignment(self) -> int:
        """The greatest common divisor, in bytes, of the addresses of all rows.

        For a CPU array, the address itself doesn't count: it is copied to aligned memory.
        """
        starts = [s * self.bits // 8 for n, s in zip(self.shape[:-1], self.strides, strict=False) if n > 1]
        return math.gcd(*starts, 0 if self.device == "cpu" else self.address)

    def has_whole_rows(self, bytes_: int) -> bool:
        """Whether rows begin at multiples of some bytes, and are such multiples."""
        return not (self.row_alignment % bytes_ or self.shape[-1] * self.bits % (8 * bytes_))

    @property
    def in_bytes(self) -> "ArrayView":
        """The array itself, or the bytes of a packed one. Raises WeftError if its rows aren't whole bytes."""
        if not self.packed:
            return self
        along, bits = contiguous_dimension(self.strides), self.bits
        starts = [s for i, s in enumerate(self.strides) if i != along and self.shape[i] > 1]
        if along is None or any(each * bits % 8 for each in (self.shape[along], *starts)):
            what = f"rows of packed {self.dtype} must be whole bytes"
            raise WeftError(f"{what}, got an array of {self.shape} with strides {self.strides}")
        shape = [n * bits // 8 if i == along else n for i, n in enumerate(self.shape)]
        strides = [1 if i == along else s * bits // 8 for i, s in enumerate(self.strides)]
        return replace(self, shape=tuple(shape), strides=tuple(strides), dtype="ui8", packed=False)

    def unpacked_from(self, dtype: str) -> "ArrayView":
        """The packed elements of a type in this array of bytes. Raises WeftError where they don't fill it."""
        along, bits = contiguous_dimension(self.strides), PACKED_BITS[dtype]
        if along is None:
            raise WeftError(f"bytes of packed {dtype} must have a dimension of stride 1, got {self.strides}")
        others = [s for i, s in enumerate(self.strides) if i != along and self.shape[i] > 1]
        if any(8 * each % bits for each in (self.shape[along], *others)):
            what = f"rows of packed {dtype} must have a multiple of {bits // math.gcd(bits, 8)} bytes"
            raise WeftError(f"{what}, got an array of {self.shape} with strides {self.strides}")
        shape = [n * 8 // bits if i == along else n for i, n in enumerate(self.shape)]
        strides = [1 if i == along else s * 8 // bits for i, s in enumerate(self.strides)]
        return replace(self, shape=tuple(shape), strides=tuple(strides), dtype=dtype, packed=True)


def as_scales(subject: str, view: ArrayView, scale: str, shape: tuple[int, ...]) -> ArrayView:
    """The view of scales as a matrix of tiles of this shape, or of its last two sizes if it is of a batch.
    The array may have any shape with as many scales. Raises WeftError for another number of them, or where
    they aren't contiguous.
    """
    found = next((each for each in (shape, shape[-2:]) if math.prod(view.shape) == math.prod(each)), None)
    if found is None:
        wanted, got = (" x ".join(map(str, each)) for each in (shape, view.shape))
        raise WeftError(
            f"{subject} must have the {math.prod(shape)} scales of {wanted} in the 128x4 layout, got "
            f"{got}: weft.tiled_scales makes them of a scale for each group"
        )
    steps = zip(view.shape, view.strides, contiguous_strides(view.shape), strict=True)
    if not all(size == 1 or stride == step for size, stride, step in steps):
        raise WeftError(f"{subject} must be contiguous, got strides {view.strides}")
    return replace(view, shape=found, strides=contiguous_strides(found), dtype=scale)


class Planned(ArrayView):
    """An array without memory yet: it gets an address when the planned launch runs."""

    @classmethod
    def of(
        cls, number: int, shape: Sequence[int], dtype: str, ordinal: int, strides: Sequence[int] | None = None
    ) -> "Planned":
        """An array of a GPU, in C order without `strides`. Those with other numbers begin far from it."""
        strides = contiguous_strides(shape) if strides is None else tuple(strides)
        return cls((number + 1) * APART, tuple(shape), strides, dtype, "cuda", ordinal, False, None)


APART = 1 << 52
"""The bytes from one planned array to the next. No memory of a GPU has such an address."""


def contiguous_dimension(strides: Sequence[int]) -> int | None:
    """The dimension of stride 1, the last of several; None without one."""
    return max((i for i, stride in enumerate(strides) if stride == 1), default=None)


class Memory:
    """A view's memory for NumPy, as untyped elements: NumPy's interface has no name for bf16."""

    def __init__(self, view: ArrayView) -> None:
        size = view.numpy_dtype.itemsize
        self.view, self.base = view, view.owner
        self.__array_interface__ = {
            "version": 3,
            "data": (view.address, view.readonly),
            "shape": view.shape,
            "strides": tuple(size * stride for stride in view.strides),
            "typestr": f"|V{size}",
        }


def strided(flat: npt.NDArray[Any], shape: Sequence[int], strides: Sequence[int]) -> npt.NDArray[Any]:
    """A view of a flat array with this shape and these strides, in elements."""
    # as_strided identifies a type by its letter and width, which several fp8 types have in common.
    untyped = flat.view(f"u{flat.itemsize}")
    byte_strides = [stride * flat.itemsize for stride in strides]
    return np.lib.stride_tricks.as_strided(untyped, shape, byte_strides).view(flat.dtype)


def span(view: ArrayView) -> tuple[int, int]:
    """The first address of a non-empty array, and the address after its last byte."""
    view = view.in_bytes
    size = view.numpy_dtype.itemsize
    steps = [(n - 1) * s * size for n, s in zip(view.shape, view.strides, strict=True)]
    return view.address + sum(min(s, 0) for s in steps), view.address + sum(max(s, 0) for s in steps) + size


def view(array: object) -> ArrayView:
    """A view of an array of NumPy, PyTorch, CuPy or JAX, a `DeviceArray`, or any object with DLPack or
    `__cuda_array_interface__`.

    Nothing is copied. Another library may still be computing the array; only JAX's arrays are waited for.
    Raises WeftError for any other object and for an array without ordinary memory of its own.
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
            + _to_array(array)
        )
    return found


_PROTOCOLS = ("__dlpack__", "__cuda_array_interface__", "__weft_view__")


def is_array(value: object) -> bool:
    """Whether an object claims to be an array that `view` reads. It may still refuse it."""
    if isinstance(value, (np.ndarray, ArrayView)):
        return True
    try:
        return not isinstance(value, type) and any(hasattr(value, name) for name in _PROTOCOLS)
    except BROKEN:
        return True


# What defective code of another package may raise. Anything else passes through.
BROKEN = (
    *(ArithmeticError, AssertionError, AttributeError, BufferError, ImportError, LookupError),
    *(RuntimeError, TypeError, ValueError),
)


def _of_library(array: object) -> ArrayView | None:
    """A view of an array through the first protocol that its type has; None if it has none."""
    package_name = library(type(array))
    for attribute, read in (
        ("device", _of_torch if package_name == "torch" else None),
        ("__weft_view__", _of_weft),
        ("data", _of_cupy if package_name == "cupy" else None),
        ("__dlpack_c_exchange_api__", None if package_name == "jax" else _of_exchange_api),
        ("__dlpack__", _of_jax if package_name == "jax" else _of_dlpack),
        ("__cuda_array_interface__", _of_cuda_array_interface),
    ):
        try:
            if read is not None and hasattr(array, attribute):
                return read(array)
        except BROKEN as error:
            why = f"{type(error).__name__}: {error}"
            raise WeftError(f"reading {attribute} of {type(array).__name__} failed: {why}") from error
    return None


def _of_weft(array: Any) -> ArrayView:
    view = array.__weft_view__()
    if not isinstance(view, ArrayView):
        raise WeftError(f"__weft_view__ must return an ArrayView, got {type(view).__name__}")
    return view


def library(kind: type) -> str:
    """The import name of the package that defines a type of arrays, or its base."""
    name = package(kind)
    if name not in _LIBRARIES:
        bases = map(package, kind.__mro__)
        name = next((base for base in bases if base in _LIBRARIES), name)
    return "jax" if name == "jaxlib" else name


def package(kind: type) -> str:
    """The package that a type's `__module__` names."""
    return str(kind.__module__).partition(".")[0]  # a class may set any object as its module


_LIBRARIES = ("torch", "cupy", "jax", "jaxlib", "numpy")


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of an array in C order."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def _unsupported(dtype: object, advice: str = "") -> WeftError:
    advice = _to_known(dtype) if isinstance(dtype, np.dtype) else advice
    return WeftError(f"dtype must be one of {', '.join(_BY_NUMPY_NAME)}, got {dtype}{advice}")


_PARTS = ": multiply real and imaginary parts on their own"


def _to_array(value: object) -> str:
    """What messages advise to make an array of something else; empty where there is no usual way."""
    if isinstance(value, (list, tuple)):
        return ": numpy.asarray(x, dtype) makes an array of it"
    if isinstance(value, np.generic):
        return ""
    try:
        memoryview(value).release()  # type: ignore[arg-type]
    except TypeError:
        return ""
    return ": numpy.asarray(x) or numpy.frombuffer(x, dtype) makes an array of it"


def _from_tensor(dtype: Any) -> str:
    """What they advise to convert a tensor of PyTorch of an unknown type."""
    if dtype.is_complex:
        return _PARTS
    return ": convert it by x.float()" if dtype.is_floating_point else ""


def _to_known(dtype: np.dtype[Any]) -> str:
    """What they advise to convert an array of an unknown type."""
    native = dtype.newbyteorder("=")
    if dtype.names:
        return f": select a field, such as x[{dtype.names[0]!r}]"
    if native in _MLIR:
        return f": x.astype({native.name!r}) has this machine's byte order"
    if dtype.kind == "c":
        return _PARTS
    if dtype.kind == "f":
        return ": convert it by x.astype('float64')"
    return ": convert it by x.astype('float32')" if dtype.kind in "OSU" else ""


def _in_elements(strides: Sequence[int], itemsize: int) -> tuple[int, ...]:
    if any(stride % itemsize for stride in strides):
        raise WeftError(f"strides must be multiples of an element's {itemsize} bytes, got {tuple(strides)}")
    return tuple(stride // itemsize for stride in strides)


def _of_numpy(array: npt.NDArray[Any]) -> ArrayView:
    # A plain array is none: `np.ma` takes 25 ms to import.
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):
        raise WeftError("expected an array without a mask, got a masked one: use x.filled(0) or x.data")
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
    if tensor.is_quantized:
        raise WeftError(f"expected a tensor of numbers, got {tensor.dtype}: call dequantize() on it first")
    name = str(tensor.dtype).removeprefix("torch.")
    dtype = "ui8" if name in _TORCH_PAIRS else _BY_NUMPY_NAME.get(name)
    if dtype is None:
        raise _unsupported(tensor.dtype, _from_tensor(tensor.dtype))
    if tensor.device.type not in ("cpu", "cuda"):
        raise WeftError(f"expected a tensor on cpu or cuda, got one on {tensor.device}")
    ordinal = tensor.device.index or 0
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    address = tensor.data_ptr()
    if not address and all(shape):
        raise WeftError("expected a tensor with memory, got one whose storage was freed or never allocated")
    view = ArrayView(address, shape, strides, dtype, tensor.device.type, ordinal, False, tensor)
    return view.unpacked_from(_TORCH_PAIRS[name]) if name in _TORCH_PAIRS else view


def _of_cupy(array: Any) -> ArrayView:
    # CuPy's DLPack makes one stream wait for another, which ends the capture of a graph.
    strides = _in_elements(array.strides, array.itemsize)
    dtype, ordinal = mlir_type(array.dtype), int(array.device.id)
    return ArrayView(int(array.data.ptr), array.shape, strides, dtype, "cuda", ordinal, False, array)


def _of_jax(array: Any) -> ArrayView:
    """Read-only, since JAX's arrays are immutable. Exporting an array waits until it is computed."""
    import jax

    if isinstance(array, jax.core.Tracer):
        raise WeftError(
            "expected an array, got a JAX tracer: call weft.jax.matmul inside of jax.jit, jax.grad "
            "and jax.vmap"
        )
    if array.is_deleted():
        raise WeftError("expected an array, got one that JAX has deleted or donated")
    try:
        return replace(_of_dlpack(array), readonly=True, stream=None)
    except jax.errors.JaxRuntimeError as error:
        raise WeftError(f"JAX can't export an array of {array.dtype} through DLPack: {error}") from None


_TYPESTR = re.compile(r"[<>|=]?[A-Za-z]\d*")


def _of_cuda_array_interface(array: Any) -> ArrayView:
    """Raises WeftError for an interface that differs from Numba's specification."""
    interface = array.__cuda_array_interface__
    if not isinstance(interface, Mapping):
        raise _broken_interface(f"must be a dictionary, got {type(interface).__name__}")
    if missing := [key for key in ("shape", "typestr", "data") if key not in interface]:
        raise _broken_interface(f"must have shape, typestr and data, but lacks {', '.join(missing)}")
    if interface.get("mask") is not None:
        raise WeftError("expected an array without a mask, got a masked one")
    typestr = interface["typestr"]
    if not isinstance(typestr, str) or not _TYPESTR.fullmatch(typestr):
        raise _broken_interface(f"must have a typestr like '<f4', got {typestr!r}")
    try:
        dtype = np.dtype(typestr)
    except TypeError:
        raise _unsupported(typestr) from None
    shape = _integers("shape", interface["shape"])
    strides, data = interface.get("strides"), interface["data"]
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise _broken_interface(f"must have an address and a read-only flag as data, got {data!r}")
    (address,) = _integers("data", data[:1])
    if strides is None:
        strides = contiguous_strides(shape)
    else:
        strides = _in_elements(_integers("strides", strides), max(dtype.itemsize, 1))
    view = ArrayView(address, shape, strides, mlir_type(dtype), "cuda", -1, bool(data[1]), array)
    stream = interface.get("stream")  # for which a consumer must wait
    if stream is not None and (not isinstance(stream, int) or isinstance(stream, bool) or stream < 1):
        legacy, per_thread = (
            f"{LEGACY_STREAM} (the legacy default stream)",
            f"{STREAM_PER_THREAD} (that of each thread)",
        )
        legal = f"None, {legacy}, {per_thread} or a handle"
        raise _broken_interface(f"must have a stream of {legal}, got {shown(stream)}")
    return _checked(replace(view, stream=stream))


def _broken_interface(complaint: str) -> WeftError:
    return WeftError(f"__cuda_array_interface__ {complaint}")


def _integers(key: str, values: Any) -> tuple[int, ...]:
    try:
        return tuple(index(value) for value in values)
    except TypeError:
        raise _broken_interface(f"must have integers in {key}, got {values!r}") from None


def _checked(view: ArrayView) -> ArrayView:
    """A view from another library's description. Raises WeftError if no such memory can exist."""
    if len(view.shape) != len(view.strides):
        raise WeftError(f"each size must have a stride, got sizes {view.shape}, strides {view.strides}")
    size = view.numpy_dtype.itemsize
    if any(n < 0 for n in view.shape) or math.prod(view.shape) * size >= 2**63:
        raise WeftError(f"sizes must not be negative, nor 2**63 bytes or more in total, got {view.shape}")
    if not all(view.shape):
        return view
    if not view.address:
        raise WeftError(f"address must not be null for an array of shape {view.shape}")
    if view.address % size:
        raise WeftError(f"address must be a multiple of {size} bytes, got {view.address:#x}")
    first, end = span(view)
    if first < 0 or end > 2**64:
        raise WeftError(f"addresses must be below 2**64, got an array from {first:#x} to {end:#x}")
    return view


def _of_exchange_api(array: Any) -> ArrayView:
    """By the C functions of an array's type, which know the stream on which the array is computed."""
    api = protocol.exchange_api(type(array).__dlpack_c_exchange_api__)
    if api is None or not api.managed_from_object or not api.current_work_stream:
        return _of_dlpack(array)
    with protocol.exchanged(array, api) as (tensor, flags, stream):
        return _of_tensor(tensor, flags, array, stream)


def _of_dlpack(array: Any) -> ArrayView:
    try:
        try:
            capsule = array.__dlpack__(max_version=(1, 1))
        except TypeError:  # a producer older than DLPack 1.0
            capsule = array.__dlpack__()
    except BufferError as error:
        raise WeftError(f"{type(array).__name__} can't be exported through DLPack: {error}") from None
    tensor, flags = protocol.read(capsule)
    # An unconsumed capsule frees the tensor with itself, so it is enough to keep the capsule. Its producer
    # has made the legacy default stream wait, as DLPack requires without a stream.
    return _of_tensor(tensor, flags, (array, capsule), LEGACY_STREAM)


def _of_tensor(tensor: protocol.DLTensor, flags: int, owner: object, stream: int | None) -> ArrayView:
    """The view of a tensor of DLPack that `owner` keeps alive, computed on a stream if it is on a GPU."""
    kind = tensor.code, tensor.bits
    # Lanes of a packed type fill the bytes that the shape counts, as PyTorch's pairs do.
    packed = _PACKED_DLPACK.get(kind)
    dtype = packed or _BY_DLPACK.get(kind)
    if dtype is None or (tensor.lanes != 1 and not (packed and tensor.lanes * tensor.bits == 8)):
        raise _unsupported(f"DLPack type code {tensor.code} of {tensor.bits} bits and {tensor.lanes} lanes")
    if tensor.device_type not in protocol.DEVICES:
        raise WeftError(f"DLPack device type must be CPU or CUDA, got {tensor.device_type}")
    rank = tensor.ndim
    if rank > 0 and not tensor.shape:
        raise WeftError(f"shape of a DLPack tensor of rank {rank} must not be null")
    if not 0 <= rank <= _MOST_DIMENSIONS:
        raise WeftError(f"rank of a DLPack tensor must be in 0..{_MOST_DIMENSIONS}, got {rank}")
    shape = tuple(tensor.shape[:rank]) if rank else ()
    strides = tuple(tensor.strides[:rank]) if rank and tensor.strides else contiguous_strides(shape)
    address = (tensor.data or 0) + tensor.byte_offset
    device = protocol.DEVICES[tensor.device_type]
    device_id = tensor.device_id if device == "cuda" else 0
    if device_id < 0:
        raise WeftError(f"DLPack device number must not be negative, got {device_id}")
    readonly = bool(flags & protocol.READ_ONLY)
    stream = stream if device == "cuda" else None
    view = ArrayView(address, shape, strides, dtype, device, device_id, readonly, owner, stream=stream)
    if packed is None or flags & protocol.SUBBYTE_PADDED:
        return _checked(view)
    of_elements = replace(view, packed=True).in_bytes if tensor.lanes == 1 else replace(view, dtype="ui8")
    return _checked(of_elements).unpacked_from(packed)


_MOST_DIMENSIONS = 64  # NumPy's own limit
