"""The checks of asynchronous units in code of this host: of accesses to shared memory that break no rule."""

from collections.abc import Callable
from enum import IntEnum, auto
from functools import cache
from operator import is_

import numpy as np
import numpy.typing as npt

from weft.emulator.native import compiled
from weft.emulator.reading.types import Array
from weft.emulator.sanitizer.clocks import VectorClocks
from weft.emulator.sanitizer.shadow import BLOCK_SHIFT, NEVER, Shadow
from weft.emulator.watch import CHUNK, Chunks

_WORTH = 300
"""The accesses of a wave after which the checks are compiled."""


class _Argument(IntEnum):
    """The numbers that a function gets, 8 bytes each."""

    FINE = 0
    """The result: whether the access breaks no rule, and is recorded."""
    COUNT = auto()
    BEGIN = auto()
    END = auto()
    """The bytes of the CTA's shared memory."""
    COLUMN = auto()
    TIME = auto()
    LINE = auto()
    SLOT = auto()
    THROUGH = auto()
    KNOWN = auto()
    FENCED = auto()
    RANKS = auto()
    SHOWN = auto()
    """What the warp knows of those of its cluster, and what of that a write must know."""
    SHIFT = auto()
    PER_CHUNK = auto()
    WRITER = auto()
    WRITTEN = auto()
    WRITE_LINE = auto()
    READ_LINE = auto()
    READS = auto()
    READERS = auto()
    UNIT = auto()
    TAKEN = auto()
    UNITS = auto()
    GRANULES = auto()
    READ_BY = auto()
    PROXIES = auto()


class Listed(IntEnum):
    """The numbers of one list of chunks that a unit reads, 8 bytes each."""

    FIRST = 0
    """The address of the first bytes of the chunks."""
    COUNT = auto()
    BEGIN = auto()
    COLUMN = auto()
    TIME = auto()
    SLOT = auto()
    ROW = auto()
    RANKS = auto()
    """The first warp of the cluster."""
    USED = auto()
    """The first bytes of each chunk that the unit reads."""


class UnitCode:
    """The checks of one wave's shadow of shared memory."""

    def __init__(self, shadow: Shadow, clocks: VectorClocks, size: int, readers: int) -> None:
        self._shadow, self._clocks, self._size, self._readers = shadow, clocks, size, readers
        self._arguments: npt.NDArray[np.int64] = np.zeros(len(_Argument), np.int64)
        self._pointer = self._arguments.ctypes.data
        self._calls = 0
        self._seen: tuple[Array, ...] = ()
        self._known = self._layer = 0

    def reads(self, column: int, row: int, chunks: Chunks, begin: int, line: int, slot: int) -> bool:
        """Records a read of chunks of the shared memory from byte `begin` on. False, and nothing has changed,
        if it may break a rule.
        """
        return self._run("reads", column, row, chunks, begin, line, slot, through=True)

    def writes(
        self, column: int, row: int, chunks: Chunks, begin: int, line: int, *, through_proxy: bool
    ) -> bool:
        """The same for a write; `through_proxy`: through the asynchronous proxy."""
        return self._run("writes", column, row, chunks, begin, line, 0, through=through_proxy)

    def reads_each(self, lists: int, count: int, line: int) -> bool:
        """Records a read of each list of chunks: `[count, len(Listed)]` at an address. False if one of them
        may break a rule; those before it are recorded.
        """
        if self._size < CHUNK:
            return False
        self._refresh()
        arguments, width = self._arguments, 4 * self._seen[0].shape[2]
        arguments[_Argument.FINE], arguments[_Argument.END] = 0, self._size - CHUNK
        arguments[_Argument.LINE], arguments[_Argument.THROUGH] = line, 1
        _each()(lists, self._pointer, count, self._known, self._layer, width)
        arguments[_Argument.PER_CHUNK] = CHUNK // self._shadow.granule
        return bool(arguments[0])

    def _run(
        self,
        name: str,
        column: int,
        row: int,
        chunks: Chunks,
        begin: int,
        line: int,
        slot: int,
        *,
        through: bool,
    ) -> bool:
        self._calls += 1
        first = chunks.first
        if (
            self._calls < _WORTH
            or self._size < CHUNK
            or first.dtype != np.int64
            or not first.flags.c_contiguous
        ):
            return False
        self._refresh()
        known = self._known + 4 * row * self._seen[0].shape[2]
        time = self._clocks.times[column] + 1
        rank = row // self._readers * self._readers
        self._arguments[: _Argument.SHIFT] = (
            *(0, len(first), begin, self._size - CHUNK, column, time, line, slot, through),
            *(known, known + self._layer, known + 4 * rank, known + self._layer * through + 4 * rank),
        )
        _function(name)(first.ctypes.data, self._pointer)
        return bool(self._arguments[0])

    def _refresh(self) -> None:
        """Where the arrays are now."""
        clocks, shadow = self._clocks, self._shadow
        seen = clocks.all, shadow.written, shadow.unit, clocks.through_proxy
        if len(self._seen) == len(seen) and all(map(is_, seen, self._seen)):
            return
        self._seen = seen
        self._known = clocks.all.ctypes.data
        self._layer = clocks.all.strides[0]
        shift = shadow.granule.bit_length() - 1
        arrays = shadow.writer, shadow.written, shadow.write_line, shadow.read_line, shadow.reads
        self._arguments[_Argument.SHIFT :] = (
            *(shift, CHUNK >> shift, *(array.ctypes.data for array in arrays), self._readers),
            *(shadow.unit.ctypes.data, shadow.taken.ctypes.data, len(shadow.unit), shadow.granules),
            shadow.read_by.ctypes.data,
            clocks.through_proxy.ctypes.data,
        )


@cache
def _function(name: str) -> Callable[..., None]:
    return compiled(_text(name), name, pointers=2, numbers=0)


@cache
def _each() -> Callable[..., None]:
    loaded, put = [], []
    for part in Listed:
        kind = "ptr" if part is Listed.FIRST else "i64"
        loaded += [
            f"  %at.{part.name} = getelementptr i64, ptr %mine, i64 {int(part)}",
            f"  %{part.name} = load {kind}, ptr %at.{part.name}",
        ]
    for name in ("COUNT", "BEGIN", "COLUMN", "TIME", "SLOT", "KNOWN", "FENCED", "RANKS", "PER_CHUNK"):
        kind = "ptr" if name in ("KNOWN", "FENCED", "RANKS") else "i64"
        value = f"%{name}" if name in Listed.__members__ and kind == "i64" else f"%{name}.of"
        put += [
            f"  %to.{name} = getelementptr i64, ptr %arguments, i64 {int(_Argument[name])}",
            f"  store {kind} {value}, ptr %to.{name}",
        ]
    text = _EACH.format(
        parts=len(Listed), shift=int(_Argument.SHIFT), loaded="\n".join(loaded), put="\n".join(put)
    )
    return compiled(text + _text("reads"), "each", pointers=2, numbers=4)


def _text(name: str) -> str:
    loaded = []
    for argument in _Argument:
        kind = "ptr" if argument in _POINTERS else "i64"
        loaded += [
            f"  %at.{argument.name} = getelementptr i64, ptr %arguments, i64 {int(argument)}",
            f"  %{argument.name} = load {kind}, ptr %at.{argument.name}",
        ]
    read = _READ.format(block=BLOCK_SHIFT)
    check, record = (_READ_CHECK, read) if name == "reads" else (_WRITE_CHECK, _WRITE)
    return _LOOPS.format(name=name, loaded="\n".join(loaded), check=check, record=record, never=NEVER)


_POINTERS = {
    *(_Argument.KNOWN, _Argument.FENCED, _Argument.RANKS, _Argument.SHOWN),
    *(
        _Argument.WRITER,
        _Argument.WRITTEN,
        _Argument.WRITE_LINE,
        _Argument.READ_LINE,
        _Argument.READS,
        _Argument.UNIT,
        _Argument.TAKEN,
    ),
    *(_Argument.READ_BY, _Argument.PROXIES),
}
_EACH = """
define void @each(ptr %lists, ptr %arguments, i64 %lists.count, i64 %known, i64 %layer, i64 %width) {{
entry:
  br label %list
list:
  %l = phi i64 [0, %entry], [%l.next, %record]
  %list.first = mul i64 %l, {parts}
  %mine = getelementptr i64, ptr %lists, i64 %list.first
{loaded}
  %row.begin = mul i64 %ROW, %width
  %known.row = add i64 %known, %row.begin
  %fenced.row = add i64 %known.row, %layer
  %ranks.begin = mul i64 %RANKS, 4
  %ranks.row = add i64 %known.row, %ranks.begin
  %KNOWN.of = inttoptr i64 %known.row to ptr
  %FENCED.of = inttoptr i64 %fenced.row to ptr
  %RANKS.of = inttoptr i64 %ranks.row to ptr
  %shift.at = getelementptr i64, ptr %arguments, i64 {shift}
  %shift = load i64, ptr %shift.at
  %PER_CHUNK.of = lshr i64 %USED, %shift
  %whole = shl i64 %PER_CHUNK.of, %shift
  %divided = icmp ne i64 %whole, %USED
{put}
  store i64 0, ptr %arguments
  br i1 %divided, label %end, label %record
record:
  call void @reads(ptr %FIRST, ptr %arguments)
  %fine = load i64, ptr %arguments
  %bad = icmp eq i64 %fine, 0
  %l.next = add i64 %l, 1
  %l.last = icmp eq i64 %l.next, %lists.count
  %l.over = or i1 %bad, %l.last
  br i1 %l.over, label %end, label %list
end:
  ret void
}}
"""
_LOOPS = """
define void @{name}(ptr %firsts, ptr %arguments) {{
entry:
{loaded}
  %time = trunc i64 %TIME to i32
  %line = trunc i64 %LINE to i32
  %looks = icmp ne i64 %THROUGH, 0
  %slot.begin = mul i64 %SLOT, %GRANULES
  %slot = trunc i64 %SLOT to i32
  %slot.bit = shl i32 1, %slot
  br label %pass
pass:
  %second = phi i1 [false, %entry], [true, %pass.end]
  br label %chunk
chunk:
  %i = phi i64 [0, %pass], [%i.next, %chunk.end]
  %first.at = getelementptr i64, ptr %firsts, i64 %i
  %first = load i64, ptr %first.at
  %outside = icmp ugt i64 %first, %END
  br i1 %outside, label %refuse, label %inside
inside:
  %byte = add i64 %first, %BEGIN
  %g.first = lshr i64 %byte, %SHIFT
  %g.end = add i64 %g.first, %PER_CHUNK
  br label %granule
granule:
  %g = phi i64 [%g.first, %inside], [%g.next, %granule.end]
  br i1 %second, label %record, label %check
check:
  %written.at = getelementptr i32, ptr %WRITTEN, i64 %g
  %written = load i32, ptr %written.at
  %writer.at = getelementptr i64, ptr %WRITER, i64 %g
  %writer = load i64, ptr %writer.at
  %known.at = getelementptr i32, ptr %KNOWN, i64 %writer
  %known = load i32, ptr %known.at
  %late = icmp sgt i32 %written, %known
  %never = icmp eq i32 %written, {never}
  %fenced.at = getelementptr i32, ptr %FENCED, i64 %writer
  %fenced = load i32, ptr %fenced.at
  %unseen = icmp sgt i32 %written, %fenced
  %proxy.at = getelementptr i8, ptr %PROXIES, i64 %writer
  %proxy = load i8, ptr %proxy.at
  %direct = icmp eq i8 %proxy, 0
  %hidden.some = and i1 %unseen, %direct
  %hidden.all = and i1 %hidden.some, %looks
  %ever = xor i1 %never, true
  %hidden = and i1 %hidden.all, %ever
{check}
record:
{record}
  br label %granule.end
granule.end:
  %g.next = add i64 %g, 1
  %g.more = icmp ult i64 %g.next, %g.end
  br i1 %g.more, label %granule, label %chunk.end
chunk.end:
  %i.next = add i64 %i, 1
  %i.more = icmp ult i64 %i.next, %COUNT
  br i1 %i.more, label %chunk, label %pass.end
pass.end:
  br i1 %second, label %end, label %pass
end:
  store i64 1, ptr %at.FINE
  ret void
refuse:
  ret void
}}
"""
_READ_CHECK = """
  %bad = or i1 %late, %hidden
  br i1 %bad, label %refuse, label %granule.end
"""
_READ = """
  %own = add i64 %slot.begin, %g
  %unit.to = getelementptr i64, ptr %UNIT, i64 %own
  store i64 %COLUMN, ptr %unit.to
  %taken.to = getelementptr i32, ptr %TAKEN, i64 %own
  store i32 %time, ptr %taken.to
  %line.to = getelementptr i32, ptr %READ_LINE, i64 %g
  store i32 %line, ptr %line.to
  %by.byte = shl i64 %g, %SHIFT
  %by.block = lshr i64 %by.byte, {block}
  %by.at = getelementptr i32, ptr %READ_BY, i64 %by.block
  %by.old = load i32, ptr %by.at
  %by.new = or i32 %by.old, %slot.bit
  store i32 %by.new, ptr %by.at
"""
_WRITE_CHECK = """
  %late.write = and i1 %late, %ever
  %bad = or i1 %late.write, %hidden
  br i1 %bad, label %refuse, label %ranks
ranks:
  %reads.begin = mul i64 %g, %READERS
  br label %rank
rank:
  %r = phi i64 [0, %ranks], [%r.next, %rank.end]
  %read.index = add i64 %reads.begin, %r
  %read.at = getelementptr i32, ptr %READS, i64 %read.index
  %read = load i32, ptr %read.at
  %seen.at = getelementptr i32, ptr %RANKS, i64 %r
  %seen = load i32, ptr %seen.at
  %unread = icmp sgt i32 %read, %seen
  %shown.at = getelementptr i32, ptr %SHOWN, i64 %r
  %shown = load i32, ptr %shown.at
  %unshown = icmp sgt i32 %read, %shown
  %early = or i1 %unread, %unshown
  br i1 %early, label %refuse, label %rank.end
rank.end:
  %r.next = add i64 %r, 1
  %r.more = icmp ult i64 %r.next, %READERS
  br i1 %r.more, label %rank, label %units
units:
  %u.any = icmp ugt i64 %UNITS, 0
  br i1 %u.any, label %unit, label %granule.end
unit:
  %u = phi i64 [0, %units], [%u.next, %unit.end]
  %u.begin = mul i64 %u, %GRANULES
  %u.index = add i64 %u.begin, %g
  %unit.at = getelementptr i64, ptr %UNIT, i64 %u.index
  %unit.column = load i64, ptr %unit.at
  %taken.at = getelementptr i32, ptr %TAKEN, i64 %u.index
  %taken = load i32, ptr %taken.at
  %done.at = getelementptr i32, ptr %KNOWN, i64 %unit.column
  %done = load i32, ptr %done.at
  %held = icmp sgt i32 %taken, %done
  br i1 %held, label %refuse, label %unit.end
unit.end:
  %u.next = add i64 %u, 1
  %u.more = icmp ult i64 %u.next, %UNITS
  br i1 %u.more, label %unit, label %granule.end
"""
_WRITE = """
  %writer.to = getelementptr i64, ptr %WRITER, i64 %g
  store i64 %COLUMN, ptr %writer.to
  %written.to = getelementptr i32, ptr %WRITTEN, i64 %g
  store i32 %time, ptr %written.to
  %line.to = getelementptr i32, ptr %WRITE_LINE, i64 %g
  store i32 %line, ptr %line.to
"""
