"""The launches that `weft.matmul` has prepared, by the arrays' types, sizes, strides and alignment.

The identity of array objects doesn't matter: a program's activations are new objects in every call.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.isa.tensor_map import ROW_BYTES
from weft.launch import arrays, libraries, runtime, torch_keys, torch_tensors
from weft.launch.arrays import Array
from weft.multiply import f32_precision
from weft.multiply.launches import Launch
from weft.multiply.operands import Operands

if TYPE_CHECKING:
    import torch

_ALIGNED = 2 * ROW_BYTES - 1  # no kernel needs more


@dataclass(frozen=True, slots=True)
class Plan:
    """A launch for all arrays with one key.

    `queue(stream, *addresses)` returns a status of `weft.launch.launcher`. `stream` returns the handle for a
    call's stream, or None if the arrays must be checked again; `current` that of the current stream, without
    checks. `new` creates an array for the result, and
    `address` returns its address. `write` is called before an array of the caller is written.
    """

    queue: Callable[..., int]
    launch: Launch
    stream: Callable[[object], int | None]
    current: Callable[[], int]
    new: Callable[[], Array]
    address: Callable[[Array], int]
    write: Callable[[Array], None] | None = None

    @classmethod
    def of(cls, launch: Launch, operands: Operands) -> "Plan":
        """A plan of a launch for arrays like these operands."""
        result, ordinal = operands.views[2], operands.ordinal
        follows = f32_precision.has_setting(operands) and operands.libraries[0] is libraries.TORCH
        return cls(
            f32_precision.while_allowed(launch.queue_apart) if follows else launch.queue_apart,
            launch,
            libraries.stream_finder(operands.arrays, ordinal, operands.views),
            operands.libraries[0].current_stream(ordinal),
            *operands.libraries[0].maker(operands.arrays[0], ordinal, operands.shape, result.dtype),
            operands.libraries[2].writer(),
        )


@dataclass(frozen=True, slots=True)
class Handed:
    """A product that another library computes: a function of a, b and the other arrays that are read. The
    plan is kept, but isn't used while `holds()` is false.
    """

    multiply: Callable[..., Any]
    holds: Callable[[], bool] = lambda: True

    def stream(self, stream: object) -> None:
        """None, since Weft doesn't queue it."""


Described = tuple[Any, ...]
"""A key, and the addresses of the arrays that are passed; 0 for a result that isn't."""


class _Describers(dict[type, Callable[..., Described | None]]):
    """Functions by the type of `a`. Each describes a, b, the result (or None) and further arrays (or None),
    or returns None if `one_by_one` must do it.

    It raises WeftError, TypeError, ValueError, RuntimeError or AttributeError for arguments that it can't
    describe.
    """

    def __missing__(self, kind: type) -> Callable[..., Described | None]:
        library = arrays.package(kind)
        if library == "torch" and (describe := torch_keys.describer()) is not None:
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
    layout = tensor.shape, tensor.stride(), address & _ALIGNED, tensor.get_device()
    return (tensor.dtype, *layout, tensor.is_neg(), tensor.requires_grad), address


def _of_cupy(array: Any) -> tuple[Hashable, int]:
    address = array.data.ptr
    return (array.dtype, array.shape, array.strides, address & _ALIGNED, array.device.id), address


def _of_any(array: object) -> tuple[Hashable, int]:
    view = arrays.view(array)
    device = runtime.holder([view]) if view.device_id < 0 else view.device_id
    alignment = view.address & _ALIGNED
    library = arrays.library(type(array))
    key = (
        library,
        view.dtype,
        view.packed,
        view.shape,
        view.strides,
        alignment,
        view.device,
        device,
        view.readonly,
        view.stream,
    )
    return key, view.address
