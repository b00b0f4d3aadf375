"""Many interleavings of one launch, and what the sanitizer finds in any of them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt

from weft.display.html import Html
from weft.emulator.arguments import seconds, whole_number
from weft.emulator.errors import Deadlock, Fault, TimeLimit
from weft.emulator.launch import Report
from weft.emulator.sanitizer import Finding, FoundList
from weft.emulator.sanitizer.findings import list_findings
from weft.errors import WeftError, shown

Arrays = Sequence[npt.NDArray[np.generic]]
Run = Callable[[int | None, float | None], Report]


@dataclass(frozen=True)
class Exploration:
    """The results of launches without a seed and with seeds from 0 on.

    `report` is that of the first launch, or `error` its error; the arrays have its results. `findings` are
    distinct: each rule and line once, with the first seed that shows it. `seeds` counts the seeds tried,
    which are fewer than requested if the time ran out.
    """

    report: Report | None
    error: Fault | Deadlock | None
    findings: tuple[Finding, ...]
    seeds: int

    def _repr_html_(self) -> str:
        seeds = f"{self.seeds} seed{'' if self.seeds == 1 else 's'}"
        page = Html("explored launches", f"without a seed, and with {seeds}")
        if self.error is not None:
            page.note(f"{type(self.error).__name__}: {self.error}")
        list_findings(page, self.findings)
        return page.text()


def explore(run: Run, arrays: Arrays, seeds: int, max_seconds: float | None = None) -> Exploration:
    """Launches a kernel by `run(seed, seconds left)` without a seed, then with each of `seeds` seeds.

    With a seed, warps run and asynchronous operations complete in a random order, and waits for mbarriers
    sometimes fail. Each launch begins with the original contents of `arrays`. Raises WeftError for invalid
    arguments.
    """
    if not callable(run):
        raise WeftError(f"run must be a function of a seed and the seconds left, got {shown(run)}")
    if not isinstance(arrays, list | tuple) or not all(isinstance(each, np.ndarray) for each in arrays):
        raise WeftError(f"arrays must be a list of arrays, got {shown(arrays)}")
    seeds, max_seconds = whole_number("seeds", seeds), seconds(max_seconds)
    arrays = [array for array in arrays if array.flags.writeable]  # no launch changes the others
    originals = [array.copy() for array in arrays]
    end = None if max_seconds is None else time.monotonic() + max_seconds
    distinct: dict[tuple[str, int], Finding] = {}
    report, error = _launch(run, None, max_seconds, distinct)  # whose message names the limit as given
    results, tried = [array.copy() for array in arrays], 0
    for seed in range(seeds):
        left = None if end is None else end - time.monotonic()
        if left is not None and left <= 0:
            break
        for array, value in zip(arrays, originals, strict=True):
            array[...] = value
        if isinstance(_launch(run, seed, left, distinct)[1], TimeLimit):
            break
        tried += 1
    for array, value in zip(arrays, results, strict=True):
        array[...] = value
    ordered = sorted(distinct.values(), key=lambda f: (f.line, f.rule))
    return Exploration(report, error, FoundList(ordered), tried)


def _launch(
    run: Run, seed: int | None, left: float | None, distinct: dict[tuple[str, int], Finding]
) -> tuple[Report | None, Fault | Deadlock | None]:
    """One launch in the seconds `left`, whose findings are added to the `distinct` ones."""
    report, error = None, None
    try:
        report = run(seed, left)
        if not hasattr(report, "findings"):
            raise WeftError(f"run must return the report of its launch, got {shown(report)}")
        findings = report.findings
    except (Fault, Deadlock) as caught:
        error, findings = caught, cast("tuple[Finding, ...]", caught.findings)
    for finding in findings:
        distinct.setdefault((finding.rule, finding.line), replace(finding, seed=seed))
    return report, error
