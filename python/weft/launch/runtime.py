"""Loading and launching cubins, GPU memory and timing. Importing this needs no driver."""

import contextlib
import functools
import math
import statistics
import struct
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from weft.errors import WeftError, shown
from weft.isa.chips import of_capability
from weft.launch import arrays, cuda_driver, dlpack_export, launcher
from weft.launch.cuda_driver import Dim as Dim
from weft.launch.cuda_driver import api, call, check, context, entered, launch_config, primary, release
from weft.launch.kernel_handle import Argument, KernelHandle, pack
from weft.launch.launcher import Parameter
from weft.system import upper


@dataclass(frozen=True)
class Device:
    """A GPU. `chip` is the target to compile for ("sm_90a"), `shared_bytes` the limit for a block."""

    ordinal: int
    name: str
    chip: str
    multiprocessors: int
    shared_bytes: int
    threads_per_block: int
    memory_bytes: int


def available() -> str | None:
    """None if kernels can run here, otherwise the reason in words."""
    try:
        device()
    except WeftError as error:
        return error.diagnostics[0].message
    return None


def default_chip() -> str:
    """The target if none is named: the GPU's chip, or sm_80 without a GPU."""
    return device().chip if available() is None else "sm_80"


def chip_of(ordinal: int | None, arch: str | None, caller: str, emulated: Callable[[], str]) -> str:
    """The chip of the GPU that holds a call's arrays, or to which those on the CPU (None) are copied. Without
    a GPU, the `emulated` one unless `arch` names it. Raises WeftError for an `arch` with arrays on a GPU.
    """
    if arch is not None and ordinal is None:
        return arch
    if arch is None and available() is not None:
        return emulated()
    chip = (current() if ordinal is None else device(ordinal)).chip
    if arch is not None:
        raise WeftError(f"{caller}: arch must be None for arrays on a GPU, here of {chip}, got {arch}")
    return chip


@functools.cache
def device(ordinal: int = 0) -> Device:
    """The properties of GPU `ordinal`. Raises WeftError without that GPU."""
    driver = api()
    handle = call(f"looking for GPU {ordinal}", driver.cuDeviceGet, ordinal)
    ask = functools.partial(_attribute, driver, handle)
    major, minor = ask("COMPUTE_CAPABILITY_MAJOR"), ask("COMPUTE_CAPABILITY_MINOR")
    name = call("reading the GPU's name", driver.cuDeviceGetName, 128, handle)
    return Device(
        ordinal,
        name.split(b"\0")[0].decode(),
        of_capability(major, minor),
        ask("MULTIPROCESSOR_COUNT"),
        ask("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        ask("MAX_THREADS_PER_BLOCK"),
        call("reading the GPU's memory size", driver.cuDeviceTotalMem, handle),
    )


def current() -> Device:
    """The GPU of the current context, such as PyTorch's, or GPU 0 without one."""
    with entered(context(None)):
        return _current_device()


def _current_device() -> Device:
    return device(int(call("reading the current GPU", api().cuCtxGetDevice)))


def _attribute(driver: Any, handle: Any, name: str) -> int:
    attribute = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    return int(call("reading the GPU's properties", driver.cuDeviceGetAttribute, attribute, handle))


@contextlib.contextmanager
def on(ordinal: int | None) -> Iterator[None]:
    """Makes GPU `ordinal` the current one in the block; None changes nothing."""
    if ordinal is None or ordinal == current().ordinal:
        yield
        return
    with entered(primary(ordinal)):
        yield


def holder(views: Iterable[object]) -> int | None:
    """The number of the GPU with the arrays among `views`; None if all are on the CPU. Raises WeftError for
    arrays on several GPUs.
    """
    ordinals = {_ordinal(v) for v in views if isinstance(v, arrays.ArrayView) and v.device == "cuda"}
    if len(ordinals) > 1:
        raise WeftError(f"arrays must be on one GPU, got GPUs {', '.join(map(str, sorted(ordinals)))}")
    return ordinals.pop() if ordinals else None


def _ordinal(view: arrays.ArrayView) -> int:
    if view.device_id >= 0:
        return view.device_id
    action = f"finding the GPU of address {view.address:#x}"
    driver = api()
    attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    with entered(context(None)):
        return int(call(action, driver.cuPointerGetAttribute, attribute, view.address))


def load(cubin: bytes, ordinal: int | None = None) -> "Loaded":
    """Loads a cubin on GPU `ordinal`. For None, on the current GPU, such as PyTorch's, or GPU 0."""
    return Loaded(cubin, ordinal)


class Loaded:
    """A cubin on a GPU, until `close`. The object's end doesn't unload it, since a CUDA graph may have
    captured a launch.
    """

    def __init__(self, cubin: bytes, ordinal: int | None = None) -> None:
        driver = api()
        self.context = context(ordinal)
        with entered(self.context):
            self.device = _current_device()
            action = f"loading a cubin of {len(cubin)} bytes on {self.device.name} ({self.device.chip})"
            status, self._module = driver.cuModuleLoadData(cubin)
            try:
                check(action, status)
            except WeftError as error:
                if status != driver.CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU:
                    raise
                remedy = f"compile for {self.device.chip} (without arch), or run it in the emulator"
                raise WeftError(f"{error}: the kernel is compiled for another chip: {remedy}") from None
        self._kernels: dict[str, KernelHandle] = {}
        self._closed = False

    def close(self) -> None:
        """Unloads the cubin. No launch may follow, replays of graphs included."""
        if not self._closed:
            self._closed = True
            release(self.context, api().cuModuleUnload, self._module)

    def launch(
        self,
        kernel_name: str,
        grid: Dim,
        block: Dim,
        args: Sequence[Argument],
        *,
        stream: object = None,
        **options: Any,
    ) -> None:
        """Queues a kernel on `stream` (a handle, or an object of PyTorch or CuPy; None is the default stream)
        without waiting for it. `options` are those of `prepare`.
        """
        launch(self.prepare(kernel_name, grid, block, args, **options), stream)

    def prepare(
        self,
        kernel_name: str,
        grid: Dim,
        block: Dim,
        args: Sequence[Argument],
        *,
        shared_bytes: int = 0,
        cluster: Dim = (1, 1, 1),
        dependent: bool = False,
        workspaces: "Workspaces | None" = None,
        extents: launcher.Extents | None = None,
    ) -> "Prepared":
        """A launch that can be queued any number of times. Memory in `args` must live until the last ends.

        `shared_bytes` is dynamic shared memory. A `dependent` kernel may start before earlier work of the
        stream ends, and waits for it by `griddepcontrol.wait`. The addresses in `args` that each launch sets
        are numbered from 0, followed by those of `workspaces`. `queue_apart` checks `extents`. Raises
        WeftError for a grid, block or arguments that the kernel or the GPU can't take.
        """
        packed = pack(args)
        action = (
            f"launching {kernel_name} with grid {grid}, block {block}, {shared_bytes} bytes of shared memory"
        )
        if cluster != (1, 1, 1):
            action += f", cluster {cluster}"
        if complaint := _complaint(self.device, grid, block, shared_bytes, cluster):
            raise WeftError(f"{action}: {complaint}")
        if self._closed:
            raise WeftError(f"{action}: its module is closed")
        with entered(self.context):
            kernel = self.kernel(kernel_name)
            kernel.check(packed)
            kernel.allow(shared_bytes, math.prod(cluster), action)
        config = launch_config(grid, block, shared_bytes, cluster, dependent)
        return Prepared(self, kernel, packed, action, config, workspaces, extents)

    def resident_ctas(self, kernel_name: str, block: Dim, shared_bytes: int, cluster: Dim) -> int:
        """How many CTAs of clusters of this size the GPU can run at the same time."""
        ctas = math.prod(cluster)
        action = f"counting the clusters of {kernel_name} that fit the GPU"
        with entered(self.context):
            kernel = self.kernel(kernel_name)
            kernel.allow(shared_bytes, ctas, action)
            config = launch_config((ctas, 1, 1), block, shared_bytes, cluster, False)
            clusters = call(action, api().cuOccupancyMaxActiveClusters, kernel.handle, config)
        return int(clusters) * ctas

    def kernel(self, name: str) -> KernelHandle:
        """The handle of a kernel."""
        if name not in self._kernels:
            handle = call(
                f"looking for kernel {name}", api().cuModuleGetFunction, self._module, name.encode()
            )
            self._kernels[name] = KernelHandle(name, handle)
        return self._kernels[name]


def launch(prepared: Any, stream: object = None) -> None:
    """Queues a prepared launch on `stream`."""
    prepared.launch(stream_handle(stream))


class Workspaces(Protocol):
    """Memory that a kernel has on each stream, or in each graph, in addition to its arguments."""

    count: int

    def of(self, stream: int) -> tuple[tuple[int, int], Sequence[int]]:
        """The key of a stream, or of the graph that it is captured for, and its workspaces' addresses."""

    def of_key(self, key: tuple[int, int]) -> Sequence[int]:
        """The addresses of workspaces for a key of the caller's own, which no stream or graph has."""


class Prepared:
    """A prepared launch of a kernel. It keeps the module loaded. Any number of threads may queue it."""

    def __init__(
        self,
        module: Loaded,
        kernel: KernelHandle,
        parameters: Sequence[Parameter],
        action: str,
        config: Any,
        workspaces: Workspaces | None,
        extents: launcher.Extents | None,
    ) -> None:
        self.device, self.context = module.device, module.context
        self.action = action
        self._module, self._kernel, self._workspaces = module, kernel, workspaces
        self._parameters, self._config = parameters, config
        count = 0 if workspaces is None else workspaces.count
        self._addresses = len({p.address for p in parameters if p.address is not None}) - count
        handles = int(module.context), int(kernel.handle)
        self._plan = launcher.Plan(*handles, config, parameters, self._addresses, count, extents)
        self.plan_address = self._plan.address
        self._queue = self._plan.queue
        self.has_workspaces = workspaces is not None
        self.queue_apart = self._plan.queue_apart
        """`queue_apart(stream, *addresses)` queues the launch and returns its status: 0, `launcher.OVERLAP`,
        or a status for `settle`.
        """

    def launch(self, stream: int, *addresses: int) -> None:
        """Queues the launch with these addresses on a stream of its GPU, by handle. That GPU needn't be the
        current one.
        """
        if status := self._queue(stream, *addresses):
            self.settle(status, stream, *addresses)
        cuda_driver.launched = self.action

    def bound(self, args: Sequence[Any]) -> "Bound":
        """The launch with the addresses of these arguments."""
        return Bound(self, tuple(arg.address for arg in args if isinstance(arg, arrays.ArrayView)))

    def settle(self, status: int, stream: int, *addresses: int) -> None:
        """Queues the launch again if it only lacked workspaces. Raises WeftError for the driver's errors."""
        while status:
            self.provide(status, stream)
            status = self._queue(stream, *addresses)

    def with_workspaces(self, key: tuple[int, int]) -> "Prepared":
        """The same launch, with workspaces of its own on all streams and in all graphs. Launches with one key
        have the same workspaces.
        """
        assert self._workspaces is not None
        with entered(self.context):
            memory = self._workspaces.of_key(key)
        parameters = [
            each
            if each.address is None or each.address < self._addresses
            else Parameter(struct.pack("<Q", memory[each.address - self._addresses]))
            for each in self._parameters
        ]
        return Prepared(self._module, self._kernel, parameters, self.action, self._config, None, None)

    def provide(self, status: int, stream: int) -> None:
        """Allocates a stream's workspaces if a launch with this status lacked them. Raises WeftError for the
        driver's errors.
        """
        assert status != launcher.MISCOUNTED, self.action
        if status == launcher.NO_WORKSPACE and self._workspaces is not None:
            with entered(self.context):
                self._plan.add_workspaces(*self._workspaces.of(stream))
        else:
            check(self.action, api().CUresult(status))


@dataclass(frozen=True)
class Bound:
    """A launch, queued any number of times, with the addresses of its arrays, which must outlive it."""

    prepared: Prepared
    addresses: tuple[int, ...]

    def launch(self, stream: int) -> None:
        """Queues the launch on a stream of its GPU, by handle. That GPU needn't be the current one."""
        self.prepared.launch(stream, *self.addresses)


class DeviceArray:
    """An array in GPU memory: `shape` elements of an MLIR type, in C order, not initialized.

    It is freed with the object. Freeing waits for queued kernels, which may use it. `a @ b` is `weft.matmul`
    where one of them is a DeviceArray, also for arrays of NumPy, PyTorch and CuPy on the left.
    """

    __array_ufunc__ = None  # NumPy and CuPy then leave `@` to this class
    __array_priority__ = 1000

    def __init__(self, shape: Sequence[int], dtype: str, ordinal: int | None = None) -> None:
        driver = api()
        self.shape = tuple(shape)
        self.dtype = dtype
        self.nbytes = math.prod(self.shape) * arrays.numpy_dtype(dtype).itemsize
        self._context = context(ordinal)
        with entered(self._context):
            self.device = _current_device()
            action = f"allocating {self.nbytes} bytes on {self.device.name}"
            self.address = int(call(action, driver.cuMemAlloc, max(1, self.nbytes)))
        weakref.finalize(self, release, self._context, driver.cuMemFree, self.address).atexit = False

    @classmethod
    def from_numpy(cls, array: npt.NDArray[Any], ordinal: int | None = None) -> "DeviceArray":
        """A copy of a NumPy array on GPU `ordinal`, or on the current GPU."""
        copy = cls(array.shape, arrays.mlir_type(array.dtype), ordinal)
        copy.copy_from(array)
        return copy

    def copy_from(self, array: npt.NDArray[Any]) -> None:
        """Copies from an array, after all queued work, and waits for the copy. Raises WeftError for another
        shape or type.
        """
        if array.shape != self.shape or arrays.mlir_type(array.dtype) != self.dtype:
            raise WeftError(
                f"expected an array of {self.dtype} with shape {self.shape}, "
                f"got {arrays.mlir_type(array.dtype)} with shape {array.shape}"
            )
        source = np.ascontiguousarray(array)
        self._copy("to", lambda driver: driver.cuMemcpyHtoD(self.address, source.ctypes.data, self.nbytes))

    def to_numpy(self) -> npt.NDArray[Any]:
        """A copy as a NumPy array, after all queued work."""
        target = np.empty(self.shape, arrays.numpy_dtype(self.dtype))
        self._copy("from", lambda driver: driver.cuMemcpyDtoH(target.ctypes.data, self.address, self.nbytes))
        return target

    def _copy(self, direction: str, copy: Callable[[Any], tuple[Any, ...]]) -> None:
        with entered(self._context):
            # A copy alone would wait only for the default stream.
            synchronize()
            if self.nbytes:
                call(f"copying {self.nbytes} bytes {direction} the GPU", copy, api())
                # A copy to the GPU may still run when the driver has read all, and PyTorch's streams don't
                # wait for it.
                synchronize()

    def __matmul__(self, other: Any) -> Any:
        """`weft.matmul(self, other)`; NotImplemented for what isn't an array, or asks to multiply itself by
        `__array_ufunc__ = None`.
        """
        kind = type(other)
        asks = not isinstance(other, DeviceArray) and getattr(kind, "__array_ufunc__", kind) is None
        return NotImplemented if asks or not arrays.is_array(other) else _matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _matmul(other, self) if arrays.is_array(other) else NotImplemented

    def __weft_view__(self) -> arrays.ArrayView:
        strides = arrays.contiguous_strides(self.shape)
        ordinal = self.device.ordinal
        return arrays.ArrayView(self.address, self.shape, strides, self.dtype, "cuda", ordinal, False, self)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack_export.device_of(arrays.view(self))

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A DLPack capsule, for other libraries' `from_dlpack`. It keeps the memory alive. `stream` is None,
        1 (the legacy default stream), 2 (that of each thread) or a handle; unless it is -1, waits for all
        queued work, so that any stream may use the array. Raises BufferError for other streams, as DLPack
        forbids 0, and for what needs a copy.
        """
        if stream is not None and (not isinstance(stream, int) or stream < -1 or stream == 0):
            legal = "None, -1, 1 (the legacy default stream), 2 (that of each thread) or a handle"
            raise BufferError(f"stream must be {legal}, got {shown(stream)}")
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("a DeviceArray can export only its own memory, without a copy")
        if stream != -1:
            with entered(self._context):
                synchronize()
        return dlpack_export.capsule_of(arrays.view(self), max_version)


def _matmul(a: Any, b: Any) -> Any:
    return upper.weft().matmul(a, b)


def synchronize() -> None:
    """Waits for all queued work of the current GPU. Raises WeftError after a kernel's fault."""
    with entered(context(None)):
        call("waiting for the GPU", api().cuCtxSynchronize)


def time(fn: Callable[[], object], repeats: int = 10, *, stream: object = None) -> float:
    """The median GPU time, in milliseconds, of the work that `fn` queues on `stream`, after one more call."""
    driver = api()
    fn()
    with entered(context(None)), contextlib.ExitStack() as events:

        def event() -> Any:
            handle = call("creating an event", driver.cuEventCreate, 0)
            events.callback(driver.cuEventDestroy, handle)
            return handle

        pairs = [(event(), event()) for _ in range(repeats)]
        queue = stream_handle(stream)
        for start, end in pairs:
            call("recording an event", driver.cuEventRecord, start, queue)
            fn()
            call("recording an event", driver.cuEventRecord, end, queue)
        synchronize()
        times = [float(call("reading a time", driver.cuEventElapsedTime, *pair)) for pair in pairs]
        return statistics.median(times)


def _complaint(on: Device, grid: Dim, block: Dim, shared_bytes: int, cluster: Dim) -> str | None:
    """What is wrong with a launch. The driver would only report an invalid argument."""
    if min(*grid, *block, *cluster) < 1:
        return "grid, block and cluster must be at least 1 in each dimension"
    if math.prod(block) > on.threads_per_block:
        return f"block must have at most {on.threads_per_block} threads, got {math.prod(block)}"
    if any(blocks % clustered for blocks, clustered in zip(grid, cluster, strict=True)):
        return "grid must be a multiple of cluster in each dimension"
    if not 0 <= shared_bytes <= on.shared_bytes:
        return f"shared_bytes must be in 0..{on.shared_bytes} on {on.name}, got {shared_bytes}"
    return None


def stream_handle(stream: Any) -> int:
    """The handle of a stream: a number, an object of PyTorch or CuPy, or one with `__cuda_stream__`. None has
    handle 0, the default stream. Raises WeftError for any other object.
    """
    handle = 0 if stream is None else stream
    try:
        if hasattr(stream, "__cuda_stream__"):
            handle = int(stream.__cuda_stream__()[1])
        else:
            for name in ("cuda_stream", "ptr"):  # PyTorch, CuPy
                if hasattr(stream, name):
                    handle = int(getattr(stream, name))
    except arrays.BROKEN as error:
        why = f"{type(error).__name__}: {error}"
        raise WeftError(
            f"stream must have a readable handle, got a {type(stream).__name__}: {why}"
        ) from error
    if not isinstance(handle, int) or isinstance(handle, bool):
        raise WeftError(
            f"stream must be a stream of PyTorch or CuPy, or a handle, got {type(stream).__name__}"
        )
    if not 0 <= handle < 2**64:
        raise WeftError(f"stream must have a handle in 0..2**64 - 1, got {shown(handle)}")
    return handle
