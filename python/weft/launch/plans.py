"""Plans of calls: launches that are found by what they depend on, the types, sizes, strides and alignment of
arrays and the options. The identity of arrays doesn't matter: a program's activations are new in every call.

For PyTorch's tensors, compiled code (`launch/host.c`) makes the keys.
"""

import functools
import sys
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from weft.isa.tensor_map import ROW_BYTES
from weft.launch import arrays, dlpack, host, runtime, torch_tensors
from weft.system import locks

if TYPE_CHECKING:
    import torch

Found = tuple[Hashable, Sequence[int], Any]
"""The key of a call, the addresses of its arrays, and its plan or None."""
Described = tuple[Any, ...]
"""A key, and the addresses of the arrays that are passed; 0 for a result that isn't."""
Describe = Callable[..., Described | None]
ALIGNMENT = 2 * ROW_BYTES
"""The bytes of which kernels need an address to be a multiple at most."""
_BEYOND = ALIGNMENT - 1


class Plans:
    """A bounded table of plans, for any number of threads. Beyond `most`, it drops the oldest ones."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._known: dict[Hashable, Any] = {}
        self._lock = locks.lock()
        self.get = self._known.get
        """`get(key)` is the plan of a key, or None."""
        self._describe: Describe | None = None

    def add(self, key: Hashable, plan: object) -> None:
        with self._lock:
            if len(self._known) >= self._most:
                for old in list(self._known)[: self._most // 4]:
                    del self._known[old]
            self._known[key] = plan

    def clear(self) -> None:
        with self._lock:
            self._known.clear()

    def __len__(self) -> int:
        return len(self._known)

    def found(self, given: Sequence[object], options: tuple[object, ...]) -> Found | None:
        """What is known of a call with these arrays, as `describer` takes them, and options; None
        unless all arrays are plain tensors.
        """
        describe = self._describe or describer()
        if describe is None:
            return None
        self._describe, described = describe, describe(*given)
        if described is None:
            return None
        # With the types: True and 1.0 are equal, but not both are legal.
        key = described[0], options, tuple(map(type, options))
        try:
            return key, described[1:], self.get(key)
        except TypeError:  # of an option that can't be hashed
            return None


def describer() -> Describe | None:
    """`describe(a, b, out, *more)`, whose arguments are tensors or None; or None without PyTorch, where it is
    too old, or where nothing was compiled.

    It returns a key and the tensors' addresses, with 0 for no `out`; or None for tensors to check in Python.
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


class _Describers(dict[type, Describe]):
    """Functions by the type of `a`. Each describes a, b, the result (or None) and further arrays (or None),
    or returns None if `one_by_one` must do it.

    It raises WeftError, TypeError, ValueError, RuntimeError or AttributeError for arguments that it can't
    describe.
    """

    def __missing__(self, kind: type) -> Describe:
        library = arrays.package(kind)
        if library == "torch" and (describe := describer()) is not None:
            self[kind] = describe
        elif library == "jaxlib":
            self[kind] = _of_jax
        else:
            return one_by_one  # not kept, since other types may be temporary
        return self[kind]


DESCRIBE = _Describers()


def one_by_one(a: object, b: object, out: object, *more: object) -> Described:
    """The key and the addresses of arrays of any libraries."""
    of_a, address_a = _one[type(a)](a)
    of_b, address_b = _one[type(b)](b)
    of_out, address_out = (None, 0) if out is None else _one[type(out)](out)
    rest = [(None, None) if array is None else _one[type(array)](array) for array in more]
    key = of_a, of_b, of_out, *(of_array for of_array, _ in rest)
    return key, address_a, address_b, address_out, *(address for _, address in rest if address is not None)


def described(array: object) -> tuple[Hashable, int]:
    """The key and the address of one array. Raises as `one_by_one`."""
    return _one[type(array)](array)


def _of_jax(a: Any, b: Any, out: Any, *more: Any) -> Described:
    """For JAX's arrays only, which have no addresses before they are computed."""
    others = [array for array in (b, *more) if array is not None]
    if out is not None or any(type(array) is not type(a) for array in others):
        return one_by_one(a, b, out, *more)
    key = [None if x is None else (x.dtype, x.shape, x.sharding, x.is_deleted()) for x in (a, b, *more)]
    return tuple(key), 0, 0, 0


class _Ones(dict[type, Callable[[Any], tuple[Hashable, int]]]):
    """Functions by the type of an array. Each returns the array's part of a key, and its address."""

    def __missing__(self, kind: type) -> Callable[[Any], tuple[Hashable, int]]:
        name = arrays.package(kind)
        if name == "torch" and kind.__name__ in ("Tensor", "Parameter"):
            self[kind] = _of_torch
        elif name == "cupy" and kind.__name__ == "ndarray":
            self[kind] = _of_cupy
        else:
            return _of_any
        return self[kind]


_one = _Ones()


def _of_torch(tensor: "torch.Tensor") -> tuple[Hashable, int]:
    address = tensor.data_ptr()
    if tensor._is_zerotensor() or not torch_tensors.has_memory(tensor):
        raise RuntimeError  # the planned tensors had memory
    layout = tensor.shape, tensor.stride(), address & _BEYOND, tensor.get_device()
    return (tensor.dtype, *layout, tensor.is_neg(), tensor.requires_grad), address


def _of_cupy(array: Any) -> tuple[Hashable, int]:
    address = array.data.ptr
    return (array.dtype, array.shape, array.strides, address & _BEYOND, array.device.id), address


def _of_any(array: object) -> tuple[Hashable, int]:
    view = arrays.view(array)
    device = runtime.holder([view]) if view.device_id < 0 else view.device_id
    alignment = view.address & _BEYOND
    library = arrays.library(type(array))
    layout = (view.dtype, view.packed, view.shape, view.strides)
    return (library, layout, alignment, view.device, device, view.readonly, view.stream), view.address
