"""Traces steps of the interpreter: what they write to registers, and how they access memory."""

from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from weft.emulator.decoding.table import Step
from weft.emulator.numerics.symbols import LANES, Symbol, UntraceableError, predicate_and, register
from weft.emulator.reading.types import STORAGE
from weft.emulator.running.slots import Slots

_REFUSALS = (UntraceableError, TypeError, ValueError, AttributeError, LookupError)
"""What a step raises for a symbol, because it does what only arrays can do."""
SPACES = {name: name for name in ("global", "shared", "local", "param", "const")} | {"generic": "global"}
"""The functions that access each space. Generic addresses that aren't in global memory are left to the
interpreter.
"""
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
    """What a step does: at most one access, whose operands come from before the step, and then its writes:
    slot, value, and the lanes that it is for.
    """

    access: Access | None = None
    loaded: Symbol | None = None
    writes: list[tuple[int, Symbol, Symbol | None]] = field(default_factory=list)


class Registers:
    """The registers of a program: their widths, and the values of those that are constants."""

    def __init__(self, slots: Slots) -> None:
        self.bits = slots.bits
        self._constants = {
            slot: Symbol(STORAGE[bits], ("constant", _element(value, bits)))
            for (value, bits), slot in slots.constants.items()
            if bits <= 64
        }

    def read(self, slot: int) -> Symbol:
        """The value of a register, for a step."""
        constant = self._constants.get(slot)
        return register(slot, self.bits[slot]) if constant is None else constant


def _element(value: int, bits: int) -> Any:
    return np.frombuffer(value.to_bytes(max(1, bits // 8), "little"), STORAGE[bits])[0]


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
        self._found, self._registers, self._mask = found, registers, mask
        self.wave = _Wave(found)

    @property
    def mask(self) -> Symbol | None:
        return self._mask

    def read(self, slot: int) -> Symbol:
        for written, value, mask in self._found.writes[::-1]:
            if written == slot and mask is self._mask:
                return value
            if written == slot:
                raise UntraceableError("reads what other lanes have written")
        return self._registers.read(slot)

    def write(self, slot: int, value: Symbol) -> None:
        if not isinstance(value, Symbol):
            value = _full(value)
        if value.dtype != STORAGE[self._registers.bits[slot]] or value.count != 1 or value.trailing:
            raise UntraceableError("writes another type")
        self._found.writes.append((slot, value, self._mask))

    def guarded(self, predicate: int, negated: bool) -> tuple[Symbol, int]:
        held = self.read(predicate)
        return predicate_and(self._mask, ~held if negated else held), 1

    def narrowed(self, mask: Symbol) -> "_Lanes":
        return _Lanes(self._found, self._registers, mask)


def _full(value: Any) -> Symbol:
    array = np.asarray(value)
    if array.size == 0 or (array != array.flat[0]).any():
        raise UntraceableError("writes lanes that differ")
    return Symbol(array.dtype, ("constant", array.flat[0]))


class _Wave:
    """Stands in for a wave: only its memory can be traced."""

    __slots__ = ("memory",)

    def __init__(self, found: Trace) -> None:
        self.memory = _Memory(found)


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
            self.refuse(f"accesses {space} memory")
        if self._found.access is not None or self._found.writes:
            self.refuse("accesses memory twice")
        if value is not None and space in ("param", "const"):
            self.refuse(f"writes {space} memory")
        self._found.access = Access(SPACES[space], address, width, line, lanes.mask, value)

    def refuse(self, why: str) -> NoReturn:
        raise UntraceableError(why)
