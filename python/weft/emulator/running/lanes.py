"""The register file, and the view of it with which one group of threads executes.

A register is an array `[warps, 32]` that never changes: a write puts a new array into its slot. So registers
may share arrays, a move costs nothing, and an instruction may keep its operands.

Numbers of lanes, warps and lines in words.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.emulator.errors import Thread
from weft.emulator.memory.segments import Rows
from weft.emulator.reading.syntax import Array, Bools
from weft.emulator.running.wave import Wave


def runs(numbers: Sequence[int]) -> list[list[int]]:
    """The first and the last number of each run of ascending numbers."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers, with runs of them as first and last: 0-3,7."""
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs(numbers))


def lanes_in_words(lanes: Any) -> str:
    """The lanes that are True: 'lane 3', 'lanes 0-31'."""
    numbers = np.flatnonzero(lanes).tolist()
    return f"lane{'' if len(numbers) == 1 else 's'} {ranges(numbers)}"


WARP = 32


class Lanes:
    """The threads that execute an instruction together.

    `rows` are their warps among the wave's (None: all), `mask` the active lanes of those (None: all),
    `active` the number of active threads. `whole`: all threads of the wave are active, so that registers can
    be used as they are.
    """

    __slots__ = ("active", "mask", "regs", "rows", "warps", "wave", "whole")

    def __init__(self, wave: Wave, rows: Rows | None, mask: Bools | None, warps: int) -> None:
        self.wave = wave
        self.regs = wave.regs
        self.rows = rows
        self.mask = mask
        self.warps = warps
        self.whole = rows is None and mask is None
        self.active = warps * WARP if mask is None else int(np.count_nonzero(mask))

    @classmethod
    def of(cls, wave: Wave, threads: Bools) -> "Lanes":
        """The view of the threads that are True in `threads`, `[all warps, 32]`; at least one is."""
        rows = np.flatnonzero(threads.any(axis=1))
        chosen = _selected(rows, len(threads))
        threads = threads if chosen is None else threads[chosen]
        every = np.count_nonzero(threads) == threads.size
        return cls(wave, chosen, None if every else threads, len(rows))

    def narrowed(self, mask: Bools) -> "Lanes":
        """The same warps with only the lanes of `mask`, which must be active already."""
        return Lanes(self.wave, self.rows, mask, self.warps)

    def of_warps(self, some: Bools) -> "Lanes":
        """The active threads of some of the warps, at least one."""
        rows = self.row_numbers()[some]
        mask = None if self.mask is None else self.mask[some]
        none = None if mask is None or mask.all() else mask
        return Lanes(self.wave, _selected(rows, self.wave.warps), none, len(rows))

    def read(self, slot: int) -> Array:
        """`[warps, 32]`; the values of inactive lanes are undefined."""
        value = self.regs[slot]
        return value if self.rows is None else value[self.rows]

    def guarded(self, predicate: int, negated: bool) -> tuple[Bools, int]:
        """The active lanes whose predicate is true (false if `negated`), `[warps, 32]`, and their number."""
        mask = self.read(predicate)
        if negated:
            mask = ~mask
        if self.mask is not None:
            mask = mask & self.mask
        return mask, int(np.count_nonzero(mask))

    def write(self, slot: int, value: Array) -> None:
        """Writes the active lanes; `value` must not be changed afterwards."""
        if self.whole:
            self.regs[slot] = value
        elif self.rows is None:
            assert self.mask is not None
            self.regs[slot] = np.where(self.mask, value, self.regs[slot])
        else:
            new = self.regs[slot].copy()
            new[self.rows] = value if self.mask is None else np.where(self.mask, value, new[self.rows])
            self.regs[slot] = new

    def chosen(self, per_row: Array) -> Array:
        """The rows of these warps of an array over all warps of the wave."""
        return per_row if self.rows is None else per_row[self.rows]

    def enabled(self) -> Bools:
        """The active lanes, `[warps, 32]`."""
        return np.ones((self.warps, WARP), np.bool_) if self.mask is None else self.mask

    def threads(self) -> Bools:
        """The active threads among all of the wave, `[all warps, 32]`."""
        if self.rows is None:
            return self.enabled()
        full = np.zeros((self.wave.warps, WARP), np.bool_)
        full[self.rows] = self.enabled()
        return full

    def singles(self) -> "Iterator[tuple[Lanes, tuple[int, int], int]]":
        """Each active thread: its lanes, its index in `[warps, 32]`, and its CTA's number in the wave."""
        for at, row in self.places():
            yield self.single(at), at, int(self.wave.cta_of_row[row])

    def places(self) -> Iterator[tuple[tuple[int, int], int]]:
        """The index of each active thread in `[warps, 32]`, and its row in the wave."""
        mask, rows = self.mask, self.rows
        every = range(self.warps * WARP) if mask is None else mask.reshape(-1).nonzero()[0].tolist()
        for at in every:
            index = at // WARP, at % WARP
            if rows is None:
                yield index, index[0]
            elif isinstance(rows, slice):
                yield index, rows.start + index[0]
            else:
                yield index, rows.item(index[0])

    def first(self, some: Bools | None = None) -> Thread:
        """The first of the active threads, or of those in `some`, `[warps, 32]`."""
        return self.wave.first((self if some is None else self.narrowed(some)).threads())

    def single(self, at: tuple[int, int]) -> "Lanes":
        """One of the active threads, by its index in `[warps, 32]`."""
        mask = np.zeros((self.warps, WARP), np.bool_)
        mask[at] = True
        return self.narrowed(mask)

    def row_numbers(self) -> npt.NDArray[np.intp]:
        """The rows as indices into the wave."""
        return np.arange(self.wave.warps) if self.rows is None else np.arange(self.wave.warps)[self.rows]


def _selected(rows: npt.NDArray[np.intp], warps: int) -> Rows | None:
    """Rows, at least one, as `Lanes.rows` of a wave with so many warps."""
    count = len(rows)
    if count == warps:
        return None
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first + 1 == count else rows
