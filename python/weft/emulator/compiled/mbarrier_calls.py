"""Runs the operations on the mbarriers of a wave in code of the host, as far as nothing is wrong."""

import ctypes
from collections.abc import Callable
from functools import cache
from operator import is_

import numpy as np
import numpy.typing as npt

from weft.emulator.compiled.mbarrier_state import Field
from weft.emulator.memory.access import Threads
from weft.emulator.memory.segments import WINDOWS, Addresses
from weft.emulator.reading.types import Array, Bools
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.checker import Sanitizer
from weft.emulator.sanitizer.mbarrier_table import NONE
from weft.isa.mbarriers import MOST_ARRIVALS

_WORTH = 200
"""The operations of a process after which they are compiled."""
_UNITS = ("cp.async", "tcgen05")
"""The units whose operations a commit ends."""
_asked = [0]
_WAVE = slice(Field.SHARED, Field.COMPLETED)
_CLOCKS = slice(Field.WATCHED, None)


@cache
def _function(name: str) -> Callable[[int], int]:
    """A function of `mbarrier_code`."""
    from weft.emulator.compiled import mbarrier_code

    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(mbarrier_code.library().addresses()[name])


class MbarrierCalls:
    """The operations of one wave: see `Calls`."""

    def __init__(self, wave: Wave) -> None:
        self.wave, warps = wave, wave.warps
        watch = wave.watch
        self._sanitizer = watch if isinstance(watch, Sanitizer) else None
        self._fits = watch is None or self._sanitizer is not None
        self._state: npt.NDArray[np.int64] = np.zeros(len(Field), np.int64)
        self._pointer = self._state.ctypes.data
        self._scratch: npt.NDArray[np.int64] = np.zeros((5, max(1, warps)), np.int64)
        self._by_number: npt.NDArray[np.int64] = np.zeros((2, 0), np.int64)
        self._lanes: Threads | None = None
        self._rows: npt.NDArray[np.intp] = np.zeros(0, np.intp)
        self._masks: npt.NDArray[np.uint32] = np.zeros(0, np.uint32)
        self._whole = False
        """Whether each of these warps has an active lane."""
        self._arrays: tuple[Array, ...] = ()
        self._before: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        memory = wave.memory
        self._bases = np.ascontiguousarray(memory.shared_base)
        self._own = (wave.cta_of_row * memory.shared_stride).astype(np.int64)
        self._units: npt.NDArray[np.int64] = np.zeros((len(_UNITS), 0), np.int64)
        self._units_of: tuple[object, ...] = ()
        self._state[_WAVE] = (
            *(memory.shared.data.ctypes.data, memory.shared_size, memory.shared_stride, memory.cluster),
            *(self._bases.ctypes.data, self._own.ctypes.data, wave.mbarriers.places.ctypes.data),
            *(row.ctypes.data for row in self._scratch),
        )

    def init(self, lanes: Threads, offsets: Addresses, counts: Array, line: int) -> bool:
        if not self._fits:
            return False
        active = np.flatnonzero(lanes.enabled())
        each = offsets.reshape(-1)[active].view(np.intp)
        order = each.argsort()
        active, each = active[order], each[order]
        wanted = counts.reshape(-1)[active]
        legal = (wanted - np.uint32(1) < MOST_ARRIVALS).all()  # 0 wraps around
        if not legal or (each[1:] == each[:-1]).any():
            return False
        keys = [divmod(at, self.wave.memory.shared_stride) for at in each.tolist()]
        if self._sanitizer is not None:
            rows = lanes.row_numbers()[active // 32]
            if not self._sanitizer.mbarriers.init_each(keys, rows, line):
                return False
        self.wave.mbarriers.init_each(keys, each, wanted, line)
        return True

    def look(
        self, lanes: Threads, space: str, addresses: Addresses, asked: Array, *, by_parity: bool
    ) -> tuple[Bools, int] | None:
        if not self._begin(lanes):
            return None
        done: Bools = np.zeros((lanes.warps, 32), np.bool_)
        parities = asked if by_parity else (asked >> np.uint64(63)).astype(np.uint32)
        if not self._run("look", space, addresses, 0, parities, parities, done):
            return None
        return done, int(self._state[Field.RESULT])

    def observe(self, lanes: Threads, space: str, addresses: Addresses, line: int) -> bool:
        sanitizer = self._sanitizer
        if sanitizer is None or sanitizer.tracks_waits(line) or not self._begin(lanes):
            return False
        return self._run("observe", space, addresses, line, addresses, addresses, addresses)

    def arrive(
        self, lanes: Threads, space: str, addresses: Addresses, counts: Array, sizes: Array, line: int
    ) -> Array | None:
        if not self._begin(lanes):
            return None
        sanitizer = self._sanitizer
        if sanitizer is not None and not sanitizer.lanes.nothing_since(self._rows):
            return None
        states = np.zeros((lanes.warps, 32), np.uint64)
        if not self._run("arrive", space, addresses, line, counts, sizes, states):
            return None
        self._continue()
        return states

    def commit(
        self, lanes: Threads, space: str, addresses: Addresses, masks: Array | None, line: int
    ) -> bool:
        if not self._begin(lanes, whole=False):
            return False
        if self._sanitizer is not None:
            self._take_units(self._sanitizer)
        self._state[Field.MULTICASTS] = masks is not None
        asked = addresses if masks is None else masks.astype(np.uint32)
        if not self._run("commit", space, addresses, line, asked, addresses, addresses):
            return False
        self._continue()
        return True

    def _take_units(self, sanitizer: Sanitizer) -> None:
        """The columns of the units of the warps."""
        clocks = sanitizer.clocks
        key = self._lanes, clocks.width
        if self._units_of == key:
            return
        names = [[(unit, row) for row in self._rows.tolist()] for unit in _UNITS]
        found = [[clocks.find(name) for name in each] for each in names]
        columns = [[NONE if column is None else column for column in each] for each in found]
        self._units, self._units_of = np.array(columns, np.int64), key
        self._state[Field.INIT_FENCES : Field.WATCHED] = (
            *(sanitizer.mbarriers.init_fences, clocks.tensor_fences, len(_UNITS), self._units.ctypes.data),
        )

    def _continue(self) -> None:
        """After arrivals: those who wait for phases that are complete now continue."""
        wave, state = self.wave, self._state
        wave.changes += int(state[Field.CHANGES])
        for number in self._by_number[0, : state[Field.PHASES]].tolist():
            wave.mbarriers.completed_phase(wave.mbarriers.keys[number])

    def _begin(self, lanes: Threads, *, whole: bool = True) -> bool:
        """Prepares for an instruction of these lanes; False if the interpreter must run it. `whole`: each
        warp must have an active one.
        """
        _asked[0] += 1
        if not self._fits or _asked[0] < _WORTH:
            return False
        if self._sanitizer is not None:
            if self._sanitizer.some_ended:
                return False
            self._refresh(self._sanitizer)
        least = max(self.wave.warps, len(self.wave.mbarriers.keys))
        if self._by_number.shape[1] < least:
            self._by_number = np.zeros((2, 2 * least), np.int64)
            completed, tally = self._by_number
            self._state[Field.COMPLETED : Field.INIT_FENCES] = completed.ctypes.data, tally.ctypes.data
        if lanes is not self._lanes:
            self._lanes = lanes
            self._rows = lanes.row_numbers()
            enabled = np.packbits(lanes.enabled(), axis=1, bitorder="little")
            self._masks = enabled.view(np.uint32).reshape(-1)
            state = self._state
            state[Field.COUNT], state[Field.ROWS] = len(self._rows), self._rows.ctypes.data
            state[Field.MASKS] = self._masks.ctypes.data
            self._whole = bool(self._masks.all())
        return self._whole or not whole

    def _run(
        self,
        name: str,
        space: str,
        addresses: Addresses,
        line: int,
        asked: Array,
        sizes: Array,
        given: Array,
    ) -> bool:
        operands = [np.ascontiguousarray(each) for each in (addresses, asked, sizes)]
        at, wanted, expected = (each.ctypes.data for each in operands)
        window = WINDOWS["shared"] if space == "generic" else 0
        self._state[Field.ADDRESSES : Field.SHARED] = (
            *(at, window, line, wanted, expected, given.ctypes.data, given.ctypes.data),
        )
        return bool(_function(name)(self._pointer))

    def _refresh(self, sanitizer: Sanitizer) -> None:
        """Where the sanitizer's arrays are now."""
        clocks, table, lanes = sanitizer.clocks, sanitizer.table, sanitizer.lanes
        table.fit()
        lanes.fit()
        live = self.wave.live
        arrays: tuple[Array, ...] = (
            clocks.all,
            clocks.times,
            live,
            lanes.holding,
            lanes.knowing,
            lanes.clock,
            *table.arrays(),
        )
        if len(arrays) == len(self._arrays) and all(map(is_, arrays, self._arrays)):
            return
        self._arrays = arrays
        layers, warps, width = clocks.all.shape
        if len(self._before) != width:
            self._before = np.zeros(width, np.int32)
        known, times, live_, *rest = (array.ctypes.data for array in arrays)
        self._state[_CLOCKS] = (
            *(1, layers, warps, width, known, times, lanes.strict, live_, self._before.ctypes.data),
            *rest,
        )
