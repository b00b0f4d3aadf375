"""The functions of `host.c`, which queue prepared launches, or of `host_in_python` where the package was
installed without a C compiler.
"""

import ctypes
import functools
from collections.abc import Iterable
from typing import Any

from weft.launch.cuda_driver import entry

try:
    from weft.launch import compiled  # type: ignore[attr-defined]
except ImportError:
    from weft.launch import host_in_python as compiled

functions: Any = compiled
DRIVER = (
    *("cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent"),
    *("cuStreamGetCaptureInfo", "cuStreamGetId", "cuLaunchKernelEx"),
    *("cuMemcpyDtoDAsync", "cuMemsetD32Async", "cuEventRecord", "cuStreamWaitEvent"),
)
"""The functions of the driver that `functions` call."""


@functools.cache
def connect() -> None:
    """Lets `functions` call the driver."""
    functions.connect_driver(*map(entry, DRIVER))


def words(values: Iterable[int]) -> Any:
    """Numbers as `functions` read them: of 64 bits, negative ones modulo 2**64."""
    numbers = [value % 2**64 for value in values]
    return (ctypes.c_uint64 * max(1, len(numbers)))(*numbers)
