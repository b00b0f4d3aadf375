"""What a launch executed, and the sanitizer's findings, as notebooks show them."""

from collections.abc import Sequence
from typing import Any

from weft.display.html import Html

_MOST_COUNTERS = 16


def of_report(report: Any) -> str:
    """HTML of a `weft.emulator.launch.Report`."""
    made = Html("emulated launch", f"{report.instructions:,} warp instructions")
    _list(made, report.findings)
    counters = sorted(report.counters.items(), key=lambda each: (-each[1], each[0]))
    if counters:
        made.table(["counter", "number"], [(name, f"{n:,}") for name, n in counters[:_MOST_COUNTERS]])
    if len(counters) > _MOST_COUNTERS:
        made.note(f"and {len(counters) - _MOST_COUNTERS} counters with smaller numbers")
    if report.printed:
        made.code(report.printed, "printed by the kernel")
    return made.text()


def of_exploration(exploration: Any) -> str:
    """HTML of a `weft.emulator.explore.Exploration`."""
    seeds = exploration.seeds
    made = Html("explored launches", f"without a seed, and with {seeds} seed{'' if seeds == 1 else 's'}")
    if exploration.error is not None:
        made.note(f"{type(exploration.error).__name__}: {exploration.error}")
    _list(made, exploration.findings)
    return made.text()


def of_findings(findings: Sequence[Any]) -> str:
    """HTML of findings of the sanitizer."""
    made = Html("findings of the sanitizer")
    _list(made, findings)
    return made.text()


def _list(made: Html, findings: Sequence[Any]) -> None:
    if not findings:
        made.note("The sanitizer found nothing.")
        return
    rows = []
    for each in findings:
        where = f"{each.line} ({each.source})" if each.source else each.line
        who = "" if each.thread is None else each.thread
        seed = "" if each.seed is None else each.seed
        rows.append((each.rule, each.message, where, who, each.count, seed))
    columns = ["rule", "what is wrong", "line of the PTX", "first thread", "times", "seed"]
    kept = columns if any(each.seed is not None for each in findings) else columns[:-1]
    made.table(kept, [row[: len(kept)] for row in rows])
