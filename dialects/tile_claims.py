"""The ops of the `tile` dialect by which warps of different CTAs meet at counters in global memory."""

from typing import Any

from weft.dialects.effects import ORDERS
from weft.dialects.op import Op, build
from weft.dialects.tile_limits import MOST_PARTIES
from weft.dialects.tile_types import Tile, index_complaint
from weft.mlir import constant, ext, ir, strides


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

    counters: ext.Operand[Any]
    index: ext.Operand[Any]
    party: ext.Operand[Any]
    parties: ext.Operand[Any]
    shares: ir.IntegerAttr
    claimed: ext.Result[Any]

    def check(self) -> str | None:
        if wrong := _counters_complaint(self.counters, self.parties):
            return wrong
        most = _known(self.parties, MOST_PARTIES)
        if not 1 <= self.shares.value <= most:
            return f"shares must be in 1..{most}, the number of parties, got {self.shares.value}"
        return index_complaint([self.index, self.party, self.parties, self.claimed])


class AwaitOthersOp(Op, dialect=Tile, name="await_others", traits=[ORDERS]):
    """A warp that has not written its part yet waits for a limited time until all other parties have arrived
    at `counters[index]`. The result (i1) is whether they have.

    Operands must be the same in all lanes of the warp. If all others have arrived, the `tile.claim` of this
    warp is the last: it sees their data and gets its share, and the warp need not write its own part to
    memory.
    """

    counters: ext.Operand[Any]
    index: ext.Operand[Any]
    parties: ext.Operand[Any]
    arrived: ext.Result[Any]

    def check(self) -> str | None:
        if str(self.arrived.type) != "i1":
            return f"expects to return i1, got {self.arrived.type}"
        wrong = _counters_complaint(self.counters, self.parties)
        return wrong or index_complaint([self.index, self.parties])


def _counters_complaint(counters: Any, parties: Any) -> str | None:
    """Why so many parties can't meet at such counters; a number that is no constant isn't checked."""
    kind = counters.type
    if not isinstance(kind, ir.MemRefType) or kind.rank != 1 or str(kind.element_type) != "i32":
        return f"expects counters in a memref of rank 1 of i32, got {kind}"
    if strides(kind) != ([1], 0):
        return f"expects contiguous counters, got {kind}"
    if not 2 <= (count := _known(parties, MOST_PARTIES)) <= MOST_PARTIES:
        return f"parties must be in 2..{MOST_PARTIES}, got {count}"
    return None


def _known(number: Any, otherwise: int) -> int:
    """The value of a constant, or `otherwise` for other values."""
    known = constant(number)
    return otherwise if known is None else int(known)


def claim(counters: Any, index: Any, party: Any, parties: Any, *, shares: int) -> Any:
    """Builds `tile.claim` and returns the mask of shares."""
    return build(
        ClaimOp,
        operands=[counters, index, party, parties],
        results=lambda: [ir.IntegerType.get_signless(32)],
        attributes={"shares": shares},
    ).claimed


def await_others(counters: Any, index: Any, parties: Any) -> Any:
    """Builds `tile.await_others` and returns whether they have arrived."""
    op = build(
        AwaitOthersOp,
        operands=[counters, index, parties],
        results=lambda: [ir.IntegerType.get_signless(1)],
    )
    return op.arrived
