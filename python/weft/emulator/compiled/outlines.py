"""What accesses have in common that differ only in their registers and constants."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.emulator.compiled.tracing import Access
from weft.emulator.numerics.symbols import Symbol, number_of

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
        return [
            f"={constants[int(each[1:])]}" if each[0] == "=" else str(slots[int(each)]) for each in numbered
        ]
