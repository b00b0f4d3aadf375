"""State that the waves of a launch share: shadows of global memory, and releases at addresses."""

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

from weft.emulator.memory import untouched
from weft.emulator.memory.segments import Segment
from weft.emulator.reading.types import Bools
from weft.emulator.sanitizer.clocks import Clocks
from weft.emulator.sanitizer.shadow import Granules, Times

COLUMN_BITS = 20
EVERYONE = "system"


class GlobalShadow(Granules):
    """The last write of each granule and the last reads of two CTAs: their owner (wave and column of its
    clocks), their time, 0 for never, and their line. `level` is the scope of the write, 0 if it was weak.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.owner: npt.NDArray[np.int64] = untouched.zeros((3, self.count), np.int64)
        self.time: Times = untouched.zeros((3, self.count), np.int32)
        self.line: Times = untouched.zeros((3, self.count), np.int32)
        self.level: npt.NDArray[np.int8] = untouched.zeros((self.count,), np.int8)
        self.is_written = False

    def repeat(self, times: int) -> None:
        used = untouched.used(self.time, self.level)
        for name in ("owner", "time", "line", "level"):
            setattr(self, name, untouched.repeated(getattr(self, name), times, used))

    def touched(self, since: int) -> tuple[Bools, Bools]:
        """The granules that waves from number `since` on have read, and written."""
        mine = (self.time > 0) & (self.owner >> COLUMN_BITS >= since)
        return mine[1] | mine[2], mine[0]


class GlobalMemory:
    """The shadows of buffers, and the releases at addresses, which all waves of a launch share."""

    def __init__(self) -> None:
        self.warps: list[int] = []
        """The number of warps of each wave; greater columns belong to asynchronous units."""
        self.ranks: list[int | None] = []
        """The GPU of each wave, where several run."""
        self.users: list[str] = []
        """The name of the launch of each wave, where several run."""
        self.locations: dict[tuple[object, Hashable], dict[int, Clocks]] = {}
        """By the GPU whose accesses acquire it, or EVERYONE, and the address."""
        self._shadows: dict[int, GlobalShadow] = {}

    def shadow(self, segment: Segment) -> GlobalShadow:
        """The shadow of a buffer."""
        shadow = self._shadows.get(segment.base)
        if shadow is None:
            shadow = self._shadows[segment.base] = GlobalShadow(segment.size)
        return shadow

    def shadows(self) -> dict[int, GlobalShadow]:
        """The shadows by the addresses of their buffers."""
        return self._shadows
