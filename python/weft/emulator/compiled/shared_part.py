"""A wave's shared memory and the sanitizer's shadow of it, as code of the host sees them."""

import numpy as np
import numpy.typing as npt

from weft.emulator.compiled.box_state import Part
from weft.emulator.reading.types import Array
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.checker import Sanitizer


class SharedPart:
    """The numbers of `Part`, at the address `pointer`."""

    def __init__(self, wave: Wave, watch: Sanitizer | None) -> None:
        self._watch = watch
        self.numbers: npt.NDArray[np.int64] = np.zeros(len(Part), np.int64)
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
