"""Calls of the language's functions with arguments that they don't have, at the user's line."""

import inspect
import linecache
import re
import sys
from itertools import islice
from types import TracebackType
from typing import Any

from weft.errors import Diagnostic, Location, WeftError
from weft.ir import callers
from weft.language import names
from weft.language.foreign import Foreign
from weft.language.mistakes import not_called
from weft.language.refusals import refusal

_CALLED = re.compile(r"(?:[\w.<>]+\.)??(?:(\w+)\.)?(\w+)\(\) (.+)", re.DOTALL)


def complaint(error: TypeError | AttributeError) -> WeftError | None:
    """The error for a call that Python refused because of its arguments, with the function's form, or for a
    name that the language or a value of it doesn't have; None for any other error.
    """
    where, is_own = _raised_at(error.__traceback__)
    message = _missing(error, is_own) if isinstance(error, AttributeError) else _refused(error, is_own)
    if message is None and where is not None and not is_own and "object is not callable" in str(error):
        message = _not_called(error.__traceback__)
    return None if message is None or where is None else WeftError(Diagnostic(message, where))


def _refused(error: TypeError, is_own: bool) -> str | None:
    """The message about a value without an operator of Python, or about a call, outside of Weft, with other
    arguments than the function has.
    """
    if (found := refusal(error)) is not None:
        return found
    match = None if is_own else _CALLED.fullmatch(str(error))
    if match is None or (called := _called(match[1], match[2])) is None:
        return None
    public, function = called
    if match[2] == "__init__":
        return not_called(public)
    instead = names.instead_of_parameter(match[3])
    return f"{public} {match[3]}: write {public}{_form(function)}{instead}"


def _missing(error: AttributeError, is_own: bool) -> str | None:
    """The message about an attribute of the language, or of a value of it, that doesn't exist."""
    language = sys.modules["weft.language"]
    if error.obj is language:
        return str(error)
    if is_own or not isinstance(error.obj, Foreign):
        return None
    known = [each for each in language.__all__ if each.islower()]
    instead = names.instead_of_attribute(str(error.name), error.obj, known)
    return f"{error.obj} has no '{error.name}'{instead}"


def _not_called(traceback: TracebackType | None) -> str | None:
    """The message about an attribute of a value of the language that is a number or tuple, and was called."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return None
    frame = traceback.tb_frame
    first, last, begin, end = next(islice(frame.f_code.co_positions(), traceback.tb_lasti // 2, None))
    line = linecache.getline(frame.f_code.co_filename, first or 0)
    part = line.encode()[begin:end].decode() if first == last else ""
    match = re.match(r"(\w+)\.(\w+)\(", part)
    if match is None or not isinstance(frame.f_locals.get(match[1]), Foreign):
        return None
    owner, name = frame.f_locals[match[1]], match[2]
    instead = f"write {match[1]}.{name}"
    if name in ("rows", "columns"):
        instead = (
            "load parts one by one, or choose elements by w.where, w.row and w.column; only buffers have "
            f".{name}(first, count)"
        )
    return f"'{name}' of {owner} can't be called: {instead}"


def _raised_at(traceback: TracebackType | None) -> tuple[Location | None, bool]:
    """The innermost code outside of Weft that was running when an error was raised, and whether Weft's own
    raised it.
    """
    found, is_own = None, False
    while traceback is not None:
        is_own = callers.is_hidden(traceback.tb_frame.f_code.co_filename)
        found = found if is_own else traceback
        traceback = traceback.tb_next
    if found is None:
        return None, is_own
    code = found.tb_frame.f_code
    _, _, column, _ = next(islice(code.co_positions(), found.tb_lasti // 2, None))
    return Location(code.co_filename, found.tb_lineno, 1 if column is None else column + 1), is_own


def _called(owner: str | None, name: str) -> tuple[str, Any] | None:
    """The function, or method, of the language with this name of Python's, and its public name. `owner` is
    the method's class, if that is known.
    """
    language = sys.modules["weft.language"]  # which imports this module
    public = {each: getattr(language, each) for each in language.__all__}
    for own, value in public.items():
        if inspect.isfunction(value) and value.__name__ == name:
            return f"w.{own}", value
    classes = {own: value for own, value in public.items() if inspect.isclass(value)}
    for own, value in sorted(classes.items(), key=lambda each: each[1].__name__ != owner):
        method = value.__dict__.get(name)
        if inspect.isfunction(method):
            if owner not in (None, value.__name__) and not name.startswith(
                "__"
            ):  # of a class that isn't public
                return f"x.{name}", method
            return {"__init__": own, "__call__": "w.f32"}.get(name, f"{own}.{name}"), method
    return None


def _form(function: Any) -> str:
    """The parameters of a function, without their types."""
    parameters = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in inspect.signature(function).parameters.values()
        if each.name != "self"
    ]
    return str(inspect.Signature(parameters))
