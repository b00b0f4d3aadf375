"""When a program is compiled: once the interpreter has run it for about as long as that takes."""

from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING

from weft.emulator import background
from weft.emulator.decoding.program import Program
from weft.emulator.running.code import Code
from weft.emulator.running.wave import Wave
from weft.emulator.sanitizer.checker import Sanitizer
from weft.system import late_imports, locks

if TYPE_CHECKING:
    from weft.emulator.compiled.plan import Plan

_WORTH = 20_000
"""The steps that the interpreter runs before it compiles a program, and before it compiles more of it."""
_HOT = 20
"""The number of times that the interpreter has run a block that is compiled."""
_NEVER = 1 << 62
_lock = locks.lock()


class Tier:
    """Counts the steps of a program, and compiles its blocks. `at_once`: all, before the first step.
    Otherwise, another process compiles them where that is possible, and the interpreter goes on.
    """

    def __init__(self, program: Program, *, at_once: bool = False) -> None:
        self._program, self._at_once = program, at_once
        self._lock = locks.lock()
        self._plan: object = None
        self._steps, self._worth = 0, _WORTH
        self._runs: defaultdict[int, int] = defaultdict(int)
        self._work: background.Work | None = None
        self._shared: background.Work | None = None
        self._made: bytes | None = None
        """A plan that another process has made."""
        self._hot: set[int] | None = None
        """The blocks that are compiled; None: all."""
        self._ready = at_once

    def of(self, program: Program) -> bool:
        return self._program is program

    @property
    def ready(self) -> bool:
        self._look()
        return self._ready

    def fits(self, wave: Wave) -> bool:
        watch = wave.watch
        return (watch is None or isinstance(watch, Sanitizer)) and wave.random is None

    def interpreted(self, block: int, steps: int) -> bool:
        self._runs[block] += 1
        self._steps += steps
        if self._work is not None:
            return self._look()
        if self._at_once or self._steps < self._worth:
            return False
        with self._lock:
            apart = background.possible()
            if apart and background.busy():
                self._steps -= self._worth // 4
                return False
            self._steps, self._worth = 0, 4 * self._worth
            hot = {at for at, runs in self._runs.copy().items() if runs >= _HOT}
            if hot == self._hot:
                return False
            begun = apart and self._begin(hot)
            self._hot = hot  # an interrupt until now lets a later call begin again
            if begun:
                return False
            self._plan = self._made = None
            self._ready = True
        return True

    def _begin(self, hot: set[int]) -> bool:
        """Lets another process compile; False if the system has none."""
        try:
            work = self._shared or background.Work()
            work.begin(lambda: self._packed(hot))
        except OSError:
            return False
        self._work, self._shared = work, None
        return True

    def share(self) -> None:
        """Lets copies of this process that are made now compile once together."""
        with self._lock, suppress(OSError):
            if self._work is None and not self._ready and background.possible():
                self._shared = background.Work()

    def _look(self) -> bool:
        """Whether another process has compiled now."""
        with self._lock:
            if self._work is None:
                return False
            try:
                made = self._work.result()
            except background.LostError:
                self._work, self._worth = None, _NEVER
                background.warn_of_loss()
                return False
            if made is None:
                return False
            self._made, self._plan, self._work, self._ready = made, None, None, True
            self._steps = 0
        return True

    def _compiled(self, hot: set[int] | None) -> "Plan":
        """The plan of these blocks, not linked."""
        with late_imports.whole():
            from weft.emulator.compiled import plan
        return plan.make(self._program, hot)

    def _packed(self, hot: set[int]) -> bytes:
        with late_imports.whole():
            from weft.emulator.compiled import packing
        return packing.packed(self._compiled(hot))

    def code(self, wave: Wave, limit: int) -> Code:
        with late_imports.whole():
            from weft.emulator.compiled import packing, plan, runtime
        with self._lock:
            made = self._plan
            if not isinstance(made, plan.Plan):
                if self._made is not None:
                    made = packing.unpacked(self._program, self._made)
                else:
                    made = plan.link(self._compiled(self._hot))
                self._plan = made
        return runtime.Runtime(made, wave, limit)


def chosen(compiled: bool | None) -> bool | None:
    """`compiled`, or if that is None the choice of the environment variable. Raises WeftError."""
    return background.switch("WEFT_EMULATOR_COMPILED") if compiled is None else compiled


def tier_of(program: Program, compiled: bool | None) -> Tier | None:
    """How a program is compiled: at once, never (None), or if it is worth it (`compiled` is None)."""
    compiled = chosen(compiled)
    if compiled is False or len(program.codes) > 1:
        return None
    with _lock:
        known = program.tier
        # A copy of a program has the tier of its original.
        if not isinstance(known, Tier) or not known.of(program) or (compiled and not known.ready):
            known = program.tier = Tier(program, at_once=bool(compiled))
        return known
