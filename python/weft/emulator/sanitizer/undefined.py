"""Registers whose value is undefined, because a thread has never written them, or has computed them from such
registers. Compilers compute with them, too, and discard the results: in a reduction, lanes without an element
add those of each other. So only a use is reported that matters to others than registers: an address, a guard,
a value that is stored.

Products do so with rows of tiles beyond the edges of matrices, which nothing has written. Once an ldmatrix or
a wgmma has read such a row, all of its wave is followed: what is loaded from shared memory that wasn't
written is undefined, and so are its products, and shared memory that they are stored in.
"""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from weft.emulator.memory.segments import Access, Threads
from weft.emulator.reading.syntax import Array, Bools
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.dataflow import Watched, computes, is_copy, operands, real_reads
from weft.emulator.sanitizer.findings import Findings
from weft.emulator.sanitizer.shadow import NOWHERE
from weft.emulator.watch import ROWS, Marks, Traffic

Origins = npt.NDArray[np.int32]


class Undefined:
    """By slot, where each thread's value comes from, `[all warps, 32]`: 0 if it is defined, `NOWHERE` if the
    register was never written, or else the line that first computed with one that wasn't, or loaded it. Slots
    that are missing are defined in all threads.

    `follow` has more registers announced, and returns them. `never` has the bytes of shared memory that are
    undefined, `[CTAs, bytes of each]`, as numbers that aren't 0.
    """

    never: Callable[[], Array]

    def __init__(
        self,
        wave: Wave,
        findings: Findings,
        what: Watched,
        matrix_loads: Mapping[int, Traffic],
        follow: Callable[[], frozenset[int]],
    ) -> None:
        self.wave, self.findings, self._slots = wave, findings, what.undefined
        self._matrix_loads, self._follow, self._follows = matrix_loads, follow, False
        never: Origins = np.full((wave.warps, 32), NOWHERE, np.int32)
        self._origins: dict[int, Origins] = dict.fromkeys(what.unwritten, never)
        self._sources: dict[int, tuple[str, str, int | None]] = {}
        """The rule, message and address of the findings for the lines of `_origins`."""
        self._now: Traffic | None = None
        """While all is followed: the instruction that runs."""
        self._stored: Origins | None = None
        """Where what it stores in shared memory comes from, `[all warps, 32, elements]`."""
        self._product: tuple[Traffic, Threads] | None = None

    def instruction(self, traffic: Traffic, lanes: Threads) -> None:
        """An announced instruction is about to run."""
        origins, self._stored = self._origins, None
        if self._follows:
            self._now = traffic
            if traffic.spread_shared is not None:
                return  # `multiplying` is called, too
        reads = [slot for slot in operands(traffic) if slot in origins]
        if not reads and origins.keys().isdisjoint(traffic.writes):
            return
        threads = lanes.threads()
        if self._follows and traffic.prefix in ("mma", "stmatrix"):
            self._spread(traffic, threads)
            return
        if self._follows and traffic.space == "shared" and not origins.keys().isdisjoint(traffic.stores):
            self._stored = np.stack([origins.get(slot, self._none()) for slot in traffic.stores], axis=2)
            reads = [slot for slot in reads if slot not in traffic.stores]
        found = np.where(threads, self._copied(traffic, reads), 0) if is_copy(traffic) else None
        if found is None:
            found = np.where(threads, self._operands(traffic, reads, lanes), 0)
            if not computes(traffic):
                self._report(traffic, found)
                found = self._none()
            elif (found == NOWHERE).any():
                found[found == NOWHERE] = self._source(traffic)
        for at, slot in enumerate(traffic.writes):
            # The second result of shfl doesn't depend on the value.
            self._write(slot, threads, self._none() if at and traffic.sources else found)

    def _none(self) -> Origins:
        return np.zeros((self.wave.warps, 32), np.int32)

    def _source(self, traffic: Traffic) -> int:
        """The number of an instruction that reads what was never written."""
        message = f"{traffic.prefix} reads a register that was never written"
        self._sources.setdefault(traffic.line, ("uninitialized-register", message, None))
        return traffic.line

    def _copied(self, traffic: Traffic, reads: list[int]) -> Origins:
        """A packed register counts as written if a part of it was."""
        parts = [self._origins[slot] for slot in reads]
        if not parts or len(parts) < len(operands(traffic)):
            return self._none()
        found = parts[0]
        for part in parts[1:]:
            found = np.where(part == 0, part, found)
        return found

    def _operands(self, traffic: Traffic, reads: list[int], lanes: Threads) -> Origins:
        """Where the undefined operands of threads come from."""
        found, real = self._none(), real_reads(traffic)
        for slot in reads:
            mine = self._read(slot, traffic, lanes)
            if slot not in real:
                mine = np.where(mine == NOWHERE, 0, mine)
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
            chosen = regs[predicate]
            origin = np.where(chosen & (slot == true) | ~chosen & (slot == false), origin, 0)
        return origin

    def _write(self, slot: int, threads: Bools, value: Origins) -> None:
        if slot in self._slots:
            new: Origins = np.where(threads, value, self._origins.pop(slot, 0))
            if new.any():
                self._origins[slot] = new

    def _report(self, traffic: Traffic, found: Origins) -> None:
        for line in np.unique(found[found != 0]).tolist():
            threads = found == line
            thread = self.wave.first(threads)
            line = self._source(traffic) if line == NOWHERE else line
            rule, message, address = self._sources[line]
            self.findings.add(rule, message, line, thread, address, int(np.count_nonzero(threads)))

    # What is followed

    def _marks(self, traffic: Traffic, threads: Bools) -> tuple[Marks, int]:
        """The undefined operands of a matrix instruction, and where one of them comes from."""
        origins = {slot: self._origins[slot] for slot in operands(traffic) if slot in self._origins}
        marks = {slot: threads & (origin != 0) for slot, origin in origins.items()}
        line = max((int(origins[slot][mark].max()) for slot, mark in marks.items() if mark.any()), default=0)
        return marks, self._source(traffic) if line == NOWHERE else line

    def _spread(self, traffic: Traffic, threads: Bools) -> None:
        """mma.sync computes, or stmatrix stores."""
        assert traffic.spread is not None
        marks, line = self._marks(traffic, threads)
        none = np.zeros_like(threads)
        found = traffic.spread(lambda slot: marks.get(slot, none))
        if ROWS in found:
            self._stored = np.where(found[ROWS], np.int32(line), 0)[:, :, None]
        for slot in traffic.writes:
            self._write(slot, threads, np.where(found[slot], np.int32(line), 0))

    def multiplying(self, traffic: Traffic, threads: Threads) -> None:
        """wgmma.mma_async is about to run."""
        self._product = traffic, threads
        if self._follows:
            self._multiply(traffic, threads)

    def _multiply(self, traffic: Traffic, lanes: Threads) -> None:
        assert traffic.spread_shared is not None
        rows, threads, none = lanes.row_numbers(), lanes.threads(), self._none()
        marks, line = self._marks(traffic, threads)
        found = traffic.spread_shared(lanes, lambda slot: marks.get(slot, none)[rows] != 0, self.never())
        for slot in traffic.writes:
            value = self._none()
            value[rows] = np.where(found[slot], np.int32(line or traffic.line), 0)
            self._write(slot, threads, value)

    def multiplies(self, line: int, address: int) -> bool:
        """A wgmma reads shared memory that was never written. False if that isn't followed."""
        traffic, lanes = self._product or (None, None)
        if traffic is None or lanes is None or self._matrix_loads.get(line) is not traffic:
            return False
        self._sources.setdefault(line, ("uninitialized-shared", _never_written(address), address))
        if self._begin():
            self._multiply(traffic, lanes)
        return True

    def _begin(self) -> bool:
        """Follows all from now on. False if it did so before."""
        if self._follows:
            return False
        self._slots, self._follows = self._follow(), True
        return True

    def load(self, access: Access, origins: Origins) -> bool:
        """Threads load from shared memory, `[lanes, parts]`, where `stored` has put origins, or nothing was
        written (`NOWHERE`). False if that isn't followed.
        """
        traffic = self._now or self._matrix_loads.get(access.line)
        if traffic is None or traffic.line != access.line or not traffic.writes:
            return False
        self._begin()
        never = origins == NOWHERE
        first = np.flatnonzero(access.lanes.enabled())[int(never.any(axis=1).argmax())]
        address = int(access.address.flat[first])
        finding = "uninitialized-shared", _never_written(address), address
        self._sources.setdefault(access.line, finding)
        origins = np.where(never, access.line, origins)
        count = len(traffic.writes)
        if traffic.spread is not None or origins.shape[1] % count:
            count = 1
        threads = access.lanes.threads()
        loaded = np.zeros((*threads.shape, count), np.int32)
        loaded[threads] = origins.reshape(len(origins), count, -1).max(axis=2)
        spread = traffic.spread(lambda _: loaded[..., 0] != 0) if traffic.spread is not None else {}
        for at, slot in enumerate(traffic.writes):
            new = np.where(spread[slot], loaded.max(), 0) if spread else loaded[..., at % count]
            old = self._origins.get(slot, self._none())
            self._origins[slot] = np.where(old == 0, new, old)
        return True

    def stored(self, access: Access) -> Origins | None:
        """Where what threads store in shared memory comes from, `[lanes, elements]`; None: all is defined."""
        if self._stored is None or self._now is None or self._now.line != access.line:
            return None
        found: Origins = self._stored[access.lanes.threads()]
        return found


def _never_written(address: int) -> str:
    return f"shared memory at 0x{address:x} is read but was never written"
