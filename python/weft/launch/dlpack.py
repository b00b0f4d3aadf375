"""The structures of dlpack.h, and how a capsule of one is read."""

import contextlib
import ctypes
from collections.abc import Iterator

from weft.errors import WeftError
from weft.launch.cuda_driver import LEGACY_STREAM


class DLTensor(ctypes.Structure):
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


class DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )


class ExchangeApi(ctypes.Structure):
    """DLPackExchangeAPI: functions of a library for its type of arrays, which compiled code may call."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("managed_from_object", ctypes.c_void_p),
        ("managed_to_object", ctypes.c_void_p),
        ("tensor_from_object", ctypes.c_void_p),
        ("current_work_stream", ctypes.c_void_p),
    )


READ_ONLY = 1
SUBBYTE_PADDED = 4
"""The flag of a tensor whose elements of fewer than 8 bits have a byte each; otherwise they are packed."""
# kDLCPU, kDLCUDAHost (pinned), kDLCUDA, kDLCUDAManaged
DEVICES = {1: "cpu", 3: "cpu", 2: "cuda", 13: "cuda"}

# Separate prototypes, since other libraries may change those of `ctypes.pythonapi`.
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)


def read(capsule: object) -> tuple[DLTensor, int]:
    """The tensor in a fresh capsule of either kind, and its flags. Raises WeftError for another capsule."""
    if _is_valid(capsule, b"dltensor_versioned"):
        managed = DLManagedTensorVersioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            raise WeftError(f"DLPack's major version must be 1, got {managed.major}.{managed.minor}")
        return managed.tensor, int(managed.flags)
    if _is_valid(capsule, b"dltensor"):
        return DLTensor.from_address(_pointer(capsule, b"dltensor")), 0
    raise WeftError("expected a DLPack capsule that was not consumed")


def exchange_api(capsule: object) -> ExchangeApi | None:
    """The functions in the attribute `__dlpack_c_exchange_api__` of a type; None for those of a version that
    isn't known, or what is no such capsule.
    """
    if not _is_valid(capsule, b"dlpack_exchange_api"):
        return None
    table = ExchangeApi.from_address(_pointer(capsule, b"dlpack_exchange_api"))
    return table if table.major == 1 else None


_from_object = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.POINTER(DLManagedTensorVersioned))
)
_work_stream = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
)
_delete = ctypes.PYFUNCTYPE(None, ctypes.POINTER(DLManagedTensorVersioned))


@contextlib.contextmanager
def exchanged(array: object, api: ExchangeApi) -> Iterator[tuple[DLTensor, int, int | None]]:
    """The tensor of an array, its flags, and the handle of the library's current stream on the tensor's GPU,
    by the functions of its type. Nothing is waited for. The tensor is valid in the block. Raises WeftError if
    the functions fail.
    """
    managed = ctypes.POINTER(DLManagedTensorVersioned)()
    if _from_object(api.managed_from_object)(array, managed) or not managed:
        raise WeftError(f"the C exchange API of {type(array).__name__} returned no tensor")
    try:
        contents = managed.contents
        if contents.major != 1:
            raise WeftError(f"DLPack's major version must be 1, got {contents.major}.{contents.minor}")
        tensor, stream = contents.tensor, None
        if DEVICES.get(tensor.device_type) == "cuda":
            handle = ctypes.c_void_p()
            if _work_stream(api.current_work_stream)(tensor.device_type, tensor.device_id, handle):
                raise WeftError(f"the C exchange API of {type(array).__name__} returned no stream")
            stream = handle.value or LEGACY_STREAM
        yield tensor, int(contents.flags), stream
    finally:
        if deleter := managed.contents.deleter:
            _delete(deleter)(managed)
