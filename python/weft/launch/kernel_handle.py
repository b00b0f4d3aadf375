"""Kernels of a loaded cubin: their handles, and arguments as parameters."""

import struct
from collections.abc import Sequence
from typing import Any

from weft.errors import WeftError
from weft.isa.launch_limits import PORTABLE_CLUSTER
from weft.launch.cuda_driver import api, call, check
from weft.launch.launcher import Parameter

# A `struct` format character ("P" for an address) and a number; the bytes of a struct, such as a tensor map;
# or a parameter whose address each launch sets.
Argument = tuple[str, float] | bytes | Parameter


def pack(args: Sequence[Argument]) -> list[Parameter]:
    """Each argument as a kernel parameter. Raises WeftError for a number that doesn't fit its format."""
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
            # GPUs are little-endian, and with native order a float overflows without an error.
            packed.append(Parameter(struct.pack("<" + form.replace("P", "Q"), value)))
        except (struct.error, OverflowError) as error:
            raise WeftError(
                f"kernel argument {number}: {value!r} doesn't fit format {form!r}: {error}"
            ) from None
    return packed


class KernelHandle:
    """A kernel's handle, the sizes of its parameters, and its limit of shared memory."""

    def __init__(self, name: str, handle: Any) -> None:
        self.name = name
        self.handle = handle
        self._sizes = _parameter_sizes(handle)
        self._allowed = 0

    def check(self, packed: Sequence[Parameter]) -> None:
        """Raises WeftError for arguments of other sizes: the driver would read past their ends."""
        sizes = [len(parameter.data) for parameter in packed]
        if sizes != self._sizes:
            raise WeftError(f"kernel {self.name} takes arguments of {self._sizes} bytes, got {sizes}")

    def allow(self, shared_bytes: int, cluster_blocks: int, action: str) -> None:
        """Allows over 48 KB of shared memory and clusters of over 8 blocks, which the driver refuses by
        default.
        """
        driver = api()
        attributes = driver.CUfunction_attribute
        if shared_bytes > self._allowed:
            dynamic = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            call(action, driver.cuFuncSetAttribute, self.handle, dynamic, shared_bytes)
            self._allowed = shared_bytes
        if cluster_blocks > PORTABLE_CLUSTER:
            larger = attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            call(action, driver.cuFuncSetAttribute, self.handle, larger, 1)


def _parameter_sizes(handle: object) -> list[int]:
    driver = api()
    sizes: list[int] = []
    while True:
        error, _, size = driver.cuFuncGetParamInfo(handle, len(sizes))
        if error == driver.CUresult.CUDA_ERROR_INVALID_VALUE:  # past the last parameter
            return sizes
        check("reading a kernel's parameters", error)
        sizes.append(size)
