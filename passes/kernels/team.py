"""A kernel that runs on several GPUs of a team at once: what it knows of them, and how it waits for them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import AnySchedule
from weft.dialects.tile import MatmulOp
from weft.mlir import arith, ir, memref
from weft.passes.builders import emit
from weft.passes.kernels.matrices import size, vector_of
from weft.passes.kernels.tile_order import Tile, element

RANK, CALL, LIMIT, ARRIVED, SLICES = range(5)  # the elements of the operand `team`: `SLICES` and following
DATA, FLAGS = range(2)  # the columns of the operand `peers`


@dataclass(frozen=True)
class Team:
    """The team of an `op` that has one: this GPU's rank, and the limit of waits. The launch before may still
    write the number of the call.
    """

    op: MatmulOp
    rank: ir.Value
    limit: ir.Value

    @staticmethod
    def of(op: MatmulOp) -> "Team | None":
        """Reads the team at the insertion point; None for a product of one GPU."""
        if (team := op.role("team")) is None:
            return None
        return Team(op, *(element(team, number) for number in (RANK, LIMIT)))

    def first(self, op: MatmulOp) -> ir.Value:
        """The rank whose rows a kernel computes first: this one's where rows come from others, and the next
        one's where sums go to others.
        """
        return emit.add(self.rank, 1) if op.is_scattered else self.rank

    @property
    def members(self) -> ir.Value:
        """The number of GPUs, of a team with `peers`."""
        return size(self.op.role("peers"), 0)

    def call(self) -> ir.Value:
        """The number of the call in memory."""
        return element(self.op.role("team"), CALL)

    def count(self, call: ir.Value, ctas: ir.Value) -> None:
        """Writes the number of a call once all CTAs, one thread of each, have read that of the one before."""
        state = self.op.role("team")
        with emit.when(tile.is_last(state, emit.value(ARRIVED), ctas)):
            memref.store(call, state, [emit.as_index(CALL)])

    def address(self, member: ir.Value, which: int) -> ir.Value:
        """An address of a GPU's memory: of its data or its flags."""
        return memref.load(self.op.role("peers"), [emit.as_index(member), emit.index(which)])

    def data(self, member: ir.Value, kind: ir.Type) -> ir.Value:
        """The memory of another GPU for data, of elements of a type."""
        return tile.remote(self.address(member, DATA), kind)

    def flags(self, member: ir.Value) -> ir.Value:
        """The flags of another GPU."""
        return tile.remote(self.address(member, FLAGS), emit.i32())

    def await_(self, flags: ir.Value, index: ir.Value, call: ir.Value, proxy: str = "generic") -> None:
        """Waits for a flag of a call, in one thread."""
        tile.await_flag(flags, emit.value(index), call, self.limit, proxy=proxy)


def each_other(rank: ir.Value, ranks: ir.Value, body: Callable[[ir.Value], None]) -> None:
    """A loop over the other GPUs of a team, from the one before this on: it needs the rows first."""

    with emit.each(1, ranks) as step:
        body(emit.rem(emit.sub(emit.add(rank, ranks), step), ranks))


class RowGate:
    """Lets the thread that copies rows of A wait until they have come: before a tile, or where GPUs send
    slices of K, before each of them.
    """

    def __init__(self, team: Team, schedule: AnySchedule, k_blocks: ir.Value) -> None:
        """Reads sizes at the insertion point."""
        roles = team.op.roles
        self.call: Any = None
        """The number of the call, where the kernel counts it."""
        self._team, self._arrivals = team, roles["arrivals"]
        self._ranks, self._rows = size(team.op.d, 0), size(team.op.d, -2)
        self._has_halves = emit.less(self._ranks, size(roles["gathered"], 0))
        chunks = size(self._arrivals, -1)
        self._has_slices = team.op.is_sending
        if self._has_slices:
            self._in_slice = emit.ceil_div(k_blocks, chunks)
        else:
            self._in_chunk = emit.ceil_div(self._rows, chunks)
        self._schedule = schedule

    @staticmethod
    def of(team: Team | None, schedule: AnySchedule, k_blocks: ir.Value) -> "RowGate | None":
        """The gate of a product whose rows come from other GPUs; otherwise None."""
        if team is None or team.op.role("gathered") is None:
            return None
        return RowGate(team, schedule, k_blocks)

    def await_rows(self, at: Tile) -> ir.Value:
        """Waits for the rows of a tile, unless they are this GPU's own, after the launch before, which may
        count the call. Returns which matrix of `gathered` has them: calls use two halves in turn, if there
        are two.
        """
        (height, _), (row, _) = (
            self._schedule.swapped(*x) for x in (self._schedule.block[:2], (at.row, at.column))
        )
        call = self._team.call() if self.call is None else self.call
        if not self._has_slices:
            with emit.when(self._of_others(at)):
                # Chunks come in order.
                last = emit.sub(emit.minimum(emit.mul(emit.add(row, 1), height), self._rows), 1)
                chunk = emit.div(emit.maximum(last, 0), self._in_chunk)
                self._team.await_(vector_of(self._arrivals, at.member), chunk, call, proxy="async")
        half = emit.select(self._has_halves, emit.bit_and(call, 1), 0)
        return emit.add(at.member, emit.mul(half, self._ranks))

    def await_block(self, at: Tile, block: ir.Value | int) -> None:
        """Waits for the slice that begins with a K block of a tile, if one does."""
        if not self._has_slices:
            return
        begins = emit.equal(emit.rem(block, self._in_slice), 0)
        with emit.when(arith.andi(self._of_others(at), begins)):
            number = emit.div(block, self._in_slice)
            self._team.await_(vector_of(self._arrivals, at.member), number, self.call, proxy="async")

    def _of_others(self, at: Tile) -> ir.Value:
        """Whether a tile's rows are those of another GPU, an i1."""
        return emit.negate(emit.equal(at.member, self._team.rank))
