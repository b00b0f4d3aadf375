"""Runs the kernels of other projects in Weft's emulator, and records what came of each launch.

A producer is a module with `cases()`, which yields (name, function). A function launches kernels by `launch`,
and yields triples (result, expected, tolerance). `python harness.py PRODUCER [NAME …]` runs them, with a line
of JSON for each case.
"""

import fnmatch
import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from weft import emulator
from weft.errors import WeftError

Results = Iterator[tuple[object, object, float]]
Case = tuple[str, Callable[[], Results]]
SECONDS = float(os.environ.get("FOREIGN_SECONDS", "60"))  # of one launch


@dataclass
class Launched:
    """One launch: its rules with findings, and the emulator's error."""

    kernel: str
    findings: list[str] = field(default_factory=list)
    error: str = ""


@dataclass
class Outcome:
    """One case. `wrong` says how a result differs, `failed` why the producer's code didn't complete."""

    case: str
    launches: list[Launched] = field(default_factory=list)
    wrong: str = ""
    failed: str = ""
    seconds: float = 0


_launched: list[Launched] = []


def launch(
    module: emulator.Module,
    kernel: str,
    grid: Sequence[int],
    block: Sequence[int] | int | None,
    args: Sequence[object],
    **options: object,
) -> None:
    """Runs a kernel, and records what happens. Raises what the emulator raises."""
    record, findings = Launched(kernel), ()
    _launched.append(record)
    try:
        report = module.launch(kernel, grid=grid, block=block, args=args, max_seconds=SECONDS, **options)
        findings = report.findings
    except (WeftError, emulator.Fault, emulator.Deadlock, emulator.PtxError, emulator.TimeLimit) as error:
        record.error = f"{type(error).__name__}: {error}"
        findings = getattr(error, "findings", ())
        raise
    finally:
        if not record.error:
            record.findings = sorted({found.rule for found in findings})
            if os.environ.get("FOREIGN_SHOW"):
                print(*map(str, findings), sep="\n", file=sys.stderr)


def parse(ptx: str) -> emulator.Module:
    """The module of a PTX text; a PTX that isn't read counts as a launch."""
    try:
        return emulator.Module(ptx)
    except (WeftError, emulator.PtxError) as error:
        _launched.append(Launched("module", error=f"{type(error).__name__}: {error}"))
        raise


def difference(got: object, want: object, tolerance: float) -> str:
    """How a result differs from what is expected, by more than `tolerance` of its largest element; or ''."""
    if hasattr(got, "detach"):
        got, want = (
            (t.detach().double() if t.is_floating_point() else t.detach()).resolve_conj().numpy()
            for t in (got, want)
        )
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return f"its shape is {got.shape} instead of {want.shape}"
    if not got.size:
        return ""
    if got.dtype.kind in "biu":
        wrong = got != want
    else:
        finite = np.isfinite(want)
        scale = np.abs(want[finite]).max(initial=1e-30)
        with np.errstate(invalid="ignore"):
            wrong = ~(
                (np.abs(got - want) <= tolerance * scale) | (got == want) | (np.isnan(got) & np.isnan(want))
            )
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{wrong.sum()} of {wrong.size} elements differ, at {at} {got[at]} instead of {want[at]}"


def attempt(name: str, function: Callable[[], Results]) -> Outcome:
    """Runs one case."""
    _launched.clear()
    outcome, start = Outcome(name), time.monotonic()
    try:
        for number, (got, want, tolerance) in enumerate(function()):
            if how := difference(got, want, tolerance):
                outcome.wrong = outcome.wrong or f"result {number}: {how}"
    except Exception as error:  # of whatever a producer raises
        outcome.failed = f"{type(error).__name__}: {str(error)[:400]}"
        if os.environ.get("FOREIGN_SHOW"):
            traceback.print_exc()
    outcome.launches, outcome.seconds = list(_launched), round(time.monotonic() - start, 1)
    return outcome


def main(producer: str, *names: str) -> None:
    for name, function in importlib.import_module(producer).cases():
        if not names or any(fnmatch.fnmatch(name, pattern) for pattern in names):
            print(json.dumps(asdict(attempt(name, function))), flush=True)


if __name__ == "__main__":
    # Producers import this module, which must be the same.
    importlib.import_module("harness").main(*sys.argv[1:])
