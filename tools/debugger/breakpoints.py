"""Breakpoints and watchpoints."""

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from weft.emulator.reading.syntax import Bools
from weft.emulator.watching.hooks import PTX, Hook, is_file, positions_of
from weft.emulator.watching.stopped import Launched, Stopped
from weft.errors import WeftError
from weft.isa.suggest import did_you_mean
from weft.tools.debugger import source_files

_PLACE = re.compile(r"(?:(?P<file>.+):)?(?P<line>\d+)")


@dataclass(frozen=True)
class Place:
    """Where a breakpoint is: a line of a source file whose path ends in `file`, or of the PTX."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"PTX line {self.line}" if self.file == PTX else f"{Path(self.file).name}:{self.line}"


@dataclass(eq=False)
class Breakpoint:
    """A breakpoint. `pending`: no kernel so far has code there."""

    number: int
    place: Place
    condition: ast.expr | None = None
    text: str = ""
    temporary: bool = False
    enabled: bool = True
    ignore: int = 0
    hits: int = 0
    hooks: list[Hook] = field(default_factory=list)
    unavailable: str | None = ""
    """Why the condition had no value where threads have reached the line; None once it has had one."""

    def __str__(self) -> str:
        parts = [f"{self.number}  {'temporary ' * self.temporary}breakpoint at {self.place}"]
        parts += [f"if {self.text}"] if self.text else []
        parts += [] if self.enabled else ["(disabled)"]
        parts += [f"ignored {self.ignore} more times"] if self.ignore else []
        parts += [f"hit {self.hits} time{'' if self.hits == 1 else 's'}"] if self.hits else []
        return ", ".join(parts[:1]) + "".join(f" {each}" for each in parts[1:])


@dataclass(eq=False)
class Watchpoint:
    """Memory that is watched: `kind` is watch (changes), rwatch (reads) or awatch (any access)."""

    number: int
    kind: str
    space: str
    cta: tuple[int, int, int] | None
    first: int
    size: int
    name: str
    enabled: bool = True
    hits: int = 0
    hooks: list[Hook] = field(default_factory=list)
    before: bytes | None = None
    """The bytes as they were."""
    dtype: np.dtype[np.generic] | None = None
    """The type of the element that is watched, if it is one of an array."""
    writers: Bools | None = None
    """The threads that have written the bytes last, or for which an asynchronous unit has."""

    @property
    def last(self) -> int:
        """The last byte, or cell."""
        return self.first + self.size - 1

    def __str__(self) -> str:
        state = "" if self.enabled else " (disabled)"
        hits = f" hit {self.hits} time{'' if self.hits == 1 else 's'}" if self.hits else ""
        return f"{self.number}  {self.kind} {self.name}{state}{hits}"

    def content(self, stopped: Stopped) -> bytes | None:
        """The bytes now; None if the CTA doesn't run."""
        if self.space == "global":
            return bytes(stopped.global_bytes(self.first, self.size))
        if self.cta is None or self.cta not in stopped.ctas():
            return None
        number = stopped.cta_number(self.cta)
        if self.space == "shared":
            return bytes(stopped.shared(number)[self.first : self.last + 1])
        cells = stopped.tensor_memory(number)
        return np.ascontiguousarray(cells[:, self.first : self.last + 1]).tobytes()

    def change(self, before: bytes, now: bytes) -> str:
        """What has changed, in words."""
        if self.dtype is not None:
            old, new = (np.frombuffer(each, self.dtype)[0] for each in (before, now))
            return f"  old {old}\n  new {new}"
        if self.size <= 16 and self.space != "tensor":
            return f"  old {before.hex(' ')}\n  new {now.hex(' ')}"
        changed = np.flatnonzero(np.frombuffer(before, np.uint8) != np.frombuffer(now, np.uint8))
        return f"  {len(changed)} of {len(now)} bytes have changed, the first at +0x{int(changed[0]):x}"


Point = Breakpoint | Watchpoint


def place_of(text: str, launched: Launched | None, default: str) -> Place:
    """What `[FILE:]LINE`, `ptx:LINE` or the name of a function means. Raises WeftError for what is neither.

    `default` is the file of lines without one.
    """
    match = _PLACE.fullmatch(text.strip())
    if match is None:
        return _function_place(text.strip(), launched, default)
    file, line = match["file"], int(match["line"])
    if line < 1:
        raise WeftError(f"lines count from 1, got {line}")
    if file is None:
        return Place(default, line)
    return Place(PTX, line) if file.lower() == "ptx" else Place(file, line)


def _function_place(name: str, launched: Launched | None, default: str) -> Place:
    files = launched.map.files if launched is not None else [default]
    found = {each.name: (file, each) for file in files for each in source_files.functions(file)}
    if name in found:
        file, function = found[name]
        lines = launched.map.lines_of(file) if launched is not None else []
        inside = [line for line in lines if function.first < line <= function.last]
        return Place(file, min(inside, default=function.first))
    if launched is not None and name in launched.program.codes:
        code = launched.program.codes[name]
        body = code.function.body
        return Place(PTX, body[0].location.line if body else code.function.location.line)
    known = [*found, *(launched.program.codes if launched is not None else ())]
    raise WeftError(
        f"expects LINE, FILE:LINE, ptx:LINE or a function, got '{name}'{did_you_mean(name, known)}"
    )


def pending(place: Place, launched: Launched | None) -> str:
    """Why a breakpoint has to wait for another kernel; empty if this one has code there. Raises WeftError if
    no kernel can have code there, with the nearest lines.
    """
    if launched is None:
        return "no kernel has been launched"
    map_ = launched.map
    if positions_of(map_, place.file, place.line):
        return ""
    if place.file == PTX:
        nearest = _nearest(place.line, sorted(map_.positions))
        raise WeftError(f"PTX line {place.line} has no instruction: {nearest}")
    files = [file for file in map_.files if is_file(file, place.file)]
    if not files:
        if not map_.files:
            raise WeftError(
                f"the PTX has no lines of source files (.loc): break ptx:{place.line} is its line"
            )
        if Path(place.file).exists():
            return f"{launched.kernel} has no code of {place.file}"
        listed = ", ".join(Path(file).name for file in map_.files)
        hint = did_you_mean(Path(place.file).name, [Path(file).name for file in map_.files])
        raise WeftError(f"no file '{place.file}': {launched.kernel} has code of {listed}{hint}")
    (file, *_) = files
    lines = map_.lines_of(file)
    function = source_files.function_at(file, place.line)
    if function is not None and not any(function.first <= line <= function.last for line in lines):
        return f"{launched.kernel} has no code of {function.name}"
    raise WeftError(f"{place} has no code: {_nearest(place.line, lines)}")


def _nearest(line: int, lines: list[int]) -> str:
    before = [each for each in lines if each < line]
    after = [each for each in lines if each > line]
    near = [str(each) for each in (*before[-1:], *after[:1])]
    return f"the nearest line{'s' if len(near) > 1 else ''} with code {'are' if len(near) > 1 else 'is'} " + (
        " and ".join(near)
    )
