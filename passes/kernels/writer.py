"""The part of a kernel that stores finished tiles to D: from registers, or through shared memory by TMA."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from math import gcd
from typing import Any, Protocol

from weft.dialects import tile
from weft.dialects.schedule import SWIZZLES, WarpgroupSchedule
from weft.dialects.tile import BufferType, MatmulOp
from weft.isa.chips import WARPGROUP, register_share
from weft.isa.tensor_map import ROW_BYTES
from weft.mlir import arith, ir, nvvm, scf
from weft.passes.builders import emit, prefetches, thread_ids
from weft.passes.kernels import epilogue_function
from weft.passes.kernels.cluster import meet_warpgroup
from weft.passes.kernels.epilogue import finish, split
from weft.passes.kernels.fragments import reread, transposed
from weft.passes.kernels.matrices import (
    ends_ragged,
    map_of_member,
    member,
    misaligned,
    panels,
    run_bytes,
    size,
)
from weft.passes.kernels.preload import Preload

_KEPT = 56  # registers of a thread for addresses and the like beside its sums


class Writer(Protocol):
    """Stores the sums of a warpgroup to D."""

    def preload(self) -> bool:
        """Lets `ask` begin copies that `write` waits for, where that is possible. Returns whether it is; each
        `write` then belongs to an `ask`.
        """

    def write(
        self,
        sums: ir.Value,
        row: ir.Value,
        column: ir.Value,
        index: Any,
        warpgroup: ir.Value,
        phase: Any = None,
    ) -> Any:
        """Stores sums at a row and a column of the left and the right operand; `index` is the batch's. If the
        writer preloads, it takes the `phase` that the last call returned, 0 at first.
        """

    def ask(self, row: ir.Value, column: ir.Value, index: Any, warpgroup: ir.Value) -> None:
        """Asks, before a tile's products, for what `write` will read of C and the residual there."""

    def finish(self) -> None:
        """Waits, after the last tile, for stores that the kernel must not outlive."""


class DirectWriter:
    """Stores from registers."""

    def __init__(self, op: MatmulOp, schedule: WarpgroupSchedule) -> None:
        self.op, self.schedule = op, schedule

    def preload(self) -> bool:
        return False

    def write(
        self,
        sums: ir.Value,
        row: ir.Value,
        column: ir.Value,
        index: ir.Value | None,
        warpgroup: ir.Value,
        phase: Any = None,
    ) -> Any:
        row, column = (emit.value(each) for each in self.schedule.swapped(row, column))
        run, ahead = run_of(self.schedule), spare(self.schedule)
        store(self.op, oriented(sums, self.schedule), row, column, index, run, ahead=ahead)
        return phase

    def ask(self, row: ir.Value, column: ir.Value, index: ir.Value | None, warpgroup: ir.Value) -> None:
        ask(self.op, self.schedule, row, column, index)

    def finish(self) -> None:
        pass


class StagedWriter:
    """Stores through shared memory: a warpgroup puts its tile together there, in one or more parts one after
    the other, and TMA stores them; threads do where rows of D aren't aligned for TMA.
    """

    def __init__(self, op: MatmulOp, schedule: WarpgroupSchedule) -> None:
        """Builds the buffer and the tensor map at the insertion point."""
        self.op, self.schedule = op, schedule
        self.parts = schedule.staging(op.types).equal_parts
        rows, columns = schedule.swapped(schedule.rows, schedule.block[1] // self.parts)
        layout = panels(rows, columns, op.types.output_bytes, schedule.warpgroups)
        shape = schedule.warpgroups, rows, columns
        self.buffer = tile.alloc(BufferType.of(shape, op.d.type.element_type, layout))
        self.map = tile.tensor_map(op.d, tile.stage_type(self.buffer.type), any_rows=True)
        self.preloaded: Preload | None = None

    def preload(self) -> bool:
        self.preloaded = Preload.of(self.op, self.schedule, self.buffer)
        return self.preloaded is not None

    def write(
        self,
        sums: ir.Value,
        row: ir.Value,
        column: ir.Value,
        index: ir.Value | None,
        warpgroup: ir.Value,
        phase: ir.Value | None = None,
    ) -> ir.Value | None:
        row, column = (emit.value(each) for each in self.schedule.swapped(row, column))
        sums = oriented(sums, self.schedule)
        parts = [(sums, 0, 0)] if self.parts == 1 else list(split(sums, self.parts))
        if self.parts > 1 and self._repeats(sums):
            return self._write_in_loop(parts, row, column, index, warpgroup, phase)
        for number, (part, below, right) in enumerate(parts):
            at = emit.value(emit.add(row, below)), emit.value(emit.add(column, right))
            if self.preloaded is not None:
                if number > 0:
                    self.preloaded.begin(*at, index, warpgroup)
                self.preloaded.end(*at, index, warpgroup, phase)
                phase = emit.sub(1, phase)
            self._stage(part, *at, index, warpgroup)
            self._store(self._part(warpgroup), self.map, *at, index)
        return phase

    def _repeats(self, sums: ir.Value) -> bool:
        """Whether a loop stores the parts of a tile: not where they are computed from more than the sums
        and what is in shared memory, since kernels then spill registers.
        """
        loads = len(epilogue_function.matrices(self.op)) > (self.preloaded is not None)
        return epilogue_function.only_scales(self.op) or (tile.reading(sums) is not None and not loads)

    def _write_in_loop(
        self,
        parts: list[tuple[Any, int, int]],
        row: ir.Value,
        column: ir.Value,
        index: Any,
        warpgroup: ir.Value,
        phase: Any,
    ) -> ir.Value | None:
        """Stores parts with one copy of the code that does. With the rows that threads store, two copies take
        a fifth of the time to compile. Returns the next phase.
        """

        def start(number: ir.Value) -> tuple[ir.Value, ir.Value]:
            down, across = (emit.mul(number, step) for step in parts[1][1:])
            return emit.value(emit.add(row, down)), emit.value(emit.add(column, across))

        def one(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            if self.preloaded is not None:
                with emit.when(emit.less(0, number)):
                    self.preloaded.begin(*start(number), index, warpgroup)
                self.preloaded.end(*start(number), index, warpgroup, *carried)
                carried = [emit.sub(1, each) for each in carried]
            for which, (part, *_) in enumerate(parts):
                with emit.when(emit.equal(number, which)):
                    # Without the pin, LLVM rounds all parts before the loop, beside the sums.
                    part = reread(part) or tile.pin(part)
                    self._stage(part, *start(number), index, warpgroup)
            self._store(self._part(warpgroup), self.map, *start(number), index)
            return carried

        return (emit.loop(0, len(parts), 1, [] if self.preloaded is None else [phase], one) or [phase])[0]

    def _stage(
        self, sums: ir.Value, row: ir.Value, column: ir.Value, index: ir.Value | None, warpgroup: ir.Value
    ) -> None:
        """Fills a warpgroup's part of the buffer with D of as many sums, which are at a row and a column."""
        part, run = tile.stage(self.buffer, warpgroup), run_of(self.schedule)
        preloaded = None if self.preloaded is None else (self.preloaded, part)
        ahead = spare(self.schedule)
        pairs = self.op.types.output_bytes == 2  # which stmatrix stores
        pieces = finish(
            self.op,
            sums,
            row,
            column,
            run=run,
            number=index,
            ahead=ahead,
            preloaded=preloaded,
            pairs=pairs,
        )
        first = next(pieces)  # computed while the previous tile's store may still read the buffer
        with thread_ids.one_thread():
            nvvm.cp_async_bulk_wait_group(0, read=True)
        meet_warpgroup(warpgroup)
        # stmatrix stores 16-bit elements; 8-bit elements are stored in pairs.
        bytes_ = self.op.types.output_bytes == 1
        for done, row_offset, column_offset in chain([first], pieces):
            width = run_bytes(self.op.d, run, done.type) if bytes_ else 0
            tile.store(done, part, emit.value(row_offset), emit.value(column_offset), vector_bytes=width)
        nvvm.FenceProxyOp(nvvm.ProxyKind.async_shared, space=nvvm.SharedSpace.shared_cta)
        meet_warpgroup(warpgroup)

    def _part(self, warpgroup: ir.Value) -> ir.Value:
        """A warpgroup's part of the buffer."""
        return tile.stage(self.buffer, warpgroup)

    def _store(
        self, part: ir.Value, map_: ir.Value, row: ir.Value, column: ir.Value, index: ir.Value | None
    ) -> None:
        """Stores a buffer at a row and a column of D, by TMA with a map of D."""
        end = emit.add(column, part.type.shape[1])
        ragged = arith.andi(ends_ragged(self.op.d), emit.less(size(self.op.d, -1), end))
        branch = scf.IfOp(arith.ori(misaligned(self.op.d, ROW_BYTES), ragged), has_else=True)
        with ir.InsertionPoint(branch.then_block):
            tile.copy_out(part, member(self.op.d, index), row, column)
            scf.yield_([])
        with ir.InsertionPoint(branch.else_block):
            with thread_ids.one_thread():
                tile.store_async(part, map_of_member(self.op.d, map_, index), row, column)
                nvvm.cp_async_bulk_commit_group()
            scf.yield_([])

    def ask(self, row: ir.Value, column: ir.Value, index: ir.Value | None, warpgroup: ir.Value) -> None:
        if self.preloaded is not None:
            self.preloaded.begin(*self.schedule.swapped(row, column), index, warpgroup)
        ask(self.op, self.schedule, row, column, index, self.preloaded if self.parts == 1 else None)

    def finish(self) -> None:
        with thread_ids.one_thread():
            nvvm.cp_async_bulk_wait_group(0, read=True)


def store(
    op: MatmulOp,
    sums: ir.Value,
    row: ir.Value,
    column: ir.Value,
    index: ir.Value | None,
    run: int,
    stored: int | None = None,
    known: dict[ir.Value, ir.Value] | None = None,
    ahead: int = 0,
) -> None:
    """Finishes sums and stores them to D from registers. Of the elements of a lane, so many follow each other
    in a row and are accessed at once, but at most 16 bytes of them: `run`, or `stored` where D is written.
    `known` and `ahead` are as `finish` has them.
    """
    d = member(op.d, index)
    for done, row_offset, column_offset in finish(
        op, sums, row, column, run=run, number=index, known=known, ahead=ahead
    ):
        at = emit.value(emit.add(row, row_offset)), emit.value(emit.add(column, column_offset))
        tile.store(done, d, *at, vector_bytes=run_bytes(op.d, stored or run, done.type))


def oriented(sums: ir.Value, schedule: WarpgroupSchedule) -> ir.Value:
    """The sums as a fragment of D, which `swap` transposes."""
    if not schedule.swap:
        return sums
    kind = transposed(sums.type)
    return reread(sums, kind) or tile.from_lane(tile.to_lane(sums), kind)


def run_of(schedule: WarpgroupSchedule) -> int:
    """How many sums of a lane of `wgmma` follow each other in a row of D."""
    return 1 if schedule.swap else 2


def spare(schedule: WarpgroupSchedule) -> int:
    """The registers of a thread that are free for what the epilogue loads at once: none where it also adds up
    parts of a tile.
    """
    if schedule.stream_k:
        return 0
    each = schedule.registers[1] or register_share(schedule.threads)
    sums = schedule.rows * schedule.block[1] // WARPGROUP
    return max(each - sums - _KEPT, 0)


def ask(
    op: MatmulOp,
    schedule: WarpgroupSchedule,
    row: ir.Value,
    column: ir.Value,
    index: ir.Value | None,
    preloaded: Preload | None = None,
) -> None:
    """Asks L2 for what the epilogue reads of C and the residual for a warpgroup's sums at a row and a column
    of the left and the right operand: not for what is preloaded.
    """
    row, column = schedule.swapped(row, column)
    shape = schedule.swapped(schedule.rows, schedule.block[1])
    thread = emit.rem(emit.thread(), WARPGROUP)
    for matrix in epilogue_function.matrices(op):
        if preloaded is None or matrix != preloaded.matrix:
            prefetches.block(member(matrix, index), row, column, shape, thread, WARPGROUP)


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
