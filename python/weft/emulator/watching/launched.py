"""What hooks are told: of a launch, and of accesses to memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from weft.emulator.decoding.program import Program
from weft.emulator.memory.device import Device
from weft.emulator.reading.types import Array, Bools
from weft.emulator.running.ctas import Launch
from weft.emulator.watching.source_map import SourceMap
from weft.errors import WeftError

_COLUMNS = (1 << 16) - 1


@dataclass(frozen=True)
class MemoryEvent:
    """Threads, or an asynchronous unit for them, access memory.

    `kind` is load, store, atomic or reduce. `unit` is empty for threads, otherwise bulk, wgmma, tcgen05, ….
    `addresses` are those of the first bytes, `width` the bytes of each: in shared memory of CTA `cta` of the
    wave (None: of each thread's own), in tensor memory lane << 16 | column of cells. `threads` are the
    threads, `[warps of the wave, 32]`.
    """

    kind: str
    unit: str
    space: str
    cta: int | None
    addresses: npt.NDArray[np.int64]
    width: int
    threads: Bools
    line: int

    def within(self, first: int, last: int) -> Bools:
        """The threads that access any of the bytes from `first` to `last`, or columns in tensor memory; all
        threads, if it isn't known which of them does.
        """
        begin = self.addresses & _COLUMNS if self.space == "tensor" else self.addresses
        chosen = (begin <= last) & (begin + self.width > first)
        if not chosen.any():
            return np.zeros_like(self.threads)
        places = np.argwhere(self.threads)
        if len(places) != len(chosen):
            return self.threads
        mine = np.zeros_like(self.threads)
        mine[tuple(places[chosen].T)] = True
        return mine


@dataclass(frozen=True)
class Launched:
    """A launch that is about to begin."""

    kernel: str
    text: str
    program: Program
    launch: Launch
    map: SourceMap
    arrays: Mapping[str, Array] = field(default_factory=dict)
    """The arrays among the arguments, by their names or those of their parameters."""

    def address_of(self, device: Device, name: str) -> int:
        """The address in global memory of an array's first element. Raises WeftError if the launch uses a
        copy of it.
        """
        array = self.arrays[name]
        first = int(array.__array_interface__["data"][0])
        for segment in device.segments:
            begin = int(segment.data.__array_interface__["data"][0]) if segment.size else 0
            if segment.size and begin <= first < begin + segment.size:
                return segment.base + first - begin
        raise WeftError(f"the launch uses a copy of '{name}', whose memory isn't aligned to 16 bytes")
