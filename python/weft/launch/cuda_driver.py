"""The CUDA driver as cuda-python has it: its errors in words, and which context is the current one."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from weft import late_imports
from weft.errors import Diagnostic, WeftError

# What the last launch was, since the driver reports a kernel's fault at some later call.
launched = ""
_API_VERSION = 12000  # whose signatures compiled code calls


def api() -> Any:
    """The initialised driver API."""
    try:
        return _initialised()
    except RuntimeError as error:  # cuda-bindings found no libcuda
        note = Diagnostic(str(error), severity="note")
        raise WeftError(Diagnostic("no NVIDIA driver on this machine", notes=(note,))) from None


@functools.cache
def _initialised() -> Any:
    with late_imports.whole():
        from cuda.bindings import driver  # type: ignore[import-untyped]

    (error,) = driver.cuInit(0)
    if error == driver.CUresult.CUDA_ERROR_NO_DEVICE:
        raise WeftError("no GPU: the NVIDIA driver sees none (CUDA_VISIBLE_DEVICES may hide it)")
    if error:
        raise WeftError(f"the NVIDIA driver doesn't start: {_said(driver, error)}")
    return driver


def entry(name: str) -> int:
    """The address of a function of the driver API, for compiled code."""
    driver = api()
    flags = driver.CUdriverProcAddress_flags.CU_GET_PROC_ADDRESS_DEFAULT
    found, _ = call(f"looking for {name}", driver.cuGetProcAddress, name.encode(), _API_VERSION, flags)
    return int(found)


def call(what: str, function: Callable[..., tuple[Any, ...]], *args: Any) -> Any:
    """The result of a driver call; `what` says in words what was attempted, should it fail."""
    error, *results = function(*args)
    check(what, error)
    return results[0] if len(results) == 1 else tuple(results)


def check(what: str, error: Any) -> None:
    """Raises WeftError for an error of the driver."""
    if error:
        # These may be the fault of a kernel that ran long before.
        earlier = f" (last before: {launched})" if launched and launched != what else ""
        raise WeftError(f"{what}: {_said(api(), error)}{earlier}")


def _said(driver: Any, error: Any) -> str:
    _, name = driver.cuGetErrorName(error)
    _, text = driver.cuGetErrorString(error)
    return f"{name.decode()}: {text.decode()}" if name else f"error {int(error)}"


@functools.cache
def primary(ordinal: int) -> Any:
    """The context that the CUDA runtime and its users share; kept until the process ends."""
    driver = api()
    handle = call(f"looking for GPU {ordinal}", driver.cuDeviceGet, ordinal)
    return call(f"starting GPU {ordinal}", driver.cuDevicePrimaryCtxRetain, handle)


def context(ordinal: int | None) -> Any:
    """The primary context of GPU `ordinal`; without one, this thread's current context, else GPU 0's."""
    if ordinal is None:
        current = call("asking the current context", api().cuCtxGetCurrent)
        if int(current):
            return current
    return primary(ordinal or 0)


@contextlib.contextmanager
def entered(context: Any) -> Iterator[None]:
    """In the block that context is the current one."""
    driver = api()
    call("entering a context", driver.cuCtxPushCurrent, context)
    try:
        yield
    finally:
        driver.cuCtxPopCurrent()


def release(context: Any, function: Callable[[Any], object], handle: Any) -> None:
    """Give back what the driver holds; that fails after a kernel's fault, which was reported then."""
    driver = api()
    if not driver.cuCtxPushCurrent(context)[0]:
        function(handle)
        driver.cuCtxPopCurrent()
