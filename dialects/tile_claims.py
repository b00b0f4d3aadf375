"""The ops of the `tile` dialect by which warps of different CTAs meet at counters in global memory."""

from weft.dialects.effects import ORDERS
from weft.dialects.op import Op, Operand, Result
from weft.dialects.tile_flags import flags_complaint
from weft.dialects.tile_limits import MOST_PARTIES
from weft.dialects.tile_types import Tile, index_complaint
from weft.mlir import constant, ir, strides


class ClaimOp(Op, dialect=Tile, name="claim", traits=[ORDERS]):
    """A warp announces that it has written its part of some data to global memory, waits for a limited time
    for the warps that write the other parts, and gets the shares of the whole that it must process.

    `parties` warps of different CTAs, 2 to 16 of them, meet at `counters[index]`; `party` is this warp's
    number, from 0. Operands must be the same in all lanes of the warp. The result (i32) is a bit mask of
    shares, from 0 to `shares` - 1. Each share is claimed by one party, which sees the data of all parties: by
    the party of the same number, or, if that one has given up waiting, by the party that arrived last. So no
    party needs another to run at the same time. A counter must be 0 before the first launch, and a launch
    leaves it ready for the next. Counters of different warps should be 8 apart, so that they are in different
    sectors of L2.
    """

    counters: Operand
    index: Operand
    party: Operand
    parties: Operand
    shares: ir.IntegerAttr
    claimed: Result
    returns = ("i32",)

    def check(self) -> str | None:
        wrong = _counters_complaint(self.counters) or _shares_complaint(self, MOST_PARTIES)
        return wrong or index_complaint([self.index, self.party, self.parties, self.claimed])

    def check_constants(self) -> str | None:
        parties = constant(self.parties)
        return _parties_complaint(parties) or _shares_complaint(self, parties or MOST_PARTIES)


class AwaitOthersOp(Op, dialect=Tile, name="await_others", traits=[ORDERS]):
    """A warp that has not written its part yet waits for a limited time until all other parties have arrived
    at `counters[index]`. The result (i1) is whether they have.

    Operands must be the same in all lanes of the warp. If all others have arrived, the `tile.claim` of this
    warp is the last: it sees their data and gets its share, and the warp need not write its own part to
    memory.
    """

    counters: Operand
    index: Operand
    parties: Operand
    arrived: Result
    returns = ("i1",)

    def check(self) -> str | None:
        if str(self.arrived.type) != "i1":
            return f"expects to return i1, got {self.arrived.type}"
        return _counters_complaint(self.counters) or index_complaint([self.index, self.parties])

    def check_constants(self) -> str | None:
        return _parties_complaint(constant(self.parties))


def _counters_complaint(counters: ir.Value) -> str | None:
    """Why parties can't meet at such counters."""
    if (wrong := flags_complaint(counters, "counters")) or strides(counters.type) == ([1], 0):
        return wrong
    return f"expects contiguous counters, got {counters.type}"


def _parties_complaint(count: int | None) -> str | None:
    """Why so many parties can't meet. None is an unknown number."""
    if count is None or 2 <= count <= MOST_PARTIES:
        return None
    return f"parties must be in 2..{MOST_PARTIES}, got {count}"


def _shares_complaint(op: ClaimOp, most: int) -> str | None:
    if 1 <= op.shares.value <= most:
        return None
    return f"shares must be in 1..{most}, the number of parties, got {op.shares.value}"
