"""`--select-schedule="chip=… rows=…"`: gives every `tile.matmul` that has none a schedule for the chip.

With `rows=any` it is one that takes rows of any alignment, in the place of one that doesn't.
"""

from typing import Any

from weft.dialects.op import refuse
from weft.dialects.schedule import AnySchedule, Schedule, WarpgroupSchedule, needed_chips
from weft.dialects.tile import MatmulOp
from weft.errors import WeftError
from weft.isa.chips import describe
from weft.mlir import operations
from weft.passes.registry.pass_ import Pass
from weft.schedules import choice
from weft.target import Target

ROWS = ("aligned", "any")  # of the matrices: at multiples of 16 bytes, or anywhere
# The first that fits the chip's shared memory is taken. The last fits every chip.
SCHEDULES = (
    Schedule((128, 256, 64), (2, 4), 3),
    Schedule((128, 128, 32), (2, 2), 4),
)
_UNKNOWN = 4096  # what a size is taken for that the types leave open
# For products known to be smaller than those blocks.
SMALL = Schedule((64, 64, 64), (2, 2), 3)


def select(op: MatmulOp, target: Target) -> AnySchedule:
    """The schedule for one product on one chip."""
    if target.chip.name in WarpgroupSchedule.chips(op.types):
        if any(op.types.transposed) and op.types.input_bytes != 2:
            what = f"expects A and B with K inside, as wgmma reads {op.types.a}"
            raise refuse(op, f"{what}, got one with K outside")
        m, n, k = (known or _UNKNOWN for known in op.static_mnk)
        return choice.choose(m, n, k, op.types, target.chip.name)
    return select_for_any_rows(op, target)


def select_for_any_rows(op: MatmulOp, target: Target) -> Schedule:
    """The schedule of `mma.sync`, which takes rows of any alignment."""
    m, n, _ = op.static_mnk
    if m and n and (m < 128 or n < 128):
        return SMALL
    return next(s for s in SCHEDULES if s.complaint(op.types, target) is None)


def run(module: Any, chip: str, rows: str) -> None:
    """Adds the `schedule` attribute; a schedule that is there already is kept, if it fits the chip and the
    rows.
    """
    if rows not in ROWS:
        raise WeftError(f"--select-schedule: rows is one of {', '.join(ROWS)}, got '{rows}'")
    target = Target.of(chip)
    for op in operations(module, MatmulOp):
        needed = needed_chips(op.types) if rows == "aligned" else Schedule.chips(op.types)
        if not needed:
            what = "groups" if op.types.grouped else f"elements of {op.types.a}"
            wide = ", and of D in f32 or i32 at multiples of two elements"
            raise refuse(op, f"takes rows at multiples of 16 bytes alone, with {what}{wide}")
        if chip not in needed:
            raise refuse(op, f"has no schedule for {chip}: it needs {describe(needed)}")
        if op.schedule is None or (rows == "any" and not isinstance(op.schedule, Schedule)):
            chosen = select(op, target) if rows == "aligned" else select_for_any_rows(op, target)
            op.operation.attributes["schedule"] = chosen.attribute()
        elif found := op.schedule.complaint(op.types, target):
            raise refuse(op, found)


SELECT_SCHEDULE = Pass(
    "select-schedule",
    "choose how each tile.matmul is laid over the chip",
    run,
    {"chip": "sm_80", "rows": "aligned"},
)
