"""What compiled code needs of the sanitizer and of buffers in global memory: where their arrays are now."""

import numpy as np
import numpy.typing as npt

from weft.emulator.compiled.box_state import Buffer, Part
from weft.emulator.compiled.state import Field
from weft.emulator.memory import untouched
from weft.emulator.memory.segments import Segment
from weft.emulator.reading.syntax import Array
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.checker import Sanitizer
from weft.emulator.sanitizer.global_memory import GlobalShadow

Numbers = npt.NDArray[np.int64]
_MOST_STAMPS = 1 << 31
_EPOCH, _IS_WRITTEN = int(Field.EPOCH), int(Buffer.IS_WRITTEN)


class SharedPart:
    """A wave's shared memory and its shadow: the numbers of `Part`, at the address `pointer`."""

    def __init__(self, wave: Wave, watch: Sanitizer | None) -> None:
        self._watch = watch
        self.numbers: Numbers = np.zeros(len(Part), np.int64)
        self.pointer: int = self.numbers.ctypes.data
        number = 0 if watch is None else watch.globals.number
        self.numbers[: Part.SHIFT] = wave.memory.shared.data.ctypes.data, number, wave.warps
        self._seen: tuple[Array, ...] = ()

    def refresh(self) -> None:
        """Takes the addresses where the shadow's arrays are now."""
        if self._watch is None:
            return
        shadow, proxies = self._watch.races.shadow, self._watch.clocks.through_proxy
        seen = self._seen
        if seen and seen[0] is shadow.written and seen[1] is shadow.unit and seen[2] is proxies:
            return
        self._seen = shadow.written, shadow.unit, proxies
        arrays = shadow.writer, shadow.written, shadow.write_line, shadow.read_line, shadow.reads
        self.numbers[Part.SHIFT :] = (
            *(shadow.granule.bit_length() - 1, shadow.granules, *(array.ctypes.data for array in arrays)),
            *(shadow.reads.shape[1], shadow.unit.ctypes.data, shadow.taken.ctypes.data),
            *(shadow.read_by.ctypes.data, proxies.ctypes.data),
        )


class BufferPart:
    """A buffer in global memory and its shadow: the numbers of `Buffer`, at the address `pointer`."""

    def __init__(self, segment: Segment, shadow: GlobalShadow | None, numbers: Numbers | None = None) -> None:
        self.segment, self.shadow = segment, shadow
        self.numbers: Numbers = np.zeros(len(Buffer), np.int64) if numbers is None else numbers
        self.pointer: int = self.numbers.ctypes.data
        self.numbers[: Buffer.BLOCKED] = segment.base, segment.size, segment.writable
        self._data: Array | None = None
        self._filled: Array | None = None
        self._owner: Array | None = None
        self._stamps: Array | None = None
        self._written = False

    def refresh(self) -> None:
        """Takes the addresses where the arrays are now."""
        segment, shadow, numbers = self.segment, self.shadow, self.numbers
        if segment.data is not self._data or segment.filled is not self._filled:
            self._data, self._filled = segment.data, segment.filled
            filled = 0 if segment.filled is None else segment.filled.ctypes.data
            numbers[Buffer.DATA], numbers[Buffer.FILLED] = segment.data.ctypes.data, filled
        if shadow is None:
            return
        if shadow.owner is not self._owner:
            self._owner, self._stamps = shadow.owner, untouched.zeros((shadow.granules,), np.uint32)
            arrays = shadow.owner, shadow.time, shadow.line, shadow.level
            numbers[Buffer.CHECKED], numbers[Buffer.STAMPS] = True, self._stamps.ctypes.data
            numbers[Buffer.SHIFT : Buffer.OWNER] = shadow.granule.bit_length() - 1, shadow.granules
            numbers[Buffer.OWNER :] = [array.ctypes.data for array in arrays]
        if shadow.is_written != self._written:
            self._written = numbers[Buffer.IS_WRITTEN] = shadow.is_written

    def changed(self, written: int) -> None:
        """After code has run: whether it knows of writes."""
        if written != self._written and self.shadow is not None:
            self._written = self.shadow.is_written = bool(written)

    def stamp_anew(self) -> None:
        """Forgets the numbers of stores."""
        self._owner = None


class Shadows:
    """Keeps the state up to date, as arrays are replaced when granules get smaller or clocks wider."""

    def __init__(self, wave: Wave, state: Numbers) -> None:
        self._state = state
        self._sanitizer = sanitizer = wave.watch if isinstance(wave.watch, Sanitizer) else None
        self._by_lane = sanitizer is not None and sanitizer.by_lane
        segments = [segment for segment in wave.device.segments if segment.size]
        self._parts: Numbers = np.zeros((max(1, len(segments)), len(Buffer)), np.int64)
        self._buffers: list[BufferPart] = []
        self._shared = SharedPart(wave, sanitizer)
        self._both: Array = np.zeros(0)
        self._stamps: npt.NDArray[np.uint32] = np.zeros(0, np.uint32)
        self._blocks: bool | None = None
        for segment, numbers in zip(segments, self._parts, strict=False):
            shadow = None if sanitizer is None else sanitizer.globals.memory.shadow(segment)
            self._buffers.append(BufferPart(segment, shadow, numbers))
            self._buffers[-1].refresh()
            # The sanitizer also compares accesses with the launch before.
            of_others = segment.of_others and sanitizer is not None and sanitizer.launch_before is not None
            numbers[Buffer.BLOCKED] = self._by_lane or segment.filled is not None or of_others
        state[Field.SEGMENTS], state[Field.SEGMENT_COUNT] = self._parts.ctypes.data, len(segments)
        state[Field.CHECKED] = sanitizer is not None
        state[Field.EPOCH] = 1  # above the stamps of granules that nothing has stored to
        if sanitizer is not None:
            state[Field.PART], state[Field.WAVE] = self._shared.pointer, sanitizer.globals.number
            state[Field.FILLED] = sanitizer.local.written.ctypes.data
            registers = sanitizer.registers
            fields = Field.BUSY, Field.HELD, Field.CHANGED, Field.HAS_CHANGED, Field.COLUMNS
            busy = registers.busy
            read = registers.read
            changed = registers.changed
            arrays: list[Array] = [busy, read, changed, registers.has_changed, registers.columns]
            for which, array in zip(fields, arrays, strict=True):
                state[which] = array.ctypes.data
            state[Field.WARPS] = wave.warps

    def refresh(self) -> None:
        """Before code runs."""
        sanitizer, state = self._sanitizer, self._state
        if sanitizer is None:
            return
        if sanitizer.clocks.all is not self._both:
            self._both = sanitizer.clocks.all
            state[Field.KNOWN], state[Field.KNOWN_WIDTH] = self._both.ctypes.data, self._both.shape[2]
        self._shared.refresh()
        if len(self._stamps) != sanitizer.races.shadow.granules:
            self._stamps = np.zeros(sanitizer.races.shadow.granules, np.uint32)
            state[Field.STAMPS] = self._stamps.ctypes.data
        blocks = sanitizer.some_ended or self._by_lane
        if blocks != self._blocks:
            self._blocks = state[Field.BLOCKED] = blocks
        if state.item(_EPOCH) > _MOST_STAMPS:
            state[Field.EPOCH] = 1
            self._stamps[:] = 0
            for buffer in self._buffers:
                buffer.stamp_anew()
        for buffer in self._buffers:
            buffer.refresh()

    def changed(self) -> None:
        """After code has run."""
        if self._sanitizer is not None:
            for buffer, written in zip(self._buffers, self._parts[:, _IS_WRITTEN].tolist(), strict=False):
                buffer.changed(written)
