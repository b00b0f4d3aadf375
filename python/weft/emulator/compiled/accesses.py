"""Accesses to memory in code of this host, with the sanitizer's checks of accesses that break no rule.

A function gets the state of a machine and an operation. It returns 0, and has changed nothing, if the
interpreter must make the access: because it faults, breaks a rule of the sanitizer, or isn't plain.
Addresses, values and active lanes are in the scratch memory of each warp.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]

from weft.emulator.compiled.builder import I8, I16, I32, I64, POINTER, Code, Value
from weft.emulator.compiled.pieces import LOADED, MASK, SCRATCH, STORED
from weft.emulator.compiled.state import Field, Operand, Part
from weft.emulator.memory.segments import RANK_SHIFT
from weft.emulator.sanitizer.shadow import BLOCK_SHIFT, READ_BY_THREADS

USED, RUN = MASK + 4, MASK + 8
"""Where a warp's scratch memory has the lanes that are checked, and whether its accesses are a run: all lanes
access adjacent elements. Then only the first address counts.
"""
_COLUMN_BITS = 20
I128 = ir.IntType(128)
LANES = 32
_ELEMENTS = (I8, I16, I32, I64, I128)


class AccessCode(Code):
    """A function of an access."""

    def __init__(self, module: ir.Module, name: str) -> None:
        super().__init__(module, name, [POINTER, POINTER, POINTER])
        self._fields: dict[tuple[type, int], Value] = {}
        self.state, self.operation, self.segment = self.arguments
        self.count, self.scratch = self.field(Field.COUNT), self.field(Field.SCRATCH, POINTER)
        self.width = self.load(self.operation, Operand.WIDTH)
        self.bytes = self.b.shl(self.number(1), self.width)
        self.line = self.b.trunc(self.load(self.operation, Operand.LINE), I32)

    def field(self, which: Field, kind: Any = I64) -> Value:
        """A number or address of the state, as the function begins."""
        return self._once(self.state, which, kind)

    def _once(self, pointer: Value, which: "Field | Part", kind: Any) -> Value:
        # LLVM can't know that stores to shadows leave the state as it is.
        key = (type(which), which)
        if key not in self._fields:
            with self.at_entry():
                self._fields[key] = self.load(pointer, which, kind)
        return self._fields[key]

    def part(self, which: Part, kind: Any = I64) -> Value:
        """What is known of the buffer, as the function begins."""
        if self.segment is self.arguments[2]:
            return self._once(self.segment, which, kind)
        return self.load(self.segment, which, kind)

    def warp(self, index: Value) -> Value:
        """The scratch memory of a warp of the group."""
        return self.at(self.scratch, self.b.mul(index, self.number(SCRATCH)), I8)

    def row(self, index: Value) -> Value:
        """The number of a warp in its wave."""
        return self.wide(self.load(self.field(Field.ROWS, POINTER), index, I32))

    @contextmanager
    def lanes(self, *, apart: bool = False) -> Iterator[tuple[Value, Value, Value]]:
        """Runs for every active lane: the warp's index, its scratch memory, the lane. `apart`: not for lanes
        of runs.
        """
        with self.loop(self.count) as index:
            warp = self.warp(index)
            active = self.load(self.at(warp, MASK, I8), 0, I32)
            if apart:
                active = self.b.select(self.is_run(warp), self.number(0, I32), active)
            with self.bits(active) as lane:
                yield index, warp, lane

    def granules(
        self,
        granule: Value,
        body: Callable[[Value, Value, Value], None],
        mask: int = MASK,
        *,
        unless: Callable[[Value, Value, Value], Value] | None = None,
    ) -> None:
        """Adds `body` for every granule of every active lane: the warp's index, its row, the granule.
        Meanwhile, `clock` is that of the warp, `now` its own time, and `rank` its number in its cluster.
        `unless`: whether a run of one granule a lane needs no `body`, from the first granule.
        """
        each = self.b.shl(self.number(1), self.b.sub(self.width, granule))
        readers = self.field(Field.READERS)
        with self.loop(self.count) as index:
            warp, row = self.warp(index), self.row(index)
            begin = self.b.mul(row, self.field(Field.KNOWN_WIDTH))
            self.clock = self.at(self.field(Field.KNOWN, POINTER), begin, I32)
            self.now = self.load(self.clock, row, I32)
            self.rank = self.b.urem(row, self.b.or_(readers, self.wide(self.is_("==", readers, 0))))
            with self.b.if_else(self.is_run(warp)) as (together, apart):
                with together:
                    first = self.b.lshr(self.load(warp), granule)
                    end = self.b.add(first, self.b.mul(each, self.number(LANES)))
                    if unless is not None:
                        one = self.b.and_(self.is_("==", each, 1), unless(index, row, first))
                        end = self.b.select(one, first, end)
                    with self.loop(end, first) as at:
                        body(index, row, at)
                with apart, self.bits(self.load(self.at(warp, mask, I8), 0, I32)) as lane:
                    first = self.b.lshr(self.load(warp, lane), granule)
                    with self.loop(each) as more:
                        body(index, row, self.b.add(first, more))

    def is_run(self, warp: Value) -> Value:
        """Whether the accesses of a warp are a run."""
        return self.is_("!=", self.load(self.at(warp, RUN, I8), 0, I32), 0)

    def find_run(self, warp: Value) -> Value:
        """Whether all lanes of a warp access adjacent elements."""
        b, wide = self.b, ir.VectorType(I64, LANES)
        addresses = b.load(warp, typ=wide, align=8)
        begin = self.all_lanes(b.extract_element(addresses, self.number(0, I32)))
        steps = b.mul(ir.Constant(wide, list(range(LANES))), self.all_lanes(self.bytes))
        same = b.icmp_unsigned("==", addresses, b.add(begin, steps))
        full = self.is_("==", self.load(self.at(warp, MASK, I8), 0, I32), 0xFFFFFFFF)
        return b.and_(self.is_("==", b.bitcast(same, I32), 0xFFFFFFFF), full)

    def all_lanes(self, value: Value) -> Value:
        """A vector with `value` for each lane."""
        one = self.b.insert_element(
            ir.Constant(ir.VectorType(value.type, LANES), None), value, self.number(0, I32)
        )
        return self.b.shuffle_vector(one, one, ir.Constant(ir.VectorType(I32, LANES), None))

    def set_run(self, warp: Value, run: "Value | int") -> None:
        """Keeps whether the accesses of a warp are a run."""
        whole = self.b.zext(run, I32) if not isinstance(run, int) else run
        self.store(whole, self.at(warp, RUN, I8), 0, I32)

    def refuse_fine(self, granule: Value) -> None:
        """Leaves accesses that are smaller than a granule to the interpreter, which divides it."""
        self.give_when(self.is_("<", self.width, granule), 0)

    def refuse_mixed(self, stamps: Value, granule: Value) -> None:
        """Leaves stores of two warps to one granule to the interpreter. A granule's stamp is a number of the
        store and the warp.
        """
        with self.when(self.is_(">", self.count, 1)):
            epoch = self.field(Field.EPOCH)
            self.store(self.b.add(epoch, self.count), self.state, Field.EPOCH)

            def stamp(index: Value, row: Value, at: Value) -> None:
                old, mine = self.wide(self.load(stamps, at, I32)), self.b.add(epoch, index)
                others = self.b.and_(self.is_(">=", old, epoch), self.is_("!=", old, mine))
                self.give_when(others, 0)
                self.store(self.b.trunc(mine, I32), stamps, at, I32)

            self.granules(granule, stamp)

    def move(self, data: Value, *, loads: bool) -> None:
        """Copies the elements between memory and scratch memory."""
        place = LOADED if loads else STORED
        with self.loop(self.count) as index:
            warp = self.warp(index)
            with self.when(self.is_run(warp)):
                values, memory = self.at(warp, place, I8), self.at(data, self.load(warp), I8)
                with self.loop(self.b.shl(self.bytes, self.number(1))) as at:
                    self._copy(self.at(values, at, I128), self.at(memory, at, I128), I128, loads=loads)
        for width, kind in enumerate(_ELEMENTS):
            with self.when(self.is_("==", self.width, width)), self.lanes(apart=True) as (_, warp, lane):
                value = self.at(self.at(warp, place, I8), lane, kind)
                self._copy(value, self.at(data, self.load(warp, lane), I8), kind, loads=loads)

    def _copy(self, value: Value, memory: Value, kind: Any, *, loads: bool) -> None:
        to, source = (value, memory) if loads else (memory, value)
        self.b.store(self.b.load(source, typ=kind, align=1), to, align=1)

    def counted(self, total: Value, which: Field) -> None:
        """Counts the bytes of an access."""
        self.add(self.at(self.state, which), self.b.mul(self.b.load(total, typ=I64), self.bytes))


def limited(c: AccessCode, size: Value, offset: Value, count: int = 1) -> None:
    """Leaves accesses that aren't inside `size` bytes, or are misaligned, to the interpreter."""
    end = c.b.add(offset, c.b.mul(c.bytes, c.number(count)))
    outside = c.b.or_(c.is_(">", end, size), c.is_("<", end, offset))
    odd = c.is_("!=", c.b.and_(offset, c.b.sub(c.bytes, c.number(1))), 0)
    c.give_when(c.b.or_(outside, odd), 0)


# Global memory


def global_access(module: ir.Module, *, loads: bool, check: Any) -> None:
    """Adds `load_global` or `store_global`."""
    c = AccessCode(module, "load_global" if loads else "store_global")
    found, total = c.variable(c.b.inttoptr(c.number(0), POINTER), POINTER), c.variable(0)
    low = c.b.sub(c.bytes, c.number(1))

    def locate(address: Value, count: int) -> None:
        unknown = c.is_("==", c.b.ptrtoint(c.b.load(found, typ=POINTER), I64), 0)
        with c.when(unknown), c.loop(c.field(Field.SEGMENT_COUNT)) as number:
            size = c.number(8 * len(Part))
            each = c.at(c.field(Field.SEGMENTS, POINTER), c.b.mul(number, size), I8)
            offset = c.b.sub(address, c.load(each, Part.BASE))
            with c.when(c.is_("<", offset, c.load(each, Part.SIZE))):
                c.b.store(each, found)
        segment = c.b.load(found, typ=POINTER)
        c.give_when(c.is_("==", c.b.ptrtoint(segment, I64), 0), 0)
        c.give_when(c.is_("!=", c.b.and_(address, low), 0), 0)
        limited(c, c.load(segment, Part.SIZE), c.b.sub(address, c.load(segment, Part.BASE)), count)
        c.add(total, count)

    with c.loop(c.count) as index:
        warp = c.warp(index)
        run = c.find_run(warp)
        c.set_run(warp, run)
        with c.b.if_else(run) as (together, apart):
            with together:
                locate(c.load(warp), LANES)
            with apart, c.bits(c.load(c.at(warp, MASK, I8), 0, I32)) as lane:
                locate(c.load(warp, lane), 1)
    # The addresses become offsets only when nothing refuses any more: the interpreter computes its own.
    with c.when(c.is_("!=", c.b.load(total, typ=I64), 0)):
        c.segment = c.b.load(found, typ=POINTER)
        c.give_when(c.is_("!=", c.part(Part.BLOCKED), 0), 0)
        if not loads:
            c.give_when(c.is_("==", c.part(Part.WRITABLE), 0), 0)
        base = c.part(Part.BASE)
        with c.loop(c.count) as index:
            warp = c.warp(index)
            with c.when(c.is_run(warp)):
                c.store(c.b.sub(c.load(warp), base), warp)
        with c.lanes(apart=True) as (_, warp, lane):
            c.store(c.b.sub(c.load(warp, lane), base), warp, lane)
        with c.when(c.is_("!=", c.field(Field.CHECKED), 0)):
            fine = c.b.call(check, [c.state, c.operation, c.segment])
            c.give_when(c.is_("==", fine, 0), 0)
        c.move(c.part(Part.DATA, POINTER), loads=loads)
        c.counted(total, Field.GLOBAL_BYTES)
        if not loads:
            c.add(c.at(c.state, Field.CHANGES), 1)
    c.give(1)


class _GlobalCheck(AccessCode):
    """A check of an access to global memory."""

    def __init__(self, module: ir.Module, name: str) -> None:
        super().__init__(module, name)
        self.granule = self.part(Part.GRANULE)
        self.refuse_fine(self.granule)
        self.wave = self.field(Field.WAVE)

    def of(self, which: Part, slot: int, at: Value, kind: Any) -> Value:
        """The address of a field of a granule."""
        index = self.b.add(self.b.mul(self.part(Part.GRANULES), self.number(slot)), at)
        return self.at(self.part(which, POINTER), index, kind)

    def owner(self, row: Value) -> Value:
        return self.b.or_(row, self.b.shl(self.wave, self.number(_COLUMN_BITS)))

    def own(self, row: Value, first: Value, *slots: int) -> Value:
        """Whether nobody else made the earlier accesses to a run of granules."""
        fine = self.number(-1, I32)
        for slot in slots:
            owners, times = (
                self.b.load(self.of(which, slot, first, kind), typ=ir.VectorType(kind, LANES), align=4)
                for which, kind in ((Part.OWNER, I64), (Part.TIME, I32))
            )
            mine = self.b.icmp_unsigned("==", owners, self.all_lanes(self.owner(row)))
            never = self.b.icmp_unsigned("==", times, ir.Constant(times.type, None))
            fine = self.b.and_(fine, self.b.bitcast(self.b.or_(mine, never), I32))
        return self.is_("==", fine, 0xFFFFFFFF)

    def refuse_late(self, slot: int, at: Value, constant: "Value | None" = None) -> None:
        """Leaves the access to the interpreter if the warp doesn't know of an earlier one, or there must be
        none, which is `constant`.
        """
        time = self.b.load(self.of(Part.TIME, slot, at, I32), typ=I32)
        with self.when(self.is_("!=", time, 0)):
            if constant is not None:
                self.give_when(constant, 0)
            owner = self.b.load(self.of(Part.OWNER, slot, at, I64), typ=I64)
            shift = self.number(_COLUMN_BITS)
            self.give_when(self.is_("!=", self.b.lshr(owner, shift), self.wave), 0)
            column = self.b.and_(owner, self.number((1 << _COLUMN_BITS) - 1))
            self.give_when(self.more(time, self.load(self.clock, column, I32)), 0)


def check_global_load(module: ir.Module) -> Any:
    """The checks of `GlobalRaces.access` for loads, by the lanes that use what they load."""
    c = _GlobalCheck(module, "check_global_load")
    _use_lanes(c)
    constant = c.is_("!=", c.load(c.operation, Operand.CONSTANT), 0)

    def late(index: Value, row: Value, at: Value) -> None:
        c.refuse_late(0, at, constant)

    def own(index: Value, row: Value, first: Value) -> Value:
        return c.b.and_(c.own(row, first, 0), c.b.not_(constant))

    def keep(index: Value, row: Value, at: Value) -> None:
        last = c.b.load(c.of(Part.OWNER, 1, at, I64), typ=I64)
        time = c.b.load(c.of(Part.TIME, 1, at, I32), typ=I32)
        with c.when(c.b.and_(c.is_("!=", last, c.owner(row)), c.more(time, 0))):
            for which, kind in ((Part.OWNER, I64), (Part.TIME, I32), (Part.LINE, I32)):
                c.b.store(c.b.load(c.of(which, 1, at, kind), typ=kind), c.of(which, 2, at, kind))

    def read(index: Value, row: Value, at: Value) -> None:
        c.b.store(c.owner(row), c.of(Part.OWNER, 1, at, I64))
        c.b.store(c.now, c.of(Part.TIME, 1, at, I32))
        c.b.store(c.line, c.of(Part.LINE, 1, at, I32))

    with c.when(c.is_("!=", c.part(Part.IS_WRITTEN), 0)):
        c.granules(c.granule, late, USED, unless=own)
    with c.when(c.is_("!=", c.part(Part.WRITABLE), 0)):
        c.granules(c.granule, keep, USED, unless=lambda index, row, first: c.own(row, first, 1))
        c.granules(c.granule, read, USED)
    c.give(1)
    return c.function


def _use_lanes(c: AccessCode) -> None:
    """The lanes that use what they load, in the scratch memory of each warp."""
    predicate = c.load(c.operation, Operand.PREDICATE)
    negated = c.b.sub(c.number(0, I32), c.b.trunc(c.load(c.operation, Operand.NEGATED), I32))
    discards = c.is_("!=", c.load(c.operation, Operand.DISCARDS), 0)
    with c.loop(c.count) as index:
        warp = c.warp(index)
        mask = c.load(c.at(warp, MASK, I8), 0, I32)
        c.store(mask, c.at(warp, USED, I8), 0, I32)
        with c.when(discards):
            registers = c.load(c.field(Field.REGISTERS, POINTER), index, POINTER)
            octets = ir.VectorType(I8, LANES)
            held = c.b.load(c.at(registers, predicate, I8), typ=octets, align=1)
            bits = c.b.bitcast(c.b.icmp_unsigned("!=", held, ir.Constant(octets, None)), I32)
            used = c.b.and_(c.b.xor(bits, negated), mask)
            c.store(used, c.at(warp, USED, I8), 0, I32)
            with c.when(c.is_("!=", used, mask)):
                _spread(c, warp)


def _spread(c: AccessCode, warp: Value) -> None:
    """Gives each lane of a run its own offset."""
    with c.when(c.is_run(warp)):
        c.set_run(warp, 0)
        first = c.load(warp)
        with c.loop(LANES) as lane:
            c.store(c.b.add(first, c.b.mul(lane, c.bytes)), warp, lane)


def check_global_store(module: ir.Module) -> Any:
    """The checks of `GlobalRaces.access` for weak stores."""
    c = _GlobalCheck(module, "check_global_store")

    def late(index: Value, row: Value, at: Value) -> None:
        for slot in range(3):
            c.refuse_late(slot, at)

    def write(index: Value, row: Value, at: Value) -> None:
        c.b.store(c.owner(row), c.of(Part.OWNER, 0, at, I64))
        c.b.store(c.now, c.of(Part.TIME, 0, at, I32))
        c.b.store(c.line, c.of(Part.LINE, 0, at, I32))
        c.store(0, c.part(Part.LEVEL, POINTER), at, I8)

    c.granules(c.granule, late, unless=lambda index, row, first: c.own(row, first, 0, 1, 2))
    c.refuse_mixed(c.part(Part.STAMPS, POINTER), c.granule)
    c.granules(c.granule, write)
    c.store(1, c.segment, Part.IS_WRITTEN)
    c.give(1)
    return c.function


# Shared memory


def shared_access(module: ir.Module, *, loads: bool) -> None:
    """Adds `load_shared` or `store_shared`."""
    c = AccessCode(module, "load_shared" if loads else "store_shared")
    size, total = c.field(Field.SHARED_SIZE), c.variable(0)
    with c.loop(c.count) as index:
        warp, row = c.warp(index), c.row(index)
        base = c.load(c.field(Field.SHARED_BASE, POINTER), row)
        run = c.find_run(warp)
        c.set_run(warp, run)

        def locate(base: Value, place: Value, count: int) -> None:
            address = c.load(place)
            rank = c.b.lshr(address, c.number(RANK_SHIFT))
            offset = c.b.and_(address, c.number((1 << RANK_SHIFT) - 1))
            c.give_when(c.is_(">=", rank, c.field(Field.CLUSTER)), 0)
            limited(c, size, offset, count)
            begin = c.b.add(base, c.b.mul(rank, c.field(Field.STRIDE)))
            c.store(c.b.add(begin, offset), place)
            c.add(total, count)

        with c.b.if_else(run) as (together, apart):
            with together:
                locate(base, warp, LANES)
            with apart, c.bits(c.load(c.at(warp, MASK, I8), 0, I32)) as lane:
                locate(base, c.at(warp, lane), 1)
    with c.when(c.is_("!=", c.b.load(total, typ=I64), 0)):
        c.give_when(c.is_("!=", c.field(Field.BLOCKED), 0), 0)
        with c.when(c.is_("!=", c.field(Field.CHECKED), 0)):
            (_check_shared_load if loads else _check_shared_store)(c)
        c.move(c.field(Field.SHARED, POINTER), loads=loads)
        c.counted(total, Field.SHARED_BYTES)
        if not loads:
            c.add(c.at(c.state, Field.CHANGES), 1)
    c.give(1)


def _last_write(c: AccessCode, at: Value) -> tuple[Value, Value]:
    """The time of the last write, and what the warp knows of its writer."""
    written = c.load(c.field(Field.WRITTEN, POINTER), at, I32)
    writer = c.load(c.field(Field.WRITER, POINTER), at)
    return written, c.load(c.clock, writer, I32)


def _reader(c: AccessCode, at: Value, rank: Value) -> Value:
    """The address of the last read of a granule by a warp of the cluster."""
    index = c.b.add(c.b.mul(at, c.field(Field.READERS)), rank)
    return c.at(c.field(Field.READS, POINTER), index, I32)


def _check_shared_load(c: AccessCode) -> None:
    """The checks of `Races.load`."""
    granule = c.field(Field.GRANULE)
    c.refuse_fine(granule)

    def late(index: Value, row: Value, at: Value) -> None:
        c.give_when(c.more(*_last_write(c, at)), 0)

    def read(index: Value, row: Value, at: Value) -> None:
        c.b.store(c.now, _reader(c, at, c.rank))
        c.store(c.line, c.field(Field.READ_LINE, POINTER), at, I32)
        block = c.b.lshr(c.b.shl(at, granule), c.number(BLOCK_SHIFT))
        by = c.at(c.field(Field.READ_BY, POINTER), block, I32)
        c.b.store(c.b.or_(c.b.load(by, typ=I32), c.number(READ_BY_THREADS, I32)), by)

    c.granules(granule, late)
    c.granules(granule, read)


def _check_shared_store(c: AccessCode) -> None:
    """The checks of `Races.store` for weak stores."""
    granule = c.field(Field.GRANULE)
    c.refuse_fine(granule)
    readers = c.field(Field.READERS)

    def late(index: Value, row: Value, at: Value) -> None:
        written, known = _last_write(c, at)
        never = c.is_("==", written, (1 << 31) - 1)
        c.give_when(c.b.and_(c.more(written, known), c.b.not_(never)), 0)
        begin = c.b.sub(row, c.rank)
        with c.when(c.is_(">", readers, 1)), c.loop(readers) as rank:
            read = c.b.load(_reader(c, at, rank), typ=I32)
            c.give_when(c.more(read, c.load(c.clock, c.b.add(begin, rank), I32)), 0)
        with c.loop(c.field(Field.UNITS)) as unit:
            place = c.b.add(c.b.mul(unit, c.field(Field.GRANULES)), at)
            column = c.load(c.field(Field.UNIT, POINTER), place)
            taken = c.load(c.field(Field.TAKEN, POINTER), place, I32)
            c.give_when(c.more(taken, c.load(c.clock, column, I32)), 0)

    def write(index: Value, row: Value, at: Value) -> None:
        c.store(row, c.field(Field.WRITER, POINTER), at)
        c.store(c.now, c.field(Field.WRITTEN, POINTER), at, I32)
        c.store(c.line, c.field(Field.WRITE_LINE, POINTER), at, I32)

    c.granules(granule, late)
    c.refuse_mixed(c.field(Field.STAMPS, POINTER), granule)
    c.granules(granule, write)


def add_accesses(module: ir.Module) -> None:
    """Adds the functions of accesses to global and shared memory."""
    checks: dict[bool, Callable[[ir.Module], Any]] = {True: check_global_load, False: check_global_store}
    for loads, check in checks.items():
        global_access(module, loads=loads, check=check(module))
        shared_access(module, loads=loads)
