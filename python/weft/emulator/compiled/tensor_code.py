"""Code of the host for the sanitizer's checks of rectangles of tensor memory, as
`sanitizer.tensor_memory` defines them. If a rule may be broken, it changes nothing and returns 0.
"""

from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]

from weft.emulator import native
from weft.emulator.compiled.builder import I1, I8, I32, I64, POINTER, Code, Value
from weft.emulator.compiled.tensor_state import POINTERS, Access, Call, Part
from weft.emulator.sanitizer.tensor_memory import Operation
from weft.isa.tcgen05.tensor_layouts import COLUMNS

NAME = "tensor_accesses"


@cache
def library() -> native.Library:
    """The function, which gets the address of the numbers of `Call`."""
    return native.Library(NAME, _text, [NAME])


def _text() -> str:
    module = ir.Module(NAME)
    _Accesses(module).write()
    return str(module)


class _One:
    """One access, and the shadow of its CTA."""

    def __init__(self, code: "_Accesses", index: Value) -> None:
        b = code.b
        at = code.at(code.call[Call.ACCESSES], b.mul(index, code.number(len(Access))))
        self.of = code.fields(at, Access, POINTERS[1])
        self.part = code.fields(self.of[Access.SHADOW], Part, POINTERS[2])
        self.stores = code.is_("!=", self.of[Access.STORES], 0)
        self.begin, self.end = self.of[Access.COLUMN], b.add(self.of[Access.COLUMN], self.of[Access.COLUMNS])


class _Accesses(Code):
    def __init__(self, module: ir.Module) -> None:
        super().__init__(module, NAME, [POINTER])
        self.call = self.fields(self.arguments[0], Call, POINTERS[0])

    def fields(self, numbers: Value, which: Iterable[Any], pointers: Container[Any]) -> dict[Any, Value]:
        return {each: self.load(numbers, each, POINTER if each in pointers else I64) for each in which}

    def write(self) -> None:
        for step in (self._check, self._record):
            with self.loop(self.call[Call.COUNT]) as index:
                step(_One(self, index))
        self.give(1)

    @contextmanager
    def _cells(self, one: _One) -> Iterator[Value]:
        """Runs for the index of each granule in each column."""
        b, granule = self.b, one.part[Part.GRANULE]
        first = b.udiv(one.of[Access.LANE], granule)
        last = b.add(first, b.udiv(one.of[Access.LANES], granule))
        with self.loop(last, first) as lane:
            row = b.mul(lane, self.number(COLUMNS))
            with self.loop(b.add(row, one.end), b.add(row, one.begin)) as cell:
                yield cell

    def _check(self, one: _One) -> None:
        b, part = self.b, one.part
        divided = b.urem(b.or_(one.of[Access.LANE], one.of[Access.LANES]), part[Part.GRANULE])
        self.give_when(self.is_("!=", divided, 0), 0)
        with self.loop(one.end, one.begin) as column:
            self.give_when(self.is_("==", self.load(part[Part.ALLOCATED], column, I32), 0), 0)
            self.give_when(self.is_("!=", self.load(part[Part.ENDING], column, I32), 0), 0)
        written, read = self.variable(0, I32), self.variable(0, I32)
        with self._cells(one) as cell:
            empty = self.is_("==", self.load(part[Part.FILLED], cell, I8), 0)
            self.give_when(b.and_(empty, b.not_(one.stores)), 0)
            self._check_number(one, self.load(part[Part.WRITES], cell, I32), written)
            with self.when(one.stores):
                self._check_number(one, self.load(part[Part.READS], cell, I32), read)

    def _check_number(self, one: _One, number: Value, last: Value) -> None:
        """Checks an earlier operation, unless it is the last one that was checked."""
        with self.when(self.is_("!=", number, self.b.load(last, typ=I32))):
            self.b.store(number, last)
            self._check_earlier(one, self.wide(number))

    def _check_earlier(self, one: _One, number: Value) -> None:
        """An earlier operation must be known, or one of the same thread that takes place before. If it is of
        another warp, fences must be in between.
        """
        b, call, access = self.b, self.call, one.of
        before = self.at(one.part[Part.OPERATIONS], b.mul(number, self.number(len(Operation))), I32)
        owner, time, row, use = (
            self.load(before, each, I32)
            for each in (Operation.OWNER, Operation.TIME, Operation.ROW, Operation.USE)
        )
        known = b.add(b.mul(access[Access.ROW], call[Call.WIDTH]), self.wide(owner))
        late = self.more(time, self.load(call[Call.KNOWN], known, I32))
        order = b.add(b.mul(access[Access.USE], call[Call.USES]), self.wide(use))
        ordered = self.is_("!=", self.load(call[Call.ORDERS], order, I8), 0)
        own = self.is_("==", self.wide(owner), access[Access.UNIT])
        self.give_when(b.and_(late, b.not_(b.and_(own, ordered))), 0)
        with self.when(self.is_("!=", call[Call.FENCES], 0)):
            other = self.is_("!=", self.wide(row), access[Access.ROW])
            bare = self.more(time, self.load(call[Call.PASSED], known, I32))
            self.give_when(b.and_(other, bare), 0)

    def _record(self, one: _One) -> None:
        b, part = self.b, one.part
        number = b.trunc(self._numbered(one), I32)
        numbers = b.select(one.stores, part[Part.WRITES], part[Part.READS])
        with self._cells(one) as cell:
            self.store(number, numbers, cell, I32)
        with self.when(one.stores), self._cells(one) as cell:
            self.store(1, part[Part.FILLED], cell, I8)

    def _numbered(self, one: _One) -> Value:
        """The number of the operation, which is the last one's if that is the same."""
        b, access = self.b, one.of
        time = self.b.add(self.load(self.call[Call.TIMES], access[Access.UNIT]), self.number(1))
        fields = {
            Operation.OWNER: access[Access.UNIT],
            Operation.TIME: time,
            Operation.LINE: self.call[Call.LINE],
            Operation.ROW: access[Access.ROW],
            Operation.USE: access[Access.USE],
        }
        used = one.part[Part.USED]
        number = self.variable(b.sub(self.load(used), self.number(1)))
        size = self.number(len(Operation))
        last = self.at(one.part[Part.OPERATIONS], b.mul(b.load(number, typ=I64), size), I32)
        same: Value = self.number(1, I1)
        for field, value in fields.items():
            same = b.and_(same, self.is_("==", self.load(last, field, I32), b.trunc(value, I32)))
        with self.when(b.not_(same)):
            b.store(self.load(used), number)
            self.add(used, 1)
            for field, value in fields.items():
                self.store(b.trunc(value, I32), self.at(last, size, I32), field, I32)
        return b.load(number, typ=I64)
