"""Converts the arguments of a launch to the bytes of the kernel's parameters, and arrays to buffers.

Progress and limits of launches that other functions make, such as `weft.matmul`.
"""

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from operator import index
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from weft.emulator.decoding.program import Program
from weft.emulator.memory import untouched
from weft.emulator.memory.device import Device
from weft.emulator.memory.tensor_map import TensorMap
from weft.emulator.reading.syntax import Type, Variable
from weft.errors import WeftError, shown

Bytes = npt.NDArray[np.uint8]
_Bits = npt.NDArray[Any]
_LARGE, _SPARSE = 1 << 30, 16
"""Memory of so many bytes, and so many times the bytes of its arrays, isn't copied whole."""
Key = tuple[int, ...]
"""The number of an argument, followed by the offset of an array inside a structure."""


class Struct:
    """A structure of `size` bytes that is passed by value. `fields` maps offsets to fields.

    A field is an ndarray (stored as its device address, 8 bytes), bytes, or a NumPy scalar; the other bytes
    are zero. Raises WeftError for a field that is something else or doesn't fit.
    """

    def __init__(self, size: int, fields: Mapping[int, object]) -> None:
        self.size = whole_number("the size of a Struct", size, _MOST_PARAMETERS)
        self.arrays: dict[int, npt.NDArray[np.generic]] = {}
        self._data = bytearray(self.size)
        if not isinstance(fields, Mapping):
            raise WeftError(f"the fields of a Struct must be a dictionary by offset, got {shown(fields)}")
        for key, value in fields.items():
            offset = whole_number("an offset in a Struct", key, self.size)
            what = f"field {offset} of a Struct"
            if isinstance(value, np.ndarray):
                check_buffer(value, what)
                self.arrays[offset] = value
                data = bytes(8)
            elif isinstance(value, np.generic):
                data = _scalar(value, what)
            elif isinstance(value, bytes | bytearray | memoryview):
                data = _bytes(value, what)
            else:
                kind = type(value).__name__
                raise WeftError(f"{what} must be an array, bytes or a NumPy scalar, got {kind}")
            if not 0 <= offset <= size - len(data):
                raise WeftError(f"{what} must end within its {size} bytes, but has {len(data)}")
            self._data[offset : offset + len(data)] = data

    def encode(self, addresses: Mapping[int, int]) -> bytes:
        """The bytes, with the device addresses of the arrays by their offsets."""
        data = bytearray(self._data)
        for offset, address in addresses.items():
            data[offset : offset + 8] = address.to_bytes(8, "little")
        return bytes(data)


_MOST_PARAMETERS = 1 << 16  # bytes, more than the parameters of any kernel
# NumPy kinds whose elements are plain bits; others are dates, text or Python objects.
_PLAIN = "biufcV"


def check_buffer(array: npt.NDArray[np.generic], what: str) -> None:
    """Raises WeftError if a kernel couldn't read the array's elements from its memory."""
    # A plain array is none: `np.ma` takes 25 ms to import.
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):
        raise WeftError(f"{what} is a masked array: pass its data and its mask")
    if array.dtype.hasobject or array.dtype.kind not in _PLAIN:
        raise WeftError(f"{what} is an array of {array.dtype}, which isn't a numeric type")
    if not array.dtype.isnative:
        raise WeftError(
            f"{what} is an array of {array.dtype}, whose bytes are swapped: convert it to the native order"
        )
    if array.size and _is_beyond_owner(array):
        raise WeftError(f"{what} is an array whose strides, {array.strides}, reach beyond its memory")


def _is_beyond_owner(array: npt.NDArray[np.generic]) -> bool:
    """Whether an array's strides reach outside the memory of the array that owns it."""
    owner: object = array
    while not (isinstance(owner, np.ndarray) and owner.flags.owndata):
        owner = getattr(owner, "base", None)
        if owner is None:
            return False
    (begin, end), (first, last) = map(np.lib.array_utils.byte_bounds, (array, owner))
    return begin < first or end > last


MOST_NUMBER = 2**63 - 1


def whole_number(what: str, value: object, most: int = MOST_NUMBER) -> int:
    """An integer in 0..`most`. Raises WeftError for anything else."""
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if not 0 <= number <= most:
        raise WeftError(f"{what} must be a whole number in 0..{most}, got {shown(value)}")
    return number


def seconds(limit: object) -> float | None:
    """A time limit; None: no limit. Raises WeftError for anything else."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int | float | np.number) or not limit >= 0:
        raise WeftError(f"max_seconds must be a number of at least 0, got {shown(limit)}")
    try:
        return float(limit)
    except OverflowError:
        return math.inf


def _scalar(value: np.generic, what: str) -> bytes:
    if value.dtype.hasobject or value.dtype.kind not in _PLAIN:
        raise WeftError(f"{what} must be a number, got a {value.dtype}")
    return value.tobytes()


def _bytes(value: bytes | bytearray | memoryview, what: str) -> bytes:
    try:
        return bytes(value)
    except ValueError as error:  # of a released memoryview
        raise WeftError(f"{what} has no bytes: {error}") from None


class _Extent:
    """Shows NumPy a run of memory that an array owns."""

    def __init__(self, owner: npt.NDArray[np.generic], begin: int, size: int, read_only: bool) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "data": (begin, read_only),
            "shape": (size,),
            "typestr": "|u1",
        }


class Buffers:
    """The arrays of a launch. Arrays that share memory on the host share it on the device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._copies: list[tuple[_Bits, _Bits, _Bits]] = []
        """What had to be copied: its memory, the copy, and the bytes that both had at first."""

    def map(
        self, arrays: Mapping[Key, npt.NDArray[np.generic]], names: Mapping[Key, str] | None = None
    ) -> dict[Key, int]:
        """The device addresses of the first elements of the arrays, by their keys."""
        bounds = {at: np.lib.array_utils.byte_bounds(a) if a.size else (0, 0) for at, a in arrays.items()}
        merged: list[tuple[int, int, list[Key]]] = []
        for at in sorted(arrays, key=lambda i: bounds[i]):
            begin, end = bounds[at]
            if merged and begin < merged[-1][1] and arrays[at].size:
                begin, last, members = merged.pop()
                merged.append((begin, max(end, last), [*members, at]))
            else:
                merged.append((begin, end, [at]))
        addresses: dict[Key, int] = {}
        for begin, end, members in sorted(merged, key=lambda extent: min(extent[2])):
            data, writable = self.octets([arrays[m] for m in members], begin, end)
            known = dict.fromkeys(f"'{names[m]}'" for m in sorted(members) if m in names) if names else {}
            shared = known or ["+".join(map(str, m)) for m in sorted(members)]
            base = self._device.map("argument " + " and ".join(shared), data, writable)
            for m in members:
                # An array with negative strides begins inside its extent.
                first = arrays[m].__array_interface__["data"][0] if arrays[m].size else begin
                addresses[m] = base + first - begin
        return addresses

    def octets(self, arrays: Sequence[npt.NDArray[np.generic]], begin: int, end: int) -> tuple[Bytes, bool]:
        """The memory of arrays from byte `begin` to `end`, and whether kernels may write it."""
        if begin == end:
            return np.zeros(0, np.uint8), True
        writable = all(a.flags.writeable for a in arrays)
        data: Bytes = np.asarray(_Extent(arrays[0], begin, end - begin, not writable))
        if begin % 16 == 0:
            return data, writable
        # NumPy copies an unaligned view whole for every gather: copy it once instead.
        most = max(_LARGE, _SPARSE * sum(array.nbytes for array in arrays))
        if len(data) < most or any(array.itemsize not in (1, 2, 4, 8) for array in arrays):
            copy = data.copy()
            parts: list[tuple[_Bits, _Bits]] = [(data, copy)]
        else:  # rows with gigabytes between them
            copy, parts = untouched.zeros((len(data),), np.uint8), []
            for array in arrays:
                offset = array.__array_interface__["data"][0] - begin
                copied = np.ndarray(array.shape, array.dtype, copy, offset, array.strides)
                # As integers, elements differ if their bits do.
                own, part = (each.view(f"u{array.itemsize}") for each in (array, copied))
                part[...] = own
                parts.append((own, part))
        if writable:
            self._copies += [(own, part, part.copy()) for own, part in parts]
        return copy, writable

    def map_multicast(self, name: str, members: tuple[int, ...], size: int) -> int:
        """The address of a multicast object of the buffers at these addresses."""
        return self._device.map_multicast(name, members, size)

    def forget(self, address: int) -> None:
        """Makes the buffer at an address uninitialized for the kernel."""
        segment = self._device.find(address)
        assert segment is not None
        segment.filled = untouched.zeros((segment.size,), np.bool_)

    def write_back(self) -> None:
        """Copies the results of buffers that had to be copied to their arrays."""
        for data, copy, before in self._copies:
            put_changes(data, copy, before)
            before[...] = copy


def put_changes(data: _Bits, copy: _Bits, before: _Bits) -> None:
    """Writes what has changed in a copy of some memory to the memory. Others may have written the rest, such
    as columns of a matrix between those of a buffer.
    """
    np.copyto(data, copy, where=copy != before)


class Named:
    """An array argument with the name that findings and faults call it by."""

    def __init__(self, array: npt.NDArray[np.generic], name: str) -> None:
        self.array, self.name = array, name


class Multicast:
    """An argument that is the address of a multicast object: `multimem` instructions access all of the
    arrays, which stand for the memory of several GPUs. Raises WeftError unless all are arrays of the same
    number of bytes.
    """

    def __init__(self, arrays: Sequence[npt.NDArray[np.generic]]) -> None:
        if not isinstance(arrays, Sequence) or not arrays:
            raise WeftError(f"Multicast needs a list of at least one array, got {shown(arrays)}")
        for at, array in enumerate(arrays):
            if not isinstance(array, np.ndarray):
                raise WeftError(f"array {at} of a Multicast must be an array, got {shown(array)}")
            check_buffer(array, f"array {at} of a Multicast")
            if not array.flags.c_contiguous:
                raise WeftError(f"array {at} of a Multicast must be contiguous")
            if array.nbytes != arrays[0].nbytes:
                sizes = f"{arrays[0].nbytes} and {array.nbytes} bytes"
                raise WeftError(f"the arrays of a Multicast must have the same size, got {sizes}")
        self.arrays = tuple(arrays)


class Unwritten:
    """An array argument that a kernel must write before it reads it; the sanitizer reports earlier reads."""

    def __init__(self, array: npt.NDArray[np.generic]) -> None:
        if not isinstance(array, np.ndarray):
            raise WeftError(f"Unwritten needs an array, got {shown(array)}")
        self.array = array


def parameters(program: Program, args: Sequence[object], buffers: Buffers, kernel: str) -> Bytes:
    """The parameter space of a launch. WeftError if the arguments don't fit the kernel's parameters."""
    formals = program.params
    if not isinstance(args, Sequence) or isinstance(args, str | bytes):
        raise WeftError(f"kernel '{kernel}': args must be a list or a tuple, got {type(args).__name__}")
    if len(args) != len(formals):
        wanted = f"{len(formals)} parameter{'' if len(formals) == 1 else 's'}"
        passed = f"{len(args)} argument{'' if len(args) == 1 else 's'}"
        raise WeftError(f"kernel '{kernel}' has {wanted}, got {passed}")
    arrays: dict[Key, npt.NDArray[np.generic]] = {}
    unwritten = [at for at, arg in enumerate(args) if isinstance(arg, Unwritten)]
    names: dict[Key, str] = {(at,): arg.name for at, arg in enumerate(args) if isinstance(arg, Named)}
    args = [arg.array if isinstance(arg, Unwritten | Named) else arg for arg in args]
    for at, (arg, formal) in enumerate(zip(args, formals, strict=True)):
        what = f"argument {at} of kernel '{kernel}'"
        if isinstance(arg, np.ndarray):
            if formal.size != 8:
                raise WeftError(f"{what} is an array, but its parameter has {formal.size} bytes")
            if formal.type.is_float:
                raise WeftError(f"{what} is an array, but its parameter is a .{formal.type}")
            check_buffer(arg, what)
            arrays[at,] = arg
        elif isinstance(arg, TensorMap) and isinstance(arg.buffer, np.ndarray):
            check_buffer(arg.buffer, f"the buffer of {what}")
            arrays[at, 0] = arg.buffer
        elif isinstance(arg, Multicast):
            arrays |= {(at, number): array for number, array in enumerate(arg.arrays)}
        elif isinstance(arg, Struct):
            arrays |= {(at, offset): array for offset, array in arg.arrays.items()}
    addresses = buffers.map(arrays, names)
    for at in unwritten:
        buffers.forget(addresses[at,])
    space = np.zeros(program.params_size, np.uint8)
    for at, (formal, arg) in enumerate(zip(formals, args, strict=True)):
        value = addresses.get((at,), arg)
        if isinstance(arg, Struct):
            value = arg.encode({offset: addresses[at, offset] for offset in arg.arrays})
        if isinstance(arg, Multicast):
            members = tuple(addresses[at, number] for number in range(len(arg.arrays)))
            value = buffers.map_multicast(f"argument {at}, a multicast object", members, arg.arrays[0].nbytes)
        if isinstance(arg, TensorMap):
            value = arg.encode(addresses.get((at, 0), arg.fields.address))
        encoded = _encode(value, formal, f"argument {at} of kernel '{kernel}'")
        space[formal.offset : formal.offset + len(encoded)] = np.frombuffer(encoded, np.uint8)
    return space


def _encode(value: object, formal: Variable, what: str) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        if len(data := _bytes(value, what)) != formal.size:
            raise WeftError(f"{what} has {len(data)} bytes, but its parameter has {formal.size}")
        return data
    is_float = isinstance(value, float) or (isinstance(value, np.generic) and value.dtype.kind not in "biuV")
    if is_float and formal.type.kind in "us":
        raise WeftError(f"{what} is a float, but its parameter is an integer or a pointer, .{formal.type}")
    if isinstance(value, np.generic):
        data = _scalar(value, what)
        if len(data) == formal.size and not formal.type.is_float:
            return data
    if not isinstance(value, int | float | np.generic):
        raise WeftError(f"{what} must be an array, a number or bytes, got {type(value).__name__}")
    if formal.size not in (1, 2, 4, 8):
        raise WeftError(f"{what} is a number, but its parameter has {formal.size} bytes")
    if isinstance(value, np.generic):
        value = value.item()
    if formal.type.is_float:
        if not isinstance(value, int | float):
            raise WeftError(f"{what} is not a number")
        try:
            return _float(float(value), formal.type)
        except OverflowError:
            raise WeftError(
                f"{what} is {shown(value)}, which isn't a number of type .{formal.type}"
            ) from None
    if isinstance(value, float):
        # LLVM declares float parameters by their width alone.
        if formal.size not in (4, 8):
            raise WeftError(
                f"{what} is a float, but its parameter is .{formal.type}: pass a NumPy scalar of its type"
            )
        return _float(value, None, formal.size)
    if not isinstance(value, int):
        raise WeftError(f"{what} is not a number")
    bits = 8 * formal.size
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        raise WeftError(f"{what} is {shown(value)}, which doesn't fit {bits} bits")
    return (value & ((1 << bits) - 1)).to_bytes(formal.size, "little")


def _float(value: float, kind: Type | None, size: int = 0) -> bytes:
    name = kind.name if kind else {4: "f32", 8: "f64"}[size]
    if name == "f64":
        return struct.pack("<d", value)
    narrow = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
    with np.errstate(over="ignore"):
        return np.array(value, narrow.get(name, np.float32)).tobytes()


Progress = Callable[[int, int], None]
"""Called with the number of completed CTAs, and of all CTAs."""


@dataclass(frozen=True)
class Limits:
    """The options of a launch that don't change its results; None: not set."""

    progress: Progress | None = None
    max_seconds: float | None = None
    threads: int | None = None


_NONE = Limits()
_now: ContextVar[Limits] = ContextVar("limits", default=_NONE)


def checked(progress: object, max_seconds: object, threads: object) -> Limits:
    """The options of one launch, which take precedence over those around it. Raises WeftError."""
    cores = None if threads is None else whole_number("threads", threads)
    if cores == 0:
        raise WeftError("threads must be at least 1, got 0")
    if progress is not None and not callable(progress):
        raise WeftError(f"progress must be a function of two numbers, got {shown(progress)}")
    own = vars(Limits(progress, seconds(max_seconds), cores)).items()
    return replace(_now.get(), **{name: value for name, value in own if value is not None})


@contextmanager
def limits(
    *, progress: Progress | None = None, max_seconds: float | None = None, threads: int | None = None
) -> Iterator[None]:
    """Sets options of `Module.launch` for all launches inside the `with` block that don't set them, also for
    those by `weft.matmul`, compiled kernels and frameworks. It affects only the current thread.

    Raises WeftError for values that `launch` rejects.
    """
    token = _now.set(checked(progress, max_seconds, threads))
    try:
        yield
    finally:
        _now.reset(token)
