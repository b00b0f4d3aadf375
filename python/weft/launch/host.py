"""The functions of `host.c`, which queue prepared launches, or of `host_in_python` where the package was
installed without a C compiler.
"""

import contextlib
import ctypes
import functools
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from weft.launch import host_in_python
from weft.launch.cuda_driver import entry


def _functions() -> Any:
    """Not those of an older `host.c`, whose structures may differ. Only an editable install has that file."""
    source = Path(__file__).with_name("host.c")
    with contextlib.suppress(ImportError):
        from weft.launch import compiled  # type: ignore[attr-defined]

        if not source.exists() or getattr(compiled, "source", None) == zlib.crc32(source.read_bytes()):
            return compiled
    return host_in_python


functions = _functions()
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
