"""The structures of dlpack.h, and how a capsule of one is read."""

import ctypes

from weft.errors import WeftError


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
