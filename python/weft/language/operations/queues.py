"""`w.tile_queue`: tiles that CTAs take one after the other: from a counter, or from CTAs yet to start."""

from contextlib import nullcontext
from math import prod

from weft.dialects import tile
from weft.dialects.op import as_attribute, build
from weft.dialects.tile import AddressOp, BufferType
from weft.isa.async_copy import CP_ASYNC
from weft.isa.chips import WARPGROUP, WARPS, describe
from weft.isa.cluster_features import CANCEL, CANCEL_FOR_CLUSTER
from weft.language.capture import trace
from weft.language.messages.mistakes import mistake
from weft.language.operations.ranges import Tiles, tiles
from weft.language.operations.roles import cta, ctas
from weft.language.values.dtypes import i32
from weft.language.values.matrices import Place
from weft.language.values.scalars import Scalar
from weft.mlir import arith, ir, llvm, memref
from weft.passes.analysis.uniformity import SAME
from weft.passes.builders import addresses, emit, thread_ids

_STAGES = 2  # a role may be one tile ahead of the others


class Queue(trace.Positions):
    """The tiles that a CTA takes: a loop of the GPU for roles. It is a ring of their numbers, which a thread
    of the first role with such a loop writes, and which all warps with one read.
    """

    name = "tiles"

    def __init__(self, counter: Place, counts: tuple[Scalar, ...]) -> None:
        self._tiles, self._counter = Tiles.of(counts), counter
        kind = BufferType.of((_STAGES, 1), i32.type, f"S[({_STAGES},1):(1,1)]")
        with trace.current().before_barriers():
            numbers = tile.alloc(kind)
        self._numbers = build(AddressOp, operands=[numbers], results=[addresses.pointer_type(3)]).address
        self._ring = tile.make_ring(_STAGES, consumers=1, filled_by="threads", emptied_by="warps")
        self._takers: list[tuple[trace.Role | None, int | None]] = []
        self.begin()

    @property
    def end(self) -> ir.Value:
        """The number of tiles of the grid."""
        return self._tiles.end.value

    @property
    def _is_alone(self) -> bool:
        """Whether one thread of each warpgroup runs."""
        current = trace.current()
        return current.one_thread and current.has_tma

    @property
    def _taker(self) -> tuple[trace.Role | None, int | None]:
        """The role that takes tiles now, and the warp of its one thread."""
        current = trace.current()
        return current.role, current.warp if self._is_alone else None

    def first(self) -> ir.Value:
        """The number of the first tile, at the beginning of a loop."""
        current, takers = trace.current(), self._takers
        role, warp = self._taker
        if role is None:
            raise mistake("the tiles of w.tile_queue must be taken in a role: write 'with w.role(…):'")
        if any(each is role and (None in (warp, other) or other == warp) for each, other in takers):
            raise mistake(
                "a role can take the tiles of w.tile_queue in one loop only, or a warp of it in one in "
                "w.one_thread"
            )
        if current.loops:
            raise mistake("the loop over w.tile_queue must be the outermost one")
        takers.append((role, warp))
        current.needs_all_threads()
        attributes, readers = self._ring.owner.attributes, role.warpgroups * (1 if self._is_alone else WARPS)
        readers += 0 if len(takers) == 1 else attributes["consumers"].value
        attributes["consumers"] = as_attribute(readers)
        return self._own()

    def _own(self) -> ir.Value:
        """The number of a CTA's first tile."""
        return cta(0).value

    def item(self, number: Scalar) -> object:
        return self._tiles.item(number)

    def ask(self) -> None:
        """At the beginning of a tile, takes the number of the next one from the counter."""
        role, _ = self._takers[0]
        if role is None or self._taker != self._takers[0]:
            return
        ring, (stage, phase) = self._ring, self.filled
        if self._is_alone:
            mine = emit.equal(role.number, 0)
        else:
            mine = emit.equal(emit.thread(), role.first * WARPGROUP)
        with emit.when(mine):
            self._request(stage, phase)
        self.filled = tile.advance(ring, stage, phase)

    def _request(self, stage: ir.Value, phase: ir.Value) -> None:
        """Fills a stage with the number of the next tile, by one thread."""
        tile.acquire(self._ring, stage, phase)
        llvm.store(self._taken_number(), self._address(stage))
        tile.commit(self._ring, stage)

    def _taken_number(self) -> ir.Value:
        """The next number, of the whole grid. The last one to be taken sets the counter to 0 again: all tiles
        but the first of each CTA are taken, and once more by each CTA, which are as many as there are tiles.
        """
        end, counter = self.end, self._counter
        array, indices = counter.matrix.value, [emit.as_index(each.value) for each in counter.indices]

        def add(number: ir.Value | int) -> ir.Value:
            return memref.AtomicRMWOp(arith.AtomicRMWKind.addi, emit.value(number), array, indices).result

        number = add(1)
        with emit.when(emit.equal(number, emit.sub(end, 1))):
            add(emit.sub(0, end))
        return emit.value(emit.add(number, ctas(0).value))

    def following(self) -> ir.Value:
        """The number of the next tile, at the end of one."""
        ring, (stage, phase) = self._ring, self.taken
        tile.await_(ring, stage, phase)
        number = self._answer(stage)
        tile.release(ring, stage)
        self.taken = tile.advance(ring, stage, phase)
        return number

    def _answer(self, stage: ir.Value) -> ir.Value:
        """The number of a tile in a full stage."""
        loaded = llvm.load(i32.type, self._address(stage))
        loaded.owner.attributes[SAME] = ir.UnitAttr.get()  # one thread wrote it, and the ring keeps it
        return loaded if self._is_alone else emit.uniform(loaded)

    def _address(self, stage: ir.Value) -> ir.Value:
        return addresses.offset(self._numbers, emit.value(emit.mul(stage, i32.bytes)))


class LaunchQueue(Queue):
    """The tiles of CTAs that haven't started, which a cluster takes over (PTX ISA, "clusterlaunchcontrol").
    All of its CTAs get the answers to what a thread of the first one requests.
    """

    def __init__(self, counts: tuple[Scalar, ...]) -> None:
        self._tiles, self._takers = Tiles.of(counts), []
        self.is_shared = prod(trace.current().cluster or ()) > 1
        self._ring = tile.make_ring(_STAGES, consumers=1, filled_by="clc", emptied_by="warps")
        self.begin()

    def _own(self) -> ir.Value:
        current = trace.current()
        if current.leads:  # the other CTA's thread reads the answers, too
            current.beside_leader.append(self._skip)
        return self._number([cta(axis).value for axis in range(len(self._tiles.counts))])

    def _number(self, at: list[ir.Value]) -> ir.Value:
        """The number of a tile, from its coordinates."""
        number = at[-1]
        for each, count in zip(at[-2::-1], self._tiles.counts[-2::-1], strict=True):
            number = emit.add(emit.mul(number, count.value), each)
        return emit.value(number)

    def _request(self, stage: ir.Value, phase: ir.Value) -> None:
        current = trace.current()
        self.drainer = (current.role, current.warp) if self.is_shared else None
        with emit.when(emit.equal(thread_ids.cluster_rank(), 0)) if self.is_shared else nullcontext():
            tile.acquire(self._ring, stage, phase)
            tile.try_cancel(self._ring, stage)

    def drain(self) -> None:
        with emit.when(emit.equal(thread_ids.cluster_rank(), 0)):
            tile.drain(self._ring, *self.filled)

    def _answer(self, stage: ir.Value) -> ir.Value:
        exists, at = tile.query_cancel(self._ring, stage)
        return emit.select(exists, self._number(list(at[: len(self._tiles.counts)])), self.end)

    def _skip(self) -> None:
        """Reads all answers, by a thread that takes no tiles."""

        def before(stage: ir.Value, phase: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
            tile.await_(self._ring, stage, phase)
            exists, _ = tile.query_cancel(self._ring, stage)
            tile.release(self._ring, stage)
            return exists, list(tile.advance(self._ring, stage, phase))

        emit.repeat([emit.value(0), emit.value(0)], before)


def tile_queue(counter: object = None) -> object:
    """The tiles of a kernel, assigned dynamically to CTAs that are free: `for x, y in queue:`, with the
    coordinates of `w.tiles`. So tiles that take longer than others don't delay those after them; the longest
    tiles should come first.

    Without `counter`, in a kernel without `persistent=`, there is a CTA for each tile, and clusters take over
    the tiles of those that haven't started (PTX ISA, "clusterlaunchcontrol"). On chips before sm_100, each
    CTA computes its own tile.

    With it, in a kernel with `persistent=`, CTAs count tiles themselves, on all chips. `counter` is an
    element of an array of i32, `count[0]` of a `w.Out`, which is 0 before the first launch. Each launch
    resets it to 0. Launches that run at the same time need separate counters.

    Make it before the first role. All roles that loop over it get the same tiles. A thread of the first role
    requests the next tile while the current one is computed, so the first role should be the one that copies.
    """
    current = trace.current()
    current.check_before_roles("a queue of tiles")
    if counter is None:
        return _launch_queue(current)
    if current.chip not in CP_ASYNC.chips():
        raise mistake(
            f"w.tile_queue needs {describe(CP_ASYNC.chips())}, got {current.chip}: use w.tiles there"
        )
    if current.persistent is None:
        raise mistake("w.tile_queue is for persistent kernels: write @w.kernel(grid=…, persistent=1)")
    if prod(current.cluster or ()) > 1:
        raise mistake(
            "a CTA takes its next tile alone, so w.tile_queue must be in a kernel without clusters, got "
            f"cluster {current.cluster}: use w.tiles"
        )
    if not isinstance(counter, Place) or len(counter.indices) != counter.matrix.rank:
        raise mistake(f"counter must be an element of an array, such as count[0], got {counter}")
    if counter.dtype != i32 or not counter.matrix.writes:
        raise mistake(f"counter must be an element of a w.Out of {i32}, got {counter}")
    queue = Queue(counter, current.tile_counts())
    current.rings.append(queue)
    return queue


def _launch_queue(current: trace.Trace) -> object:
    """The tiles of clusters that haven't started, or the one of each CTA on chips that don't tell them."""
    if current.persistent is not None:
        raise mistake(
            "w.tile_queue of a persistent kernel needs a counter, w.tile_queue(count[0]): pass one, or leave "
            "out persistent=, so that there is a CTA for each tile"
        )
    needed = CANCEL_FOR_CLUSTER if prod(current.cluster or ()) > 1 else CANCEL
    if current.chip not in needed.chips:
        return tiles()
    queue = LaunchQueue(current.tile_counts())
    current.rings.append(queue)
    return queue
