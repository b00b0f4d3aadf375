"""The positions of rings after a block that only one thread of each warpgroup runs."""

from collections.abc import Iterator
from contextlib import contextmanager

from weft.language import carried, trace
from weft.mlir import ir, scf
from weft.passes.builders import thread_ids


@contextmanager
def of_one_thread(warp: int) -> Iterator[None]:
    """In the block, builds for one thread of each warpgroup, of the warp with this number. After it, this
    thread has the positions of rings that the block has reached; others have those from before.
    """
    current = trace.current()
    before = carried.parts(current.state())
    with thread_ids.one_thread(warp):
        elected = ir.InsertionPoint.current.block.owner
        yield
        after = carried.parts(current.state())
    changed = [n for n, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    if not changed:
        return
    old, new = [before[n] for n in changed], [after[n] for n in changed]
    chosen = elected.operation.parent
    results = with_results(chosen, with_results(elected, new, old), old)
    for n, result in zip(changed, results, strict=True):
        before[n] = result
    current.restore(carried.rebuilt(current.state(), iter(before)))


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
