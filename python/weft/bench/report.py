"""What a run of `weft bench` found: kept as JSON with all that it takes to redo it, and shown as a table."""

import io
import json
import statistics
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from weft.bench.measure import Result, Timing
from weft.bench.problem import Check, Problem
from weft.errors import WeftError

if TYPE_CHECKING:
    from rich.table import Table

FORMAT = "weft-bench 1"
MODES = ("burst", "sustained")
_WIDTH = 200
_REASON_WIDTH = 80


@dataclass
class Report:
    """A run: its command line, start (UTC), machine, versions and results.

    `reference` is the implementation that others are compared with; `readings` are the GPU's clocks, power
    and temperature after each problem.
    """

    command: list[str]
    started: str
    reference: str | None
    device: dict[str, Any]
    versions: dict[str, str]
    results: list[Result] = field(default_factory=list)
    readings: list[dict[str, str]] = field(default_factory=list)

    def json(self) -> str:
        """As text that `of_json` reads, with a line for each result; times are milliseconds of replays of so
        many calls.
        """
        fields = [
            f"{json.dumps(name)}: {_lines(value)}"
            for name, value in ({"format": FORMAT} | asdict(self)).items()
        ]
        return "{\n" + ",\n".join(fields) + "\n}\n"

    @classmethod
    def of_json(cls, text: str) -> "Report":
        """What `json` wrote. Raises WeftError for any other text."""
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise WeftError(f"must be a file from weft bench --json, which is JSON: {error}") from None
        if not isinstance(fields, dict) or fields.pop("format", None) != FORMAT:
            raise WeftError(f"must be a file from weft bench --json, of the format '{FORMAT}'")
        try:
            results = [_result(entry) for entry in fields.pop("results")]
            return cls(**fields, results=results)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise WeftError(
                f"must be a file from weft bench --json: {type(error).__name__}: {error}"
            ) from None

    def speed(self, result: Result, mode: str) -> float | None:
        """How many times as fast as the reference a result is; None where there is nothing to compare."""
        key = (result.problem, self.reference)
        beside = next((r for r in self.results if (r.problem, r.implementation) == key), None)
        own, other = result.timing(mode), beside.timing(mode) if beside else None
        return other.microseconds / own.microseconds if own and other else None

    def speeds(self, mode: str) -> dict[tuple[str, str], list[float]]:
        """The ratios to the reference of each kind of problem and each other implementation."""
        ratios: dict[tuple[str, str], list[float]] = {}
        for result in self.results:
            ratio = self.speed(result, mode)
            if ratio is not None and result.implementation != self.reference:
                ratios.setdefault((result.problem.kind, result.implementation), []).append(ratio)
        return ratios

    def means(self) -> Iterator[str]:
        """A line for each kind of problem and implementation: the geometric mean of its ratios."""
        for mode in MODES:
            for (kind, name), ratios in self.speeds(mode).items():
                mean = statistics.geometric_mean(ratios)
                yield (
                    f"{kind}, {mode}: {name} is {mean:.3f} times as fast as {self.reference} "
                    f"(geometric mean of {len(ratios)})"
                )


def _lines(value: Any) -> str:
    """A value as JSON, with a line for each entry of a list of objects."""
    if not (isinstance(value, list) and value and isinstance(value[0], dict)):
        return json.dumps(value, allow_nan=False)
    return "[\n" + ",\n".join(json.dumps(each, allow_nan=False) for each in value) + "\n]"


def _result(entry: dict[str, Any]) -> Result:
    timings = {
        mode: Timing(entry[mode]["calls"], tuple(entry[mode]["replays"])) if entry[mode] else None
        for mode in MODES
    }
    check = Check(**entry["check"]) if entry["check"] else None
    problem = Problem(**entry["problem"])
    schedule = entry.get("schedule", "")  # which files of earlier versions don't have
    return Result(
        problem, entry["implementation"], entry["reason"], check=check, schedule=schedule, **timings
    )


def teraflops(result: Result, mode: str) -> float | None:
    """10**12 operations in a second."""
    timing = result.timing(mode)
    return result.problem.flops / timing.microseconds / 1e6 if timing else None


def table(report: Report, results: Sequence[Result], *, heading: bool) -> str:
    """Some results as rows; of fixed widths, so that tables of one run stand under each other."""
    from rich.console import Console

    modes = [mode for mode in MODES if any(getattr(r, mode) for r in report.results)] or ["burst"]
    created = _empty(modes, heading)
    shown: Problem | None = None
    for result in results:
        cells = ["", ""] if result.problem == shown else [result.problem.shape, result.problem.types]
        shown = result.problem
        cells.append(result.implementation)
        for mode in modes:
            cells += _timed(report, result, mode)
        created.add_row(*cells, _note(result))
    console = Console(file=io.StringIO(), width=_WIDTH, highlight=False)
    console.print(created)
    return "\n".join(line.rstrip() for line in console.file.getvalue().rstrip().split("\n"))  # type: ignore[attr-defined]


def _empty(modes: Sequence[str], heading: bool) -> "Table":
    from rich.table import Table

    created = Table(box=None, show_header=heading, pad_edge=False, padding=(0, 2, 0, 0))
    for title, width in (("M x N x K", 21), ("types", 21), ("by", 15)):
        created.add_column(title, min_width=width, no_wrap=True)
    for mode in modes:
        rate = "TFLOP/s" if mode == "burst" else mode
        for title, width in (("µs", 9), (rate, 9), ("± %", 5), ("speed", 5)):
            created.add_column(title, width=width, justify="right", no_wrap=True)
    created.add_column("error")
    return created


def _timed(report: Report, result: Result, mode: str) -> list[str]:
    timing, rate = result.timing(mode), teraflops(result, mode)
    if timing is None or rate is None:
        return [""] * 4
    ratio = report.speed(result, mode)
    shown = "" if ratio is None else f"{ratio:.3f}"
    return [f"{timing.microseconds:.2f}", f"{rate:.4g}", f"{100 * timing.spread:.1f}", shown]


def _note(result: Result) -> str:
    """The error of a result, or why there is none, cut where it gets long; the JSON has all of it."""
    from rich.markup import escape

    if result.check is None:
        return escape(textwrap.shorten(f"not measured: {result.reason}", _REASON_WIDTH, placeholder="…"))
    if result.check.error is None:
        return "WRONG: some elements aren't finite or weren't written"
    error = f"{result.check.error:.1e}"
    return error if result.check.passed else f"WRONG: {error}, where {result.check.allowed:.0e} is allowed"
