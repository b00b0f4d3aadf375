"""A GPU as the device of host code, through the CUDA driver."""

import math
from typing import Any

from weft.host.lowered import Launched, Shape
from weft.launch import runtime
from weft.launch.cuda_driver import api, call, check, launch_config
from weft.launch.kernel_handle import KernelHandle


class Gpu:
    """The first GPU. Everything happens in its primary context, which the caller has entered."""

    def __init__(self) -> None:
        self.launches: list[Launched] = []
        self._modules: list[runtime.Loaded] = []
        self._kernels: list[KernelHandle] = []
        self._kept: list[Any] = []

    def alloc(self, size: int, shared: bool) -> int:
        driver = api()
        if shared:
            everywhere = driver.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value
            return int(call("allocating memory", driver.cuMemAllocManaged, max(size, 1), everywhere))
        return int(call("allocating memory", driver.cuMemAlloc, max(size, 1)))

    def free(self, address: int) -> None:
        call("freeing memory", api().cuMemFree, address)

    def register(self, address: int, size: int) -> None:
        driver = api()
        (error,) = driver.cuMemHostRegister(address, size, 0) if size else (0,)
        if error != driver.CUresult.CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
            check("registering memory", error)

    def unregister(self, address: int) -> None:
        call("unregistering memory", api().cuMemHostUnregister, address)

    def copy(self, to: int, source: int, size: int, stream: int) -> None:
        call(f"copying {size} bytes", api().cuMemcpyAsync, to, source, size, stream)

    def fill(self, address: int, pattern: bytes, count: int, stream: int) -> None:
        driver = api()
        function = driver.cuMemsetD16Async if len(pattern) == 2 else driver.cuMemsetD32Async
        call("setting memory", function, address, int.from_bytes(pattern, "little"), count, stream)

    def load(self, code: bytes) -> int:
        self._modules.append(runtime.load(code, 0))
        return len(self._modules)

    def kernel(self, module: int, name: str) -> int:
        self._kernels.append(self._modules[module - 1].kernel(name))
        return len(self._kernels)

    def launch(self, kernel: int, shape: Shape, stream: int, parameters: int) -> None:
        handle = self._kernels[kernel - 1]
        grid, block, cluster, shared_bytes = shape
        name = handle.name
        action = f"launching {name} with grid {grid}, block {block}, {shared_bytes} bytes of shared memory"
        handle.allow(shared_bytes, math.prod(cluster), action)
        config = launch_config(grid, block, shared_bytes, cluster, False)
        config.hStream = stream
        call(action, api().cuLaunchKernelEx, config, handle.handle, parameters, 0)
        self.launches.append(Launched(name, grid, block))

    def stream(self) -> int:
        return self._keep(call("creating a stream", api().cuStreamCreate, 0))

    def event(self) -> int:
        return self._keep(call("creating an event", api().cuEventCreate, 0))

    def _keep(self, handle: Any) -> int:
        self._kept.append(handle)
        return int(handle)

    def destroy(self, stream: int) -> None:
        call("destroying a stream", api().cuStreamDestroy, stream)

    def wait(self, stream: int) -> None:
        call("waiting for a stream", api().cuStreamSynchronize, stream)

    def wait_for_event(self, event: int) -> None:
        call("waiting for an event", api().cuEventSynchronize, event)

    def record(self, event: int, stream: int) -> None:
        call("recording an event", api().cuEventRecord, event, stream)

    def wait_for(self, stream: int, event: int) -> None:
        call("waiting for an event", api().cuStreamWaitEvent, stream, event, 0)

    def close(self) -> None:
        """Waits for everything, and unloads the kernels."""
        call("waiting for the GPU", api().cuCtxSynchronize)
        for module in self._modules:
            module.close()
