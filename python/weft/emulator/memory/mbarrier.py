"""The mbarriers in the shared memory of a wave's CTAs: phases, pending arrivals and transaction counts.

The state of an mbarrier is the 64-bit word that PTX reserves for it, so a program sees (as state tokens) what
the emulator works on. From the lowest bit: 20 bits for the arrivals that each phase expects, 20 for the
pending arrivals of this phase, 21 for its pending bytes (signed), a mark, and in the highest bit the parity
of the phase.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weft.emulator.errors import Fault
from weft.emulator.memory.segments import Waiter
from weft.emulator.memory.spaces import Memory
from weft.emulator.reading.syntax import Bools
from weft.isa.mbarriers import BYTES, MOST_ARRIVALS, MOST_TRANSACTION_BYTES

PENDING_SHIFT = 20
TX_SHIFT = 40
TX_BITS = 21
MARK_SHIFT = 61
MARK = 1 << MARK_SHIFT
_TX_MASK, _TX_SIGN = (1 << TX_BITS) - 1, 1 << TX_BITS - 1
TEST_TICKS = 100
WAIT_TICKS = 20_000
"""The most ticks for which test_wait and try_wait let others run while the phase isn't complete."""


Key = tuple[int, int]
"""CTA of the wave, and offset in its shared memory."""
Numbers = npt.NDArray[np.intp]


# The word, for the interpreter and as a part of compiled code


def is_initialized(word: int) -> bool:
    """Whether a word is that of an mbarrier."""
    return word >> MARK_SHIFT & 3 == 1


def initial(count: int) -> int:
    """The word of an mbarrier whose phases expect `count` arrivals."""
    return count | count << PENDING_SHIFT | MARK


def pending_of(word: int) -> int:
    """The arrivals that complete the phase."""
    return word >> PENDING_SHIFT & MOST_ARRIVALS


def tx_of(word: int) -> int:
    """The bytes that complete the phase; fewer than 0 if they arrive before they are expected."""
    return (word >> TX_SHIFT & _TX_MASK ^ _TX_SIGN) - _TX_SIGN


def settled(word: int, count: int, size: int) -> int:
    """The word after `count` arrivals and `size` expected bytes; a complete phase begins the next one."""
    expected, pending, tx = word & MOST_ARRIVALS, pending_of(word) - count, tx_of(word) + size & _TX_MASK
    complete = pending | tx == 0
    phase = (word >> 63 & 1 ^ complete) << 63
    pending = expected if complete else pending
    return expected | pending << PENDING_SHIFT | tx << TX_SHIFT | phase | MARK


class State(NamedTuple):
    """The fields of an mbarrier's word."""

    expected: int
    pending: int
    tx: int
    parity: int

    @classmethod
    def of(cls, word: int) -> "State":
        return cls(word & MOST_ARRIVALS, pending_of(word), tx_of(word), word >> 63)


class Arrival(NamedTuple):
    """How threads or a unit arrive. With `drop`, later phases expect fewer arrivals; without `complete`, the
    arrival must not complete the phase. `event` is that of `Watch.mbarrier`.
    """

    drop: bool = False
    complete: bool = True
    event: str = "arrive"


COMMIT = Arrival(event="commit")


class Mbarriers:
    """The mbarriers of one wave, by CTA of the wave and offset in its shared memory.

    `phases` counts the completed phases.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.phases = 0
        self.alive: dict[tuple[int, int], int] = {}
        """The mbarriers between init and inval, with the line of their init."""
        self.advanced: set[tuple[int, int]] = set()
        """The mbarriers that have completed a phase."""
        self.waiting: dict[tuple[int, int], dict[Waiter, None]] = {}
        self.keys: list[tuple[int, int]] = []
        """The mbarriers that have been initialized, by their numbers."""
        self._numbers: dict[tuple[int, int], int] = {}
        self.places: npt.NDArray[np.int32] = np.zeros(memory.shared.size // BYTES, np.int32)
        """The number, plus 1, of the mbarrier alive at each word of the wave's shared memory."""
        self._words = memory.shared.view(BYTES).data

    def number(self, key: tuple[int, int]) -> int:
        """The number of an mbarrier."""
        at = self._numbers.get(key)
        if at is None:
            at = self._numbers[key] = len(self.keys)
            self.keys.append(key)
        return at

    # The operations

    def init(self, cta: int, offset: int, count: int, line: int, threads: Bools | None = None) -> None:
        """Initializes an mbarrier whose phases expect `count` arrivals."""
        if not 1 <= count <= MOST_ARRIVALS:
            what = f"an mbarrier's count must be in 1..{MOST_ARRIVALS}, got {count}"
            raise Fault(what, line, None, offset, "mbarrier-count")
        self.places[self._place(cta, offset, line)] = self.number((cta, offset)) + 1
        self.alive[cta, offset] = line
        self.advanced.discard((cta, offset))
        self._put(cta, offset, initial(count))
        self._notify("init", cta, offset, threads, line)
        self._wake(cta, offset)

    def inval(self, cta: int, offset: int, line: int, threads: Bools | None = None) -> None:
        """Makes the mbarrier's memory available for other uses."""
        self.word(cta, offset, line)
        del self.alive[cta, offset]
        at = self._place(cta, offset, line)
        self.places[at] = self._words[at] = 0
        self._notify("inval", cta, offset, threads, line)
        self._wake(cta, offset)

    def arrive(
        self,
        cta: int,
        offset: int,
        line: int,
        how: Arrival,
        count: int = 1,
        tx: int = 0,
        threads: Bools | None = None,
    ) -> int:
        """Expects `tx` more bytes, then arrives `count` times; returns the word from before."""
        before = self.word(cta, offset, line)
        if tx:
            self.expect_tx(cta, offset, tx, line, threads)
        word = self.word(cta, offset, line)
        pending = pending_of(word)
        if not 0 <= count <= pending:
            what = f"the mbarrier at 0x{offset:x} has {pending} pending arrivals, got {count}"
            raise Fault(what, line, None, offset, "mbarrier-count")
        self._notify(how.event, cta, offset, threads, line)
        if not how.complete and count == pending:
            raise Fault(f"arrive.noComplete must not complete a phase of the mbarrier at 0x{offset:x}", line)
        self._settle(cta, offset, word - (count if how.drop else 0), line, count=count)
        return before

    def expect_arrivals(self, cta: int, offset: int, count: int, line: int) -> None:
        """This phase alone completes only after `count` more arrivals."""
        word = self.word(cta, offset, line)
        if (pending := pending_of(word) + count) > MOST_ARRIVALS:
            expected = f"must expect at most {MOST_ARRIVALS} arrivals, got {pending}"
            what = f"the mbarrier at 0x{offset:x} {expected}"
            raise Fault(what, line, None, offset, "mbarrier-count")
        self._put(cta, offset, word + (count << PENDING_SHIFT))

    def expect_tx(self, cta: int, offset: int, size: int, line: int, threads: Bools | None = None) -> None:
        """The phase completes only after `size` more bytes."""
        self._transact("expect_tx", cta, offset, size, line, threads)

    def complete_tx(self, cta: int, offset: int, size: int, line: int, threads: Bools | None = None) -> None:
        """`size` bytes have arrived."""
        self._transact("complete_tx", cta, offset, -size, line, threads)

    def _transact(
        self, event: str, cta: int, offset: int, more: int, line: int, threads: Bools | None
    ) -> None:
        word = self.word(cta, offset, line)
        self._notify(event, cta, offset, threads, line)
        if abs(tx := tx_of(word) + more) > MOST_TRANSACTION_BYTES:
            legal = f"must be in -{MOST_TRANSACTION_BYTES}..{MOST_TRANSACTION_BYTES}, got {tx}"
            what = f"the transaction count of the mbarrier at 0x{offset:x} {legal}"
            raise Fault(what, line, None, offset, "mbarrier-count")
        self._settle(cta, offset, word, line, size=more)

    # The state

    def state(self, cta: int, offset: int, line: int) -> State:
        """The state of an mbarrier. Fault if it was not initialized, or overwritten since."""
        return State.of(self.word(cta, offset, line))

    def word(self, cta: int, offset: int, line: int) -> int:
        """The word of an mbarrier, with the faults of `state`."""
        word: int = self._words[self._place(cta, offset, line)]
        if (cta, offset) not in self.alive:
            what = f"no mbarrier was initialized at shared address 0x{offset:x}"
            raise Fault(what, line, None, offset, "mbarrier-uninitialized")
        if not is_initialized(word):
            what = f"the mbarrier at shared address 0x{offset:x} was overwritten"
            raise Fault(what, line, None, offset, "mbarrier-uninitialized")
        return word

    def _place(self, cta: int, offset: int, line: int) -> int:
        """The index of an mbarrier's word in the wave's shared memory. Fault if there can be none."""
        if offset % BYTES:
            what = f"misaligned mbarrier at shared address 0x{offset:x}"
            raise Fault(what, line, None, offset, "misaligned")
        self.memory.check_shared(offset, BYTES, line)
        return (cta * self.memory.shared_stride + offset) // BYTES

    def _put(self, cta: int, offset: int, word: int) -> None:
        self._words[self._place(cta, offset, 0)] = word
        self.memory.host.changes += 1

    def _settle(self, cta: int, offset: int, word: int, line: int, *, count: int = 0, size: int = 0) -> None:
        """Writes the word after arrivals and bytes, and begins the next phase if this one is complete."""
        new = settled(word, count, size)
        self._put(cta, offset, new)
        if new >> 63 != word >> 63:
            self._notify("phase", cta, offset, None, line)
            self.completed_phase((cta, offset))

    def completed_phase(self, key: tuple[int, int]) -> None:
        """A phase is complete, so those who wait for it continue."""
        self.phases += 1
        self.advanced.add(key)
        self._wake(*key)

    def _notify(self, event: str, cta: int, offset: int, threads: Bools | None, line: int) -> None:
        watch = self.memory.host.watch
        if watch is not None:
            watch.mbarrier(event, cta, offset, threads, line)

    # Waiting

    def wait(self, waiter: Waiter, cta: int, offset: int) -> None:
        """Wakes `waiter` when the barrier's phase completes."""
        self.waiting.setdefault((cta, offset), {})[waiter] = None

    def _wake(self, cta: int, offset: int) -> None:
        for waiter in self.waiting.pop((cta, offset), {}):
            waiter.stalled = False
