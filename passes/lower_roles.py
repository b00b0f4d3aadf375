"""`--lower-roles`: what some warpgroups do becomes a branch on the warpgroup's number, with as many registers
as the role needs (`setmaxnreg`).
"""

from typing import Any

from weft.dialects.op import refuse
from weft.dialects.tile_async import RoleOp
from weft.isa.chips import WARPGROUP, register_share
from weft.mlir import arith, ir, nvvm, operations, scf
from weft.passes.analysis import uniformity
from weft.passes.analysis.uniformity import Scope
from weft.passes.builders import emit, places
from weft.passes.registry.pass_ import Pass


def run(module: Any) -> None:
    """Lowers every role."""
    for op in operations(module, RoleOp):
        uniformity.require(op, Scope.WARPGROUP)
        threads = places.threads_of(op)
        first, count = op.first.value, op.warpgroups.value
        if threads < (first + count) * WARPGROUP:
            raise refuse(op, f"expects {first + count} warpgroups, got a block of {threads} threads")
        with ir.InsertionPoint(op), op.location:
            _branch(op, threads)
        op.operation.erase()


def _branch(op: RoleOp, threads: int) -> None:
    number = emit.sub(emit.uniform(emit.div(emit.thread(), WARPGROUP)), op.first.value)
    inside = arith.cmpi(arith.CmpIPredicate.ult, emit.value(number), emit.value(op.warpgroups.value))
    branch = scf.IfOp(inside)
    with ir.InsertionPoint(branch.then_block):
        if registers := op.registers.value:
            _give(registers, threads)
        end = scf.YieldOp([])
    body = op.operation.regions[0].blocks[0]
    body.arguments[0].replace_all_uses_with(emit.value(number))
    for inner in list(body.operations):
        inner.operation.move_before(end.operation)


def _give(registers: int, threads: int) -> None:
    """A kernel starts with an equal share of the registers for each of its threads."""
    action = "decrease" if registers < register_share(threads) else "increase"
    nvvm.SetMaxRegisterOp(registers, nvvm.SetMaxRegisterAction[action])


LOWER_ROLES = Pass("lower-roles", "lower the roles of warpgroups to branches", run, lowers=(RoleOp,))
