"""Code of the host for the operations on mbarriers of one instruction, where nothing is wrong.

Each function changes nothing and returns 0 if a rule may be broken, or in a case that it doesn't know: lanes
of a warp with several mbarriers, arrivals that complete more than one phase. `instructions.mbarrier` and the
sanitizer, which define the operations, then run them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]

from weft.emulator import native
from weft.emulator.compiled.builder import I1, I8, I32, I64, POINTER, Code, Value
from weft.emulator.compiled.mbarrier_state import NUMBERS, Field
from weft.emulator.memory.mbarrier import MARK, MARK_SHIFT, PENDING_SHIFT, TX_BITS, TX_SHIFT
from weft.emulator.memory.segments import RANK_SHIFT
from weft.isa.mbarriers import BYTES, MOST_ARRIVALS, MOST_TRANSACTION_BYTES

_LANES = 32
FUNCTIONS = ("look", "observe", "arrive", "commit")


@cache
def library() -> native.Library:
    """The functions, which get the address of a state."""
    return native.Library("mbarriers", text, FUNCTIONS)


def text() -> str:
    """The LLVM IR of the functions."""
    module = ir.Module("mbarriers")
    for name, write in zip(FUNCTIONS, (_look, _observe, _arrive, _commit), strict=True):
        write(_Operation(module, name))
    return str(module)


class _Operation(Code):
    """The parts that operations have in common."""

    def __init__(self, module: ir.Module, name: str) -> None:
        super().__init__(module, name, [POINTER])
        self.state = self.arguments[0]
        self.of = {
            field: self.load(self.state, field, I64 if field in NUMBERS else POINTER) for field in Field
        }
        self.watched = self.is_("!=", self.of[Field.WATCHED], 0)
        self.strict = self.is_("!=", self.of[Field.BY_LANE], 0)
        self.line = self.b.trunc(self.of[Field.LINE], I32)

    def row(self, index: Value) -> Value:
        return self.load(self.of[Field.ROWS], index)

    def mask(self, index: Value) -> Value:
        return self.load(self.of[Field.MASKS], index, I32)

    def lane(self, index: Value, lane: Value) -> Value:
        """The index of a lane of a warp in the instruction's operands."""
        return self.b.add(self.b.mul(index, self.number(_LANES)), lane)

    def find(self, index: Value) -> tuple[Value, Value]:
        """Finds the mbarrier of a warp, which must be alive, and the same for all of its lanes. Returns its
        place in the first CTA of the cluster, and the rank of its own CTA.
        """
        b, of = self.b, self.of
        mask, every = self.mask(index), of[Field.ADDRESSES]
        first = self.wide(b.cttz(mask, self.number(1, I1)))
        address = self.load(every, self.lane(index, first))
        with self.bits(mask) as lane:
            self.give_when(self.is_("!=", self.load(every, self.lane(index, lane)), address), 0)
        inside = b.sub(address, of[Field.WINDOW])
        self.give_when(self.is_(">", inside, (1 << 32) - 1), 0)
        rank, offset = (
            b.lshr(inside, self.number(RANK_SHIFT)),
            b.and_(inside, self.number((1 << RANK_SHIFT) - 1)),
        )
        self.give_when(self.is_(">=", rank, of[Field.CLUSTER]), 0)
        self.give_when(self.is_(">", b.add(offset, self.number(BYTES)), of[Field.SHARED_SIZE]), 0)
        self.give_when(self.is_("!=", b.and_(offset, self.number(BYTES - 1)), 0), 0)
        first = b.add(self.load(of[Field.BASES], self.row(index)), offset)
        number, word = self.at_place(b.add(first, b.mul(rank, of[Field.STRIDE])))
        self.store(number, of[Field.NUMBERS], index)
        b.store(word, self.at(of[Field.WORDS], index))
        return first, rank

    def at_place(self, place: Value) -> tuple[Value, Value]:
        """The number of the mbarrier at a byte of shared memory, which must be alive, and its address."""
        b, of = self.b, self.of
        number = self.load(of[Field.PLACES], b.udiv(place, self.number(BYTES)), I32)
        self.give_when(self.is_("==", number, 0), 0)
        word = self.at(of[Field.SHARED], place, I8)
        mark = b.and_(b.lshr(self.load(word), self.number(MARK_SHIFT)), self.number(3))
        self.give_when(self.is_("!=", mark, 1), 0)
        return b.sub(self.wide(number), self.number(1)), word

    def each(self) -> Any:
        """Runs for the index of each warp."""
        return self.loop(self.of[Field.COUNT])

    def mbarrier(self, index: Value) -> Value:
        return self.load(self.of[Field.NUMBERS], index)

    def word(self, index: Value) -> Value:
        return self.load(self.of[Field.WORDS], index, POINTER)

    # The sanitizer

    def known(self, layer: "Value | int", row: Value) -> Value:
        """The address of what a warp knows."""
        layer = self.number(layer) if isinstance(layer, int) else layer
        line = self.b.add(self.b.mul(layer, self.of[Field.WARPS]), row)
        return self.at(self.of[Field.KNOWN], self.b.mul(line, self.of[Field.WIDTH]), I32)

    def clock(self, which: Field, number: Value, layer: Value) -> Value:
        """The address of a layer of an mbarrier's clock."""
        line = self.b.add(self.b.mul(number, self.of[Field.LAYERS]), layer)
        return self.at(self.of[which], self.b.mul(line, self.of[Field.WIDTH]), I32)

    def check_use(self, row: Value, number: Value, near: "Value | None" = None) -> None:
        """A warp's use must be ordered after the init, and the mbarrier must have a column. `near`: no fence
        is needed in between.
        """
        b = self.b
        known = self.known(0, row)
        self.give_when(self.is_("<", self.signed(Field.COLUMNS, number), 0, signed=True), 0)
        init = self.signed(Field.INIT_ROWS, number)
        self.give_when(self.is_("<", init, 0, signed=True), 0)
        after = self.at_most(self.signed(Field.INIT_TIMES, number), self.load(known, init, I32))
        column = self.signed(Field.FENCED_COLUMNS, number)
        none = self.is_("<", column, 0, signed=True)
        some = self.load(known, b.select(none, self.number(0), column), I32)
        fenced = self.at_most(self.signed(Field.FENCED_TIMES, number), some)
        fenced = b.and_(b.not_(none), fenced)
        if near is not None:
            after = b.and_(after, near)
        self.give_when(b.not_(b.or_(after, fenced)), 0)

    def signed(self, which: Field, number: Value) -> Value:
        return self.load(self.of[which], number)

    def at_most(self, time: Value, known: Value) -> Value:
        return self.b.icmp_signed("<=", time, self.b.sext(known, I64))

    def is_(self, order: str, a: Value, b: "Value | int", *, signed: bool = False) -> Value:
        if signed:
            return self.b.icmp_signed(order, a, self._value(b, a.type))
        return super().is_(order, a, b)

    def record_use(self, row: Value, number: Value) -> None:
        """A warp uses an mbarrier."""
        self.record_use_by(row, number, self.load(self.known(0, row), row, I32))

    def record_use_by(self, column: Value, number: Value, time: Value) -> None:
        b, of = self.b, self.of
        at = b.add(b.mul(number, of[Field.WIDTH]), column)
        self.store(time, of[Field.USE_TIMES], at, I32)
        self.store(self.line, of[Field.USE_LINES], at, I32)
        order = self.at(of[Field.USE_ORDERS], at, I32)
        with self.when(self.is_("==", b.load(order, typ=I32), 0)):
            self.add(of[Field.USES], 1)
            b.store(b.trunc(self.load(of[Field.USES]), I32), order)

    def join(self, target: Value, source: Value) -> None:
        """Makes a clock know what another one does."""
        with self.loop(self.of[Field.WIDTH]) as column:
            old, new = self.load(target, column, I32), self.load(source, column, I32)
            self.store(self.b.select(self.more(new, old), new, old), target, column, I32)


def _look(c: _Operation) -> None:
    """Whether the phases that a wait names are complete. Changes nothing but the results."""
    total = c.variable(0)
    by_parity = c.is_("!=", c.of[Field.BY_PARITY], 0)
    with c.each() as index:
        c.find(index)
        phase = c.b.lshr(c.load(c.word(index)), c.number(63))
        with c.bits(c.mask(index)) as lane:
            at = c.lane(index, lane)
            asked = c.variable(0)
            with c.b.if_else(by_parity) as (parity, state):
                with parity:
                    c.b.store(c.b.and_(c.wide(c.load(c.of[Field.ASKED], at, I32)), c.number(1)), asked)
                with state:
                    c.b.store(c.b.lshr(c.load(c.of[Field.ASKED], at), c.number(63)), asked)
            done = c.is_("!=", phase, c.b.load(asked, typ=I64))
            c.store(c.b.zext(done, I8), c.of[Field.GIVEN], at, I8)
            c.add(total, c.wide(done))
    c.store(c.b.load(total, typ=I64), c.state, Field.RESULT)
    c.give(1)


def _observe(c: _Operation) -> None:
    """Threads have seen that the phase before the current one is complete."""
    with c.each() as index:
        c.find(index)
        c.check_use(c.row(index), c.mbarrier(index))
    with c.each() as index:
        row, number = c.row(index), c.mbarrier(index)
        c.record_use(row, number)
        live = _bits(c, c.at(c.of[Field.LIVE], c.b.mul(row, c.number(_LANES)), I8))
        others = c.b.and_(live, c.b.not_(c.mask(index)))
        some = c.b.and_(c.strict, c.is_("!=", others, 0))
        with c.when(some), c.loop(c.of[Field.WIDTH]) as column:
            c.store(c.load(c.known(0, row), column, I32), c.of[Field.BEFORE], column, I32)
        with c.loop(c.of[Field.LAYERS]) as layer:
            c.join(c.known(layer, row), c.clock(Field.DONE, number, layer))
        column = c.load(c.of[Field.COLUMNS], number)
        own, time = c.at(c.known(0, row), column, I32), c.b.trunc(c.load(c.of[Field.TIMES], column), I32)
        old = c.b.load(own, typ=I32)
        c.b.store(c.b.select(c.more(time, old), time, old), own)
        with c.when(some):
            _hold(c, index, row)
        held = c.is_("!=", c.load(c.of[Field.HOLDING], row, I8), 0)
        with c.when(c.b.and_(c.strict, held)):
            knowing = c.b.or_(c.load(c.of[Field.KNOWING], row, I32), c.mask(index))
            c.store(knowing, c.of[Field.KNOWING], row, I32)
            lacking = c.is_("!=", c.b.and_(live, c.b.not_(knowing)), 0)
            c.store(c.b.zext(lacking, I8), c.of[Field.HOLDING], row, I8)
    c.give(1)


def _bits(c: _Operation, lanes: Value) -> Value:
    """The lanes of a warp, of which memory has a byte each, as bits."""
    octets = ir.VectorType(I8, _LANES)
    return c.b.bitcast(
        c.b.icmp_unsigned("!=", c.b.load(lanes, typ=octets, align=1), ir.Constant(octets, None)), I32
    )


def _hold(c: _Operation, index: Value, row: Value) -> None:
    """The other lanes of a warp don't know what some have acquired (`WarpLanes._hold`)."""
    clock = c.at(c.of[Field.CLOCK], c.b.mul(row, c.of[Field.WIDTH]), I32)
    known, learned = c.known(0, row), c.variable(0, I1)
    with c.loop(c.of[Field.WIDTH]) as column:
        new = c.more(c.load(known, column, I32), c.load(c.of[Field.BEFORE], column, I32))
        c.b.store(c.b.or_(c.b.load(learned, typ=I1), new), learned)
    with c.when(c.b.load(learned, typ=I1)):
        held = c.is_("!=", c.load(c.of[Field.HOLDING], row, I8), 0)
        unlimited = c.number((1 << 31) - 1, I32)
        with c.loop(c.of[Field.WIDTH]) as column:
            before = c.load(c.of[Field.BEFORE], column, I32)
            limit = c.b.select(c.more(c.load(known, column, I32), before), before, unlimited)
            earlier = c.b.select(held, c.load(clock, column, I32), unlimited)
            c.store(c.b.select(c.more(limit, earlier), earlier, limit), clock, column, I32)
        lanes = c.b.select(held, c.load(c.of[Field.KNOWING], row, I32), c.number(0, I32))
        c.store(c.b.or_(lanes, c.mask(index)), c.of[Field.KNOWING], row, I32)
        c.store(1, c.of[Field.HOLDING], row, I8)


class _Word:
    """The fields of an mbarrier's word."""

    def __init__(self, c: _Operation, word: Value) -> None:
        b = c.b
        self.expected = b.and_(word, c.number(MOST_ARRIVALS))
        self.pending = b.and_(b.lshr(word, c.number(PENDING_SHIFT)), c.number(MOST_ARRIVALS))
        shift = c.number(64 - TX_BITS)
        self.tx = b.ashr(b.shl(b.lshr(word, c.number(TX_SHIFT)), shift), shift)


def _arrive(c: _Operation) -> None:
    """Threads expect bytes, and arrive; a phase may become complete."""
    of, b = c.of, c.b
    with c.each() as index:
        c.find(index)
        _add_up(c, index)
    with c.each() as index:
        with c.when(_leads(c, index)):
            word = _Word(c, c.load(c.word(index)))
            total, size = c.load(of[Field.TOTALS], index), c.load(of[Field.BYTES], index)
            c.give_when(b.or_(c.is_("==", total, 0), c.is_(">", total, word.pending)), 0)
            tx = b.add(word.tx, size)
            c.give_when(c.more(tx, MOST_TRANSACTION_BYTES), 0)
        with c.when(c.watched):
            c.check_use(c.row(index), c.mbarrier(index))
            _check_phase(c, c.row(index), c.mbarrier(index))
    _give_states(c)
    with c.when(c.watched), c.each() as index:
        c.record_use(c.row(index), c.mbarrier(index))
        _release(c, c.row(index), c.mbarrier(index))
    phases, changes = c.variable(0), c.variable(0)
    with c.each() as index, c.when(_leads(c, index)):
        c.add(changes, b.add(c.number(1), c.wide(c.is_("!=", c.load(of[Field.BYTES], index), 0))))
        total, size = c.load(of[Field.TOTALS], index), c.load(of[Field.BYTES], index)
        _settle(c, c.mbarrier(index), c.word(index), total, size, phases)
    c.store(b.load(phases, typ=I64), c.state, Field.PHASES)
    c.store(b.load(changes, typ=I64), c.state, Field.CHANGES)
    c.give(1)


def _check_phase(c: _Operation, row: Value, number: Value) -> None:
    """A warp must know that the phase before is complete; in clusters it needn't (`MbarrierUses.arrival`)."""
    column = c.signed(Field.COLUMNS, number)
    time, known = c.load(c.of[Field.TIMES], column), c.load(c.known(0, row), column, I32)
    alone = c.is_("==", c.of[Field.CLUSTER], 1)
    c.give_when(c.b.and_(alone, c.b.not_(c.at_most(time, known))), 0)


def _release(c: _Operation, row: Value, number: Value) -> None:
    """What a warp knows precedes the phase; what it does from here on is later."""
    with c.loop(c.of[Field.LAYERS]) as layer:
        c.join(c.clock(Field.PENDING, number, layer), c.known(layer, row))
    c.add(c.at(c.known(0, row), row, I32), 1, I32)


def _leads(c: _Operation, index: Value) -> Value:
    """Whether a warp is the first one with its mbarrier."""
    return c.is_("==", c.load(c.of[Field.LEADERS], index), index)


def _add_up(c: _Operation, index: Value) -> None:
    """Adds a warp's arrivals and bytes to those of the first warp with the same mbarrier."""
    of, b = c.of, c.b
    leader, mine = c.variable(index), c.mbarrier(index)
    with c.loop(index) as other, c.when(c.is_("==", c.mbarrier(other), mine)):
        b.store(c.load(of[Field.LEADERS], other), leader)
    first = b.load(leader, typ=I64)
    c.store(first, of[Field.LEADERS], index)
    with c.when(c.is_("==", first, index)):
        c.store(0, of[Field.TOTALS], index)
        c.store(0, of[Field.BYTES], index)
    with c.bits(c.mask(index)) as lane:
        at = c.lane(index, lane)
        c.add(c.at(of[Field.TOTALS], first), c.wide(c.load(of[Field.ASKED], at, I32)))
        c.add(c.at(of[Field.BYTES], first), c.wide(c.load(of[Field.SIZES], at, I32)))


def _give_states(c: _Operation) -> None:
    """Each lane's result: the state before it arrives. The lanes arrive one after the other."""
    of, b = c.of, c.b
    with c.each() as index:
        leader = c.load(of[Field.LEADERS], index)
        word = c.load(c.word(index))
        rest = c.at(of[Field.COMPLETED], leader)
        with c.when(_leads(c, index)):
            b.store(_Word(c, word).pending, rest)
        cleared = b.and_(word, c.number(~(MOST_ARRIVALS << PENDING_SHIFT) & (1 << 64) - 1))
        with c.bits(c.mask(index)) as lane:
            at = c.lane(index, lane)
            left = b.load(rest, typ=I64)
            c.store(b.or_(cleared, b.shl(left, c.number(PENDING_SHIFT))), of[Field.GIVEN], at)
            b.store(b.sub(left, c.wide(c.load(of[Field.ASKED], at, I32))), rest)


def _settle(c: _Operation, number: Value, place: Value, count: Value, size: Value, phases: Value) -> None:
    """Writes the new state after so many arrivals, and bytes that are expected, and begins the next phase if
    this one is complete.
    """
    of, b = c.of, c.b
    old = c.load(place)
    word = _Word(c, old)
    pending = b.sub(word.pending, count)
    tx = b.and_(b.add(word.tx, size), c.number((1 << TX_BITS) - 1))
    complete = c.is_("==", b.or_(pending, tx), 0)
    phase = b.and_(old, c.number(1 << 63))
    phase = b.select(complete, b.xor(phase, c.number(1 << 63)), phase)
    left = b.shl(b.select(complete, word.expected, pending), c.number(PENDING_SHIFT))
    new = b.or_(
        b.or_(word.expected, left), b.or_(b.shl(tx, c.number(TX_SHIFT)), b.or_(phase, c.number(MARK)))
    )
    c.store(new, place)
    with c.when(complete):
        c.store(number, of[Field.COMPLETED], b.load(phases, typ=I64))
        c.add(phases, 1)
        with c.when(c.watched):
            with c.loop(of[Field.LAYERS]) as layer:
                waiting = c.clock(Field.PENDING, number, layer)
                c.join(c.clock(Field.DONE, number, layer), waiting)
                with c.loop(of[Field.WIDTH]) as column:
                    c.store(0, waiting, column, I32)
            c.add(c.at(of[Field.TIMES], c.load(of[Field.COLUMNS], number)), 1)


def _commit(c: _Operation) -> None:
    """Units arrive at mbarriers for warps, one warp after the other."""
    of, b = c.of, c.b
    last = c.variable(-1)
    with _active(c) as index:
        _find_targets(c, index, last)
    for check in (_tally, _check_targets):
        with _active(c) as index:
            check(c, index)
    phases, changes = c.variable(0), c.variable(0)
    with _active(c) as index, _targets(c, index) as (number, place):
        with c.when(c.watched):
            _complete_units(c, index, number)
        word = c.at(of[Field.SHARED], place, I8)
        _settle(c, number, word, _arrivals(c, index), c.number(0), phases)
        c.add(changes, 1)
    c.store(b.load(phases, typ=I64), c.state, Field.PHASES)
    c.store(b.load(changes, typ=I64), c.state, Field.CHANGES)
    c.give(1)


@contextmanager
def _active(c: _Operation) -> Iterator[Value]:
    """Runs for the index of each warp with an active lane."""
    with c.each() as index, c.when(c.is_("!=", c.mask(index), 0)):
        yield index


def _arrivals(c: _Operation, index: Value) -> Value:
    """A commit arrives once for each lane."""
    return c.wide(c.b.ctpop(c.mask(index)))


@contextmanager
def _targets(c: _Operation, index: Value) -> Iterator[tuple[Value, Value]]:
    """Runs for each mbarrier at which a warp's commit arrives: its number, and its place."""
    of, b = c.of, c.b
    with c.bits(b.trunc(c.load(of[Field.LEADERS], index), I32)) as rank:
        place = b.add(c.load(of[Field.TOTALS], index), b.mul(rank, of[Field.STRIDE]))
        number = c.load(of[Field.PLACES], b.udiv(place, c.number(BYTES)), I32)
        yield b.sub(c.wide(number), c.number(1)), place


def _find_targets(c: _Operation, index: Value, last: Value) -> None:
    """Finds the mbarriers of a warp's commit. The addressed one must be after the `last` warp's, since that
    is the order of commits.
    """
    of, b = c.of, c.b
    first, rank = c.find(index)
    named = c.variable(b.shl(c.number(1), rank))
    with c.when(c.is_("!=", of[Field.MULTICASTS], 0)):
        mask, asked = c.mask(index), of[Field.ASKED]
        one = c.load(asked, c.lane(index, c.wide(b.cttz(mask, c.number(1, I1)))), I32)
        with c.bits(mask) as lane:
            c.give_when(c.is_("!=", c.load(asked, c.lane(index, lane), I32), one), 0)
        c.give_when(c.is_("!=", b.lshr(c.wide(one), of[Field.CLUSTER]), 0), 0)
        b.store(c.wide(one), named)
    c.store(b.load(named, typ=I64), of[Field.LEADERS], index)
    c.store(first, of[Field.TOTALS], index)
    place = b.add(first, b.mul(rank, of[Field.STRIDE]))
    c.give_when(b.not_(c.more(place, b.load(last, typ=I64))), 0)
    b.store(place, last)
    with _targets(c, index) as (_, each):
        number, _ = c.at_place(each)
        c.store(0, of[Field.TALLY], number)


def _tally(c: _Operation, index: Value) -> None:
    with _targets(c, index) as (number, _):
        c.add(c.at(c.of[Field.TALLY], number), _arrivals(c, index))


def _check_targets(c: _Operation, index: Value) -> None:
    """No phase must be complete before the last arrival, and uses must be ordered after the inits."""
    of, b = c.of, c.b
    with _targets(c, index) as (number, place):
        word = _Word(c, c.load(c.at(of[Field.SHARED], place, I8)))
        c.give_when(c.is_(">", c.load(of[Field.TALLY], number), word.pending), 0)
        with c.when(c.watched):
            begin = c.load(of[Field.OWN], c.row(index))
            near = c.is_("<", b.sub(place, begin), of[Field.STRIDE])
            near = b.and_(near, c.is_("==", of[Field.INIT_FENCES], 0))
            c.check_use(c.row(index), number, near)


def _complete_units(c: _Operation, index: Value, number: Value) -> None:
    """What a warp knows, and what its units have done, precedes the phase (`Sanitizer._commit`)."""
    of, b, row = c.of, c.b, c.row(index)
    c.record_use(row, number)
    with c.when(c.is_("!=", of[Field.TENSOR_FENCES], 0)):
        c.join(c.known(2, row), c.known(0, row))
    _release(c, row, number)
    with c.loop(of[Field.UNITS]) as unit:
        column = c.load(of[Field.UNIT_COLUMNS], b.add(b.mul(unit, of[Field.COUNT]), index))
        with c.when(c.is_(">=", column, 0, signed=True)):
            times = c.at(of[Field.TIMES], column)
            c.add(times, 1)
            time = b.trunc(b.load(times, typ=I64), I32)
            with c.loop(of[Field.LAYERS]) as layer, c.when(c.is_("!=", layer, 1)):
                c.store(time, c.clock(Field.PENDING, number, layer), column, I32)
            c.record_use_by(column, number, time)
