"""Schedules that callers pass: objects, or text as the attribute of `tile.matmul` has it."""

import functools
import operator
from dataclasses import fields, replace
from typing import Any

from weft.dialects.schedule.direct import DirectSchedule
from weft.dialects.schedule.families import FAMILIES, read_schedule
from weft.dialects.schedule.family import AnySchedule
from weft.dialects.schedule.mma_sync import Schedule
from weft.dialects.schedule.tcgen05 import TensorMemorySchedule
from weft.dialects.schedule.tma_mma import TmaMmaSchedule
from weft.dialects.schedule.wmma import WmmaSchedule
from weft.errors import Diagnostic, WeftError, shown

_EXAMPLE = "{block = array<i64: 128, 256, 64>, warpgroups = 2, stages = 3}"
_EXAMPLES = {
    WmmaSchedule.key: "{block = array<i64: 128, 128, 32>, warp_grid = array<i64: 2, 4>, stages = 2}",
    Schedule.key: "{block = array<i64: 128, 128, 32>, warps = array<i64: 2, 2>, stages = 4}",
    DirectSchedule.key: "{block = array<i64: 16, 32, 64>, readers = array<i64: 1, 8>}",
    TmaMmaSchedule.key: "{block = array<i64: 128, 128, 64>, consumers = array<i64: 4, 2>, stages = 3}",
    TensorMemorySchedule.key: "{block = array<i64: 128, 256, 64>, accumulators = 2, stages = 4}",
}
"""By the field that only schedules of a family have."""


def as_schedule(schedule: object) -> AnySchedule | None:
    """The schedule that a caller passes; None for None. Raises WeftError for anything else."""
    if schedule is None:
        return None
    if isinstance(schedule, str):
        return _read(schedule)
    if not (isinstance(schedule, AnySchedule) and isinstance(schedule, tuple(FAMILIES))):
        names = ", ".join(f"a {family.__name__}" for family in FAMILIES)
        wanted = f'{names} or text ("{_EXAMPLE}")'
        raise WeftError(f"schedule must be {wanted}, got {type(schedule).__name__}")
    plain = {field.name: _plain(schedule, field.name, field.type) for field in fields(schedule)}
    return replace(schedule, **plain)


@functools.lru_cache(maxsize=256)
def _read(text: str) -> AnySchedule:
    if not text.isascii():
        raise WeftError(f"schedule must be ASCII text, such as {_EXAMPLE}, got {shown(text)}")
    from weft import mlir  # noqa: F401  # which may be missing: that isn't a mistake in the text

    try:
        return read_schedule(text)
    except WeftError as error:
        *before, last = error.diagnostics
        example = next((each for key, each in _EXAMPLES.items() if key in text), _EXAMPLE)
        note = Diagnostic(f"a schedule is written like {example}", severity="note")
        raise WeftError(*before, replace(last, notes=(*last.notes, note))) from None


def _plain(schedule: AnySchedule, name: str, kind: Any) -> Any:
    """A field's value as Python's integers."""
    value = getattr(schedule, name)
    if kind is bool:
        if isinstance(value, bool):
            return value
        raise WeftError(f"schedule field '{name}' must be True or False, got {shown(value)}")
    count = schedule.counts.get(name)
    what = "an integer" if count is None else f"a tuple of {count} integers"
    if count is not None and not (isinstance(value, tuple) and len(value) == count):
        raise WeftError(f"schedule field '{name}' must be {what}, got {shown(value)}")
    each = (value,) if count is None else value
    try:
        integers = tuple(operator.index(number) for number in each)
    except TypeError:
        integers = ()
    if not integers or any(isinstance(n, bool) or not -(2**63) <= int(n) < 2**63 for n in each):
        raise WeftError(f"schedule field '{name}' must be {what}, got {shown(value)}")
    return integers[0] if count is None else integers
