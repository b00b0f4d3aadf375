"""`--select-schedule="chip=… rows=… family=…"`: gives a chip's schedule to each `tile.matmul` that has none.

With `rows=any`, the schedule takes rows of any alignment; it replaces one that doesn't. `family` names the
instructions that are chosen from, such as mma or wgmma; with `any`, all. Existing schedules are kept whatever
their family.
"""

from weft.dialects.op import refuse
from weft.dialects.schedule.families import families_named
from weft.dialects.schedule.nearest import refusal
from weft.dialects.tile import MatmulOp
from weft.dialects.tile_matmul_checks import conversion_complaint
from weft.errors import WeftError
from weft.mlir import ir
from weft.passes.kernels.short_forms import products
from weft.passes.registry import remarks
from weft.passes.registry.pass_ import Pass
from weft.schedules import choice
from weft.target import Target

ROWS = ("aligned", "any")  # of the matrices: at multiples of 16 bytes, or anywhere


def run(module: ir.Operation, chip: str, rows: str, family: str) -> None:
    """Adds the attribute `schedule`. An existing schedule is kept if it fits the chip and the rows. Raises
    WeftError where no schedule is legal.
    """
    if rows not in ROWS:
        raise WeftError(f"--select-schedule: rows must be {' or '.join(ROWS)}, got '{rows}'")
    name = "" if family == "any" else family
    try:
        families_named(name)
    except WeftError as error:
        raise WeftError(f"--select-schedule: {error.diagnostics[0].message}") from None
    target = Target.of(chip)
    for op in products(module):
        _select(op, target, any_rows=rows == "any", family=name)


def _select(op: MatmulOp, target: Target, *, any_rows: bool, family: str) -> None:
    chip, types, named = target.chip.name, op.types, op.schedule
    if complaint := choice.complaint(types, chip, any_rows=any_rows) or conversion_complaint(op, target):
        raise refuse(op, complaint)
    if named is not None and (named.takes_any_rows or not any_rows):
        if complaint := refusal(named, types, target):
            raise refuse(op, complaint)
        return
    try:
        chosen = choice.choose(
            *op.static_mnk, types, chip, any_rows=any_rows, family=family, registers=op.needs.registers
        )
    except WeftError as error:
        if error.diagnostics[0].location is not None:  # in an extension's chooser
            raise
        raise refuse(op, error.diagnostics[0].message) from None
    op.operation.attributes["schedule"] = chosen.attribute()
    remarks.explain(
        op,
        lambda: (
            f"{chosen.instruction}, {chosen}",
            choice.passed_over(*op.static_mnk, types, chip, chosen, any_rows=any_rows),
        ),
    )


SELECT_SCHEDULE = Pass(
    "select-schedule",
    "choose a schedule for each tile.matmul that has none",
    run,
    {"chip": "sm_80", "rows": "aligned", "family": "any"},
)
