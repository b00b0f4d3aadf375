"""`--lower-roles`: what some warpgroups or warps do becomes a branch on their number. Warpgroups get as many
registers as their role needs (`setmaxnreg`).
"""

from weft.dialects.tile_roles import RoleOp
from weft.isa.chips import LANES, WARPGROUP, register_share
from weft.mlir import arith, ir, nvvm, operations, scf
from weft.passes.analysis import uniformity
from weft.passes.analysis.uniformity import Scope
from weft.passes.builders import emit, thread_ids
from weft.passes.registry.pass_ import Pass


def run(module: ir.Operation) -> None:
    """Lowers every role."""
    for op in operations(module, RoleOp):
        uniformity.require(op, Scope.WARP if op.by_warps else Scope.WARPGROUP)
        with ir.InsertionPoint(op), op.location:
            number = emit.sub(
                emit.uniform(emit.div(emit.thread(), LANES if op.by_warps else WARPGROUP)), op.first.value
            )
            in_role = arith.cmpi(arith.CmpIPredicate.ult, emit.value(number), emit.value(op.count))
            branch = scf.IfOp(in_role)
            with ir.InsertionPoint(branch.then_block):
                if registers := op.attribute("registers"):
                    # A kernel starts with an equal share of the registers for each of its threads.
                    share = register_share(thread_ids.threads_of(op))
                    action = "decrease" if registers < share else "increase"
                    nvvm.SetMaxRegisterOp(registers, nvvm.SetMaxRegisterAction[action])
                end = scf.YieldOp([])
            body = op.operation.regions[0].blocks[0]
            body.arguments[0].replace_all_uses_with(emit.value(number))
            for inner in list(body.operations):
                inner.operation.move_before(end.operation)
        op.operation.erase()


LOWER_ROLES = Pass(
    "lower-roles", "lower the roles of warpgroups and warps to branches", run, lowers=(RoleOp,)
)
