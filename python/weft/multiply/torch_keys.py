"""Keys of plans for PyTorch's tensors, from compiled code (`torch_keys.ll`)."""

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

from weft.launch import dlpack, host_code, torch_tensors

Describe = Callable[..., tuple[Any, ...] | None]


class _Torch(ctypes.Structure):
    """`%Torch` of torch_keys.ll."""

    _fields_ = (
        ("from_object", ctypes.c_void_p),
        ("tensor", ctypes.py_object),
        ("parameter", ctypes.py_object),
        ("none", ctypes.py_object),
        ("true", ctypes.py_object),
        ("requires_grad", ctypes.py_object),
        ("is_neg", ctypes.py_object),
        ("dtype", ctypes.py_object),
        ("int8", ctypes.py_object),
        ("uint8", ctypes.py_object),
        ("storage_offset", ctypes.py_object),
    )


@functools.cache
def describer() -> Describe | None:
    """`describe(a, b, out, *more)`, whose arguments are tensors or None; or None where PyTorch is too old.

    It returns a key and the tensors' addresses, with 0 for no `out`; or None for tensors that must be checked
    in Python.
    """
    torch = sys.modules["torch"]
    torch_tensors.run_calls_untraced()
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return None
    table = dlpack.exchange_api(capsule)
    if table is None or not table.tensor_from_object:
        return None
    # The table is PyTorch's for good, and so are its classes.
    known = _Torch(
        table.tensor_from_object,
        torch.Tensor,
        torch.nn.Parameter,
        None,
        True,
        sys.intern("requires_grad"),
        sys.intern("is_neg"),
        sys.intern("dtype"),
        torch.int8,
        torch.uint8,
        sys.intern("storage_offset"),
    )
    (describe,) = host_code.functions("multiply/torch_keys.ll", ["weft_describe"])
    bound = functools.partial(describe, ctypes.addressof(known))
    bound.known = known  # type: ignore[attr-defined]
    return bound
