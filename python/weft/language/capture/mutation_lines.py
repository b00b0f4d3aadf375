"""Where functions that aren't captured change objects in loops and branches of the GPU. A kernel with such a
change is traced again for its error message, with Python's hook for lines.
"""

import linecache
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import FrameType
from typing import Any

from weft.errors import Diagnostic, Location, WeftError
from weft.ir import callers
from weft.language.capture import python_objects, trace, tracing_state
from weft.language.capture.rewriting import is_captured_code

_Hook = Callable[[FrameType, str, object], Any]


class Change:
    """The last change of an object that a message names: its line, and that of the kernel which called it."""

    def __init__(self, message: str) -> None:
        self._message = message
        self._before = dict[int, python_objects.Members]()
        self._lines = dict[FrameType, int]()
        self.where: tuple[Location, Location] | None = None

    def hook(self, frame: FrameType, event: str, _: object) -> _Hook | None:
        """Python's hook: notes what the line before has changed."""
        code, is_users = frame.f_code, python_objects.is_users(str(frame.f_globals.get("__name__")))
        if callers.is_hidden(code.co_filename) or is_captured_code(code) or not is_users:
            return None
        if not tracing_state.is_tracing():
            return None
        now = {
            key: (found, python_objects.state(found.value))
            for region in trace.current().regions
            for key, found in (region.inside | region.outside).items()
        }
        if event != "call":
            for key, (found, members) in now.items():
                same = key not in self._before or python_objects.is_same_members(self._before[key], members)
                if not same and f"'{found.name}'" in self._message:
                    self._note(frame)
        self._before = {key: members for key, (_, members) in now.items()}
        self._lines[frame] = frame.f_lineno
        return self.hook

    def _note(self, frame: FrameType) -> None:
        caller: FrameType | None = frame
        while caller is not None and not is_captured_code(caller.f_code):
            caller = caller.f_back
        if caller is not None:
            self.where = _at(frame, self._lines[frame]), _at(caller, caller.f_lineno)


def _at(frame: FrameType, line: int) -> Location:
    """Where a line of a frame's code begins."""
    file = frame.f_code.co_filename
    text = linecache.getline(file, line)
    return Location(file, line, len(text) - len(text.lstrip()) + 1)


def located(error: WeftError, again: Callable[[], object]) -> WeftError:
    """The error with the line of a function that changed the object which it names, if `again`, which traces
    the kernel once more, finds one.
    """
    first = error.diagnostics[0]
    change, before = Change(first.message), sys.gettrace()
    sys.settrace(change.hook)
    try:
        with suppress(Exception):
            again()
    finally:
        sys.settrace(before)
    if change.where is None:
        return error
    where, call = change.where
    notes = Diagnostic("it is called here", call, "note"), *first.notes
    if first.location is not None:
        notes = *notes, Diagnostic("this is the loop or branch", first.location, "note")
    return WeftError(replace(first, location=where, notes=notes), *error.diagnostics[1:])
