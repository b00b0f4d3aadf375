"""What `weft tune` prints: the result of a search, how far the model's choices are from it, and a fit."""

import statistics
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from weft.dialects.schedule import read_schedule
from weft.schedules.chip_models import ChipModel
from weft.schedules.database import Entry
from weft.tuning import correct, fit
from weft.tuning.times import Times

if TYPE_CHECKING:
    from weft.bench.problem import Problem

_QUALITIES = (
    f"{'':18}  {'products':>8}  {'error %':>7}  {'regret %':>8}  {'worst %':>7}  {'cuBLAS':>6}  {'best':>6}"
)
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


def fitted(model: ChipModel, measured: Sequence[Times], seed: int) -> Iterator[str]:
    """How well a model fits measured times: those that it was fitted to, and those that check it. Then its
    numbers.
    """
    yield _QUALITIES
    for times in measured:
        for what, checked in (("fit", False), ("check", True)):
            if (quality := fit.quality(model, fit.Sample.of(times, seed, checked=checked))) is not None:
                yield f"{times.name:18}  {_qualities(quality)}  {what}"
    yield f"{model.chip}:"
    yield from fit.row(model)


def corrected(model: ChipModel, measured: Sequence[Times], seed: int) -> Iterator[str]:
    """How well a model does on products that check it, without corrections and with those that are fitted to
    the others. Then its own corrections.
    """
    plain, found = correct.plain(model), correct.corrected(model, measured, seed)
    yield _QUALITIES
    for times in filter(correct.is_able, measured):
        for what, each in (("plain", plain), ("corrected", found)):
            if (quality := fit.quality(each, fit.Sample.of(times, seed, checked=True))) is not None:
                yield f"{times.name:18}  {_qualities(quality)}  {what}"
    yield f"{model.chip}:"
    yield from correct.row(model)


def _qualities(quality: "fit.Quality") -> str:
    ratios = (quality.against, quality.best_against)
    others = "  ".join(f"{'–' if ratio is None else f'{ratio:.3f}':>6}" for ratio in ratios)
    shares = (
        f"{100 * quality.error:7.1f}  {100 * (quality.regret - 1):8.1f}  {100 * (quality.worst - 1):7.0f}"
    )
    return f"{quality.products:8}  {shares}  {others}"
