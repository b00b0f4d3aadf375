"""`--lower-claims`: what warps of different CTAs say to each other through a counter in global memory.

A counter counts the arrivals of a launch in its low byte, and holds above it a bit for each party that has
stopped to wait. The last to arrive clears both and turns the highest bit over: that tells the others, who may
look late, and no counter needs to be set back before the next launch.

A warp's first lane speaks to the others; all its lanes learn what it hears, and decide on it together. Were
one lane to wait in a loop of its own, ptxas would take no loop around that for one that all run alike, and
the descriptors of products in it for numbers that could differ between lanes.
"""

from collections.abc import Callable
from typing import Any

from weft.dialects.tile_claims import MOST_PARTIES, AwaitOthersOp, ClaimOp
from weft.mlir import arith, ir, llvm, memref, nvvm
from weft.passes.analysis import uniformity
from weft.passes.analysis.uniformity import Scope
from weft.passes.builders import emit, places
from weft.passes.registry.pass_ import Pass, rewrite

_ARRIVED = 0xFF
_STOPPED = 8  # the first bit of those who have
_TURN_BIT = 31
_LOOKS = 32  # of a party that waits, each as long as L2 takes to answer


def run(module: Any) -> None:
    """Lowers every claim."""
    rewrite(module, list(_LOWERINGS), lambda op: _LOWERINGS[type(op)](op))


def _claim(op: ClaimOp) -> list[Any]:
    """What all lanes have written is there for the GPU before their warp arrives. What the lane acquires that
    hears of the others, all see.
    """
    uniformity.require(op, Scope.WARP)
    nvvm.SyncWarpOp(emit.value(-1))
    _fence()
    claimed = _Claim(op).made()
    nvvm.SyncWarpOp(emit.value(-1))
    return [claimed]


def _await_others(op: AwaitOthersOp) -> list[Any]:
    """What the others have written is seen after the claim that follows."""
    uniformity.require(op, Scope.WARP)
    others = emit.sub(op.parties, 1)

    def complete(seen: Any) -> Any:
        return emit.equal(emit.bit_and(seen, _ARRIVED), others)

    return [complete(_Counter(op).look(complete))]


def _told(ask: Callable[[], Any]) -> Any:
    """What a warp's first lane learns from memory, an i32, in all lanes."""
    first = emit.equal(places.lane(), 0)
    (learnt,) = emit.either(first, [emit.i32()], lambda: [ask()], lambda: [emit.value(0)])
    return emit.of_lane(learnt, 0)


def _fence() -> None:
    llvm.FenceOp(llvm.AtomicOrdering.acq_rel, syncscope=_GPU)


_GPU = "device"  # as LLVM says it
_RELAXED, _ACQUIRE = llvm.AtomicOrdering.monotonic, llvm.AtomicOrdering.acquire


class _Counter:
    """The counter at which parties meet."""

    def __init__(self, op: ClaimOp | AwaitOthersOp) -> None:
        base = arith.index_cast(
            ir.IntegerType.get_signless(64), memref.extract_aligned_pointer_as_index(op.counters)
        )
        self.address = places.offset(llvm.inttoptr(places.pointer(1), base), emit.mul(op.index, 4))

    def look(self, enough: Callable[[Any], Any]) -> Any:
        """What the counter is when that is `enough`, an i1, or when it has been looked at often enough."""

        def load() -> Any:
            return llvm.load(emit.i32(), self.address, alignment=4, ordering=_ACQUIRE, syncscope=_GPU)

        def ask(left: Any) -> tuple[Any, list[Any]]:
            seen = _told(load)
            return arith.andi(emit.negate(enough(seen)), emit.less(0, left)), [left, seen]

        def again(left: Any, _: Any) -> list[Any]:
            return [emit.sub(left, 1)]

        return emit.repeat([emit.value(_LOOKS)], ask, again, [emit.i32()] * 2)[1]


class _Claim(_Counter):
    """The counter of one claim, and what its party knows."""

    def __init__(self, op: ClaimOp) -> None:
        super().__init__(op)
        self.parties = op.parties
        own = arith.shli(emit.value(1), op.party)
        self.own = emit.select(emit.less(op.party, op.shares.value), own, 0)

    def made(self) -> Any:
        """Arrives, and waits for the others a while: the mask of what this party must do."""
        found = _told(lambda: self._changed(llvm.AtomicBinOp.add, emit.value(1)))
        last = emit.equal(emit.bit_and(found, _ARRIVED), emit.sub(self.parties, 1))

        def take_all_left() -> list[Any]:
            _fence()  # LLVM's addition acquires nothing
            self._turn(found)
            stopped = emit.bit_and(emit.shift_right(found, _STOPPED), (1 << MOST_PARTIES) - 1)
            return [arith.ori(stopped, self.own)]

        def wait() -> list[Any]:
            return [self._stop(found, self.look(lambda seen: self._complete(found, seen)))]

        def wait_for_own() -> list[Any]:
            shares = arith.cmpi(arith.CmpIPredicate.ne, self.own, emit.value(0))
            return emit.either(shares, [emit.i32()], wait, lambda: [emit.value(0)])

        return emit.either(last, [emit.i32()], take_all_left, wait_for_own)[0]

    def _turn(self, found: Any) -> None:
        """Clears the counter but for its highest bit, which turns. A plain store wouldn't tell who sees it of
        what those have written who came before: it has to follow their arrivals as an atomic operation.
        """
        turned = emit.xor(emit.bit_and(found, -1 << _TURN_BIT), emit.value(-1 << _TURN_BIT))
        with emit.when(emit.equal(places.lane(), 0)):
            self._changed(llvm.AtomicBinOp.xchg, turned)

    def _changed(self, how: llvm.AtomicBinOp, operand: Any) -> Any:
        """Changes the counter by an atomic operation: what it was."""
        return llvm.atomicrmw(how, self.address, operand, _RELAXED, syncscope=_GPU)

    def _complete(self, found: Any, seen: Any) -> Any:
        """Whether all have arrived: an i1, from what the counter was when this party did and what it is."""
        turned = emit.less(emit.xor(found, seen), 0)
        return arith.ori(turned, emit.equal(emit.bit_and(seen, _ARRIVED), self.parties))

    def _stop(self, found: Any, seen: Any) -> Any:
        """What this party must do: its share if all have arrived, else nothing, and the counter says so."""

        def say(known: Any) -> tuple[Any, list[Any]]:
            complete = self._complete(found, known)
            last, again = emit.either(
                complete,
                [emit.i32(), emit.i1()],
                lambda: [known, emit.constant(emit.i1(), 0)],
                lambda: self._say_stopped(known),
            )
            return again, [last]

        (last,) = emit.repeat([seen], say)
        return emit.select(self._complete(found, last), self.own, 0)

    def _say_stopped(self, known: Any) -> list[Any]:
        """Sets this party's bit if the counter is still as `known`: what it was, and whether it wasn't."""
        said = arith.ori(known, arith.shli(self.own, emit.value(_STOPPED)))

        def swap() -> Any:
            made = llvm.AtomicCmpXchgOp(self.address, known, said, _ACQUIRE, _ACQUIRE, syncscope=_GPU)
            return llvm.extractvalue(emit.i32(), made.res, [0])

        was = _told(swap)
        return [was, emit.negate(emit.equal(was, known))]


_LOWERINGS: dict[Any, Callable[[Any], list[Any]]] = {ClaimOp: _claim, AwaitOthersOp: _await_others}

LOWER_CLAIMS = Pass(
    "lower-claims", "lower claims of shares to atomic operations", run, lowers=tuple(_LOWERINGS)
)
