"""Pieces: what traced steps compute between two accesses to memory, as functions on one warp.

A function takes the warp's registers, its scratch memory and its active lanes. It runs four times eight
lanes. Scratch memory has the addresses of an access, its values, and its lanes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.emulator.compiled.emit import Emitter, vector
from weft.emulator.compiled.symbols import Symbol, UntraceableError
from weft.emulator.compiled.tracing import Access, Trace
from weft.emulator.reading.types import STORAGE

LOADED, MASK, STORED = 256, 768, 1024
"""Where a warp's scratch memory has what was loaded, after the addresses, the lanes of an access, and what is
stored. A piece may use both kinds of values, for two accesses.
"""
SCRATCH = 1536
"""The bytes of a warp's scratch memory."""


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
        self._emitter = Emitter(self._input)
        self._now: dict[int, str] = {}
        self._before: dict[int, str] = {}
        self._loaded = ""

    def __bool__(self) -> bool:
        return bool(self._emitter.lines or self._now)

    @property
    def declared(self) -> set[str]:
        return self._emitter.declared

    def add(self, trace: Trace) -> bool:
        """Adds a step without its access; False, with no effect, if there is no code for it."""
        emitter, kept, now = self._emitter, len(self._emitter.lines), dict(self._now)
        before = dict(self._before)
        emitter.forget()
        self._loaded = ""
        try:
            changed: dict[int, str] = {}
            for slot, value, mask in trace.writes:
                new = emitter.value(value, 1)
                if mask is not None:
                    old = changed.get(slot) or self._read(slot)
                    new = emitter.select(emitter.value(mask, 1), new, old, self._kind(slot))
                changed[slot] = new
        except UntraceableError:
            del emitter.lines[kept:]
            self._now, self._before = now, before
            return False
        self._now |= changed
        return True

    def access(self, access: Access) -> bool:
        """Ends the piece with the operands of an access; False, with no effect, if there is no code."""
        emitter, kept, before = self._emitter, len(self._emitter.lines), dict(self._before)
        now = dict(self._now)
        emitter.forget()
        try:
            address = emitter.value(access.address, 1)
            mask = "%active"
            if access.mask is not None:
                mask = emitter.do(f"and <8 x i1> {emitter.value(access.mask, 1)}, %active")
            value = "" if access.value is None else emitter.value(access.value)
        except UntraceableError:
            del emitter.lines[kept:]
            self._now, self._before = now, before
            return False
        self._put(f"<8 x i64> {address}", emitter.do("getelementptr i64, ptr %scratch, i64 %lane"))
        begin = emitter.do(f"getelementptr i8, ptr %scratch, i64 {MASK}")
        bits = emitter.do(f"bitcast <8 x i1> {mask} to i8")
        self._put(f"i8 {bits}", emitter.do(f"getelementptr i8, ptr {begin}, i64 %chunk"))
        if access.value is not None:
            symbol = access.value
            self._put(f"{vector(symbol.dtype, symbol.count)} {value}", self._values(STORED, access.width))
        return True

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
        size = max(1, self.layout.bits[slot] // 8)
        return self._emitter.do(f"getelementptr i8, ptr %registers.{size}, i64 {self.layout.of(slot)}")

    def _read(self, slot: int) -> str:
        if slot not in self._now:
            self._now[slot] = self._before[slot] = self._from_file(slot)
        return self._now[slot]

    def _from_file(self, slot: int) -> str:
        if self.layout.bits[slot] == 1:
            octets = self._emitter.do(f"load <8 x i8>, ptr {self._at(slot)}, align 8")
            return self._emitter.do(f"icmp ne <8 x i8> {octets}, zeroinitializer")
        return self._emitter.do(f"load {self._kind(slot)}, ptr {self._at(slot)}, align 8")

    def _written(self) -> dict[int, str]:
        """The registers that the piece changes, and their values."""
        return {
            slot: value
            for slot, value in sorted(self._now.items())
            if value != self._before.get(slot) and self.live >> slot & 1
        }

    @property
    def slots(self) -> frozenset[int]:
        """The registers that the piece reads or writes in the file."""
        return frozenset((*self._before, *self._written()))

    def text(self) -> str:
        """The function. Only active lanes of the registers change."""
        for slot, value in self._written().items():
            old = self._before[slot] if slot in self._before else self._from_file(slot)
            new = self._emitter.select("%active", value, old, self._kind(slot))
            if self.layout.bits[slot] == 1:
                new = self._emitter.do(f"zext <8 x i1> {new} to <8 x i8>")
                self._put(f"<8 x i8> {new}", self._at(slot))
            else:
                self._put(f"{self._kind(slot)} {new}", self._at(slot))
        return "\n".join([_HEAD.format(name=self.name), *self._emitter.lines, _TAIL])


def module(pieces: Sequence[Piece]) -> str:
    """The LLVM IR of all pieces."""
    declared: set[str] = set()
    texts = [piece.text() for piece in pieces]
    for piece in pieces:
        declared |= piece.declared
    return "\n".join([*sorted(declared), *texts])


_HEAD = """define void @{name}(ptr noalias %file, ptr noalias %scratch, i32 %mask) {{
entry:
  br label %loop
loop:
  %chunk = phi i64 [0, %entry], [%next, %loop]
  %lane = shl i64 %chunk, 3
  %from = trunc i64 %lane to i32
  %moved = lshr i32 %mask, %from
  %octet = trunc i32 %moved to i8
  %word = zext i8 %octet to i32
  %one = insertelement <8 x i32> poison, i32 %word, i32 0
  %all = shufflevector <8 x i32> %one, <8 x i32> poison, <8 x i32> zeroinitializer
  %each = and <8 x i32> %all, <i32 1, i32 2, i32 4, i32 8, i32 16, i32 32, i32 64, i32 128>
  %active = icmp ne <8 x i32> %each, zeroinitializer
  %registers.1 = getelementptr i8, ptr %file, i64 %lane
  %registers.2 = getelementptr i16, ptr %file, i64 %lane
  %registers.4 = getelementptr i32, ptr %file, i64 %lane
  %registers.8 = getelementptr i64, ptr %file, i64 %lane
  %registers.16 = getelementptr i128, ptr %file, i64 %lane"""
_TAIL = """  %next = add i64 %chunk, 1
  %more = icmp ult i64 %next, 4
  br i1 %more, label %loop, label %end
end:
  ret void
}"""
