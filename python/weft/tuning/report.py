"""What `weft tune` prints: the result of a search, and how far the model's choices are from it."""

import statistics
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from weft.dialects.schedule import read_schedule
from weft.schedules.database import Entry

if TYPE_CHECKING:
    from weft.bench.problem import Problem

HEADING = f"{'M x N x K':17}  {'types':21}  {'model µs':>9}  {'tuned µs':>9}  {'gain %':>6}  schedule"


def row(problem: "Problem", entry: Entry) -> str:
    """The model's choice and the fastest schedule: their times, the gain, and the schedules."""
    own, ratio = entry.model, slower(entry)
    took = f"{own[1]:9.2f}" if own and own[1] else f"{'–':>9}"
    gain = f"{100 * (ratio - 1):6.1f}" if ratio else f"{'–':>6}"
    chosen = str(read_schedule(entry.schedule))
    if own and own[0] == entry.schedule:
        chosen += " (the model's)"
    elif own:
        chosen += f" (the model's: {read_schedule(own[0])})"
    return f"{problem.shape:17}  {problem.types:21}  {took}  {entry.microseconds:9.2f}  {gain}  {chosen}"


def slower(entry: Entry) -> float | None:
    """The time of the model's choice relative to the fastest; None if that choice has no time."""
    return entry.model[1] / entry.microseconds if entry.model and entry.model[1] else None


def means(results: "Sequence[tuple[Problem, Entry]]") -> Iterator[str]:
    """A line for each kind of types: the geometric mean of the model's times relative to the fastest."""
    ratios: dict[str, list[float]] = {}
    for problem, entry in results:
        if (ratio := slower(entry)) is not None:
            ratios.setdefault(problem.types, []).append(ratio)
    for types, each in ratios.items():
        mean = statistics.geometric_mean(each)
        yield f"{types}: the model's schedules take {mean:.3f} times as long (geometric mean of {len(each)})"
