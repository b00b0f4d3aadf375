"""`--select-schedule{chip=…}`: gives every `tile.matmul` that has none a schedule for the chip."""

from typing import Any

from weft.dialects.op import refuse
from weft.dialects.schedule import Schedule, needed_chips
from weft.dialects.tile import MatmulOp
from weft.isa.chips import describe
from weft.mlir import operations
from weft.passes.pass_ import Pass
from weft.target import Target

# The first that fits the chip's shared memory is taken. The last fits every chip.
SCHEDULES = (
    Schedule((128, 256, 64), (2, 4), 3),
    Schedule((128, 128, 32), (2, 2), 4),
)
# For products known to be smaller than those blocks.
SMALL = Schedule((64, 64, 64), (2, 2), 3)


def select(op: MatmulOp, target: Target) -> Schedule:
    """The schedule for one product on one chip."""
    m, n, _ = op.static_mnk
    if m and n and (m < 128 or n < 128):
        return SMALL
    return next(s for s in SCHEDULES if s.complaint(target) is None)


def run(module: Any, chip: str) -> None:
    """Adds the `schedule` attribute; a schedule that is there already is kept, if it fits the chip."""
    target = Target.of(chip)
    for op in operations(module, MatmulOp):
        needed = needed_chips(str(op.a.type.element_type))
        if chip not in needed:
            raise refuse(op, f"has no schedule for {chip}: it needs {describe(needed)}")
        if op.schedule is None:
            op.operation.attributes["schedule"] = select(op, target).attribute()
        elif found := op.schedule.complaint(target):
            raise refuse(op, found)


SELECT_SCHEDULE = Pass(
    "select-schedule", "choose how each tile.matmul is laid over the chip", run, {"chip": "sm_80"}
)
