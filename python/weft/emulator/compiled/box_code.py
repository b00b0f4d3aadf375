"""Copies a box or a run of bytes between global and shared memory, with the checks of the sanitizer. If a
rule may be broken, it changes nothing, and the interpreter finds out. For the compiler of `plain_code`.
"""

from functools import cache, partial

from weft.emulator import native
from weft.emulator.compiled import plain_code
from weft.emulator.compiled.box_state import Buffer, Call, Cta, Part
from weft.emulator.compiled.granule_checks import (
    COLUMN,
    keep,
    knows,
    may_read,
    may_write,
    record,
    record_read,
    record_write,
)
from weft.emulator.compiled.plain_code import Value, view
from weft.emulator.memory.boxes import Shape
from weft.emulator.memory.mbarrier import is_initialized, pending_of, settled, tx_of
from weft.emulator.memory.tensor_map import PATTERN_SHIFT
from weft.isa.mbarriers import MOST_TRANSACTION_BYTES

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
    """Checks (`checks`) or copies each row of the box. Returns the number of bytes inside the tensor, or -1
    if a check fails.
    """
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
                    if not _may_touch(call, part, granule, loads):
                        return False
    return True


def _may_touch(call: Value, part: Value, granule: int, loads: bool) -> bool:
    if loads:
        return may_write(part, call, granule)
    return may_read(part, call.KNOWN, call.FENCED, granule)


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
    """Counts the bytes that have arrived, where that is legal and doesn't complete the phase. Returns the
    CTAs, by bits, where it isn't.
    """
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
