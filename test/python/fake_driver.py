"""Stands for the CUDA driver of a machine with two H200s: contexts and launches, and no kernel runs."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cuda.bindings import driver as real

from weft import cuda_driver, multiply, product_kernel, runtime

OK = real.CUresult.CUDA_SUCCESS
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
        self.queued: list[Any] = []  # kernels, by their GPU, and copies of rows
        self.waited: list[int] = []  # on which GPU
        self.cleared: list[int] = []  # on which GPU
        self.freed: list[int] = []
        self.allocated = 0

    def __getattr__(self, name: str) -> Any:
        # Types and constants; what would reach a driver must be one of the methods here.
        assert not name.startswith("cu"), f"the fake driver lacks {name}"
        return getattr(real, name)

    @property
    def gpu(self) -> int:
        return self.stack[-1] - 100

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
        return OK, address // MEMORY - 1

    def cuMemAlloc(self, size: int) -> Any:
        self.allocated += 1 << 20
        return OK, MEMORY * (1 + self.gpu) + self.allocated

    def cuMemFree(self, address: int) -> Any:
        self.freed.append(address)
        return (OK,)

    def cuMemsetD8Async(self, address: int, value: int, size: int, stream: int) -> Any:
        self.cleared.append(address // MEMORY - 1)
        return (OK,)

    def cuMemcpy2DAsync(self, copy: Any, stream: int) -> Any:
        self.queued.append(copy)
        return (OK,)

    def cuStreamCreate(self, flags: Any) -> Any:
        return OK, 77

    def cuStreamSynchronize(self, stream: int) -> Any:
        return (OK,)

    def cuStreamDestroy(self, stream: int) -> Any:
        return (OK,)

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> Any:
        return OK, mode

    def cuStreamGetCaptureInfo(self, stream: int) -> Any:
        assert self.stack
        return OK, real.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE, 0

    def cuStreamGetId(self, stream: int) -> Any:
        assert self.stack
        return OK, 1000 * self.gpu + stream

    def cuModuleLoadData(self, cubin: bytes) -> Any:
        return OK, 200 + self.gpu

    def cuModuleUnload(self, module: int) -> Any:
        return (OK,)

    def cuModuleGetFunction(self, module: int, name: bytes) -> Any:
        return OK, real.CUfunction(module)

    def cuFuncSetAttribute(self, kernel: Any, attribute: Any, value: int) -> Any:
        return (OK,)

    def cuOccupancyMaxActiveClusters(self, kernel: Any, config: Any) -> Any:
        return OK, 60

    def cuLaunchKernelEx(self, config: Any, kernel: Any, parameters: int, extra: int) -> Any:
        # The driver refuses a kernel of another context.
        if int(kernel) - 200 != self.gpu:
            return (real.CUresult.CUDA_ERROR_INVALID_HANDLE,)
        self.launched.append((self.gpu, int(config.hStream)))
        self.queued.append(self.gpu)
        return (OK,)


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
    monkeypatch.setattr(cuda_driver, "_initialised", lambda: fake)
    # No kernel is loaded that could tell what it takes.
    monkeypatch.setattr(runtime._Kernel, "check", lambda *_: None)
    monkeypatch.setattr(runtime, "_parameter_sizes", lambda _: [])
    yield fake
    _forget()


def _forget() -> None:
    multiply._prepared.clear()
    for cache in (runtime.device, cuda_driver.primary, product_kernel.compiled):
        cache.cache_clear()
    gc.collect()
