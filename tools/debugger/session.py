"""The state of a debugging session: what stops a kernel, and the thread in focus."""

import ast
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Protocol

import numpy as np
import numpy.typing as npt

from weft.emulator.errors import Deadlock, Fault
from weft.emulator.running.lanes import lanes_in_words
from weft.emulator.sanitizer import Finding
from weft.emulator.watching.hooks import PTX, Hooks, positions_of
from weft.emulator.watching.stopped import Cta, Launched, MemoryEvent, Stopped
from weft.emulator.watching.variables import Variables
from weft.errors import WeftError
from weft.isa.suggest import did_you_mean
from weft.tools.debugger import expressions, source_files
from weft.tools.debugger.breakpoints import Breakpoint, Point, Watchpoint, pending, place_of
from weft.tools.debugger.names import COORDINATES, ThreadNames, Threads, Unavailable, listed, range_of
from weft.tools.debugger.source_files import shown_path
from weft.tools.debugger.steps import Step

_MODIFYING = ("st", "atom", "red", "cp", "stmatrix", "wmma.store", "mbarrier", "tcgen05", "multimem")


class Quit(BaseException):
    """Ends the launch and the program: the user has had enough."""


class Front(Protocol):
    """Who talks to the user."""

    def say(self, text: str) -> None:
        """Shows a text."""

    def interact(self) -> None:
        """Carries out commands until one lets the kernel go on."""


@dataclass
class Focus:
    """The thread that commands are about."""

    cta: Cta = (0, 0, 0)
    warp: int = 0
    lane: int = 0

    @classmethod
    def first(cls, stopped: Stopped) -> "Focus":
        """The first of the threads that have stopped."""
        row, lane = stopped.first()
        return cls(stopped.wave.cta(row), int(stopped.wave.warp_of_row[row]), lane)

    def __str__(self) -> str:
        return f"cta {self.cta} warp {self.warp} lane {self.lane}"


class Session:
    """One run of a program under the debugger. `front` talks to the user at every stop."""

    def __init__(self, front: Front, file: str = "", *, starts: bool = True) -> None:
        self.front, self.file = front, file
        self.hooks = Hooks()
        self.launched: Launched | None = None
        self.stopped: Stopped | None = None
        self.focus = Focus()
        self.points: list[Point] = []
        self.findings: list[Finding] = []
        self.stops_at_findings = True
        self.errors: list[Fault | Deadlock] = []
        self.launches = 0
        self.ends = False
        """Whether the user ends the session."""
        self._starts = starts
        self._numbers = 0
        self._step: Step | None = None
        self._variables: tuple[Launched, Variables] | None = None
        self._event: tuple[int, tuple[int, int], int] | None = None
        hooks = self.hooks
        hooks.on_launch(self._begun)
        hooks.on_end(self._ended)
        hooks.on_finding(self._found)
        hooks.on_error(self._failed)

    # What the program does

    def _begun(self, launched: Launched) -> None:
        self.launched, self.stopped = launched, None
        self.launches += 1
        self._event = None
        launch = launched.launch
        for point in self.points:
            if isinstance(point, Watchpoint):
                point.before = None
        if self.launches == 1 and self._starts:
            self.front.say(
                f"kernel {launched.kernel} is about to run: grid {launch.grid}, block {launch.block}, "
                f"{launch.total_ctas} CTA{'' if launch.total_ctas == 1 else 's'}"
            )
            self.front.interact()

    def _ended(self, launched: Launched) -> None:
        self.stopped = None
        if self._step is not None:
            self._stop_stepping()
        for point in self.points:
            if isinstance(point, Breakpoint) and point.unavailable:
                self.front.say(f"breakpoint {point.number} was reached without a value: {point.unavailable}")
                point.unavailable = ""
        if not self.ends:
            self.front.say(f"kernel {launched.kernel} has ended")

    def _found(self, stopped: Stopped | None, finding: Finding) -> None:
        self.findings.append(finding)
        if not self.stops_at_findings or stopped is None:
            return
        if finding.thread is not None and finding.thread.ctaid in stopped.ctas():
            self._focus_on(finding.thread.ctaid, finding.thread.tid, stopped)
        self._stop(stopped, f"finding: {finding}", focus=finding.thread is None)

    def _failed(self, stopped: Stopped, error: Fault | Deadlock) -> None:
        self.errors.append(error)
        thread = getattr(error, "thread", None)
        what = error.reason if isinstance(error, Fault) else str(error)
        if thread is not None and thread.ctaid in stopped.ctas():
            self._focus_on(thread.ctaid, thread.tid, stopped)
        self._stop(stopped, f"the kernel can't continue: {what}", focus=thread is None)

    def _focus_on(self, cta: Cta, tid: tuple[int, int, int], stopped: Stopped) -> None:
        x, y, _ = stopped.wave.launch.block
        thread = tid[0] + x * (tid[1] + y * tid[2])
        self.focus = Focus(cta, thread // 32, thread % 32)

    # Stopping

    def _stop(self, stopped: Stopped, reason: str, *, focus: bool = True, ptx: bool = False) -> None:
        """Lets the user look at the state; returns when the kernel may go on."""
        self._stop_stepping()
        self.stopped = stopped
        self._event = self._event_of(stopped)
        at = self.place_of_focus()
        if focus and stopped.threads.any() and (at is None or not stopped.threads[at]):
            self.focus = Focus.first(stopped)
        if reason:
            self.front.say(reason)
        self.front.say(self.where())
        if ptx and stopped.source is not None:
            self.front.say(f"PTX {stopped.line}  {self.ptx_line(stopped.line)}")
        self.front.interact()
        self.stopped = None

    def _event_of(self, stopped: Stopped) -> tuple[int, tuple[int, int], int]:
        return id(stopped.wave), stopped.position, stopped.wave.ticks

    def _has_stopped(self, stopped: Stopped) -> bool:
        """Whether the user has looked at this very moment already."""
        return self._event == self._event_of(stopped)

    def place_of_focus(self) -> tuple[int, int] | None:
        """The row and the lane in the wave of the thread in focus; None if its CTA doesn't run."""
        if self.stopped is None or self.focus.cta not in self.stopped.ctas():
            return None
        cta = self.stopped.cta_number(self.focus.cta)
        return cta * self.stopped.wave.launch.warps + self.focus.warp, self.focus.lane

    def here(self) -> Stopped:
        """The state. Raises WeftError if no thread runs."""
        if self.stopped is None:
            raise WeftError("no thread runs yet: continue to a breakpoint, or step to the first line")
        return self.stopped

    def thread(self) -> tuple[Stopped, int, int]:
        """The state at the thread in focus: with its own position. Raises WeftError if it doesn't run."""
        stopped = self.here()
        at = self.place_of_focus()
        if at is None:
            raise WeftError(
                f"CTA {self.focus.cta} doesn't run now: focus on one of {range_of(stopped.ctas())}"
            )
        row, lane = at
        return stopped.at_thread(row, lane), row, lane

    # Names

    def variables(self) -> Variables:
        """The variables of the kernel."""
        launched = self.launched
        assert launched is not None
        if self._variables is None or self._variables[0] is not launched:
            self._variables = launched, Variables(launched.text, launched.program)
        return self._variables[1]

    def names(self, threads: Threads) -> ThreadNames:
        """What names mean for threads."""
        assert self.launched is not None
        return ThreadNames(threads, self.variables(), self.launched.arrays)

    def number_of(self, text: str) -> int:
        """The whole number that an expression is in the thread in focus. Raises WeftError for others."""
        value = expressions.evaluated(expressions.parsed(text), self.names(Threads.one(*self.thread())))
        array = np.asarray(value)
        if isinstance(value, tuple | expressions.Tile) or array.size != 1 or array.dtype.kind not in "iu":
            raise WeftError(f"expects a whole number, got '{text}'")
        return int(array.reshape(-1)[0])

    # Breakpoints

    def number(self) -> int:
        """The number of the next breakpoint."""
        self._numbers += 1
        return self._numbers

    def default_file(self) -> str:
        """The file that lines without one are of."""
        if self.stopped is not None:
            stopped = self.thread()[0] if self.place_of_focus() is not None else self.stopped
            if stopped.source is not None:
                return stopped.source.file
        if self.launched is None:
            return self.file
        map_ = self.launched.map
        if not map_.files:
            return PTX
        own = [file for file in map_.files if file == self.file or Path(file) == Path(self.file).resolve()]
        return own[0] if own else max(map_.files, key=lambda file: len(map_.lines_of(file)))

    def add_breakpoint(self, place_text: str, condition: str, *, temporary: bool) -> tuple[Breakpoint, str]:
        """A new breakpoint, and why it is pending, if it is. Raises WeftError."""
        place = place_of(place_text, self.launched, self.default_file())
        node = self.condition(condition)
        why = pending(place, self.launched)
        point = Breakpoint(self.number(), place, node, condition, temporary)
        self.points.append(point)
        self.enable(point)
        return point, why

    def condition(self, text: str) -> ast.expr | None:
        """The condition of a breakpoint; None for an empty one. Raises WeftError for unknown names."""
        if not text:
            return None
        node, launched = expressions.parsed(text), self.launched
        if launched is None:
            return node
        variables = {part for each in self.variables().all for part in (each.name, each.function)}
        registers = {
            register.name
            for code in launched.program.codes.values()
            for register in code.function.scope.registers
        }
        roots = {re.split(r"[.\[]", name)[0] for name in variables}
        known = {*roots, *registers, *launched.arrays, *COORDINATES}
        for name in expressions.names_in(node):
            if name not in known:
                raise WeftError(
                    f"no variable '{name}' in {launched.kernel}: there are {listed(known - registers)}"
                    f"{did_you_mean(name, known)}"
                )
        return node

    def is_at(self, point: Breakpoint) -> bool:
        """Whether the kernel has stopped at a breakpoint."""
        if self.stopped is None or self.launched is None:
            return False
        positions = positions_of(self.launched.map, point.place.file, point.place.line)
        return self.stopped.position in positions

    def enable(self, point: Point) -> None:
        """Makes a point stop kernels."""
        point.enabled = True
        if not point.hooks and isinstance(point, Watchpoint):
            self._watch(point)
        elif not point.hooks and isinstance(point, Breakpoint):
            line, file = point.place.line, point.place.file
            point.hooks.append(
                self.hooks.on_line(line, lambda stopped: self._reached(point, stopped), file=file)
            )

    def disable(self, point: Point) -> None:
        """Lets kernels pass a point."""
        point.enabled = False
        for hook in point.hooks:
            hook.remove()
        point.hooks.clear()

    def delete(self, point: Point) -> None:
        """Removes a point."""
        self.disable(point)
        self.points.remove(point)

    def _reached(self, point: Breakpoint, stopped: Stopped) -> None:
        if self._has_stopped(stopped) or not point.enabled:
            return
        self.stopped = stopped
        try:
            threads, problem = self._matching(point.condition, stopped), ""
            point.unavailable = None
        except Unavailable as error:  # so the condition can't hold
            if point.unavailable is not None:
                point.unavailable = str(error)
            return
        except WeftError as error:
            threads, problem = stopped.threads, f" (its condition failed: {error})"
        finally:
            self.stopped = None
        if not threads.any():
            return
        if point.ignore:
            point.ignore -= 1
            return
        point.hits += 1
        if point.temporary:
            self.delete(point)
        chosen = stopped.of(threads)
        self._stop(
            chosen, f"{'temporary ' * point.temporary}breakpoint {point.number}, {_who(chosen)}{problem}"
        )

    def _matching(self, condition: ast.expr | None, stopped: Stopped) -> npt.NDArray[np.bool_]:
        """The threads for which a condition holds."""
        if condition is None:
            return stopped.threads
        found = np.zeros_like(stopped.threads)
        for row in np.flatnonzero(stopped.threads.any(axis=1)).tolist():
            threads = Threads.warp(stopped, row, stopped.threads[row])
            value = expressions.evaluated(condition, self.names(threads))
            if isinstance(value, tuple | expressions.Tile) or np.ndim(value) > 1:
                raise WeftError("a condition must be one number for each thread")
            holds = np.broadcast_to(np.asarray(value, np.bool_), len(threads.lanes))
            found[row, threads.lanes] = holds
        return found

    # Watchpoints

    def add_watchpoint(self, point: Watchpoint) -> None:
        """Begins to watch memory."""
        self.points.append(point)
        self._watch(point)

    def _watch(self, point: Watchpoint) -> None:
        if point.kind != "watch":
            hook = self.hooks.on_access(
                lambda stopped, event: self._accessed(point, stopped, event), [point.space]
            )
            point.hooks.append(hook)
            return
        point.before = point.content(self.stopped) if self.stopped is not None else None
        point.hooks.append(
            self.hooks.on_access(lambda stopped, event: self._wrote(point, stopped, event), [point.space])
        )
        for opcode in _MODIFYING:
            point.hooks += [
                self.hooks.on_instruction(lambda stopped: self._look(point, stopped), opcode),
                self.hooks.after_instruction(lambda stopped: self._look(point, stopped), opcode),
            ]

    def _look(self, point: Watchpoint, stopped: Stopped) -> None:
        try:
            now = point.content(stopped)
        except WeftError:
            return
        before, point.before = point.before, now if now is not None else point.before
        if before is None or now is None or before == now:
            return
        point.hits += 1
        chosen, point.writers = stopped if point.writers is None else stopped.of(point.writers), None
        change = point.change(before, now)
        self._stop(chosen, f"watchpoint {point.number}: {point.name}, {_who(chosen)}\n{change}")

    def _wrote(self, point: Watchpoint, stopped: Stopped, event: MemoryEvent) -> None:
        if event.kind != "load" and self._is_of(point, stopped, event):
            threads = event.within(point.first, point.last)
            point.writers = threads if threads.any() else point.writers

    def _is_of(self, point: Watchpoint, stopped: Stopped, event: MemoryEvent) -> bool:
        """Whether an access is one to the memory of the CTA that is watched."""
        return event.cta is None or (point.cta is not None and stopped.ctas()[event.cta] == point.cta)

    def _accessed(self, point: Watchpoint, stopped: Stopped, event: MemoryEvent) -> None:
        if point.kind == "rwatch" and event.kind != "load":
            return
        if not self._is_of(point, stopped, event):
            return
        threads = event.within(point.first, point.last)
        if not threads.any() or self._has_stopped(stopped):
            return
        point.hits += 1
        unit = f" by {event.unit}" if event.unit else ""
        chosen = stopped.of(threads)
        self._stop(chosen, f"{point.kind} {point.number}: {point.name}: {event.kind}{unit}, {_who(chosen)}")

    # Going on

    def step(self, step: Step) -> None:
        """Lets the kernel go on to the end of a step of the thread in focus."""
        self._step = step
        step.hook = self.hooks.on_instruction(lambda stopped: self._stepped(step, stopped))

    def _stop_stepping(self) -> None:
        if self._step is not None and self._step.hook is not None:
            self._step.hook.remove()
        self._step = None

    def _stepped(self, step: Step, stopped: Stopped) -> None:
        if step is not self._step or self._has_stopped(stopped):
            return
        self.stopped = stopped
        at = self.place_of_focus()
        self.stopped = None
        if at is None or not stopped.wave.live[at]:
            if step.start is not None and step.start.wave.live.any() and at is None:
                return  # its wave waits for this one
            if step.start is not None:
                self._stop(stopped, f"the thread in focus, {self.focus}, has exited")
                return
            self.focus = Focus.first(stopped)
        elif not stopped.threads[at]:
            return
        if step.ends_all(stopped):
            self._stop(stopped, "", ptx=step.kind in ("stepi", "nexti"))

    # Interrupts

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """In the block, Ctrl-C stops a kernel that runs."""

        def handler(number: int, frame: FrameType | None) -> None:
            if self.hooks.current is None or self.stopped is not None:
                raise KeyboardInterrupt
            self.interrupt()

        try:
            before = signal.signal(signal.SIGINT, handler)
        except ValueError:  # not in the main thread
            yield
            return
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def interrupt(self) -> None:
        """Stops the kernel that runs, at the next block of instructions."""

        def stop(stopped: Stopped) -> None:
            hook.remove()
            self._stop(stopped, "interrupted")

        hook = self.hooks.on_block(stop)

    # What is shown

    def where(self) -> str:
        """Where the thread in focus is: its line, and the text of that."""
        stopped, row, lane = self.thread()
        source, text = stopped.source, []
        if not stopped.wave.live[row, lane]:
            return f"[{self.focus}] has exited"
        state = next((s for s in stopped.warps() if s.row == row and s.lanes[lane]), None)
        waits = f", {state.waits}" if state is not None and state.waits else ""
        if source is not None:
            function = source_files.function_at(source.file, source.line)
            name = function.name if function is not None else stopped.function
            text.append(f"[{self.focus}] {name} at {shown_path(source.file)}:{source.line}{waits}")
            if line := source_files.line_of(source.file, source.line):
                text.append(f"{source.line:>5}  {line}")
            return "\n".join(text)
        text.append(f"[{self.focus}] {stopped.function} at PTX line {stopped.line}{waits}")
        text.append(f"{stopped.line:>5}  {self.ptx_line(stopped.line)}")
        return "\n".join(text)

    def ptx_line(self, line: int) -> str:
        """A line of the PTX."""
        assert self.launched is not None
        rows = self.launched.text.split("\n")
        return rows[line - 1].strip().expandtabs(1) if 0 < line <= len(rows) else ""


def _who(stopped: Stopped) -> str:
    """Threads in words."""
    wave, rows = stopped.wave, np.flatnonzero(stopped.threads.any(axis=1)).tolist()
    if not rows:
        return "no thread"
    first = rows[0]
    lanes = lanes_in_words(stopped.threads[first])
    more = f" and {len(rows) - 1} more warp{'' if len(rows) == 2 else 's'}" if len(rows) > 1 else ""
    return f"cta {wave.cta(first)} warp {int(wave.warp_of_row[first])} {lanes}{more}"
