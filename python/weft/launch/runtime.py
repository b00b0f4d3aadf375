"""Cubins on the GPU: loading, launching, memory and timing, through a driver that need not be there."""

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
from weft.launch import arrays, cuda_driver, launcher
from weft.launch.cuda_driver import api, call, check, context, entered, primary, release
from weft.launch.launcher import Parameter

# A `struct` format character and its number ("P" for an address), a struct's bytes, say a tensor map's, or a
# parameter that gets an address at each launch.
Argument = tuple[str, float] | bytes | Parameter
Dim = tuple[int, int, int]

_PORTABLE_CLUSTER = 8


@dataclass(frozen=True)
class Device:
    """A GPU: `chip` is what to compile for ("sm_90a"), `shared_bytes` the most that a block can have."""

    ordinal: int
    name: str
    chip: str
    multiprocessors: int
    shared_bytes: int
    threads_per_block: int
    memory_bytes: int


def available() -> str | None:
    """None when kernels can run here, else the reason in words."""
    try:
        device()
    except WeftError as error:
        return error.diagnostics[0].message
    return None


def default_chip() -> str:
    """What to compile for where nothing says: the GPU's chip, else sm_80."""
    return device().chip if available() is None else "sm_80"


@functools.cache
def device(ordinal: int = 0) -> Device:
    """What the driver says of GPU number `ordinal`."""
    driver = api()
    handle = call(f"looking for GPU {ordinal}", driver.cuDeviceGet, ordinal)
    ask = functools.partial(_attribute, driver, handle)
    major, minor = ask("COMPUTE_CAPABILITY_MAJOR"), ask("COMPUTE_CAPABILITY_MINOR")
    # Every chip since 9.0 has instructions that only its own "a" target gives.
    chip = f"sm_{major}{minor}{'a' if major >= 9 else ''}"
    name = call("asking the GPU's name", driver.cuDeviceGetName, 128, handle)
    return Device(
        ordinal,
        name.split(b"\0")[0].decode(),
        chip,
        ask("MULTIPROCESSOR_COUNT"),
        ask("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        ask("MAX_THREADS_PER_BLOCK"),
        call("asking the GPU's memory", driver.cuDeviceTotalMem, handle),
    )


def current() -> Device:
    """The GPU of the current context (PyTorch's, say), else GPU 0."""
    with entered(context(None)):
        return _current_device()


def _current_device() -> Device:
    return device(int(call("asking the current GPU", api().cuCtxGetDevice)))


def _attribute(driver: Any, handle: Any, name: str) -> int:
    asked = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    return int(call("asking the GPU's properties", driver.cuDeviceGetAttribute, asked, handle))


@contextlib.contextmanager
def on(ordinal: int | None) -> Iterator[None]:
    """In the block GPU `ordinal` is the current one; None leaves the one that is."""
    if ordinal is None or ordinal == current().ordinal:
        yield
        return
    with entered(primary(ordinal)):
        yield


def holder(views: Iterable[object]) -> int | None:
    """The number of the GPU that holds the arrays among `views`; None if the CPU holds all. Raises WeftError
    for arrays of several GPUs.
    """
    found = {_ordinal(v) for v in views if isinstance(v, arrays.ArrayView) and v.device == "cuda"}
    if len(found) > 1:
        raise WeftError(f"expected arrays on one GPU, got them on GPUs {', '.join(map(str, sorted(found)))}")
    return found.pop() if found else None


def _ordinal(view: arrays.ArrayView) -> int:
    if view.device_id >= 0:
        return view.device_id
    what = f"asking which GPU holds an array at {view.address:#x}"
    driver = api()
    asked = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    with entered(context(None)):
        return int(call(what, driver.cuPointerGetAttribute, asked, view.address))


def load(cubin: bytes, ordinal: int | None = None) -> "Loaded":
    """Load `cubin` on GPU `ordinal`, or else on the current one (PyTorch's, say), or else on GPU 0."""
    return Loaded(cubin, ordinal)


class Loaded:
    """A cubin on a GPU; unloaded with the object or by `close`."""

    def __init__(self, cubin: bytes, ordinal: int | None = None) -> None:
        driver = api()
        self.context = context(ordinal)
        with entered(self.context):
            self.device = _current_device()
            what = f"loading a cubin of {len(cubin)} bytes on {self.device.name} ({self.device.chip})"
            self._module = call(what, driver.cuModuleLoadData, cubin)
        self._kernels: dict[str, _Kernel] = {}
        self.close = weakref.finalize(self, release, self.context, driver.cuModuleUnload, self._module)
        self.close.atexit = False

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
        """Queue one kernel on `stream` (a handle, or an object of PyTorch or CuPy; None: the default stream),
        with what `prepare` takes. Nothing is waited for.
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
        """A launch to be queued any number of times; memory in `args` must live until the last one ends.

        `shared_bytes` is dynamic. A `dependent` kernel may begin before what was queued before it is done,
        and waits for that itself (`griddepcontrol.wait`). Addresses in `args` that each launch gives are
        numbered from 0; those of `workspaces` follow. `queue_apart` checks `extents`.
        """
        packed = pack(args)
        what = (
            f"launching {kernel_name} with grid {grid}, block {block}, {shared_bytes} bytes of shared memory"
        )
        if cluster != (1, 1, 1):
            what += f", cluster {cluster}"
        if complaint := _complaint(self.device, grid, block, shared_bytes, cluster):
            raise WeftError(f"{what}: {complaint}")
        if not self.close.alive:
            raise WeftError(f"{what}: its module is closed")
        with entered(self.context):
            kernel = self._kernel(kernel_name)
            kernel.check(packed)
            kernel.allow(shared_bytes, math.prod(cluster), what)
        config = _config(grid, block, shared_bytes, cluster, dependent)
        return Prepared(self, kernel, packed, what, config, workspaces, extents)

    def resident_ctas(self, kernel_name: str, block: Dim, shared_bytes: int, cluster: Dim) -> int:
        """How many CTAs the GPU holds at once where they come in clusters: all of one on neighbours."""
        ctas = math.prod(cluster)
        what = f"asking for the clusters of {kernel_name}"
        with entered(self.context):
            kernel = self._kernel(kernel_name)
            kernel.allow(shared_bytes, ctas, what)
            config = _config((ctas, 1, 1), block, shared_bytes, cluster, False)
            clusters = call(what, api().cuOccupancyMaxActiveClusters, kernel.handle, config)
        return int(clusters) * ctas

    def _kernel(self, name: str) -> "_Kernel":
        if name not in self._kernels:
            handle = call(
                f"looking for kernel {name}", api().cuModuleGetFunction, self._module, name.encode()
            )
            self._kernels[name] = _Kernel(name, handle)
        return self._kernels[name]


def launch(prepared: Any, stream: object = None) -> None:
    """Queue a launch that `prepare` made on `stream`."""
    prepared.launch(stream_handle(stream))


class Workspaces(Protocol):
    """Memory that a kernel has on each stream, or in each graph, beside its arguments."""

    count: int

    def of(self, stream: int) -> tuple[tuple[int, int], Sequence[int]]:
        """What tells the stream, or the graph that it is captured for, from others, and its addresses."""


class Prepared:
    """A launch of a kernel, which keeps its module loaded. Any number of threads may queue it."""

    def __init__(
        self,
        module: Loaded,
        kernel: "_Kernel",
        parameters: Sequence[Parameter],
        what: str,
        config: Any,
        workspaces: Workspaces | None,
        extents: launcher.Extents | None,
    ) -> None:
        self.device = module.device
        self.what = what
        self._module, self._workspaces = module, workspaces
        count = 0 if workspaces is None else workspaces.count
        given = len({p.address for p in parameters if p.address is not None}) - count
        handles = int(module.context), int(kernel.handle)
        self._plan = launcher.Plan(*handles, config, parameters, given, count, extents)
        self.plan_address = self._plan.address
        self._queue = self._plan.queue
        self.queue_apart = self._plan.queue_apart
        """`queue_apart(stream, *addresses)` is `launch`, but returns a status: `launcher.OVERLAP`, or one for
        `settle` where it isn't 0.
        """

    def launch(self, stream: int, *addresses: int) -> None:
        """Queue it on a stream of its GPU, by its handle, whatever GPU is the current one, with the addresses
        that it was prepared to be given.
        """
        if status := self._queue(stream, *addresses):
            self.settle(status, stream, *addresses)
        cuda_driver.launched = self.what

    def settle(self, status: int, stream: int, *addresses: int) -> None:
        """Queue it after all where only a workspace was missing. Raises WeftError for the driver's errors."""
        while status:
            self.provide(status, stream)
            status = self._queue(stream, *addresses)

    def provide(self, status: int, stream: int) -> None:
        """Give a stream the workspaces that a launch with this status lacked. Raises WeftError for the
        driver's errors.
        """
        assert status != launcher.MISCOUNTED, self.what
        if status == launcher.NO_WORKSPACE and self._workspaces is not None:
            with entered(self._module.context):
                self._plan.add_workspaces(*self._workspaces.of(stream))
        else:
            check(self.what, api().CUresult(status))


class DeviceArray:
    """GPU memory of `shape` elements of an MLIR type, in C order and not cleared; freed with the object.

    Freeing waits for the GPU, so that no queued kernel is left with it.
    """

    def __init__(self, shape: Sequence[int], dtype: str, ordinal: int | None = None) -> None:
        driver = api()
        self.shape = tuple(shape)
        self.dtype = dtype
        self.nbytes = math.prod(self.shape) * arrays.numpy_dtype(dtype).itemsize
        self._context = context(ordinal)
        with entered(self._context):
            self.device = _current_device()
            what = f"allocating {self.nbytes} bytes on {self.device.name}"
            self.address = int(call(what, driver.cuMemAlloc, max(1, self.nbytes)))
        weakref.finalize(self, release, self._context, driver.cuMemFree, self.address).atexit = False

    @classmethod
    def from_numpy(cls, array: npt.NDArray[Any], ordinal: int | None = None) -> "DeviceArray":
        made = cls(array.shape, arrays.mlir_type(array.dtype), ordinal)
        made.copy_from(array)
        return made

    def copy_from(self, array: npt.NDArray[Any]) -> None:
        """Overwrite with an array of the same shape and type, after all that is queued."""
        if array.shape != self.shape or arrays.mlir_type(array.dtype) != self.dtype:
            raise WeftError(
                f"expected an array of {self.dtype} with shape {self.shape}, "
                f"got {arrays.mlir_type(array.dtype)} with shape {array.shape}"
            )
        source = np.ascontiguousarray(array)
        self._copy("to", lambda driver: driver.cuMemcpyHtoD(self.address, source.ctypes.data, self.nbytes))

    def to_numpy(self) -> npt.NDArray[Any]:
        """A copy, after all that is queued."""
        target = np.empty(self.shape, arrays.numpy_dtype(self.dtype))
        self._copy("from", lambda driver: driver.cuMemcpyDtoH(target.ctypes.data, self.address, self.nbytes))
        return target

    def _copy(self, direction: str, copy: Callable[[Any], tuple[Any, ...]]) -> None:
        with entered(self._context):
            # Copies wait for the default stream alone.
            synchronize()
            if self.nbytes:
                call(f"copying {self.nbytes} bytes {direction} the GPU", copy, api())

    def __weft_view__(self) -> arrays.ArrayView:
        strides = arrays.contiguous_strides(self.shape)
        ordinal = self.device.ordinal
        return arrays.ArrayView(self.address, self.shape, strides, self.dtype, "cuda", ordinal, False, self)

    def __dlpack_device__(self) -> tuple[int, int]:
        return arrays.dlpack_device(arrays.view(self))

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """For DLPack's `from_dlpack` of other libraries, whose arrays keep the memory. Unless `stream` is -1,
        waits for all that is queued on the GPU: no stream then is too early.
        """
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("a DeviceArray exports its own memory alone, and copies nothing")
        if stream != -1:
            with entered(self._context):
                synchronize()
        return arrays.dlpack(arrays.view(self), max_version)


def synchronize() -> None:
    """Wait for all that is queued on the current GPU; a fault in a kernel shows here at the latest."""
    with entered(context(None)):
        call("waiting for the GPU", api().cuCtxSynchronize)


def time(fn: Callable[[], object], repeats: int = 10, *, stream: object = None) -> float:
    """Median milliseconds that the GPU spends on what `fn` queues on `stream`, after one call to warm up."""
    driver = api()
    fn()
    with entered(context(None)), contextlib.ExitStack() as events:

        def event() -> Any:
            made = call("creating an event", driver.cuEventCreate, 0)
            events.callback(driver.cuEventDestroy, made)
            return made

        pairs = [(event(), event()) for _ in range(repeats)]
        handle = stream_handle(stream)
        for start, end in pairs:
            call("recording an event", driver.cuEventRecord, start, handle)
            fn()
            call("recording an event", driver.cuEventRecord, end, handle)
        synchronize()
        times = [float(call("reading a time", driver.cuEventElapsedTime, *pair)) for pair in pairs]
        return statistics.median(times)


def pack(args: Sequence[Argument]) -> list[Parameter]:
    """Each argument as the bytes of its kernel parameter."""
    packed = []
    for number, argument in enumerate(args):
        if isinstance(argument, Parameter):
            packed.append(argument)
            continue
        if isinstance(argument, bytes):
            packed.append(Parameter(argument))
            continue
        form, value = argument
        if len(form) != 1 or form not in "?bBhHiIqQefdP":
            raise WeftError(f"kernel argument {number}: unknown format {form!r}")
        try:
            # Little-endian is what the GPU is, and native order lets a float overflow unseen.
            packed.append(Parameter(struct.pack("<" + form.replace("P", "Q"), value)))
        except (struct.error, OverflowError) as error:
            raise WeftError(
                f"kernel argument {number}: {value!r} doesn't fit format {form!r}: {error}"
            ) from None
    return packed


class _Kernel:
    """A kernel's handle, the sizes of its parameters and what was allowed to it so far."""

    def __init__(self, name: str, handle: Any) -> None:
        self.name = name
        self.handle = handle
        self._sizes = _parameter_sizes(handle)
        self._allowed = 0

    def check(self, packed: Sequence[Parameter]) -> None:
        """Arguments of other sizes would have the driver read beyond them."""
        sizes = [len(parameter.data) for parameter in packed]
        if sizes != self._sizes:
            raise WeftError(f"kernel {self.name} takes arguments of {self._sizes} bytes, got {sizes}")

    def allow(self, shared_bytes: int, cluster_blocks: int, what: str) -> None:
        """Opt in to what the driver refuses unasked: over 48 KB of shared memory, clusters over 8 blocks."""
        driver = api()
        attributes = driver.CUfunction_attribute
        if shared_bytes > self._allowed:
            dynamic = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            call(what, driver.cuFuncSetAttribute, self.handle, dynamic, shared_bytes)
            self._allowed = shared_bytes
        if cluster_blocks > _PORTABLE_CLUSTER:
            larger = attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            call(what, driver.cuFuncSetAttribute, self.handle, larger, 1)


def _parameter_sizes(handle: Any) -> list[int]:
    driver = api()
    sizes: list[int] = []
    while True:
        error, _, size = driver.cuFuncGetParamInfo(handle, len(sizes))
        if error == driver.CUresult.CUDA_ERROR_INVALID_VALUE:  # past the last
            return sizes
        check("asking a kernel's parameters", error)
        sizes.append(size)


def _complaint(on: Device, grid: Dim, block: Dim, shared_bytes: int, cluster: Dim) -> str | None:
    """What the driver would only call an invalid argument."""
    if min(*grid, *block, *cluster) < 1:
        return "every extent must be at least 1"
    if math.prod(block) > on.threads_per_block:
        return f"a block has at most {on.threads_per_block} threads"
    if any(blocks % clustered for blocks, clustered in zip(grid, cluster, strict=True)):
        return "the grid must be a multiple of the cluster"
    if not 0 <= shared_bytes <= on.shared_bytes:
        return f"a block of {on.name} has at most {on.shared_bytes} bytes of shared memory"
    return None


def _config(grid: Dim, block: Dim, shared_bytes: int, cluster: Dim, dependent: bool) -> Any:
    driver = api()
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid
    config.blockDimX, config.blockDimY, config.blockDimZ = block
    config.sharedMemBytes = shared_bytes
    attributes = []
    # None for (1, 1, 1): a kernel may have its cluster from the compiler.
    if cluster != (1, 1, 1):
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        dim = attribute.value.clusterDim
        dim.x, dim.y, dim.z = cluster
        attributes.append(attribute)
    if dependent:
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        attributes.append(attribute)
    if attributes:
        config.attrs = attributes
        config.numAttrs = len(attributes)
    return config


def stream_handle(stream: Any) -> int:
    """A stream's handle: a number, or an object of PyTorch, CuPy or with `__cuda_stream__`; None is 0. Raises
    WeftError for what is no stream.
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
        raise WeftError(f"expected a stream, got a {type(stream).__name__} that tells none: {why}") from error
    if not isinstance(handle, int) or isinstance(handle, bool):
        raise WeftError(f"expected a stream, got {type(stream).__name__}")
    if not 0 <= handle < 2**64:
        raise WeftError(f"expected a stream with a handle of 64 bits, from 0, got {shown(handle)}")
    return handle
