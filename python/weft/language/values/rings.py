"""Rings: stages of shared memory that one role fills by TMA and others take, one after the other.

The barriers of the stages, the bytes that they expect, and the stage and phase of each role follow from the
calls. Loops carry the positions.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from weft.dialects import tile
from weft.dialects.op import as_attribute
from weft.dialects.tile_copies import BOTH, ZERO
from weft.errors import Diagnostic, Location, WeftError, shown
from weft.ir import callers
from weft.isa.chips import WARPGROUP, WARPS
from weft.isa.suggest import did_you_mean
from weft.isa.tcgen05.control import ALLOC
from weft.isa.tensor_map import BOX_ALIGNMENT, GATHERED_ROWS, SWIZZLED_ROWS
from weft.language.calls.signatures import ALIGNMENT
from weft.language.capture import carried, trace
from weft.language.messages.mistakes import check_flag, mistake
from weft.language.operations import clusters
from weft.language.values.block_scales import BlockScales, ScaleKind
from weft.language.values.bounds import may_begin_before
from weft.language.values.buffers import Buffer, buffer_type, check_room, stages_complaint
from weft.language.values.dtypes import NARROW, DType, e2m1
from weft.language.values.matrices import RowsPlace, TilePlace
from weft.language.values.stages import Slot, Takers
from weft.mlir import ir, nvvm
from weft.passes.builders import emit, thread_ids

Kind = tuple[int, int, DType]  # rows, columns and the type of elements


class Ring(carried.Fixed, trace.Positions):
    """Stages of one or more buffers. One role fills them in order, `takers` warpgroups take each of them."""

    def __init__(
        self,
        stages: int,
        takers: int,
        buffers: dict[str, Kind],
        shared: dict[str, int],
        over: "Ring | None" = None,
    ) -> None:
        self.name = ", ".join(buffers) or "no tiles"
        self.stages, self.kinds, self._shared = stages, buffers, shared
        self.is_shared = bool(shared)
        self.over = over
        """The ring in whose memory the stages are, if they aren't in their own."""
        if over is None:
            self._takers = Takers(self.name, takers)
        # This CTA's takers must have read a stage, and those of CTAs that it copies for.
        self.takers = takers * (1 + sum(clusters.size(axis) - 1 for axis in set(shared.values())))
        below = list(over._buffers.values()) if over else [None] * len(buffers)
        self._scales = dict[str, ir.Value]()
        self._buffers: dict[str, ir.Value] = self._allocated(dict(zip(buffers, below, strict=True)))
        self._where = callers.here()
        self._copied = not trace.current().has_tma
        self._writer: trace.Role | str | None = None  # "copies", or the role that writes its stages
        self.filling: trace.Role | None = None  # the role that copies
        self.filling_warp: int | None = None  # the warp of its thread that starts the copies
        self._own: bool | None = None  # whether each warpgroup writes the stage of its own number
        self._alone: bool | None = None  # whether one thread takes stages
        self._takes_own: bool | None = None  # whether each warpgroup takes the stage of its own number
        self._read_by: str | None = None  # "lanes" or "a product", where one thread takes them
        self._ends_products = False  # whether a stage is empty when products of one thread end
        self._copies = list[ir.OpView]()  # of tiles by TMA, which signal the leader of a pair
        self._taking: tuple[trace.Role | None, int] | None = None  # the role and warp of that thread
        self._taken_at: Location | None = None
        self._ring = tile.make_ring(stages, consumers=self.takers, **self._agents())
        trace.current().first_barriers = trace.current().first_barriers or self._ring.owner
        self.begin()

    def _allocated(self, below: dict[str, ir.Value | None]) -> dict[str, ir.Value]:
        """Its buffers, each in the memory of one that is `below` it, or in its own."""
        dtypes = {each[2] for each in self.kinds.values() if not isinstance(each, ScaleKind)}
        mixed = not dtypes.isdisjoint({*NARROW} - {e2m1})  # products need a byte for each element
        kinds = {
            name: each.types(self.stages)[0]
            if isinstance(each, ScaleKind)
            else buffer_type(*each, self.stages, expanded=mixed and each[2] == e2m1)
            for name, each in self.kinds.items()
        }
        if self.over is None:
            bytes_ = sum(kind.bytes for kind in kinds.values()) // self.stages
            subject = f"ring '{self.name}' has {self.stages} stages of {bytes_} bytes,"
            check_room(subject, bytes_, self.stages)
        with trace.current().before_barriers():
            buffers = {name: tile.alloc(kind, over=below[name]) for name, kind in kinds.items()}
            for name, each in self.kinds.items():
                if isinstance(each, ScaleKind):
                    self._scales[name] = tile.alloc(each.types(self.stages)[1], over=buffers[name])
        return buffers

    def _agents(self) -> dict[str, Any]:
        """Who fills and empties stages, where that isn't what `tile.make_ring` has."""
        return {"filled_by": "threads", "producers": WARPGROUP} if self._copied else {}

    def _bytes(self, name: str) -> int:
        rows, columns, dtype = self.kinds[name]
        return rows * columns * dtype.bits // 8

    def fill(self, **places: Any) -> None:
        """Fills the next stage by TMA, when it is empty: each buffer from the first element of a tile, or
        equal parts of its rows (of its columns, if it has one row) from each of several elements in a tuple.
        A buffer of None is left as it is.

        Elements outside of the array become zeros. One thread does it, also where the whole role calls it.
        """
        if self._writer not in (None, "copies"):
            raise mistake(f"ring '{self.name}' is written already: make another one for what is copied here")
        current = self._copied_by("filled")
        for name in places:
            if name not in self.kinds:
                raise mistake(
                    f"a stage of this ring has {self.name}, got '{name}'{did_you_mean(name, self.kinds)}"
                )
        for name in self.kinds:
            if name not in places:
                raise mistake(
                    f"a stage of this ring has {self.name}, got no '{name}': None leaves it as it is"
                )
        places = {name: place for name, place in places.items() if place is not None}
        if not places:
            raise mistake("at least one buffer of a stage must be filled: ring.lend() hands it over as it is")
        for name, place in places.items():
            self._check_places(name, place if isinstance(place, tuple) else (place,))
        stage, phase = self.filled
        if self._copied:
            self._copy(places, stage, phase)
        else:
            with nullcontext() if current.one_thread else thread_ids.one_thread():
                tile.acquire(self._ring, stage, phase)
                tile.expect(self._ring, stage, sum(map(self._bytes, places)))
                barrier = tile.full_barrier(self._ring, stage)
                for name, place in places.items():
                    part = self._part(name, stage)
                    for each, of in self._parts(part, place):
                        self._start(name, each, of, barrier)
        self.filled = tile.advance(self._ring, *self.filled)

    def _check_places(self, name: str, places: tuple[TilePlace, ...]) -> None:
        """Raises WeftError for what a buffer can't be filled from."""
        rows, columns, dtype = self.kinds[name]
        extent = columns if rows == 1 else rows
        if not places or extent % len(places) or (len(places) > 1 and name in self._shared):
            why = " that isn't shared" if name in self._shared else ""
            raise mistake(
                f"parts must divide a buffer{why}, got {len(places)} of {rows} x {columns} for '{name}'"
            )
        self._check_parts(name, len(places))
        for place in places:
            if not isinstance(place, TilePlace):
                raise mistake(
                    f"'{name}' must be filled from an element of an array, as a[row, k], got {shown(place)}"
                )
            if bool(place.matrix.scaled) != isinstance(self.kinds[name], ScaleKind):
                needed = (
                    "an array of elements" if place.matrix.scaled else f"one of scales, w.Scales[{dtype}]"
                )
                raise mistake(f"'{name}' must be filled from {needed}, got {place}")
            if place.dtype != dtype:
                raise mistake(
                    f"buffer '{name}' has elements of {dtype}, got {place} of {place.dtype}: make "
                    f"the buffer of {place.dtype}, and convert what w.load loads from it"
                )
            if isinstance(place, RowsPlace) and (name in self._shared or rows % GATHERED_ROWS):
                raise mistake(
                    f"'{name}' must have a multiple of {GATHERED_ROWS} rows, and not be shared, to be filled "
                    f"from rows at indices, got {rows}"
                )

    def _check_parts(self, name: str, count: int) -> None:
        """Raises WeftError for parts of a buffer that don't begin where its swizzle does, or TMA writes."""
        rows = self.kinds[name][0]
        if count > 1 and rows > 1 and rows // count % SWIZZLED_ROWS:
            raise mistake(
                f"parts of '{name}' must have a multiple of {SWIZZLED_ROWS} rows, got {rows // count}: load "
                "single rows by w.load(x[rows, k], …), and store them in a stage of ring.write()"
            )
        bytes_ = self._bytes(name) // count
        if not self._copied and (count > 1 or (rows > 1 and self.stages > 1)) and bytes_ % BOX_ALIGNMENT:
            parts = f"each of {count} parts" if count > 1 else "a stage"
            raise mistake(
                f"'{name}' must have a multiple of {BOX_ALIGNMENT} bytes in {parts}, since TMA writes tiles "
                f"to multiples of {BOX_ALIGNMENT} bytes, got {bytes_}"
            )

    def _parts(
        self, buffer: ir.Value, places: TilePlace | tuple[TilePlace, ...]
    ) -> list[tuple[TilePlace, ir.Value]]:
        """The places from which a buffer, or parts of it, are filled, and these parts."""
        if not isinstance(places, tuple) or len(places) == 1:
            return [(places[0] if isinstance(places, tuple) else places, buffer)]
        rows, columns = buffer.type.shape
        shape = (rows // len(places), columns) if rows > 1 else (1, columns // len(places))
        parts = []
        for number, place in enumerate(places):
            row, column = (number * shape[0], 0) if rows > 1 else (0, number * shape[1])
            parts.append((place, tile.slice_(buffer, emit.value(row), emit.value(column), shape)))
        return parts

    def _start(self, name: str, place: TilePlace, part: ir.Value, barrier: ir.Value) -> None:
        """Starts a copy by TMA: of a whole buffer, or of this CTA's share for all that share it."""
        if isinstance(kind := self.kinds[name], ScaleKind):
            source, row, column = kind.place(place, part.type)
            self._copies.append(tile.copy_async(source, row, column, part, barrier=barrier))
            return
        if isinstance(place, RowsPlace):
            first, column = place.index.indices[0].value, place.corner[1]
            numbers = place.index.matrix.value
            self._copies.append(
                tile.gather_async(place.map(part.type), numbers, first, column, part, barrier)
            )
            return
        if name not in self._shared:
            copy = tile.copy_async(place.map(part.type), *place.corner, part, barrier=barrier)
            self._copies.append(copy)
            return
        axis = self._shared[name]
        clusters.check_alike(name, [each.value for each in place.indices], axis)
        (rows, columns), (row, column) = part.type.shape, place.corner
        rows //= clusters.size(axis)
        first = emit.value(emit.mul(clusters.coordinate(axis), rows))
        share = tile.slice_(part, first, emit.value(0), (rows, columns))
        row, mask = emit.value(emit.add(row, first)), clusters.mask(axis)
        tile.copy_multicast(place.map(share.type), row, column, share, barrier, mask)

    def _copy(
        self, places: dict[str, TilePlace | tuple[TilePlace, ...]], stage: ir.Value, phase: ir.Value
    ) -> None:
        """Fills a stage by `cp.async` of all threads of the warpgroup."""
        tile.acquire(self._ring, stage, phase)
        for name, places_of in places.items():
            for place, part in self._parts(self._part(name, stage), places_of):
                place.check_aligned(columns=True)
                rows, columns = (BOTH if may_begin_before(each) else ZERO for each in place.corner)
                tile.copy_async(
                    place.memref(), *place.corner, part, vector_bytes=ALIGNMENT, rows=rows, columns=columns
                )
        nvvm.SyncWarpOp(emit.value(-1))  # of small tiles, only some lanes copy
        tile.commit(self._ring, stage, copies=True)

    def _copied_by(self, done: str) -> trace.Trace:
        """Notes which thread of the role fills or lends stages."""
        current = self._in_role(done)
        if current.role and current.role.warpgroups > 1 and current.alike:
            raise mistake(
                f"a ring must be {done} by one thread, and each of the {current.role.warpgroups} warpgroups "
                "of this role has one: do it in a role of one warpgroup, or write 'if me == 0:' around it, "
                "after 'with w.role(…) as me:'"
            )
        if self.filling not in (None, current.role):
            raise mistake(
                f"ring '{self.name}' is filled in another role already: each role has its own position in a "
                "ring, so fill it in one of them, or make another ring"
            )
        if self.filling_warp not in (None, current.warp):
            warp = self.filling_warp or ""
            raise mistake(
                f"ring '{self.name}' is filled by another thread of the role already, which alone has the "
                f"position in it: fill it in w.one_thread({warp and f'warp={warp}'}), or make another ring"
            )
        self._writer, self.filling, self.filling_warp = "copies", current.role, current.warp
        if self.is_shared or current.cta_group > 1:
            self.drainer = current.role, current.warp
        current.needs_all_threads()
        return current

    def drain(self) -> None:
        # A thread that takes all stages has the position of the next one to fill.
        fills = self.drainer == (self.filling, self.filling_warp)
        tile.drain((self.over or self)._ring, *(self.filled if fills else self.taken))

    def lend(self) -> None:
        """Waits until the next stage is empty, and passes it on unchanged. The warpgroups that take it can
        use its memory for another purpose, such as a store through it (`via`).
        """
        if self._writer not in (None, "copies"):
            raise mistake(f"ring '{self.name}' is written: a stage is lent by the role that fills a ring")
        current = self._copied_by("lent")
        stage, phase = self.filled
        if self._copied:
            tile.acquire(self._ring, stage, phase)
            tile.commit(self._ring, stage, copies=True)
        else:
            with nullcontext() if current.one_thread else thread_ids.one_thread():
                tile.acquire(self._ring, stage, phase)
                tile.expect(self._ring, stage, 0)
        self.filled = tile.advance(self._ring, *self.filled)

    @contextmanager
    def write(self, taken: Slot | None = None, *, own: bool = False) -> Iterator[Slot]:
        """Waits until the next stage is empty. In the block, the warpgroups of the role write its buffers;
        the stage is full at its end. A ring is either written or filled.

        With `own`, each warpgroup writes the stage of its own number, of as many stages as there are
        warpgroups, and waits only for that one. Stages are taken in order: a round has one of each warpgroup.

        A ring over another one is written from a stage that was taken from that one, in the same memory.
        The warpgroups that take it from this ring release it, so that it can be filled again.
        """
        check_flag("own", own)
        current = self._in_role("written")
        if self.over is None:
            if taken is not None:
                raise mistake(f"ring '{self.name}' has its own memory: write() takes no stage of another one")
        elif not isinstance(taken, Slot) or taken.ring is not self.over or not taken.held:
            raise mistake(
                f"ring '{self.name}' is over ring '{self.over.name}': write a stage that was taken from it "
                f"and isn't released, as in write(block), got {shown(taken)}"
            )
        assert current.role is not None
        self._written_by(current.role, own)
        stage, phase = self.filled
        if own:
            stage = current.role.number
        if taken is None:
            tile.acquire(self._ring, stage, phase)
        else:
            taken.hand_over()
        slot = Slot(self, stage, phase)
        slot.held, slot.taken, slot.written = False, False, True
        yield slot
        tile.commit(self._ring, stage)
        for _ in range(self.stages if own else 1):
            self.filled = tile.advance(self._ring, *self.filled)

    def _written_by(self, role: trace.Role, own: bool) -> None:
        """Each warp of a role announces what it has written."""
        if trace.current().one_thread:
            raise mistake("a stage must be written by whole warpgroups, not in w.one_thread()")
        self._check_own(role, own)
        if self._own not in (None, own):
            raise mistake(f"ring '{self.name}' must be written either always with own=True, or never")
        self._own = own
        if self._writer is not None and self._writer is not role:
            by = "filled" if self._writer == "copies" else "written in another role"
            raise mistake(f"ring '{self.name}' is {by} already: make another one for what is written here")
        self._writer = role
        self._signalled_by("warps", "filled_by", "producers", (1 if own else role.warpgroups) * WARPS)

    def _check_own(self, role: trace.Role, own: bool) -> None:
        """Raises WeftError where warpgroups of a role have no stages of their own."""
        if own and self.stages != role.warpgroups:
            raise mistake(
                f"with own, a ring must have as many stages as the role has warpgroups, {role.warpgroups}, "
                f"got {self.stages}"
            )

    def _signalled_by(self, whom: str, attribute: str, counted: str = "", count: int = 0) -> None:
        """Writes who announces full or empty stages, and how many there are, where that changes."""
        attributes = self._ring.owner.attributes
        attributes[attribute] = as_attribute(whom)
        if counted:
            attributes[counted] = as_attribute(count)

    def take(self, *, waits: bool = True, own: bool = False) -> Slot:
        """Waits until the next stage is full, and takes it. `release()` lets it be filled again.

        Without `waits`, the stage's `ready()` waits, which comes before its buffers are read. With `own`,
        each warpgroup of the role takes the stage of its own number, of as many stages as warpgroups.

        In `w.one_thread()`, that thread alone takes and releases stages that another role writes. On a chip
        with tensor memory, it may take stages that TMA fills, too: they are empty when the products that it
        has started by then have read them.
        """
        check_flag("waits", waits)
        check_flag("own", own)
        current = self._in_role("taken")
        self._taken_by(current.one_thread)
        assert current.role is not None
        self._check_own(current.role, own)
        if self._takes_own not in (None, own):
            raise mistake(f"ring '{self.name}' must be taken either always with own=True, or never")
        self._takes_own = own
        stage, phase = self.taken
        slot = Slot(self, current.role.number if own else stage, phase)
        slot.full = False
        if waits:
            slot.ready()
        for _ in range(self.stages if own else 1):
            self.taken = tile.advance(self._ring, *self.taken)
        current.holds(slot)
        return slot

    def _taken_by(self, alone: bool) -> None:
        if self._alone not in (None, alone):
            raise mistake(f"ring '{self.name}' must be taken either by one thread, or by whole warpgroups")
        if alone and self.is_shared:
            raise mistake(
                f"stages with '{next(iter(self._shared))}', which CTAs share, must be taken by whole "
                "warpgroups: leave it out of shared="
            )
        if alone and self.takers != 1:
            raise mistake(f"takers of a ring must be 1 if one thread takes its stages, got {self.takers}")
        if alone and self._alone is None:
            self._signalled_by("threads", "emptied_by")
        current = trace.current()
        taking = current.role, current.warp
        if self._taking not in (None, taking) and self._taking[0] is current.role:
            raise mistake(
                f"stages of ring '{self.name}' are taken by another thread of the role already, which alone "
                f"has the position in it: take them in w.one_thread(warp={self._taking[1]})"
            )
        self._alone, self._taking = alone, taking
        self._taken_at = self._taken_at or callers.here()

    def ready(self) -> Slot:
        """Waits until the next stage is full, without taking it. Its buffers may be read, and changed before
        any warpgroup takes it; only `take` lets it be released.
        """
        self._in_role("taken")
        self.await_full(*self.taken)
        slot = Slot(self, *self.taken)
        slot.held, slot.taken = False, False
        return slot

    def check(self) -> None:
        if self._taken_at is not None and self._writer is None:
            message = f"ring '{self.name}' is taken and never filled: call its fill() or write() in a role"
            raise WeftError(Diagnostic(message, self._taken_at))
        if self.over is None:
            self._takers.check()
            if "emptied_by" in self._ring.owner.attributes:  # each warp, or one thread, releases for itself
                self._takers.part()

    def _in_role(self, done: str) -> trace.Trace:
        current = trace.current()
        if current.role is None:
            raise mistake(f"a ring must be {done} in a role: write 'with w.role(…):' around it")
        copied = self._writer in (None, "copies") and current.chip not in ALLOC.chips()
        if done == "taken" and current.one_thread and (copied or self._copied):
            raise mistake(
                "a stage must be taken by whole warpgroups, not in w.one_thread(), unless a role before this "
                "one writes it, on a chip with TMA"
            )
        return current

    def read_by_lanes(self) -> None:
        """Lanes read the stages, not only products: each warp then releases them."""
        if self.over is not None:
            self.over.read_by_lanes()
            return
        self._check_reader("lanes")
        if not self._alone and not self._ends_products:
            self._signalled_by("warps", "emptied_by", "consumers", self.takers * WARPS)

    def read_by_product(self) -> None:
        """Products that one thread starts read a stage: it is empty when they have ended."""
        if not self._alone:
            raise mistake(
                f"a stage of ring '{self.name}' that a product of one thread reads must be taken by that "
                "thread, in w.one_thread(), so that its release waits for the product"
            )
        self._check_reader("a product")
        released = self.over or self
        released._ends_products = True
        released._signalled_by("mma", "emptied_by", "consumers", 1)
        released._set_pair()
        self.drainer = self.drainer or self._taking

    def _set_pair(self) -> None:
        """In a kernel of pairs, the stages are those of both CTAs."""
        if (group := trace.current().cta_group) == 1:
            return
        for op in (self._ring.owner, *self._copies):
            op.attributes["cta_group"] = as_attribute(group)

    def _check_reader(self, reader: str) -> None:
        """Raises WeftError where both the lanes and the products of one thread read stages."""
        if self._alone and self._read_by not in (None, reader):
            raise mistake(
                f"stages of ring '{self.name}' are read by {self._read_by} already, so not by {reader} of "
                "the same thread: fill another ring for it"
            )
        self._read_by = reader

    @property
    def taken_alone(self) -> bool:
        """Whether one thread takes the stages."""
        return bool(self._alone)

    def await_full(self, stage: ir.Value, phase: ir.Value) -> None:
        """Waits until a stage is full."""
        tile.await_(self._ring, stage, phase)

    def release(self, stage: ir.Value, meets: bool) -> None:
        """Lets a stage be filled again, by all CTAs that copy into it; if `meets`, after a barrier of each
        warpgroup.
        """
        if self.over is not None:
            self.over.release(stage, meets and not self.taken_alone)
            return
        self._takers.note(own=bool(self._takes_own))
        if meets and not self.taken_alone:
            self._takers.meet()
        tile.release(self._ring, stage)
        for axis in sorted(set(self._shared.values())):
            for rank in clusters.peers(axis):
                tile.release_peer(self._ring, stage, rank)

    def _part(self, name: str, stage: ir.Value) -> ir.Value:
        """Returns a buffer of a stage by its name: an SSA value."""
        if wrong := stages_complaint(self._buffers[name].type):
            raise WeftError(Diagnostic(wrong, self._where))
        return tile.stage(self._buffers[name], stage)

    def buffer(self, name: str, stage: ir.Value, slot: Slot | None = None) -> Buffer | BlockScales:
        """Returns a buffer of a stage, or its block scales. The stage may have been taken as a `slot`."""
        if name in self._scales:
            scales = tile.stage(self._scales[name], stage)
            return BlockScales(scales, 0, scales.type.shape[0], slot)
        return Buffer(self._part(name, stage), ring=self, slot=slot)
