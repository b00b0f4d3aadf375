"""How CTAs add up what each has multiplied of K, through global memory.

Each writes the sums of its part, in vectors that a thread reads again as it has written them. Once all are
there, each adds up a share of the block's columns, in the order of the parts.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.dialects import tile
from weft.dialects.op import refuse
from weft.dialects.schedule import WarpgroupSchedule
from weft.dialects.tile import MatmulOp
from weft.isa.chips import WARPGROUP, WARPS
from weft.mlir import arith, ir, memref, scf, vector
from weft.passes import emit, places
from weft.passes.cluster_sums import VECTOR
from weft.passes.product import add

WORKSPACE = "weft.workspace"  # the attribute of a kernel that has such memory
_AT_ONCE = 64  # sums that a thread loads before it adds


def workspace_types(element: Any) -> list[Any]:
    """The types of the arguments that such a kernel has after its own: vectors of sums, one for each thread
    of a warpgroup in a row, and counters.
    """
    dynamic = ir.ShapedType.get_dynamic_size()
    sums = ir.MemRefType.get([dynamic, WARPGROUP], ir.VectorType.get([VECTOR], element))
    return [sums, ir.MemRefType.get([dynamic], emit.i32())]


class GlobalSums:
    """The sums that all parts of a block's K have, in memory that the launch gives."""

    def __init__(self, op: MatmulOp, element: Any) -> None:
        """Raises WeftError for an `op` whose kernel has no such memory."""
        schedule = op.schedule
        assert isinstance(schedule, WarpgroupSchedule)
        self.schedule = schedule
        kernel = op.operation.parent.opview
        arguments, wanted = kernel.body.blocks[0].arguments, workspace_types(element)
        if WORKSPACE not in kernel.operation.attributes or [a.type for a in arguments][-2:] != wanted:
            kinds = " and ".join(map(str, wanted))
            raise refuse(op, f"expects a kernel with '{WORKSPACE}' whose last arguments are {kinds}")
        self.sums, self.counters = list(arguments)[-2:]
        self.element = element
        # Columns of fragments, 8 of the block's, that a share has; and how many of them are added up at once:
        # with those of all parts they must fit in registers.
        self.across = self.schedule.block[1] // 8
        share = self.across // self.schedule.shares
        each = VECTOR * self.schedule.vectors // self.across * self.schedule.global_splits
        self.together = max(
            w for w in range(1, share + 1) if share % w == 0 and (w * each <= _AT_ONCE or w == 1)
        )
        self.pieces = share // self.together

    def put(self, lane: Any, block: Any, part: Any, number: Any) -> None:
        """Writes what a warpgroup's thread has of a part of a block's sums."""
        numbers = emit.elements(lane)
        kind = self.sums.type.element_type
        row = emit.as_index(self._row(block, part, number))
        thread = emit.as_index(emit.rem(emit.thread(), WARPGROUP))
        for place in range(self.schedule.vectors):
            run = list(numbers[VECTOR * place : VECTOR * (place + 1)])
            memref.store(vector.from_elements(kind, run), self.sums, [_further(row, place), thread])

    @contextmanager
    def shares(self, block: Any, part: Any, number: Any) -> Iterator[Any]:
        """Waits for the other parts; in the block, ops are built for each piece of a share that is then this
        warp's to add up. Yields its number among the block's pieces.
        """
        warp = places.warp()
        index = emit.add(emit.mul(emit.add(emit.mul(block, self.schedule.warpgroups), number), WARPS), warp)
        claimed = tile.claim(
            self.counters,
            emit.value(index),
            emit.value(part),
            emit.value(self.schedule.global_splits),
            shares=self.schedule.shares,
        )
        loop = scf.ForOp(emit.value(0), emit.value(self.schedule.shares), emit.value(1))
        with ir.InsertionPoint(loop.body):
            share = loop.induction_variable
            mine = emit.bit_and(arith.shrui(claimed, share), 1)
            with emit.when(emit.equal(mine, 1)):
                pieces = scf.ForOp(emit.value(0), emit.value(self.pieces), emit.value(1))
                with ir.InsertionPoint(pieces.body):
                    yield emit.add(emit.mul(share, self.pieces), pieces.induction_variable)
                    scf.yield_([])
            scf.yield_([])

    def total(self, block: Any, piece: Any, number: Any) -> Any:
        """What a thread has of the sums of a piece: part after part, so that bits don't depend on who was
        first.
        """
        thread, found = emit.as_index(emit.rem(emit.thread(), WARPGROUP)), list[Any]()
        for part in range(self.schedule.global_splits):
            row, numbers = self._row(block, part, number), list[Any]()
            first = emit.as_index(emit.add(row, emit.mul(piece, self.together)))
            for down in range(0, self.schedule.vectors, self.across):
                for place in range(down, down + self.together):
                    numbers += emit.elements(memref.load(self.sums, [_further(first, place), thread]))
            kind = ir.VectorType.get([len(numbers)], self.element)
            found.append(vector.from_elements(kind, numbers))
        total = found[0]
        for other in found[1:]:
            total = add(total, other)
        return total

    def _row(self, block: Any, part: Any, number: Any) -> Any:
        """The first row of a warpgroup's sums of a part."""
        slot = emit.add(emit.mul(block, self.schedule.global_splits), part)
        slot = emit.add(emit.mul(slot, self.schedule.warpgroups), number)
        return emit.mul(slot, self.schedule.vectors)


def _further(index: Any, distance: int) -> Any:
    return arith.addi(index, arith.constant(ir.IndexType.get(), distance))
