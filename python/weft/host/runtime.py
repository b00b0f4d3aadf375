"""What host code calls: memory, streams, launches and tensor maps, under the names of upstream's runtime."""

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.errors import Diagnostic, Location, WeftError
from weft.host import printing
from weft.host.emulated import Emulated
from weft.host.lowered import ASSERT, PAGE, Bytes, Shape, new_bytes
from weft.host.on_gpu import Gpu
from weft.host.printing import Memref
from weft.isa import tensor_map
from weft.isa.suggest import did_you_mean

# By the driver's numbers, which aren't those of PTX.
_TENSOR_TYPES = (
    *("UINT8", "UINT16", "UINT32", "INT32", "UINT64", "INT64", "FLOAT16", "FLOAT32", "FLOAT64", "BFLOAT16"),
    *("FLOAT32_FTZ", "TFLOAT32", "TFLOAT32_FTZ"),
)
C_TYPES: dict[str, Any] = {
    "void": None,
    "ptr": ctypes.c_void_p,
    "i1": ctypes.c_bool,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}
"""The types of LLVM IR that functions take and return."""


Device = Emulated | Gpu


class Runtime:
    """The functions that host code calls. The first error ends what they do; `check` raises it."""

    def __init__(
        self, device: Device, say: Callable[[str], None], assertions: Sequence[tuple[str, Location | None]]
    ) -> None:
        self._device, self._assertions = device, assertions
        self._memory: dict[int, Bytes] = {}
        self._failure: BaseException | None = None
        self._functions = self._own() | printing.functions(say)

    def check(self) -> None:
        """Raises what has gone wrong in a function, which compiled code couldn't raise."""
        if self._failure is not None:
            raise self._failure

    def callable_of(self, name: str, kind: str) -> Any:
        """The function of a name, with the type that LLVM IR declares. Raises WeftError for unknown ones."""
        returned, _, rest = kind.partition("(")
        types: list[Any] = [
            C_TYPES.get(each.split()[0]) for each in rest.rstrip(") ").split(",") if each.strip()
        ]
        prototype = ctypes.CFUNCTYPE(C_TYPES.get(returned.strip()), *types)
        if (function := self._functions.get(name)) is not None:
            return prototype(self._guarded(function))
        try:
            return getattr(ctypes.CDLL(None), name)  # of the C library, which has exp and memcpy
        except AttributeError:
            names = [each for each in self._functions if each.startswith("print")]
            what = f"function '{name}' has no body, and weft run has none: it has {', '.join(names)}"
            raise WeftError(f"{what}{did_you_mean(name, names)}") from None

    def _guarded(self, function: Callable[..., object]) -> Callable[..., Any]:
        keeps_on = function in (self._host_alloc, self._host_aligned_alloc, self._host_free)

        def call(*arguments: object) -> Any:
            if self._failure is not None and not keeps_on:
                return 0
            try:
                return function(*[0 if each is None else each for each in arguments])
            except BaseException as error:
                self._failure = self._failure or error
                return 0

        return call

    def _own(self) -> dict[str, Callable[..., Any]]:
        device = self._device
        return {
            "_mlir_memref_to_llvm_alloc": self._host_alloc,
            "_mlir_memref_to_llvm_aligned_alloc": self._host_aligned_alloc,
            "_mlir_memref_to_llvm_free": self._host_free,
            "memrefCopy": _copy_memref,
            "rtclock": time.perf_counter,
            ASSERT: self._assert,
            "mgpuMemAlloc": lambda size, stream, shared: device.alloc(
                _checked(size, "gpu.alloc"), bool(shared)
            ),
            "mgpuMemFree": lambda address, stream: device.free(address),
            "mgpuMemcpy": device.copy,
            "mgpuMemset32": lambda to, value, count, stream: device.fill(to, _le(value, 4), count, stream),
            "mgpuMemset16": lambda to, value, count, stream: device.fill(to, _le(value, 2), count, stream),
            "mgpuMemHostRegisterMemRef": lambda *memref: device.register(*_extent(*memref)),
            "mgpuMemHostUnregisterMemRef": lambda *memref: device.unregister(_extent(*memref)[0]),
            "mgpuModuleLoad": lambda code, size: device.load(ctypes.string_at(code, size)),
            "mgpuModuleLoadJIT": lambda code, level, size: device.load(ctypes.string_at(code)),
            "mgpuModuleUnload": lambda module: None,
            "mgpuModuleGetFunction": lambda module, name: device.kernel(
                module, ctypes.string_at(name).decode()
            ),
            "mgpuLaunchKernel": lambda kernel, *rest: self._launch(kernel, 1, 1, 1, *rest),
            "mgpuLaunchClusterKernel": self._launch,
            "mgpuStreamCreate": device.stream,
            "mgpuStreamSynchronize": device.wait,
            "mgpuStreamDestroy": device.destroy,
            "mgpuStreamWaitEvent": device.wait_for,
            "mgpuEventCreate": device.event,
            "mgpuEventRecord": device.record,
            "mgpuEventSynchronize": device.wait_for_event,
            "mgpuEventDestroy": lambda event: None,
            "mgpuSetDefaultDevice": lambda ordinal: None,
            "mgpuTensorMapEncodeTiledMemref": self._tensor_map,
        }

    def _host_alloc(self, size: int) -> int:
        data = new_bytes(max(_checked(size, "memref.alloc"), 1))
        address = int(data.ctypes.data)
        self._memory[address] = data
        return address

    def _host_aligned_alloc(self, alignment: int, size: int) -> int:
        if alignment > PAGE:
            raise WeftError(f"memref.alloc: alignment must be at most {PAGE}; got {alignment}")
        return self._host_alloc(size)

    def _host_free(self, address: int) -> None:
        if self._memory.pop(address, None) is None and address:
            raise WeftError("memref.dealloc: memory must come from memref.alloc, and be freed once")

    def _assert(self, holds: bool, number: int) -> None:
        if not holds:
            message, location = self._assertions[number]
            raise WeftError(Diagnostic(f"assertion failed: {message}", location))

    def _launch(self, kernel: int, *rest: int) -> None:
        cluster = rest[0], rest[1], rest[2]
        grid = rest[3], rest[4], rest[5]
        block = rest[6], rest[7], rest[8]
        shared, stream, parameters = rest[9:12]
        self._device.launch(kernel, Shape(grid, block, cluster, shared), stream, parameters)

    def _tensor_map(self, rank: int, descriptor: int, *numbers: int) -> int:
        """The address, on the GPU, of the tensor map of a memref; the numbers are the driver's."""
        memref = Memref(rank, descriptor)
        dtype, interleave, swizzle, promotion, fill, box = numbers
        name = _TENSOR_TYPES[dtype]
        sizes = (ctypes.c_int64 * rank).from_address(box)
        width = tensor_map.ELEMENT_TYPES[name].bits // 8
        fields = tensor_map.TensorMap(
            memref.aligned + memref.offset * width,
            name,
            memref.sizes[::-1],
            tuple(stride * width for stride in memref.strides[-2::-1]),
            (1,) * rank,
            tuple(sizes)[::-1],
            interleave=tensor_map.INTERLEAVES[interleave],
            swizzle=tensor_map.SWIZZLES[swizzle],
            l2_promotion=tensor_map.L2_PROMOTIONS[promotion],
            oob_fill=tensor_map.OOB_FILLS[fill],
        )
        if complaint := fields.complaint():
            raise WeftError(f"nvgpu.tma.create.descriptor: {complaint}")
        encoded = np.frombuffer(fields.encode(), np.uint8)
        address = self._device.alloc(len(encoded), False)
        self._device.copy(address, int(encoded.ctypes.data), len(encoded), 0)
        return address


def _checked(size: int, what: str) -> int:
    if size < 0:
        raise WeftError(f"{what}: sizes must be at least 0; got {size} bytes")
    return size


def _le(value: int, size: int) -> bytes:
    return (value % (1 << 8 * size)).to_bytes(size, "little")


def _extent(rank: int, descriptor: int, element: int) -> tuple[int, int]:
    return Memref(rank, descriptor).bytes(element)


def _copy_memref(element: int, source: int, to: int) -> None:
    """Copies a memref to another of the same sizes, of which one may not be contiguous."""
    (rank, source), (_, to) = ((ctypes.c_int64 * 2).from_address(each) for each in (source, to))
    dtype = np.dtype(f"V{element}")
    Memref(rank, to).array(dtype)[...] = Memref(rank, source).array(dtype)
