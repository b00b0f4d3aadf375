"""Announcements of registers that wgmma may be using, in code of this host: see `RegisterState`.

`touch` announces what several instructions read and write, and `copy` a move. They return 0 if a register is
in use: then the interpreter announces each instruction, and reports it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir  # type: ignore[import-untyped]

from weft.emulator.compiled.builder import I8, I32, I64, POINTER, Code, Value
from weft.emulator.compiled.state import Field, Operand


class _Announcement(Code):
    """A function that gets the state of a machine and an operation."""

    def __init__(self, module: ir.Module, name: str) -> None:
        super().__init__(module, name, [POINTER, POINTER, POINTER])
        self.state, self.operation, _ = self.arguments
        with self.when(self.is_("==", self.field(Field.CHECKED), 0)):
            self.give(1)
        self.numbers = self.load(self.operation, Operand.OFFSETS, POINTER)
        self.reads = self.load(self.operation, Operand.READS)
        self.both = self.b.add(self.reads, self.load(self.operation, Operand.WRITES))

    def field(self, which: Field, kind: "ir.Type" = I64) -> Value:
        return self.load(self.state, which, kind)

    @contextmanager
    def rows(self) -> Iterator[Value]:
        """Runs for each warp of the group: its row."""
        with self.loop(self.field(Field.COUNT)) as index:
            yield self.wide(self.load(self.field(Field.ROWS, POINTER), index, I32))

    def known(self, row: Value) -> Value:
        """The time of its unit that a warp knows of."""
        begin = self.b.mul(row, self.field(Field.KNOWN_WIDTH))
        clock = self.at(self.field(Field.KNOWN, POINTER), begin, I32)
        return self.load(clock, self.load(self.field(Field.COLUMNS, POINTER), row), I32)

    def of(self, register: Value, row: Value) -> Value:
        """The index of a watched register of a warp."""
        return self.b.add(self.b.mul(register, self.field(Field.WARPS)), row)

    def set_changed(self, register: Value, row: Value, changed: Value) -> None:
        self.store(changed, self.field(Field.CHANGED, POINTER), self.of(register, row), I8)
        any_changed = self.at(self.field(Field.HAS_CHANGED, POINTER), row, I8)
        self.b.store(self.b.or_(self.b.load(any_changed, typ=I8), changed), any_changed)


def _touch(module: ir.Module) -> None:
    c = _Announcement(module, "touch")
    with c.rows() as row:
        known = c.known(row)
        for begin, until in ((c.number(0), Field.BUSY), (c.reads, Field.HELD)):
            with c.loop(c.both, begin) as at:
                time = c.load(c.field(until, POINTER), c.of(c.load(c.numbers, at), row), I32)
                c.give_when(c.more(time, known), 0)
    with c.rows() as row, c.loop(c.both) as at:
        c.set_changed(c.load(c.numbers, at), row, c.number(1, I8))
    c.give(1)


def _copy(module: ir.Module) -> None:
    c = _Announcement(module, "copy")
    busy, changed = c.field(Field.BUSY, POINTER), c.field(Field.CHANGED, POINTER)
    with c.rows() as row:
        time, state = c.variable(0, I32), c.variable(0, I8)
        c.b.store(c.number(0, I32), time)
        c.b.store(c.number(0, I8), state)
        with c.when(c.is_("!=", c.reads, 0)):
            source = c.of(c.load(c.numbers), row)
            c.b.store(c.load(busy, source, I32), time)
            c.b.store(c.load(changed, source, I8), state)
        known = c.known(row)
        free = c.b.not_(c.more(c.b.load(time, typ=I32), known))
        for until in (busy, c.field(Field.HELD, POINTER)):
            with c.loop(c.both, c.reads) as at:
                in_use = c.more(c.load(until, c.of(c.load(c.numbers, at), row), I32), known)
                c.give_when(c.b.and_(free, in_use), 0)
        with c.loop(c.both, c.reads) as at:
            register = c.load(c.numbers, at)
            c.store(c.b.load(time, typ=I32), busy, c.of(register, row), I32)
            c.set_changed(register, row, c.b.load(state, typ=I8))
    c.give(1)


def add_touches(module: ir.Module) -> None:
    """Adds `touch` and `copy`."""
    _touch(module)
    _copy(module)
