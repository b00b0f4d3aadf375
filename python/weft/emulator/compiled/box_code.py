"""Code of the host that copies a box or a run of bytes between global and shared memory, with the checks of
the sanitizer. If a rule may be broken, it changes nothing, and the interpreter finds out.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from llvmlite import ir  # type: ignore[import-untyped]

from weft.emulator import native
from weft.emulator.compiled.box_shadows import GlobalChecks, SharedChecks
from weft.emulator.compiled.box_state import POINTERS, Buffer, Call, Cta, Part
from weft.emulator.compiled.builder import I8, I32, I64, POINTER, Code, Value
from weft.emulator.memory.boxes import OUTER, Shape
from weft.emulator.memory.mbarrier import MARK_SHIFT, PENDING_SHIFT, TX_BITS, TX_SHIFT
from weft.isa.mbarriers import MOST_ARRIVALS, MOST_TRANSACTION_BYTES

_WORD = 8
_CHUNK = 16
_PATTERN_SHIFT = 7
_EXPONENT, _FRACTION, _QUIET = 0x7F800000, 0x7FFFFF, 0x7FFFE000
_BELOW_HALF, _DROPPED, _KEPT = 0xFFF, 13, 0xFFFFE000


@cache
def library(name: str) -> native.Library:
    """load, load_checked, store or store_checked: a function that takes the addresses of the numbers of
    `Shape`, `Call`, `Part` and `Buffer`, and returns whether it has copied.
    """
    return native.Library(f"box {name}", lambda: text(name), [name])


def text(name: str) -> str:
    """The LLVM IR of a function."""
    module = ir.Module(name)
    _Copy(module, name, loads=name.startswith("load"), checked=name.endswith("checked")).write()
    return str(module)


class _Row(NamedTuple):
    """A row of the box: its number, where it begins in the buffer, and which of its bytes are inside."""

    number: Value
    offset: Value
    first: Value
    last: Value


class _Piece(NamedTuple):
    """A piece of a row: its first byte in the row, and in the shared memory of a CTA with index `cta`."""

    byte: Value
    shared: Value
    linear: Value
    cta: Value


class _Copy(Code):
    def __init__(self, module: ir.Module, name: str, *, loads: bool, checked: bool) -> None:
        super().__init__(module, name, [POINTER] * 4)
        self.loads, self.checked = loads, checked
        shape, call, part, buffer = self.arguments
        self.shape = {each: self.load(shape, each) for each in Shape}
        pointers = iter(POINTERS)
        self.call: Mapping[Call, Value] = self._fields(call, Call, next(pointers))
        self.part: Mapping[Part, Value] = self._fields(part, Part, next(pointers))
        self.buffer: Mapping[Buffer, Value] = self._fields(buffer, Buffer, next(pointers))
        self.inside = self.variable(0)
        self.shadow = SharedChecks(self, self.call, self.part)
        self.globals = GlobalChecks(self, self.call, self.part, self.buffer)

    def _fields(self, numbers: Value, which: Iterable[Any], pointers: Container[Any]) -> dict[Any, Value]:
        return {each: self.load(numbers, each, POINTER if each in pointers else I64) for each in which}

    def write(self) -> None:
        b = self.b
        if self.checked:
            self._refuse_coarse(self.part[Part.SHIFT])
        for checks in (True, False):
            with self._rows() as row:
                some = b.icmp_signed("<", row.first, row.last)
                with self.when(some):
                    self._in_global(row, checks=checks)
                with self._pieces(row) as piece:
                    if checks:
                        self._check_piece(piece)
                    else:
                        self._move(row, piece)
            if checks and self.loads:
                self._check_marks()
        if self.loads:
            self._count_down()
        self.store(b.load(self.inside, typ=I64), self.arguments[1], Call.INSIDE)
        self.give(1)

    def _refuse_coarse(self, shift: Value) -> None:
        """Granules must divide pieces."""
        mask = self.b.sub(self.b.shl(self.number(1), shift), self.number(1))
        self.give_when(self.is_("!=", self.b.and_(self.shape[Shape.PIECE], mask), 0), 0)

    # The box

    @contextmanager
    def _rows(self) -> Iterator[_Row]:
        """Runs for each row of the box."""
        b, shape = self.b, self.shape
        byte = self._first_byte()
        start = b.sub(b.add(shape[Shape.BASE], byte), self.buffer[Buffer.BASE])
        end = shape[Shape.LOAD_END if self.loads else Shape.STORE_END]
        first = self._clamped(b.sub(self.number(0), byte))
        last = self._clamped(b.sub(end, byte))
        number = self.variable(0)
        with self._outer(OUTER - 1, start, self.number(1, ir.IntType(1))) as (offset, inside):
            now = b.load(number, typ=I64)
            zero = self.number(0)
            yield _Row(now, offset, b.select(inside, first, zero), b.select(inside, last, zero))
            self.add(number, 1)

    def _first_byte(self) -> Value:
        """The byte of its row in the tensor at which the box begins."""
        b, column = self.b, self._coordinate(Call.COORDINATES)
        return b.mul(b.sdiv(column, self.shape[Shape.PACKING]), self.shape[Shape.UNIT])

    def _coordinate(self, at: "Value | int") -> Value:
        return self.b.sext(self.b.trunc(self.load(self.arguments[1], at), I32), I64)

    def _clamped(self, value: Value) -> Value:
        """A number between 0 and the bytes of a row."""
        b, most = self.b, self.shape[Shape.BYTES]
        value = b.select(self.more(value, 0), value, self.number(0))
        return b.select(self.more(value, most), most, value)

    @contextmanager
    def _outer(self, at: int, offset: Value, inside: Value) -> Iterator[tuple[Value, Value]]:
        """Runs for each index of the dimensions up to `at`, the outermost one first."""
        b, shape = self.b, self.shape
        numbers = [self._of(kind, at) for kind in (Shape.SIZES, Shape.STEPS, Shape.DIMS, Shape.STRIDES)]
        size, step, dim, stride = numbers
        with self.loop(size) as index:
            first: Value = self.number(Call.COORDINATES + 1 + at)
            if at == 0:
                gathered = b.add(self.number(Call.ROWS), index)
                gathers = self.is_("!=", shape[Shape.GATHERS], 0)
                first = b.select(gathers, gathered, first)
                step = b.select(gathers, self.number(0), step)
            coordinate = b.add(self._coordinate(first), b.mul(index, step))
            here = b.and_(inside, self.is_("<", coordinate, dim))
            there = b.add(offset, b.mul(coordinate, stride))
            if at:
                with self._outer(at - 1, there, here) as found:
                    yield found
            else:
                yield there, here

    def _of(self, kind: Shape, at: int) -> Value:
        return self.load(self.arguments[0], kind + at)

    @contextmanager
    def _ctas(self) -> Iterator[tuple[Value, Value]]:
        """Runs for each CTA: its number, and the address of its numbers."""
        b = self.b
        with self.loop(self.call[Call.COUNT]) as index:
            at = b.add(self.number(Call.CTAS), b.mul(index, self.number(len(Cta))))
            yield index, self.at(self.arguments[1], at)

    @contextmanager
    def _pieces(self, row: _Row) -> Iterator[_Piece]:
        """Runs for each piece of a row, in the shared memory of each CTA."""
        b, shape = self.b, self.shape
        begin = b.mul(row.number, shape[Shape.PITCH])
        with self._ctas() as (_, cta):
            base = b.add(begin, self.load(cta, Cta.BEGIN))
            with self.loop(shape[Shape.PIECES]) as piece:
                linear = b.add(base, b.mul(piece, shape[Shape.SPREAD]))
                pattern = b.shl(b.lshr(linear, self.number(_PATTERN_SHIFT)), shape[Shape.SWIZZLE_SHIFT])
                shared = b.xor(linear, b.and_(pattern, shape[Shape.SWIZZLE_MASK]))
                yield _Piece(b.mul(piece, shape[Shape.PIECE]), shared, linear, cta)

    # The mbarriers

    def _mark(self, cta: Value) -> tuple[Value, Value]:
        """The address of an mbarrier, and whether there still is one."""
        b = self.b
        place = self.at(self.part[Part.SHARED], self.load(cta, Cta.MARK), I8)
        bits = b.and_(b.lshr(self.load(place), self.number(MARK_SHIFT)), self.number(3))
        return place, self.is_("==", bits, 1)

    def _check_marks(self) -> None:
        with self._ctas() as (_, cta):
            self.give_when(self.b.not_(self._mark(cta)[1]), 0)

    def _count_down(self) -> None:
        """Counts the bytes that have arrived, where that is legal and doesn't complete the phase."""
        b, left = self.b, self.variable(0)
        most, above = self.number(MOST_TRANSACTION_BYTES), self.number(64 - TX_SHIFT - TX_BITS)
        with self._ctas() as (index, cta):
            place, marked = self._mark(cta)
            word = self.load(place)
            bytes_ = b.ashr(b.shl(word, above), self.number(64 - TX_BITS))
            rest = b.sub(bytes_, self.call[Call.TOTAL])
            pending = b.and_(b.lshr(word, self.number(PENDING_SHIFT)), self.number(MOST_ARRIVALS))
            legal = self.is_("<=", b.add(rest, most), 2 * MOST_TRANSACTION_BYTES)
            goes_on = self.is_("!=", b.or_(rest, pending), 0)
            with b.if_else(b.and_(marked, b.and_(legal, goes_on))) as (then, otherwise):
                with then:
                    field = self.number(((1 << TX_BITS) - 1) << TX_SHIFT)
                    count = b.and_(b.shl(rest, self.number(TX_SHIFT)), field)
                    self.store(b.or_(b.and_(word, b.not_(field)), count), place)
                with otherwise:
                    b.store(b.or_(b.load(left, typ=I64), b.shl(self.number(1), index)), left)
        self.store(b.load(left, typ=I64), self.arguments[1], Call.LEFT)

    # The passes

    def _in_global(self, row: _Row, *, checks: bool) -> None:
        b = self.b
        begin = b.add(row.offset, row.first)
        size = b.sub(row.last, row.first)
        if not checks:
            self.add(self.inside, size)
            self.globals.record(begin, size, loads=self.loads, checked=self.checked)
            return
        bytes_ = self.buffer[Buffer.SIZE]
        self.give_when(self.is_(">", begin, bytes_), 0)
        self.give_when(self.is_(">", b.add(begin, size), bytes_), 0)
        if self.checked:
            self.globals.check(begin, size, loads=self.loads)

    def _check_piece(self, piece: _Piece) -> None:
        b = self.b
        end = b.add(piece.shared, self.shape[Shape.PIECE])
        self.give_when(self.is_(">", end, self.load(piece.cta, Cta.END)), 0)
        if self.checked:
            with self._granules(piece) as granule:
                check = self.shadow.check_write if self.loads else self.shadow.check_read
                check(granule)

    @contextmanager
    def _granules(self, piece: _Piece) -> Iterator[Value]:
        b, shift = self.b, self.part[Part.SHIFT]
        first = b.lshr(piece.shared, shift)
        with self.loop(b.add(first, b.lshr(self.shape[Shape.PIECE], shift)), first) as granule:
            yield granule

    def _move(self, row: _Row, piece: _Piece) -> None:
        b, chunk = self.b, self.number(_CHUNK)
        end = b.add(piece.byte, self.shape[Shape.PIECE])
        whole = b.and_(b.icmp_signed(">=", piece.byte, row.first), b.icmp_signed("<=", end, row.last))
        plain = b.and_(whole, b.icmp_unsigned("==", self.shape[Shape.PIECE], chunk))
        if self.loads:
            plain = b.and_(plain, self.is_("==", self.shape[Shape.ROUNDS], 0))
        there = self.at(self.buffer[Buffer.DATA], b.add(row.offset, piece.byte), I8)
        flip = self._flip(piece)
        with b.if_else(plain) as (then, otherwise):
            with then:
                for at in (0, _WORD):
                    ends = self.at(there, at, I8), self._shared(piece, at, flip)
                    source, target = ends if self.loads else ends[::-1]
                    b.store(b.load(source, typ=I64, align=1), target, align=1)
            with otherwise:
                self._move_parts(row, piece, there, flip)
        if self.checked:
            with self._granules(piece) as granule:
                record = self.shadow.record_write if self.loads else self.shadow.record_read
                record(granule, self.load(piece.cta, Cta.COLUMN), self.load(piece.cta, Cta.TIME))

    def _flip(self, piece: _Piece) -> Value:
        """What swaps the halves of a chunk in every other 128 bytes."""
        b = self.b
        odd = b.and_(b.lshr(piece.linear, self.number(_PATTERN_SHIFT)), self.shape[Shape.FLIPS])
        return b.shl(b.and_(odd, self.number(1)), self.number(3))

    def _shared(self, piece: _Piece, at: "Value | int", flip: Value) -> Value:
        """The address of a byte of a piece."""
        b = self.b
        offset = self.number(at) if isinstance(at, int) else at
        return self.at(self.part[Part.SHARED], b.xor(b.add(piece.shared, offset), flip), I8)

    def _move_parts(self, row: _Row, piece: _Piece, there: Value, flip: Value) -> None:
        """Copies a piece by bytes, some of which may be out of bounds, or by words to round."""
        if not self.loads:
            self._bytes(row, piece, there, flip)
            return
        with self.b.if_else(self.is_("!=", self.shape[Shape.ROUNDS], 0)) as (then, otherwise):
            with then:
                self._words(row, piece, there, flip)
            with otherwise:
                self._bytes(row, piece, there, flip)

    def _is_inside(self, row: _Row, byte: Value) -> Value:
        b = self.b
        return b.and_(b.icmp_signed(">=", byte, row.first), b.icmp_signed("<", byte, row.last))

    def _bytes(self, row: _Row, piece: _Piece, there: Value, flip: Value) -> None:
        b = self.b
        with self.loop(self.shape[Shape.PIECE]) as at:
            inside = self._is_inside(row, b.add(piece.byte, at))
            here, far = self._shared(piece, at, flip), self.at(there, at, I8)
            source, to = (far, here) if self.loads else (here, far)
            with self.when(inside):
                b.store(b.load(source, typ=I8), to)
            if self.loads:
                with self.when(b.not_(inside)):
                    shift = b.shl(b.and_(at, self.number(_WORD - 1)), self.number(3))
                    b.store(b.trunc(b.lshr(self.shape[Shape.FILL], shift), I8), here)

    def _words(self, row: _Row, piece: _Piece, there: Value, flip: Value) -> None:
        b = self.b
        with self.loop(b.lshr(self.shape[Shape.PIECE], self.number(2))) as word:
            at = b.shl(word, self.number(2))
            here = self._shared(piece, at, flip)
            with b.if_else(self._is_inside(row, b.add(piece.byte, at))) as (then, otherwise):
                with then:
                    value = b.load(self.at(there, at, I8), typ=I32, align=1)
                    b.store(self._rounded(value), here, align=1)
                with otherwise:
                    b.store(b.trunc(self.shape[Shape.FILL], I32), here, align=1)

    def _rounded(self, word: Value) -> Value:
        """tf32 to nearest, ties to even."""
        b = self.b

        def bits(value: int) -> Any:
            return self.number(value, I32)

        special = b.icmp_unsigned("==", b.and_(word, bits(_EXPONENT)), bits(_EXPONENT))
        nan = b.icmp_unsigned("!=", b.and_(word, bits(_FRACTION)), bits(0))
        kept = b.select(nan, bits(_QUIET), word)
        odd = b.and_(b.lshr(word, bits(_DROPPED)), bits(1))
        up = b.add(b.add(word, bits(_BELOW_HALF)), odd)
        return b.select(special, kept, b.and_(up, bits(_KEPT)))
