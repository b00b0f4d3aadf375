"""Times that `weft bench` measured next to the predicted ones: `weft predict --measured FILE.json`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from weft.bench.compiling import product_of
from weft.bench.measure import Result
from weft.bench.problem import Problem
from weft.bench.report import MODES, Report
from weft.dialects.schedule import AnySchedule, read_schedule
from weft.errors import WeftError
from weft.schedules import choice, transposing
from weft.schedules.gpu import Gpu
from weft.schedules.gpus import gpu_of, gpus_of
from weft.schedules.predict import Prediction, predict_schedule

_WEFT = "weft"


@dataclass(frozen=True)
class Comparison:
    """A time that was measured, in microseconds, and what the model predicts for a schedule: the `recorded`
    one of the file, or, where the file has none, the one that Weft chooses.
    """

    problem: Problem
    mode: str
    microseconds: float
    predicted: Prediction
    schedule: AnySchedule
    recorded: bool

    @property
    def error(self) -> float:
        """How much longer than measured the predicted time is, as a share."""
        return self.predicted.microseconds / self.microseconds - 1


def gpu_of_report(report: Report) -> Gpu:
    """The GPU of a run: by its name, otherwise by its chip. Raises WeftError for one without a model."""
    chip, name = report.device.get("chip", ""), report.device.get("name", "")
    able = [gpu for gpu in gpus_of(chip) if gpu.name in name]
    return max(able, key=lambda gpu: len(gpu.name)) if able else gpu_of(chip)


def comparisons(report: Report, step: int = 1) -> Iterator[Comparison]:
    """Each of Weft's results, or one in `step`, in each mode that was timed. Groups have no prediction."""
    gpu, command = gpu_of_report(report), report.command
    named = command[command.index("--schedule") + 1] if "--schedule" in command else ""
    own = [r for r in report.results if r.implementation == _WEFT and r.problem.groups is None]
    for result in own[::step]:
        yield from _compared(result, named, gpu)


def _compared(result: Result, named: str, gpu: Gpu) -> Iterator[Comparison]:
    timings = [(mode, timing) for mode in MODES if (timing := result.timing(mode)) is not None]
    if not timings:
        return
    product, recorded = product_of(result.problem, gpu.chip), named or result.schedule
    product = product if named else transposing.multiplied(product)
    mnk = product.m, product.n, product.k
    used = read_schedule(recorded) if recorded else choice.choose(*mnk, product.types, gpu.chip)
    for mode, timing in timings:
        predicted = predict_schedule(used, *mnk, product.types, gpu, burst=mode == "burst")
        yield Comparison(result.problem, mode, timing.microseconds, predicted, used, bool(recorded))


def lines(compared: Sequence[Comparison]) -> Iterator[str]:
    """A table of comparisons, and the median error of each mode."""
    if not compared:
        raise WeftError("a measured file must have results of weft without groups, got none")
    columns = f"{'M x N x K':21}  {'types':21}  {'mode':9}  {'measured':>9}  {'predicted':>9}  {'error':>7}"
    yield f"{columns}  {'by':13}  {'from':6}  schedule"
    for each in compared:
        times = f"{each.microseconds:9.2f}  {each.predicted.microseconds:9.2f}  {each.error:+7.1%}"
        name = f"{each.problem.shape:21}  {each.problem.types:21}  {each.mode:9}"
        source = "file" if each.recorded else "chosen"
        yield f"{name}  {times}  {each.predicted.bound:13}  {source:6}  {each.schedule}"
    for mode, kind in dict.fromkeys((each.mode, each.problem.types) for each in compared):
        errors = [e.error for e in compared if (e.mode, e.problem.types) == (mode, kind)]
        off, worst = median(map(abs, errors)), max(errors, key=abs)
        yield f"{kind}, {mode}: {off:.1%} off in the median of {len(errors)}, {worst:+.1%} at most"
    if chosen := sum(not each.recorded for each in compared):
        count = f"{chosen} of {len(compared)}"
        yield f"schedules of {count} times are those that Weft chooses now: the file has none"
