"""Roles of the warpgroups of a CTA, single threads, barriers and turns."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from numbers import Integral
from typing import Any

from weft.dialects import tile
from weft.dialects.tile import BufferType
from weft.errors import shown
from weft.ir import callers
from weft.isa.chips import LANES, WARPGROUP, WARPS, describe
from weft.isa.launch_limits import MOST_THREADS
from weft.isa.register_counts import COUNTS, SETMAXNREG
from weft.isa.tcgen05.mma_rows import MMA
from weft.isa.tcgen05.pairs import PAIR
from weft.language.capture import trace
from weft.language.capture.trace import Role, Trace
from weft.language.messages.mistakes import mistake
from weft.language.values.dtypes import i32
from weft.language.values.scalars import Scalar, as_scalar
from weft.mlir import gpu, ir, llvm, nvvm, scf
from weft.passes.analysis.uniformity import SAME_IN_A_WARPGROUP
from weft.passes.builders import addresses, emit, thread_ids


@contextmanager
def elected_block(warp: int, pair: bool) -> Iterator[None]:
    """In the block, builds for one thread of each warpgroup, of the warp with this number, or with `pair` of
    CTAs that lead a pair. After it, this thread has the positions of rings that the block has reached; others
    have those from before.
    """
    current = trace.current()
    before = current.positions()
    with thread_ids.leader() if pair else nullcontext(), thread_ids.one_thread(warp):
        elected = ir.InsertionPoint.current.block.owner
        yield
        after = current.positions()
    if current.beside_leader:
        with emit.when(emit.negate(thread_ids.leads_pair())), thread_ids.one_thread(warp):
            for build in current.beside_leader:
                build()
        current.beside_leader = []
    changed = [n for n, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    if not changed:
        return
    old, new = [before[n] for n in changed], [after[n] for n in changed]
    results, chosen = new, elected.operation
    for _ in range(3 if pair else 2):
        outer = chosen.parent
        results, chosen = with_results(chosen, results, old), outer
    for n, result in zip(changed, results, strict=True):
        before[n] = result
    current.restore(before)


def with_results(branch: ir.Operation, then: list[ir.Value], otherwise: list[ir.Value]) -> list[ir.Value]:
    """The results of a branch, rebuilt to have the values of `then` at its end, or those of `otherwise`."""
    op = branch.operation
    with ir.InsertionPoint(op):
        new = ir.Operation.create(
            op.name, [each.type for each in then], list(op.operands), regions=2, loc=op.location
        )
    (block,) = op.regions[0].blocks
    block.operations[len(block.operations) - 1].operation.erase()
    block.append_to(new.regions[0])
    for values, each in ((then, block), (otherwise, new.regions[1].blocks.append())):
        with ir.InsertionPoint(each), op.location:
            scf.yield_(values)
    op.erase()
    return list(new.results)


_LOADS = ("memref.load", "llvm.load")


@contextmanager
def whole_block(warp: int, meet: Callable[[], None]) -> Iterator[None]:
    """In the block, builds for one thread of each warpgroup, of the warp with this number. `meet` builds a
    barrier of the warpgroup.
    """
    current = trace.current()
    only = emit.equal(emit.rem(emit.thread(), WARPGROUP), warp * LANES)
    branch = scf.IfOp(only)
    current.single = single = trace.Single(only)
    try:
        with ir.InsertionPoint(branch.then_block):
            yield
            scf.yield_([])
    finally:
        current.single = None
    if single.whole:
        _execute_whole(branch, single, meet)


def once(change: Callable[[], object]) -> Any:
    """Changes memory, by one thread in `w.one_thread`. Returns the result of `change`, if it has one."""
    single = trace.current().single
    if single is None:
        return change()
    branch = scf.IfOp(single.only)
    with ir.InsertionPoint(branch.then_block):
        result = change()
        scf.yield_([])
    if not isinstance(result, ir.Value):
        single.changes.append(branch)
        return None
    with ir.InsertionPoint(branch):
        zero = emit.constant(result.type, 0)
    (chosen,) = with_results(branch, [result], [zero])
    single.changes.append(chosen.owner.opview)
    return chosen


def _execute_whole(branch: ir.OpView, single: trace.Single, meet: Callable[[], None]) -> None:
    """Lets all threads of the warpgroup execute a block. Where they read memory, or the result of a change,
    they meet before and after each change, so that all of them read the same.
    """
    built = [each.operation for each in branch.then_block.operations][:-1]
    reads = list[ir.OpView]()

    def note(op: ir.Operation) -> ir.WalkResult:
        if op.name in _LOADS and list(op.results[0].uses):
            reads.append(op)
        return ir.WalkResult.ADVANCE

    for op in built:
        op.walk(note)
        op.move_before(branch.operation)
    branch.operation.erase()
    for change in single.changes:
        results = [each for each in change.results if list(each.uses)]
        if not reads and not results:
            continue
        with ir.InsertionPoint(change):
            meet()
            addresses_ = [_place(each.type) for each in results]
        values = change.then_block.operations[len(change.then_block.operations) - 1].operands
        for value, address in zip(values, addresses_, strict=False):
            with ir.InsertionPoint.at_block_terminator(change.then_block):
                llvm.store(emit.bits(value, addresses.stored_type(value.type)), address)
        with ir.InsertionPoint.after(change):
            meet()
            for result, address in zip(results, addresses_, strict=True):
                loaded = llvm.load(addresses.stored_type(result.type), address)
                loaded.owner.attributes[SAME_IN_A_WARPGROUP] = ir.UnitAttr.get()
                result.replace_all_uses_with(emit.bits(loaded, result.type))


def _place(kind: ir.Type) -> ir.Value:
    """The address in shared memory by which the thread passes a result of this type on."""
    current = trace.current()
    role = current.role
    assert role is not None
    stored = addresses.stored_type(kind)
    key = "result", role.first, str(stored)
    layout, shape = f"S[({role.warpgroups},1,1):(1,1,1)]", (role.warpgroups, 1, 1)
    buffer = current.scratch_buffer(key, lambda: BufferType.of(shape, stored, layout))
    return tile.address(tile.stage(buffer, role.number))


@contextmanager
def role(*, warpgroups: int = 1, registers: int = 0) -> Iterator[Scalar]:
    """The code of the next `warpgroups` warpgroups of the CTA. `as me` is the number of the warpgroup, from 0
    on.

    `registers` is the number of registers of each thread. A role that copies needs few, and leaves more to
    roles that multiply. Chips without `setmaxnreg` give all threads an equal share.
    """
    current = trace.current()
    if current.role is not None:
        raise mistake("a role can't be inside another one")
    if current.loops or current.in_branch:
        raise mistake("a role can't be in a loop or branch of the GPU: put the loop or branch into the role")
    most = MOST_THREADS // WARPGROUP
    if type(warpgroups) is not int or not 1 <= warpgroups <= most:
        raise mistake(f"warpgroups of a role must be in 1..{most}, got {shown(warpgroups)}")
    if current.warpgroups + warpgroups > most:
        raise mistake(
            f"warpgroups of all roles must be at most {most}, got {warpgroups} after {current.warpgroups}"
        )
    if registers and registers not in COUNTS:
        raise mistake(
            f"registers must be 0 or a multiple of {COUNTS.step} in {COUNTS[0]}..{COUNTS[-1]}, got "
            f"{shown(registers)}"
        )
    if current.cta_threads is not None:
        raise mistake(
            "a kernel with threads=, or with a reduction of all threads outside of roles, has no roles: the "
            "roles are its threads"
        )
    if current.chip not in SETMAXNREG:
        registers = 0
    current.begin_roles()
    first, current.warpgroups = current.warpgroups, current.warpgroups + warpgroups
    with tile.role(first, warpgroups, registers=registers) as number:
        current.role = Role(first, warpgroups, registers, number, callers.here())
        current.roles.append(current.role)
        for each in current.rings:
            each.begin()
        try:
            with current.guarded():
                yield Scalar(number)
            for finish in current.role.finish:
                finish()
            _drain(current)
        finally:
            current.role = None


@contextmanager
def one_thread(warp: int = 0, *, pair: bool = False) -> Iterator[None]:
    """In the block, one thread of each warpgroup of the role runs. It is always the same thread, of the warp
    with this number. Blocks of different warps run at the same time. A role may have several blocks, also in
    loops and branches; in each of them, the thread goes on in the rings that it fills or takes from.

    With `pair`, in a kernel of pairs, the thread is that of the leader, the CTA of even rank. It starts the
    products of both CTAs. Each has its own rows of A and of the sums, and half of the columns of B. A stage
    that the thread takes is full, and one that it writes is empty, in both CTAs.

    On chips without TMA, all threads of the warpgroup execute a block that fills a ring, one block after the
    other, and one of them changes memory there.
    """
    current = trace.current()
    if type(warp) is not int or warp not in range(WARPS):
        raise mistake(f"warp must be in 0..{WARPS - 1}, got {shown(warp)}")
    if current.one_thread:
        yield
        return
    if pair and current.cta_group != PAIR:
        raise mistake("pair is for a kernel of pairs: write @w.kernel(cluster=2, pairs=True, …)")
    if pair and current.chip not in MMA.chips():
        needed = describe(MMA.chips())
        raise mistake(f"products of pairs need {needed}, got {current.chip}: leave out pair=True")
    alone = elected_block(warp, pair) if current.has_tma else whole_block(warp, warpgroup_barrier)
    with alone:
        current.one_thread, current.warp, current.leads = True, warp, pair
        try:
            with current.guarded():
                yield
        finally:
            current.one_thread, current.warp, current.leads = False, 0, False


def _drain(current: Trace) -> None:
    """At the end of a role, the threads that fill shared rings wait until other CTAs have released stages,
    and those that release stages by products until these are complete: nothing may signal an mbarrier of a
    CTA that has ended. Before, the role may do what other CTAs wait for.
    """
    for warp in range(WARPS):
        if rings := [ring for ring in current.rings if ring.drainer == (current.role, warp)]:
            with thread_ids.one_thread(warp):
                for ring in rings:
                    ring.drain()


def barrier() -> None:
    """A barrier for all threads of the role; outside of roles, for all threads of the CTA."""
    role_ = _of_all_threads()
    if role_ is None:
        gpu.barrier()
        return
    if role_.common_barrier is None:
        role_.common_barrier = trace.current().named_barriers(1)
    meet(role_.common_barrier, role_.threads)


def warpgroup_barrier() -> None:
    """A barrier for the threads of each warpgroup of the role."""
    role_ = _of_all_threads()
    if role_ is None:
        raise mistake("w.warpgroup_barrier must be in a role")
    meet(own_barrier(role_), WARPGROUP)


def _of_all_threads() -> Role | None:
    """The role of a barrier that is made now."""
    if trace.current().one_thread:
        raise mistake("a barrier waits for all threads, so it can't be in w.one_thread()")
    return trace.current().role


def own_barrier(role_: Role) -> ir.Value:
    """The number of the barrier of each warpgroup of a role."""
    if role_.own_barriers is None:
        role_.own_barriers = trace.current().named_barriers(role_.warpgroups)
    return emit.add(role_.number, role_.own_barriers)


def meet(identity: ir.Value | int, threads: int) -> ir.OpView:
    """Waits at a named barrier until this number of threads has arrived. Returns the operation."""
    trace.current().meet()
    return nvvm.BarrierOp(barrierId=emit.value(identity), numberOfThreads=emit.value(threads))


class Turns:
    """Warpgroups of a role that take turns: each waits for its own, and gives it to the next."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.first = trace.current().named_barriers(count)
        self._role: Role | None = None

    def wait(self, me: object) -> None:
        """Waits until it is the turn of warpgroup `me`."""
        self._begin()
        meet(emit.add(as_scalar(me, i32).value, self.first), 2 * WARPGROUP)

    def give(self, me: Scalar) -> None:
        """Gives the turn to the warpgroup after `me`; does not wait."""
        self._begin()
        following = emit.add(as_scalar(me, i32).value, 1)
        self._arrive(emit.select(emit.equal(following, self.count), 0, following))

    def _arrive(self, number: ir.Value | int) -> None:
        identity = emit.value(emit.add(number, self.first))
        nvvm.BarrierArriveOp(emit.value(2 * WARPGROUP), barrierId=identity)

    def _begin(self) -> None:
        """At the role's beginning the last warpgroup gives the first turn; at its end the first takes it."""
        role_ = _of_all_threads()
        if role_ is None or role_.warpgroups != self.count:
            raise mistake(f"these turns are for a role of {self.count} warpgroups")
        if self._role is role_:
            return
        if self._role is not None:
            raise mistake("turns are for one role: make others for this one")
        self._role = role_
        begin = ir.InsertionPoint.at_block_begin(role_.number.owner)
        with begin, emit.when(emit.equal(role_.number, self.count - 1)):
            self._arrive(0)
        role_.finish.append(self._end)

    def _end(self) -> None:
        assert self._role is not None
        with emit.when(emit.equal(self._role.number, 0)):
            meet(self.first, 2 * WARPGROUP)


def turns(count: int) -> Turns:
    """Lets `count` warpgroups execute a section of code one after the other. Create it before the first role.
    Every warpgroup must give its turn as often as it waits, and as often as the others.
    """
    trace.current().check_before_roles("turns")
    if not isinstance(count, int) or count < 2:
        raise mistake(f"turns are for at least 2 warpgroups, got {shown(count)}")
    return Turns(count)


def cta(axis: int = 0) -> Scalar:
    """The number of the CTA in the grid, along an axis."""
    return Scalar(emit.as_i32(gpu.block_id(_dimension(axis))))


def ctas(axis: int = 0) -> Scalar:
    """The number of CTAs of the grid, along an axis."""
    trace.current().counts_ctas = True
    return Scalar(emit.as_i32(gpu.grid_dim(_dimension(axis))))


def last(axis: int = 0) -> Scalar:
    """The number of the last CTA along an axis."""
    return Scalar(emit.sub(ctas(axis).value, 1))


def thread() -> Scalar:
    """The number of the thread in its CTA, or in its role's warpgroups."""
    current = trace.current()
    number, role_ = emit.thread(), current.role
    if role_ is None:
        return Scalar(number)
    if current.single is not None:  # as all threads of the warpgroup may execute what follows
        return Scalar(emit.add(emit.mul(role_.number, WARPGROUP), current.warp * LANES))
    return Scalar(emit.sub(number, role_.first * WARPGROUP))


def _dimension(axis: object) -> gpu.Dimension:
    trace.current()
    if not isinstance(axis, Integral) or axis not in (0, 1, 2):
        raise mistake(f"axis must be 0, 1 or 2, got {shown(axis)}")
    return gpu.Dimension((gpu.Dimension.x, gpu.Dimension.y, gpu.Dimension.z)[axis])
