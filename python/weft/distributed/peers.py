"""GPUs of one process that access each other's memory."""

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from weft.distributed.devices import Memory
from weft.errors import WeftError
from weft.launch import runtime
from weft.launch.arrays import ArrayView
from weft.launch.cuda_driver import api, call, check, entered, primary
from weft.launch.kernel import Kernel
from weft.launch.runtime import DeviceArray
from weft.launch.workspace import filled


@functools.cache
def obstacle(ordinals: tuple[int, ...]) -> str | None:
    """Returns why GPUs can't be a team, or None if they can."""
    chips = sorted({runtime.device(each).chip for each in ordinals})
    if len(chips) > 1:
        return f"all GPUs must be of one chip, got {', '.join(chips)}"
    driver = api()
    for one, other in itertools.permutations(ordinals, 2):
        action = f"asking whether GPU {one} can access GPU {other}"
        handles = [call(action, driver.cuDeviceGet, each) for each in (one, other)]
        if not int(call(action, driver.cuDeviceCanAccessPeer, *handles)):
            return f"GPU {one} can't access the memory of GPU {other}"
    return None


@functools.cache
def _enable(one: int, other: int) -> None:
    """Lets a GPU access another one's memory. XLA may have done it already."""
    driver = api()
    enabled = driver.CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
    with entered(primary(one)):
        (error,) = driver.cuCtxEnablePeerAccess(primary(other), 0)
    if error != enabled:
        check(f"giving GPU {one} access to GPU {other}", error)


class PeerGpus:
    """GPUs of this process, by rank. Memory lives as long as this object."""

    def __init__(self, ordinals: tuple[int, ...]) -> None:
        """Raises WeftError for GPUs that can't be a team."""
        if (why := obstacle(ordinals)) is not None:
            raise WeftError(f"products over several GPUs: {why}")
        self.ordinals = ordinals
        self.chip = runtime.device(ordinals[0]).chip
        self._kept: list[DeviceArray] = []
        for one, other in itertools.permutations(ordinals, 2):
            _enable(one, other)

    def zeros(self, rank: int, size: int) -> Memory:
        """So many new bytes of a GPU, for all to access."""
        return self._filled(rank, size, None)

    def constant(self, rank: int, numbers: npt.NDArray[Any]) -> Memory:
        """A copy of a contiguous array of NumPy for a GPU."""
        return self._filled(rank, numbers.nbytes, numbers)

    def _filled(self, rank: int, size: int, numbers: npt.NDArray[Any] | None) -> Memory:
        # Kernels that wait for other GPUs may be running, so nothing here waits for the GPU's other work.
        with entered(primary(self.ordinals[rank])):
            self._kept.append(filled(size, numbers))
        return Memory(self._kept[-1].address, size, "cuda", self.ordinals[rank], None)

    def mapped(self, memory: Memory) -> int:
        """The address that kernels use for memory of `zeros`."""
        return memory.address

    def prepared(self, kernel: Kernel, views: Sequence[ArrayView]) -> Any:
        """A launch with arrays like these, for a step of a sequence."""
        return kernel.plan(list(views))
