"""Keys of plans for PyTorch's tensors, from compiled code (`launch/host.c`)."""

import functools
import sys
from collections.abc import Callable
from typing import Any

from weft.launch import dlpack, host, torch_tensors

Describe = Callable[..., tuple[Any, ...] | None]


def describer() -> Describe | None:
    """`describe(a, b, out, *more)`, whose arguments are tensors or None; or None without PyTorch, where it is
    too old, or where nothing was compiled.

    It returns a key and the tensors' addresses, with 0 for no `out`; or None for tensors that must be checked
    in Python.
    """
    return _describer() if "torch" in sys.modules else None


@functools.cache
def _describer() -> Describe | None:
    torch = sys.modules["torch"]
    torch_tensors.run_calls_untraced()
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    describe = getattr(host.functions, "describe", None)
    if capsule is None or describe is None:
        return None
    table = dlpack.exchange_api(capsule)
    if table is None or not table.tensor_from_object:
        return None
    # The table is PyTorch's for good, and so are its classes.
    classes = torch.Tensor, torch.nn.Parameter, torch.int8, torch.uint8
    host.functions.connect_torch(table.tensor_from_object, *classes)
    return describe
