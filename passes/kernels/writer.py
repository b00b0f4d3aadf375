"""The part of a kernel that stores finished tiles to D: from registers, or through shared memory by TMA."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import gcd
from typing import Any

from weft.dialects import tile
from weft.dialects.schedule import SWIZZLES, WarpgroupSchedule
from weft.dialects.tile import BufferType, MatmulOp
from weft.isa.chips import WARPGROUP
from weft.isa.tensor_map import ROW_BYTES
from weft.mlir import arith, ir, nvvm
from weft.passes.builders import emit, prefetches, thread_ids
from weft.passes.kernels.cluster import await_reads, await_stores, meet_warpgroup
from weft.passes.kernels.epilogue import Finisher, rows_of_group, split
from weft.passes.kernels.fragments import reread, transposed
from weft.passes.kernels.matrices import (
    ends_ragged,
    map_of_member,
    member,
    misaligned,
    panel_width,
    panels,
    run_bytes,
    size,
)
from weft.passes.kernels.preload import Preload
from weft.passes.kernels.tile_order import Corner, Ends

_Part = tuple[ir.Value, int, int]
"""Sums of a part of a tile, with its row and column."""
_KEPT = 56  # registers of a thread for addresses and the like beside its sums


class Writer:
    """Stores the sums of a warpgroup to D, from registers."""

    def __init__(self, op: MatmulOp, schedule: WarpgroupSchedule) -> None:
        self.op, self.schedule = op, schedule

    def preload(self) -> bool:
        """Lets `ask` begin copies that `write` waits for, where that is possible. Returns whether it is; each
        `write` then belongs to an `ask`.
        """
        return False

    def write(self, sums: ir.Value, corner: Corner, phase: Any = None) -> Any:
        """Stores sums that begin at a corner of the operands. If the writer preloads, it takes the `phase`
        that the last call returned, 0 at first.
        """
        at, ahead = corner.of_d(self.schedule), spare(self.schedule)
        sums = oriented(sums, self.schedule)
        Finisher(self.op, at.index, run_of(self.schedule), ahead=ahead).store(sums, at.row, at.column)
        return phase

    def write_part(self, corner: Corner) -> Callable[[ir.Value, ir.Value | int], object]:
        """A function that stores a fragment of the sums that begin at a corner, by its first column there."""
        return lambda sums, right: self.write(sums, replace(corner, column=emit.add(corner.column, right)))

    def ask(self, corner: Corner) -> None:
        """Asks L2, before a tile's products, for what `write` will read of C and the residual there."""
        self._prefetch(corner, None)

    def _prefetch(self, corner: Corner, preloaded: Preload | None) -> None:
        """Asks for what isn't preloaded."""
        row, column = self.schedule.swapped(corner.row, corner.column)
        shape = self.schedule.swapped(self.schedule.rows, self.schedule.block[1])
        thread = emit.rem(emit.thread(), WARPGROUP)
        for matrix in self.op.needs.matrices:
            if preloaded is None or matrix != preloaded.matrix:
                prefetches.block(member(matrix, corner.index), row, column, shape, thread, WARPGROUP)

    def finish(self) -> None:
        """Waits, after the last tile, for stores that the kernel must not outlive."""
        return


def fill(
    buffer: ir.Value,
    pieces: Iterator[tuple[ir.Value, ir.Value | int, ir.Value | int]],
    await_read: Callable[[], None],
    warpgroup: ir.Value,
    width: Callable[[ir.Type], int] = lambda _: 0,
) -> None:
    """Stores fragments of D, each with its row and column, to a buffer from which TMA copies
    them, for a warpgroup.
    The first one is computed before `await_read`: earlier stores may still read the buffer until then.
    `width` returns the bytes that a lane stores at once of a fragment of a type.
    """
    first = next(pieces)
    await_read()
    for done, row, column in chain([first], pieces):
        tile.store(done, buffer, emit.value(row), emit.value(column), vector_bytes=width(done.type))
    nvvm.FenceProxyOp(nvvm.ProxyKind.async_shared, space=nvvm.SharedSpace.shared_cta)
    meet_warpgroup(warpgroup)


def store_boxes(
    op: MatmulOp,
    boxes: Callable[[], list[tuple[ir.Value, ir.Value]]],
    ends: tuple[ir.Value, ir.Value],
    map_: ir.Value,
    row: ir.Value,
    index: ir.Value | None,
    groups: bool = False,
) -> None:
    """Stores buffers that `boxes` builds, each with its column of D, from a row on: by TMA, with a map of D,
    unless rows aren't aligned for it or it would write beyond their end, or that of the group. `ends` are the
    row and the column after the last. With `groups`, each call has one of TMA's groups.
    """
    d = op.d
    ragged = arith.andi(ends_ragged(d), emit.less(size(d, -1), ends[1]))
    if op.grouping == "row_ends":
        group = Ends.of(op)
        ragged = arith.ori(ragged, emit.less(group.end(index), ends[0]))
        if group.step > 1:
            ragged = arith.ori(ragged, emit.less(row, group.begin(index)))

    def by_threads() -> None:
        to, first, any_row = rows_of_group(op, d, index, row)
        for box, at in boxes():
            tile.copy_out(box, to, first, at, any_row=any_row)
        if groups:
            with thread_ids.one_thread():
                nvvm.cp_async_bulk_commit_group()  # an empty one

    def by_tma() -> None:
        with thread_ids.one_thread():
            to = map_of_member(d, map_, index)
            for box, at in boxes():
                tile.store_async(box, to, row, at)
            nvvm.cp_async_bulk_commit_group()

    emit.branch(arith.ori(misaligned(d, ROW_BYTES), ragged), by_threads, by_tma)


class StagedWriter(Writer):
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

    def write(self, sums: ir.Value, corner: Corner, phase: Any = None) -> Any:
        corner, sums = corner.of_d(self.schedule), oriented(sums, self.schedule)
        parts = [(sums, 0, 0)] if self.parts == 1 else list(split(sums, self.parts))
        if self.parts > 1 and self._repeats(sums):
            return self._write_in_loop(parts, corner, phase)
        for number, (part, below, right) in enumerate(parts):
            at = corner.moved(below, right)
            if self.preloaded is not None:
                if number > 0:
                    self.preloaded.begin(at)
                self.preloaded.end(at, phase)
                phase = emit.sub(1, phase)
            self._stage(part, at)
            self._store(self._part(at), self.map, at)
        return phase

    def _repeats(self, sums: ir.Value) -> bool:
        """Whether a loop stores the parts of a tile: not where they are computed from more than the sums
        and what is in shared memory, since kernels then spill registers.
        """
        needs = self.op.needs
        loads = len(needs.matrices) > (self.preloaded is not None)
        return needs.only_scales or (tile.reading(sums) is not None and not loads)

    def _write_in_loop(self, parts: list[_Part], corner: Corner, phase: Any) -> Any:
        """Stores parts with one copy of the code that does. With the rows that threads store, two copies take
        a fifth of the time to compile. Returns the next phase.
        """

        def start(number: ir.Value) -> Corner:
            return corner.moved(*(emit.mul(number, step) for step in parts[1][1:]))

        def one(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            if self.preloaded is not None:
                with emit.when(emit.less(0, number)):
                    self.preloaded.begin(start(number))
                self.preloaded.end(start(number), *carried)
                carried = [emit.sub(1, each) for each in carried]
            for which, (part, *_) in enumerate(parts):
                with emit.when(emit.equal(number, which)):
                    # Without the pin, LLVM rounds all parts before the loop, beside the sums.
                    part = reread(part) or tile.pin(part)
                    self._stage(part, start(number))
            self._store(self._part(corner), self.map, start(number))
            return carried

        return (emit.loop(0, len(parts), 1, [] if self.preloaded is None else [phase], one) or [phase])[0]

    def _stage(self, sums: ir.Value, at: Corner) -> None:
        """Fills a warpgroup's part of the buffer with D of as many sums, which begin at a corner of D."""
        part, run = self._part(at), run_of(self.schedule)
        preloaded = None if self.preloaded is None else (self.preloaded, part)
        ahead, pairs = spare(self.schedule), self.op.types.output_bytes == 2  # which stmatrix stores
        finisher = Finisher(self.op, at.index, run, ahead=ahead, preloaded=preloaded, pairs=pairs)
        pieces = finisher.fragments(sums, at.row, at.column)
        # stmatrix stores 16-bit elements; 8-bit elements are stored in pairs.
        bytes_ = self.op.types.output_bytes == 1
        fill(
            *(part, pieces, partial(await_stores, 0, at.warpgroup), at.warpgroup),
            lambda kind: run_bytes(self.op.d, run, kind) if bytes_ else 0,
        )

    def _part(self, at: Corner) -> ir.Value:
        """A warpgroup's part of the buffer."""
        return tile.stage(self.buffer, at.warpgroup)

    def _store(self, part: ir.Value, map_: ir.Value, at: Corner) -> None:
        """Stores a buffer at a corner of D."""
        ends = emit.add(at.row, part.type.shape[0]), emit.add(at.column, part.type.shape[1])
        store_boxes(self.op, lambda: [(part, at.column)], ends, map_, at.row, at.index)

    def ask(self, corner: Corner) -> None:
        if self.preloaded is not None:
            row, column = self.schedule.swapped(corner.row, corner.column)
            self.preloaded.begin(replace(corner, row=row, column=column))
        self._prefetch(corner, self.preloaded if self.parts == 1 else None)

    def finish(self) -> None:
        await_reads()


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
    return 0 if schedule.stream_k else max(schedule.registers_beside_sums - _KEPT, 0)


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
        across = panel_width(width, size)
        outer, stride = self.schedule.warpgroups * count, rows * (self._width if over else width)
        strides = f"{stride},{across},{rows * across},1"
        layout = f"S[({outer},{rows},{width // across},{across}):({strides})] xor {SWIZZLES[across * size]}"
        kind = BufferType.of((outer, rows, width), self.op.d.type.element_type, layout)
        buffer = tile.alloc(kind, over=over.buffer if over else None)
        return _Slots(buffer, tile.tensor_map(self.op.d, tile.stage_type(kind), any_rows=True), count)

    def preload(self) -> bool:
        return False

    def write(self, sums: ir.Value, corner: Corner, phase: Any = None) -> Any:
        corner, columns = corner.moved(0, 0), self.schedule.block[1]
        pieces = list(split(sums, columns // gcd(columns, self._width)))
        strips: list[list[_Part]] = [[] for _ in range(-(-columns // self._width))]
        for piece in pieces:
            strips[piece[2] // self._width].append(piece)
        if self._wide > 1 and self._repeats(sums):
            self._write_in_loop_of_strips(strips[: self._wide], corner)
        else:
            for number, strip in enumerate(strips[: self._wide]):
                self._write_strip(strip, number, corner)
        if self._rest is not None:
            self._write_strip(strips[-1], self._wide, corner)
        return phase

    def _write_in_loop_of_strips(self, strips: list[list[_Part]], corner: Corner) -> None:
        """Stores wide strips with one copy of the code that does."""
        with emit.each(0, len(strips)) as number:
            part = self._slots.slot(corner.warpgroup, number)
            at = corner.moved(0, emit.mul(number, self._width))
            for which, strip in enumerate(strips):
                with emit.when(emit.equal(number, which)):
                    # Without the pin, LLVM rounds all strips before the loop, beside the sums.
                    kept = [(reread(piece) or tile.pin(piece), row, column) for piece, row, column in strip]
                    self._fill(part, kept, which, corner)
            self._store(part, self._slots.map, at)

    def _write_strip(self, strip: list[_Part], number: int, corner: Corner) -> None:
        slots = self._slots if number < self._wide or self._rest is None else self._rest
        part = slots.slot(corner.warpgroup, number)
        self._fill(part, strip, number, corner)
        self._store(part, slots.map, corner.moved(0, number * self._width))

    def _fill(self, part: ir.Value, strip: list[_Part], number: int, corner: Corner) -> None:
        """Fills a slot with D of a strip's sums: pieces, each with its row and column in the tile."""

        def await_read() -> None:
            if number == 0 or number >= self._count:
                # The first strip waits for all of the tile before: the others find slots that have been read.
                await_stores(self._count - 1 if number else 0, corner.warpgroup)

        fill(part, self._finished(strip, number, corner), await_read, corner.warpgroup)

    def _finished(
        self, strip: list[_Part], number: int, corner: Corner
    ) -> Iterator[tuple[ir.Value, int, int]]:
        """D's fragments of a strip, each with its row and column in the strip."""
        run, ahead = run_of(self.schedule), spare(self.schedule)
        for piece, below, right in strip:
            at, inside = corner.moved(below, right), right - number * self._width
            finisher = Finisher(self.op, at.index, run, ahead=ahead, pairs=True)
            for done, down, across in finisher.fragments(piece, at.row, at.column):
                yield done, below + down, inside + across


def takes(op: MatmulOp, schedule: WarpgroupSchedule) -> bool:
    """Whether D of a product is stored in strips. If the tile also fits in equal parts, these are used where
    C or a residual is copied into the same memory, or where other parts of the kernel use that memory.
    """
    staging = schedule.staging(op.types)
    if not staging.slots or op.gate is not None:
        return False
    needs_all = bool(op.needs.matrices) or op.is_scattered or op.is_all_reduced
    return not (needs_all and staging.fits_in_equal_parts)
