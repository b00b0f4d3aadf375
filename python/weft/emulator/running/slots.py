"""Assigns the slots of a kernel's register file: registers, constants, special registers."""

from weft.emulator.reading.types import Type


class Slots:
    """`bits` has the width of each slot. Slot 0 is unused, so that 0 can mean "no register"."""

    def __init__(self) -> None:
        self.bits = [1]
        self.constants: dict[tuple[int, int], int] = {}
        self.specials: dict[tuple[str, int], int] = {}
        self.symbols: dict[tuple[int, int], int] = {}
        self._scrap: dict[int, int] = {}

    def new(self, kind: Type) -> int:
        self.bits.append(kind.bits)
        return len(self.bits) - 1

    def constant(self, value: int, kind: Type) -> int:
        """The slot that holds the bits of `value` in every lane."""
        key = (value, kind.bits)
        if key not in self.constants:
            self.constants[key] = self.new(kind)
        return self.constants[key]

    def symbol(self, offset: int, kind: Type) -> int:
        """The slot of a shared address, which refers to the memory of each thread's own CTA."""
        key = (offset & ((1 << kind.bits) - 1), kind.bits)
        if key not in self.symbols:
            self.symbols[key] = self.new(kind)
        return self.symbols[key]

    def special(self, name: str, kind: Type) -> int:
        """The slot of a special register whose value doesn't change, read as `kind`."""
        key = (name, kind.bits)
        if key not in self.specials:
            self.specials[key] = self.new(kind)
        return self.specials[key]

    def scrap(self, kind: Type) -> int:
        """A slot that is written and never read, for `_`."""
        if kind.bits not in self._scrap:
            self._scrap[kind.bits] = self.new(kind)
        return self._scrap[kind.bits]
