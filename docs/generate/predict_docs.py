"""Writes the tables of docs/predict.md and of benchmarks/published/README.md: `python
docs/generate/predict_docs.py [--measured]`. That of our own measurements, which takes ten seconds, is written
with `--measured` only.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from weft.bench.report import MODES, Report
from weft.dialects.product_types import Types
from weft.dialects.schedule import AnySchedule, TensorMemorySchedule
from weft.dialects.schedule.work import KINDS, Kernel, Work
from weft.errors import WeftError
from weft.schedules import choice, tcgen05, tuned_files
from weft.schedules.blackwell import B200, PublishedGpu
from weft.schedules.gpus import GPUS
from weft.schedules.h200 import MmaTile
from weft.schedules.predict import Prediction, predict, predict_schedule
from weft.tools.predict_measured import comparisons

_ROOT = Path(__file__).resolve().parents[2]
_RUNS = _ROOT / "benchmarks"
PUBLISHED = _RUNS / "published" / "blackwell.json"
PAGE = _ROOT / "docs" / "predict.md"
PUBLISHED_PAGE = PUBLISHED.with_name("README.md")
ALLOWED = 0.1
"""The error of a prediction that needs no explanation."""
_TYPES = {"bf16": Types("bf16", "bf16", "bf16"), "f16": Types("f16", "f16", "f16")}


@dataclass(frozen=True)
class Point:
    """A published time of a product, and what is predicted for it."""

    row: str
    name: str
    source: str
    gpu: str
    kind: str
    mnk: tuple[int, int, int]
    microseconds: float
    predicted: Prediction
    fit: bool
    power: float
    exception: str

    @property
    def error(self) -> float:
        """How much longer than published the predicted time is, as a share."""
        return self.predicted.microseconds / self.microseconds - 1

    @property
    def shape(self) -> str:
        """`4096^3` or `4096 x 8192 x 4096`."""
        m, n, k = self.mnk
        return f"{m}^3" if m == n == k else f"{m} x {n} x {k}"


def points(path: Path = PUBLISHED) -> list[Point]:
    """The published points of a file with their predictions."""
    return [_point(record) for record in json.loads(path.read_text(encoding="utf-8"))["points"]]


def ladders(path: Path = PUBLISHED) -> dict[str, list[str]]:
    """The rows whose kernels are steps from slow to fast, and their names in that order."""
    found: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8"))["ladders"]
    return found


def _point(record: dict[str, Any]) -> Point:
    m, n, k = record["mnk"]
    gpu, kind, power = GPUS[record["gpu"]], record["kind"], record.get("power", 1.0)
    assert isinstance(gpu, PublishedGpu)
    kernel = _kernel(record["kernel"], (m, n, k), kind, gpu.chip)
    output = 4 if kind in ("s8", "tf32") else 2
    predicted = predict(kernel, Work(m, n, k, KINDS[kind], output), gpu, power=power)
    time = record.get("microseconds") or 2 * m * n * k / record["tflops"] / 1e6
    return Point(
        row=record["row"],
        name=record["name"],
        source=record["source"],
        gpu=gpu.name,
        kind=kind,
        mnk=(m, n, k),
        microseconds=time,
        predicted=predicted,
        fit=record.get("fit", False),
        power=power,
        exception=record.get("exception", ""),
    )


def _kernel(described: dict[str, Any] | None, mnk: tuple[int, int, int], kind: str, chip: str) -> Kernel:
    if described is not None:
        lists = {name: tuple(value) for name, value in described.items() if isinstance(value, list)}
        return Kernel(**(described | lists))
    schedule = tcgen05.choose(*mnk, _TYPES[kind], chip)
    assert schedule is not None, mnk
    return schedule.kernel(_TYPES[kind], chip)


def _time(microseconds: float) -> str:
    return f"{microseconds:.0f}" if microseconds >= 1000 else f"{microseconds:#.4g}"


def published() -> Iterator[str]:
    """The table of published points, and why some are off."""
    found = points()
    yield "| row | GPU | kernel | kind | M x N x K | published, us | predicted, us | error | bound |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for p in found:
        error = f"{p.error:+.1%}" + ("" if abs(p.error) <= ALLOWED else " !")
        name = p.name + (" (fit)" if p.fit else "")
        times = f"{_time(p.microseconds)} | {_time(p.predicted.microseconds)}"
        cells = f"{p.row} | {p.gpu} | {name} | {p.kind} | {p.shape} | {times} | {error} | {p.predicted.bound}"
        yield f"| {cells} |"
    near = [p for p in found if abs(p.error) <= ALLOWED]
    checks = [p for p in found if not p.fit]
    right = [p for p in checks if abs(p.error) <= ALLOWED]
    yield ""
    yield f"{len(near)} of {len(found)} points are within 10%; of the {len(checks)} that check, {len(right)}."
    yield ""
    for p in found:
        if p.exception:
            yield f"- Row {p.row}, {p.name}, {p.kind}, {p.shape}: {p.exception}."


def targets() -> Iterator[str]:
    """The predicted speed of our kernels, next to cuBLAS's published one."""
    yield "| kind | M x N x K | schedule | predicted, us | TFLOP/s | cuBLAS | ratio | bound |"
    yield "|---|---|---|---|---|---|---|---|"
    for target in TARGETS:
        if (found := target.predicted) is None:
            continue
        schedule, p = found
        ratio = p.tflops / target.tflops
        times = f"{p.microseconds:#.4g} | {p.tflops:.0f} | {target.tflops} | {ratio:.3f}"
        yield f"| {target.kind} | {target.size}^3 | {schedule} | {times} | {p.bound} |"


@dataclass(frozen=True)
class Target:
    """A figure of cuBLAS on a B200 that our kernels should reach."""

    kind: str
    size: int
    tflops: int
    types: Types

    @property
    def predicted(self) -> tuple[AnySchedule, Prediction] | None:
        """The chosen schedule and its predicted time; None where none of `tcgen05` is chosen."""
        mnk = (self.size,) * 3
        if choice.complaint(self.types, B200.chip):
            return None
        schedule = choice.choose(*mnk, self.types, B200.chip)
        if not isinstance(schedule, TensorMemorySchedule):
            return None
        return schedule, predict_schedule(schedule, *mnk, self.types, B200)


TARGETS = (
    Target("bf16", 4096, 1500, _TYPES["bf16"]),
    Target("mxfp8", 8192, 2850, Types("f8E4M3FN", "f8E4M3FN", "bf16", (False, False), scale="f8E8M0FNU")),
    Target("nvfp4", 8192, 5500, Types("f4E2M1FN", "f4E2M1FN", "bf16", (False, False), scale="f8E4M3FN")),
)


def measured() -> Iterator[str]:
    """How far the predictions for our own runs are off."""
    yield "| types | products | in bursts, median | largest | sustained, median | largest |"
    yield "|---|---|---|---|---|---|"
    for path in sorted(_RUNS.glob("*.json")):
        compared = list(comparisons(Report.of_json(path.read_text(encoding="utf-8"))))
        if not compared:
            continue
        cells = []
        for mode in MODES:
            errors = [each.error for each in compared if each.mode == mode]
            cells += [f"{median(map(abs, errors)):.1%}", f"{max(errors, key=abs):+.1%}"]
        problems = len({each.problem for each in compared})
        yield f"| {compared[0].problem.types} | {problems} | {' | '.join(cells)} |"


def constants() -> Iterator[str]:
    """The constants of each GPU, with their sources."""
    for gpu in GPUS.values():
        yield from (f"### {gpu.name} ({gpu.chip}, {gpu.instruction})", "", "| constant | value | source |")
        yield "|---|---|---|"
        for name, source in gpu.sources.items():
            yield f"| `{name}` | {_value(getattr(gpu, name))} | {source} |"
        yield ""


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        texts = (f"{name} {_value(each).replace(',', '')}" for name, each in value.items())
        return ", ".join(texts) or "–"
    if isinstance(value, tuple):
        return " / ".join(map(_value, value))
    if isinstance(value, MmaTile):
        return f"{value.rows}x{value.columns}: {_value(value.us)}"
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.7g}"


SECTIONS: dict[str, Callable[[], Iterator[str]]] = {
    "published": published,
    "targets": targets,
    "measured": measured,
    "constants": constants,
}


def page(text: str, *names: str) -> str:
    """The page with some sections written anew. Raises WeftError if it lacks the lines that enclose them."""
    for name in names:
        before, begin, rest = text.partition(f"<!-- {name}: ")
        command, newline, rest = rest.partition("\n")
        _, end, after = rest.partition(f"<!-- end of {name} -->\n")
        if not (begin and newline and end):
            raise WeftError(f"the page must have lines that enclose '{name}'")
        body = "\n".join(SECTIONS[name]()).rstrip("\n")
        text = f"{before}{begin}{command}\n\n{body}\n\n{end}{after}"
    return text


def pages(all_of_them: bool) -> dict[Path, list[str]]:
    """The pages and their sections; without `all_of_them`, those that take a moment."""
    names = [name for name in SECTIONS if name != "published" and (all_of_them or name != "measured")]
    return {PUBLISHED_PAGE: ["published"], PAGE: names}


def main(arguments: Sequence[str]) -> int:
    """Writes the pages, with the model's choices instead of tuned schedules."""
    os.environ[tuned_files.VARIABLE] = ""
    for path, names in pages("--measured" in arguments).items():
        path.write_text(page(path.read_text(encoding="utf-8"), *names), encoding="utf-8")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, WeftError) as error:
        sys.exit(str(error))
