"""The bulk unit's copies of boxes and of runs of bytes between global and shared memory in code of the host,
for the compiler of `plain_code`, with what the sanitizer knows of their mbarriers. If a rule may be broken,
a copy changes nothing, and the interpreter finds out.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache, partial
from struct import Struct

import numpy as np
import numpy.typing as npt

from weft.emulator import native
from weft.emulator.compiled import plain_code
from weft.emulator.compiled.accesses import (
    COLUMN,
    keep,
    knows,
    may_read,
    may_write,
    record,
    record_read,
    record_write,
)
from weft.emulator.compiled.box_state import MOST_OWNERS, Buffer, Call, Cta, Part
from weft.emulator.compiled.plain_code import Value, view
from weft.emulator.compiled.shadows import BufferPart, SharedPart
from weft.emulator.memory.mbarrier import Key, is_initialized, pending_of, settled, tx_of
from weft.emulator.memory.segments import WINDOWS
from weft.emulator.memory.tensor_map import PATTERN_SHIFT, Box, Run, Shape, box_of
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.checker import Sanitizer
from weft.emulator.sanitizer.clocks import DATA
from weft.emulator.sanitizer.global_memory import COLUMN_BITS
from weft.isa.mbarriers import MOST_TRANSACTION_BYTES
from weft.isa.tensor_map import ALIGNMENT, BYTES, GATHERED_ROWS, MAX_RANK

_WORD, _CHUNK = 8, 16
_EXPONENT, _FRACTION, _QUIET = 0x7F800000, 0x7FFFFF, 0x7FFFE000
_BELOW_HALF, _DROPPED, _KEPT = 0xFFF, 13, 0xFFFFE000


@cache
def library(name: str) -> native.Library:
    """load, load_checked, store or store_checked: a function that takes the addresses of the numbers of
    `Shape`, `Call`, `Part` and `Buffer`, and returns whether it has copied.
    """
    made = {name: partial(_copied, loads=name.startswith("load"), checked=name.endswith("_checked"))}
    return native.Library(f"box {name}", lambda: plain_code.text(made, Shape, Call, Part, Buffer), [name])


def _copied(shape: Value, call: Value, part: Value, buffer: Value, loads: bool, checked: bool) -> int:
    if checked and shape.PIECE & (1 << part.SHIFT) - 1:  # granules must divide pieces
        return False
    if _rows(shape, call, part, buffer, loads, checked, True) < 0 or (loads and not _has_marks(call, part)):
        return False
    call.INSIDE = _rows(shape, call, part, buffer, loads, checked, False)
    if loads:
        call.LEFT = _count_down(call, part)
    return True


# The box


def _rows(
    shape: Value, call: Value, part: Value, buffer: Value, loads: bool, checked: bool, checks: bool
) -> int:
    """Checks (`checks`) or copies each row. Returns the bytes inside the tensor, or -1 if a check fails."""
    sizes, dims, total, number = shape.SIZES, shape.DIMS, 0, 0
    byte = _coordinate(call.COORDINATES[0]) // shape.PACKING * shape.UNIT
    start, end = shape.BASE + byte - buffer.BASE, shape.LOAD_END if loads else shape.STORE_END
    first, last = _within_row(shape, -byte), _within_row(shape, end - byte)
    for h in range(sizes[3]):
        for k in range(sizes[2]):
            for j in range(sizes[1]):
                for i in range(sizes[0]):
                    a = _coordinate(call.ROWS[i]) if shape.GATHERS else _outer(shape, call, 0, i)
                    b, c, d = _outer(shape, call, 1, j), _outer(shape, call, 2, k), _outer(shape, call, 3, h)
                    offset = start + a * shape.STRIDES[0] + b * shape.STRIDES[1]
                    offset += c * shape.STRIDES[2] + d * shape.STRIDES[3]
                    inside = 0 <= a < dims[0] and 0 <= b < dims[1] and 0 <= c < dims[2] and 0 <= d < dims[3]
                    begin, stop = first if inside else 0, last if inside else 0
                    if begin < stop and checks:
                        if not _may_access(call, part, buffer, offset + begin, stop - begin, loads, checked):
                            return -1
                    elif begin < stop:
                        total += stop - begin
                        _record(call, buffer, offset + begin, stop - begin, loads, checked)
                    if checks:
                        if not _may_move(shape, call, part, number, loads, checked):
                            return -1
                    else:
                        _move(shape, call, part, buffer.DATA[offset:], number, begin, stop, loads, checked)
                    number += 1
    return total


def _coordinate(number: int) -> int:
    return number << 32 >> 32


def _outer(shape: Value, call: Value, at: int, index: int) -> int:
    """A coordinate of a row in an outer dimension."""
    return _coordinate(call.COORDINATES[1 + at]) + index * shape.STEPS[at]


def _within_row(shape: Value, byte: int) -> int:
    return min(max(byte, 0), shape.BYTES)


def _may_move(shape: Value, call: Value, part: Value, row: int, loads: bool, checked: bool) -> bool:
    """Checks what a row accesses in the shared memory of each CTA."""
    for owner in range(call.COUNT):
        cta = Cta(call.CTAS[len(Cta) * owner :])
        for piece in range(shape.PIECES):
            shared = _swizzled(shape, cta.BEGIN + row * shape.PITCH + piece * shape.SPREAD)
            if shared + shape.PIECE > cta.END:
                return False
            if checked:
                for granule in range(shared >> part.SHIFT, shared + shape.PIECE >> part.SHIFT):
                    if loads and not may_write(part, call, granule):
                        return False
                    if not loads and not may_read(part, call.KNOWN, call.FENCED, granule):
                        return False
    return True


def _swizzled(shape: Value, linear: int) -> int:
    return linear ^ (linear >> PATTERN_SHIFT << shape.SWIZZLE_SHIFT & shape.SWIZZLE_MASK)


def _move(
    shape: Value,
    call: Value,
    part: Value,
    data: Value,
    row: int,
    first: int,
    last: int,
    loads: bool,
    checked: bool,
) -> None:
    """Copies a row, whose bytes from `first` to `last` are inside."""
    for owner in range(call.COUNT):
        cta = Cta(call.CTAS[len(Cta) * owner :])
        for piece in range(shape.PIECES):
            linear, byte = cta.BEGIN + row * shape.PITCH + piece * shape.SPREAD, piece * shape.PIECE
            shared, flip = _swizzled(shape, linear), (linear >> PATTERN_SHIFT & shape.FLIPS & 1) << 3
            rounds = loads and shape.ROUNDS != 0
            if shape.PIECE == _CHUNK and first <= byte and byte + _CHUNK <= last and not rounds:
                _copy_word(part.SHARED[shared ^ flip :], data[byte:], loads)
                _copy_word(part.SHARED[shared + _WORD ^ flip :], data[byte + _WORD :], loads)
            elif rounds:
                _round(shape, part, data[byte:], shared, flip, first - byte, last - byte)
            else:
                _copy_bytes(shape, part, data[byte:], shared, flip, first - byte, last - byte, loads)
            if checked:
                for granule in range(shared >> part.SHIFT, shared + shape.PIECE >> part.SHIFT):
                    if loads:
                        record_write(part, granule, cta.COLUMN, cta.TIME, call.LINE)
                    else:
                        record_read(part, granule, cta.COLUMN, cta.TIME, call.LINE, call.SLOT)


def _copy_word(near: Value, far: Value, loads: bool) -> None:
    if loads:
        view(near, "i8")[0] = view(far, "i8")[0]
    else:
        view(far, "i8")[0] = view(near, "i8")[0]


def _copy_bytes(
    shape: Value, part: Value, far: Value, shared: int, flip: int, first: int, last: int, loads: bool
) -> None:
    """Copies the bytes of a piece, of which those from `first` to `last` are inside."""
    for at in range(shape.PIECE):
        here, inside = shared + at ^ flip, first <= at < last
        if inside and not loads:
            far[at] = part.SHARED[here]
        elif inside:
            part.SHARED[here] = far[at]
        elif loads:
            part.SHARED[here] = shape.FILL >> ((at & _WORD - 1) << 3)


def _round(shape: Value, part: Value, far: Value, shared: int, flip: int, first: int, last: int) -> None:
    """Loads the words of a piece, rounded to tf32."""
    for word in range(shape.PIECE >> 2):
        at, rounded = word << 2, shape.FILL
        if first <= at < last:
            rounded = _rounded(view(far[at:], "u4")[0])
        view(part.SHARED[shared + at ^ flip :], "u4")[0] = rounded


def _rounded(word: int) -> int:
    """tf32 to nearest, ties to even."""
    if word & _EXPONENT == _EXPONENT:
        return _QUIET if word & _FRACTION else word
    return word + _BELOW_HALF + (word >> _DROPPED & 1) & _KEPT


# The mbarriers


def _has_marks(call: Value, part: Value) -> bool:
    """Whether there still are all mbarriers."""
    for owner in range(call.COUNT):
        if not is_initialized(view(part.SHARED[Cta(call.CTAS[len(Cta) * owner :]).MARK :], "i8")[0]):
            return False
    return True


def _count_down(call: Value, part: Value) -> int:
    """Counts bytes that have arrived. Returns the CTAs, by bits, where a rule or a phase's end forbids it."""
    left = 0
    for owner in range(call.COUNT):
        word = view(part.SHARED[Cta(call.CTAS[len(Cta) * owner :]).MARK :], "i8")
        rest = tx_of(word[0]) - call.TOTAL
        legal = is_initialized(word[0]) and -MOST_TRANSACTION_BYTES <= rest <= MOST_TRANSACTION_BYTES
        if legal and rest | pending_of(word[0]):
            word[0] = settled(word[0], 0, -call.TOTAL)
        else:
            left |= 1 << owner
    return left


# Global memory: the checks of `sanitizer.global_races`


def _may_access(
    call: Value, part: Value, buffer: Value, begin: int, size: int, loads: bool, checked: bool
) -> bool:
    """Whether `size` bytes from byte `begin` of a buffer on are inside, and no rule is broken."""
    if begin < 0 or begin + size > buffer.SIZE:
        return False
    if not checked or not buffer.CHECKED:
        return True
    if (begin | size) & (1 << buffer.SHIFT) - 1:
        return False
    if loads and buffer.FILLED:
        for byte in range(begin, begin + size):
            if not buffer.FILLED[byte]:
                return False
    for granule in range(begin >> buffer.SHIFT, begin + size >> buffer.SHIFT):
        if buffer.IS_WRITTEN and not _after_write(call, part, buffer, granule):
            return False
        if not loads:
            for slot in range(1, 3):
                at = slot * buffer.GRANULES + granule
                if not knows(buffer, at, part.NUMBER, call.KNOWN, call.OWNER):
                    return False
    return True


def _after_write(call: Value, part: Value, buffer: Value, granule: int) -> bool:
    """The last write must be known, and the unit must see it."""
    column, time = buffer.OWNER[granule] & COLUMN, buffer.TIME[granule]
    if not knows(buffer, granule, part.NUMBER, call.KNOWN, call.OWNER):
        return False
    return time == 0 or time <= call.SEEN[column] or column >= part.WARPS


def _record(call: Value, buffer: Value, begin: int, size: int, loads: bool, checked: bool) -> None:
    if not loads and buffer.FILLED:
        for byte in range(begin, begin + size):
            buffer.FILLED[byte] = 1
    if not checked or not buffer.CHECKED or (loads and not call.AWAITED):
        return
    for granule in range(begin >> buffer.SHIFT, begin + size >> buffer.SHIFT):
        if loads:
            keep(buffer, buffer.GRANULES + granule, call.OWNER)
            record(buffer, buffer.GRANULES + granule, call.OWNER, call.TIME, call.LINE)
        else:
            record(buffer, granule, call.OWNER, call.TIME, call.LINE)
            buffer.LEVEL[granule] = 0


_WORTH = 64
"""The copies of a process after which code is made, which takes as long as some hundred by the
interpreter.
"""
_NO_ROWS = (0,) * (MAX_RANK - 1)
_NONE = (0,) * (MAX_RANK + GATHERED_ROWS)


_asked = [0]


@cache
def _packing(ctas: int) -> Struct:
    return Struct(f"={Call.CTAS + ctas * len(Cta)}q")


class Boxes:
    """The copies of one wave, whose turns aren't random, and which at most the sanitizer watches. `at_once`:
    the interpreter makes none before there is code.
    """

    def __init__(self, wave: Wave, *, at_once: bool = False) -> None:
        self._wave, self._at_once = wave, at_once
        self._watch = wave.watch if isinstance(wave.watch, Sanitizer) else None
        self._call: npt.NDArray[np.int64] = np.zeros(Call.CTAS + MOST_OWNERS * len(Cta), np.int64)
        self._part = SharedPart(wave, self._watch)
        self._pointers = self._call.ctypes.data, self._part.pointer
        self._buffers: dict[int, BufferPart] = {}
        self._bytes = Run()
        self._suffix = "" if self._watch is None else "_checked"
        self._code: dict[str, Callable[..., int]] = {}
        self._boxes: dict[tuple[int, tuple[int, str]], Box | None] = {}
        self._stride, self._size = wave.memory.shared_stride, wave.memory.shared_size
        self._cluster_warps = wave.launch.warps * wave.launch.cluster_size
        self._number = 0 if self._watch is None else self._watch.globals.number << COLUMN_BITS

    # The copies

    def box(self, address: int, how: tuple[int, str]) -> Box | None:
        """The box of a tensor map among the parameters, at a generic address, for copies of a rank in a mode.
        None if the interpreter must copy.
        """
        key = address, how
        if key not in self._boxes:
            begin, params = address - WINDOWS["param"], self._wave.memory.device.params
            legal = begin % ALIGNMENT == 0 and 0 <= begin <= params.size - BYTES
            self._boxes[key] = box_of(params.data[begin : begin + BYTES].tobytes(), *how) if legal else None
        return self._boxes[key]

    def run(self, address: int, size: int) -> Box:
        """Bytes of global memory, a multiple of 16, as a box of one dimension, until the next call."""
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
        """Copies a box at some coordinates, for a thread of warp `row`, into the shared memory of CTAs from
        byte `begin` on, and signals the mbarrier of each. `marks`: the CTAs with their mbarriers. `awaited`:
        one mbarrier signals all of it. False, and nothing has changed, if the interpreter must copy.
        """
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
        wave.memory.bytes["shared"] += box.total * count
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
        """Copies from the shared memory of a CTA into a box, likewise."""
        wave, watch = self._wave, self._watch
        buffer = self._ready(row, box, writes=True) if box.stored else None
        if buffer is None:
            return False
        reader, slot, time = 0, 0, 0
        if watch is not None:
            reader = watch.clocks.column(("bulk", row))
            time = watch.clocks.times.item(reader) + 1
            slot = watch.races.slot(reader)
        unit = self._writer(row, box, where)
        if unit is None:
            return False
        first = cta * self._stride
        values = line, 1, *self._row(row), unit[0] | self._number, unit[1], True, slot, box.total, 0, 0
        ctas = first + begin, first + self._size, reader, time, 0
        if not self._run("store", box, where, buffer, (*values, *ctas), 1):
            return False
        wave.memory.bytes["shared"] += box.total
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
            address = library(name + self._suffix).addresses()[name + self._suffix]
            function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 4)
            code = self._code[name] = function(address)
        if not code(box.pointer, call, part, buffer.pointer):
            return False
        self._wave.memory.bytes["global"] += self._call.item(Call.INSIDE)
        return True

    # What the code needs

    def _ready(self, row: int, box: Box, *, writes: bool) -> BufferPart | None:
        """The buffer of a box; None if the interpreter must copy."""
        if not self._at_once and _asked[0] < _WORTH:
            _asked[0] += 1
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
                known = watch.clocks.column(("mbarrier", *mark))
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

    def _row(self, row: int) -> tuple[int, ...]:
        """Where the clocks of a warp are: all that it knows, the parts that the unit sees in shared and
        global memory, and what it knows of its cluster, all of it and what the unit sees.
        """
        watch = self._watch
        if watch is None:
            return 0, 0, 0, 0, 0
        clocks = watch.clocks
        layer, step, _ = clocks.all.strides
        known: int = clocks.all.ctypes.data + step * row
        fenced, seen = known + layer, known + layer * clocks.seen_layers[DATA]
        first = 4 * (row // self._cluster_warps * self._cluster_warps)
        return known, fenced, seen, known + first, fenced + first
