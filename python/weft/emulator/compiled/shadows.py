"""What compiled code needs of the sanitizer and of buffers in global memory: where their arrays are now."""

import numpy as np
import numpy.typing as npt

from weft.emulator.compiled.state import Field, Part
from weft.emulator.memory import untouched
from weft.emulator.memory.segments import Segment
from weft.emulator.reading.types import Array
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.checker import Sanitizer
from weft.emulator.sanitizer.global_memory import GlobalShadow

_MOST_STAMPS = 1 << 31
_EPOCH, _IS_WRITTEN = int(Field.EPOCH), int(Part.IS_WRITTEN)


class Shadows:
    """Keeps the state up to date, as arrays are replaced when granules get smaller or clocks wider."""

    def __init__(self, wave: Wave, state: npt.NDArray[np.int64]) -> None:
        self._state = state
        self._sanitizer = wave.watch if isinstance(wave.watch, Sanitizer) else None
        self._by_lane = self._sanitizer is not None and self._sanitizer.by_lane
        segments = [segment for segment in wave.device.segments if segment.size]
        self._parts: npt.NDArray[np.int64] = np.zeros((max(1, len(segments)), len(Part)), np.int64)
        self._stamps: list[Array] = []
        self._both: Array = np.zeros(0)
        self._written: Array = self._both
        self._unit: Array = self._both
        self._shared_stamps = np.zeros(0, np.uint32)
        self._buffers: list[tuple[GlobalShadow, npt.NDArray[np.int64]]] = []
        self._owners: list[Array] = []
        self._are_written: list[int] = []
        """What code has been told of whether each buffer is written."""
        self._blocks: bool | None = None
        for segment, part in zip(segments, self._parts, strict=False):
            self._add(segment, part)
        state[Field.SEGMENTS], state[Field.SEGMENT_COUNT] = self._parts.ctypes.data, len(segments)
        state[Field.CHECKED] = self._sanitizer is not None
        state[Field.EPOCH] = 1  # above the stamps of granules that nothing has stored to
        if self._sanitizer is not None:
            state[Field.WAVE] = self._sanitizer.globals.number
            state[Field.FILLED] = self._sanitizer.local.written.ctypes.data
            self._registers(self._sanitizer)

    def _registers(self, sanitizer: Sanitizer) -> None:
        registers, state = sanitizer.registers, self._state
        fields = Field.BUSY, Field.HELD, Field.CHANGED, Field.HAS_CHANGED, Field.COLUMNS
        arrays: list[Array] = [*registers.arrays, registers.columns]
        for which, array in zip(fields, arrays, strict=True):
            state[which] = array.ctypes.data
        state[Field.WARPS] = registers.wave.warps

    def _add(self, segment: Segment, part: npt.NDArray[np.int64]) -> None:
        part[Part.BASE], part[Part.SIZE] = segment.base, segment.size
        part[Part.DATA], part[Part.WRITABLE] = segment.data.ctypes.data, segment.writable
        part[Part.BLOCKED] = self._by_lane or segment.filled is not None or self._of_others(segment)
        if self._sanitizer is not None:
            self._buffers.append((self._sanitizer.globals.memory.shadow(segment), part))
            self._are_written.append(0)
            self._owners.append(np.zeros(0))
            self._stamps.append(np.zeros(0))

    def _of_others(self, segment: Segment) -> bool:
        """Whether the sanitizer also compares accesses with the launch before."""
        watch = self._sanitizer
        return watch is not None and watch.launch_before is not None and segment.of_others

    def refresh(self) -> None:
        """Before code runs."""
        sanitizer, state = self._sanitizer, self._state
        if sanitizer is None:
            return
        if sanitizer.clocks.all is not self._both:
            self._both = sanitizer.clocks.all
            state[Field.KNOWN], state[Field.KNOWN_WIDTH] = self._both.ctypes.data, self._both.shape[2]
        shadow = sanitizer.races.shadow
        if shadow.written is not self._written or shadow.unit is not self._unit:
            self._shared()
        blocks = sanitizer.some_ended or self._by_lane
        if blocks != self._blocks:
            self._blocks = state[Field.BLOCKED] = blocks
        if state.item(_EPOCH) > _MOST_STAMPS:
            state[Field.EPOCH] = 1
            self._shared_stamps[:] = 0
            self._owners = [np.zeros(0)] * len(self._owners)  # each gets new stamps
        for at, (buffer, part) in enumerate(self._buffers):
            if buffer.owner is not self._owners[at]:
                self._global(at, buffer, part)
            if buffer.is_written != self._are_written[at]:
                part[Part.IS_WRITTEN] = self._are_written[at] = buffer.is_written

    def changed(self) -> None:
        """After code has run."""
        are_written = self._parts[: len(self._buffers), _IS_WRITTEN].tolist()
        if are_written != self._are_written:
            for (buffer, _), written in zip(self._buffers, are_written, strict=True):
                buffer.is_written = bool(written)
            self._are_written = are_written

    def _shared(self) -> None:
        assert self._sanitizer is not None
        state, shadow = self._state, self._sanitizer.races.shadow
        if len(self._shared_stamps) != shadow.granules:
            self._shared_stamps = np.zeros(shadow.granules, np.uint32)
            state[Field.STAMPS] = self._shared_stamps.ctypes.data
        self._written, self._unit = shadow.written, shadow.unit
        arrays: dict[Field, Array] = {
            Field.WRITER: shadow.writer,
            Field.WRITTEN: shadow.written,
            Field.WRITE_LINE: shadow.write_line,
            Field.READ_LINE: shadow.read_line,
            Field.READS: shadow.reads,
            Field.READ_BY: shadow.read_by,
            Field.UNIT: shadow.unit,
            Field.TAKEN: shadow.taken,
        }
        for which, array in arrays.items():
            state[which] = array.ctypes.data
        state[Field.GRANULE] = shadow.granule.bit_length() - 1
        state[Field.READERS], state[Field.UNITS] = shadow.reads.shape[1], len(shadow.unit)
        state[Field.GRANULES] = shadow.granules

    def _global(self, at: int, shadow: GlobalShadow, part: npt.NDArray[np.int64]) -> None:
        self._owners[at] = shadow.owner
        self._stamps[at] = untouched.zeros((shadow.granules,), np.uint32)
        arrays: dict[Part, Array] = {
            Part.OWNER: shadow.owner,
            Part.TIME: shadow.time,
            Part.LINE: shadow.line,
            Part.LEVEL: shadow.level,
            Part.STAMPS: self._stamps[at],
        }
        for which, array in arrays.items():
            part[which] = array.ctypes.data
        part[Part.GRANULE], part[Part.GRANULES] = shadow.granule.bit_length() - 1, shadow.granules
