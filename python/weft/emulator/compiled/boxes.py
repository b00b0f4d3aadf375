"""The bulk unit's copies in code of the host, with what the sanitizer knows of their mbarriers."""

from collections.abc import Sequence
from functools import cache
from struct import Struct

import numpy as np
import numpy.typing as npt

from weft import late_imports
from weft.emulator.compiled.box_state import MOST_OWNERS, Buffer, Call, Cta, Part
from weft.emulator.compiled.tiers import chosen
from weft.emulator.memory.boxes import Box, Run
from weft.emulator.memory.segments import Segment
from weft.emulator.reading.types import Array
from weft.emulator.running.box_copies import Key
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.checker import Sanitizer
from weft.emulator.sanitizer.clocks import DATA
from weft.emulator.sanitizer.global_races import COLUMN_BITS, GlobalShadow
from weft.isa.tensor_map import GATHERED_ROWS, MAX_RANK

_WORTH = 64
"""The copies of a process after which code is made, which takes as long as some hundred by the
interpreter.
"""
_NO_ROWS = (0,) * GATHERED_ROWS


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


class _Buffer:
    """The numbers of a buffer in global memory."""

    def __init__(self, segment: Segment, shadow: GlobalShadow | None) -> None:
        self.segment, self.shadow = segment, shadow
        self.numbers: npt.NDArray[np.int64] = np.zeros(len(Buffer), np.int64)
        self.pointer = self.numbers.ctypes.data
        self.numbers[Buffer.BASE], self.numbers[Buffer.SIZE] = segment.base, segment.size
        self._data: Array | None = None
        self._filled: Array | None = None
        self._owner: Array | None = None
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
            self._owner = shadow.owner
            arrays = shadow.owner, shadow.time, shadow.line, shadow.level
            numbers[Buffer.CHECKED] = True
            numbers[Buffer.SHIFT : Buffer.OWNER] = shadow.granule.bit_length() - 1, shadow.granules
            numbers[Buffer.OWNER :] = [array.ctypes.data for array in arrays]
        if shadow.is_written != self._written:
            self._written = numbers[Buffer.IS_WRITTEN] = shadow.is_written


class Boxes:
    """The copies of one wave."""

    def __init__(self, wave: Wave, worth: Worth) -> None:
        self._wave, self._worth = wave, worth
        self._watch = wave.watch if isinstance(wave.watch, Sanitizer) else None
        self._call: npt.NDArray[np.int64] = np.zeros(Call.CTAS + MOST_OWNERS * len(Cta), np.int64)
        self._part: npt.NDArray[np.int64] = np.zeros(len(Part), np.int64)
        self._pointers = self._call.ctypes.data, self._part.ctypes.data
        self._buffers: dict[int, _Buffer] = {}
        self._bytes = Run()
        self._columns: dict[Key, int] = {}
        self._slots: dict[int, int] = {}
        self._suffix = "" if self._watch is None else "_checked"
        self._seen: tuple[Array, ...] = ()
        self._clocks: Array | None = None
        self._known = self._width = self._layer = self._data_layer = 0
        self._cluster_warps = wave.launch.warps * wave.launch.cluster_size
        self._part[Part.SHARED] = wave.memory.shared.data.ctypes.data
        self._part[Part.WARPS] = wave.warps
        self._number = 0
        if self._watch is not None:
            self._number = self._watch.globals.number << COLUMN_BITS
            self._part[Part.NUMBER] = self._watch.globals.number

    # The copies

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
        wave, watch = self._wave, self._watch
        buffer = self._ready(row, box, writes=False)
        if buffer is None or len(marks) > MOST_OWNERS:
            return False
        mbarriers, columns = wave.mbarriers, []
        for _, mark in marks:
            column = 0 if watch is None else self._column(mark, row)
            if column < 0 or not mbarriers.intact(*mark):
                return False
            columns.append(column)
        times = [0] * len(columns) if watch is None else [watch.clocks.times[each] + 1 for each in columns]
        reader = (columns[0], times[0]) if awaited else self._writer(row, box, where)
        if reader is None:
            return False
        stride, size = wave.memory.shared_stride, wave.memory.shared_size
        ctas = [
            number
            for (cta, _), column, time in zip(marks, columns, times, strict=True)
            for number in (cta * stride + begin, cta * stride + size, column, time)
        ]
        if not self._run("load", row, box, where, buffer, line, len(marks), reader, awaited, 0, ctas):
            return False
        wave.memory.bytes["shared"] = wave.memory.bytes.get("shared", 0) + box.total * len(marks)
        if watch is not None:
            for (_, mark), column, time in zip(marks, columns, times, strict=True):
                watch.unit_signals(mark, row, column, time, line)
        for _, mark in marks:
            mbarriers.complete_tx(*mark, box.total, line)
        return True

    def store(self, row: int, box: Box, where: Sequence[int], cta: int, begin: int, line: int) -> bool:
        wave, watch = self._wave, self._watch
        buffer = self._ready(row, box, writes=True) if box.stored else None
        if buffer is None:
            return False
        reader, slot, time = 0, 0, 0
        if watch is not None:
            reader = watch.clocks.column(("bulk", row))
            time, slot = watch.clocks.times[reader] + 1, self._slot(reader)
        writer = self._writer(row, box, where)
        if writer is None:
            return False
        first = cta * wave.memory.shared_stride
        ctas = [first + begin, first + wave.memory.shared_size, reader, time]
        if not self._run("store", row, box, where, buffer, line, 1, writer, True, slot, ctas):
            return False
        wave.memory.bytes["shared"] = wave.memory.bytes.get("shared", 0) + box.total
        if self._call[Call.INSIDE]:
            wave.changes += 1
            if buffer.shadow is not None:
                buffer.shadow.is_written = True
        return True

    def _run(
        self,
        name: str,
        row: int,
        box: Box,
        where: Sequence[int],
        buffer: _Buffer,
        line: int,
        count: int,
        unit: tuple[int, int],
        awaited: bool,
        slot: int,
        ctas: Sequence[int],
    ) -> bool:
        """Calls code, with the column and time of the access to global memory in `unit`."""
        self._refresh()
        buffer.refresh()
        known = self._known + 4 * row * self._width
        seen = known + self._layer, known + self._data_layer
        ranks = known + 4 * (row // self._cluster_warps * self._cluster_warps)
        first, rows = (where[0], where[1:]) if box.gathers else (where[0], _NO_ROWS)
        outer = (0,) * (MAX_RANK - 1) if box.gathers else (*where[1:], *_NO_ROWS[len(where) - 1 :])
        values = (first, *outer, *rows, line, count, known, *seen, ranks)
        unit_values = unit[0] | self._number, unit[1], awaited, slot, 0
        _packing(count).pack_into(self._call.data, 0, *values, *unit_values, *ctas)
        call, part = self._pointers
        if not _function(name + self._suffix)(box.pointer, call, part, buffer.pointer):
            return False
        if inside := self._call.item(Call.INSIDE):
            bytes_ = self._wave.memory.bytes
            bytes_["global"] = bytes_.get("global", 0) + inside
        return True

    # What the code needs

    def _ready(self, row: int, box: Box, *, writes: bool) -> _Buffer | None:
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
            found = self._buffers[segment.base] = _Buffer(segment, shadow)
        return found

    def _column(self, mark: Key, row: int) -> int:
        """The column of an mbarrier; negative if its use may break a rule."""
        watch = self._watch
        assert watch is not None
        column = self._columns.get(mark)
        if column is None:
            column = self._columns[mark] = watch.clocks.column(("mbarrier", *mark))
        return column if watch.unit_may_signal(mark, row) else -1

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
        return column, clocks.times[column] + 1

    def _slot(self, column: int) -> int:
        assert self._watch is not None
        slot = self._slots.get(column)
        if slot is None:
            slot = self._slots[column] = self._watch.races.slot(column)
        return slot

    def _refresh(self) -> None:
        """Takes the addresses where the sanitizer's arrays are now."""
        watch = self._watch
        if watch is None:
            return
        clocks, shadow = watch.clocks, watch.races.shadow
        if clocks.all is not self._clocks:
            self._clocks = clocks.all
            self._known, self._width = clocks.all.ctypes.data, clocks.all.shape[2]
            self._layer = clocks.all.strides[0]
            self._data_layer = self._layer * clocks.layer_seen(DATA)
            self._part[Part.PROXIES] = clocks.through_proxy.ctypes.data
        if len(self._seen) and self._seen[0] is shadow.written and self._seen[1] is shadow.unit:
            return
        self._seen = shadow.written, shadow.unit
        arrays = shadow.writer, shadow.written, shadow.write_line, shadow.read_line, shadow.reads
        self._part[Part.SHIFT : Part.PROXIES] = (
            *(shadow.granule.bit_length() - 1, shadow.granules),
            *(array.ctypes.data for array in arrays),
            *(shadow.reads.shape[1], shadow.unit.ctypes.data, shadow.taken.ctypes.data, len(shadow.unit)),
        )


@cache
def _function(name: str):  # type: ignore[no-untyped-def]
    with late_imports.whole():
        from weft.emulator.compiled import box_code
    return box_code.function(name)
