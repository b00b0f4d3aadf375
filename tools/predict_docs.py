"""Writes the tables of docs/predict.md: the published times next to the predicted ones, those of our own
measurements, and the constants with their sources. `python -m weft.tools.predict_docs`.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.dialects.schedule import Types
from weft.errors import WeftError
from weft.schedules import tcgen05
from weft.schedules.predict_gpus import GPUS, KINDS
from weft.schedules.predict_kernels import Kernel, kernel_of
from weft.schedules.predict_model import Prediction, predict

_ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = _ROOT / "benchmarks" / "published" / "blackwell.json"
PAGE = _ROOT / "docs" / "predict.md"
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
    kernel = _kernel(record["kernel"], (m, n, k), kind, gpu.chip)
    output = 4 if kind in ("s8", "tf32") else 2
    predicted = predict(kernel, m, n, k, KINDS[kind], gpu, output_bytes=output, power=power)
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
    return kernel_of(schedule, _TYPES[kind])


def _time(microseconds: float) -> str:
    return f"{microseconds:.0f}" if microseconds >= 1000 else f"{microseconds:#.4g}"


def published_table(found: Sequence[Point]) -> Iterator[str]:
    """The table of published points."""
    yield "| row | GPU | kernel | kind | M x N x K | published, us | predicted, us | error | bound |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for p in found:
        error = f"{p.error:+.1%}" + ("" if abs(p.error) <= ALLOWED else " !")
        name = p.name + (" (fit)" if p.fit else "")
        times = f"{_time(p.microseconds)} | {_time(p.predicted.microseconds)}"
        yield (
            f"| {p.row} | {p.gpu} | {name} | {p.kind} | {p.shape} | {times} | {error} | {p.predicted.bound} |"
        )


def main() -> int:
    """Prints the table of published points."""
    sys.stdout.writelines(f"{line}\n" for line in published_table(points()))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, WeftError) as error:
        sys.exit(str(error))
