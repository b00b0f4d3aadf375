"""Steps of one thread: which instruction ends them."""

from dataclasses import dataclass

from weft.emulator.running.groups import Frame
from weft.emulator.watching.hooks import Hook
from weft.emulator.watching.stopped import Stopped
from weft.tools.debugger import source_files


@dataclass(eq=False)
class Step:
    """A step of a kind, from where the thread in focus is; without a `start` it begins before the first
    instruction. `line` and `file` are the end of `until`.
    """

    kind: str
    start: Stopped | None
    file: str = ""
    line: int = 0
    count: int = 1
    hook: Hook | None = None

    def ends_all(self, stopped: Stopped) -> bool:
        """Whether the last of `count` steps ends before the instruction that threads are at."""
        if not self.ends(stopped):
            return False
        self.count -= 1
        self.start = stopped
        return self.count == 0

    def ends(self, stopped: Stopped) -> bool:
        """Whether the step ends before the instruction that threads are at."""
        deeper = self.start is not None and depth(stopped.frame) > depth(self.start.frame)
        if self.kind == "stepi":
            return True
        if self.kind == "nexti":
            return not deeper
        if self.kind == "until":
            return not deeper and self._is_at(stopped)
        if self.kind == "finish":
            return self._is_out(stopped)
        if self.kind == "next" and (deeper or self._in_called(stopped)):
            return False
        source = stopped.source
        start = self.start
        if not stopped.launched.map.begins:  # PTX without source: its own lines
            return start is None or stopped.line != start.line
        if source is None:
            return False
        if start is None or start.source is None or source[:2] != start.source[:2]:
            return True
        return depth(stopped.frame) < depth(start.frame)

    def _is_at(self, stopped: Stopped) -> bool:
        source = stopped.source
        if self.file == "<ptx>":
            return stopped.line == self.line
        return source is not None and source.line == self.line and source.file.endswith(self.file)

    def _functions(self, stopped: Stopped) -> tuple[source_files.Function | None, ...]:
        """The functions of the source where the step began, and where threads are."""
        sources = None if self.start is None else self.start.source, stopped.source
        return tuple(each and source_files.function_at(each.file, each.line) for each in sources)

    def _in_called(self, stopped: Stopped) -> bool:
        """Whether threads are in a function of the source that the one of the step calls: these are part of
        the same function of the PTX.
        """
        start, here = self._functions(stopped)
        if start is None or here is None or here == start or self.start is None or self.start.source is None:
            return False
        return here.name in source_files.called_by(self.start.source.file, start)

    def _is_out(self, stopped: Stopped) -> bool:
        """Whether the function of the step has ended: that of the PTX, or that of the source."""
        before = self.start
        if before is not None and before.frame is not None and before.frame.parent is not None:
            return depth(stopped.frame) < depth(before.frame)
        if stopped.source is None or before is None or before.source is None:
            return False
        start, here = self._functions(stopped)
        return here != start and not self._in_called(stopped)


def depth(frame: Frame | None) -> int:
    """The number of calls that a frame is in."""
    count = 0
    while frame is not None:
        frame, count = frame.parent, count + 1
    return count
