"""Pieces: what traced steps compute between two accesses to memory, as functions on the warps of a group.

A function takes the addresses of the warps' registers, their scratch memory, their active lanes, `OCTETS`,
offsets of registers if pieces share it, and four times the number of warps. It runs eight lanes at a time,
and writes inactive lanes, too: the driver restores those. Scratch memory has the addresses of an access, its
values, and its lanes.

Traces steps of the interpreter: what they write to registers, and how they access memory. What accesses
have in common that differ only in their registers and constants.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from weft.emulator.decoding.table import Step
from weft.emulator.numerics.emit import Emitter, vector
from weft.emulator.numerics.symbols import LANES, Symbol, UntraceableError, number_of, predicate_and, register
from weft.emulator.reading.syntax import STORAGE
from weft.emulator.running.ctas import Slots

_REFUSALS = (UntraceableError, TypeError, ValueError, AttributeError, LookupError)
"""What a step raises for a symbol, because it does what only arrays can do."""
SPACES = {name: name for name in ("global", "shared", "local", "param", "const")} | {"generic": "global"}
"""The functions for each space. Generic addresses outside of global memory are left to the interpreter."""
WIDTHS = (1, 2, 4, 8, 16)


@dataclass(frozen=True, eq=False)
class Access:
    """A load (`value` is None) or store by the lanes of `mask` (None: all active ones)."""

    space: str
    address: Symbol
    width: int
    line: int
    mask: Symbol | None
    value: Symbol | None


@dataclass(eq=False)
class Trace:
    """What a step does: at most one access, then its writes: slot, value, and the lanes that it is for."""

    access: Access | None = None
    loaded: Symbol | None = None
    writes: list[tuple[int, Symbol, Symbol | None]] = field(default_factory=list)


class Registers:
    """The registers of a program: their widths, and the values of those that are constants."""

    def __init__(self, slots: Slots) -> None:
        self.bits = slots.bits
        self._constants = {
            slot: Symbol(
                STORAGE[bits],
                ("constant", np.frombuffer(value.to_bytes(max(1, bits // 8), "little"), STORAGE[bits])[0]),
            )
            for (value, bits), slot in slots.constants.items()
            if bits <= 64
        }

    def read(self, slot: int) -> Symbol:
        """The value of a register, for a step."""
        constant = self._constants.get(slot)
        return register(slot, self.bits[slot]) if constant is None else constant


def trace(step: Step, registers: Registers) -> Trace | None:
    """What a step does to registers; None if that has no expression."""
    found = Trace()
    try:
        step(_Lanes(found, registers, None))  # type: ignore[arg-type]
    except _REFUSALS:
        return None
    return found


class _Lanes:
    """Stands in for `Lanes`. It isn't `whole`, and a guard never holds for all of its lanes."""

    whole, rows, warps, active = False, slice(0, 1), 1, LANES

    def __init__(self, found: Trace, registers: Registers, mask: Symbol | None) -> None:
        self._found, self._registers, self.mask = found, registers, mask
        self.wave = SimpleNamespace(memory=_Memory(found))

    def read(self, slot: int) -> Symbol:
        for written, value, mask in self._found.writes[::-1]:
            if written == slot and mask is self.mask:
                return value
            if written == slot:
                raise UntraceableError("reads what other lanes have written")
        return self._registers.read(slot)

    def write(self, slot: int, value: Symbol) -> None:
        if not isinstance(value, Symbol):
            array = np.asarray(value)
            if array.size == 0 or (array != array.flat[0]).any():
                raise UntraceableError("writes lanes that differ")
            value = Symbol(array.dtype, ("constant", array.flat[0]))
        if value.dtype != STORAGE[self._registers.bits[slot]] or value.count != 1 or value.trailing:
            raise UntraceableError("writes another type")
        self._found.writes.append((slot, value, self.mask))

    def guarded(self, predicate: int, negated: bool) -> tuple[Symbol, int]:
        held = self.read(predicate)
        return predicate_and(self.mask, ~held if negated else held), 1

    def narrowed(self, mask: Symbol) -> "_Lanes":
        return _Lanes(self._found, self._registers, mask)


class _Memory:
    """Stands in for the memory of a wave."""

    __slots__ = ("_found",)

    def __init__(self, found: Trace) -> None:
        self._found = found

    def load(self, lanes: _Lanes, space: str, address: Symbol, width: int, line: int) -> Symbol:
        self._access(lanes, space, address, width, line, None)
        self._found.loaded = Symbol(STORAGE[8 * width], ("load", width))
        return self._found.loaded

    def store(self, lanes: _Lanes, space: str, address: Symbol, value: Symbol, width: int, line: int) -> None:
        if value.count * value.dtype.itemsize != width:
            raise UntraceableError("stores another width")
        self._access(lanes, space, address, width, line, value)

    def _access(
        self, lanes: _Lanes, space: str, address: Symbol, width: int, line: int, value: Symbol | None
    ) -> None:
        if space not in SPACES or width not in WIDTHS:
            raise UntraceableError(f"accesses {space} memory")
        if self._found.access is not None or self._found.writes:
            raise UntraceableError("accesses memory twice")
        if value is not None and space in ("param", "const"):
            raise UntraceableError(f"writes {space} memory")
        self._found.access = Access(SPACES[space], address, width, line, lanes.mask, value)


Known = dict[tuple[Any, ...], tuple[str, list[str], set[str]]]
"""Code by outlines: its text, what its registers and constants are, and the intrinsics that it calls."""


class Outline:
    """Numbers the registers and the constants of an access in the order in which they occur."""

    def __init__(self) -> None:
        self.slots: dict[int, int] = {}
        self._constants: dict[int, int] = {}

    def of_access(self, access: Access) -> tuple[Any, ...]:
        """Equal for accesses with the same code. Only the constants of addresses may differ."""
        parts = access.mask, access.value
        others = [None if part is None else self._of(part, apart=False) for part in parts]
        return access.width, self._of(access.address, apart=True), *others

    def _of(self, symbol: Symbol, *, apart: bool) -> tuple[Any, ...]:
        number = number_of(symbol)
        if number is not None:
            if apart and number.dtype.kind in "iu":
                value = int(np.asarray(number).astype(np.int64))
                return "constant", number.dtype.char, self._constants.setdefault(value, len(self._constants))
            return "constant", number.dtype.char, number.tobytes()
        kind, *operands = symbol.node
        if kind == "input":
            return kind, symbol.dtype.char, self.slots.setdefault(operands[0], len(self.slots))
        inner = [self._of(each, apart=apart) if isinstance(each, Symbol) else each for each in operands]
        return kind, symbol.dtype.char, symbol.count, symbol.trailing, *inner

    def numbered(self, texts: Sequence[str]) -> list[str]:
        """What stands for these registers ("5") and constants ("=16") in all accesses of the outline."""
        return [
            f"={self._constants[int(text[1:])]}" if text[0] == "=" else str(self.slots[int(text)])
            for text in texts
        ]

    def named(self, numbered: Sequence[str]) -> list[str]:
        """The registers and constants of this access that `numbered` stands for."""
        slots, constants = list(self.slots), list(self._constants)
        return [f"={constants[int(n[1:])]}" if n[0] == "=" else str(slots[int(n)]) for n in numbered]


LOADED, MASK, STORED = 256, 768, 1024
"""Where a warp's scratch memory has what was loaded, after the addresses, the lanes of an access, and what is
stored. A piece may use both kinds of values, for two accesses.
"""
SCRATCH = 1536
"""The bytes of a warp's scratch memory."""


CHUNKS = 4
"""The iterations of a piece for one warp."""
OCTETS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
"""Eight predicates as octets, by their bits."""


@dataclass
class Layout:
    """Where the registers of a warp are: bytes from the beginning of its row in the register file."""

    bits: Sequence[int]
    offsets: dict[int, int] = field(default_factory=dict)
    size: int = 0

    def of(self, slot: int) -> int:
        """The offset of a register's first lane."""
        if slot not in self.offsets:
            self.offsets[slot] = self.size
            self.size += 32 * max(1, self.bits[slot] // 8)
        return self.offsets[slot]


class Piece:
    """The function of traced steps."""

    def __init__(self, name: str, layout: Layout) -> None:
        self.name, self.layout = name, layout
        self.live = -1
        """The registers that may be read after the piece, as bits; it doesn't write the others."""
        self.offsets: list[int] = []
        """After `module`: the offsets of registers that the function gets, if it is shared."""
        self.function = name
        self._emitter = Emitter(self._input, lambda: self._values(LOADED, 16))
        self._now: dict[int, str] = {}
        self._before: dict[int, str] = {}
        self._places: dict[int, str] = {}
        self._ended: dict[int, str] = {}
        self._fresh: list[int] = []
        """The registers that the last step was the first to read."""
        self._loaded = ""
        self._done: tuple[str, list[str]] | None = None
        """The function's code, and the texts of its `%offset.N`, if they are known from another piece."""

    def __bool__(self) -> bool:
        return bool(self._emitter.lines or self._now or self._done)

    @property
    def declared(self) -> set[str]:
        return self._emitter.declared

    def add(self, trace: Trace) -> bool:
        """Adds a step without its access; False, with no effect, if there is no code for it."""
        emitter, kept = self._emitter, len(self._emitter.lines)
        emitter.forget()
        self._loaded = ""
        self._fresh.clear()
        try:
            changed: dict[int, str] = {}
            for slot, value, mask in trace.writes:
                new = emitter.value(value, 1)
                if mask is not None:
                    old = changed.get(slot) or self._read(slot, merged=True)
                    new = emitter.select(emitter.value(mask, 1), new, old, self._kind(slot))
                changed[slot] = new
        except UntraceableError:
            self._undo(kept)
            return False
        self._now |= changed
        return True

    def access(self, access: Access, known: Known) -> bool:
        """Ends a new piece with the operands of an access; False, with no effect, if there is no code.
        `known` has the code of accesses that differ in registers and constants.
        """
        outline = Outline()
        key = outline.of_access(access)
        if key in known:
            code, texts, declared = known[key]
            self._done = code, outline.named(texts)
            self._emitter.declared = declared
            self._before = dict.fromkeys(outline.slots, "")
            return True
        if not self._write_access(access):
            return False
        code, texts = self._code()
        known[key] = code, outline.numbered(texts), self.declared
        return True

    def _write_access(self, access: Access) -> bool:
        emitter, kept = self._emitter, len(self._emitter.lines)
        emitter.forget()
        self._fresh.clear()
        try:
            with emitter.numbers_apart():
                address = emitter.value(access.address, 1)
            guard = None if access.mask is None else emitter.value(access.mask, 1)
            value = "" if access.value is None else emitter.value(access.value)
        except UntraceableError:
            self._undo(kept)
            return False
        self._put(f"<8 x i64> {address}", emitter.do("getelementptr i64, ptr %scratch, i64 %lane"))
        begin = emitter.do(f"getelementptr i8, ptr %scratch, i64 {MASK}")
        bits = emitter.do(f"load i8, ptr {emitter.do('getelementptr i8, ptr %masks, i64 %each')}")
        if guard is not None:
            held = emitter.do(f"bitcast <8 x i1> {guard} to i8")
            bits = emitter.do(f"and i8 {held}, {bits}")
        self._put(f"i8 {bits}", emitter.do(f"getelementptr i8, ptr {begin}, i64 %chunk"))
        if access.value is not None:
            symbol = access.value
            self._put(f"{vector(symbol.dtype, symbol.count)} {value}", self._values(STORED, access.width))
        return True

    def _undo(self, lines: int) -> None:
        """Removes what a step has added after these lines."""
        self._emitter.undo(lines)
        self._places = {}
        for slot in self._fresh:
            del self._now[slot], self._before[slot]

    def _values(self, where: int, width: int) -> str:
        begin = self._emitter.do(f"getelementptr i8, ptr %scratch, i64 {where}")
        offset = self._emitter.do(f"mul i64 %lane, {width}")
        return self._emitter.do(f"getelementptr i8, ptr {begin}, i64 {offset}")

    def _put(self, value: str, pointer: str) -> None:
        self._emitter.lines.append(f"  store {value}, ptr {pointer}, align 1")

    # Registers

    def _kind(self, slot: int) -> str:
        return vector(STORAGE[self.layout.bits[slot]])

    def _input(self, symbol: Symbol) -> str:
        if symbol.node[0] == "input":
            return self._read(symbol.node[1])
        if not self._loaded:
            self._loaded = self._emitter.do(
                f"load {vector(symbol.dtype)}, ptr {self._values(LOADED, symbol.node[1])}, align 1"
            )
        return self._loaded

    def _at(self, slot: int) -> str:
        place = self._places.get(slot)
        if place is None:
            size, offset = max(1, self.layout.bits[slot] // 8), self._emitter.offset(str(slot))
            self.layout.of(slot)
            place = self._emitter.do(f"getelementptr i8, ptr %registers.{size}, i64 {offset}")
            self._places[slot] = place
        return place

    def _read(self, slot: int, *, merged: bool = False) -> str:
        """The value of a register. `merged`: some lanes are about to change."""
        if slot not in self._now:
            if self.layout.bits[slot] == 1:
                octets = self._emitter.do(f"load <8 x i8>, ptr {self._at(slot)}, align 8")
                value = self._emitter.do(f"icmp ne <8 x i8> {octets}, zeroinitializer")
            else:
                # Otherwise, LLVM merges the load, the selection and the store into a slow masked store.
                load = "load volatile" if merged else "load"
                value = self._emitter.do(f"{load} {self._kind(slot)}, ptr {self._at(slot)}, align 8")
            self._now[slot] = self._before[slot] = value
            self._fresh.append(slot)
        return self._now[slot]

    @property
    def slots(self) -> frozenset[int]:
        """The registers that the piece reads or writes in the file."""
        return frozenset((*self._before, *self._ended))

    def _octets(self, value: str) -> str:
        """Predicates as octets. A table has them: LLVM takes three times as long to extend each lane."""
        bits = self._emitter.do(f"bitcast <8 x i1> {value} to i8")
        index = self._emitter.do(f"zext i8 {bits} to i64")
        place = self._emitter.do(f"getelementptr i64, ptr %octets, i64 {index}")
        return self._emitter.do(f"load i64, ptr {place}")

    @property
    def saved(self) -> list[tuple[int, int]]:
        """Where the registers that the piece writes are in a row: the offset of each, and its bytes."""
        layout = self.layout
        return [(layout.of(slot), 32 * max(1, layout.bits[slot] // 8)) for slot in self._ended]

    def end(self) -> None:
        """Writes the registers that have changed, after all steps have been added."""
        before, live = self._before, self.live
        self._ended = {
            slot: value for slot, value in self._now.items() if value != before.get(slot) and live >> slot & 1
        }
        for slot, value in self._ended.items():
            if self.layout.bits[slot] == 1:
                self._put(f"i64 {self._octets(value)}", self._at(slot))
            else:
                self._put(f"{self._kind(slot)} {value}", self._at(slot))

    def body(self) -> tuple[str, list[int]]:
        """The function's code, and the offsets of registers that are `%offset.N` in it."""
        code, texts = self._done or self._code()
        return code, [int(each[1:]) if each[0] == "=" else self.layout.of(int(each)) for each in texts]

    def _code(self) -> tuple[str, list[str]]:
        """The function's code, and what its `%offset.N` are."""
        code = "\n".join(self._emitter.lines)
        used = [_SCRATCH] if "%scratch," in code else []
        for size in (1, 2, 4, 8, 16):
            if f"%registers.{size}," in code:
                used.append(f"  %registers.{size} = getelementptr i{8 * size}, ptr %registers, i64 %lane")
        return "\n".join([_HEAD, *used, _BODY, code, _TAIL]), list(self._emitter.offsets)


def module(pieces: Sequence[Piece]) -> str:
    """The LLVM IR of all pieces that have ended. Those that differ only in their registers share a function,
    which gets the offsets of these.
    """
    declared: set[str] = set()
    groups: dict[str, list[Piece]] = {}
    for piece in pieces:
        declared |= piece.declared
        body, piece.offsets = piece.body()
        groups.setdefault(body, []).append(piece)
    texts = []
    for body, same in groups.items():
        first, shared = same[0], len(same) > 1
        for piece in same:
            piece.function = first.name
        loads = [_OFFSET.format(at) for at in range(len(first.offsets) if shared else 0)]
        if not shared:
            body, first.offsets = _numbered(body, first.offsets), []
        texts.append("\n".join([f"define i64 @{first.name}{_ARGUMENTS}", *loads, body]))
    return "\n".join([*sorted(declared), *texts])


def _numbered(body: str, offsets: Sequence[int]) -> str:
    return _NUMBER.sub(lambda m: str(offsets[int(m[1])]), body)


_NUMBER = re.compile(r"%offset\.(\d+)")
_ARGUMENTS = """(ptr %rows, ptr noalias %all, ptr %masks, ptr %octets, ptr %offsets, i64 %end) nounwind {
entry:"""
_OFFSET = """  %place.{0} = getelementptr i64, ptr %offsets, i64 {0}
  %offset.{0} = load i64, ptr %place.{0}"""
_HEAD = """  br label %loop
loop:
  %each = phi i64 [0, %entry], [%next, %body]
  %warp = lshr i64 %each, 2
  %chunk = and i64 %each, 3
  %lane = shl i64 %chunk, 3
  %place = getelementptr ptr, ptr %rows, i64 %warp
  %registers = load ptr, ptr %place"""
_SCRATCH = f"""  %mine = mul i64 %warp, {SCRATCH}
  %scratch = getelementptr i8, ptr %all, i64 %mine"""
# In a block of its own, because the code generator is quick only with blocks that have no vectors.
_BODY = """  br label %body
body:"""
_TAIL = """  %next = add i64 %each, 1
  %more = icmp ult i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret i64 0
}"""
