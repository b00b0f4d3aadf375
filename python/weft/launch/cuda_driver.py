"""The CUDA driver API through cuda-python: calls that raise WeftError, and the current context."""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from weft.errors import Diagnostic, WeftError

# The last launch, in words: the driver reports a kernel's fault at a later call.
launched = ""
_API_VERSION = 12000  # of the functions that compiled code calls
LEGACY_STREAM = 1
"""The legacy default stream, in DLPack and `__cuda_array_interface__`. The driver also calls it 0."""
STREAM_PER_THREAD = 2
Dim = tuple[int, int, int]


def api() -> Any:
    """The initialized driver API. Raises WeftError without a driver or a GPU."""
    try:
        return _initialized()
    except RuntimeError as error:  # cuda-bindings finds no libcuda
        note = Diagnostic(str(error), severity="note")
        raise WeftError(Diagnostic("no NVIDIA driver on this machine", notes=(note,))) from None


@functools.cache
def _initialized() -> Any:
    try:
        from cuda.bindings import driver  # type: ignore[import-untyped]
    except ModuleNotFoundError:  # on macOS, for which there is no package
        reason = "cuda-bindings isn't installed, through which Weft calls the NVIDIA driver"
        raise WeftError(f"{reason}: pip install cuda-bindings (Linux and Windows)") from None

    (error,) = driver.cuInit(0)
    if error == driver.CUresult.CUDA_ERROR_NO_DEVICE:
        raise WeftError("no GPU: the NVIDIA driver sees none (CUDA_VISIBLE_DEVICES may hide it)")
    if error:
        raise WeftError(f"the NVIDIA driver can't be initialized: {_description(driver, error)}")
    return driver


def entry(name: str) -> int:
    """The address of a function of the driver API, for compiled code."""
    driver = api()
    flags = driver.CUdriverProcAddress_flags.CU_GET_PROC_ADDRESS_DEFAULT
    address, _ = call(f"looking for {name}", driver.cuGetProcAddress, name.encode(), _API_VERSION, flags)
    return int(address)


def call(action: str, function: Callable[..., tuple[object, ...]], *args: object) -> Any:
    """The result of a driver call. Raises WeftError if it fails; `action` ("copying 8 bytes") names the call
    in the message.
    """
    error, *results = function(*args)
    check(action, error)
    return results[0] if len(results) == 1 else tuple(results)


def check(action: str, error: object) -> None:
    """Raises WeftError for an error of the driver."""
    if error:
        # An earlier kernel may be the cause.
        earlier = f" (the last launch before it: {launched})" if launched and launched != action else ""
        raise WeftError(f"{action}: {_description(api(), error)}{earlier}")


def _description(driver: Any, error: Any) -> str:
    _, name = driver.cuGetErrorName(error)
    _, text = driver.cuGetErrorString(error)
    return f"{name.decode()}: {text.decode()}" if name else f"error {int(error)}"


@functools.cache
def primary(ordinal: int) -> Any:
    """A GPU's primary context, which the CUDA runtime uses, too. It is kept until the process ends."""
    driver = api()
    handle = call(f"looking for GPU {ordinal}", driver.cuDeviceGet, ordinal)
    return call(f"starting GPU {ordinal}", driver.cuDevicePrimaryCtxRetain, handle)


def context(ordinal: int | None) -> Any:
    """The primary context of GPU `ordinal`. For None, this thread's current context, or that of GPU 0."""
    if ordinal is None:
        current = call("asking the current context", api().cuCtxGetCurrent)
        if int(current):
            return current
    return primary(ordinal or 0)


@contextlib.contextmanager
def entered(context: object) -> Iterator[None]:
    """Makes a context current in the block."""
    driver = api()
    call("entering a context", driver.cuCtxPushCurrent, context)
    try:
        yield
    finally:
        driver.cuCtxPopCurrent()


def order_streams(ordinal: int | None, consumer: int, producers: Iterable[int]) -> None:
    """Makes a stream of a GPU wait for all that is queued on others so far. A stream that a graph captures
    doesn't wait: when the graph runs, its arrays may have any contents.
    """
    others = [each for each in producers if each != (consumer or LEGACY_STREAM)]
    if not others:
        return
    driver, action = api(), "waiting for the stream of an array"
    with entered(context(ordinal)):
        status, *_ = call(action, driver.cuStreamGetCaptureInfo, consumer)
        if status != driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE:
            return
        event = call(action, driver.cuEventCreate, driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        try:
            for each in others:
                call(action, driver.cuEventRecord, event, each)
                call(action, driver.cuStreamWaitEvent, consumer, event, 0)
        finally:
            driver.cuEventDestroy(event)


def release(context: object, function: Callable[[Any], object], handle: object) -> None:
    """Frees a handle of the driver. Errors are ignored: after a kernel's fault, every call fails.

    Python may collect an object while any thread captures a graph, which a call that waits for the GPU would
    end. Relaxed calls don't.
    """
    driver = api()
    if driver.cuCtxPushCurrent(context)[0]:
        return
    relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    error, before = driver.cuThreadExchangeStreamCaptureMode(relaxed)
    function(handle)
    if not error:
        driver.cuThreadExchangeStreamCaptureMode(before)
    driver.cuCtxPopCurrent()


def launch_config(grid: Dim, block: Dim, shared_bytes: int, cluster: Dim, dependent: bool) -> Any:
    """The CUlaunchConfig of a launch. A cluster of (1, 1, 1) leaves the cluster to the kernel."""
    driver = api()
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid
    config.blockDimX, config.blockDimY, config.blockDimZ = block
    config.sharedMemBytes = shared_bytes
    attributes = []
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
