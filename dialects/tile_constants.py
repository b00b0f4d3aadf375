"""Checks of coordinates, stages and phases that are constants. Others are known only at run time."""

from weft.mlir import constant, ir


def constant_complaint(name: str, value: ir.Value, count: int, step: int = 1) -> str | None:
    """Why a constant isn't one of `count` multiples of `step`, from 0 on. None for any other value."""
    number = constant(value)
    if number is None or number in range(0, count * step, step):
        return None
    what = f"a multiple of {step} in " if step > 1 else "in "
    legal = f"{what}0..{(count - 1) * step}" if count > 1 else "0"
    return f"{name} must be {legal}, got {number}"


def part_complaint(op: ir.OpView, whole: ir.Type, part: ir.Type, transpose: bool = False) -> str | None:
    """Why constants `row` and `column` of an op aren't those of a part of a buffer of type `whole`."""
    steps = part.shape[:: -1 if transpose else 1]
    for name, value, extent, step in zip(
        ("row", "column"), (op.row, op.column), whole.shape, steps, strict=True
    ):
        if wrong := constant_complaint(name, value, extent // step, step):
            return wrong
    return None
