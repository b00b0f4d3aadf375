"""The checks of the bulk unit's accesses in code of the host, as `sanitizer.races` and
`sanitizer.global_races` define them.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from weft.emulator.compiled.box_state import Buffer, Call, Part
from weft.emulator.compiled.builder import I1, I8, I32, I64, Code, Value
from weft.emulator.sanitizer.global_memory import COLUMN_BITS
from weft.emulator.sanitizer.shadow import BLOCK_SHIFT, NEVER, READ_BY_THREADS, READ_BY_UNITS


class SharedChecks:
    """Those in shared memory, for one granule. What may break a rule makes the function return 0."""

    def __init__(self, code: Code, call: Mapping[Call, Value], part: Mapping[Part, Value]) -> None:
        self.code, self.call, self.part = code, call, part
        self.line = code.b.trunc(call[Call.LINE], I32)
        self.slot = code.b.mul(call[Call.SLOT], part[Part.GRANULES])
        self.reader = code.b.shl(code.number(1, I32), code.b.trunc(call[Call.SLOT], I32))

    def check_read(self, granule: Value) -> None:
        """A read: the last write must be known, and the unit must see it."""
        written = self.code.load(self.part[Part.WRITTEN], granule, I32)
        self.code.give_when(self.code.is_("==", written, NEVER), 0)
        self._after_write(granule, written)

    def _after_write(self, granule: Value, written: Value) -> None:
        c = self.code
        writer = c.load(self.part[Part.WRITER], granule)
        c.give_when(c.more(written, c.load(self.call[Call.KNOWN], writer, I32)), 0)
        direct = c.is_("==", c.load(self.part[Part.PROXIES], writer, I8), 0)
        unseen = c.more(written, c.load(self.call[Call.FENCED], writer, I32))
        c.give_when(c.b.and_(direct, unseen), 0)

    def check_write(self, granule: Value) -> None:
        """A write: the last write and all reads must be known, and the unit must see that."""
        c, part = self.code, self.part
        written = c.load(part[Part.WRITTEN], granule, I32)
        with c.when(c.is_("!=", written, NEVER)):
            self._after_write(granule, written)
        late = c.variable(0, I1)
        reads = c.b.mul(granule, part[Part.READERS])
        by = c.b.load(self._read_by(granule), typ=I32)
        threads = c.is_("!=", c.b.and_(by, c.number(READ_BY_THREADS, I32)), 0)
        with c.when(threads), c.loop(part[Part.READERS]) as reader:
            read = c.load(part[Part.READS], c.b.add(reads, reader), I32)
            for seen in (Call.RANKS, Call.SHOWN):
                self._or(late, c.more(read, c.load(self.call[seen], reader, I32)))
        with c.bits(c.b.and_(by, c.number(READ_BY_UNITS, I32))) as unit:
            at = c.b.add(c.b.mul(unit, part[Part.GRANULES]), granule)
            column = c.load(part[Part.UNIT], at)
            taken = c.load(part[Part.TAKEN], at, I32)
            self._or(late, c.more(taken, c.load(self.call[Call.KNOWN], column, I32)))
        c.give_when(c.b.load(late, typ=I1), 0)

    def _read_by(self, granule: Value) -> Value:
        """The address of who has read the block of a granule."""
        b = self.code.b
        block = b.lshr(b.shl(granule, self.part[Part.SHIFT]), self.code.number(BLOCK_SHIFT))
        return self.code.at(self.part[Part.READ_BY], block, I32)

    def _or(self, place: Value, more: Value) -> None:
        b = self.code.b
        b.store(b.or_(b.load(place, typ=I1), more), place)

    def record_read(self, granule: Value, column: Value, time: Value) -> None:
        c, part = self.code, self.part
        at = c.b.add(self.slot, granule)
        c.store(column, part[Part.UNIT], at)
        c.store(c.b.trunc(time, I32), part[Part.TAKEN], at, I32)
        c.store(self.line, part[Part.READ_LINE], granule, I32)
        by = self._read_by(granule)
        c.b.store(c.b.or_(c.b.load(by, typ=I32), self.reader), by)

    def record_write(self, granule: Value, column: Value, time: Value) -> None:
        c, part = self.code, self.part
        c.store(column, part[Part.WRITER], granule)
        c.store(c.b.trunc(time, I32), part[Part.WRITTEN], granule, I32)
        c.store(self.line, part[Part.WRITE_LINE], granule, I32)


class GlobalChecks:
    """Those in global memory, for `size` bytes from byte `begin` of a buffer on."""

    def __init__(
        self,
        code: Code,
        call: Mapping[Call, Value],
        part: Mapping[Part, Value],
        buffer: Mapping[Buffer, Value],
    ) -> None:
        self.code, self.call, self.part, self.buffer = code, call, part, buffer
        self.is_checked = code.is_("!=", buffer[Buffer.CHECKED], 0)
        self.is_written = code.is_("!=", buffer[Buffer.IS_WRITTEN], 0)
        address = code.b.ptrtoint(buffer[Buffer.FILLED], I64)
        self.is_filled_later = code.is_("!=", address, 0)
        self.line = code.b.trunc(call[Call.LINE], I32)
        self.time = code.b.trunc(call[Call.TIME], I32)

    def _at(self, slot: int, granule: Value) -> Value:
        """The index of a granule in the rows of the last write (0) and the last reads (1, 2)."""
        b = self.code.b
        return b.add(granule, b.mul(self.buffer[Buffer.GRANULES], self.code.number(slot)))

    def _time(self, slot: int, granule: Value) -> Value:
        return self.code.load(self.buffer[Buffer.TIME], self._at(slot, granule), I32)

    def _owner(self, slot: int, granule: Value) -> Value:
        return self.code.load(self.buffer[Buffer.OWNER], self._at(slot, granule))

    @contextmanager
    def _granules(self, begin: Value, size: Value) -> Iterator[Value]:
        b, shift = self.code.b, self.buffer[Buffer.SHIFT]
        with self.code.loop(b.lshr(b.add(begin, size), shift), b.lshr(begin, shift)) as granule:
            yield granule

    def check(self, begin: Value, size: Value, *, loads: bool) -> None:
        c, b = self.code, self.code.b
        with c.when(self.is_checked):
            mask = b.sub(b.shl(c.number(1), self.buffer[Buffer.SHIFT]), c.number(1))
            c.give_when(c.is_("!=", b.and_(b.or_(begin, size), mask), 0), 0)
            if loads:
                with c.when(self.is_filled_later), c.loop(b.add(begin, size), begin) as byte:
                    c.give_when(c.is_("==", c.load(self.buffer[Buffer.FILLED], byte, I8), 0), 0)
                with c.when(self.is_written), self._granules(begin, size) as granule:
                    self._check_write(granule)
                return
            with self._granules(begin, size) as granule:
                with c.when(self.is_written):
                    self._check_write(granule)
                for slot in (1, 2):
                    time = self._time(slot, granule)
                    with c.when(c.more(time, 0)):
                        self._known(self._owner(slot, granule), time)

    def _check_write(self, granule: Value) -> None:
        """The last write must be known, and the unit must see it."""
        c, b = self.code, self.code.b
        time = self._time(0, granule)
        with c.when(c.more(time, 0)):
            owner = self._owner(0, granule)
            column = self._known(owner, time)
            unseen = c.more(time, c.load(self.call[Call.SEEN], column, I32))
            c.give_when(b.and_(unseen, c.is_("<", column, self.part[Part.WARPS])), 0)

    def _known(self, owner: Value, time: Value) -> Value:
        """An access must be known, unless it is by the same unit. Those of other waves are left to the
        interpreter. Returns the column of the owner.
        """
        c, b = self.code, self.code.b
        c.give_when(c.is_("!=", b.lshr(owner, c.number(COLUMN_BITS)), self.part[Part.NUMBER]), 0)
        column = b.and_(owner, c.number((1 << COLUMN_BITS) - 1))
        late = c.more(time, c.load(self.call[Call.KNOWN], column, I32))
        c.give_when(b.and_(late, c.is_("!=", owner, self.call[Call.OWNER])), 0)
        return column

    def record(self, begin: Value, size: Value, *, loads: bool, checked: bool) -> None:
        c, b = self.code, self.code.b
        if not loads:
            with c.when(self.is_filled_later), c.loop(b.add(begin, size), begin) as byte:
                c.store(1, self.buffer[Buffer.FILLED], byte, I8)
        if not checked:
            return
        with c.when(self.is_checked):
            if not loads:
                with self._granules(begin, size) as granule:
                    self._put(0, granule)
                    c.store(0, self.buffer[Buffer.LEVEL], granule, I8)
                return
            with (
                c.when(c.is_("!=", self.call[Call.AWAITED], 0)),
                self._granules(begin, size) as granule,
            ):
                self._keep(granule)
                self._put(1, granule)

    def _put(self, slot: int, granule: Value) -> None:
        c, at = self.code, self._at(slot, granule)
        c.store(self.call[Call.OWNER], self.buffer[Buffer.OWNER], at)
        c.store(self.time, self.buffer[Buffer.TIME], at, I32)
        c.store(self.line, self.buffer[Buffer.LINE], at, I32)

    def _keep(self, granule: Value) -> None:
        """Keeps the last read by another unit."""
        c, b = self.code, self.code.b
        last, time = self._owner(1, granule), self._time(1, granule)
        other = b.and_(c.is_("!=", last, self.call[Call.OWNER]), c.more(time, 0))
        with c.when(other):
            to = self._at(2, granule)
            line = c.load(self.buffer[Buffer.LINE], self._at(1, granule), I32)
            c.store(last, self.buffer[Buffer.OWNER], to)
            c.store(time, self.buffer[Buffer.TIME], to, I32)
            c.store(line, self.buffer[Buffer.LINE], to, I32)
