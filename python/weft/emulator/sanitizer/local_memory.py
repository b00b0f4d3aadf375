"""Accesses to local memory: a thread must write before it reads."""

from collections.abc import Mapping

import numpy as np

from weft.emulator.memory.access import Access
from weft.emulator.reading.types import Bools
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.findings import Findings
from weft.emulator.sanitizer.padding import is_padding


class LocalMemory:
    """The checks of a wave's local memory, in kernels without `calls`, which may pass it on.

    Memory from `alloca` is in a segment of its own, which isn't checked.
    """

    def __init__(self, wave: Wave, findings: Findings, needed: Mapping[int, Bools], *, calls: bool) -> None:
        self.wave, self.findings, self._needed, self._calls = wave, findings, needed, calls
        self._written: Bools = np.zeros((0, 0), np.bool_)

    @property
    def written(self) -> Bools:
        """The bytes that were written, `[threads, bytes of each]`."""
        size = self.wave.memory.local_size
        if size != self._written.shape[1]:
            grown = np.zeros((32 * self.wave.warps, size), np.bool_)
            grown[: len(self._written), : self._written.shape[1]] = self._written
            self._written = grown
        return self._written

    def access(self, access: Access) -> None:
        """Threads access their local memory."""
        if self._calls:
            return
        lanes = access.lanes
        offsets = access.offsets.view(np.intp)
        chosen = offsets if lanes.mask is None else offsets[lanes.mask]
        every = chosen.reshape(-1, 1) + np.arange(access.width)
        flat = self.written.reshape(-1)
        if access.kind != "load":
            flat[every] = True
            return
        bad = ~flat[every].all(axis=1)
        if bad.any():
            empty = ~flat[every]
            bad = (empty & ~is_padding(self._needed, access, empty)).any(axis=1)
        if bad.any():
            self.findings.add_lanes(
                "uninitialized-local", "is read but was never written", self.wave, access, bad
            )
