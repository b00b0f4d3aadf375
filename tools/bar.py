"""A progress bar for what takes longer than a moment."""

import sys
import time
from typing import Any, Self

_PATIENCE_SECONDS = 2.0


class Bar:
    """A bar on stderr where that is a terminal, from the third second on, until its block ends; called with
    the steps that are done and their total, which may change. It also shows these numbers, of `unit`, and the
    time that is left.
    """

    def __init__(self, label: str, unit: str = "") -> None:
        self._label, self._unit = label, unit
        self._start = time.perf_counter()
        self._shown: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._shown is not None:
            self._shown.stop()

    def __call__(self, done: int, total: int) -> None:
        if self._shown is None:
            if sys.stderr is None or not sys.stderr.isatty():  # a file would get empty lines
                return
            if time.perf_counter() - self._start < _PATIENCE_SECONDS:
                return
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            numbers = MofNCompleteColumn(), TextColumn(self._unit)
            columns = TextColumn("{task.description}"), BarColumn(), *numbers, TimeRemainingColumn()
            self._shown = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._shown.add_task(self._label, total=total)
            self._shown.start()
        self._shown.update(self._task, completed=done, total=total)
