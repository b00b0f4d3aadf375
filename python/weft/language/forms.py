"""Calls of the language's functions with arguments that they don't have, at the user's line."""

import inspect
import re
import sys
from types import FrameType, TracebackType
from typing import Any

from weft.errors import Diagnostic, Location, WeftError

_CALLED = re.compile(r"(?:[\w.<>]+\.)?(\w+)\(\) (.+)", re.DOTALL)


def complaint(error: TypeError) -> WeftError | None:
    """The error for a call that Python refused because of its arguments, with the function's form; None for
    any other error.
    """
    frame, line = _innermost(error.__traceback__)
    match = _CALLED.fullmatch(str(error))
    if frame is None or match is None:
        return None
    called = _called(match[1])
    if called is None or frame.f_globals.get("__name__", "").startswith("weft."):
        return None
    public, function = called
    form = f"{public}{_form(function)}"
    where = Location(frame.f_code.co_filename, line, 1)
    return WeftError(Diagnostic(f"{public} {match[2]}: write {form}", where))


def _innermost(traceback: TracebackType | None) -> tuple[FrameType | None, int]:
    """The frame that raised an error, and its line."""
    if traceback is None:
        return None, 0
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame, traceback.tb_lineno


def _called(name: str) -> tuple[str, Any] | None:
    """The function, or method, of the language with this name of Python's, and its public name."""
    language = sys.modules["weft.language"]  # which imports this module
    public = {each: getattr(language, each) for each in language.__all__}
    for own, value in public.items():
        if inspect.isfunction(value) and value.__name__ == name:
            return f"w.{own}", value
    classes = {own: value for own, value in public.items() if inspect.isclass(value)}
    for own, value in classes.items():
        method = value.__dict__.get(name)
        if inspect.isfunction(method):
            return f"{own}.{name}", method
    return None


def _form(function: Any) -> str:
    """The parameters of a function, without their types."""
    parameters = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in inspect.signature(function).parameters.values()
        if each.name != "self"
    ]
    return str(inspect.Signature(parameters))
