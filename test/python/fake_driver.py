"""A fake CUDA driver of a machine with two H200s: it has contexts and launches, but executes no kernel."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cuda.bindings import driver as real

from weft.launch import cuda_driver, host, host_in_python, kernel_handle, runtime, sequence
from weft.multiply import compiled_schedules, launches, plans, product_kernel
from weft.multiply.kernels import copies

OK = real.CUresult.CUDA_SUCCESS
HOSTS = list(dict.fromkeys((host.functions, host_in_python)))
"""The functions of `host.c`, if they are compiled, and those in Python."""
_ATTRIBUTES = {
    "COMPUTE_CAPABILITY_MINOR": 0,
    "MULTIPROCESSOR_COUNT": 132,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232_448,
    "MAX_THREADS_PER_BLOCK": 1024,
}
MEMORY = 1 << 40  # where GPU 0's begins; GPU 1's begins at twice that


class FakeDriver:
    """`stack` is a thread's contexts, the current one last: 100 is GPU 0's primary one, 101 GPU 1's."""

    def __init__(self) -> None:
        self.stack: list[int] = []
        self.majors = [9, 9]  # of each GPU's compute capability
        self.launched: list[tuple[int, int]] = []  # GPU and stream
        self.waited: list[int] = []  # on which GPU
        self.copied: list[int] = []  # to a GPU's memory, after how many of `waited`
        self.cleared: list[int] = []  # on which GPU
        self.freed: list[int] = []
        self.mode = real.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
        self.modes: list[Any] = []  # in which memory was freed, graphs destroyed and modules unloaded
        self.unloaded = 0
        self.allocated = 0
        self.waits: list[tuple[int, int]] = []  # streams, and those that they wait for
        self._recorded = -1  # the stream of the last event
        self.captured: dict[int, int] = {}  # streams, and the graphs that they are captured for
        self.replayed: list[tuple[int, int]] = []  # graphs and streams
        self.destroyed: list[int] = []  # graphs
        self.sizes: list[int] = []  # of a kernel's parameters, where a test looks at those
        self.given: list[list[bytes]] = []  # the parameters of each launch
        self.queued: list[tuple[Any, ...]] = []  # by compiled code or ctypes, except launches
        self.events: list[tuple[int, int]] = []  # and streams, for each of `queued` that records or waits
        self._made = 0
        self.access: list[tuple[int, int]] = []  # GPUs, and those whose memory they may access
        self.apart: set[tuple[int, int]] = set()  # those that can't access each other's
        self._entries: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        # Types and constants; what would reach a driver must be one of the methods here.
        assert not name.startswith("cu"), f"the fake driver lacks {name}"
        return getattr(real, name)

    @property
    def gpu(self) -> int:
        return self.stack[-1] - 100

    def cuGetErrorName(self, error: Any) -> Any:
        return OK, real.CUresult(error).name.encode()

    def cuGetErrorString(self, error: Any) -> Any:
        return OK, b"as the fake driver has it"

    def cuDeviceGet(self, ordinal: int) -> Any:
        return OK, ordinal

    def cuDeviceGetAttribute(self, attribute: Any, handle: int) -> Any:
        asked = attribute.name.removeprefix("CU_DEVICE_ATTRIBUTE_")
        return OK, self.majors[handle] if asked == "COMPUTE_CAPABILITY_MAJOR" else _ATTRIBUTES[asked]

    def cuDeviceGetName(self, size: int, handle: int) -> Any:
        return OK, b"H200\0"

    def cuDeviceTotalMem(self, handle: int) -> Any:
        return OK, 141 << 30

    def cuDevicePrimaryCtxRetain(self, ordinal: int) -> Any:
        return OK, 100 + ordinal

    def cuCtxGetCurrent(self) -> Any:
        return OK, self.stack[-1] if self.stack else 0

    def cuCtxPushCurrent(self, context: int) -> Any:
        self.stack.append(context)
        return (OK,)

    def cuCtxPopCurrent(self) -> Any:
        return OK, self.stack.pop()

    def cuCtxGetDevice(self) -> Any:
        return OK, self.gpu

    def cuCtxSynchronize(self) -> Any:
        self.waited.append(self.gpu)
        return (OK,)

    def cuPointerGetAttribute(self, attribute: Any, address: int) -> Any:
        assert attribute.name == "CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL"
        if not address:
            return real.CUresult.CUDA_ERROR_INVALID_VALUE, 0
        return OK, address // MEMORY - 1

    def cuMemAlloc(self, size: int) -> Any:
        self.allocated += 1 << 20
        return OK, MEMORY * (1 + self.gpu) + self.allocated

    def cuMemFree(self, address: int) -> Any:
        self.freed.append(address)
        self.modes.append(self.mode)
        return (OK,)

    def cuMemcpyHtoD(self, address: int, source: int, size: int) -> Any:
        self.copied.append(len(self.waited))
        return (OK,)

    def cuMemsetD8Async(self, address: int, value: int, size: int, stream: int) -> Any:
        self.cleared.append(address // MEMORY - 1)
        return (OK,)

    def cuMemsetD32Async(self, address: int, value: int, count: int, stream: int) -> Any:
        self.queued.append(("fill", address, value, count, stream))
        return (OK,)

    def cuStreamCreate(self, flags: Any) -> Any:
        return OK, 77

    def cuStreamCreateWithPriority(self, flags: Any, priority: int) -> Any:
        assert flags == real.CUstream_flags.CU_STREAM_NON_BLOCKING and priority == -1
        return OK, 70 + self.gpu

    def cuMemcpyHtoDAsync(self, address: int, source: int, size: int, stream: int) -> Any:
        assert stream == 77
        return (OK,)

    def cuDeviceCanAccessPeer(self, one: int, other: int) -> Any:
        return OK, int((one, other) not in self.apart)

    def cuCtxEnablePeerAccess(self, context: int, flags: int) -> Any:
        pair = self.gpu, context - 100
        known = pair in self.access
        self.access.append(pair)
        return (real.CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED if known else OK,)

    def cuStreamSynchronize(self, stream: int) -> Any:
        return (OK,)

    def cuStreamDestroy(self, stream: int) -> Any:
        return (OK,)

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> Any:
        before, self.mode = self.mode, mode
        return OK, before

    def cuStreamGetCaptureInfo(self, stream: int) -> Any:
        assert self.stack
        status = real.CUstreamCaptureStatus
        if stream in self.captured:
            return OK, status.CU_STREAM_CAPTURE_STATUS_ACTIVE, self.captured[stream]
        return OK, status.CU_STREAM_CAPTURE_STATUS_NONE, 0

    def cuStreamBeginCapture(self, stream: int, mode: Any) -> Any:
        assert mode == real.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        self.captured[stream] = 500
        return (OK,)

    def cuStreamEndCapture(self, stream: int) -> Any:
        return OK, self.captured.pop(stream)

    def cuGraphInstantiate(self, graph: int, flags: int) -> Any:
        return OK, graph + 1

    def cuGraphLaunch(self, executable: int, stream: int) -> Any:
        self.replayed.append((executable, stream))
        return (OK,)

    def cuGraphExecDestroy(self, executable: int) -> Any:
        self.destroyed.append(executable)
        self.modes.append(self.mode)
        return (OK,)

    def cuGraphDestroy(self, graph: int) -> Any:
        self.destroyed.append(graph)
        return (OK,)

    def cuStreamGetId(self, stream: int) -> Any:
        assert self.stack
        return OK, 1000 * self.gpu + stream

    def cuEventCreate(self, flags: Any) -> Any:
        assert self.stack and flags == real.CUevent_flags.CU_EVENT_DISABLE_TIMING
        self._made += 1
        return OK, 87 + self._made

    def cuEventRecord(self, event: int, stream: int) -> Any:
        self._recorded = stream
        return (OK,)

    def cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> Any:
        self.waits.append((stream, self._recorded))
        return (OK,)

    def cuEventDestroy(self, event: int) -> Any:
        return (OK,)

    def cuModuleLoadData(self, cubin: bytes) -> Any:
        return OK, 200 + self.gpu

    def cuModuleUnload(self, module: int) -> Any:
        self.unloaded += 1
        self.modes.append(self.mode)
        return (OK,)

    def cuModuleGetFunction(self, module: int, name: bytes) -> Any:
        return OK, real.CUfunction(module)

    def cuFuncSetAttribute(self, kernel: Any, attribute: Any, value: int) -> Any:
        return (OK,)

    def cuOccupancyMaxActiveClusters(self, kernel: Any, config: Any) -> Any:
        return OK, 60

    def entry(self, name: str) -> int:
        """The address of a function, as compiled code calls it."""
        if name not in self._entries:
            kinds = {"h": ctypes.c_uint64, "p": ctypes.c_void_p, "u": ctypes.c_uint}
            method, signature = _ENTRIES[name]
            prototype = ctypes.CFUNCTYPE(ctypes.c_int, *(kinds[letter] for letter in signature))
            self._entries[name] = prototype(getattr(self, method))
        return ctypes.cast(self._entries[name], ctypes.c_void_p).value or 0

    def _current(self, context: int) -> int:
        return _put(context, self.stack[-1] if self.stack else 0)

    def _push(self, context: int) -> int:
        self.stack.append(context)
        return 0

    def _pop(self, context: int) -> int:
        return _put(context, self.stack.pop())

    def _capturing(self, stream: int, state: int, graph: int, *more: int) -> int:
        ctypes.c_int.from_address(state).value = int(stream in self.captured)
        return _put(graph, self.captured.get(stream, 0))

    def _identify(self, stream: int, number: int) -> int:
        return _put(number, 1000 * self.gpu + stream)

    def _copy(self, to: int, source: int, size: int, stream: int) -> int:
        self.queued.append(("copy", to, source, size, stream))
        return 0

    def _set(self, address: int, value: int, count: int, stream: int) -> int:
        assert count == 1
        self.queued.append(("set", address, value, stream))
        return 0

    def _await_value(self, stream: int, address: int, value: int, flags: int) -> int:
        self.queued.append(("await", address, value, flags, stream))
        return 0

    def _record(self, event: int, stream: int) -> int:
        self.queued.append(("record", stream))
        self.events.append((event, stream))
        return 0

    def _await(self, stream: int, event: int, flags: int) -> int:
        self.queued.append(("wait", stream))
        self.events.append((event, stream))
        return 0

    def _launch(self, config: int, kernel: int, parameters: int, extra: int) -> int:
        # The driver refuses a kernel of another context.
        if kernel - 200 != self.gpu:
            return int(real.CUresult.CUDA_ERROR_INVALID_HANDLE)
        self.launched.append((self.gpu, ctypes.c_uint64.from_address(config + _STREAM_OFFSET).value))
        if self.sizes:
            starts = (ctypes.c_void_p * len(self.sizes)).from_address(parameters)
            self.given.append([ctypes.string_at(at, n) for at, n in zip(starts, self.sizes, strict=True)])
        return 0


_STREAM_OFFSET = 32  # of a CUlaunchConfig
# Methods that stand for functions of the driver, with the kinds of their arguments: handles and pointers.
_ENTRIES = {
    "cuCtxGetCurrent": ("_current", "p"),
    "cuCtxPushCurrent": ("_push", "h"),
    "cuCtxPopCurrent": ("_pop", "p"),
    "cuStreamGetCaptureInfo": ("_capturing", "hppppp"),
    "cuStreamGetId": ("_identify", "hp"),
    "cuLaunchKernelEx": ("_launch", "phpp"),
    "cuMemcpyDtoDAsync": ("_copy", "hhhh"),
    "cuMemsetD32Async": ("_set", "huhh"),
    "cuEventRecord": ("_record", "hh"),
    "cuStreamWaitEvent": ("_await", "hhu"),
    "cuStreamWaitValue32": ("_await_value", "hhuu"),
}


def _put(address: int, value: int) -> int:
    ctypes.c_uint64.from_address(address).value = value
    return 0


class GpuArray:
    """Memory of a GPU, as a library has it that knows `__cuda_array_interface__` alone: it tells no GPU."""

    def __init__(self, driver: FakeDriver, gpu: int, *shape: int) -> None:
        driver.allocated += 1 << 20
        self.shape = shape
        address = MEMORY * (1 + gpu) + driver.allocated
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": "<f2",
            "data": (address, False),
            "version": 3,
        }


@contextmanager
def two_gpus(monkeypatch: Any) -> Iterator[FakeDriver]:
    """In the block, Weft finds that driver; what it loads or allocates there is gone afterwards."""
    fake = FakeDriver()
    _forget()
    gc.freeze()  # the collection afterwards looks at what the block makes alone, in a hundredth of the time
    monkeypatch.setattr(cuda_driver, "_initialized", lambda: fake)
    monkeypatch.setattr(host, "entry", fake.entry)
    # No kernel is loaded that could tell what it takes.
    monkeypatch.setattr(kernel_handle.KernelHandle, "check", lambda *_: None)
    monkeypatch.setattr(kernel_handle, "_parameter_sizes", lambda _: [])
    monkeypatch.setenv(compiled_schedules.VARIABLE, "0")  # a test gets the same kernel after any others
    yield fake
    _forget()
    gc.collect()


def _forget() -> None:
    plans.kept.clear()
    launches.zeros.clear()
    copies.copy_rows._forget()
    for cache in (
        *(runtime.device, cuda_driver.primary, host.connect, sequence._lane),
        *(product_kernel.compiled, product_kernel._loaded),
        compiled_schedules._known,
    ):
        cache.cache_clear()
