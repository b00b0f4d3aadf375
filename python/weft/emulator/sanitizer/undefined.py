"""Registers whose value is undefined, because a thread has never written them, or has computed them from such
registers. Compilers compute with them, too, and discard the results: in a reduction, lanes without an element
add those of each other. So only a use is reported that matters to others than registers: an address, a guard,
a value that is stored.
"""

import numpy as np
import numpy.typing as npt

from weft.emulator.memory.access import Threads
from weft.emulator.reading.types import Bools
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.dataflow import computes, is_copy, operands, real_reads
from weft.emulator.sanitizer.findings import Findings
from weft.emulator.watch import Traffic

Origins = npt.NDArray[np.int32]
_NEVER = -1
_RULE = "uninitialized-register"


class Undefined:
    """By slot, where each thread's value comes from, `[all warps, 32]`: 0 if it is defined, `_NEVER` if the
    register was never written, or else the line that first computed with one that wasn't. Slots that are
    missing are defined in all threads.
    """

    def __init__(
        self, wave: Wave, findings: Findings, unwritten: frozenset[int], slots: frozenset[int]
    ) -> None:
        self.wave, self.findings, self._slots = wave, findings, slots
        never: Origins = np.full((wave.warps, 32), _NEVER, np.int32)
        self._origins: dict[int, Origins] = dict.fromkeys(unwritten, never)
        self._prefixes: dict[int, str] = {}
        """What computes at the lines of `_origins`."""

    def instruction(self, traffic: Traffic, lanes: Threads) -> None:
        """An announced instruction is about to run."""
        origins = self._origins
        reads = [slot for slot in operands(traffic) if slot in origins]
        if not reads and origins.keys().isdisjoint(traffic.writes):
            return
        threads = lanes.threads()
        found = np.where(threads, self._copied(traffic, reads), 0) if is_copy(traffic) else None
        if found is None:
            found = np.where(threads, self._operands(traffic, reads, lanes), 0)
            if not computes(traffic):
                self._report(traffic, found)
                found = np.zeros_like(found)
            elif (found == _NEVER).any():
                self._prefixes.setdefault(traffic.line, traffic.prefix)
                found[found == _NEVER] = traffic.line
        for at, slot in enumerate(traffic.writes):
            # The second result of shfl doesn't depend on the value.
            value = np.zeros_like(found) if at and traffic.sources else found
            self._write(slot, threads, value)

    def _copied(self, traffic: Traffic, reads: list[int]) -> Origins:
        """A packed register counts as written if a part of it was."""
        parts = [self._origins[slot] for slot in reads]
        if not parts or len(parts) < len(operands(traffic)):
            return np.zeros((self.wave.warps, 32), np.int32)
        found = parts[0]
        for part in parts[1:]:
            found = np.where(part == 0, part, found)
        return found

    def _operands(self, traffic: Traffic, reads: list[int], lanes: Threads) -> Origins:
        """Where the undefined operands of threads come from."""
        found: Origins = np.zeros((self.wave.warps, 32), np.int32)
        real = real_reads(traffic)
        for slot in reads:
            mine = self._read(slot, traffic, lanes)
            if slot not in real:
                mine = np.where(mine == _NEVER, 0, mine)
            found = np.where(found == 0, mine, found)
        return found

    def _read(self, slot: int, traffic: Traffic, lanes: Threads) -> Origins:
        """Where what threads read of a register, maybe that of another lane, comes from."""
        origin, rows, regs = self._origins[slot], lanes.row_numbers(), self.wave.regs
        for of, sources in traffic.sources:
            if of == slot:
                lane = sources(lambda each: regs[each][rows])
                origin = origin.copy()
                origin[rows] = np.where(lane < 0, 0, origin[rows[:, None], np.maximum(lane, 0)])
        if traffic.selects is not None and slot in traffic.selects[:2]:
            true, false, predicate = traffic.selects
            origin = np.where(
                regs[predicate] & (slot == true) | ~regs[predicate] & (slot == false), origin, 0
            )
        return origin

    def _write(self, slot: int, threads: Bools, value: Origins) -> None:
        if slot in self._slots:
            new: Origins = np.where(threads, value, self._origins.pop(slot, 0))
            if new.any():
                self._origins[slot] = new

    def _report(self, traffic: Traffic, found: Origins) -> None:
        for line in np.unique(found[found != 0]).tolist():
            threads = found == line
            thread = self.wave.thread(*divmod(int(threads.argmax()), 32))
            prefix, line = (traffic.prefix, traffic.line) if line == _NEVER else (self._prefixes[line], line)
            message = f"{prefix} reads a register that was never written"
            self.findings.add(_RULE, message, line, thread, None, int(np.count_nonzero(threads)))
