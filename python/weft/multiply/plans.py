"""The launches that `weft.matmul` has prepared, found by the arrays' types, sizes, strides and alignment.

The identity of array objects plays no part: a program's activations are new objects in every call.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from weft import locks
from weft.isa.tensor_map import ROW_BYTES
from weft.launch import arrays, libraries, runtime, torch_tensors
from weft.launch.runtime import Prepared
from weft.multiply import torch_keys
from weft.multiply.operands import Operands
from weft.multiply.padded_rows import PaddedLaunch

MOST = 4096
"""Plans that are kept; with more, those that were made first are made again."""
_ALIGNED = ROW_BYTES - 1  # no kernel asks for rows at multiples of more


@dataclass(frozen=True, slots=True)
class Plan:
    """A launch for any arrays of one description.

    `queue(stream, *addresses)` returns a status of `weft.launch.launcher`. `stream` returns the handle of the
    stream that a call names, or None where the arrays must be checked again. `new` makes an array for the
    result, and `address` returns its address.
    """

    queue: Callable[..., int]
    launch: Prepared | PaddedLaunch
    stream: Callable[[Any], int | None]
    new: Callable[[], Any]
    address: Callable[[Any], int]

    @classmethod
    def of(cls, launch: Prepared | PaddedLaunch, operands: Operands) -> "Plan":
        """A plan of a launch for arrays like these operands."""
        result, ordinal = operands.views[2], operands.ordinal
        return cls(
            launch.queue_apart,
            launch,
            libraries.stream_finder(operands.arrays, ordinal),
            *operands.libraries[0].maker(operands.arrays[0], ordinal, result.shape, result.dtype),
        )


@dataclass(frozen=True, slots=True)
class Handed:
    """A product that another library queues: a function of a, b and the other arrays that are read."""

    multiply: Callable[..., Any]

    def stream(self, given: Any) -> None:
        """None: it isn't queued here."""


class Plans:
    """A bounded table of plans, for any number of threads."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: dict[Hashable, Plan | Handed] = {}
        self._lock = locks.lock()
        self.get = self._known.get
        """`get(key)` is the plan of a key, or None."""

    def add(self, key: Hashable, plan: Plan | Handed) -> None:
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


Described = tuple[Any, ...]
"""A key, and the addresses of the arrays that are there, with one for the result: 0 where it isn't there."""


class _Describers(dict[type, Callable[..., Described | None]]):
    """By the type of `a`, what describes a, b, the result (or None) and further arrays (or None): it returns
    None where `one_by_one` must.

    It raises WeftError, TypeError, ValueError, RuntimeError or AttributeError for what it can't describe.
    """

    def __missing__(self, kind: type) -> Callable[..., Described | None]:
        library = arrays.package(kind)
        if library == "torch" and (describe := torch_keys.describer()) is not None:
            self[kind] = describe
        elif library == "jaxlib":
            self[kind] = _of_jax
        else:
            return one_by_one  # other types may come and go, and aren't kept
        return self[kind]


DESCRIBE = _Describers()


def one_by_one(a: Any, b: Any, out: Any, *more: Any) -> Described:
    of_a, address_a = _one[type(a)](a)
    of_b, address_b = _one[type(b)](b)
    of_out, address_out = (None, 0) if out is None else _one[type(out)](out)
    rest = [(None, None) if array is None else _one[type(array)](array) for array in more]
    key = of_a, of_b, of_out, *(of_array for of_array, _ in rest)
    return key, address_a, address_b, address_out, *(address for _, address in rest if address is not None)


def _of_jax(a: Any, b: Any, out: Any, *more: Any) -> Described:
    """Of JAX's arrays alone, which have no addresses before they are computed."""
    given = [array for array in (a, b, *more) if array is not None]
    if out is not None or any(type(array) is not type(a) for array in given):
        return one_by_one(a, b, out, *more)
    key = [None if x is None else (x.dtype, x.shape, x.sharding, x.is_deleted()) for x in (a, b, *more)]
    return tuple(key), 0, 0, 0


class _Ones(dict[type, Callable[[Any], tuple[Hashable, int]]]):
    """By the type of an array, a function that returns its part of a plan's key, and its address."""

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


def _of_torch(tensor: Any) -> tuple[Hashable, int]:
    address = tensor.data_ptr()
    if tensor._is_zerotensor() or not torch_tensors.has_memory(tensor):
        raise RuntimeError  # what it was planned for had
    lies = tensor.shape, tensor.stride(), address & _ALIGNED, tensor.get_device()
    return (tensor.dtype, *lies, tensor.is_neg(), tensor.requires_grad), address


def _of_cupy(array: Any) -> tuple[Hashable, int]:
    address = array.data.ptr
    return (array.dtype, array.shape, array.strides, address & _ALIGNED, array.device.id), address


def _of_any(array: Any) -> tuple[Hashable, int]:
    view = arrays.view(array)
    device = runtime.holder([view]) if view.device_id < 0 else view.device_id
    alignment = view.address & _ALIGNED
    library = arrays.library(type(array))
    key = library, view.dtype, view.shape, view.strides, alignment, view.device, device, view.readonly
    return key, view.address
