"""Blocks of `w.one_thread` on chips without TMA. One thread of a warpgroup executes a block, but all of its
threads execute one that fills a ring, since all of them copy: of these, one changes memory.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from weft.dialects import tile
from weft.dialects.tile import BufferType
from weft.isa.chips import LANES, WARPGROUP
from weft.language import positions, trace
from weft.mlir import ir, llvm, scf
from weft.passes.analysis.uniformity import SAME_IN_A_WARPGROUP
from weft.passes.builders import addresses, emit

_LOADS = ("memref.load", "llvm.load")


@contextmanager
def block(warp: int, meet: Callable[[], None]) -> Iterator[None]:
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


def once(change: Callable[[], Any]) -> Any:
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
    (known,) = positions.with_results(branch, [result], [zero])
    single.changes.append(known.owner.opview)
    return known


def _execute_whole(branch: ir.OpView, single: trace.Single, meet: Callable[[], None]) -> None:
    """Lets all threads of the warpgroup execute a block. Where they read memory, or the result of a change,
    they meet before and after each change, so that all of them read the same.
    """
    built = [each.operation for each in branch.then_block.operations][:-1]
    reads = list[Any]()

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
            places = [_place(each.type) for each in results]
        values = change.then_block.operations[len(change.then_block.operations) - 1].operands
        for value, place in zip(values, places, strict=False):
            with ir.InsertionPoint.at_block_terminator(change.then_block):
                llvm.store(emit.bits(value, addresses.stored_type(value.type)), place)
        with ir.InsertionPoint.after(change):
            meet()
            for result, place in zip(results, places, strict=True):
                loaded = llvm.load(addresses.stored_type(result.type), place)
                loaded.owner.attributes[SAME_IN_A_WARPGROUP] = ir.UnitAttr.get()
                result.replace_all_uses_with(emit.bits(loaded, result.type))


def _place(kind: ir.Type) -> ir.Value:
    """The address in shared memory by which the thread passes a result of this type on."""
    current = trace.current()
    role = current.role
    assert role is not None
    stored = addresses.stored_type(kind)
    key = "result", role.first, str(stored)
    if key not in current.scratch:
        with current.at_entry():
            layout = f"S[({role.warpgroups},1,1):(1,1,1)]"
            current.scratch[key] = tile.alloc(BufferType.of((role.warpgroups, 1, 1), stored, layout))
    return tile.address(tile.stage(current.scratch[key], role.number))
