"""What a launch has executed."""

import time
from collections import Counter

from weft.emulator.errors import TimeLimit


class Totals:
    """What a launch has executed so far, over all of its waves; `limit` is in warp instructions."""

    def __init__(self, blocks: int, limit: int | None, seconds: float | None = None) -> None:
        self.seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds
        self.pause: float | None = None
        """The time from which on machines return to their caller, who may stop."""
        self.instructions = 0
        self.limit = limit if limit is not None else 1 << 62
        self.runs = [0] * blocks
        self.bytes = Counter[str]()

    def restart(self) -> None:
        """Forgets what was executed; the time limit stays."""
        self.instructions, self.runs, self.pause = 0, [0] * len(self.runs), None
        self.bytes.clear()

    def pauses(self) -> bool:
        """Whether `pause` has passed."""
        return self.pause is not None and time.monotonic() > self.pause

    def check_time(self, line: int) -> None:
        """Raises TimeLimit if the launch has taken longer than `seconds`."""
        if self._end is not None and time.monotonic() > self._end:
            raise TimeLimit(f"reached the time limit of {self.seconds:.4g} s", line)
