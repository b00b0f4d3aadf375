"""Writes the tables of benchmarks/README.md from the runs next to it: `python docs/generate/figures_docs.py
[DIRECTORY]`.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import geometric_mean

from weft.bench.measure import Result
from weft.bench.problem import INPUTS
from weft.bench.report import MODES, Report
from weft.errors import WeftError

_FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
_BEGIN, _END = "<!-- figures: python docs/generate/figures_docs.py -->\n", "<!-- end of figures -->\n"
_WEFT = "weft"


def page(folder: Path = _FOLDER) -> str:
    """The text of README.md in a folder, with the tables of the folder's runs. Raises WeftError if README.md
    lacks the lines that enclose the tables, or if the results of a run have several types.
    """
    readme = folder / "README.md"
    before, begin, rest = readme.read_text(encoding="utf-8").partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise WeftError(f"{readme}: must have a line {_BEGIN.strip()} and, below it, a line {_END.strip()}")
    return before + begin + "\n" + "\n".join(_sections(_reports(folder))) + "\n" + end + after


def _reports(folder: Path) -> list[Report]:
    """The runs, in the order of the types in INPUTS."""
    reports = []
    for path in sorted(folder.glob("*.json")):
        try:
            report = Report.of_json(path.read_text(encoding="utf-8"))
        except WeftError as error:
            raise WeftError(f"{path}: {error.diagnostics[0].message}") from None
        types = dict.fromkeys(result.problem.types for result in report.results)
        if len(types) != 1:
            raise WeftError(f"{path}: all results must have the same types, got {', '.join(types) or 'none'}")
        reports.append(report)
    return sorted(reports, key=lambda report: list(INPUTS).index(report.results[0].problem.inputs))


def _sections(reports: Sequence[Report]) -> Iterator[str]:
    """For each GPU, the tables of its runs and the commands that made them."""
    by_device: dict[str, list[Report]] = {}
    for report in reports:
        by_device.setdefault(report.device.get("name", ""), []).append(report)
    for device, of_device in by_device.items():
        yield from (f"### {device}", "", *_tables(of_device), "```sh")
        yield from map(_command, of_device)
        yield from ("```", "")


def _command(report: Report) -> str:
    """The command of a run, its date, and the commit of Weft."""
    commit = report.versions.get("commit")
    return f"{' '.join(report.command)}  # {report.started[:10]}{f', {commit}' if commit else ''}"


def _tables(reports: Sequence[Report]) -> Iterator[str]:
    """A table for all runs of the same products. Groups and masked groups have tables of their own."""
    by_shapes: dict[tuple[str, ...], list[Report]] = {}
    for report in reports:
        for part in _kinds(report):
            shapes = tuple(dict.fromkeys(r.problem.shape for r in part.results))
            by_shapes.setdefault(shapes, []).append(part)
    for shapes, alike in by_shapes.items():
        columns = [
            _Column(report, mode, name)
            for report in alike
            for mode in MODES
            for name in dict.fromkeys((_WEFT, *(r.implementation for r in report.results)))
            if name != report.reference
        ]
        columns = [column for column in columns if any(map(column.result, shapes))]
        yield f"| M x N x K | {' | '.join(column.title for column in columns)} |"
        yield "|---" * (len(columns) + 1) + "|"
        for shape in shapes:
            cells = (column.cell(shape) for column in columns)
            yield f"| {shape.replace('x', ' x ')} | {' | '.join(cells)} |"
        yield f"| geometric mean | {' | '.join(column.mean for column in columns)} |"
        yield ""


def _kinds(report: Report) -> Iterator[Report]:
    """The results of each kind of problem, as separate runs."""
    by_kind: dict[str, list[Result]] = {}
    for result in report.results:
        by_kind.setdefault(result.problem.kind, []).append(result)
    for results in by_kind.values():
        yield replace(report, results=results)


@dataclass(frozen=True)
class _Column:
    """The times of one implementation for one kind of product in a run."""

    report: Report
    mode: str
    name: str

    @property
    def title(self) -> str:
        """The kind of product; the implementation if it isn't Weft; the mode if it isn't burst."""
        others = (self.name if self.name != _WEFT else "", self.mode if self.mode != "burst" else "")
        return ", ".join([self.report.results[0].problem.kind, *filter(None, others)])

    def result(self, shape: str) -> Result | None:
        """The implementation's result for a shape, if it was timed in this mode."""
        own = (r for r in self.report.results if r.implementation == self.name and r.problem.shape == shape)
        return next((result for result in own if result.timing(self.mode)), None)

    def cell(self, shape: str) -> str:
        """The time of a product in microseconds, and the ratio to the reference."""
        result = self.result(shape)
        if result is None or (timing := result.timing(self.mode)) is None:
            return "–"
        time, ratio = timing.microseconds, self.report.speed(result, self.mode)
        shown = f"{time:.0f}" if time >= 1000 else f"{time:#.4g}"
        return f"{shown} ({'–' if ratio is None else f'{ratio:.2f}'})"

    @property
    def mean(self) -> str:
        """The geometric mean of all ratios in the column."""
        kind = self.report.results[0].problem.kind
        ratios = self.report.speeds(self.mode).get((kind, self.name))
        return f"**{geometric_mean(ratios):.3f}**" if ratios else "–"


def main(arguments: list[str]) -> int:
    """Writes README.md of the named directory, by default the checkout's `benchmarks`."""
    folder = Path(arguments[0]) if arguments else _FOLDER
    (folder / "README.md").write_text(page(folder), encoding="utf-8")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, WeftError) as error:
        sys.exit(str(error))
