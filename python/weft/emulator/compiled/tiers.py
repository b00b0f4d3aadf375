"""When a program is compiled: once the interpreter has run it for about as long as that takes."""

import os
from collections import defaultdict

from weft.emulator.compiled import plan
from weft.emulator.compiled.runtime import Runtime
from weft.emulator.decoding.program import Program
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.checker import Sanitizer
from weft.errors import WeftError, shown
from weft.system import locks

_WORTH = 20_000
"""The steps that the interpreter runs before it compiles a program, and before it compiles more of it."""
_HOT = 20
"""The number of times that the interpreter has run a block that is compiled."""
_VARIABLE = "WEFT_EMULATOR_COMPILED"
_lock = locks.lock()


class Tier:
    """Counts the steps of a program, and compiles its blocks. `at_once`: all, before the first step."""

    def __init__(self, program: Program, *, at_once: bool = False) -> None:
        self.program, self._at_once = program, at_once
        self._lock = locks.lock()
        self._plan: plan.Plan | None = None
        self._steps, self._worth = 0, _WORTH
        self._runs: defaultdict[int, int] = defaultdict(int)
        self._hot: set[int] | None = None
        """The blocks that are compiled; None: all."""
        self.ready = at_once
        """Whether new machines begin with code."""

    def fits(self, wave: Wave) -> bool:
        """Whether code can run a wave: nobody watches each instruction, and turns aren't random."""
        watch = wave.watch
        return (watch is None or isinstance(watch, Sanitizer)) and wave.random is None

    def interpreted(self, block: int, steps: int) -> bool:
        """Counts steps of a block that the interpreter has run; returns whether to compile."""
        self._runs[block] += 1
        self._steps += steps
        if self._at_once or self._steps < self._worth:
            return False
        with self._lock:
            self._steps, self._worth = 0, 4 * self._worth
            hot = {at for at, runs in self._runs.copy().items() if runs >= _HOT}
            if hot == self._hot:
                return False
            self._hot, self._plan, self.ready = hot, None, True
        return True

    def code(self, wave: Wave, limit: int) -> Runtime:
        """Code for a wave; `limit` is in warp instructions."""
        with self._lock:
            if self._plan is None:
                self._plan = plan.make(self.program, self._hot)
            return Runtime(self._plan, wave, limit)


def chosen(compiled: bool | None) -> bool | None:
    """`compiled`, or if that is None the choice of the environment variable. Raises WeftError."""
    if compiled is not None:
        return compiled
    value = os.environ.get(_VARIABLE, "")
    if value not in ("", "0", "1"):
        raise WeftError(f"{_VARIABLE} must be 0 or 1, got {shown(value)}")
    return value == "1" if value else None


def tier_of(program: Program, compiled: bool | None) -> Tier | None:
    """How a program is compiled: at once, never (None), or if it is worth it (`compiled` is None)."""
    if compiled is False or len(program.codes) > 1:
        return None
    with _lock:
        known = program.tier
        # A copy of a program has the tier of its original.
        if not isinstance(known, Tier) or known.program is not program or (compiled and not known.ready):
            known = program.tier = Tier(program, at_once=bool(compiled))
        return known
