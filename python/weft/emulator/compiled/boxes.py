"""The bulk unit's copies in code of the host, with what the sanitizer knows of their mbarriers."""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from struct import Struct

import numpy as np
import numpy.typing as npt

from weft.emulator.compiled.box_state import MOST_OWNERS, Call, Cta
from weft.emulator.compiled.shadows import BufferPart, SharedPart
from weft.emulator.compiled.tiers import chosen
from weft.emulator.memory.boxes import Box, Run, box_of
from weft.emulator.memory.segments import WINDOWS
from weft.emulator.reading.types import Array
from weft.emulator.running.box_copies import Key
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.checker import Sanitizer
from weft.emulator.sanitizer.clocks import DATA
from weft.emulator.sanitizer.global_memory import COLUMN_BITS
from weft.isa.tensor_map import ALIGNMENT, BYTES, GATHERED_ROWS, MAX_RANK

_WORTH = 64
"""The copies of a process after which code is made, which takes as long as some hundred by the
interpreter.
"""
_NO_ROWS = (0,) * (MAX_RANK - 1)
_NONE = (0,) * (MAX_RANK + GATHERED_ROWS)


class Worth:
    """Counts the copies that the interpreter makes before there is code. `at_once`: none."""

    def __init__(self, *, at_once: bool = False) -> None:
        self.left = 0 if at_once else _WORTH

    def copies(self, wave: Wave) -> "Boxes | None":
        """The copies of a wave, whose turns aren't random; None if others than the sanitizer watch it."""
        return Boxes(wave, self) if wave.watch is None or type(wave.watch) is Sanitizer else None


_worth = Worth()


def worth_of(compiled: bool | None) -> Worth | None:
    """When a launch copies by code: at once, never (None), or if the process has copied often (`compiled` is
    None).
    """
    compiled = chosen(compiled)
    return _worth if compiled is None else Worth(at_once=True) if compiled else None


@cache
def _packing(ctas: int) -> Struct:
    return Struct(f"={Call.CTAS + ctas * len(Cta)}q")


class Boxes:
    """The copies of one wave."""

    def __init__(self, wave: Wave, worth: Worth) -> None:
        self._wave, self._worth = wave, worth
        self._watch = wave.watch if isinstance(wave.watch, Sanitizer) else None
        self._call: npt.NDArray[np.int64] = np.zeros(Call.CTAS + MOST_OWNERS * len(Cta), np.int64)
        self._part = SharedPart(wave, self._watch)
        self._pointers = self._call.ctypes.data, self._part.pointer
        self._buffers: dict[int, BufferPart] = {}
        self._bytes = Run()
        self._columns: dict[Key, int] = {}
        self._slots: dict[int, int] = {}
        self._suffix = "" if self._watch is None else "_checked"
        self._clocks: Array | None = None
        self._rows: dict[int, tuple[int, ...]] = {}
        self._code: dict[str, Callable[..., int]] = {}
        self._boxes: dict[tuple[int, tuple[int, str]], Box | None] = {}
        self._stride, self._size = wave.memory.shared_stride, wave.memory.shared_size
        self._cluster_warps = wave.launch.warps * wave.launch.cluster_size
        self._number = 0 if self._watch is None else self._watch.globals.number << COLUMN_BITS

    # The copies

    def box(self, address: int, how: tuple[int, str]) -> Box | None:
        key = address, how
        if key not in self._boxes:
            begin, params = address - WINDOWS["param"], self._wave.memory.device.params
            legal = begin % ALIGNMENT == 0 and 0 <= begin <= params.size - BYTES
            self._boxes[key] = box_of(params.data[begin : begin + BYTES].tobytes(), *how) if legal else None
        return self._boxes[key]

    def run(self, address: int, size: int) -> Box:
        self._bytes.set(address, size)
        return self._bytes

    def load(
        self,
        row: int,
        box: Box,
        where: Sequence[int],
        begin: int,
        marks: Sequence[tuple[int, Key]],
        line: int,
        *,
        awaited: bool,
    ) -> bool:
        wave = self._wave
        buffer = self._ready(row, box, writes=False)
        if buffer is None:
            return False
        ctas = self._targets(row, begin, marks)
        if ctas is None:
            return False
        unit = ctas[2:4] if awaited else self._writer(row, box, where)
        if unit is None:
            return False
        count = len(marks)
        values = line, count, *self._row(row), unit[0] | self._number, unit[1], awaited, 0, box.total, 0, 0
        if not self._run("load", box, where, buffer, (*values, *ctas), count):
            return False
        wave.memory.bytes["shared"] = wave.memory.bytes.get("shared", 0) + box.total * count
        left: int = self._call.item(Call.LEFT)
        wave.changes += count - left.bit_count()
        watch = self._watch
        for at, (_, mark) in enumerate(marks):
            if watch is not None:
                column, time = ctas[len(Cta) * at + Cta.COLUMN], ctas[len(Cta) * at + Cta.TIME]
                watch.unit_signals(mark, row, column, time, line)
            if left >> at & 1:
                wave.mbarriers.complete_tx(*mark, box.total, line)
        return True

    def store(self, row: int, box: Box, where: Sequence[int], cta: int, begin: int, line: int) -> bool:
        wave, watch = self._wave, self._watch
        buffer = self._ready(row, box, writes=True) if box.stored else None
        if buffer is None:
            return False
        reader, slot, time = 0, 0, 0
        if watch is not None:
            reader = watch.clocks.column(("bulk", row))
            time, slot = watch.clocks.times.item(reader) + 1, self._slot(reader)
        unit = self._writer(row, box, where)
        if unit is None:
            return False
        first = cta * self._stride
        values = line, 1, *self._row(row), unit[0] | self._number, unit[1], True, slot, box.total, 0, 0
        ctas = first + begin, first + self._size, reader, time, 0
        if not self._run("store", box, where, buffer, (*values, *ctas), 1):
            return False
        wave.memory.bytes["shared"] = wave.memory.bytes.get("shared", 0) + box.total
        if self._call.item(Call.INSIDE):
            wave.changes += 1
            if buffer.shadow is not None:
                buffer.shadow.is_written = True
        return True

    def _run(
        self, name: str, box: Box, where: Sequence[int], buffer: BufferPart, values: Sequence[int], count: int
    ) -> bool:
        """Calls code with the numbers of `Call` that follow the coordinates."""
        self._part.refresh()
        buffer.refresh()
        places = (where[0], *_NO_ROWS, *where[1:]) if box.gathers else (*where, *_NONE[len(where) :])
        _packing(count).pack_into(self._call.data, 0, *places, *values)
        call, part = self._pointers
        code = self._code.get(name)
        if code is None:
            code = self._code[name] = _function(name + self._suffix)
        if not code(box.pointer, call, part, buffer.pointer):
            return False
        if inside := self._call.item(Call.INSIDE):
            bytes_ = self._wave.memory.bytes
            bytes_["global"] = bytes_.get("global", 0) + inside
        return True

    # What the code needs

    def _ready(self, row: int, box: Box, *, writes: bool) -> BufferPart | None:
        """The buffer of a box; None if the interpreter must copy."""
        if self._worth.left > 0:
            self._worth.left -= 1
            return None
        segment = self._wave.memory.device.find(box.address)
        if segment is None or (writes and not segment.writable):
            return None
        watch = self._watch
        before = watch.launch_before if watch is not None and segment.of_others else None
        if before is not None and not before.waited_for(row):
            return None
        found = self._buffers.get(segment.base)
        if found is None or found.segment is not segment:
            shadow = watch.globals.memory.shadow(segment) if watch is not None and segment.writable else None
            found = self._buffers[segment.base] = BufferPart(segment, shadow)
        return found

    def _targets(self, row: int, begin: int, marks: Sequence[tuple[int, Key]]) -> list[int] | None:
        """The numbers of `Cta` of a load; None if the interpreter must copy."""
        watch, alive, numbers = self._watch, self._wave.mbarriers.alive, list[int]()
        if len(marks) > MOST_OWNERS:
            return None
        for cta, mark in marks:
            if mark not in alive:
                return None
            column = time = 0
            if watch is not None:
                known = self._columns.get(mark)
                if known is None:
                    known = self._columns[mark] = watch.clocks.column(("mbarrier", *mark))
                if not watch.unit_may_signal(mark, row):
                    return None
                column, time = known, watch.clocks.times.item(known) + 1
            first = cta * self._stride
            word = mark[0] * self._stride + mark[1]
            numbers += (first + begin, first + self._size, column, time, word)
        return numbers

    def _writer(self, row: int, box: Box, where: Sequence[int]) -> tuple[int, int] | None:
        """The column and time of accesses to global memory that no mbarrier signals; None if it is new, and
        the box may be outside the tensor, so that there is no access.
        """
        if self._watch is None:
            return 0, 0
        clocks, name = self._watch.clocks, ("bulk.write", row)
        column = clocks.find(name)
        if column is None:
            if not box.begins_inside(where):
                return None
            column = clocks.column(name)
        return column, clocks.times.item(column) + 1

    def _slot(self, column: int) -> int:
        assert self._watch is not None
        slot = self._slots.get(column)
        if slot is None:
            slot = self._slots[column] = self._watch.races.slot(column)
        return slot

    def _row(self, row: int) -> tuple[int, ...]:
        """Where the clocks of a warp are: all that it knows, the parts that the unit sees in shared and
        global memory, and what it knows of its cluster, all of it and what the unit sees.
        """
        watch = self._watch
        if watch is None:
            return 0, 0, 0, 0, 0
        clocks = watch.clocks
        if clocks.all is not self._clocks:
            self._clocks = clocks.all
            self._rows.clear()
        found = self._rows.get(row)
        if found is None:
            layer, step, _ = clocks.all.strides
            known = clocks.all.ctypes.data + step * row
            fenced, seen = known + layer, known + layer * clocks.layer_seen(DATA)
            first = 4 * (row // self._cluster_warps * self._cluster_warps)
            found = self._rows[row] = known, fenced, seen, known + first, fenced + first
        return found


def _function(name: str) -> Callable[..., int]:
    """A function of `box_code`."""
    from weft.emulator.compiled import box_code

    address = box_code.library(name).addresses()[name]
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 4)(address)
