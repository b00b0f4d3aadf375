"""Writes the tables of benchmarks/README.md from the runs beside it: `python -m weft.tools.figures_docs`."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean

from weft.bench.measure import Result
from weft.bench.problem import INPUTS, Problem
from weft.bench.report import MODES, Report

_FOLDER = Path(__file__).parents[1] / "benchmarks"
_BEGIN, _END = "<!-- figures: python -m weft.tools.figures_docs -->\n", "<!-- end of figures -->\n"


def page(folder: Path = _FOLDER) -> str:
    """The text of README.md in a folder, with the tables of the runs that are kept there."""
    before, _, rest = (folder / "README.md").read_text(encoding="utf-8").partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return before + _BEGIN + "\n" + "\n".join(_tables(_reports(folder))) + "\n" + _END + after


def _reports(folder: Path) -> list[Report]:
    """The runs, in the order in which types are known; each is of one."""
    found = [Report.of_json(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    return sorted(found, key=lambda report: list(INPUTS).index(report.results[0].problem.inputs))


def _tables(reports: Sequence[Report]) -> Iterator[str]:
    """A table for all runs of the same products, and how each was made."""
    by_shapes: dict[tuple[str, ...], list[Report]] = {}
    for report in reports:
        by_shapes.setdefault(tuple(dict.fromkeys(r.problem.shape for r in report.results)), []).append(report)
    for shapes, alike in by_shapes.items():
        columns = [(report, mode) for report in alike for mode in MODES if _of(report, shapes[0], mode)]
        titles = (f"{_problem(r).inputs}{'' if mode == 'burst' else f', {mode}'}" for r, mode in columns)
        yield f"| M x N x K | {' | '.join(titles)} |"
        yield "|---" * (len(columns) + 1) + "|"
        for shape in shapes:
            yield f"| {shape} | {' | '.join(_cell(report, shape, mode) for report, mode in columns)} |"
        yield f"| geometric mean | {' | '.join(_mean(report, mode) for report, mode in columns)} |"
        yield ""
    yield "```sh"
    for report in reports:
        yield f"{' '.join(report.command)}  # {report.started[:10]}"
    yield "```"
    yield ""


def _problem(report: Report) -> Problem:
    return report.results[0].problem


def _of(report: Report, shape: str, mode: str) -> Result | None:
    """Weft's result for a shape, where it was timed so."""
    own = (r for r in report.results if r.implementation == "weft" and r.problem.shape == shape)
    return next((result for result in own if result.timing(mode)), None)


def _cell(report: Report, shape: str, mode: str) -> str:
    result = _of(report, shape, mode)
    if result is None or (timing := result.timing(mode)) is None:
        return "–"
    time, ratio = timing.microseconds, report.speed(result, mode)
    shown = f"{time:.0f}" if time >= 1000 else f"{time:.4g}"
    return f"{shown} ({'–' if ratio is None else f'{ratio:.2f}'})"


def _mean(report: Report, mode: str) -> str:
    own = (result for result in report.results if result.implementation == "weft")
    ratios = [ratio for result in own if (ratio := report.speed(result, mode)) is not None]
    return f"**{geometric_mean(ratios):.3f}**"


def main() -> int:
    """Writes benchmarks/README.md of the checkout."""
    (_FOLDER / "README.md").write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
