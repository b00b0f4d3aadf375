"""`--lower-claims`: claims of shares become atomic operations on a counter in global memory.

A counter holds the number of arrivals of a launch in its low byte, and above it a bit for each party that has
stopped waiting. The last party to arrive clears both and flips the highest bit. The flipped bit shows parties
that read late that all have arrived, and no counter needs a reset before the next launch.

A warp's first lane accesses the counter. All lanes get the value that it reads, and branch on it together. If
one lane waited in a loop of its own, ptxas would treat every loop around that one as divergent, and matrix
descriptors in it as values that may differ between lanes.
"""

from collections.abc import Callable
from typing import Any

from weft.dialects.tile_claims import AwaitOthersOp, ClaimOp
from weft.dialects.tile_limits import MOST_PARTIES
from weft.mlir import arith, ir, llvm, memref, nvvm
from weft.passes.analysis import uniformity
from weft.passes.analysis.uniformity import Scope
from weft.passes.builders import addresses, atomics, emit, thread_ids
from weft.passes.registry.pass_ import Lowering, Pass, rewrite

_ARRIVED = 0xFF
_STOPPED = 8  # the first bit of the parties that have stopped waiting
_FLIPPED = 31  # the bit that each launch flips
_POLLS = 32  # of a party that waits; each takes a round trip to L2


def _claim(op: ClaimOp) -> ir.Value:
    """The writes of all lanes are visible to the GPU before their warp arrives. What the lane that reads the
    counter acquires is visible to all lanes.
    """
    uniformity.require(op, Scope.WARP)
    nvvm.SyncWarpOp(emit.value(-1))
    atomics.fence()
    claimed = _Claim(op).mask()
    nvvm.SyncWarpOp(emit.value(-1))
    return claimed


def _await_others(op: AwaitOthersOp) -> ir.Value:
    """The writes of the others are visible after the claim that follows."""
    uniformity.require(op, Scope.WARP)
    others = emit.sub(op.parties, 1)

    def complete(current: ir.Value) -> ir.Value:
        return emit.equal(emit.bit_and(current, _ARRIVED), others)

    return complete(_Counter(op).poll(complete))


def _in_all_lanes(read: Callable[[], ir.Value]) -> ir.Value:
    """The i32 that a warp's first lane reads from memory, in all lanes."""
    first = emit.equal(thread_ids.lane(), 0)
    (number,) = emit.either(first, [emit.i32()], lambda: [read()], lambda: [emit.value(0)])
    return emit.of_lane(number, 0)


_ACQUIRE = llvm.AtomicOrdering.acquire


class _Counter:
    """The counter at which parties meet."""

    def __init__(self, op: ClaimOp | AwaitOthersOp) -> None:
        base = arith.index_cast(emit.i64(), memref.extract_aligned_pointer_as_index(op.counters))
        self.address = addresses.offset(llvm.inttoptr(addresses.pointer_type(1), base), emit.mul(op.index, 4))

    def poll(self, enough: Callable[[ir.Value], ir.Value]) -> ir.Value:
        """Reads the counter until it is `enough`, an i1, or at most `_POLLS` times; its last value."""

        def read(left: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
            current = _in_all_lanes(lambda: atomics.acquired(self.address, atomics.BOTH))
            return arith.andi(emit.negate(enough(current)), emit.less(0, left)), [left, current]

        kinds = [emit.i32(), emit.i32()]
        return emit.repeat([emit.value(_POLLS)], read, lambda left, _: [emit.sub(left, 1)], kinds)[1]


class _Claim(_Counter):
    """The counter of one claim, and the share of its party."""

    def __init__(self, op: ClaimOp) -> None:
        super().__init__(op)
        self.parties = op.parties
        own = arith.shli(emit.value(1), op.party)
        self.own = emit.select(emit.less(op.party, op.shares.value), own, 0)

    def mask(self) -> ir.Value:
        """Arrives, and waits for the others for a limited time; the mask of this party's shares."""
        before = _in_all_lanes(lambda: self._update(llvm.AtomicBinOp.add, emit.value(1)))
        last = emit.equal(emit.bit_and(before, _ARRIVED), emit.sub(self.parties, 1))

        def take_all_left() -> list[ir.Value]:
            atomics.fence()  # LLVM's addition acquires nothing
            self._flip(before)
            stopped = emit.bit_and(emit.shift_right(before, _STOPPED), (1 << MOST_PARTIES) - 1)
            return [arith.ori(stopped, self.own)]

        def wait() -> list[ir.Value]:
            return [self._stop(before, self.poll(lambda current: self._complete(before, current)))]

        def wait_for_own() -> list[ir.Value]:
            shares = arith.cmpi(arith.CmpIPredicate.ne, self.own, emit.value(0))
            return emit.either(shares, [emit.i32()], wait, lambda: [emit.value(0)])

        return emit.either(last, [emit.i32()], take_all_left, wait_for_own)[0]

    def _flip(self, before: ir.Value) -> None:
        """Flips the highest bit of the counter and clears the others. An atomic operation continues the
        release sequence of the earlier arrivals, so that readers see those parties' writes; a store wouldn't.
        """
        flipped = emit.xor(emit.bit_and(before, -1 << _FLIPPED), emit.value(-1 << _FLIPPED))
        with emit.when(emit.equal(thread_ids.lane(), 0)):
            self._update(llvm.AtomicBinOp.xchg, flipped)

    def _update(self, how: llvm.AtomicBinOp, operand: ir.Value) -> ir.Value:
        """Updates the counter by an atomic operation; its value before."""
        return llvm.atomicrmw(how, self.address, operand, atomics.RELAXED, syncscope=atomics.GPU)

    def _complete(self, before: ir.Value, current: ir.Value) -> ir.Value:
        """Whether all have arrived, an i1: from the counter before this party's arrival, and now."""
        flipped = emit.less(emit.xor(before, current), 0)
        return arith.ori(flipped, emit.equal(emit.bit_and(current, _ARRIVED), self.parties))

    def _stop(self, before: ir.Value, current: ir.Value) -> ir.Value:
        """This party's share if all have arrived. Otherwise nothing, and its bit is set in the counter."""

        def attempt(known: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
            complete = self._complete(before, known)
            last, again = emit.either(
                complete,
                [emit.i32(), emit.i1()],
                lambda: [known, emit.constant(emit.i1(), 0)],
                lambda: self._set_stopped(known),
            )
            return again, [last]

        (last,) = emit.repeat([current], attempt)
        return emit.select(self._complete(before, last), self.own, 0)

    def _set_stopped(self, known: ir.Value) -> list[ir.Value]:
        """Sets this party's bit if the counter is `known`; the counter before, and whether it wasn't."""
        stopped = arith.ori(known, arith.shli(self.own, emit.value(_STOPPED)))

        def swap() -> ir.Value:
            op = llvm.AtomicCmpXchgOp(self.address, known, stopped, _ACQUIRE, _ACQUIRE, syncscope=atomics.GPU)
            return llvm.extractvalue(emit.i32(), op.res, [0])

        before = _in_all_lanes(swap)
        return [before, emit.negate(emit.equal(before, known))]


_LOWERINGS: dict[Any, Lowering] = {ClaimOp: _claim, AwaitOthersOp: _await_others}

LOWER_CLAIMS = Pass(
    "lower-claims",
    "lower claims of shares to atomic operations",
    lambda module: rewrite(module, _LOWERINGS),
    lowers=tuple(_LOWERINGS),
)
