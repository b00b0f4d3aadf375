"""Whether a condition is true in any thread of a warp, or of those that meet at a barrier."""

from weft.mlir import ir, llvm, nvvm
from weft.passes.analysis.uniformity import SAME_IN_A_WARPGROUP
from weft.passes.builders import emit

BARRIER_OR = "llvm.nvvm.barrier.cta.red.or.aligned.count"
_OPERANDS = ["i32", "i32", "i1"]  # the barrier's number, the threads that meet at it, and the condition


def in_warp(condition: ir.Value) -> ir.Value:
    """An i1, the same in all lanes, from one of each lane."""
    return nvvm.vote_sync(emit.value(-1), condition, nvvm.VoteSyncKind.any, results=[emit.i1()])


def in_warpgroup(barrier: ir.Value, threads: int, condition: ir.Value) -> ir.Value:
    """An i1, the same in all threads of a warpgroup, which meet at a barrier of their own."""
    operands = [emit.value(barrier), emit.value(threads), condition]
    # The vote in the warp changes nothing, but without it ptxas handles the result as a value of each lane.
    found = in_warp(llvm.call_intrinsic(emit.i1(), BARRIER_OR, operands, [], []))
    found.owner.attributes[SAME_IN_A_WARPGROUP] = ir.UnitAttr.get()
    return found


def is_own_call(call: ir.OpView) -> bool:
    """Whether a call of an intrinsic is as `in_warpgroup` writes it, which LLVM always translates."""
    operation = call.operation
    kinds = [str(each.type) for each in operation.operands]
    results = [str(each.type) for each in operation.results]
    return bool(call.intrin.value == BARRIER_OR) and kinds == _OPERANDS and results == ["i1"]
