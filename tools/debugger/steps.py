"""Steps of one thread: which instruction ends them."""

from dataclasses import dataclass
from typing import Any

from weft.emulator.locations import Source
from weft.emulator.running.groups import Frame
from weft.emulator.watching.hooks import Hook
from weft.emulator.watching.stopped import Stopped
from weft.tools.debugger import source_files

KINDS = ("step", "next", "stepi", "nexti", "finish", "until")


@dataclass(eq=False)
class Step:
    """A step of a kind, from where a thread is; `line` and `file` are the end of `until`. A step without a
    wave begins before the first instruction.
    """

    kind: str
    wave: Any = None
    source: Source | None = None
    ptx_line: int = 0
    frame: Frame | None = None
    file: str = ""
    line: int = 0
    count: int = 1
    hook: Hook | None = None

    @classmethod
    def of(cls, kind: str, stopped: Stopped | None, file: str = "", line: int = 0, count: int = 1) -> "Step":
        """A step from where the thread in focus is."""
        if stopped is None:
            return cls(kind, file=file, line=line, count=count)
        return cls(kind, stopped.wave, stopped.source, stopped.line, stopped.frame, file, line, count)

    @property
    def of_instructions(self) -> bool:
        """Whether it is one of PTX instructions."""
        return self.kind in ("stepi", "nexti")

    def ends_all(self, stopped: Stopped) -> bool:
        """Whether the last of `count` steps ends before the instruction that threads are at."""
        if not self.ends(stopped):
            return False
        self.count -= 1
        self.wave, self.source, self.ptx_line = stopped.wave, stopped.source, stopped.line
        self.frame = stopped.frame
        return self.count == 0

    def ends(self, stopped: Stopped) -> bool:
        """Whether the step ends before the instruction that threads are at."""
        deeper = depth(stopped.frame) > depth(self.frame) if self.wave is not None else False
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
        return self._is_new_line(stopped)

    def _is_at(self, stopped: Stopped) -> bool:
        source = stopped.source
        if self.file == "<ptx>":
            return stopped.line == self.line
        return source is not None and source.line == self.line and source.file.endswith(self.file)

    def _is_new_line(self, stopped: Stopped) -> bool:
        source = stopped.source
        if not stopped.launched.map.begins:  # PTX without source: its own lines
            return stopped.line != self.ptx_line
        if source is None:
            return False
        before = self.source
        other = before is None or (source.file, source.line) != (before.file, before.line)
        return other or (self.wave is not None and depth(stopped.frame) < depth(self.frame))

    def _in_called(self, stopped: Stopped) -> bool:
        """Whether threads are in a function of the source that the one of the step calls: these are part of
        the same function of the PTX.
        """
        here, before = stopped.source, self.source
        if here is None or before is None:
            return False
        function = source_files.function_at(here.file, here.line)
        start = source_files.function_at(before.file, before.line)
        if function is None or start is None or function == start:
            return False
        return function.name in source_files.called_by(before.file, start)

    def _is_out(self, stopped: Stopped) -> bool:
        """Whether the function of the step has ended: that of the PTX, or that of the source."""
        if self.frame is not None and self.frame.parent is not None:
            return depth(stopped.frame) < depth(self.frame)
        here, before = stopped.source, self.source
        if here is None or before is None:
            return False
        start = source_files.function_at(before.file, before.line)
        function = source_files.function_at(here.file, here.line)
        return function != start and not self._in_called(stopped)


def depth(frame: Frame | None) -> int:
    """The number of calls that a frame is in."""
    count = 0
    while frame is not None:
        frame, count = frame.parent, count + 1
    return count
