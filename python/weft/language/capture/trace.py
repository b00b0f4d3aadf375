"""The kernel that is traced now: where operations are built, its roles, rings and resources."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from weft.dialects import tile
from weft.errors import Diagnostic, Location, WeftError
from weft.ir import callers
from weft.isa.async_copy import TMA
from weft.isa.chips import BARRIERS, WARPGROUP
from weft.language.capture import tracing_state
from weft.language.messages.mistakes import mistake
from weft.layout import Layout
from weft.mlir import gpu, ir, nvvm
from weft.passes.builders import emit, registers
from weft.passes.kernels.cluster import await_previous_launch, begin_cluster

_UNFINISHED = (
    "a loop, branch or block of the GPU that begins here doesn't end in its place: an exception that the "
    "kernel catches leaves it, or a 'with' block in it ends later"
)


class Positions:
    """The positions of the running role in a ring, which loops and branches carry."""

    name: str
    filled: tuple[ir.Value, ...] = ()
    taken: tuple[ir.Value, ...] = ()
    is_shared = False
    """Whether the CTAs of a cluster copy for each other."""
    drainer: "tuple[Role | None, int | None] | None" = None
    """The role, and the warp of its thread, that waits at the end until nothing signals the ring."""

    def begin(self) -> None:
        """Sets the positions of a role that begins: the stages to fill and to take, and their phases."""
        zero = emit.value(0)
        self.filled = self.taken = (zero, zero)

    def check(self) -> None:
        """Raises WeftError, at the end, for a wrong number of warpgroups that take stages."""

    def drain(self) -> None:
        """Waits until no other CTA, and no product, signals the ring, in the thread of `drainer`."""


class Held(Protocol):
    """A stage that its taker has to release."""

    ring: Any
    held: bool
    where: Location | None


@dataclass
class Role:
    """Some warpgroups of a CTA, and the registers of each of their threads (0: an equal share)."""

    first: int
    warpgroups: int
    registers: int
    number: ir.Value
    where: Location | None
    own_barriers: int | None = None  # the first of its warpgroups' named barriers
    common_barrier: int | None = None
    finish: list[Callable[[], None]] = field(default_factory=list)  # what is built at its end

    @property
    def threads(self) -> int:
        """Its threads."""
        return self.warpgroups * WARPGROUP


@dataclass
class Single:
    """A block of `w.one_thread` on a chip without TMA."""

    only: object
    """Whether the thread is the one: an i1."""
    changes: list[ir.OpView] = field(default_factory=list)
    """The branches in which that thread changes memory."""
    whole: bool = False
    """Whether all threads of the warpgroup execute the block."""


class _Entered(NamedTuple):
    """A region of the GPU around what is built."""

    point: ir.InsertionPoint
    where: Location | None
    is_loop: bool
    alike: bool | None
    """Of a loop or branch: whether all warpgroups enter it equally often."""


@dataclass
class Trace:
    """The state of one trace."""

    name: str
    function: ir.OpView  # the gpu.func
    chip: str
    cta_threads: int | None = None  # where the kernel has no roles
    persistent: int | None = None
    counts_ctas: bool = False  # the kernel knows how many CTAs there are, which may be fewer than tiles
    dependent: bool = False  # it waits for earlier work itself
    precedes_early: bool = False  # the next launch may begin before that
    cluster: tuple[int, ...] | None = None  # the CTAs of a cluster in x, y and z
    cta_group: int = 1  # the CTAs of a product: 2 in a kernel of pairs
    grid_rank: int = 1
    tile_counts: Callable[[], tuple[Any, ...]] = tuple  # the grid, as values of the GPU
    warpgroups: int = 0  # of the roles so far
    role: Role | None = None
    roles: list[Role] = field(default_factory=list)
    one_thread: bool = False
    leads: bool = False  # whether the one thread is that of a pair
    beside_leader: list[Callable[[], None]] = field(default_factory=list)  # built for the other CTA of a pair
    single: Single | None = None  # the block of `one_thread`, on chips without TMA
    warp: int = 0  # of the one thread, where one runs or all start copies by TMA
    multiplier: Any = None  # how tiles are multiplied
    rings: list[Positions] = field(default_factory=list)
    first_barriers: ir.OpView | None = None  # the operation that makes the first ring
    maps: dict[tuple[object, ...], ir.Value] = field(default_factory=dict)
    groups: int = 0  # of asynchronous products that were started
    finished: int = 0  # of these, the first ones, that were waited for
    meetings: list[ir.Block] = field(default_factory=list)  # the blocks of code in which warpgroups met
    shared_bytes: int = 0  # of the rings and buffers so far
    barriers: int = 1  # the next free named barrier; barrier 0 is the CTA's
    removable: list[tuple[ir.Value, list[ir.OpView]]] = field(
        default_factory=list
    )  # operations a value alone needs
    vector_layouts: dict[tuple[int, int], Layout] = field(default_factory=dict)  # by sizes and threads
    row_arrays: dict[str, ir.Value] = field(default_factory=dict)  # whose rows have a size, by its name
    loads: list[ir.Operation] = field(default_factory=list)  # of flat vectors, so far
    scratch: dict[object, ir.Value] = field(default_factory=dict)  # shared memory of reductions across warps
    messages: list[str] = field(default_factory=list)  # of w.check
    undecided: list[Any] = field(default_factory=list)  # variables for a debugger that have no layout yet
    around: Any = None  # what the kernel's function reads that isn't made in it
    regions: list[Any] = field(default_factory=list)  # of the loops and branches around what is built
    fixed: dict[int, tuple[object, str, Any, Any]] = field(default_factory=dict)  # objects that can't change
    _entered: list[_Entered] = field(default_factory=list)
    _loops: list[list[Held]] = field(default_factory=lambda: [[]])
    _anchor: ir.OpView | None = None  # the barrier before the first role

    @property
    def threads(self) -> int:
        """The threads of a CTA."""
        return self.cta_threads or max(self.warpgroups, 1) * WARPGROUP

    @property
    def loops(self) -> int:
        """How many loops of the GPU are around what is built."""
        return len(self._loops) - 1

    def sums(self, shape: tuple[int, ...]) -> Layout:
        """The layout of the sums of products of this shape, and of vectors of their rows."""
        if self.multiplier.rows_in_threads and shape[0] % registers.LANE_ROWS == 0:
            return registers.rows_in_threads(shape)
        return registers.sums(shape, self.multiplier.row_block)

    def meet(self) -> None:
        """Notes that all threads of a warpgroup wait for each other in what is built now."""
        self.meetings.append(ir.InsertionPoint.current.block)

    def met_since(self, count: int) -> bool:
        """Whether all threads of a warpgroup waited for each other after the first `count` meetings, in the
        code that is built now, not in a branch or a loop in it.
        """
        here = ir.InsertionPoint.current.block
        return any(each == here for each in self.meetings[count:])

    @property
    def alike(self) -> bool:
        """Whether all warpgroups of a role certainly execute what is built now, equally often."""
        return all(each.alike is not False for each in self._entered)

    @property
    def in_branch(self) -> bool:
        """Whether what is built now is in a branch of the GPU, or a condition."""
        return any(not each.is_loop and each.alike is not None for each in self._entered)

    @property
    def has_tma(self) -> bool:
        """Whether the chip has TMA. If not, `cp.async` of all threads of a warpgroup copies."""
        return self.chip in TMA

    def needs_all_threads(self) -> None:
        """Notes what all threads of a warpgroup do in `w.one_thread()` on chips without TMA."""
        if self.single is not None:
            self.single.whole = True

    # Regions

    def enter(self, block: ir.Block, *, loop: bool = False, alike: bool | None = None) -> ir.InsertionPoint:
        """Builds in a block from now on, until `leave`. `alike`, of a loop or branch, if all warpgroups run
        it equally often.
        """
        point = ir.InsertionPoint(block)
        point.__enter__()
        self._entered.append(_Entered(point, callers.here(), loop, alike))
        if loop:
            self._loops.append([])
        return point

    def leave(self, point: ir.InsertionPoint) -> None:
        """Builds again where it did before `enter` returned this point."""
        if not self._entered or self._entered[-1].point is not point:
            raise self._unfinished()
        self._leave_last()

    def _unfinished(self) -> WeftError:
        where = self._entered[-1].where if self._entered else callers.here()
        return WeftError(Diagnostic(_UNFINISHED, where))

    def _leave_last(self) -> None:
        left = self._entered.pop()
        left.point.__exit__(None, None, None)
        if left.is_loop:
            self._loops.pop()

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """After an error in the block, leaves the regions that it entered."""
        depth = self.depth
        try:
            yield
            if self.depth != depth:
                raise self._unfinished()
        except BaseException:
            while self.depth > depth:
                self._leave_last()
            raise

    @contextmanager
    def at_entry(self) -> Iterator[None]:
        """In the block, operations are built at the kernel's beginning."""
        with ir.InsertionPoint.at_block_begin(self.function.body.blocks[0]):
            yield

    def scratch_buffer(self, key: object, kind: Callable[[], ir.Type]) -> ir.Value:
        """The shared memory of a purpose, of this type where there is none yet."""
        if key not in self.scratch:
            with self.at_entry():
                self.scratch[key] = tile.alloc(kind())
        return self.scratch[key]

    @contextmanager
    def before_roles(self) -> Iterator[None]:
        """In the block, operations are built before the barrier that precedes the first role."""
        with ir.InsertionPoint(self._anchor):
            yield

    @contextmanager
    def before_barriers(self) -> Iterator[None]:
        """In the block, buffers are allocated before the barriers of rings: between barriers and a swizzled
        buffer, memory would be lost.
        """
        if self.first_barriers is None:
            yield
            return
        with ir.InsertionPoint(self.first_barriers):
            yield

    def check_before_roles(self, subject: str) -> None:
        """Raises WeftError in a loop, branch or role, or after the first one."""
        if self._anchor is not None or self._entered or self.role:
            raise mistake(f"{subject} must be made before the first role, outside of loops and branches")

    def check_whole(self, subject: str) -> None:
        """Raises WeftError in the block of one thread, for what whole warpgroups execute."""
        if self.one_thread:
            raise mistake(f"{subject} must be executed by whole warpgroups, so it can't be in w.one_thread()")

    def check_warpgroups(self, subject: str) -> None:
        """Raises WeftError for what each warpgroup has, where a CTA without roles has other threads."""
        if self.role is None and not self.one_thread and self.threads % WARPGROUP:
            vector = f"v = w.load(x[i, j], {4 * self.threads}) or w.zeros({4 * self.threads}, like=v)"
            raise mistake(
                f"{subject} must be executed by whole warpgroups, and threads={self.threads} is no multiple "
                f"of {WARPGROUP}: use one, or a flat vector, {vector}, or single elements x[i, j]"
            )

    def check_whole_in_role(self, subject: str) -> Role:
        """The role. Raises WeftError where it isn't one that whole warpgroups execute."""
        self.check_whole(subject)
        if self.role is None:
            raise mistake(f"{subject} must be in a role, executed by whole warpgroups")
        return self.role

    def check_whole_warps(self, subject: str) -> None:
        """Raises WeftError in the block of one thread."""
        if self.one_thread:
            raise mistake(f"{subject} must be executed by all threads, so it can't be in w.one_thread()")

    def threads_without_roles(self) -> int:
        """The threads of a CTA outside of roles. Raises WeftError where roles add others."""
        if self.roles:
            raise mistake("a reduction of all threads must be in a role, in a kernel that has roles")
        self.cta_threads = self.threads
        return self.cta_threads

    def named_barriers(self, count: int) -> int:
        """The first of `count` named barriers that nothing else uses."""
        first, self.barriers = self.barriers, self.barriers + count
        if self.barriers > BARRIERS:
            raise mistake(f"a CTA has {BARRIERS} barriers, got {self.barriers} with these")
        return first

    def begin_roles(self) -> None:
        """Before the first role: all threads wait until the rings are there."""
        if self._anchor is None:
            self._anchor = gpu.barrier()
            if any(ring.is_shared for ring in self.rings):
                begin_cluster()
            if self.dependent:
                self._await_earlier_work()
            self.multiplier.begin()

    def finish_waiting(self) -> None:
        """In a dependent kernel without roles, waits for earlier work at the beginning."""
        if self.dependent and self._anchor is None:
            with self.at_entry():
                self._await_earlier_work()

    def _await_earlier_work(self) -> None:
        """Waits for the launch before, and lets the next one begin, which waits for this one."""
        if self.precedes_early:
            nvvm.GriddepcontrolOp(nvvm.GridDepActionKind.launch_dependents)
        await_previous_launch()
        if not self.precedes_early:
            nvvm.GriddepcontrolOp(nvvm.GridDepActionKind.launch_dependents)

    # What loops and branches carry beside names

    def positions(self) -> list[ir.Value]:
        """The positions in all rings."""
        return [each for ring in self.rings for each in (*ring.filled, *ring.taken)]

    def operations(self) -> list[list[Any]]:
        """The lists of operations that are visited again after they were built."""
        return [self.removable, *([] if self.single is None else [self.single.changes])]

    @property
    def depth(self) -> int:
        """How many regions around what is built now have been entered."""
        return len(self._entered)

    def restore(self, positions: Iterable[ir.Value]) -> None:
        """Sets the positions in all rings."""
        rest = iter(positions)
        for ring in self.rings:
            ring.filled = tuple(next(rest) for _ in ring.filled)
            ring.taken = tuple(next(rest) for _ in ring.taken)

    def holds(self, slot: Held) -> None:
        """Notes a stage that the innermost loop has to release."""
        self._loops[-1].append(slot)

    def check_released(self) -> None:
        """Raises WeftError for a stage that was taken in the innermost loop and isn't released there."""
        for slot in self._loops[-1]:
            if slot.held:
                raise WeftError(Diagnostic(_NEVER_RELEASED.format(slot.ring.name), slot.where))


_NEVER_RELEASED = (
    "a stage of ring '{}' is taken in a loop and never released, so the ring would fill up: call its "
    "release(), or write 'with ring.take() as stage'"
)


def current() -> Trace:
    """The trace of the running code. Raises WeftError outside of a kernel."""
    trace: Trace | None = tracing_state.CURRENT.get()
    if trace is None:
        raise mistake("this can be called in a kernel only, while it is traced")
    return trace


@contextmanager
def tracing(trace: Trace) -> Iterator[Trace]:
    """In the block, `current` returns this trace."""
    token = tracing_state.CURRENT.set(trace)
    try:
        with trace.guarded():
            yield trace
    finally:
        tracing_state.CURRENT.reset(token)
