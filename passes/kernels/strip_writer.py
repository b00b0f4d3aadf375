"""The part of a `wgmma` kernel that stores tiles of D in strips as wide as a line of L2.

TMA takes as long for a part of a line as for all of it. The last strip of a tile may be narrower. A strip has
a slot of shared memory, which another one gets when TMA has read it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from math import gcd
from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import SWIZZLES, WarpgroupSchedule
from weft.dialects.tile import BufferType, MatmulOp
from weft.mlir import ir, nvvm
from weft.passes.builders import emit, thread_ids
from weft.passes.kernels import epilogue_function
from weft.passes.kernels.cluster import meet_warpgroup
from weft.passes.kernels.epilogue import finish, split
from weft.passes.kernels.fragments import reread
from weft.passes.kernels.writer import StagedWriter, run_of, spare


@dataclass(frozen=True)
class _Slots:
    """The memory of strips of one width: slots for each warpgroup, and the map that stores them."""

    buffer: ir.Value
    map: ir.Value
    count: int

    def slot(self, warpgroup: ir.Value, number: ir.Value | int) -> ir.Value:
        """A warpgroup's slot for strip `number`."""
        inside = emit.rem(number, self.count)
        return tile.stage(self.buffer, emit.value(emit.add(emit.mul(warpgroup, self.count), inside)))


class StripWriter(StagedWriter):
    """Stores strips through shared memory, each by a TMA store of its own."""

    def __init__(self, op: MatmulOp, schedule: WarpgroupSchedule) -> None:
        """Builds the buffers and the tensor maps at the insertion point."""
        self.op, self.schedule, self.preloaded = op, schedule, None
        staging = schedule.staging(op.types)
        self.parts, self._width = staging.parts, staging.width
        self._wide, rest = divmod(schedule.block[1], staging.width)
        self._count = staging.slots
        own = rest > 0 and staging.slots == staging.strips
        self._slots = self._made(staging.width, staging.slots - own)
        self._rest: _Slots | None = None
        if rest:
            self._rest = self._made(rest, 1) if own else self._made(rest, staging.slots, self._slots)

    def _made(self, width: int, count: int, over: _Slots | None = None) -> _Slots:
        """Slots for `count` strips of a width, in the memory of the slots `over` if there are any."""
        rows, size = self.schedule.rows, self.op.types.output_bytes
        panel = next(bytes_ for bytes_ in SWIZZLES if width * size % bytes_ == 0)
        across = panel // size
        outer, stride = self.schedule.warpgroups * count, rows * (self._width if over else width)
        strides = f"{stride},{across},{rows * across},1"
        layout = f"S[({outer},{rows},{width // across},{across}):({strides})] xor {SWIZZLES[panel]}"
        kind = BufferType.of((outer, rows, width), self.op.d.type.element_type, layout)
        buffer = tile.alloc(kind, over=over.buffer if over else None)
        return _Slots(buffer, tile.tensor_map(self.op.d, tile.stage_type(kind), any_rows=True), count)

    def preload(self) -> bool:
        return False

    def write(
        self,
        sums: ir.Value,
        row: ir.Value,
        column: ir.Value,
        index: Any,
        warpgroup: ir.Value,
        phase: Any = None,
    ) -> Any:
        row, column = emit.value(row), emit.value(column)
        columns = self.schedule.block[1]
        pieces = list(split(sums, columns // gcd(columns, self._width)))
        strips: list[list[Any]] = [[] for _ in range(-(-columns // self._width))]
        for piece in pieces:
            strips[piece[2] // self._width].append(piece)
        at = row, column, index, warpgroup
        if self._wide > 1 and self._repeats(sums):
            self._write_in_loop_of_strips(strips[: self._wide], *at)
        else:
            for number, strip in enumerate(strips[: self._wide]):
                self._write_strip(strip, number, *at)
        if self._rest is not None:
            self._write_strip(strips[-1], self._wide, *at)
        return phase

    def _write_in_loop_of_strips(
        self,
        strips: list[list[tuple[ir.Value, int, int]]],
        row: ir.Value,
        column: ir.Value,
        index: Any,
        warpgroup: ir.Value,
    ) -> None:
        """Stores wide strips with one copy of the code that does."""

        def one(number: ir.Value, _: list[Any]) -> list[Any]:
            part = self._slots.slot(warpgroup, number)
            start = emit.value(emit.add(column, emit.mul(number, self._width)))
            for which, strip in enumerate(strips):
                with emit.when(emit.equal(number, which)):
                    # Without the pin, LLVM rounds all strips before the loop, beside the sums.
                    kept = [(reread(piece) or tile.pin(piece), *offsets) for piece, *offsets in strip]
                    self._fill(part, kept, which, row, column, index, warpgroup)
            self._store(part, self._slots.map, row, start, index)
            return []

        emit.loop(0, len(strips), 1, [], one)

    def _write_strip(
        self,
        strip: list[tuple[ir.Value, int, int]],
        number: int,
        row: ir.Value,
        column: ir.Value,
        index: Any,
        warpgroup: ir.Value,
    ) -> None:
        slots = self._slots if number < self._wide or self._rest is None else self._rest
        part = slots.slot(warpgroup, number)
        self._fill(part, strip, number, row, column, index, warpgroup)
        start = emit.value(emit.add(column, number * self._width))
        self._store(part, slots.map, row, start, index)

    def _fill(
        self,
        part: ir.Value,
        strip: list[Any],
        number: int,
        row: ir.Value,
        column: ir.Value,
        index: Any,
        warpgroup: ir.Value,
    ) -> None:
        """Fills a slot with D of a strip's sums: pieces, each with its row and column in the tile."""
        finished = self._finished(strip, number, row, column, index)
        first = next(finished)  # computed while the store of another strip may still read the slot
        if number == 0 or number >= self._count:
            # The first strip waits for all of the tile before: the others find slots that have been read.
            with thread_ids.one_thread():
                nvvm.cp_async_bulk_wait_group(self._count - 1 if number else 0, read=True)
            meet_warpgroup(warpgroup)
        for done, below, right in chain([first], finished):
            tile.store(done, part, emit.value(below), emit.value(right))
        nvvm.FenceProxyOp(nvvm.ProxyKind.async_shared, space=nvvm.SharedSpace.shared_cta)
        meet_warpgroup(warpgroup)

    def _finished(
        self, strip: list[tuple[ir.Value, int, int]], number: int, row: ir.Value, column: ir.Value, index: Any
    ) -> Iterator[tuple[ir.Value, int, int]]:
        """D's fragments of a strip, each with its row and column in the strip."""
        run, ahead = run_of(self.schedule), spare(self.schedule)
        for piece, below, right in strip:
            at = emit.value(emit.add(row, below)), emit.value(emit.add(column, right))
            inside = right - number * self._width
            fragments = finish(self.op, piece, *at, run=run, number=index, ahead=ahead, pairs=True)
            for done, down, across in fragments:
                yield done, below + down, inside + across


def takes(op: MatmulOp, schedule: WarpgroupSchedule) -> bool:
    """Whether D of a product is stored in strips. If the tile also fits in equal parts, these are used where
    C or a residual is copied into the same memory, or where other parts of the kernel use that memory.
    """
    staging = schedule.staging(op.types)
    if not staging.slots or op.gate is not None:
        return False
    needs_all = bool(epilogue_function.matrices(op)) or op.is_scattered or op.is_all_reduced
    return not (needs_all and staging.fits_in_equal_parts)
